"""The header of a record batch: its fields, its checksum and its size.

Appends and recovery need only the header of each batch, so one `struct` call reads it into a tuple. Message sets (magic
0 and 1) give the same tuple, with -1 for missing fields. Records are never decoded here. Source: KIP-98,
org.apache.kafka.common.record.DefaultRecordBatch.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from struct import Struct
from typing import ClassVar, NamedTuple

from kafkatools.core.errors import CorruptRecord
from kafkatools.core.records.crc import crc32c
from kafkatools.core.records.layout import (
    ATTRIBUTES_OFFSET,
    CODEC_MASK,
    CONTROL_BIT,
    DELETE_HORIZON_BIT,
    HEADER_SIZE,
    HEADER_SIZE_UP_TO_MAGIC,
    LEGACY_CRC_START,
    LOG_OVERHEAD,
    MAGIC_OFFSET,
    SMALLEST_OVERHEAD,
    TRANSACTIONAL_BIT,
    V2_HEADER,
)

Buffer = bytes | bytearray | memoryview

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_TIMESTAMP = -1
NO_PARTITION_LEADER_EPOCH = -1

_OVERHEAD = Struct(">qi")
_LEGACY_HEADER = Struct(">qiIbb")
_LONG = Struct(">q")
_LAST_SEQUENCE = 0x7FFFFFFF
_SEQUENCES = 1 << 31


class InvalidBatchContents(CorruptRecord):
    """The records of a batch contradict its header (Kafka's InvalidRecordException)."""

    code: ClassVar[int] = 87
    name: ClassVar[str] = "INVALID_RECORD"
    retriable: ClassVar[bool] = False


class BatchHeader(NamedTuple):
    """The header fields of a batch in byte order. `length` does not count the 12 bytes of base offset and length."""

    base_offset: int
    length: int
    partition_leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp: int
    max_timestamp: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size_bytes(self) -> int:
        """The size of the whole batch in bytes, with base offset and length fields."""
        return self.length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        """The offset of the last record that the producer wrote. Compaction may have removed that record."""
        return self.base_offset + self.last_offset_delta

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record, -1 without a base sequence."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return increment_sequence(self.base_sequence, self.last_offset_delta)

    @property
    def codec(self) -> int:
        """The compression type's number."""
        return self.attributes & CODEC_MASK

    @property
    def is_transactional(self) -> bool:
        """Return whether the batch is part of a transaction."""
        return self.attributes & TRANSACTIONAL_BIT != 0

    @property
    def is_control(self) -> bool:
        """Return whether the batch holds control records."""
        return self.attributes & CONTROL_BIT != 0

    @property
    def delete_horizon_ms(self) -> int | None:
        """The time in ms from which the cleaner may drop tombstones and markers, None if not set (KIP-534)."""
        return self.base_timestamp if self.attributes & DELETE_HORIZON_BIT else None


def increment_sequence(sequence: int, increment: int) -> int:
    """Add to a sequence number, which wraps to 0 after 2147483647 (DefaultRecordBatch.incrementSequence). A damaged
    header may have a negative increment; the result then overflows like a Java int."""
    total = sequence + increment
    if increment >= 0:
        return total if total <= _LAST_SEQUENCE else total - _SEQUENCES
    if total < -_SEQUENCES:
        return total + 2 * _SEQUENCES
    return total - _SEQUENCES if total >= 0 else total + _SEQUENCES


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """Read the batch header at a position. Raises CorruptRecord when the batch is smaller than its header, or with
    magic 2 the buffer. The buffer must have 18 bytes, and with magic 1 the 8 of the timestamp. A message set (magic
    below 2) has only offset, size, CRC, attributes and, with magic 1, a timestamp."""
    if len(buffer) - position >= HEADER_SIZE and buffer[position + MAGIC_OFFSET] in (2, 3):
        header = BatchHeader._make(V2_HEADER.unpack_from(buffer, position))
        if header.length < HEADER_SIZE - LOG_OVERHEAD:
            raise CorruptRecord(too_small_in_file(header.length))
        return header
    return _read_other_header(buffer, position)


def _read_other_header(buffer: Buffer, position: int) -> BatchHeader:
    offset, length, crc, magic, attributes = _LEGACY_HEADER.unpack_from(buffer, position)
    if length < SMALLEST_OVERHEAD:
        raise CorruptRecord(too_small_in_file(length))
    if magic >= 2:
        if length < HEADER_SIZE - LOG_OVERHEAD or len(buffer) - position < HEADER_SIZE:
            raise CorruptRecord(too_small_for_header(length + LOG_OVERHEAD))
        return BatchHeader._make(V2_HEADER.unpack_from(buffer, position))
    timestamp = _LONG.unpack_from(buffer, position + 18)[0] if magic == 1 and length >= 22 else NO_TIMESTAMP
    return BatchHeader(offset, length, -1, magic, crc, attributes, 0, timestamp, timestamp, NO_PRODUCER_ID, -1, -1, -1)


def too_small_for_header(size_bytes: int) -> str:
    """Return Kafka's message for a batch of magic 2 that claims to be smaller than its header."""
    return f"Record batch is corrupt (the size {size_bytes} is smaller than the minimum allowed overhead {HEADER_SIZE})"


def too_small_in_file(length: int, file_name: str | None = None) -> str:
    """Return Kafka's message for a length in a segment below that of the smallest message."""
    suffix = "" if file_name is None else f" in file {file_name}."
    return f"Found record size {length} smaller than minimum record overhead ({SMALLEST_OVERHEAD}){suffix}"


def too_small_in_message(length: int) -> str:
    """Return Kafka's message for a length in a request or a wrapper below that of the smallest message."""
    return f"Record size {length} is less than the minimum record overhead ({SMALLEST_OVERHEAD})"


def file_batch_size(buffer: Buffer, at: int, remaining: int, file_name: str | None = None) -> int | None:
    """Return the size in bytes of the batch at position `at` of a segment, None at the end of the log. `remaining` is
    the number of bytes from there on. As in Kafka's FileLogInputStream, 17 bytes or fewer, or a size past the end, is
    the end of the log. Raises CorruptRecord for a length below 14."""
    if remaining <= HEADER_SIZE_UP_TO_MAGIC:
        return None
    length: int = _OVERHEAD.unpack_from(buffer, at)[1]
    if length < SMALLEST_OVERHEAD:
        raise CorruptRecord(too_small_in_file(length, file_name))
    return length + LOG_OVERHEAD if length + LOG_OVERHEAD <= remaining else None


def whole_batches(records: Buffer) -> Iterator[tuple[int, int]]:
    """Yield position and size of each complete batch. Stops at a batch that is cut off, as by the size limit of a
    fetch, or has an impossible size."""
    position, end = 0, len(records)
    while end - position >= LOG_OVERHEAD:
        length = _OVERHEAD.unpack_from(records, position)[1]
        size = length + LOG_OVERHEAD
        if length < SMALLEST_OVERHEAD or size > end - position:
            break
        yield position, size
        position += size


def whole_batches_bytes(records: Buffer) -> int:
    """Return the size in bytes of the complete batches at the start of the data, 0 without one."""
    return max((position + size for position, size in whole_batches(records)), default=0)


def compute_crc(batch: memoryview, magic: int) -> int:
    """Compute a batch's checksum: CRC-32C from the attributes on, for message sets CRC-32 from the magic on."""
    if magic >= 2:
        return int(crc32c(batch[ATTRIBUTES_OFFSET:]))
    return zlib.crc32(batch[LEGACY_CRC_START:])


def ensure_valid(batch: memoryview, header: BatchHeader) -> None:
    """Raise CorruptRecord unless the checksum of one whole batch is right."""
    computed = compute_crc(batch, header.magic)
    if computed != header.crc:
        raise CorruptRecord(wrong_checksum(header.crc, computed))


def wrong_checksum(stored: int, computed: int) -> str:
    """Return Kafka's message for a batch or a message with a wrong checksum."""
    return f"Record is corrupt (stored crc = {stored}, computed crc = {computed})"
