"""`__transaction_state` on this node: made on first use, appended to, and read back at start.

Rules: all of a transactional id lies in one partition, found by the hash of the id; the partition's leader epoch is the
coordinator's epoch. One record is one batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kafkatools.core.broker.controller.metadata_image import TopicState
from kafkatools.core.broker.controller.topics import NewTopic
from kafkatools.core.broker.delayed_produce import ProduceStatus
from kafkatools.core.broker.group_coordinator.offsets_topic import partition_for
from kafkatools.core.broker.partition import Partition
from kafkatools.core.broker.transaction_coordinator.log_records import transaction_of
from kafkatools.core.broker.transaction_coordinator.transaction import Transaction
from kafkatools.core.errors import CoordinatorNotAvailable, KafkaError, KafkaStorageError, NotCoordinator

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node

TOPIC = "__transaction_state"
Record = tuple[bytes, bytes | None]
RECORD_OVERHEAD_BYTES = 128


class TransactionLog:
    """The topic on this node."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def ensure_exists(self) -> TopicState:
        """The topic, made now when it is not there; raises CoordinatorNotAvailable. One node can hold one replica."""
        topic = self._node.controller.image.topics.get(TOPIC)
        if topic is not None:
            return topic
        config = self._node.config
        wanted = NewTopic(
            TOPIC,
            config.transaction_state_log_num_partitions,
            1,
            configs={
                "unclean.leader.election.enable": "false",
                "compression.type": "uncompressed",
                "cleanup.policy": "compact",
                "min.insync.replicas": "1",
                "segment.bytes": str(config.transaction_state_log_segment_bytes),
            },
        )
        result: TopicState | KafkaError = self._node.controller.create_topics([wanted])[TOPIC]
        if isinstance(result, KafkaError):
            self._node.note_failure(result)
            raise CoordinatorNotAvailable(str(result))
        return result

    def partition_of(self, transactional_id: str) -> Partition:
        """Where an id lives; NotCoordinator when the topic was not made yet."""
        partitions = self._node.replicas.partitions.get(TOPIC)
        if not partitions:
            raise NotCoordinator()
        return partitions[partition_for(transactional_id, len(partitions))]

    def coordinator_epoch(self, transactional_id: str) -> int:
        """The epoch that markers carry."""
        return self.partition_of(transactional_id).leader_epoch

    def append(self, transactional_id: str, records: Sequence[Record]) -> ProduceStatus | None:
        """Write records of ids that share a partition as one batch. What it gives is to be waited for before anybody
        is told; None: nothing. Raises a KafkaError."""
        from kafkatools.core.records.builder import BatchBuilder

        partition = self.partition_of(transactional_id)
        now_ms = self._node.clock.wall_ms()
        size = sum(len(key) + len(value or b"") + RECORD_OVERHEAD_BYTES for key, value in records)
        builder = BatchBuilder(size)
        for key, value in records:
            builder.append(now_ms, key, value)
        try:
            info = partition.append(memoryview(bytearray(builder.close())), now_ms)
        except OSError as error:
            self._node.note_failure(error)
            raise KafkaStorageError(str(error)) from error
        self._node.replicas.note_append(partition)
        end = info.last_offset + 1
        return None if partition.is_replicated_to(end) else ProduceStatus(partition, end)

    def read_back(self) -> Iterator[Transaction]:
        """Every transactional id that is remembered; records that cannot be read are reported and passed over."""
        from kafkatools.core.broker.group_coordinator.offsets_topic import last_values
        from kafkatools.core.protocol.schemas.errors import RecordFormatError, UnknownRecordType
        from kafkatools.core.protocol.schemas.transaction_log import decode_record

        note_failure = self._node.note_failure
        for _, partition in sorted(self._node.replicas.partitions.get(TOPIC, {}).items()):
            if partition.log.log_end_offset == partition.log.log_start_offset:
                continue
            for key, value in last_values(partition, note_failure).items():
                try:
                    name, entity = decode_record(key, value)
                    yield transaction_of(name.transactional_id, entity)
                except (RecordFormatError, UnknownRecordType, ValueError) as error:
                    note_failure(error)
