"""Read the input of a reassignment plan from a cluster: live brokers and racks, partitions, replica sizes."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.cluster import describe_cluster
from kafkatools.core.admin.log_dirs import LogDir, describe_log_dirs
from kafkatools.core.admin.reassignments import TopicPartition, list_reassignments
from kafkatools.core.admin.topics import PartitionDescription, describe_all_topics
from kafkatools.core.errors import KafkaError, UnknownTopicOrPartition
from kafkatools.exit_status import CommandError
from kafkatools.tools.reassignment.layout import Broker, ClusterState, Partition
from kafkatools.tools.reassignment.listings import WAIT_HINT, partition_names

LogDirs = Mapping[int, tuple[LogDir, ...] | KafkaError]
Sizes = Mapping[TopicPartition, Mapping[int, int]]


def read_cluster(admin: AdminClient, complain: Callable[[str], None]) -> ClusterState:
    """Read live brokers, partitions and replica sizes, without topics that are being deleted. Raises KafkaError.
    `complain` gets a message for each broker or log directory that does not report the sizes of its replicas."""
    brokers = read_brokers(admin)
    parts = read_partitions(admin)
    sizes = sizes_in(describe_log_dirs(admin, [broker.id for broker in brokers]), complain)
    return cluster_state(brokers, parts, sizes)


def read_brokers(admin: AdminClient) -> tuple[Broker, ...]:
    """Read the live brokers with their racks. Raises KafkaError."""
    return tuple(Broker(node.id, node.rack) for node in describe_cluster(admin).nodes)


def read_partitions(admin: AdminClient) -> dict[TopicPartition, PartitionDescription]:
    """Read all partitions, without those of topics that are being deleted. Raises KafkaError."""
    parts: dict[TopicPartition, PartitionDescription] = {}
    for name, topic in describe_all_topics(admin).items():
        if isinstance(topic.error, UnknownTopicOrPartition):
            continue  # it is being deleted
        if topic.error is not None:
            raise topic.error
        parts.update({(name, part.partition): part for part in topic.partitions})
    return parts


def cluster_state(
    brokers: tuple[Broker, ...], parts: Mapping[TopicPartition, PartitionDescription], sizes: Sizes
) -> ClusterState:
    """Return the input of a plan, in the order of `parts`."""
    return ClusterState(brokers, tuple(_partition(key, part, sizes.get(key, {})) for key, part in parts.items()))


def _partition(key: TopicPartition, part: PartitionDescription, sizes: Mapping[int, int]) -> Partition:
    """A partition with the size in bytes of the leader's log, which a new replica copies. Without it, the size of the
    largest reported replica, or 0."""
    size = sizes.get(part.leader, max(sizes.values(), default=0))
    return Partition(*key, part.replicas, part.isr, part.leader, size)


def sizes_in(log_dirs: LogDirs, complain: Callable[[str], None]) -> dict[TopicPartition, dict[int, int]]:
    """The reported replica sizes in bytes, by partition and broker, without copies being moved to another log
    directory. Calls `complain` for each broker or log directory with an error."""
    sizes: dict[TopicPartition, dict[int, int]] = {}

    def note_missing(broker: int, error: KafkaError) -> None:
        complain(f"Broker {broker} did not report the sizes of its replicas, so byte counts are too low: {error}")

    for broker, dirs in log_dirs.items():
        if isinstance(dirs, KafkaError):
            note_missing(broker, dirs)
            continue
        for log_dir in dirs:
            if log_dir.error is not None:
                note_missing(broker, log_dir.error)
            for replica in log_dir.replicas:
                if not replica.is_future:
                    sizes.setdefault((replica.topic, replica.partition), {})[broker] = replica.size_bytes
    return sizes


def ensure_nothing_moves(admin: AdminClient, takes_topic: Callable[[str], bool]) -> None:
    """Raise CommandError if a partition of a topic that `takes_topic` accepts is being reassigned: its present replicas
    will change. Raises KafkaError."""
    partitions = sorted(key for key in list_reassignments(admin) if takes_topic(key[0]))
    if partitions:
        verb = "is" if len(partitions) == 1 else "are"
        raise CommandError(
            f"{len(partitions)} of the chosen partitions {verb} being moved: {partition_names(partitions)}",
            hint=WAIT_HINT,
        )
