"""The quota `controller_mutation_rate`: how many partitions a client may create and delete (KIP-599, Kafka's
ControllerMutationQuotaManager and TokenBucket).

Rules: a client has a bucket of tokens, one for each partition; it is full after quota windows without a change. A
request that finds the bucket below zero is over the quota. A strict quota then refuses each further topic with
THROTTLING_QUOTA_EXCEEDED, a permissive one, for clients older than KIP-599, makes the change. Both return the time
until the bucket is at zero again, and the connection is not read before.
"""

from __future__ import annotations

from kafkatools.core.broker.metadata.controller.client_quotas import CONTROLLER_MUTATION_RATE, ClientQuotas
from kafkatools.core.broker.server.quotas import LONGEST_THROTTLE_MS, MAX_CLIENT_IDS, QuotaLimits, Tags, client_of
from kafkatools.core.broker.server.requests import Request
from kafkatools.core.clock import Clock
from kafkatools.core.config import Config
from kafkatools.core.errors import ThrottlingQuotaExceeded


class TokenBucket:
    """Tokens that come back at a rate per second, up to the burst of all quota windows. A new bucket is full."""

    __slots__ = ("_burst_s", "_tokens", "_updated_ms")

    def __init__(self, burst_s: int, rate: float, now_ms: int) -> None:
        self._burst_s = burst_s
        self._tokens = burst_s * rate
        self._updated_ms = now_ms

    def take(self, count: float, rate: float, now_ms: int) -> None:
        """Remove tokens; the bucket may fall below zero."""
        self._refill(rate, now_ms)
        self._tokens = min(self._burst_s * rate, self._tokens - count)

    def throttle_ms(self, rate: float, now_ms: int) -> int:
        """Return the time in ms until the bucket is at zero, at most LONGEST_THROTTLE_MS; 0 if it is not below."""
        self._refill(rate, now_ms)
        return round(min(-self._tokens / rate * 1000, LONGEST_THROTTLE_MS)) if self._tokens < 0 else 0

    def _refill(self, rate: float, now_ms: int) -> None:
        self._tokens = min(self._burst_s * rate, self._tokens + rate * (now_ms - self._updated_ms) / 1000)
        self._updated_ms = now_ms


class MutationQuota:
    """The quota of one request. Without a limit for its client it counts nothing."""

    def __init__(self, bucket: TokenBucket | None, rate: float, clock: Clock, *, is_strict: bool) -> None:
        self._bucket = bucket
        self._rate = rate
        self._clock = clock
        self._is_strict = is_strict
        self._throttle_ms = self._noted_ms = 0

    def charge(self, partitions: int) -> None:
        """Count partitions that are created or deleted. Raises ThrottlingQuotaExceeded if the quota is strict and
        exceeded."""
        if self._bucket is None:
            return
        now_ms = self._clock.now_ms()
        if self._is_strict:
            self._note(now_ms)
            if self._throttle_ms:
                raise ThrottlingQuotaExceeded()
        self._bucket.take(partitions, self._rate, now_ms)
        if not self._is_strict:
            self._note(now_ms)

    def _note(self, now_ms: int) -> None:
        assert self._bucket is not None
        self._throttle_ms, self._noted_ms = self._bucket.throttle_ms(self._rate, now_ms), now_ms

    @property
    def throttle_ms(self) -> int:
        """The throttle time of the request in ms, less the time since the quota was exceeded."""
        return max(0, self._throttle_ms - (self._clock.now_ms() - self._noted_ms)) if self._throttle_ms else 0


class MutationQuotas:
    """The controller's quotas of all clients."""

    def __init__(self, quotas: ClientQuotas, config: Config, clock: Clock) -> None:
        self._by_entity = quotas.by_entity
        self._limits = QuotaLimits(quotas, CONTROLLER_MUTATION_RATE)
        self._clock = clock
        self._burst_s: int = config.controller_quota_window_num * config.controller_quota_window_size_seconds
        self._buckets: dict[Tags, TokenBucket] = {}

    def of(self, request: Request, strict_since: int) -> MutationQuota:
        """Return the quota of a request: strict from version `strict_since` on, permissive before."""
        limit = self._limits.of(client_of(request)) if self._by_entity else None
        is_strict = request.version >= strict_since
        if limit is None:
            return MutationQuota(None, 0, self._clock, is_strict=is_strict)
        rate, tags = limit
        bucket = self._buckets.get(tags)
        if bucket is None:
            if len(self._buckets) >= MAX_CLIENT_IDS:
                self._buckets.clear()
            bucket = self._buckets[tags] = TokenBucket(self._burst_s, rate, self._clock.now_ms())
        return MutationQuota(bucket, rate, self._clock, is_strict=is_strict)
