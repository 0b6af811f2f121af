"""Views on record batches in a buffer: magic 2 here, magic 0 and 1 in legacy.py.

Rules:

- A view copies and checks nothing when it is created. `ensure_valid` checks the size and the CRC, `columns` the
  records.
- Damage raises CorruptRecord with Kafka's message, or its subclass InvalidBatchContents where Kafka raises
  InvalidRecordException.
- A partial batch at the end of the data is the end of the data.

The format: KIP-98, org.apache.kafka.common.record.DefaultRecordBatch.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeAlias

from kafkatools.core.errors import CorruptRecord
from kafkatools.core.records import kernel
from kafkatools.core.records.columns import Record, RecordColumns, TimestampType
from kafkatools.core.records.compression import MAX_DECOMPRESSED_BYTES, CompressionType, decompress
from kafkatools.core.records.crc import crc32c
from kafkatools.core.records.header import (
    NO_PRODUCER_ID,
    BatchHeader,
    Buffer,
    InvalidBatchContents,
    too_small_for_header,
    too_small_in_message,
    wrong_checksum,
)
from kafkatools.core.records.layout import (
    ATTRIBUTES_OFFSET,
    CODEC_MASK,
    CRC_OFFSET,
    HEADER_SIZE,
    HEADER_SIZE_UP_TO_MAGIC,
    LOG_OVERHEAD,
    MAGIC_OFFSET,
    MAX_TIMESTAMP_OFFSET,
    SMALLEST_OVERHEAD,
    TIMESTAMP_TYPE_BIT,
    V2_HEADER,
)

if TYPE_CHECKING:
    from kafkatools.core.records.legacy import LegacyBatch


MINIMUM_RECORD_SIZE = 7
CURRENT_MAGIC = 2

_SIZE = struct.Struct(">qi")


class _Field:
    """A descriptor for one integer field of a batch's header."""

    def __init__(self, index: int) -> None:
        self._index = index

    def __get__(self, batch: RecordBatch, owner: type[RecordBatch]) -> int:
        value: int = batch.header[self._index]
        return value


class RecordBatch:
    """A view on a batch of magic 2 at `position` in a buffer."""

    __slots__ = ("_header", "base_offset", "buffer", "length", "position")

    def __init__(self, buffer: Buffer, position: int = 0) -> None:
        self.buffer = buffer
        self.position = position
        self.base_offset: int
        self.length: int
        self.base_offset, self.length = _SIZE.unpack_from(buffer, position)
        self._header: BatchHeader | None = None

    def __repr__(self) -> str:
        return f"RecordBatch(base_offset={self.base_offset}, size_bytes={self.size_bytes}, position={self.position})"

    @property
    def header(self) -> BatchHeader:
        """The decoded header. Raises CorruptRecord when the buffer is shorter than a header."""
        if self._header is None:
            if len(self.buffer) - self.position < HEADER_SIZE:
                raise CorruptRecord(too_small_for_header(self.size_bytes))
            self._header = BatchHeader._make(V2_HEADER.unpack_from(self.buffer, self.position))
        return self._header

    @property
    def size_bytes(self) -> int:
        """The size of the whole batch in bytes, with base offset and length fields."""
        return self.length + LOG_OVERHEAD

    partition_leader_epoch = _Field(2)
    magic = _Field(3)
    crc = _Field(4)
    attributes = _Field(5)
    last_offset_delta = _Field(6)
    base_timestamp = _Field(7)
    """What the records' timestamps are relative to; the delete horizon of a batch that has one."""
    max_timestamp = _Field(8)
    producer_id = _Field(9)
    producer_epoch = _Field(10)
    base_sequence = _Field(11)
    record_count = _Field(12)

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.header[6]

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.header[6] + 1

    @property
    def last_sequence(self) -> int:
        return self.header.last_sequence

    @property
    def compression_type(self) -> CompressionType:
        """The batch's codec. Raises UnsupportedCompressionType for an unknown number."""
        return CompressionType.for_id(self.header[5] & CODEC_MASK)

    @property
    def timestamp_type(self) -> TimestampType:
        return TimestampType.LOG_APPEND_TIME if self.header[5] & TIMESTAMP_TYPE_BIT else TimestampType.CREATE_TIME

    @property
    def is_transactional(self) -> bool:
        return self.header.is_transactional

    @property
    def is_control(self) -> bool:
        return self.header.is_control

    @property
    def delete_horizon_ms(self) -> int | None:
        """The time in ms from which the cleaner may drop tombstones and markers, None if not set (KIP-534)."""
        return self.header.delete_horizon_ms

    @property
    def has_producer_id(self) -> bool:
        return self.header[9] > NO_PRODUCER_ID

    def computed_crc(self) -> int:
        """Return the CRC-32C of the bytes from the attributes field to the end of the batch."""
        view = memoryview(self.buffer)
        crc: int = crc32c(view[self.position + ATTRIBUTES_OFFSET : self.position + self.size_bytes])
        return crc

    def is_valid(self) -> bool:
        """Return whether the size is at least a header and the CRC is right (DefaultRecordBatch.isValid). Raises
        CorruptRecord when the buffer is shorter than a header."""
        return self.size_bytes >= HEADER_SIZE and self.crc == self.computed_crc()

    def ensure_valid(self) -> None:
        """Raise CorruptRecord with Kafka's message unless the size and the CRC are valid."""
        if self.size_bytes < HEADER_SIZE:
            raise CorruptRecord(too_small_for_header(self.size_bytes))
        if not self.is_valid():
            raise CorruptRecord(wrong_checksum(self.crc, self.computed_crc()))

    def to_bytes(self) -> bytes:
        """Return a copy of the batch's bytes."""
        return bytes(self.buffer[self.position : self.position + self.size_bytes])

    def payload(self) -> memoryview:
        """Return the bytes after the header: the records, compressed or not."""
        return memoryview(self.buffer)[self.position + HEADER_SIZE : self.position + max(self.size_bytes, HEADER_SIZE)]

    def columns(self, max_output_bytes: int = MAX_DECOMPRESSED_BYTES) -> RecordColumns:
        """Return the decompressed records as columns, without a check of the CRC. With LogAppendTime every timestamp is
        the batch's max timestamp. Raises CorruptRecord for damage, RecordTooLarge for more than `max_output_bytes`,
        UnsupportedCompressionType."""
        columns, error = self.try_columns(max_output_bytes)
        if error is not None:
            raise error
        return columns

    def try_columns(
        self, max_output_bytes: int = MAX_DECOMPRESSED_BYTES
    ) -> tuple[RecordColumns, InvalidBatchContents | None]:
        """Return the records before the first damaged one and the error for that one, None if all are valid. Raises
        what `columns` raises if no record can be read: for a negative count, an unknown codec, failed decompression."""
        count = self.record_count
        if count < 0:
            raise InvalidBatchContents(f"Found invalid record count {count} in magic v{self.magic} batch")
        if count == 0:
            return RecordColumns.empty(), None
        codec = self.compression_type
        payload: Buffer = self.payload()
        if codec is not CompressionType.NONE:
            payload = decompress(codec, payload, max_output_bytes=max_output_bytes)
        columns, end = self._decode(payload, min(count, len(payload) // MINIMUM_RECORD_SIZE))
        if columns.count == count and end == len(payload):
            return columns, None
        from kafkatools.core.records.damage import explain

        return columns, InvalidBatchContents(
            explain(payload, end, columns.count < count, codec is not CompressionType.NONE)
        )

    def _decode(self, payload: Buffer, count: int) -> tuple[RecordColumns, int]:
        longs = kernel.new_longs(count), kernel.new_longs(count)
        ints = (
            kernel.new_ints(count),
            kernel.new_ints(count),
            kernel.new_ints(count),
            kernel.new_ints(count),
            array("i", bytes(4 * count)),
            array("i", bytes(4 * count)),
        )
        status = array("q", (0, 0))
        decoded = kernel.decode_records(payload, count, self.base_offset, self.base_timestamp, longs, ints, status)
        timestamp_type = self.timestamp_type
        if timestamp_type is TimestampType.LOG_APPEND_TIME:
            longs = longs[0], array("q", (self.max_timestamp,)) * count
        columns = RecordColumns(payload, longs, ints, timestamp_type)
        return columns if decoded == count else columns.slice(0, decoded), status[kernel.STATUS_POSITION]

    def records(self) -> Iterator[Record]:
        """Iterate over the records as objects. Raises as `columns` does."""
        return self.columns().records()


AnyBatch: TypeAlias = "RecordBatch | LegacyBatch"


def batch_at(buffer: Buffer, position: int) -> AnyBatch:
    """Return a view on the batch at a position: a LegacyBatch for magic byte 0 or 1, else a RecordBatch. Nothing is
    checked."""
    if buffer[position + MAGIC_OFFSET] in (0, 1):
        from kafkatools.core.records.legacy import LegacyBatch

        return LegacyBatch(buffer, position)
    return RecordBatch(buffer, position)


def read_batches(buffer: Buffer, start: int = 0, end: int | None = None) -> Iterator[AnyBatch]:
    """Yield views on the batches in network data, up to a partial batch (ByteBufferLogInputStream). Raises
    CorruptRecord for a size below the smallest overhead and for an unknown magic byte."""
    end = len(buffer) if end is None else min(end, len(buffer))
    position = start
    while end - position >= LOG_OVERHEAD:
        length = _SIZE.unpack_from(buffer, position)[1]
        if length < SMALLEST_OVERHEAD:
            raise CorruptRecord(too_small_in_message(length))
        if end - position < HEADER_SIZE_UP_TO_MAGIC:
            return
        magic = buffer[position + MAGIC_OFFSET]
        if magic > CURRENT_MAGIC:
            raise CorruptRecord(f"Invalid magic found in record: {magic - 256 if magic > 127 else magic}")
        if end - position < length + LOG_OVERHEAD:
            return
        yield batch_at(buffer, position)
        position += length + LOG_OVERHEAD


def stamp_batch(
    buffer: bytearray | memoryview,
    position: int,
    *,
    base_offset: int,
    leader_epoch: int,
    append_time: int | None = None,
) -> None:
    """Write base offset and leader epoch into a batch of magic 2, in place, as a leader does. With `append_time` (ms)
    the batch becomes one of LogAppendTime: attributes, max timestamp and CRC are rewritten too
    (DefaultRecordBatch.setLastOffset, setPartitionLeaderEpoch, setMaxTimestamp)."""
    struct.pack_into(">q", buffer, position, base_offset)
    struct.pack_into(">i", buffer, position + LOG_OVERHEAD, leader_epoch)
    if append_time is None:
        return
    (length,) = struct.unpack_from(">i", buffer, position + 8)
    (attributes,) = struct.unpack_from(">h", buffer, position + ATTRIBUTES_OFFSET)
    struct.pack_into(">h", buffer, position + ATTRIBUTES_OFFSET, attributes | TIMESTAMP_TYPE_BIT)
    struct.pack_into(">q", buffer, position + MAX_TIMESTAMP_OFFSET, append_time)
    stamp_crc(buffer, position, length + LOG_OVERHEAD)


def stamp_crc(buffer: bytearray | memoryview, position: int, size_bytes: int) -> None:
    """Compute the CRC-32C of a changed batch and write it into the batch's header."""
    crc = crc32c(memoryview(buffer)[position + ATTRIBUTES_OFFSET : position + size_bytes])
    struct.pack_into(">I", buffer, position + CRC_OFFSET, crc)
