"""The internal topics of the coordinators: created on first use, appended to in batches, read in offset order.

Rules: all records of one group, transactional id or share partition lie in one partition, found by the hash of the
name. One change is one batch.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, TypeVar

from kafkatools.core.broker.coordinators.host import Host
from kafkatools.core.broker.metadata.controller.topics import NewTopic
from kafkatools.core.broker.metadata.image import NO_LEADER, TopicState
from kafkatools.core.broker.replicas.delayed_produce import ProduceStatus
from kafkatools.core.broker.replicas.partition import Partition
from kafkatools.core.errors import CoordinatorNotAvailable, KafkaError, KafkaStorageError
from kafkatools.core.java.hashes import signed, string_hash
from kafkatools.core.log.producers.append import AppendOrigin
from kafkatools.core.protocol.schemas.errors import RecordFormatError
from kafkatools.core.records.batch import RecordBatch, read_batches
from kafkatools.core.records.builder import BatchBuilder

Record = tuple[bytes, bytes | None]
READ_BYTES = 1 << 20
RECORD_OVERHEAD_BYTES = 64
UNFRAMED_BYTES = 128
Read = TypeVar("Read")


@lru_cache(maxsize=4096)
def partition_for(name: str, partition_count: int) -> int:
    """The partition index of a group id, a transactional id or a share partition's name: Java's hash modulo the count.
    As Kafka's Utils.abs, the lowest 32-bit hash counts as 0."""
    value = signed(string_hash(name))
    return (0 if value == -(1 << 31) else abs(value)) % partition_count


class InternalTopic:
    """An internal topic whose partitions are led by this broker and others. A subclass sets `name` and `_new_topic`."""

    name: str

    def __init__(self, host: Host) -> None:
        self._host = host

    def _new_topic(self) -> NewTopic:
        """The partition count, replication factor and configs to create the topic with."""
        raise NotImplementedError

    def _in_cluster(self, setting: str) -> int:
        """The value of a replica count setting; 1 on a broker without a cluster."""
        count: int = self._host.config[setting] if self._host.is_clustered else 1
        return count

    def ensure_exists(self) -> TopicState:
        """The topic, created if missing. Raises CoordinatorNotAvailable if creation fails or is in flight."""
        topic = self._host.image.topics.get(self.name)
        if topic is not None:
            return topic
        result = self._host.create_topic(self._new_topic())
        if result is None:
            raise CoordinatorNotAvailable()
        if isinstance(result, KafkaError):
            self._host.note_failure(result)
            raise CoordinatorNotAvailable(str(result))
        return result

    def leader_of(self, key: str) -> int:
        """The id of the broker that coordinates a group, a transactional id or a share partition: the leader of its
        partition. Creates the topic if it is missing. Raises CoordinatorNotAvailable if creation fails or is in flight,
        if there is no leader, or if this broker leads but its log has failed."""
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
        """The topic's partitions on this broker, as leader or follower, in order of index. Empty before the topic
        exists."""
        partitions = self._host.replicas.partitions.get(self.name, {})
        return [partitions[index] for index in sorted(partitions)]

    def _append_batch(
        self, partition: Partition, records: Sequence[Record], origin: AppendOrigin, codec: int = 0, **producer: Any
    ) -> tuple[int, ProduceStatus | None]:
        """Append records to a partition as one batch, with the `producer` fields of a `BatchBuilder`. Returns the
        offset of the last record, and the status to wait for before the result is reported. The status is None if the
        batch is already replicated. Raises a KafkaError."""
        now_ms = self._host.clock.wall_ms()
        size = sum(len(key) + len(value or b"") + RECORD_OVERHEAD_BYTES for key, value in records)
        builder = BatchBuilder(size + UNFRAMED_BYTES, codec, **producer)
        for key, value in records:
            builder.append(now_ms, key, value)
        try:
            info = partition.append(memoryview(bytearray(builder.close())), now_ms, origin=origin)
        except KafkaStorageError as error:
            self._host.note_failure(error)
            raise
        self._host.replicas.note_append(partition)
        end = info.last_offset + 1
        return info.last_offset, None if partition.is_replicated_to(end) else ProduceStatus(partition, end)


def collect(read: Iterable[Read | None]) -> Generator[None, None, list[Read]]:
    """Gather the values of a sliced read into a list, which is the generator's return value. Yields at every None in
    `read`, so that the caller can do other work between two slices."""
    values = []
    for value in read:
        if value is None:
            yield
        else:
            values.append(value)
    return values


def passed_over(partition: Partition, error: Exception) -> RecordFormatError:
    """The error to report for a record of an internal topic that was skipped on loading because no coordinator can have
    written it."""
    return RecordFormatError(
        f"{partition.topic}-{partition.index} holds a record that no coordinator has written, which is skipped: {error}"
    )


def batches_of(partition: Partition) -> Iterator[RecordBatch]:
    """All record batches of a partition, from the log start offset to the log end offset."""
    log = partition.log
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        start_offset = offset
        for batch in read_batches(log.read(offset, READ_BYTES).read()):
            assert isinstance(batch, RecordBatch)
            if batch.next_offset > offset:
                offset = batch.next_offset
                yield batch
        if offset == start_offset:
            break
