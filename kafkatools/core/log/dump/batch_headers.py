"""Batch headers as Kafka's file reader finds them: the chain of lengths, with no check of what is inside.

Source: FileLogInputStream.nextBatch and the FileChannelRecordBatch classes. A header needs 17 bytes (up to the magic
byte); a length below 14 is damage; a batch that runs past the end is the end of the log. Every magic of 2 and above
(as a signed byte) is read as version 2, everything below as a legacy message.
"""

from __future__ import annotations

import struct
import zlib
from typing import Any, ClassVar

from kafkatools.core.log.dump.damage import Damage
from kafkatools.core.log.dump.segment_file import SegmentFile
from kafkatools.core.log.format.batch_headers import (
    HEADER_SIZE,
    HEADER_SIZE_UP_TO_MAGIC,
    LOG_OVERHEAD,
    MIN_LEGACY_SIZE,
    V2_HEADER,
)
from kafkatools.core.records.crc import crc32c

HEADER_UP_TO_CRC_END = 21
LEGACY_HEADER_V0 = 18
LEGACY_HEADER_V1 = 26

LARGEST_IN_MEMORY = 64 << 20
"""Of a larger batch with a wrong checksum no more is read: such a length is damage."""

_PREFIX = struct.Struct(">qiib")
_LEGACY_V0 = struct.Struct(">qiIbB")
_LEGACY_V1 = struct.Struct(">qiIbBq")
_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


class BatchHeader:
    """The header of a version 2 batch at `position` of its file; `view` is the whole batch, `size_bytes` long.

    `crc` is the checksum of the bytes when it was computed already. The view given holds a whole header, even where
    the batch claims to be shorter.
    """

    __slots__ = (
        "attributes",
        "base_offset",
        "base_sequence",
        "base_timestamp",
        "crc",
        "is_valid",
        "last_offset_delta",
        "magic",
        "max_timestamp",
        "partition_leader_epoch",
        "position",
        "producer_epoch",
        "producer_id",
        "record_count",
        "size_bytes",
        "view",
    )
    crc_position: ClassVar[int] = 17
    least_bytes: ClassVar[int] = HEADER_SIZE
    base_offset: int
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

    def __init__(self, view: memoryview, position: int, size_bytes: int, crc: int | None = None) -> None:
        header = view
        self.view = view[:size_bytes]
        self.position = position
        self.size_bytes = size_bytes
        (
            self.base_offset,
            _,
            self.partition_leader_epoch,
            self.magic,
            self.crc,
            self.attributes,
            self.last_offset_delta,
            self.base_timestamp,
            self.max_timestamp,
            self.producer_id,
            self.producer_epoch,
            self.base_sequence,
            self.record_count,
        ) = V2_HEADER.unpack_from(header)
        computed = crc32c(view[21:size_bytes]) if crc is None else crc
        self.is_valid = size_bytes >= HEADER_SIZE and computed == self.crc

    @property
    def last_offset(self) -> int:
        return _long(self.base_offset + self.last_offset_delta)

    @property
    def last_sequence(self) -> int:
        return -1 if self.base_sequence == -1 else increment_sequence(self.base_sequence, self.last_offset_delta)

    @property
    def timestamp_type(self) -> str:
        return "LogAppendTime" if self.attributes & 8 else "CreateTime"

    @property
    def codec(self) -> int:
        return self.attributes & 7

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & 0x10)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & 0x20)

    @property
    def delete_horizon_ms(self) -> int | None:
        return self.base_timestamp if self.attributes & 0x40 else None


class LegacyHeader:
    """A message of magic 0 or 1 (or, compressed, the wrapper of several) at `position` of its file."""

    __slots__ = ("attributes", "crc", "is_valid", "magic", "max_timestamp", "offset", "position", "size_bytes", "view")
    crc_position: ClassVar[int] = 12
    least_bytes: ClassVar[int] = LEGACY_HEADER_V0
    offset: int
    crc: int
    magic: int
    attributes: int
    max_timestamp: int

    def __init__(self, view: memoryview, position: int, size_bytes: int, crc: int | None = None) -> None:
        self.view = view
        self.position = position
        self.size_bytes = size_bytes
        header = bytes(view[:LEGACY_HEADER_V1]).ljust(LEGACY_HEADER_V1, b"\0")
        self.offset, _, self.crc, self.magic, self.attributes = _LEGACY_V0.unpack_from(header)
        self.max_timestamp = _LEGACY_V1.unpack_from(header)[5] if self.magic == 1 else -1
        computed = zlib.crc32(view[16:size_bytes]) if crc is None else crc
        self.is_valid = size_bytes - LOG_OVERHEAD >= MIN_LEGACY_SIZE and computed == self.crc

    @property
    def last_offset(self) -> int:
        return self.offset

    @property
    def timestamp_type(self) -> str:
        if self.magic == 0:
            return "NoTimestampType"
        return "LogAppendTime" if self.attributes & 8 else "CreateTime"

    @property
    def codec(self) -> int:
        return self.attributes & 7

    @property
    def is_control(self) -> bool:
        return False

    def ensure_known_magic(self) -> None:
        """Raise Damage for a magic byte that is no version of the message format."""
        if self.magic not in (0, 1):
            raise Damage(f"Invalid magic used in LegacyRecord: {self.magic}", self.position)


Header = BatchHeader | LegacyHeader


def codec_name(codec: int) -> str:
    """Kafka's name of a compression type; raises Damage for a number Kafka does not know."""
    if codec >= len(_CODECS):
        raise Damage(f"Unknown compression type id: {codec}")
    return _CODECS[codec]


def increment_sequence(sequence: int, increment: int) -> int:
    """DefaultRecordBatch.incrementSequence: sequences go from 2147483647 to 0."""
    if sequence > _int(0x7FFFFFFF - increment):
        return _int(increment - (0x7FFFFFFF - sequence) - 1)
    return _int(sequence + increment)


def _int(number: int) -> int:
    return (number + (1 << 31)) % (1 << 32) - (1 << 31)


def _long(number: int) -> int:
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def next_batch(file: SegmentFile, position: int, end: int, shown_name: str) -> Header | None:
    """The batch at `position`, None where Kafka sees the end of the log; raises Damage for an impossible length.

    `shown_name` is the file's name in Kafka's message.
    """
    if position >= end - HEADER_SIZE_UP_TO_MAGIC:
        return None
    prefix = file.view(position, HEADER_SIZE_UP_TO_MAGIC)
    if len(prefix) < HEADER_SIZE_UP_TO_MAGIC:
        return None
    size = _PREFIX.unpack_from(prefix)[1]
    if size < MIN_LEGACY_SIZE:
        raise Damage(record_size_message(size, shown_name), position)
    if position > end - LOG_OVERHEAD - size:
        return None
    kind: Any = BatchHeader if 2 <= prefix[16] < 0x80 else LegacyHeader
    size += LOG_OVERHEAD
    crc = None
    in_memory = size
    if size > LARGEST_IN_MEMORY:
        crc = _checksum(file, position, size, kind)
        stored = file.view(position, HEADER_UP_TO_CRC_END)[kind.crc_position : kind.crc_position + 4]
        if crc != int.from_bytes(stored, "big"):
            in_memory = LARGEST_IN_MEMORY
    view = file.view(position, max(in_memory, kind.least_bytes))
    if len(view) < kind.least_bytes:
        raise Damage(f"the header of the batch ends after {len(view)} of {kind.least_bytes} bytes", position)
    header: Header = kind(view, position, size, crc)
    return header


def _checksum(file: SegmentFile, position: int, size: int, kind: Any) -> int:
    first, function = (21, crc32c) if kind is BatchHeader else (16, zlib.crc32)
    return file.checksum(position + first, size - first, function)


def record_size_message(size: int, shown_name: str) -> str:
    return f"Found record size {size} smaller than minimum record overhead ({MIN_LEGACY_SIZE}) in file {shown_name}."
