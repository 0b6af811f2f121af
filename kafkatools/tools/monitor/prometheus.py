"""/metrics: the last view as Prometheus text (format 0.0.4), under the names that dashboards know.

`METRICS` is the one table: names, types, help, labels, where each name comes from (docs/monitor.md is held against it),
and how its samples are read from a view. Names of brokers' own metrics are those of jmx_exporter's example rules for
Kafka (KRaft, lower case): one process tells of all brokers here, so that they carry a label `broker`. Names of topics'
and groups' offsets are kafka_exporter's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from kafkatools.tools.monitor.conditions import active_controllers

if TYPE_CHECKING:
    from kafkatools.tools.monitor.board import Board
    from kafkatools.tools.monitor.view import ClusterView, PartitionView

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
GAUGE, COUNTER = "gauge", "counter"
JMX, KAFKA_EXPORTER, OURS = "jmx_exporter", "kafka_exporter", "kt"

Samples = Iterable[tuple[tuple[object, ...], float | int]]


class Metric(NamedTuple):
    """A family of samples. `source`: whose name it is."""

    name: str
    type: str
    help: str
    labels: tuple[str, ...]
    source: str
    samples: Callable[[ClusterView], Samples]


def metrics(board: Board) -> str:
    """The text. Before the first view, and after a look that failed, only `kt_monitor_up 0`."""
    view, error = board.last
    is_up = view is not None and error is None
    lines = list(
        _family("kt_monitor_up", GAUGE, "Whether the last look at the cluster told something.", (), [((), int(is_up))])
    )
    if view is not None and is_up:
        for metric in METRICS:
            lines += _family(metric.name, metric.type, metric.help, metric.labels, metric.samples(view))
    return "\n".join(lines) + "\n"


def _family(name: str, kind: str, about: str, labels: tuple[str, ...], samples: Samples) -> Iterator[str]:
    found = [
        f"{name}{_labels(labels, values)} {number if isinstance(number, int) else repr(float(number))}"
        for values, number in samples
    ]
    if found:
        yield f"# HELP {name} {about}"
        yield f"# TYPE {name} {kind}"
        yield from found


def _labels(names: tuple[str, ...], values: tuple[object, ...]) -> str:
    if not names:
        return ""
    texts = (str(value).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") for value in values)
    return "{" + ",".join(f'{name}="{text}"' for name, text in zip(names, texts, strict=True)) + "}"


# -- samples --


def _by_leader(holds: Callable[[PartitionView], bool]) -> Callable[[ClusterView], Samples]:
    """By living broker, how many of the partitions that it leads are so."""

    def samples(view: ClusterView) -> Samples:
        counts = {broker.id: 0 for broker in view.brokers if broker.is_alive}
        for part in view.partitions:
            if part.leader in counts and holds(part):
                counts[part.leader] += 1
        return [((broker,), number) for broker, number in counts.items()]

    return samples


def _held(holds: Callable[[PartitionView, int], bool]) -> Callable[[ClusterView], Samples]:
    """By living broker, how many of the replicas that it has are so."""

    def samples(view: ClusterView) -> Samples:
        counts = {broker.id: 0 for broker in view.brokers if broker.is_alive}
        for part in view.partitions:
            for broker in part.replicas:
                if broker in counts and holds(part, broker):
                    counts[broker] += 1
        return [((broker,), number) for broker, number in counts.items()]

    return samples


def _one(value: Callable[[ClusterView], int | None]) -> Callable[[ClusterView], Samples]:
    """A single sample, or none where the value is not known."""

    def samples(view: ClusterView) -> Samples:
        found = value(view)
        return [] if found is None else [((), found)]

    return samples


def _partitions(value: Callable[[PartitionView], int | None]) -> Callable[[ClusterView], Samples]:
    """One sample for each partition whose value is known."""

    def samples(view: ClusterView) -> Samples:
        return [((part.topic, part.partition), found) for part in view.partitions if (found := value(part)) is not None]

    return samples


def _log_sizes(view: ClusterView) -> Samples:
    return [
        ((replica.topic, replica.partition, broker.id), replica.size_bytes)
        for broker in view.brokers
        for path in broker.log_dirs or ()
        for replica in path.replicas
        if not replica.is_future and (replica.topic, replica.partition) in view.by_partition
    ]


def _messages_in(view: ClusterView) -> Samples:
    """The ends of a topic's logs together grow by every record, as the count of records that came in does."""
    for topic in view.topics:
        ends = [part.end_offset for part in topic.partitions]
        known = [end for end in ends if end is not None]
        if known and len(known) == len(ends):
            yield (topic.name,), sum(known)


def _group_partitions(field: str) -> Callable[[ClusterView], Samples]:
    return lambda view: [
        ((group.group_id, part.topic, part.partition), number)
        for group in view.groups
        for part in group.partitions or ()
        if (number := getattr(part, field)) is not None
    ]


def _group_topics(field: str) -> Callable[[ClusterView], Samples]:
    def samples(view: ClusterView) -> Samples:
        for group in view.groups:
            numbers: dict[str, list[int | None]] = {}
            for part in group.partitions or ():
                numbers.setdefault(part.topic, []).append(getattr(part, field))
            for topic, found in numbers.items():
                known = [number for number in found if number is not None]
                if len(known) == len(found):
                    yield (group.group_id, topic), sum(known)

    return samples


def _members(view: ClusterView) -> Samples:
    return [((group.group_id,), group.members) for group in view.groups if group.members is not None]


def _voters(view: ClusterView) -> Samples:
    quorum = view.quorum
    end = 0 if quorum is None else max((one.log_end_offset for one in quorum.voters), default=0)
    return [((one.id,), max(0, end - one.log_end_offset)) for one in (() if quorum is None else quorum.voters)]


_TOPIC = ("topic", "partition")
_GROUP = ("consumergroup", "topic", "partition")

METRICS: tuple[Metric, ...] = (
    Metric(
        "kafka_server_replicamanager_underreplicatedpartitions", GAUGE,
        "Partitions led by the broker whose ISR is smaller than their replicas.", ("broker",), JMX,
        _by_leader(lambda part: part.is_under_replicated),
    ),
    Metric(
        "kafka_server_replicamanager_underminisrpartitioncount", GAUGE,
        "Partitions led by the broker whose ISR is smaller than min.insync.replicas.", ("broker",), JMX,
        _by_leader(lambda part: part.is_under_min_isr),
    ),
    Metric(
        "kafka_server_replicamanager_atminisrpartitioncount", GAUGE,
        "Partitions led by the broker whose ISR is as large as min.insync.replicas.", ("broker",), JMX,
        _by_leader(lambda part: part.is_at_min_isr),
    ),
    Metric(
        "kafka_server_replicamanager_leadercount", GAUGE, "Partitions that the broker leads.", ("broker",), JMX,
        _by_leader(lambda part: True),
    ),
    Metric(
        "kafka_server_replicamanager_partitioncount", GAUGE, "Replicas that the broker has.", ("broker",), JMX,
        _held(lambda part, broker: True),
    ),
    Metric(
        "kafka_server_replicamanager_offlinereplicacount", GAUGE, "Replicas of the broker that are offline.",
        ("broker",), JMX, _held(lambda part, broker: broker in part.offline_replicas),
    ),
    Metric(
        "kafka_server_replicamanager_reassigningpartitions", GAUGE,
        "Partitions led by the broker whose replicas are being reassigned.", ("broker",), JMX,
        _by_leader(lambda part: bool(part.adding_replicas or part.removing_replicas)),
    ),
    Metric(
        "kafka_server_brokertopicmetrics_messagesin_total", COUNTER,
        "Records that came into the topic: the ends of its logs together.", ("topic",), JMX, _messages_in,
    ),
    Metric(
        "kafka_controller_kafkacontroller_activecontrollercount", GAUGE, "Active controllers of the cluster: 1, or 0.",
        (), JMX, _one(active_controllers),
    ),
    Metric(
        "kafka_controller_kafkacontroller_offlinepartitionscount", GAUGE, "Partitions without a leader.", (), JMX,
        _one(lambda view: view.totals.offline),
    ),
    Metric(
        "kafka_controller_kafkacontroller_preferredreplicaimbalancecount", GAUGE,
        "Partitions that their preferred leader does not lead.", (), JMX, _one(lambda view: view.totals.not_preferred),
    ),
    Metric(
        "kafka_controller_kafkacontroller_activebrokercount", GAUGE, "Brokers that are registered and not fenced.", (),
        JMX, _one(lambda view: view.totals.alive),
    ),
    Metric(
        "kafka_controller_kafkacontroller_fencedbrokercount", GAUGE, "Brokers that are registered and fenced.", (), JMX,
        _one(lambda view: view.totals.brokers - view.totals.alive),
    ),
    Metric(
        "kafka_controller_kafkacontroller_globaltopiccount", GAUGE, "Topics of the cluster.", (), JMX,
        _one(lambda view: view.totals.topics),
    ),
    Metric(
        "kafka_controller_kafkacontroller_globalpartitioncount", GAUGE, "Partitions of the cluster.", (), JMX,
        _one(lambda view: view.totals.partitions),
    ),
    Metric(
        "kafka_server_raft_metrics_current_leader", GAUGE, "The leader of the metadata quorum, -1 when there is none.",
        (), JMX, _one(lambda view: None if view.quorum is None else view.quorum.leader_id),
    ),
    Metric(
        "kafka_server_raft_metrics_current_epoch", GAUGE, "The epoch of the metadata quorum.", (), JMX,
        _one(lambda view: None if view.quorum is None else view.quorum.leader_epoch),
    ),
    Metric(
        "kafka_server_raft_metrics_high_watermark", GAUGE, "The high watermark of the metadata log.", (), JMX,
        _one(lambda view: None if view.quorum is None else view.quorum.high_watermark),
    ),
    Metric(
        "kafka_log_logmanager_offlinelogdirectorycount", GAUGE, "Log directories that the broker cannot use.",
        ("broker",), JMX,
        lambda view: [((b.id,), len(b.offline_log_dirs)) for b in view.brokers if b.log_dirs is not None],
    ),
    Metric(
        "kafka_log_log_size", GAUGE, "Bytes of a replica's log.", ("topic", "partition", "broker"), JMX, _log_sizes,
    ),
    Metric(
        "kafka_brokers", GAUGE, "Brokers of the cluster that are not fenced.", (), KAFKA_EXPORTER,
        _one(lambda view: view.totals.alive),
    ),
    Metric(
        "kafka_broker_info", GAUGE, "A broker; the value is its id.", ("address", "id"), KAFKA_EXPORTER,
        lambda view: [((f"{b.host}:{b.port}", b.id), b.id) for b in view.brokers if b.is_alive],
    ),
    Metric(
        "kafka_topic_partitions", GAUGE, "Partitions of the topic.", ("topic",), KAFKA_EXPORTER,
        lambda view: [((topic.name,), len(topic.partitions)) for topic in view.topics],
    ),
    Metric(
        "kafka_topic_partition_current_offset", GAUGE, "The end of the partition's log.", _TOPIC, KAFKA_EXPORTER,
        _partitions(lambda part: part.end_offset),
    ),
    Metric(
        "kafka_topic_partition_oldest_offset", GAUGE, "The start of the partition's log.", _TOPIC, KAFKA_EXPORTER,
        _partitions(lambda part: part.start_offset),
    ),
    Metric(
        "kafka_topic_partition_in_sync_replica", GAUGE, "Replicas that are in sync.", _TOPIC, KAFKA_EXPORTER,
        _partitions(lambda part: len(part.isr)),
    ),
    Metric(
        "kafka_topic_partition_leader", GAUGE, "The leader, -1 when there is none.", _TOPIC, KAFKA_EXPORTER,
        _partitions(lambda part: part.leader),
    ),
    Metric(
        "kafka_topic_partition_leader_is_preferred", GAUGE, "1 when the preferred leader leads.", _TOPIC,
        KAFKA_EXPORTER, _partitions(lambda part: int(part.is_preferred)),
    ),
    Metric(
        "kafka_topic_partition_replicas", GAUGE, "Replicas of the partition.", _TOPIC, KAFKA_EXPORTER,
        _partitions(lambda part: len(part.replicas)),
    ),
    Metric(
        "kafka_topic_partition_under_replicated_partition", GAUGE, "1 when a replica is not in sync.", _TOPIC,
        KAFKA_EXPORTER, _partitions(lambda part: int(part.is_under_replicated)),
    ),
    Metric(
        "kafka_consumergroup_current_offset", GAUGE, "What the group committed.", _GROUP, KAFKA_EXPORTER,
        _group_partitions("committed"),
    ),
    Metric(
        "kafka_consumergroup_lag", GAUGE, "Records between what the group committed and the end of the log.", _GROUP,
        KAFKA_EXPORTER, _group_partitions("lag"),
    ),
    Metric(
        "kafka_consumergroup_current_offset_sum", GAUGE, "What the group committed, over the topic's partitions.",
        _GROUP[:2], KAFKA_EXPORTER, _group_topics("committed"),
    ),
    Metric(
        "kafka_consumergroup_lag_sum", GAUGE, "The group's lag over the topic's partitions.", _GROUP[:2],
        KAFKA_EXPORTER, _group_topics("lag"),
    ),
    Metric(
        "kafka_consumergroup_members", GAUGE, "Members of the group.", ("consumergroup",), KAFKA_EXPORTER, _members,
    ),
    Metric(
        "kt_broker_answering", GAUGE, "1 when a broker that is not fenced answered in the last look.", ("broker",),
        OURS, lambda view: [((b.id,), int(b.is_answering)) for b in view.brokers if b.is_alive],
    ),
    Metric(
        "kt_quorum_voter_lag", GAUGE, "Records of the metadata log that the voter is behind the furthest one.",
        ("voter",), OURS, _voters,
    ),
    Metric(
        "kt_monitor_problems", GAUGE, "Things that were asked for in the last look and not told.", (), OURS,
        _one(lambda view: len(view.problems)),
    ),
    Metric(
        "kt_monitor_look_milliseconds", GAUGE, "How long the last look took.", (), OURS,
        _one(lambda view: view.took_ms),
    ),
)  # fmt: skip
"""Every family but `kt_monitor_up`, in the order in which they are told."""
