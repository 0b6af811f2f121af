"""The metrics of --otlp, by the names of the OpenTelemetry collector's Kafka metrics receiver, and ours (`kt.`).

Names, units, attributes and kinds of the receiver are those of its `metadata.yaml`. A test compares docs/monitor.md
with this table. An unknown value has no data point.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from kafkatools.tools.monitor.measures import active_controllers
from kafkatools.tools.monitor.metrics.families import (
    Samples,
    members,
    of_group_partitions,
    of_group_topics,
    seconds,
)
from kafkatools.tools.monitor.view import ClusterView, PartitionView

UP = "kt.monitor.up"


class OtlpMetric(NamedTuple):
    """A metric. `is_sum`: a sum that may decrease, else a gauge. `samples(view)` returns (attributes, number) pairs."""

    name: str
    unit: str
    description: str
    attributes: tuple[str, ...]
    samples: Callable[[ClusterView], Samples]
    is_sum: bool = False


def _of_partitions(value: Callable[[PartitionView], int | None]) -> Callable[[ClusterView], Samples]:
    return lambda view: [((p.topic, p.partition), n) for p in view.partitions if (n := value(p)) is not None]


def _of_cluster(value: Callable[[ClusterView], float | None]) -> Callable[[ClusterView], Samples]:
    return lambda view: [] if (number := value(view)) is None else [((), number)]


def _log_dirs(field: str) -> Callable[[ClusterView], Samples]:
    return lambda view: [
        ((broker.id, path.path), number)
        for broker in view.brokers
        for path in broker.log_dirs or ()
        if path.error is None and (number := getattr(path, field)) >= 0
    ]


_TOPIC, _PARTITION = ("topic",), ("topic", "partition")
_GROUP, _GROUP_TOPIC, _GROUP_PARTITION = ("group",), ("group", "topic"), ("group", "topic", "partition")
_DIRECTORY = ("broker", "directory")

METRICS: tuple[OtlpMetric, ...] = (
    OtlpMetric(
        "kafka.brokers", "{brokers}", "Number of brokers in the cluster.", (),
        _of_cluster(lambda view: view.totals.alive), True,
    ),
    OtlpMetric(
        "kafka.topic.partitions", "{partitions}", "Number of partitions in topic.", _TOPIC,
        lambda view: [((topic.name,), len(topic.partitions)) for topic in view.topics], True,
    ),
    OtlpMetric(
        "kafka.partition.current_offset", "1", "Current offset of partition of topic.", _PARTITION,
        _of_partitions(lambda part: part.end_offset),
    ),
    OtlpMetric(
        "kafka.partition.oldest_offset", "1", "Oldest offset of partition of topic", _PARTITION,
        _of_partitions(lambda part: part.start_offset),
    ),
    OtlpMetric(
        "kafka.partition.replicas", "{replicas}", "Number of replicas for partition of topic", _PARTITION,
        _of_partitions(lambda part: len(part.replicas)), True,
    ),
    OtlpMetric(
        "kafka.partition.replicas_in_sync", "{replicas}", "Number of synchronized replicas of partition", _PARTITION,
        _of_partitions(lambda part: len(part.isr)), True,
    ),
    OtlpMetric(
        "kafka.consumer_group.members", "{members}", "Count of members in the consumer group", _GROUP, members, True,
    ),
    OtlpMetric(
        "kafka.consumer_group.offset", "1", "Current offset of the consumer group at partition of topic",
        _GROUP_PARTITION, of_group_partitions(lambda part: part.committed),
    ),
    OtlpMetric(
        "kafka.consumer_group.offset_sum", "1", "Sum of consumer group offset across partitions of topic",
        _GROUP_TOPIC, of_group_topics("committed"),
    ),
    OtlpMetric(
        "kafka.consumer_group.lag", "1", "Current approximate lag of consumer group at partition of topic",
        _GROUP_PARTITION, of_group_partitions(lambda part: part.lag),
    ),
    OtlpMetric(
        "kafka.consumer_group.lag_sum", "1",
        "Current approximate sum of consumer group lag across all partitions of topic", _GROUP_TOPIC,
        of_group_topics("lag"),
    ),
    OtlpMetric(
        "kt.consumer_group.lag_time", "s", "Age of the oldest record that the group has not consumed.",
        _GROUP_PARTITION, of_group_partitions(lambda part: seconds(part.lag_ms)),
    ),
    OtlpMetric(
        "kt.partitions.offline", "{partitions}", "Partitions without a leader.", (),
        _of_cluster(lambda view: view.totals.offline),
    ),
    OtlpMetric(
        "kt.partitions.under_replicated", "{partitions}", "Partitions whose ISR is smaller than their replicas.", (),
        _of_cluster(lambda view: view.totals.under_replicated),
    ),
    OtlpMetric(
        "kt.partitions.under_min_isr", "{partitions}", "Partitions whose ISR is smaller than min.insync.replicas.", (),
        _of_cluster(lambda view: view.under_min_isr),
    ),
    OtlpMetric(
        "kt.brokers.responding", "{brokers}", "Brokers that responded in the last snapshot.", (),
        _of_cluster(lambda view: view.totals.answering),
    ),
    OtlpMetric(
        "kt.controllers.active", "{controllers}", "Active controllers of the cluster: 1, or 0.", (),
        _of_cluster(active_controllers),
    ),
    OtlpMetric(
        "kt.log_dir.total", "By", "Size of the log directory's volume.", _DIRECTORY, _log_dirs("total_bytes"),
    ),
    OtlpMetric(
        "kt.log_dir.usable", "By", "Usable bytes of the log directory's volume.", _DIRECTORY, _log_dirs("usable_bytes"),
    ),
    OtlpMetric(
        "kt.monitor.problems", "{values}", "Values that were requested for the last snapshot and not reported.", (),
        _of_cluster(lambda view: len(view.problems)),
    ),
)  # fmt: skip
"""Every metric but `kt.monitor.up`."""
