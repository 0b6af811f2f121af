"""The sizes of replicas in log directories, and their sums by topic or broker.

Rules: a replica that the metadata names but no log directory reports has an unknown size, never 0. A sum over such a
replica is a lower bound.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from typing import NamedTuple

from kafkatools.core.admin.log_dirs import LogDir
from kafkatools.core.admin.topics import TopicDescription


class ReplicaSize(NamedTuple):
    """A replica with its log directory and size in bytes, both None if no broker reports the replica. `is_future`: it
    is moving to this directory from another one of the broker."""

    topic: str
    partition: int
    broker: int
    log_dir: str | None
    size_bytes: int | None
    is_future: bool


class SizeSum(NamedTuple):
    """The summed sizes of the replicas of a topic or broker: `known_bytes` of those whose size is known."""

    name: str | int
    known_bytes: int
    replicas: int
    unknown_replicas: int

    @property
    def size_bytes(self) -> int | None:
        """The sum in bytes, None if the size of a replica is unknown."""
        return None if self.unknown_replicas else self.known_bytes


def replica_sizes(
    dirs: Mapping[int, tuple[LogDir, ...]], topics: Iterable[TopicDescription], brokers: Collection[int] = ()
) -> list[ReplicaSize]:
    """Return the replicas of these topics on these brokers (all if empty), the largest first, those of unknown size
    last. `dirs`: the log directories by broker, without the brokers that did not answer."""
    topics = list(topics)
    names = {topic.name for topic in topics}
    sizes = [
        ReplicaSize(replica.topic, replica.partition, broker, path.path, replica.size_bytes, replica.is_future)
        for broker, paths in dirs.items()
        for path in paths
        for replica in path.replicas
        if replica.topic in names
    ]
    reported = {(size.topic, size.partition, size.broker) for size in sizes if not size.is_future}
    sizes += [
        ReplicaSize(topic.name, part.partition, broker, None, None, False)
        for topic in topics
        for part in topic.partitions
        for broker in part.replicas
        if (not brokers or broker in brokers) and (topic.name, part.partition, broker) not in reported
    ]
    return sorted(sizes, key=lambda size: (size.size_bytes is None, -(size.size_bytes or 0), size[:3]))


def size_sums(sizes: Iterable[ReplicaSize], name: Callable[[ReplicaSize], str | int]) -> list[SizeSum]:
    """Sum the sizes by name, the largest first."""
    sums: dict[str | int, SizeSum] = {}
    for size in sizes:
        key = name(size)
        _, known, replicas, unknown = sums.get(key, SizeSum(key, 0, 0, 0))
        sums[key] = SizeSum(key, known + (size.size_bytes or 0), replicas + 1, unknown + (size.size_bytes is None))
    return sorted(sums.values(), key=lambda total: (-total.known_bytes, str(total.name)))
