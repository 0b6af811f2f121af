"""`__share_group_state` on this node: made on first use, appended to, read back at start, and pruned.

Rules: all of a share partition lies in one partition, found by the hash of `group:topic id:partition`. Nothing is
compacted: reading back takes every record in order, and what lies before the oldest snapshot that counts is deleted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.controller.metadata_image import TopicState
from kafkatools.core.broker.controller.topics import NewTopic
from kafkatools.core.broker.delayed_produce import ProduceStatus
from kafkatools.core.broker.group_coordinator.offsets_topic import partition_for
from kafkatools.core.broker.partition import Partition
from kafkatools.core.broker.share_coordinator.share_state import Record, ShareKey
from kafkatools.core.errors import CoordinatorNotAvailable, KafkaError, KafkaStorageError
from kafkatools.core.protocol.uuids import uuid_text

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node

TOPIC = "__share_group_state"
READ_BYTES = 1 << 20
RECORD_OVERHEAD_BYTES = 128


class ShareStateTopic:
    """The topic."""

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
            config.share_coordinator_state_topic_num_partitions,
            1,
            configs={
                "cleanup.policy": "delete",
                "compression.type": "producer",
                "segment.bytes": str(config.share_coordinator_state_topic_segment_bytes),
                "retention.ms": "-1",
            },
        )
        result: TopicState | KafkaError = self._node.controller.create_topics([wanted])[TOPIC]
        if isinstance(result, KafkaError):
            self._node.note_failure(result)
            raise CoordinatorNotAvailable(str(result))
        return result

    def index_of(self, key: ShareKey) -> int:
        """The number of the partition that holds a share partition."""
        name = f"{key.group_id}:{uuid_text(key.topic_id)}:{key.partition}"
        return partition_for(name, len(self.ensure_exists().partitions))

    def append(self, key: ShareKey, record: Record) -> tuple[int, ProduceStatus | None]:
        """Write one record; gives its offset and what to wait for (None: nothing). Raises a KafkaError."""
        from kafkatools.core.log.producer_append import AppendOrigin
        from kafkatools.core.records.builder import BatchBuilder

        node = self._node
        partition = node.replicas.get(TOPIC, self.index_of(key))
        now_ms = node.clock.wall_ms()
        builder = BatchBuilder(
            len(record[0]) + len(record[1] or b"") + RECORD_OVERHEAD_BYTES,
            node.config.share_coordinator_state_topic_compression_codec,
        )
        builder.append(now_ms, *record)
        try:
            batch = memoryview(bytearray(builder.close()))
            info = partition.append(batch, now_ms, origin=AppendOrigin.COORDINATOR)
        except OSError as error:
            node.note_failure(error)
            raise KafkaStorageError(str(error)) from error
        node.replicas.note_append(partition)
        end = info.last_offset + 1
        return info.last_offset, None if partition.is_replicated_to(end) else ProduceStatus(partition, end)

    def read_back(self) -> Iterator[tuple[int, Any, Any]]:
        """Offset, key and value entities of every record in order; what cannot be read is reported and passed over."""
        for _, partition in sorted(self._node.replicas.partitions.get(TOPIC, {}).items()):
            yield from self._records(partition)

    def _records(self, partition: Partition) -> Iterator[tuple[int, Any, Any]]:
        from kafkatools.core.protocol.schemas.errors import RecordFormatError, UnknownRecordType
        from kafkatools.core.protocol.schemas.share_group_state import decode_record
        from kafkatools.core.records.batch import RecordBatch, read_batches

        log = partition.log
        offset = log.log_start_offset
        while offset < log.log_end_offset:
            before = offset
            for batch in read_batches(log.read(offset, READ_BYTES).read()):
                assert isinstance(batch, RecordBatch)
                if batch.next_offset <= offset:
                    continue
                offset = batch.next_offset
                try:
                    columns = batch.columns()
                    for i in range(columns.count):
                        yield columns.offsets[i], *decode_record(columns.key(i) or b"", columns.value(i))
                except (KafkaError, RecordFormatError, UnknownRecordType) as error:
                    self._node.note_failure(error)
            if offset == before:
                break

    def prune(self, index: int, before_offset: int) -> None:
        """Delete what lies before an offset."""
        partition = self._node.replicas.partitions.get(TOPIC, {}).get(index)
        if partition is not None and before_offset > partition.log.log_start_offset:
            partition.log.increment_log_start_offset(min(before_offset, partition.log.high_watermark))
