"""Message sets of magic 0 and 1, as in logs of Kafka 0.7 to 0.10 and from old clients.

Rules:

- An entry is one message. The value of a compressed message, the wrapper, is a compressed message set. Magic 1 numbers
  the inner messages 0, 1, 2..., and the wrapper has the absolute offset of the last one. Magic 0 has absolute offsets
  inside.
- The CRC-32 (not 32C) covers a message from its magic byte on. A wrapper's CRC covers the compressed bytes only.
- Magic 0 has no timestamps. A wrapper with LogAppendTime gives its timestamp to all inner messages.
- The lz4 header checksum of magic 0 is wrong, by tradition (KAFKA-3160).

Sources: KIP-31, KIP-32, org.apache.kafka.common.record.LegacyRecord, AbstractLegacyRecordBatch.
"""

from __future__ import annotations

import struct
import zlib
from array import array
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kafkatools.core.errors import CorruptRecord, UnsupportedCompressionType
from kafkatools.core.java.longs import wrapped
from kafkatools.core.records.columns import NO_TIMESTAMP, Buffer, Record, RecordColumns, TimestampType
from kafkatools.core.records.compression import MAX_DECOMPRESSED_BYTES, CompressionType, compress, decompress
from kafkatools.core.records.header import (
    NO_PARTITION_LEADER_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    InvalidBatchContents,
    too_small_in_message,
    wrong_checksum,
)
from kafkatools.core.records.layout import CODEC_MASK, LOG_OVERHEAD, SMALLEST_OVERHEAD, TIMESTAMP_TYPE_BIT

# the smallest message of magic 1: crc, magic, attributes, timestamp, key size, value size
_SMALLEST_WITH_TIMESTAMP = 22
CRC_START = 4

_ENTRY = struct.Struct(">qiIbb")
_MESSAGE = struct.Struct(">Ibb")
_LONG = struct.Struct(">q")
_INT = struct.Struct(">i")


class _Message(NamedTuple):
    """The position and the fixed fields of one message in a message set."""

    offset: int
    start: int
    end: int
    crc: int
    magic: int
    attributes: int
    timestamp: int


class LegacyBatch:
    """A view on a message set entry of magic 0 or 1: a message, or a wrapper with its inner messages. It has the
    properties of RecordBatch."""

    __slots__ = ("_base_offset", "attributes", "buffer", "crc", "last_offset", "length", "magic", "position")

    partition_leader_epoch = NO_PARTITION_LEADER_EPOCH
    producer_id = NO_PRODUCER_ID
    producer_epoch = NO_PRODUCER_EPOCH
    base_sequence = NO_SEQUENCE
    last_sequence = NO_SEQUENCE
    is_transactional = False
    is_control = False
    has_producer_id = False
    delete_horizon_ms: int | None = None

    def __init__(self, buffer: Buffer, position: int = 0) -> None:
        self.buffer = buffer
        self.position = position
        self.last_offset: int
        self.length: int
        self.crc: int
        self.magic: int
        self.attributes: int
        self.last_offset, self.length, self.crc, self.magic, self.attributes = _ENTRY.unpack_from(buffer, position)
        self._base_offset: int | None = None if self.attributes & CODEC_MASK else self.last_offset

    def __repr__(self) -> str:
        return f"LegacyBatch(magic={self.magic}, last_offset={self.last_offset}, position={self.position})"

    @property
    def size_bytes(self) -> int:
        """The size of the entry in bytes, with offset and size fields."""
        return self.length + LOG_OVERHEAD

    @property
    def base_offset(self) -> int:
        """The offset of the first message. A wrapper is decompressed for it: raises as `columns` does."""
        if self._base_offset is None:
            self._base_offset = self.columns().offsets[0]
        return self._base_offset

    @property
    def last_offset_delta(self) -> int:
        return self.last_offset - self.base_offset

    @property
    def next_offset(self) -> int:
        return self.last_offset + 1

    @property
    def max_timestamp(self) -> int:
        """The timestamp of the outer message in ms, -1 with magic 0."""
        if self.magic == 0 or self.length < _SMALLEST_WITH_TIMESTAMP:
            return NO_TIMESTAMP
        timestamp: int = _LONG.unpack_from(self.buffer, self.position + 18)[0]
        return timestamp

    base_timestamp = max_timestamp

    @property
    def record_count(self) -> int:
        """The number of messages. A wrapper is decompressed for it: raises as `columns` does."""
        return self.columns().count if self.attributes & CODEC_MASK else 1

    @property
    def compression_type(self) -> CompressionType:
        """The entry's codec. Raises UnsupportedCompressionType for an unknown number."""
        return CompressionType.for_id(self.attributes & CODEC_MASK)

    @property
    def timestamp_type(self) -> TimestampType:
        if self.magic == 0:
            return TimestampType.NO_TIMESTAMP_TYPE
        return TimestampType.LOG_APPEND_TIME if self.attributes & TIMESTAMP_TYPE_BIT else TimestampType.CREATE_TIME

    def computed_crc(self) -> int:
        """Return the CRC-32 of the outer message."""
        view = memoryview(self.buffer)
        return zlib.crc32(view[self.position + LOG_OVERHEAD + CRC_START : self.position + self.size_bytes])

    def is_valid(self) -> bool:
        """Return whether the size is at least a message and the outer CRC is right (LegacyRecord.isValid)."""
        return self.length >= SMALLEST_OVERHEAD and self.crc == self.computed_crc()

    def ensure_valid(self) -> None:
        """Raise CorruptRecord with Kafka's message unless the size and the outer CRC are valid."""
        if self.length < SMALLEST_OVERHEAD:
            raise CorruptRecord(
                f"Record is corrupt (crc could not be retrieved as the record is too small, size = {self.length})"
            )
        if not self.is_valid():
            raise CorruptRecord(wrong_checksum(self.crc, self.computed_crc()))

    def to_bytes(self) -> bytes:
        """Return a copy of the entry's bytes."""
        return bytes(self.buffer[self.position : self.position + self.size_bytes])

    def columns(self, max_output_bytes: int = MAX_DECOMPRESSED_BYTES) -> RecordColumns:
        """Return the messages as columns, without a check of the CRCs. Raises CorruptRecord for damage, RecordTooLarge
        for more than `max_output_bytes`, UnsupportedCompressionType."""
        outer = _message(self.buffer, self.position, self.position + self.size_bytes)
        if outer is None:
            raise InvalidBatchContents("Found invalid record structure")
        if not outer.attributes & CODEC_MASK:
            return _columns(self.buffer, [outer], self.timestamp_type)
        payload = self._wrapped(outer, max_output_bytes)
        return _columns(payload, self._inner_messages(outer, payload), self.timestamp_type)

    def records(self) -> Iterator[Record]:
        """Iterate over the messages as objects. Raises as `columns` does."""
        return self.columns().records()

    def _wrapped(self, outer: _Message, max_output_bytes: int) -> bytes:
        codec = self.compression_type
        if codec is CompressionType.ZSTD:
            raise InvalidBatchContents(
                f"Invalid wrapper compressionType found in legacy deep record iterator {outer.magic}"
            )
        start, size = _cells(self.buffer, outer)[1]
        if size < 0:
            raise InvalidBatchContents(f"Found invalid compressed record set with null value (magic = {outer.magic})")
        view = memoryview(self.buffer)[start : start + size]
        return decompress(codec, view, magic=outer.magic, max_output_bytes=max_output_bytes)

    def _inner_messages(self, outer: _Message, payload: bytes) -> list[_Message]:
        messages: list[_Message] = []
        position = 0
        while (message := _message(payload, position, len(payload))) is not None:
            if message.magic != outer.magic:
                raise InvalidBatchContents(
                    f"Compressed message magic {message.magic} does not match wrapper magic {outer.magic}"
                )
            if message.attributes & CODEC_MASK:
                raise InvalidBatchContents("Inner messages must not be compressed")
            messages.append(message)
            position = message.end
        if not messages:
            raise InvalidBatchContents("Found invalid compressed record set with no inner records")
        return self._with_absolute_offsets(outer, messages)

    def _with_absolute_offsets(self, outer: _Message, messages: list[_Message]) -> list[_Message]:
        if outer.magic == 0:
            return messages
        last = messages[-1].offset
        # some versions of librdkafka send 0 as the wrapper's offset
        if self.last_offset < last and self.last_offset != 0:
            raise InvalidBatchContents(
                "Found invalid wrapper offset in compressed v1 message set, wrapper offset "
                f"'{self.last_offset}' is less than the last inner message offset '{last}' and it is not zero."
            )
        base = self.last_offset - last if self.last_offset else 0
        timestamp = outer.timestamp if outer.attributes & TIMESTAMP_TYPE_BIT else None
        return [
            message._replace(
                offset=wrapped(base + message.offset), timestamp=message.timestamp if timestamp is None else timestamp
            )
            for message in messages
        ]


def _message(buffer: Buffer, position: int, end: int) -> _Message | None:
    """Read the fixed fields of the message at a position, None for a partial message. Raises CorruptRecord for an
    impossible size or magic."""
    if end - position < LOG_OVERHEAD:
        return None
    (offset,) = _LONG.unpack_from(buffer, position)
    (size,) = _INT.unpack_from(buffer, position + 8)
    if size < SMALLEST_OVERHEAD:
        raise CorruptRecord(too_small_in_message(size))
    start = position + LOG_OVERHEAD
    if size > end - start:
        return None
    crc, magic, attributes = _MESSAGE.unpack_from(buffer, start)
    timestamp = NO_TIMESTAMP
    if magic == 1:
        if size < _SMALLEST_WITH_TIMESTAMP:
            raise InvalidBatchContents("Found invalid record structure")
        (timestamp,) = _LONG.unpack_from(buffer, start + 6)
    elif magic != 0:
        raise InvalidBatchContents(f"Invalid wrapper magic found in legacy deep record iterator {magic}")
    return _Message(offset, start, start + size, crc, magic, attributes, timestamp)


def _cells(buffer: Buffer, message: _Message) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return position and length of key and value. Raises CorruptRecord when they are not inside the message."""
    position = message.start + 6 + 8 * message.magic
    cells = []
    for _ in range(2):
        if message.end - position < 4:
            raise InvalidBatchContents("Found invalid record structure")
        (size,) = _INT.unpack_from(buffer, position)
        position += 4
        if size > message.end - position:
            raise InvalidBatchContents("Found invalid record structure")
        cells.append((position, max(size, -1)))
        position += max(size, 0)
    return cells[0], cells[1]


def _columns(buffer: Buffer, messages: list[_Message], timestamp_type: TimestampType) -> RecordColumns:
    cells = [_cells(buffer, message) for message in messages]
    zeros = array("i", bytes(4 * len(messages)))
    ints = (
        array("i", (key[0] for key, _ in cells)),
        array("i", (key[1] for key, _ in cells)),
        array("i", (value[0] for _, value in cells)),
        array("i", (value[1] for _, value in cells)),
        zeros,
        zeros[:],
    )
    longs = array("q", (m.offset for m in messages)), array("q", (m.timestamp for m in messages))
    return RecordColumns(buffer, longs, ints, timestamp_type)


def write_message_set(
    records: Iterable[Record],
    magic: int,
    codec: int = CompressionType.NONE,
    *,
    timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    level: int | None = None,
) -> bytes:
    """Write records as messages of magic 0 or 1, compressed in one wrapper if there is a codec (MemoryRecordsBuilder).
    Return the bytes, none without records.

    Headers are not written. Offsets are the records' own, which must rise. With LogAppendTime (magic 1) all messages
    get the last record's timestamp. Raises UnsupportedCompressionType for zstd, ValueError for a level that the codec
    lacks.
    """
    codec = CompressionType.for_id(codec)
    if codec is CompressionType.ZSTD:
        raise UnsupportedCompressionType("ZStandard needs batches of magic 2")
    rows = list(records)
    if not rows:
        return b""
    attributes = TIMESTAMP_TYPE_BIT if magic and timestamp_type is TimestampType.LOG_APPEND_TIME else 0
    base = rows[0].offset if magic and codec else 0
    out = bytearray()
    for row in rows:
        timestamp = rows[-1].timestamp if attributes else row.timestamp
        out += _entry(row.offset - base, magic, attributes, timestamp, row.key, row.value)
    if codec is CompressionType.NONE:
        return bytes(out)
    timestamp = rows[-1].timestamp if attributes else max(row.timestamp for row in rows)
    packed = compress(codec, out, level, magic=magic)
    return _entry(rows[-1].offset, magic, attributes | codec, timestamp, None, packed)


def _entry(offset: int, magic: int, attributes: int, timestamp: int, key: bytes | None, value: bytes | None) -> bytes:
    body = b"".join(
        (
            bytes((magic, attributes)),
            _LONG.pack(timestamp) if magic else b"",
            _INT.pack(-1 if key is None else len(key)),
            key or b"",
            _INT.pack(-1 if value is None else len(value)),
            value or b"",
        )
    )
    return _LONG.pack(offset) + struct.pack(">iI", len(body) + CRC_START, zlib.crc32(body)) + body
