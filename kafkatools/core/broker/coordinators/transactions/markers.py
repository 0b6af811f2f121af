"""Writes transaction markers: control batches that end a transaction in each of its partitions (WriteTxnMarkers).

Rules: a marker in `__consumer_offsets` also commits or drops the offsets that groups have pending in the transaction.
The coordinator and the API write through the same function.
"""

from __future__ import annotations

from typing import NamedTuple

from kafkatools.core.broker.coordinators.groups.coordinator import GroupCoordinator
from kafkatools.core.broker.coordinators.groups.offsets_topic import TOPIC as OFFSETS_TOPIC
from kafkatools.core.broker.coordinators.host import Host
from kafkatools.core.broker.coordinators.shards import Shards
from kafkatools.core.broker.coordinators.transactions.transaction import TopicPartition
from kafkatools.core.broker.replicas.delayed_produce import ProduceStatus
from kafkatools.core.errors import KafkaError, KafkaStorageError, NotLeaderOrFollower


class Marker(NamedTuple):
    """The commit or abort marker of one producer's transaction. With `transaction_version` 2 the producer epoch of the
    marker is one above that of the data."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    is_commit: bool
    transaction_version: int = 0


class MarkerWriter:
    """Writes markers to partitions that this broker leads. `group_shards` are those of `__consumer_offsets`."""

    def __init__(self, host: Host, groups: GroupCoordinator, group_shards: Shards) -> None:
        self._host = host
        self._groups = groups
        self._group_shards = group_shards

    def write(self, place: TopicPartition, marker: Marker) -> ProduceStatus | None:
        """Append the marker to a partition that this broker leads. In `__consumer_offsets`, also commit or drop the
        producer's pending offsets in that partition's groups. Returns the append to wait for, None if it is replicated.

        Raises UnknownTopicOrPartition, InvalidProducerEpoch, TransactionCoordinatorFenced, KafkaStorageError or
        NotLeaderOrFollower, the last also while groups of a partition of `__consumer_offsets` are loading.
        """
        from kafkatools.core.log.producers.append import AppendOrigin
        from kafkatools.core.records.control import (
            ControlRecordType,
            EndTransactionMarker,
            write_end_transaction_marker,
        )

        topic, index = place
        host = self._host
        partition = host.replicas.get(topic, index)
        if topic == OFFSETS_TOPIC:
            self._ensure_groups(index)
        kind = ControlRecordType.COMMIT if marker.is_commit else ControlRecordType.ABORT
        now_ms = host.clock.wall_ms()
        batch = write_end_transaction_marker(
            EndTransactionMarker(kind, marker.coordinator_epoch),
            timestamp=now_ms,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
        )
        version = marker.transaction_version
        try:
            info = partition.append(
                memoryview(batch), now_ms, origin=AppendOrigin.COORDINATOR, transaction_version=version
            )
        except OSError as error:
            raise KafkaStorageError(str(error)) from error
        host.replicas.note_append(partition)
        if topic == OFFSETS_TOPIC:
            self._groups.complete_transaction(marker.producer_id, index, is_commit=marker.is_commit)
        end = info.last_offset + 1
        return None if partition.is_replicated_to(end) else ProduceStatus(partition, end)

    def _ensure_groups(self, index: int) -> None:
        try:
            self._group_shards.ensure_partition_active(index)
        except KafkaError as error:
            raise NotLeaderOrFollower() from error
