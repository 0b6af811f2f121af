"""What the topics of the coordinators have in common: made on first use, written a batch at a time, read in order.

Rules: all that belongs together lies in one partition, found by the hash of its name; one change is one batch.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from functools import lru_cache
from typing import TypeVar

from kafkatools.core.broker.coordinators.host import Host
from kafkatools.core.broker.metadata.controller.topics import NewTopic
from kafkatools.core.broker.metadata.image import NO_LEADER, TopicState
from kafkatools.core.broker.replicas.delayed_produce import ProduceStatus
from kafkatools.core.broker.replicas.partition import Partition
from kafkatools.core.errors import CoordinatorNotAvailable, KafkaError, KafkaStorageError
from kafkatools.core.java.hashes import signed, string_hash
from kafkatools.core.log.producers.append import AppendOrigin
from kafkatools.core.protocol.schemas.errors import RecordFormatError
from kafkatools.core.records.batch import RecordBatch
from kafkatools.core.records.builder import BatchBuilder

Record = tuple[bytes, bytes | None]
READ_BYTES = 1 << 20
Read = TypeVar("Read")


@lru_cache(maxsize=4096)
def partition_for(name: str, partition_count: int) -> int:
    """The partition of a group, a transactional id or a share partition (Utils.abs: the least int counts as 0)."""
    value = signed(string_hash(name))
    return (0 if value == -(1 << 31) else abs(value)) % partition_count


class InternalTopic:
    """A topic that a coordinator of this node keeps."""

    name: str

    def __init__(self, host: Host) -> None:
        self._host = host

    def _wanted(self) -> NewTopic:
        """The topic as it is made."""
        raise RuntimeError("an internal topic defines _wanted")

    def _in_cluster(self, setting: str) -> int:
        """How many replicas a setting wants; a node on its own has one."""
        count: int = self._host.config[setting] if self._host.is_clustered else 1
        return count

    def ensure_exists(self) -> TopicState:
        """The topic, made now when it is not there; raises CoordinatorNotAvailable, also while it is being made."""
        topic = self._host.image.topics.get(self.name)
        if topic is not None:
            return topic
        result = self._host.create_topic(self._wanted())
        if result is None:
            raise CoordinatorNotAvailable()
        if isinstance(result, KafkaError):
            self._host.note_failure(result)
            raise CoordinatorNotAvailable(str(result))
        return result

    def leader_of(self, key: str) -> int:
        """Who coordinates a group, a transactional id or a share partition: the leader of its partition. Raises
        CoordinatorNotAvailable: there is none, or it is this node and cannot write."""
        partitions = self.ensure_exists().partitions
        index = partition_for(key, len(partitions))
        leader = partitions[index].leader
        if leader == self._host.node_id:
            partition = self._host.replicas.partitions.get(self.name, {}).get(index)
            if partition is None or partition.log.failure is not None:
                raise CoordinatorNotAvailable()
        if leader == NO_LEADER:
            raise CoordinatorNotAvailable()
        return leader

    def partitions(self) -> list[Partition]:
        """The partitions in order; none before the topic was made."""
        found = self._host.replicas.partitions.get(self.name, {})
        return [found[index] for index in sorted(found)]

    def _append_batch(
        self, partition: Partition, builder: BatchBuilder, now_ms: int, origin: AppendOrigin
    ) -> tuple[int, ProduceStatus | None]:
        """Write a batch; gives the offset of its last record and what to wait for before anybody is told (None:
        nothing). Raises a KafkaError."""
        try:
            info = partition.append(memoryview(bytearray(builder.close())), now_ms, origin=origin)
        except KafkaStorageError as error:
            self._host.note_failure(error)
            raise
        self._host.replicas.note_append(partition)
        end = info.last_offset + 1
        return info.last_offset, None if partition.is_replicated_to(end) else ProduceStatus(partition, end)


def collect(read: Iterable[Read | None]) -> Generator[None, None, list[Read]]:
    """What a partition holds, read in slices: a None between two values is where others get their turn."""
    found = []
    for value in read:
        if value is None:
            yield
        else:
            found.append(value)
    return found


def passed_over(partition: Partition, error: Exception) -> RecordFormatError:
    """The report that a record or batch of a partition is passed over; it was not written by a coordinator."""
    return RecordFormatError(
        f"{partition.topic}-{partition.index} holds what no coordinator has written; it is passed over: {error}"
    )


def batches_of(partition: Partition) -> Iterator[RecordBatch]:
    """The batches of a partition from its start to its end, each once."""
    from kafkatools.core.records.batch import RecordBatch, read_batches

    log = partition.log
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        before = offset
        for batch in read_batches(log.read(offset, READ_BYTES).read()):
            assert isinstance(batch, RecordBatch)
            if batch.next_offset > offset:
                offset = batch.next_offset
                yield batch
        if offset == before:
            break
