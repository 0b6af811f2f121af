"""Transaction markers: the control batches that end a transaction in every partition it wrote to (WriteTxnMarkers).

Rules: a marker in `__consumer_offsets` also decides the offsets that groups
committed in the transaction. The coordinator and the API write through the same function.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafkatools.core.broker.coordinators.groups.offsets_topic import TOPIC as OFFSETS_TOPIC
from kafkatools.core.broker.coordinators.transactions.transaction import TopicPartition
from kafkatools.core.broker.replicas.delayed_produce import ProduceStatus
from kafkatools.core.errors import KafkaError, KafkaStorageError, NotLeaderOrFollower

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node


class Marker(NamedTuple):
    """The end of one producer's transaction. `transaction_version`: 2 has the markers' epoch above that of the data."""

    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    is_commit: bool
    transaction_version: int = 0


def write_marker(node: Node, place: TopicPartition, marker: Marker) -> ProduceStatus | None:
    """Append the marker to a partition that this node leads; gives what to wait for. Raises UnknownTopicOrPartition,
    InvalidProducerEpoch, TransactionCoordinatorFenced, KafkaStorageError, NotLeaderOrFollower: also while the groups of
    a partition of `__consumer_offsets` are being read."""
    from kafkatools.core.log.producers.append import AppendOrigin
    from kafkatools.core.records.control import ControlRecordType, EndTransactionMarker, write_end_transaction_marker

    topic, index = place
    partition = node.replicas.get(topic, index)
    if topic == OFFSETS_TOPIC:
        _ensure_groups(node, index)
    kind = ControlRecordType.COMMIT if marker.is_commit else ControlRecordType.ABORT
    now_ms = node.clock.wall_ms()
    batch = write_end_transaction_marker(
        EndTransactionMarker(kind, marker.coordinator_epoch),
        timestamp=now_ms,
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
    )
    try:
        info = partition.append(
            memoryview(batch), now_ms, origin=AppendOrigin.COORDINATOR, transaction_version=marker.transaction_version
        )
    except OSError as error:
        raise KafkaStorageError(str(error)) from error
    node.replicas.note_append(partition)
    if topic == OFFSETS_TOPIC:
        node.groups.complete_transaction(marker.producer_id, index, is_commit=marker.is_commit)
    end = info.last_offset + 1
    return None if partition.is_replicated_to(end) else ProduceStatus(partition, end)


def _ensure_groups(node: Node, index: int) -> None:
    try:
        node.coordination.groups.ensure_partition_active(index)
    except KafkaError as error:
        raise NotLeaderOrFollower() from error
