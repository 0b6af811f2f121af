"""`__share_group_state` on this broker: created on first use, appended to, loaded and pruned.

Rules: all records of a share partition lie in one partition, found by the hash of `group:topic id:partition`. The topic
is not compacted. Loading reads the records in order from the log start offset, and `prune` deletes the log before the
oldest needed snapshot.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kafkatools.core.broker.coordinators.groups.errors import coordinator_error_code
from kafkatools.core.broker.coordinators.internal_topic import (
    InternalTopic,
    batches_of,
    partition_for,
    passed_over,
)
from kafkatools.core.broker.coordinators.share_state.share_state import Record, ShareKey, name_of
from kafkatools.core.broker.metadata.controller.topics import NewTopic
from kafkatools.core.broker.replicas.delayed_produce import ProduceStatus
from kafkatools.core.broker.replicas.partition import Partition
from kafkatools.core.errors import KafkaError, error_for_code
from kafkatools.core.log.producers.append import AppendOrigin

TOPIC = "__share_group_state"
SLICE_BATCHES = 100
StoredRecord = tuple[int, Any, Any]


class ShareStateTopic(InternalTopic):
    """`__share_group_state` on this broker."""

    name = TOPIC

    def _new_topic(self) -> NewTopic:
        config = self._host.config
        configs = {
            "cleanup.policy": "delete",
            "compression.type": "producer",
            "segment.bytes": str(config.share_coordinator_state_topic_segment_bytes),
            "retention.ms": "-1",
        }
        if self._host.is_clustered:
            configs["min.insync.replicas"] = str(config.share_coordinator_state_topic_min_isr)
        factor = self._in_cluster("share.coordinator.state.topic.replication.factor")
        return NewTopic(TOPIC, config.share_coordinator_state_topic_num_partitions, factor, configs=configs)

    def index_of(self, key: ShareKey) -> int:
        """The `__share_group_state` partition index of a share partition. Creates the topic if it is missing. Raises
        CoordinatorNotAvailable if creation fails or is in flight."""
        return partition_for(name_of(key), len(self.ensure_exists().partitions))

    def append(self, key: ShareKey, record: Record) -> tuple[int, ProduceStatus | None]:
        """Append one record to the `__share_group_state` partition of a share partition, as one batch. Returns its
        offset, and the status to wait for, None if it is replicated. Raises a KafkaError with the code for clients: too
        few in-sync replicas become CoordinatorNotAvailable, which clients retry."""
        codec = self._host.config.share_coordinator_state_topic_compression_codec
        try:
            partition = self._host.replicas.get(TOPIC, self.index_of(key))
            return self._append_batch(partition, [record], AppendOrigin.COORDINATOR, codec)
        except KafkaError as error:
            raise error_for_code(coordinator_error_code(error))(str(error)) from error

    def read(self, partition: Partition) -> Iterator[StoredRecord | None]:
        """Read offset, key entity and value entity of the records in order. Yields None after every SLICE_BATCHES
        batches. Skips and reports a record that cannot be decoded, with the rest of its batch."""
        from kafkatools.core.protocol.schemas.errors import RecordFormatError, UnknownRecordType
        from kafkatools.core.protocol.schemas.share_group_state import decode_record

        for count, batch in enumerate(batches_of(partition), 1):
            try:
                columns = batch.columns()
                for i in range(columns.count):
                    yield columns.offsets[i], *decode_record(columns.key(i) or b"", columns.value(i))
            except (KafkaError, RecordFormatError, UnknownRecordType) as error:
                self._host.note_failure(passed_over(partition, error))
            if count % SLICE_BATCHES == 0:
                yield None

    def prune(self, index: int, before_offset: int) -> None:
        """Delete a partition's log before an offset, at most up to the high watermark. Does nothing if this broker is
        not the leader, or if the log already starts at that offset or later."""
        partition = self._host.replicas.partitions.get(TOPIC, {}).get(index)
        if partition is not None and partition.is_leader and before_offset > partition.log.log_start_offset:
            partition.log.increment_log_start_offset(min(before_offset, partition.log.high_watermark))
