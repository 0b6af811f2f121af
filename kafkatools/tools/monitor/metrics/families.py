"""The metrics of /metrics that are named as common dashboards name them: of jmx_exporter and kafka_exporter, and ours.

`METRICS` is a table of names, types, help texts, labels and samples; a test compares docs/monitor.md with it. Broker
metrics have the names of jmx_exporter's example rules for Kafka (KRaft, lower case), plus a label `broker`, since one
process reports all brokers. Topic and group offsets have kafka_exporter's names. An unknown value has no sample.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import NamedTuple

from kafkatools.core.admin.quorum import MetadataQuorum
from kafkatools.tools.monitor.measures import active_controllers
from kafkatools.tools.monitor.view import ClusterView, GroupPartition, PartitionView, total

GAUGE, COUNTER = "gauge", "counter"
JMX, KAFKA_EXPORTER, OURS = "jmx-exporter", "kafka-exporter", "kt"

Samples = Iterable[tuple[tuple[object, ...], float | int]]


class Metric(NamedTuple):
    """A metric family. `source`: the exporter that uses its name, a value of --metrics. `samples(view)` returns
    (labels, number) pairs."""

    name: str
    type: str
    help: str
    labels: tuple[str, ...]
    source: str
    samples: Callable[[ClusterView], Samples]


# -- samples --


_IsKnown = Callable[[ClusterView, PartitionView], bool]


def _of_brokers(
    name: str,
    about: str,
    brokers: Callable[[PartitionView], Iterable[int]],
    is_known: _IsKnown = lambda view, part: True,
) -> Metric:
    """Return a metric that counts, for each live broker, the partitions for which `brokers` names it. The leader of a
    partition for which `is_known` is false has no sample."""

    def samples(view: ClusterView) -> Samples:
        counts = Counter(broker for part in view.partitions for broker in brokers(part))
        unknown = {part.leader for part in view.partitions if not is_known(view, part)}
        return [((b.id,), counts[b.id]) for b in view.brokers if b.is_alive and b.id not in unknown]

    return Metric(name, GAUGE, about, ("broker",), JMX, samples)


def _of_leaders(
    name: str, about: str, holds: Callable[[PartitionView], bool], is_known: _IsKnown = lambda view, part: True
) -> Metric:
    """Return a metric that counts, for each live broker, the partitions it leads for which `holds` is true."""
    return _of_brokers(name, about, lambda part: (part.leader,) if holds(part) else (), is_known)


def _of_cluster(name: str, about: str, value: Callable[[ClusterView], int | None], source: str = JMX) -> Metric:
    """Return a metric with a single sample, or none while the value is unknown."""
    return Metric(name, GAUGE, about, (), source, lambda view: [((), n)] if (n := value(view)) is not None else [])


def _of_quorum(name: str, about: str, value: Callable[[MetadataQuorum], int]) -> Metric:
    return _of_cluster(name, about, lambda view: None if view.quorum is None else value(view.quorum))


def _of_partitions(name: str, about: str, value: Callable[[PartitionView], int | None]) -> Metric:
    """Return a metric with one sample for each partition whose value is known."""

    def samples(view: ClusterView) -> Samples:
        return [((part.topic, part.partition), n) for part in view.partitions if (n := value(part)) is not None]

    return Metric(name, GAUGE, about, ("topic", "partition"), KAFKA_EXPORTER, samples)


def _log_sizes(view: ClusterView) -> Samples:
    return [
        ((replica.topic, replica.partition, broker.id), replica.size_bytes)
        for broker in view.brokers
        for path in broker.log_dirs or ()
        for replica in path.replicas
        if not replica.is_future and (replica.topic, replica.partition) in view.by_partition
    ]


def _messages_in(view: ClusterView) -> Samples:
    """Yield each topic's sum of log end offsets, as its counter of incoming records. A topic with an unknown end offset
    is left out."""
    for topic in view.topics:
        records = total(part.end_offset for part in topic.partitions)
        if records is not None:
            yield (topic.name,), records


def seconds(time_ms: int | None) -> float | None:
    """Convert milliseconds to seconds; None for None."""
    return None if time_ms is None else time_ms / 1000


def of_group_partitions(value: Callable[[GroupPartition], float | None]) -> Callable[[ClusterView], Samples]:
    """Return samples by group, topic and partition, where the value is known."""
    return lambda view: [
        ((group.group_id, part.topic, part.partition), number)
        for group in view.groups
        for part in group.partitions or ()
        if (number := value(part)) is not None
    ]


def of_group_topics(field: str) -> Callable[[ClusterView], Samples]:
    """Return samples of the sum of `lag` or `committed` by group and topic, where it is known."""
    return lambda view: [
        ((group.group_id, topic), number)
        for group in view.groups
        for topic, number in group.total_by_topic(field).items()
        if number is not None
    ]


def members(view: ClusterView) -> Samples:
    """Return the number of members by group, where it is known."""
    return [((group.group_id,), group.members) for group in view.groups if group.members is not None]


def _lag_seconds(view: ClusterView) -> Samples:
    return [((group.group_id,), group.lag_ms / 1000) for group in view.groups if group.lag_ms is not None]


def _log_dirs(field: str) -> Callable[[ClusterView], Samples]:
    return lambda view: [
        ((broker.id, path.path), number)
        for broker in view.brokers
        for path in broker.log_dirs or ()
        if path.error is None and (number := getattr(path, field)) >= 0
    ]


def _voters(view: ClusterView) -> Samples:
    quorum = view.quorum
    lags = {} if quorum is None else {voter.id: quorum.lag(voter) for voter in quorum.voters}
    return [((voter,), lag) for voter, lag in lags.items() if lag is not None]


_GROUP = ("consumergroup", "topic", "partition")

METRICS: tuple[Metric, ...] = (
    _of_leaders(
        "kafka_server_replicamanager_underreplicatedpartitions",
        "Partitions led by the broker whose ISR is smaller than their replicas.",
        lambda part: part.is_under_replicated,
    ),
    _of_leaders(
        "kafka_server_replicamanager_underminisrpartitioncount",
        "Partitions led by the broker whose ISR is smaller than min.insync.replicas.",
        lambda part: part.is_under_min_isr,
        lambda view, part: part.is_min_isr_known,
    ),
    _of_leaders(
        "kafka_server_replicamanager_atminisrpartitioncount",
        "Partitions led by the broker whose ISR is as large as min.insync.replicas.",
        lambda part: part.is_at_min_isr,
        lambda view, part: part.is_min_isr_known,
    ),
    _of_leaders("kafka_server_replicamanager_leadercount", "Partitions that the broker leads.", lambda _: True),
    _of_brokers("kafka_server_replicamanager_partitioncount", "Replicas that the broker has.", lambda p: p.replicas),
    _of_brokers(
        "kafka_server_replicamanager_offlinereplicacount",
        "Replicas of the broker that are offline.",
        lambda part: {*part.replicas} & {*part.offline_replicas},
    ),
    _of_leaders(
        "kafka_server_replicamanager_reassigningpartitions",
        "Partitions led by the broker whose replicas are being reassigned.",
        lambda part: bool(part.adding_replicas or part.removing_replicas),
        lambda view, part: not view.why_no_moves,
    ),
    Metric(
        "kafka_server_brokertopicmetrics_messagesin_total", COUNTER,
        "Records that came into the topic: the ends of its logs together.", ("topic",), JMX, _messages_in,
    ),
    _of_cluster(
        "kafka_controller_kafkacontroller_activecontrollercount",
        "Active controllers of the cluster: 1, or 0.", active_controllers,
    ),
    _of_cluster(
        "kafka_controller_kafkacontroller_offlinepartitionscount",
        "Partitions without a leader.", lambda view: view.totals.offline,
    ),
    _of_cluster(
        "kafka_controller_kafkacontroller_preferredreplicaimbalancecount",
        "Partitions that their preferred leader does not lead.", lambda view: view.totals.not_preferred,
    ),
    _of_cluster(
        "kafka_controller_kafkacontroller_activebrokercount",
        "Brokers that are registered and not fenced.", lambda view: view.totals.alive,
    ),
    _of_cluster(
        "kafka_controller_kafkacontroller_fencedbrokercount",
        "Brokers that are registered and fenced.", lambda view: view.totals.brokers - view.totals.alive,
    ),
    _of_cluster(
        "kafka_controller_kafkacontroller_globaltopiccount", "Topics of the cluster.", lambda view: view.totals.topics
    ),
    _of_cluster(
        "kafka_controller_kafkacontroller_globalpartitioncount",
        "Partitions of the cluster.", lambda view: view.totals.partitions,
    ),
    _of_quorum(
        "kafka_server_raft_metrics_current_leader",
        "The leader of the metadata quorum, -1 when there is none.", lambda quorum: quorum.leader_id,
    ),
    _of_quorum(
        "kafka_server_raft_metrics_current_epoch",
        "The epoch of the metadata quorum.", lambda quorum: quorum.leader_epoch,
    ),
    _of_quorum(
        "kafka_server_raft_metrics_high_watermark",
        "The high watermark of the metadata log.", lambda quorum: quorum.high_watermark,
    ),
    Metric(
        "kafka_log_logmanager_offlinelogdirectorycount", GAUGE, "Log directories that the broker cannot use.",
        ("broker",), JMX,
        lambda view: [((b.id,), len(b.offline_log_dirs)) for b in view.brokers if b.log_dirs is not None],
    ),
    Metric(
        "kafka_log_log_size", GAUGE, "Bytes of a replica's log.", ("topic", "partition", "broker"), JMX, _log_sizes,
    ),
    _of_cluster(
        "kafka_brokers", "Brokers of the cluster that are not fenced.", lambda view: view.totals.alive, KAFKA_EXPORTER
    ),
    Metric(
        "kafka_broker_info", GAUGE, "A broker; the value is its id.", ("address", "id"), KAFKA_EXPORTER,
        lambda view: [((f"{b.host}:{b.port}", b.id), b.id) for b in view.brokers if b.is_alive],
    ),
    Metric(
        "kafka_topic_partitions", GAUGE, "Partitions of the topic.", ("topic",), KAFKA_EXPORTER,
        lambda view: [((topic.name,), len(topic.partitions)) for topic in view.topics],
    ),
    _of_partitions("kafka_topic_partition_current_offset", "The end of the partition's log.", lambda p: p.end_offset),
    _of_partitions(
        "kafka_topic_partition_oldest_offset", "The start of the partition's log.", lambda p: p.start_offset
    ),
    _of_partitions("kafka_topic_partition_in_sync_replica", "Replicas that are in sync.", lambda p: len(p.isr)),
    _of_partitions("kafka_topic_partition_leader", "The leader, -1 when there is none.", lambda p: p.leader),
    _of_partitions(
        "kafka_topic_partition_leader_is_preferred", "1 when the preferred leader leads.", lambda p: int(p.is_preferred)
    ),
    _of_partitions("kafka_topic_partition_replicas", "Replicas of the partition.", lambda p: len(p.replicas)),
    _of_partitions(
        "kafka_topic_partition_under_replicated_partition",
        "1 when a replica is not in sync.", lambda p: int(p.is_under_replicated),
    ),
    Metric(
        "kafka_consumergroup_current_offset", GAUGE, "What the group committed.", _GROUP, KAFKA_EXPORTER,
        of_group_partitions(lambda part: part.committed),
    ),
    Metric(
        "kafka_consumergroup_lag", GAUGE, "Records between what the group committed and the end of the log.", _GROUP,
        KAFKA_EXPORTER, of_group_partitions(lambda part: part.lag),
    ),
    Metric(
        "kafka_consumergroup_current_offset_sum", GAUGE, "What the group committed, over the topic's partitions.",
        _GROUP[:2], KAFKA_EXPORTER, of_group_topics("committed"),
    ),
    Metric(
        "kafka_consumergroup_lag_sum", GAUGE, "The group's lag over the topic's partitions.", _GROUP[:2],
        KAFKA_EXPORTER, of_group_topics("lag"),
    ),
    Metric(
        "kafka_consumergroup_members", GAUGE, "Members of the group.", ("consumergroup",), KAFKA_EXPORTER, members,
    ),
    Metric(
        "kt_consumergroup_lag_seconds", GAUGE, "Age of the oldest record that the group has not consumed.", _GROUP,
        OURS, of_group_partitions(lambda part: seconds(part.lag_ms)),
    ),
    Metric(
        "kt_consumergroup_max_lag_seconds", GAUGE, "The longest time lag among the partitions of the group.",
        _GROUP[:1], OURS, _lag_seconds,
    ),
    Metric(
        "kt_log_dir_total_bytes", GAUGE, "Size of the log directory's volume.", ("broker", "directory"), OURS,
        _log_dirs("total_bytes"),
    ),
    Metric(
        "kt_log_dir_usable_bytes", GAUGE, "Usable bytes of the log directory's volume.", ("broker", "directory"), OURS,
        _log_dirs("usable_bytes"),
    ),
    Metric(
        "kt_broker_answering", GAUGE, "1 when a broker that is not fenced responded in the last snapshot.", ("broker",),
        OURS, lambda view: [((b.id,), int(b.is_responding)) for b in view.brokers if b.is_alive],
    ),
    Metric(
        "kt_quorum_voter_lag", GAUGE, "Records of the metadata log that the voter is behind the furthest one.",
        ("voter",), OURS, _voters,
    ),
    _of_cluster(
        "kt_monitor_problems", "Values that were requested for the last snapshot and not reported.",
        lambda view: len(view.problems), OURS,
    ),
    _of_cluster("kt_monitor_look_milliseconds", "How long the last snapshot took.", lambda view: view.took_ms, OURS),
)  # fmt: skip
"""The families of jmx_exporter, kafka_exporter and ours except `kt_monitor_up`, in output order."""
