"""TelemetrySender: pushes a client's metrics to a broker that asks for them (KIP-714; Kafka's ClientTelemetryReporter
and NetworkClient.TelemetrySender).

Rules, as in Kafka: the first request asks for the subscription, on a connection that the client has anyway. A broker
without the API ends all of it. Without requested metrics the client asks again after the push interval. The first push
comes after 0.5 to 1.5 intervals, so that clients that start together spread out. All requests go to one broker for as
long as its connection is usable. A closing client pushes once more. `NetworkClient.poll` calls `maybe_update`.
"""

from __future__ import annotations

import logging
import uuid
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from kafkatools.core.client_log import ClientLog
from kafkatools.core.clock import Clock
from kafkatools.core.closing import ensure_close_timeout
from kafkatools.core.config import Config
from kafkatools.core.errors import (
    IllegalState,
    KafkaError,
    TelemetryTooLarge,
    ThrottlingQuotaExceeded,
    UnknownSubscriptionId,
    UnsupportedCompressionType,
    UnsupportedVersion,
    error_for_code,
)
from kafkatools.core.metrics.registry import MetricsRegistry
from kafkatools.core.net.bodies import build_body
from kafkatools.core.net.client_requests import ClientRequest, ClientResponse
from kafkatools.core.net.connection_states import FOREVER_MS
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.uuids import UUID_ZERO, uuid_text

if TYPE_CHECKING:
    from kafkatools.core.metrics.collector import MetricsCollector
    from kafkatools.core.net.metadata_updater import Nodes
    from kafkatools.core.protocol.entities import Entity

_log = logging.getLogger(__name__)

DEFAULT_INTERVAL_MS = 300_000
LAST_PUSH_MS = 1000
"""How long a closing client waits for the response to its last push."""
_ALL = ("*",)
_LABELS = {
    "transactional.id": "transactional_id",
    "group.id": "group_id",
    "group.instance.id": "group_instance_id",
    "client.rack": "client_rack",
}
_AT_ONCE = (UnknownSubscriptionId, UnsupportedCompressionType)
_LATER = (TelemetryTooLarge, ThrottlingQuotaExceeded)


class Subscription(NamedTuple):
    """The metrics that a broker asks a client for: names begin with one of `metrics`. `codec`: the compression."""

    instance_id: uuid.UUID
    subscription_id: int
    metrics: tuple[str, ...]
    interval_ms: int
    codec: int
    is_delta: bool

    def selects(self, name: str) -> bool:
        """Return whether the subscription includes a metric."""
        return self.metrics == _ALL or name.startswith(self.metrics)


class TelemetrySender:
    """The subscription and the pushes of one client. For the thread that polls the client; others may read
    `instance_id` and `is_ended`."""

    def __init__(
        self,
        client: Nodes,
        config: Config,
        registry: MetricsRegistry,
        clock: Clock,
        member_id: Callable[[], str] = str,
        jitter: Callable[[], float] | None = None,
    ) -> None:
        """`member_id()` returns the id of a consumer in its group, empty without one. `jitter()` returns the factor of
        the first push interval: 0.5 to 1.5 by default."""
        self._client = client
        self._config = config
        self._registry = registry
        self._clock = clock
        self._jitter = jitter or _jitter
        self._log = ClientLog.of(_log, config)
        self._started_wall_ms = clock.wall_ms()
        self._collector: MetricsCollector | None = None
        self._subscription: Subscription | None = None
        self._node: int | None = None
        self._due_ms = 0
        """The time of the next request; FOREVER_MS while one is in flight."""
        self._member_id = member_id
        self._left_member_id = ""
        self._must_push = False
        self._last_push_ends_ms: int | None = None
        self.is_ended = False
        """Whether the client sends no more requests of telemetry."""
        self._settled: list[Callable[[], object]] = []

    @property
    def instance_id(self) -> str | None:
        """The client instance id that a broker gave this client, as Kafka writes it; None before."""
        return None if self._subscription is None else uuid_text(self._subscription.instance_id)

    def call_when_settled(self, callback: Callable[[], object]) -> None:
        """Call back once the client has its instance id, or will get none. Any thread may call this; the callback may
        be called twice."""
        self._settled.append(callback)
        if self._subscription is not None or self.is_ended:
            callback()

    # -- requests --

    def maybe_update(self, now_ms: int) -> int:
        """Send the next request if it is due and a broker can take it; return the ms until the next call is needed."""
        if now_ms < self._due_ms:
            return self._due_ms - now_ms
        if not self._find_node(now_ms):
            # The first connection is made for other requests; it wakes the poll that comes here again.
            return self._config.reconnect_backoff_ms if self._must_push else FOREVER_MS
        self._due_ms = FOREVER_MS
        try:
            request = self._push() if self._must_push else self._get()
        except Exception:  # noqa: BLE001 - a metric or a label must not fail the application's poll
            self._log.warning("The client's metrics could not be collected for a push", exc_info=True)
            if self._last_push_ends_ms is not None:
                self._end()
                return FOREVER_MS
            self._wait(self._interval_ms)
            return self._interval_ms
        try:
            self._client.send_internal(request, now_ms)
        except UnsupportedVersion:
            self._end()
        return FOREVER_MS

    def _find_node(self, now_ms: int) -> bool:
        """Choose a broker with a usable connection, the last one if possible; connect to one only for a push."""
        client = self._client
        if self._node is None or not client.can_send(self._node, now_ms):
            nodes = client.metadata.cluster.nodes
            self._node = next((node for node in nodes if client.can_send(node, now_ms)), None)
            if self._node is None and self._must_push:
                target = client.least_loaded_node(now_ms)
                if target is not None:
                    client.ready(target, now_ms)
        return self._node is not None

    def _request(
        self, api_key: ApiKey, fields: Mapping[str, object], completed: Callable[[ClientResponse], None]
    ) -> ClientRequest:
        assert self._node is not None
        return ClientRequest(self._node, api_key, lambda version: build_body(api_key, version, fields), completed)

    def _get(self) -> ClientRequest:
        known = UUID_ZERO if self._subscription is None else self._subscription.instance_id
        fields = {"client_instance_id": known}
        return self._request(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, fields, self._handle_subscription)

    def _push(self) -> ClientRequest:
        from kafkatools.core.metrics.collector import MetricsCollector

        subscription = self._subscription
        assert subscription is not None
        if self._collector is None:
            self._collector = MetricsCollector(self._registry, self._resource, self._started_wall_ms)
        is_last = self._last_push_ends_ms is not None
        data = self._collector.collect(subscription.selects, self._clock.wall_ms(), is_delta=subscription.is_delta)
        codec, packed = self._compress(subscription.codec, data)
        fields = {
            "client_instance_id": subscription.instance_id,
            "subscription_id": subscription.subscription_id,
            "terminating": is_last,
            "compression_type": codec,
            "metrics": packed,
        }
        completed = self._handle_last_push if is_last else self._handle_push
        return self._request(ApiKey.PUSH_TELEMETRY, fields, completed)

    def _compress(self, codec: int, data: bytes) -> tuple[int, bytes]:
        """Return the data with its codec, uncompressed if the compression fails."""
        from kafkatools.core.records.compression import CompressionType, compress

        try:
            return codec, compress(codec, data)
        except Exception:  # noqa: BLE001 - an optional package may be missing or broken
            self._log.debug("The client's metrics are pushed uncompressed: compression failed", exc_info=True)
            return CompressionType.NONE, data

    def note_member(self) -> None:
        """Keep the member id for the last push, because the group is left before it."""
        try:
            self._left_member_id = self._member_id()
        except Exception:  # noqa: BLE001 - a label of a metric must not stop the consumer's close
            self._log.debug("The last push of metrics has no member id: it could not be read", exc_info=True)

    def _resource(self) -> dict[str, str]:
        config = self._config
        labels = {
            label: str(config[name])
            for name, label in _LABELS.items()
            if name in config.table and config.is_explicit(name) and config[name]
        }
        member_id = self._member_id() or self._left_member_id
        return {**labels, "group_member_id": member_id} if member_id else labels

    # -- responses --

    def _handle_subscription(self, response: ClientResponse) -> None:
        if self._last_push_ends_ms is not None or self._has_failed(response):
            return
        before, subscription = self._subscription, _subscription(response.body)
        if subscription is None:
            self._log.warning("Invalid telemetry subscription from the broker; no metrics are pushed")
            self._end()
            return
        if before is None:
            self._log.debug("Client telemetry registered with client instance id: %s", uuid_text(subscription[0]))
        elif before.is_delta != subscription.is_delta and self._collector is not None:
            self._collector.reset()
        self._subscription = subscription
        self._settle()
        self._must_push = bool(subscription.metrics)
        interval_ms = subscription.interval_ms
        self._wait(round(self._jitter() * interval_ms) if self._must_push else interval_ms)

    def _handle_push(self, response: ClientResponse) -> None:
        if self._last_push_ends_ms is None and not self._has_failed(response):
            self._wait(self._interval_ms)

    def _handle_last_push(self, response: ClientResponse) -> None:
        self._end()

    def _has_failed(self, response: ClientResponse) -> bool:
        """Return whether a request failed, and if so decide when to ask for the subscription again, if at all."""
        error = response.error
        if error is None and response.body is not None:
            code = int(response.body.error_code)
            if code == 0:
                return False
            error = error_for_code(code)()
        elif response.disconnected or error is None or error.retriable:
            self._retry(DEFAULT_INTERVAL_MS, error)
            return True
        if isinstance(error, _AT_ONCE):
            self._retry(0, error)
        elif isinstance(error, _LATER):
            self._retry(self._interval_ms, error)
        else:
            if not isinstance(error, UnsupportedVersion):
                self._log.warning("The broker refused client metrics for good, so none are pushed: %s", error)
            self._end()
        return True

    @property
    def _interval_ms(self) -> int:
        return DEFAULT_INTERVAL_MS if self._subscription is None else self._subscription.interval_ms

    def _retry(self, delay_ms: int, error: KafkaError | None) -> None:
        self._log.debug("A telemetry request failed; asking for the subscription in %d ms: %s", delay_ms, error)
        self._must_push = False
        self._wait(delay_ms)

    def _wait(self, delay_ms: int) -> None:
        self._due_ms = self._clock.now_ms() + delay_ms

    def _end(self) -> None:
        self.is_ended = True
        self._must_push = False
        self._due_ms = FOREVER_MS
        self._settle()

    def _settle(self) -> None:
        settled, self._settled = self._settled, []
        for callback in settled:
            callback()

    # -- the end --

    def has_last_push(self, now_ms: int, deadline_ms: int | None = None) -> bool:
        """Return whether a closing client must still poll, to push its metrics for the last time: for LAST_PUSH_MS at
        most, until the deadline, and only if the broker asked for metrics. The first call begins the last push."""
        if self._last_push_ends_ms is None:
            if not self._must_push or (deadline_ms is not None and now_ms >= deadline_ms):
                return False
            ends_ms = now_ms + LAST_PUSH_MS
            self._last_push_ends_ms = ends_ms if deadline_ms is None else min(ends_ms, deadline_ms)
            self._due_ms = now_ms
        return not self.is_ended and now_ms < self._last_push_ends_ms


def ensure_enabled(telemetry: TelemetrySender | None, timeout_ms: int | None) -> TelemetrySender:
    """Return the telemetry of a client whose instance id is requested. Raises IllegalState with
    enable.metrics.push=false, ValueError for a negative time-out."""
    ensure_close_timeout(timeout_ms)
    if telemetry is None:
        raise IllegalState("Telemetry is not enabled. Set config `enable.metrics.push` to `true`.")
    return telemetry


def _jitter() -> float:
    import random

    return random.uniform(0.5, 1.5)


def _subscription(body: Entity) -> Subscription | None:
    """Return the subscription of a response; None if it is invalid. The broker lists compressions by preference."""
    instance_id = body.client_instance_id
    if instance_id is None or instance_id == UUID_ZERO:
        return None
    from kafkatools.core.records.compression import CompressionType

    codec = next(
        (int(codec) for codec in body.accepted_compression_types if 0 <= int(codec) <= CompressionType.ZSTD),
        CompressionType.NONE,
    )
    interval_ms = int(body.push_interval)
    return Subscription(
        instance_id,
        body.subscription_id,
        tuple(body.requested_metrics),
        interval_ms if interval_ms > 0 else DEFAULT_INTERVAL_MS,
        codec,
        body.delta_temporality,
    )
