"""The metrics of KMinion, by its names and labels (`prometheus/` of its sources, version 2).

Labels of values that the monitor does not read are left out: `cluster_version`, `cleanup_policy`, `protocol` and
`protocol_type`. Left out as well are the metrics of assignments (`..._empty_members`, `..._topic_members`,
`..._topic_assigned_partitions`), of commits (`..._offset_commits_total`), of the end-to-end test and of KMinion itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kafkatools.core.admin.groups import STABLE, UNKNOWN
from kafkatools.tools.monitor.metrics.families import (
    GAUGE,
    Metric,
    Samples,
    members,
    of_group_partitions,
    of_group_topics,
)
from kafkatools.tools.monitor.view import BrokerView, ClusterView, PartitionView, TopicView, total

KMINION = "kminion"
_BROKER = ("broker_id", "address", "port", "rack_id")
_GROUP_TOPIC = ("group_id", "topic_name")


def _metric(name: str, about: str, labels: tuple[str, ...], samples: Callable[[ClusterView], Samples]) -> Metric:
    return Metric(f"kminion_kafka_{name}", GAUGE, about, labels, KMINION, samples)


def _cluster_info(view: ClusterView) -> Samples:
    if view.cluster_id is not None and view.controller >= 0:
        yield (view.totals.alive, view.controller, view.cluster_id), 1


def _of(broker: BrokerView) -> tuple[object, ...]:
    return broker.id, broker.host, broker.port, broker.rack or ""


def _broker_info(view: ClusterView) -> Samples:
    if view.controller >= 0:
        for broker in view.brokers:
            if broker.is_alive:
                yield (*_of(broker), str(broker.id == view.controller).lower()), 1


def _topic_info(view: ClusterView) -> Samples:
    return [((t.name, len(t.partitions), len(t.partitions[0].replicas)), 1) for t in view.topics if t.partitions]


def _of_partitions(value: Callable[[PartitionView], int | None]) -> Callable[[ClusterView], Samples]:
    return lambda view: [((p.topic, p.partition), n) for p in view.partitions if (n := value(p)) is not None]


def _of_topics(value: Callable[[TopicView], int | None]) -> Callable[[ClusterView], Samples]:
    return lambda view: [((topic.name,), n) for topic in view.topics if (n := value(topic)) is not None]


def _has_log_dirs(broker: BrokerView) -> bool:
    """Return whether a broker reported all of its log directories."""
    return broker.log_dirs is not None and not broker.offline_log_dirs


def _broker_sizes(view: ClusterView) -> Samples:
    return [(_of(b), b.log_bytes) for b in view.brokers if _has_log_dirs(b) and b.log_bytes is not None]


def _topic_sizes(view: ClusterView) -> Iterator[tuple[tuple[object, ...], int]]:
    """Yield the size of all replicas of each topic, also of copies to another directory. A topic with a replica on a
    broker that did not report all of its directories is left out."""
    reported = {broker.id for broker in view.brokers if _has_log_dirs(broker)}
    sizes: dict[str, int] = {}
    for broker in view.brokers:
        for path in broker.log_dirs or ():
            for replica in path.replicas:
                sizes[replica.topic] = sizes.get(replica.topic, 0) + replica.size_bytes
    for topic in view.topics:
        if topic.name in sizes and reported.issuperset(broker for part in topic.partitions for broker in part.replicas):
            yield (topic.name,), sizes[topic.name]


def _group_info(view: ClusterView) -> Samples:
    return [
        ((group.group_id, group.state, group.coordinator), int(group.state == STABLE))
        for group in view.groups
        if group.state != UNKNOWN
    ]


METRICS: tuple[Metric, ...] = (
    _metric(
        "cluster_info", "Kafka cluster information.", ("broker_count", "controller_id", "cluster_id"), _cluster_info
    ),
    _metric("broker_info", "Kafka broker information.", (*_BROKER, "is_controller"), _broker_info),
    _metric(
        "broker_log_dir_size_total_bytes", "The summed size in bytes of all log dirs for a given broker.", _BROKER,
        _broker_sizes,
    ),
    _metric(
        "topic_log_dir_size_total_bytes",
        "The summed size in bytes of partitions for a given topic, with replica partitions.", ("topic_name",),
        _topic_sizes,
    ),
    _metric(
        "topic_info", "Info labels for a given topic.", ("topic_name", "partition_count", "replication_factor"),
        _topic_info,
    ),
    _metric(
        "topic_partition_low_water_mark", "Partition Low Water Mark.", ("topic_name", "partition_id"),
        _of_partitions(lambda part: part.start_offset),
    ),
    _metric(
        "topic_low_water_mark_sum", "Sum of all the topic's partition low water marks.", ("topic_name",),
        _of_topics(lambda topic: total(part.start_offset for part in topic.partitions)),
    ),
    _metric(
        "topic_partition_high_water_mark", "Partition High Water Mark.", ("topic_name", "partition_id"),
        _of_partitions(lambda part: part.end_offset),
    ),
    _metric(
        "topic_high_water_mark_sum", "Sum of all the topic's partition high water marks.", ("topic_name",),
        _of_topics(lambda topic: total(part.end_offset for part in topic.partitions)),
    ),
    _metric(
        "consumer_group_info", "1 if the group is in the stable state, otherwise 0.",
        ("group_id", "state", "coordinator_id"), _group_info,
    ),
    _metric("consumer_group_members", "The number of members in the consumer group.", ("group_id",), members),
    _metric(
        "consumer_group_topic_offset_sum", "The sum of all committed group offsets across all partitions in a topic.",
        _GROUP_TOPIC, of_group_topics("committed"),
    ),
    _metric(
        "consumer_group_topic_partition_lag",
        "The number of messages a consumer group is lagging behind the latest offset of a partition.",
        (*_GROUP_TOPIC, "partition_id"), of_group_partitions(lambda part: part.lag),
    ),
    _metric(
        "consumer_group_topic_lag",
        "The number of messages a consumer group is lagging behind across all partitions in a topic.",
        _GROUP_TOPIC, of_group_topics("lag"),
    ),
)  # fmt: skip
"""The families of KMinion."""
