"""CoordinatorMetrics: the groups consumer-coordinator-metrics (ConsumerCoordinatorMetrics, AbstractCoordinator) and
consumer-share-coordinator-metrics.

The thread that holds the lock of the consumer's network client writes; any thread reads.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kafkatools.core.metrics.registry import MetricsRegistry
from kafkatools.core.metrics.sensor import Sensor, Stats, averages, counts, total
from kafkatools.core.protocol.api_versions import ApiKey

GROUP = "consumer-coordinator-metrics"
SHARE_GROUP = "consumer-share-coordinator-metrics"
_HEARTBEAT: Stats = {**counts("heartbeat"), "heartbeat-response-time-max": Sensor.maximum}
_COMMIT: Stats = {**averages("commit-latency"), **counts("commit")}
_JOIN: Stats = {**averages("join-time"), **counts("join")}
_SYNC: Stats = {**averages("sync-time"), **counts("sync")}
_REBALANCE: Stats = {**averages("rebalance-latency"), "rebalance-latency-total": total}
_MS_PER_SECOND = 1000


class CoordinatorMetrics:
    """The metrics of a member's requests to its coordinator, and of its rebalances."""

    def __init__(self, registry: MetricsRegistry, group: str, *, has_joins: bool) -> None:
        """`has_joins`: of the classic protocol, with JoinGroup and SyncGroup."""
        self._registry = registry
        self._group = group
        heartbeat = registry.sensor(group, _HEARTBEAT)
        self._requests = {
            ApiKey.HEARTBEAT: heartbeat,
            ApiKey.CONSUMER_GROUP_HEARTBEAT: heartbeat,
            ApiKey.SHARE_GROUP_HEARTBEAT: heartbeat,
        }
        if has_joins:
            self._requests[ApiKey.JOIN_GROUP] = registry.sensor(group, _JOIN)
            self._requests[ApiKey.SYNC_GROUP] = registry.sensor(group, _SYNC)
        self._last_heartbeat_ms: int | None = None
        registry.gauge(group, "last-heartbeat-seconds-ago", lambda now_ms: _ago(self._last_heartbeat_ms, now_ms))

    def add_commits(self) -> None:
        """Add the metrics of OffsetCommit, which share groups lack."""
        self._requests[ApiKey.OFFSET_COMMIT] = self._registry.sensor(self._group, _COMMIT)

    def sent(self, api_key: int, now_ms: int) -> None:
        """Note that a request is sent to the coordinator."""
        if api_key in (ApiKey.HEARTBEAT, ApiKey.CONSUMER_GROUP_HEARTBEAT, ApiKey.SHARE_GROUP_HEARTBEAT):
            self._last_heartbeat_ms = now_ms

    def answered(self, api_key: int, latency_ms: int, now_ms: int, *, is_refusal: bool) -> None:
        """Record the latency of a response of the coordinator, in ms. Refused joins and syncs do not count, as in
        Kafka."""
        sensor = self._requests.get(ApiKey(api_key))
        if sensor is not None and not (is_refusal and api_key in (ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP)):
            sensor.record(latency_ms, now_ms)


class RebalanceMetrics:
    """The metrics of a consumer's rebalances and of its rebalance listener."""

    def __init__(self, registry: MetricsRegistry, assigned_count: Callable[[], int]) -> None:
        """`assigned_count` returns the number of assigned partitions."""
        self._clock = registry.clock
        self._latency = registry.sensor(GROUP, _REBALANCE)
        self._rebalances = registry.hourly_sensor(GROUP, "rebalance")
        self._failed = registry.hourly_sensor(GROUP, "failed-rebalance")
        self._calls = {
            name: registry.sensor(GROUP, averages(f"partition-{name}-latency"))
            for name in ("assigned", "revoked", "lost")
        }
        self._started_ms: int | None = None
        self._ended_ms: int | None = None
        registry.gauge(GROUP, "assigned-partitions", lambda now_ms: assigned_count())
        registry.gauge(GROUP, "last-rebalance-seconds-ago", lambda now_ms: _ago(self._ended_ms, now_ms))

    def started(self, now_ms: int) -> None:
        """Note the start of a rebalance; one that is under way goes on."""
        if self._started_ms is None:
            self._started_ms = now_ms

    def joins(self, now_ms: int) -> None:
        """Note a JoinGroup: it starts a rebalance, or repeats a failed attempt of the one under way, as Kafka
        counts."""
        self.failed(now_ms)
        self.started(now_ms)

    def ended(self, now_ms: int) -> None:
        """Record the rebalance under way as successful. No effect without one."""
        if self._started_ms is not None:
            self._latency.record(now_ms - self._started_ms, now_ms)
            self._rebalances.record(1, now_ms)
            self._started_ms, self._ended_ms = None, now_ms

    def failed(self, now_ms: int) -> None:
        """Count a failed attempt of the rebalance under way. No effect without one."""
        if self._started_ms is not None:
            self._failed.record(1, now_ms)

    @contextmanager
    def time(self, call: str) -> Iterator[None]:
        """Record the duration of a call of the listener: `assigned`, `revoked` or `lost`."""
        started_ms = self._clock.now_ms()
        yield
        now_ms = self._clock.now_ms()
        self._calls[call].record(now_ms - started_ms, now_ms)


class ShareRebalanceMetrics:
    """The number of assignments that a member of a share group received."""

    def __init__(self, registry: MetricsRegistry) -> None:
        self._rebalances = registry.hourly_sensor(SHARE_GROUP, "rebalance")

    def assigned(self, now_ms: int) -> None:
        """Count a new assignment."""
        self._rebalances.record(1, now_ms)


def _ago(at_ms: int | None, now_ms: int) -> float:
    """Whole seconds since a time; NaN when it never was, where Kafka has -1."""
    return math.nan if at_ms is None else (now_ms - at_ms) // _MS_PER_SECOND
