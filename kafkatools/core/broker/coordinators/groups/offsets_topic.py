"""`__consumer_offsets` on this broker: created on first use, appended to, and loaded when a partition is led.

Rules: all records of a group lie in one partition, found by the hash of its id; the records of one change are one
batch. Loading keeps the last value of each key and decodes only those. Records of a transaction count after its commit
marker.
"""

from __future__ import annotations

from collections import UserDict
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from typing import Any, NamedTuple

from kafkatools.core.broker.coordinators.groups.replaced_values import Progress
from kafkatools.core.broker.coordinators.internal_topic import (
    InternalTopic,
    Record,
    batches_of,
    partition_for,
    passed_over,
)
from kafkatools.core.broker.metadata.controller.topics import NewTopic
from kafkatools.core.broker.replicas.delayed_produce import ProduceStatus
from kafkatools.core.broker.replicas.partition import Partition
from kafkatools.core.errors import KafkaError, MessageTooLarge
from kafkatools.core.log.producers.append import AppendOrigin

TOPIC = "__consumer_offsets"
NO_COMPRESSION = 0
SLICE_BYTES = 256 * 1024
ReplacedValues = dict[int, dict[bytes, bytes | None]]
"""Values of keys before a batch (None: no value), by the end offset of the batch."""


class Producer(NamedTuple):
    """The producer id and epoch of a transaction that commits offsets."""

    producer_id: int
    producer_epoch: int


NO_PRODUCER = Producer(-1, -1)


class OffsetsTopic(InternalTopic):
    """`__consumer_offsets` on this broker."""

    name = TOPIC
    on_group_append: Callable[[str], None] = staticmethod(lambda group_id: None)
    """Called with the group id after the append of a group's change, before the change is applied."""

    def _new_topic(self) -> NewTopic:
        config = self._host.config
        configs = {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(config.offsets_topic_segment_bytes),
        }
        factor = self._in_cluster("offsets.topic.replication.factor")
        return NewTopic(TOPIC, config.offsets_topic_num_partitions, factor, configs=configs)

    def append(
        self, group_id: str, records: Sequence[Record], producer: Producer = NO_PRODUCER
    ) -> ProduceStatus | None:
        """Append records of a group as one batch, as part of a transaction if `producer` is set. Returns the append to
        wait for before clients are answered, None if it is replicated or there are no records. Raises MessageTooLarge
        or another KafkaError if the batch was not written."""
        if not records:
            return None
        partition = self._host.replicas.get(TOPIC, self.partition_of(group_id))
        codec, most = self._host.config.offsets_topic_compression_codec, partition.log.config.max_message_bytes
        payload = sum(len(key) + len(value or b"") for key, value in records)
        if codec == NO_COMPRESSION and payload > most:
            raise MessageTooLarge(f"{len(records)} records of {payload} bytes exceed max.message.bytes, {most}.")
        _, status = self._append_batch(
            partition,
            records,
            AppendOrigin.COORDINATOR,
            codec,
            producer_id=producer.producer_id,
            producer_epoch=producer.producer_epoch,
            base_sequence=0,
            is_transactional=producer is not NO_PRODUCER,
        )
        return status

    def append_change(self, group_id: str, records: Sequence[Record]) -> None:
        """Append the records of a change of the group itself, not only of its offsets. Raises as `append`."""
        self.append(group_id, records)
        self.on_group_append(group_id)

    def partition_of(self, group_id: str) -> int:
        """The index of the `__consumer_offsets` partition that holds a group. Creates the topic if it is missing.
        Raises CoordinatorNotAvailable if creation fails or is in flight."""
        return partition_for(group_id, len(self.ensure_exists().partitions))

    def progress(self, group_id: str) -> Progress:
        """Log end offset and high watermark of a group's partition; 0 and -1 if this broker does not have the partition
        or its log directory is offline. Raises CoordinatorNotAvailable as `partition_of`."""
        partition = self._host.replicas.partitions.get(TOPIC, {}).get(self.partition_of(group_id))
        if partition is None:  # its log directory is offline
            return Progress(0, -1)
        return Progress(partition.log.log_end_offset, partition.log.high_watermark)

    def note_failure(self, error: Exception) -> None:
        """Report an error that no client waits for."""
        self._host.note_failure(error)


class OpenRecord(NamedTuple):
    """A record of an open transaction. `is_superseded`: a later write of the key has won, but the key stays unstable
    until the transaction's marker."""

    offset: int
    value: bytes | None
    is_superseded: bool = False


class OpenTransactions:
    """The records of open transactions while a log is read, by producer and key."""

    def __init__(self) -> None:
        self._producers: dict[Producer, dict[bytes, OpenRecord]] = {}

    def __bool__(self) -> bool:
        return bool(self._producers)

    def add(self, producer: Producer, offset: int, key: bytes, value: bytes | None) -> None:
        """Add a record of an open transaction. Replaces an earlier record of the producer with the same key."""
        self._producers.setdefault(producer, {})[key] = OpenRecord(offset, value)

    def supersede(self, key: bytes, end_offset: int, *, is_deletion: bool = False) -> None:
        """Mark transactional records of a key below offset `end_offset`, where a later write of the key lies; drop them
        if that write is a tombstone."""
        for records in self._producers.values():
            if key in records and records[key].offset < end_offset:
                if is_deletion:
                    del records[key]
                else:
                    records[key] = records[key]._replace(is_superseded=True)

    def end(self, producer_id: int) -> dict[bytes, OpenRecord]:
        """Remove and return the records of a producer whose marker was read, by key. The marker's epoch may be higher
        than that of the records."""
        ended: dict[bytes, OpenRecord] = {}
        for producer in [producer for producer in self._producers if producer.producer_id == producer_id]:
            ended.update(self._producers.pop(producer))
        return ended

    def records(self) -> Iterator[tuple[Producer, bytes, OpenRecord]]:
        """Producer, key and record of those that are still open, in offset order, without tombstones."""
        rows = [
            (producer, key, record)
            for producer, records in self._producers.items()
            for key, record in records.items()
            if record.value is not None
        ]
        yield from sorted(rows, key=lambda row: row[2].offset)


def read_last_values(
    partition: Partition,
    note_failure: Callable[[Exception], None],
    values: dict[bytes, bytes | None],
    open_transactions: OpenTransactions,
    replaced: ReplacedValues | None = None,
) -> Iterator[None]:
    """Read a partition into `values`: the last value of each key, None for a tombstone. Yields after every SLICE_BYTES.
    `open_transactions` gets the records without a marker; aborted ones are dropped. `replaced` gets, by end offset of
    each batch above the high watermark, the values that the batch replaced. Skips and reports undecodable batches."""
    size = 0
    for batch in batches_of(partition):
        target: MutableMapping[bytes, bytes | None] = values
        if replaced is not None and batch.next_offset > partition.log.high_watermark:
            target = _Recorded(values, replaced.setdefault(batch.next_offset, {}))
        try:
            _take(batch, target, open_transactions)
        except KafkaError as error:
            note_failure(passed_over(partition, error))
        size += batch.size_bytes
        if size >= SLICE_BYTES:
            size = 0
            yield


class _Recorded(UserDict[bytes, bytes | None]):
    """A view of `values` that stores the value before the first change of each key in `replaced`."""

    def __init__(self, values: dict[bytes, bytes | None], replaced: dict[bytes, bytes | None]) -> None:
        self.data = values
        self._replaced = replaced

    def __setitem__(self, key: bytes, value: bytes | None) -> None:
        self._replaced.setdefault(key, self.data.get(key))
        self.data[key] = value


def _take(batch: Any, values: MutableMapping[bytes, bytes | None], open_transactions: OpenTransactions) -> None:
    if batch.is_control:
        _end_transaction(batch, values, open_transactions)
        return
    columns = batch.columns()
    producer = Producer(batch.producer_id, batch.producer_epoch)
    for i in range(columns.count):
        key, value = columns.key(i), columns.value(i)
        if key is None:
            continue
        if batch.is_transactional:
            open_transactions.add(producer, columns.offsets[i], key, value)
            continue
        values[key] = value
        if open_transactions:
            open_transactions.supersede(key, columns.offsets[i], is_deletion=value is None)


def _end_transaction(
    batch: Any, values: MutableMapping[bytes, bytes | None], open_transactions: OpenTransactions
) -> None:
    from kafkatools.core.records.control import ControlRecordType, EndTransactionMarker

    marker = EndTransactionMarker.of_batch(batch)
    if marker is None:  # the cleaner empties a marker only when its transaction has no records left
        return
    records = open_transactions.end(batch.producer_id)
    if marker.type is ControlRecordType.COMMIT:
        for key, record in records.items():
            if not record.is_superseded:
                values[key] = record.value
                open_transactions.supersede(key, record.offset)


def decoded(values: Mapping[bytes, bytes | None]) -> Iterator[tuple[Any, Any]]:
    """Key and value entities of records, without tombstones and unknown record types."""
    from kafkatools.core.protocol.schemas.errors import RecordFormatError, UnknownRecordType
    from kafkatools.core.protocol.schemas.offsets import decode_record

    for key, value in values.items():
        if value is None:
            continue
        try:
            yield decode_record(key, value)
        except (RecordFormatError, UnknownRecordType):
            continue


def decoded_open(open_transactions: OpenTransactions) -> Iterator[tuple[Producer, Any, Any]]:
    """Producer, key entity and value entity of the offsets that open transactions have committed, in offset order; None
    for the value of an offset that a later commit has replaced."""
    for producer, key, record in open_transactions.records():
        for key_entity, value_entity in decoded({key: record.value}):
            if type(key_entity).__schema__.name == "OffsetCommitKey":
                yield producer, key_entity, None if record.is_superseded else value_entity
