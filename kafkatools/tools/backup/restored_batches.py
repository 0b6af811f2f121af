"""Turn stored batches into batches that a producer may write, without aborted and open transactions.

Rules: only records between the log start offset and the cut are restored. A batch without gaps is copied and keeps its
compressed records; its producer fields and flags are cleared. Batches with gaps, with LogAppendTime, of an old format
or partly outside of the range are decoded and built again with the same codec. The checksum of a stored batch is
checked first, since the new batch gets a new one.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from kafkatools.core.errors import KafkaError
from kafkatools.core.records import kernel
from kafkatools.core.records.batch import batch_at
from kafkatools.core.records.builder import BatchBuilder
from kafkatools.core.records.columns import NO_TIMESTAMP, RecordColumns
from kafkatools.core.records.crc import crc32c
from kafkatools.core.records.header import wrong_checksum
from kafkatools.core.records.layout import (
    ATTRIBUTES_OFFSET,
    CODEC_MASK,
    CONTROL_BIT,
    HEADER_SIZE,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    V2_HEADER,
)
from kafkatools.tools.backup.batch_scan import (
    ATTRIBUTES,
    BASE_OFFSET,
    BASE_TIMESTAMP,
    CRC,
    LAST_DELTA,
    MAGIC,
    MAX_TIMESTAMP,
    POSITION,
    PRODUCER_ID,
    RECORD_COUNT,
    SIZE,
    AbortedTransaction,
    BatchDamage,
    header_rows,
)
from kafkatools.tools.copying.copier import rows_of

_MAGIC = 2
_ROWS = 1024
_UNLIMITED = (1 << 31) - 1


class RestoredBatch(NamedTuple):
    """An encoded batch to write. `first_offset` and `next_offset`: the source offsets that it covers. `offsets`: those
    of its records if they are not consecutive, else None."""

    data: bytearray
    record_count: int
    first_offset: int
    next_offset: int
    offsets: Sequence[int] | None = None

    def records_before(self, offset: int) -> int:
        """Return the number of records below a source offset."""
        if self.offsets is not None:
            return bisect_left(self.offsets, offset)
        return min(max(offset - self.first_offset, 0), self.record_count)

    def without(self, count: int) -> RestoredBatch:
        """Return the batch without its first records. Raises KafkaError for records that cannot be decoded."""
        batch = batch_at(self.data, 0)
        columns = batch.columns()
        codec = self.data[ATTRIBUTES_OFFSET + 1] & CODEC_MASK
        first = self.first_offset + count if self.offsets is None else self.offsets[count]
        offsets = None if self.offsets is None else self.offsets[count:]
        data = encoded(columns.slice(count, columns.count), codec)
        return RestoredBatch(data, columns.count - count, first, self.next_offset, offsets)


class Selection:
    """The records of a partition that are restored: from `start` to before `end`, without the transactions in `aborted`
    and those in `open` (first offset by producer id)."""

    def __init__(
        self, start: int, end: int, aborted: Sequence[AbortedTransaction] = (), opened: Mapping[int, int] | None = None
    ) -> None:
        self.start, self.end = start, end
        self._open = dict(opened or {})
        self._aborted: dict[int, list[tuple[int, int]]] = {}
        for item in sorted(aborted, key=lambda item: item.first_offset):
            self._aborted.setdefault(item.producer_id, []).append((item.first_offset, item.last_offset))
        self.left_out_batches = 0
        self._table = array("q", bytes(8 * kernel.HEADER_WIDTH * _ROWS))
        self._status = array("q", (0, 0))

    def restored(self, data: memoryview) -> Iterator[RestoredBatch]:
        """Yield the batches to write of whole stored batches. Raises BatchDamage."""
        for table, row in header_rows(data, self._table, self._status):
            base = table[row + BASE_OFFSET]
            if base >= self.end:
                return
            if table[row + MAGIC] == _MAGIC and not self._is_selected(data, table, row):
                continue
            batch = self._batch(data, table, row)
            if batch is not None:
                yield batch

    def _is_selected(self, data: memoryview, table: array[int], row: int) -> bool:
        position, size = table[row + POSITION], table[row + SIZE]
        computed = crc32c(data[position + ATTRIBUTES_OFFSET : position + size])
        if computed != table[row + CRC]:
            raise BatchDamage(position, table[row + BASE_OFFSET], wrong_checksum(table[row + CRC], computed))
        attributes = table[row + ATTRIBUTES]
        if attributes & CONTROL_BIT or table[row + RECORD_COUNT] <= 0:
            return False
        if attributes & TRANSACTIONAL_BIT and not self._is_committed(
            table[row + PRODUCER_ID], table[row + BASE_OFFSET]
        ):
            self.left_out_batches += 1
            return False
        return table[row + BASE_OFFSET] + table[row + LAST_DELTA] >= self.start

    def _is_committed(self, producer_id: int, offset: int) -> bool:
        first_open = self._open.get(producer_id)
        if first_open is not None and offset >= first_open:
            return False
        spans = self._aborted.get(producer_id, [])
        index = bisect_right(spans, (offset, _UNLIMITED << 32)) - 1
        return index < 0 or offset > spans[index][1]

    def _batch(self, data: memoryview, table: array[int], row: int) -> RestoredBatch | None:
        base, count, last_delta = table[row + BASE_OFFSET], table[row + RECORD_COUNT], table[row + LAST_DELTA]
        position, size, attributes = table[row + POSITION], table[row + SIZE], table[row + ATTRIBUTES]
        is_whole = base >= self.start and base + last_delta < self.end and count == last_delta + 1
        if table[row + MAGIC] != _MAGIC or attributes & TIMESTAMP_TYPE_BIT or not is_whole:
            return self._built_again(data, position)
        copied = bytearray(data[position : position + size])
        timestamps = table[row + BASE_TIMESTAMP], table[row + MAX_TIMESTAMP]
        fields = (0, size - 12, -1, _MAGIC, 0, attributes & CODEC_MASK, last_delta, *timestamps, -1, -1, -1, count)
        V2_HEADER.pack_into(copied, 0, *fields)
        return RestoredBatch(copied, count, base, base + count)

    def _built_again(self, data: memoryview, position: int) -> RestoredBatch | None:
        batch = batch_at(data, position)
        try:
            batch.ensure_valid()
            columns = batch.columns()
        except KafkaError as error:
            raise BatchDamage(position, batch.base_offset, str(error)) from None
        low, high = bisect_left(columns.offsets, self.start), bisect_left(columns.offsets, self.end)
        if low >= high:
            return None
        rows = columns.slice(low, high)
        offsets = list(rows.offsets)
        next_offset = min(batch.next_offset, self.end)
        return RestoredBatch(encoded(rows, int(batch.compression_type)), rows.count, offsets[0], next_offset, offsets)


def encoded(columns: RecordColumns, codec: int) -> bytearray:
    """Encode records as one batch with the timestamps of the records (CreateTime)."""
    room = HEADER_SIZE + len(columns.buffer) + 32 * columns.count
    builder = BatchBuilder(_UNLIMITED, codec, buffer=bytearray(room))
    start = 0
    rows = rows_of(columns)
    while start < columns.count:
        added = builder.append_columns(rows, start, columns.count, NO_TIMESTAMP)
        if not added:
            raise ValueError("a batch that was decoded cannot be encoded again")
        start += added
    return bytearray(builder.close())
