"""Batch headers, as the log sees them: read from a buffer or walked through a file, records untouched.

The append path and recovery need a dozen header fields of every batch and nothing else, so one `struct` call reads them
into a tuple. Magic 0 and 1 (message sets) give the same tuple with what they have. The rules for where a file ends are
those of Kafka's FileLogInputStream: fewer than 17 bytes left, or a size that runs past the end, is the end of the
log; a size below 14 is damage.
"""

import zlib
from collections.abc import Iterator
from struct import Struct
from typing import NamedTuple

from kafkatools.core.errors import CorruptRecord
from kafkatools.core.log.files import Buffer, LogFile
from kafkatools.core.records import layout
from kafkatools.core.records.crc import crc32c

CODEC_MASK = layout.CODEC_MASK
HEADER_SIZE = layout.HEADER_SIZE
HEADER_SIZE_UP_TO_MAGIC = layout.HEADER_SIZE_UP_TO_MAGIC
LOG_OVERHEAD = layout.LOG_OVERHEAD
V2_HEADER = layout.V2_HEADER
MAGIC_POSITION = layout.MAGIC_OFFSET
CRC_POSITION = layout.CRC_OFFSET
ATTRIBUTES_POSITION = CRC_START = layout.ATTRIBUTES_OFFSET
MIN_LEGACY_SIZE = layout.SMALLEST_OVERHEAD
LEGACY_CRC_START = 16

TIMESTAMP_TYPE_MASK = layout.TIMESTAMP_TYPE_BIT
TRANSACTIONAL_MASK = layout.TRANSACTIONAL_BIT
CONTROL_MASK = layout.CONTROL_BIT

NO_TIMESTAMP = -1
NO_PRODUCER_ID = -1

CRC_FIELD = Struct(">I")
_OVERHEAD = Struct(">qi")
_LEGACY_HEADER = Struct(">qiIbb")
_LONG = Struct(">q")

WALK_CHUNK_BYTES = 16 * 1024
READ_CHUNK_BYTES = 1024 * 1024


class BatchHeader(NamedTuple):
    """The header of a batch in the order of its bytes; `length` does not count the 12 bytes of offset and length."""

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
        """The whole batch."""
        return self.length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        """The offset of the last record (that was there when the batch was written)."""
        return self.base_offset + self.last_offset_delta

    @property
    def last_sequence(self) -> int:
        """The sequence of the last record; after 2^31 - 1 comes 0. -1 without a producer."""
        if self.base_sequence < 0:
            return -1
        sequence = self.base_sequence + self.last_offset_delta
        return sequence if sequence <= 0x7FFFFFFF else sequence - 0x80000000

    @property
    def codec(self) -> int:
        """The compression type's id."""
        return self.attributes & CODEC_MASK

    @property
    def is_transactional(self) -> bool:
        """Whether the batch is part of a transaction."""
        return self.attributes & TRANSACTIONAL_MASK != 0

    @property
    def is_control(self) -> bool:
        """Whether the batch holds a control record."""
        return self.attributes & CONTROL_MASK != 0


def read_header(buffer: Buffer, position: int = 0) -> BatchHeader:
    """The header at a position; raises CorruptRecord when the size says that there is none.

    Of a message set (magic below 2) only offsets, size, CRC, attributes and the timestamp of magic 1 are known.
    """
    if len(buffer) - position >= HEADER_SIZE and buffer[position + MAGIC_POSITION] in (2, 3):
        header = BatchHeader._make(V2_HEADER.unpack_from(buffer, position))
        if header.length < HEADER_SIZE - LOG_OVERHEAD:
            raise _too_small(header.length)
        return header
    return _read_other_header(buffer, position)


def _read_other_header(buffer: Buffer, position: int) -> BatchHeader:
    offset, length, crc, magic, attributes = _LEGACY_HEADER.unpack_from(buffer, position)
    if length < MIN_LEGACY_SIZE:
        raise _too_small(length)
    if magic >= 2:
        if length < HEADER_SIZE - LOG_OVERHEAD or len(buffer) - position < HEADER_SIZE:
            raise CorruptRecord(
                f"Record batch is corrupt (the size {length + LOG_OVERHEAD} is smaller than the minimum allowed "
                f"overhead {HEADER_SIZE})"
            )
        return BatchHeader._make(V2_HEADER.unpack_from(buffer, position))
    timestamp = _LONG.unpack_from(buffer, position + 18)[0] if magic == 1 and length >= 22 else NO_TIMESTAMP
    return BatchHeader(offset, length, -1, magic, crc, attributes, 0, timestamp, timestamp, NO_PRODUCER_ID, -1, -1, -1)


def _too_small(length: int) -> CorruptRecord:
    return CorruptRecord(f"Found record size {length} smaller than minimum record overhead ({MIN_LEGACY_SIZE})")


def compute_crc(batch: memoryview, magic: int) -> int:
    """The checksum of one whole batch: CRC-32C from the attributes on, CRC-32 from the magic on in message sets."""
    if magic >= 2:
        return int(crc32c(batch[CRC_START:]))
    return zlib.crc32(batch[LEGACY_CRC_START:])


def ensure_valid(batch: memoryview, header: BatchHeader) -> None:
    """Raise CorruptRecord unless the checksum of one whole batch is right."""
    computed = compute_crc(batch, header.magic)
    if computed != header.crc:
        raise CorruptRecord(f"Record is corrupt (stored crc = {header.crc}, computed crc = {computed})")


def walk_headers(file: LogFile, start: int = 0, end: int | None = None) -> Iterator[tuple[int, BatchHeader]]:
    """Positions and headers from `start` on; reads headers and little else. Raises CorruptRecord at damage."""
    walker = _Walker(file, end, WALK_CHUNK_BYTES)
    position = start
    while (header := walker.header_at(position)) is not None:
        yield position, header
        position += header.length + LOG_OVERHEAD


def walk_batches(
    file: LogFile, start: int = 0, end: int | None = None
) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """Positions, headers and whole batches from `start` on. Checksums are the caller's business."""
    walker = _Walker(file, end, READ_CHUNK_BYTES)
    position = start
    while (header := walker.header_at(position)) is not None:
        size = header.length + LOG_OVERHEAD
        yield position, header, walker.window(position, size)
        position += size


class _Walker:
    """A window that moves forward over a file."""

    def __init__(self, file: LogFile, end: int | None, chunk_bytes: int) -> None:
        self._file = file
        self._end = file.size_bytes if end is None else min(end, file.size_bytes)
        self._chunk_bytes = chunk_bytes
        self._start = 0
        self._window = memoryview(b"")

    def window(self, position: int, size: int) -> memoryview:
        """Bytes of the file, read ahead by a chunk; what lies past the end is left out."""
        offset = position - self._start
        if offset < 0 or offset + size > len(self._window):
            wanted = min(max(size, self._chunk_bytes), self._end - position)
            self._window = memoryview(self._file.read_at(position, wanted))
            self._start = position
            offset = 0
        return self._window[offset : offset + size]

    def header_at(self, position: int) -> BatchHeader | None:
        """The header of the whole batch at a position, None at the end of the log."""
        if position >= self._end - HEADER_SIZE_UP_TO_MAGIC:
            return None
        length = _OVERHEAD.unpack_from(self.window(position, LOG_OVERHEAD))[1]
        if length < MIN_LEGACY_SIZE:
            raise _too_small(length)
        if position > self._end - LOG_OVERHEAD - length:
            return None
        return read_header(self.window(position, min(HEADER_SIZE, self._end - position)))
