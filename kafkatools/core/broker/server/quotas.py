"""Client quotas: what clients used in the last seconds, and their throttle times (Kafka's ClientQuotaManager,
ClientRequestQuotaManager and QuotaUtils).

Rules: Produce and Fetch count bytes; requests count their processing time in per cent. The most specific entity with a
quota decides: user and client id, user, client id, each by name before its default. All connections of a user, of a
client id, or of both, share one rate, also when the quota is a default. A client above its quota gets a throttle time,
and its connection is not read until it is over (KIP-219). A Fetch then gets no records and is not counted. Without
quotas nothing is measured. `mutation_quotas.py` has the quotas of changes, `connection_rates.py` those of
connections.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence

from kafkatools.core.broker.metadata.controller.client_quotas import (
    CLIENT_ID,
    CONSUMER_BYTE_RATE,
    PRODUCER_BYTE_RATE,
    REQUEST_PERCENTAGE,
    USER,
    ClientQuotas,
    Entity,
    entity_of,
)
from kafkatools.core.broker.server.requests import Request
from kafkatools.core.clock import Clock
from kafkatools.core.config import Config

PERCENT_PER_SECOND_NS = 1e7
MAX_CLIENT_IDS = 10_000
LONGEST_THROTTLE_MS = 2**31 - 1
Tags = tuple[str, str]
"""A user name and a client id; empty for a rate that does not depend on it."""


class Rate:
    """A rate over the last windows (org.apache.kafka.common.metrics.stats.Rate). It is averaged over at least all
    windows but one, so that a short burst does not count as a high rate."""

    __slots__ = ("_samples", "_window_count", "_window_ms")

    def __init__(self, window_ms: int, window_count: int) -> None:
        self._window_ms = window_ms
        self._window_count = window_count
        self._samples: deque[list[float]] = deque()

    def record(self, value: float, now_ms: int) -> None:
        """Add a value to the current window; a negative one takes an earlier value back."""
        samples = self._samples
        if not samples or now_ms - samples[-1][0] >= self._window_ms:
            samples.append([now_ms, 0.0])
            self._expire(now_ms)
        samples[-1][1] += value

    def _expire(self, now_ms: int) -> None:
        oldest = now_ms - self._window_ms * self._window_count
        while self._samples and self._samples[0][0] <= oldest:
            self._samples.popleft()

    def elapsed_ms(self, now_ms: int) -> int:
        """The time over which the rate is averaged, in ms (Rate.windowSize)."""
        elapsed = int(now_ms - self._samples[0][0]) if self._samples else 0
        missing = self._window_count - 1 - elapsed // self._window_ms
        return max(elapsed + max(0, missing) * self._window_ms, self._window_ms)

    def per_second(self, now_ms: int) -> float:
        """The rate per second at `now_ms`."""
        self._expire(now_ms)
        return sum(total for _, total in self._samples) * 1000 / self.elapsed_ms(now_ms)

    def throttle_ms(self, bound: float, now_ms: int) -> int:
        """The time in ms until the rate is down to `bound`, 0 if it is not above (QuotaUtils.throttleTime). At most
        LONGEST_THROTTLE_MS: a response has no room for more."""
        rate = self.per_second(now_ms)
        if not rate > bound:
            return 0
        wait_ms = (rate - bound) / bound * self.elapsed_ms(now_ms) if bound else LONGEST_THROTTLE_MS
        return round(min(wait_ms, LONGEST_THROTTLE_MS))


class QuotaLimits:
    """The limits of all clients for one kind of quota."""

    def __init__(self, quotas: ClientQuotas, key: str) -> None:
        self._quotas = quotas
        self._key = key
        self._limits: dict[Tags, tuple[float, Tags] | None] = {}
        self._version = -1

    def of(self, client: Tags) -> tuple[float, Tags] | None:
        """The limit of a client and the key of the rate that it shares; None without a quota (DefaultQuotaCallback)."""
        if self._version != self._quotas.version:
            self._version = self._quotas.version
            self._limits.clear()
        if client not in self._limits:
            if len(self._limits) >= MAX_CLIENT_IDS:  # a client that invents client ids must not fill the memory
                self._limits.clear()
            self._limits[client] = None
            for entity, tags in _candidates(*client):
                bound = self._quotas.by_entity.get(entity, {}).get(self._key)
                if bound is not None:
                    self._limits[client] = bound, tags
                    break
        return self._limits[client]


class ClientQuotaManager:
    """The rates of all clients for one kind of quota."""

    def __init__(self, quotas: ClientQuotas, key: str, make_rate: Callable[[], Rate]) -> None:
        self._limits = QuotaLimits(quotas, key)
        self._make_rate = make_rate
        self._rates: dict[Tags, Rate] = {}

    def record(self, client: Tags, value: float, now_ms: int) -> int:
        """Count what a client, a user name and a client id, used; returns its throttle time in ms. Without a quota for
        the client nothing is counted and the time is 0."""
        limit = self._limits.of(client)
        if limit is None:
            return 0
        bound, tags = limit
        rate = self._rates.get(tags)
        if rate is None:
            if len(self._rates) >= MAX_CLIENT_IDS:
                self._rates.clear()
            rate = self._rates[tags] = self._make_rate()
        rate.record(value, now_ms)
        return rate.throttle_ms(bound, now_ms)

    def bound(self, client: Tags) -> float:
        """The quota of a client per second; infinite without one."""
        limit = self._limits.of(client)
        return math.inf if limit is None else limit[0]

    def take_back(self, client: Tags, value: float, now_ms: int) -> None:
        """Subtract what `record` counted, because it was not sent after all."""
        limit = self._limits.of(client)
        if limit is not None and limit[1] in self._rates:
            self._rates[limit[1]].record(-value, now_ms)


def _candidates(user: str, client_id: str) -> Sequence[tuple[Entity, Tags]]:
    """The quota entities of a client, the most specific first, each with the key of its rate."""
    both, by_user, by_client = (user, client_id), (user, ""), ("", client_id)
    return (
        (entity_of({USER: user, CLIENT_ID: client_id}), both),
        (entity_of({USER: user, CLIENT_ID: None}), both),
        (entity_of({USER: user}), by_user),
        (entity_of({USER: None, CLIENT_ID: client_id}), both),
        (entity_of({USER: None, CLIENT_ID: None}), both),
        (entity_of({USER: None}), by_user),
        (entity_of({CLIENT_ID: client_id}), by_client),
        (entity_of({CLIENT_ID: None}), by_client),
    )


def client_of(request: Request) -> Tags:
    """The user name and the client id of a request."""
    return request.principal.partition(":")[2], request.client_id or ""


class Quotas:
    """The client quotas of a broker: produce and fetch byte rates, and request percentage."""

    def __init__(self, quotas: ClientQuotas, config: Config, clock: Clock) -> None:
        window_ms, count = config.quota_window_size_seconds * 1000, config.quota_window_num

        def make_rate() -> Rate:
            return Rate(window_ms, count)

        self._by_entity = quotas.by_entity
        self._clock = clock
        self._max_request_throttle_ms = window_ms
        self._full_windows_s: int = config.quota_window_size_seconds * (count - 1)
        self._produce = ClientQuotaManager(quotas, PRODUCER_BYTE_RATE, make_rate)
        self._fetch = ClientQuotaManager(quotas, CONSUMER_BYTE_RATE, make_rate)
        self._request = ClientQuotaManager(quotas, REQUEST_PERCENTAGE, make_rate)

    @property
    def is_active(self) -> bool:
        """Return whether any quota is set."""
        return bool(self._by_entity)

    def begin(self, request: Request) -> None:
        """Start to measure the processing time of a request."""
        request.measure(self, self._clock.now_ns())

    def note_request(self, request: Request) -> None:
        """Count the processing time of a request and raise its throttle time, for this at most to one quota window.
        Later waiting and further calls are not counted."""
        if request.started_ns == 0:
            return
        elapsed_ns, request.started_ns = self._clock.now_ns() - request.started_ns, 0
        used = elapsed_ns / PERCENT_PER_SECOND_NS
        throttle_ms = self._request.record(client_of(request), used, self._clock.now_ms())
        request.throttle_ms = max(request.throttle_ms, min(throttle_ms, self._max_request_throttle_ms))

    def note_produce(self, request: Request, size_bytes: int) -> None:
        """Count the bytes of a Produce request and raise its throttle time."""
        throttle_ms = self._produce.record(client_of(request), size_bytes, self._clock.now_ms())
        request.throttle_ms = max(request.throttle_ms, throttle_ms)

    def most_fetch_bytes(self, request: Request) -> float:
        """The bytes that a Fetch may return to a client that got none lately (getMaxValueInQuotaWindow). A larger
        response would be throttled each time, so the client would never get it."""
        return self._fetch.bound(client_of(request)) * self._full_windows_s

    def note_fetch(self, request: Request, size_bytes: int) -> bool:
        """Count the processing time and the bytes of a Fetch response. Returns False if the client is throttled: it
        then gets no records, and the bytes are not counted."""
        client, now_ms = client_of(request), self._clock.now_ms()
        self.note_request(request)
        request.throttle_ms = max(request.throttle_ms, self._fetch.record(client, size_bytes, now_ms))
        if request.throttle_ms:
            self._fetch.take_back(client, size_bytes, now_ms)
        return request.throttle_ms == 0
