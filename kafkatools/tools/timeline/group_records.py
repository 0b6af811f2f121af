"""Find the records of one group among the batches of a partition of `__consumer_offsets`.

Rules: every key begins with its type and the group id, so records of other groups are not decoded, and uncompressed
batches without these bytes not even as a batch. Records of a transaction count when its commit marker arrives.
Offsets without a record were removed by compaction: transaction markers have records of their own.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from kafkatools.core.errors import KafkaError
from kafkatools.core.protocol.entities import Entity
from kafkatools.core.protocol.schemas.errors import RecordFormatError, UnknownRecordType
from kafkatools.core.protocol.schemas.offsets import decode_record
from kafkatools.core.records.batch import RecordBatch
from kafkatools.core.records.compression import CompressionType
from kafkatools.core.records.control import ControlRecordType, EndTransactionMarker

if TYPE_CHECKING:
    from kafkatools.core.records.batch import AnyBatch

TOPIC = "__consumer_offsets"
_TYPE_BYTES = 2
_LENGTH = struct.Struct(">h")


class Damage(NamedTuple):
    """Offsets from `first_offset` up to `next_offset`, excluded, that cannot be read."""

    first_offset: int
    next_offset: int
    cause: str


class GroupRecord(NamedTuple):
    """A decoded record of the group; a value of None is a tombstone."""

    log_offset: int
    time_ms: int
    key: Entity
    value: Entity | None


class Compacted(NamedTuple):
    """Records below `offset` may have been removed; `time_ms` is the timestamp of the batch there."""

    offset: int
    time_ms: int


def key_prefix(group_id: str) -> bytes:
    """Return the bytes after the type in the keys of a group's records."""
    data = group_id.encode()
    return _LENGTH.pack(len(data)) + data


def group_of_key(key: bytes | None) -> str | None:
    """Return the group id in a record key, None if the key is no key of a group."""
    if key is None or len(key) < _TYPE_BYTES + _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack_from(key, _TYPE_BYTES)
    start = _TYPE_BYTES + _LENGTH.size
    if length < 0 or len(key) < start + length:
        return None
    return key[start : start + length].decode(errors="replace")


def may_hold(batch: AnyBatch, prefix: bytes) -> bool:
    """Return False if a batch certainly has no record with this key prefix."""
    if not isinstance(batch, RecordBatch) or batch.compression_type is not CompressionType.NONE:
        return True
    return prefix in bytes(batch.payload())


def group_names(items: Iterable[AnyBatch | Damage]) -> set[str]:
    """Return the ids of all groups that have records in these batches."""
    found: set[str] = set()
    for item in items:
        if isinstance(item, Damage) or item.is_control:
            continue
        try:
            columns = item.columns()
        except KafkaError:
            continue
        found.update(filter(None, map(group_of_key, map(columns.key, range(columns.count)))))
    return found


class GroupReader:
    """Reads the records of one group. After `read`, the attributes have gaps, damage and counts of skipped records."""

    def __init__(self, group_id: str) -> None:
        self._prefix = key_prefix(group_id)
        self._end = _TYPE_BYTES + len(self._prefix)
        self._open: dict[int, list[GroupRecord]] = {}
        self._expected = 0
        self.compacted: Compacted | None = None
        self.damages: list[Damage] = []
        self.undecodable = 0
        self.aborted = 0
        self.first_offset: int | None = None
        self.next_offset = 0

    @property
    def pending(self) -> list[GroupRecord]:
        """The records of transactions without a marker so far, in the order of the log."""
        return sorted((record for records in self._open.values() for record in records), key=lambda one: one.log_offset)

    def read(self, items: Iterable[AnyBatch | Damage]) -> Iterator[list[GroupRecord]]:
        """Yield the records of each batch that has some of the group; those of a transaction at its commit marker."""
        for item in items:
            if isinstance(item, Damage):
                self._skip(item)
                continue
            self._note_gaps(item)
            try:
                records = self._records(item)
            except KafkaError as error:
                self._skip(Damage(item.base_offset, item.next_offset, str(error)))
                continue
            if records:
                yield records

    def _skip(self, damage: Damage) -> None:
        self.damages.append(damage)
        self._expected = self.next_offset = max(self._expected, damage.next_offset)

    def _note_gaps(self, batch: AnyBatch) -> None:
        """Note offsets without a record, before the batch or in it."""
        base, end = batch.base_offset, batch.next_offset
        if self.first_offset is None:
            self.first_offset = base
        if isinstance(batch, RecordBatch) and batch.record_count <= batch.last_offset_delta:
            self.compacted = Compacted(end, batch.max_timestamp)
        elif base > self._expected:
            self.compacted = Compacted(base, batch.max_timestamp)
        self._expected = self.next_offset = end

    def _records(self, batch: AnyBatch) -> list[GroupRecord]:
        if isinstance(batch, RecordBatch) and batch.is_control:
            return self._end_transaction(batch)
        if not may_hold(batch, self._prefix):
            return []
        columns = batch.columns()
        records = []
        for index in range(columns.count):
            key = columns.key(index)
            if key is None or key[_TYPE_BYTES : self._end] != self._prefix:
                continue
            try:
                entities = decode_record(key, columns.value(index))
            except (RecordFormatError, UnknownRecordType):
                self.undecodable += 1
                continue
            records.append(GroupRecord(columns.offsets[index], columns.timestamps[index], *entities))
        if isinstance(batch, RecordBatch) and batch.is_transactional:
            self._open.setdefault(batch.producer_id, []).extend(records)
            return []
        return records

    def _end_transaction(self, batch: RecordBatch) -> list[GroupRecord]:
        marker = EndTransactionMarker.of_batch(batch)
        if marker is None:
            return []
        records = self._open.pop(batch.producer_id, [])
        if marker.type is ControlRecordType.COMMIT:
            return records
        self.aborted += len(records)
        return []
