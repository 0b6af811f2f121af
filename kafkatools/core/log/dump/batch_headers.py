"""Read batch headers as Kafka's file reader does: by the chain of batch sizes, without a check of the records.

Source: FileLogInputStream.nextBatch and the FileChannelRecordBatch classes. A header needs 17 bytes (up to the magic
byte). A length below 14 is damage, and a batch that runs past the end is the end of the log. A magic byte of 2 or above
(signed) is read as version 2, any other as a legacy message.
"""

from __future__ import annotations

import struct
import zlib
from typing import ClassVar

from kafkatools.core.errors import CorruptRecord
from kafkatools.core.java.longs import wrapped
from kafkatools.core.log.dump.damage import Damage
from kafkatools.core.log.dump.segment_file import SegmentFile
from kafkatools.core.records import layout
from kafkatools.core.records.crc import crc32c
from kafkatools.core.records.header import BatchHeader, file_batch_size

HEADER_UP_TO_CRC_END = 21
LEGACY_HEADER_V0 = 18
LEGACY_HEADER_V1 = 26

LARGEST_IN_MEMORY = 64 << 20
"""Of a larger batch with a wrong checksum no more is read: such a length is damage."""

_LEGACY_V0 = struct.Struct(">qiIbB")
_LEGACY_V1 = struct.Struct(">qiIbBq")
_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


class V2Header(BatchHeader):
    """The header of a version 2 batch at `position` in its file, possibly damaged. `view` holds the whole batch, or the
    first 64 MiB of a larger one with a wrong checksum. The batch may claim to be shorter than its header, and its last
    offset overflows as in Java."""

    crc_position: ClassVar[int] = layout.CRC_OFFSET
    least_bytes: ClassVar[int] = layout.HEADER_SIZE
    view: memoryview
    position: int
    is_valid: bool

    @classmethod
    def read(cls, view: memoryview, position: int, size_bytes: int, crc: int | None = None) -> V2Header:
        """Read the header of a batch of `size_bytes` at the start of a view, and compare its checksum (`is_valid`).
        `crc` is the computed checksum, if it is known."""
        header = cls._make(layout.V2_HEADER.unpack_from(view))
        header.view = view[:size_bytes]
        header.position = position
        computed = crc32c(view[layout.ATTRIBUTES_OFFSET : size_bytes]) if crc is None else crc
        header.is_valid = size_bytes >= layout.HEADER_SIZE and computed == header.crc
        return header

    @property
    def last_offset(self) -> int:
        """The last offset of the batch, with the overflow of a Java long."""
        return wrapped(self.base_offset + self.last_offset_delta)

    @property
    def timestamp_type(self) -> str:
        """`CreateTime` or `LogAppendTime`."""
        return "LogAppendTime" if self.attributes & layout.TIMESTAMP_TYPE_BIT else "CreateTime"


class LegacyHeader:
    """A message of magic 0 or 1 at `position` in its file; if it is compressed, the wrapper of several messages."""

    __slots__ = ("attributes", "crc", "is_valid", "magic", "max_timestamp", "offset", "position", "size_bytes", "view")
    crc_position: ClassVar[int] = layout.LOG_OVERHEAD
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
        computed = zlib.crc32(view[layout.LEGACY_CRC_START : size_bytes]) if crc is None else crc
        self.is_valid = size_bytes - layout.LOG_OVERHEAD >= layout.SMALLEST_OVERHEAD and computed == self.crc

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

    def ensure_supported_magic(self) -> None:
        """Raise Damage for a magic byte other than 0 and 1."""
        if self.magic not in (0, 1):
            raise Damage(f"Invalid magic used in LegacyRecord: {self.magic}", self.position)


Header = V2Header | LegacyHeader


def codec_name(codec: int) -> str:
    """Return Kafka's name of a compression type. Raises Damage for an unknown number."""
    if codec >= len(_CODECS):
        raise Damage(f"Unknown compression type id: {codec}")
    return _CODECS[codec]


def next_batch(file: SegmentFile, position: int, end: int, name: str) -> Header | None:
    """Return the header of the batch at a position, None at Kafka's end of the log. A wrong checksum makes the header
    not `is_valid`. Raises Damage for an impossible batch size or a header that is cut off, OSError. `name` is the
    file name in messages."""
    if position >= end - layout.HEADER_SIZE_UP_TO_MAGIC:
        return None
    prefix = file.view(position, layout.HEADER_SIZE_UP_TO_MAGIC)
    if len(prefix) < layout.HEADER_SIZE_UP_TO_MAGIC:
        return None
    try:
        size = file_batch_size(prefix, 0, end - position, name)
    except CorruptRecord as error:
        raise Damage(str(error), position) from None
    if size is None:
        return None
    kind: type[Header] = V2Header if 2 <= prefix[layout.MAGIC_OFFSET] < 0x80 else LegacyHeader
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
    return (V2Header.read if kind is V2Header else LegacyHeader)(view, position, size, crc)


def _checksum(file: SegmentFile, position: int, size: int, kind: type[Header]) -> int:
    first, function = (layout.ATTRIBUTES_OFFSET, crc32c) if kind is V2Header else (layout.LEGACY_CRC_START, zlib.crc32)
    return file.checksum(position + first, size - first, function)
