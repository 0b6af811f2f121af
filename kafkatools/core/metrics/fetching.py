"""FetchMetrics and ShareFetchMetrics: what consumers fetch (Kafka's FetchMetricsManager, ShareFetchMetricsManager).

The records of a response count when its last partition has been handed out, as in Kafka. Sizes are those of the fetched
batches: compressed, and with their headers. Only the thread that polls writes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

from kafkatools.core.metrics.registry import MetricsRegistry
from kafkatools.core.metrics.sensor import Sensor, Stats, averages, counts, last, sums
from kafkatools.core.topic_partition import TopicPartition

GROUP = "consumer-fetch-manager-metrics"
SHARE_GROUP = "consumer-share-fetch-manager-metrics"
_SIZE: Stats = {**sums("bytes-consumed"), **averages("fetch-size")}
_RECORDS: Stats = {**sums("records-consumed"), "records-per-request-avg": Sensor.average}
_LAG: Stats = {"records-lag": last, **averages("records-lag")}
_LEAD: Stats = {"records-lead": last, "records-lead-avg": Sensor.average, "records-lead-min": Sensor.minimum}
_LARGEST_LAG: Stats = {"records-lag-max": Sensor.maximum}
_SMALLEST_LEAD: Stats = {"records-lead-min": Sensor.minimum}
_LATENCY: Stats = {**averages("fetch-latency"), **counts("fetch")}
_SHARED_RECORDS: Stats = {**sums("records-consumed"), **averages("records-per-request")}
_REPLICA = "preferred-read-replica"


class FetchLatency:
    """The latency, throttle time and number of the Fetch or ShareFetch requests of a consumer."""

    def __init__(self, registry: MetricsRegistry, group: str) -> None:
        self._latency = registry.sensor(group, _LATENCY)
        self._throttle_time = registry.sensor(group, averages("fetch-throttle-time"))

    def answered(self, latency_ms: int, throttle_ms: int, now_ms: int) -> None:
        """Record the latency and throttle time of a response, in ms."""
        self._latency.record(latency_ms, now_ms)
        self._throttle_time.record(throttle_ms, now_ms)


class FetchedCounts:
    """The bytes and records by topic that were handed out of one response. `remaining`: how many of its partitions have
    more."""

    __slots__ = ("remaining", "records", "sizes")

    def __init__(self, remaining: int) -> None:
        self.remaining = remaining
        self.sizes: Counter[str] = Counter()
        self.records: Counter[str] = Counter()


class _PartitionSensors(NamedTuple):
    lag: Sensor
    lead: Sensor


class FetchMetrics:
    """The metrics of what a consumer fetches: of the whole consumer, of topics and of assigned partitions."""

    def __init__(self, registry: MetricsRegistry) -> None:
        self._registry = registry
        self._size = registry.sensor(GROUP, _SIZE)
        self._records = registry.sensor(GROUP, _RECORDS)
        self._lag = registry.sensor(GROUP, _LARGEST_LAG)
        self._lead = registry.sensor(GROUP, _SMALLEST_LEAD)
        self.latency = FetchLatency(registry, GROUP)
        self._topics: dict[str, tuple[Sensor, Sensor]] = {}
        self._partitions: dict[TopicPartition, _PartitionSensors | None] = {}

    def _of_topic(self, topic: str) -> tuple[Sensor, Sensor]:
        sensors = self._topics.get(topic)
        if sensors is None:
            tags = {"topic": topic}
            sensors = self._registry.sensor(GROUP, _SIZE, tags), self._registry.sensor(GROUP, _RECORDS, tags)
            self._topics[topic] = sensors
        return sensors

    def handed_out(self, counted: FetchedCounts, now_ms: int) -> None:
        """Count that a partition of a response was handed out; record the response's figures after the last one."""
        counted.remaining -= 1
        if counted.remaining:
            return
        self._size.record(counted.sizes.total(), now_ms)
        self._records.record(counted.records.total(), now_ms)
        for topic, size in counted.sizes.items():
            topic_size, topic_records = self._of_topic(topic)
            topic_size.record(size, now_ms)
            topic_records.record(counted.records[topic], now_ms)

    def moved(self, partition: TopicPartition, lag: int | None, lead: int | None, now_ms: int) -> None:
        """Record how far a new position is from the log's end (lag) and from its start (lead); None: unknown."""
        sensors = self._partitions.get(partition)
        if sensors is None:
            tags = _tags(partition)
            sensors = _PartitionSensors(
                self._registry.sensor(GROUP, _LAG, tags), self._registry.sensor(GROUP, _LEAD, tags)
            )
            self._partitions[partition] = sensors
        if lag is not None:
            self._lag.record(lag, now_ms)
            sensors.lag.record(lag, now_ms)
        if lead is not None:
            self._lead.record(lead, now_ms)
            sensors.lead.record(lead, now_ms)

    def assigned(
        self, partitions: Iterable[TopicPartition], preferred_replica: Callable[[TopicPartition, int], int | None]
    ) -> None:
        """Replace the partitions that have metrics. `preferred_replica(partition, now_ms)` returns the follower that is
        read instead of the leader, None without one."""
        present = set(partitions)
        gone = set(self._partitions) - present
        for part in gone:
            del self._partitions[part]
        if gone:
            self._registry.remove(GROUP, map(_tags, gone))
        for part in present - self._partitions.keys():
            self._partitions[part] = None
            self._registry.gauge(GROUP, _REPLICA, partial(_replica, preferred_replica, part), _tags(part))


def _tags(partition: TopicPartition) -> dict[str, str]:
    return {"topic": partition.topic, "partition": str(partition.partition)}


def _replica(
    preferred_replica: Callable[[TopicPartition, int], int | None], partition: TopicPartition, now_ms: int
) -> float:
    """The preferred read replica; -1 without one, as in Kafka."""
    node = preferred_replica(partition, now_ms)
    return -1 if node is None else node


class ShareFetchMetrics:
    """The metrics of what a share consumer acquires and acknowledges."""

    def __init__(self, registry: MetricsRegistry) -> None:
        self.latency = FetchLatency(registry, SHARE_GROUP)
        self._size = registry.sensor(SHARE_GROUP, _SIZE)
        self._records = registry.sensor(SHARE_GROUP, _SHARED_RECORDS)
        self._acknowledged = registry.sensor(SHARE_GROUP, sums("acknowledgements-send"))
        self._refused = registry.sensor(SHARE_GROUP, sums("acknowledgements-error"))

    def fetched(self, size: int, records: int, now_ms: int) -> None:
        """Record the bytes and acquired records of a ShareFetch response."""
        self._size.record(size, now_ms)
        self._records.record(records, now_ms)

    def acknowledged(self, records: int, now_ms: int) -> None:
        """Count records whose acknowledgement is sent."""
        self._acknowledged.record(records, now_ms)

    def refused(self, records: int, now_ms: int) -> None:
        """Count records whose acknowledgement failed."""
        self._refused.record(records, now_ms)
