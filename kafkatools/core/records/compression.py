"""Compress and decompress record batches, with limits on the output size.

Rules:

- Compressed bytes have the framing of Kafka's Java client, so every client that reads its batches reads ours. gzip: one
  member with ten fixed header bytes. snappy: xerial's chunks of 32 KiB. lz4: a frame of independent 64 KiB blocks.
  zstd: a frame without content size.
- Input may come from any client: raw snappy, several gzip members or zstd frames, lz4 frames with any options.
- No output grows beyond `max_output_bytes`, and nothing is allocated for a size that the input merely claims.
- The codec libraries are imported when a codec is first used.

Sources: KIP-110 (zstd), KIP-390 (levels), org.apache.kafka.common.compress.
"""

from __future__ import annotations

import threading
import zlib
from enum import IntEnum, unique
from typing import NamedTuple

from kafkatools.core.errors import CorruptRecord, RecordTooLarge, UnsupportedCompressionType

Buffer = bytes | bytearray | memoryview

MAX_DECOMPRESSED_BYTES = 256 * 1024 * 1024

GZIP_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"
GZIP_FIRST_PIECE = 512
XERIAL_MAGIC = b"\x82SNAPPY\x00"
XERIAL_HEADER = XERIAL_MAGIC + b"\x00\x00\x00\x01\x00\x00\x00\x01"
XERIAL_BLOCK_SIZE = 32 * 1024
LZ4_MAGIC = b"\x04\x22\x4d\x18"
LZ4_BLOCK_SIZE = 64 * 1024
LZ4_DESCRIPTOR = b"\x60\x40"
LZ4_UNCOMPRESSED = 0x80000000
LZ4_CONTENT_SIZE = 0x08
LZ4_DICTIONARY = 0x01
ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
ZSTD_MAX_BLOCK_SIZE = 128 * 1024
# a snappy copy of 3 bytes gives 64
SNAPPY_MAX_RATIO = 22
# a byte of lz4 stands for 255 at most
LZ4_MAX_RATIO = 255

# zstd's contexts: making one costs more than a small batch, and two threads must not share one
_contexts = threading.local()


@unique
class CompressionType(IntEnum):
    """The codec of a batch: the low three bits of its attributes."""

    NONE = 0
    GZIP = 1
    SNAPPY = 2
    LZ4 = 3
    ZSTD = 4

    @property
    def label(self) -> str:
        """Kafka's name of the codec, such as `lz4`."""
        return self.name.lower()

    @classmethod
    def for_label(cls, label: str) -> CompressionType:
        """Return the codec with this name. Raises UnsupportedCompressionType."""
        for codec in cls:
            if codec.label == label:
                return codec
        raise UnsupportedCompressionType(f"Unknown compression name: {label}")

    @classmethod
    def for_id(cls, codec: int) -> CompressionType:
        """Return the codec with this number. Raises UnsupportedCompressionType."""
        if 0 <= codec < len(CODECS):
            return CODECS[codec]
        raise UnsupportedCompressionType(f"Unknown compression type id: {codec}")


CODECS = tuple(CompressionType)


class Levels(NamedTuple):
    """The range and the default of a codec's compression levels (KIP-390)."""

    lowest: int
    highest: int
    default: int


LEVELS = {
    CompressionType.GZIP: Levels(1, 9, -1),
    CompressionType.LZ4: Levels(1, 17, 9),
    CompressionType.ZSTD: Levels(-131072, 22, 3),
}


def check_level(codec: CompressionType, level: int) -> int:
    """Return the level if it is in the codec's range or its default. Raises ValueError, also for a codec without
    levels."""
    levels = LEVELS.get(codec)
    if levels is None:
        raise ValueError(f"{codec.label} has no compression levels")
    if level != levels.default and not levels.lowest <= level <= levels.highest:
        raise ValueError(f"{codec.label} compression level {level} is not between {levels.lowest} and {levels.highest}")
    return level


def compress(codec: int, data: Buffer, level: int | None = None, *, magic: int = 2) -> bytes:
    """Compress data as the Java client does; NONE copies the data. `level` None is the codec's default; NONE and snappy
    ignore it. With `magic` 0 the lz4 header checksum is wrong, as in that version (KAFKA-3160). Raises
    UnsupportedCompressionType, ValueError for an impossible level."""
    codec = CompressionType.for_id(codec)
    if codec is CompressionType.NONE:
        return bytes(data)
    if codec is CompressionType.SNAPPY:
        return _compress_snappy(data)
    level = LEVELS[codec].default if level is None else check_level(codec, level)
    if codec is CompressionType.GZIP:
        return _compress_gzip(data, level)
    if codec is CompressionType.LZ4:
        return _compress_lz4(data, level, broken_checksum=magic == 0)
    return _compress_zstd(data, level)


def decompress(codec: int, data: Buffer, *, magic: int = 2, max_output_bytes: int = MAX_DECOMPRESSED_BYTES) -> bytes:
    """Return the decompressed data; NONE copies the data, whatever its size. With `magic` 0 the lz4 header checksum is
    ignored. Raises CorruptRecord for damaged or truncated data, UnsupportedCompressionType for an unknown codec,
    RecordTooLarge above `max_output_bytes`."""
    codec = CompressionType.for_id(codec)
    if codec is CompressionType.NONE:
        return bytes(data)
    if codec is CompressionType.GZIP:
        return _decompress_gzip(data, max_output_bytes)
    if codec is CompressionType.SNAPPY:
        return _decompress_snappy(memoryview(data), max_output_bytes)
    if codec is CompressionType.LZ4:
        return _decompress_lz4(data, max_output_bytes, ignore_checksum=magic == 0)
    return _decompress_zstd(memoryview(data), max_output_bytes)


def _damaged(codec: str, reason: object) -> CorruptRecord:
    return CorruptRecord(f"Failed to decompress record stream: {codec}: {reason}")


def _too_large(limit: int) -> RecordTooLarge:
    return RecordTooLarge(
        f"A batch decompresses to more than {limit} bytes, the limit of max.decompressed.message.bytes or of the reader"
    )


# -- gzip --


def _compress_gzip(data: Buffer, level: int) -> bytes:
    deflater = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS)
    body = deflater.compress(data) + deflater.flush()
    return b"".join(
        (GZIP_HEADER, body, zlib.crc32(data).to_bytes(4, "little"), (len(data) & 0xFFFFFFFF).to_bytes(4, "little"))
    )


def _decompress_gzip(data: Buffer, limit: int) -> bytes:
    view = memoryview(data)
    parts: list[bytes] = []
    remaining = limit
    position = 0
    while True:
        position, remaining = _gzip_member(view, position, parts, remaining, limit)
        # trailing bytes that do not begin another member are ignored, as by java.util.zip.GZIPInputStream
        if view[position : position + 2] != GZIP_HEADER[:2]:
            return parts[0] if len(parts) == 1 else b"".join(parts)


def _gzip_member(view: memoryview, position: int, parts: list[bytes], remaining: int, limit: int) -> tuple[int, int]:
    """Append the contents of one gzip member to `parts`. Return its end and the rest of the limit. zlib copies the
    input that it does not use. Pieces of the input that double in size keep that copy smaller than the member, so a
    stream of many small members takes linear time."""
    member = zlib.decompressobj(zlib.MAX_WBITS | 16)
    size = GZIP_FIRST_PIECE
    while not member.eof:
        if position >= len(view):
            raise _damaged("gzip", "the stream ends early")
        piece = view[position : position + size]
        try:
            # + 1: one byte above the limit shows that the output is too large
            part = member.decompress(piece, remaining + 1)
        except zlib.error as error:
            raise _damaged("gzip", error) from error
        if len(part) > remaining:
            raise _too_large(limit)
        if part:
            parts.append(part)
            remaining -= len(part)
        position += len(piece) - len(member.unused_data)
        size *= 2
    return position, remaining


# -- snappy --


def _compress_snappy(data: Buffer) -> bytes:
    import snappy

    view = memoryview(data)
    parts = [XERIAL_HEADER]
    for start in range(0, len(view), XERIAL_BLOCK_SIZE):
        block = snappy.compress(bytes(view[start : start + XERIAL_BLOCK_SIZE]))
        parts += (len(block).to_bytes(4, "big"), block)
    return b"".join(parts)


def _decompress_snappy(data: memoryview, limit: int) -> bytes:
    if len(data) < len(XERIAL_HEADER) or data[: len(XERIAL_MAGIC)] != XERIAL_MAGIC:
        return _decompress_snappy_block(data, limit, limit)
    parts: list[bytes] = []
    remaining = limit
    position = len(XERIAL_HEADER)
    while position < len(data):
        if data[position : position + 8] == XERIAL_MAGIC:
            # concatenated streams
            position += len(XERIAL_HEADER)
            continue
        if parts and position + 4 > len(data):
            # less than a chunk's size is the end of the stream, as for xerial's SnappyInputStream
            break
        size = int.from_bytes(data[position : position + 4], "big")
        position += 4
        if position + size > len(data):
            raise _damaged("snappy", f"a chunk of {size} bytes is cut off")
        parts.append(_decompress_snappy_block(data[position : position + size], remaining, limit))
        remaining -= len(parts[-1])
        position += size
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _decompress_snappy_block(block: memoryview, remaining: int, limit: int) -> bytes:
    import snappy

    size = _snappy_size(block)
    if size > remaining:
        raise _too_large(limit)
    if size > SNAPPY_MAX_RATIO * len(block):
        raise _damaged("snappy", f"{len(block)} bytes cannot hold {size}")
    try:
        result: bytes = snappy.uncompress(bytes(block))
    except snappy.UncompressError as error:
        raise _damaged("snappy", error) from error
    return result


def _snappy_size(block: memoryview) -> int:
    """Read the uncompressed size at the start of a raw snappy block: an unsigned varint of 32 bits."""
    size = 0
    for index, byte in enumerate(block[:5]):
        size |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return size
    raise _damaged("snappy", "the block has no length")


# -- lz4 --


def _compress_lz4(data: Buffer, level: int, *, broken_checksum: bool) -> bytes:
    """Write an lz4 frame like Kafka's Lz4BlockOutputStream: no content size, a header checksum only. Level 9 is the
    fast compressor."""
    import lz4.block

    mode = "default" if level == LEVELS[CompressionType.LZ4].default else "high_compression"
    view = memoryview(data)
    parts = [LZ4_MAGIC, LZ4_DESCRIPTOR, _lz4_header_checksum((LZ4_MAGIC if broken_checksum else b"") + LZ4_DESCRIPTOR)]
    for start in range(0, len(view), LZ4_BLOCK_SIZE):
        block = view[start : start + LZ4_BLOCK_SIZE]
        packed = lz4.block.compress(block, mode=mode, compression=level, store_size=False)
        if len(packed) < len(block):
            parts += (len(packed).to_bytes(4, "little"), packed)
        else:
            parts += ((len(block) | LZ4_UNCOMPRESSED).to_bytes(4, "little"), bytes(block))
    parts.append(b"\x00\x00\x00\x00")
    return b"".join(parts)


def _decompress_lz4(data: Buffer, limit: int, *, ignore_checksum: bool) -> bytes:
    import lz4.frame

    if ignore_checksum:
        data = _with_lz4_checksum(bytes(data))
    frame = lz4.frame.LZ4FrameDecompressor()
    parts: list[bytes] = []
    total = 0
    rest: Buffer = data
    # the library allocates max_length bytes at once
    bound = LZ4_MAX_RATIO * (len(data) + 1)
    while total <= limit:
        try:
            part = frame.decompress(rest, max_length=min(limit - total + 1, bound))
        except (RuntimeError, EOFError) as error:
            raise _damaged("lz4", error) from error
        rest = b""
        parts.append(part)
        total += len(part)
        if frame.eof:
            break
        if not part or frame.needs_input:
            raise _damaged("lz4", "the frame ends early")
    if total > limit:
        raise _too_large(limit)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _with_lz4_checksum(data: bytes) -> bytes:
    """Return the frame with the header checksum that the lz4 format requires."""
    if len(data) < 7 or data[:4] != LZ4_MAGIC:
        return data
    size = 2 + (8 if data[4] & LZ4_CONTENT_SIZE else 0) + (4 if data[4] & LZ4_DICTIONARY else 0)
    if len(data) <= 4 + size:
        return data
    return data[: 4 + size] + _lz4_header_checksum(data[4 : 4 + size]) + data[5 + size :]


def _lz4_header_checksum(descriptor: bytes) -> bytes:
    return bytes(((_xxh32_short(descriptor) >> 8) & 0xFF,))


def _xxh32_short(data: bytes) -> int:
    """Return xxHash32 with seed 0 of less than 16 bytes."""
    mask = 0xFFFFFFFF
    value = 374761393 + len(data)
    whole = len(data) & ~3
    for start in range(0, whole, 4):
        value = (value + int.from_bytes(data[start : start + 4], "little") * 3266489917) & mask
        value = ((value << 17 | value >> 15) * 668265263) & mask
    for byte in data[whole:]:
        value = (value + byte * 374761393) & mask
        value = ((value << 11 | value >> 21) * 2654435761) & mask
    value = ((value ^ value >> 15) * 2246822519) & mask
    value = ((value ^ value >> 13) * 3266489917) & mask
    return value ^ value >> 16


# -- zstd --


def _compress_zstd(data: Buffer, level: int) -> bytes:
    import zstandard

    packers: dict[int, zstandard.ZstdCompressor] = _contexts.__dict__.setdefault("packers", {})
    if level not in packers:
        packers[level] = zstandard.ZstdCompressor(level=level, write_content_size=False)
    packer = packers[level].compressobj()
    # the Java client flushes before it closes, which writes an empty last block
    return packer.compress(data) + packer.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK) + packer.flush()


def _decompress_zstd(data: memoryview, limit: int) -> bytes:
    import zstandard

    bound = _zstd_bound(data)
    unpacker: zstandard.ZstdDecompressor | None = getattr(_contexts, "unpacker", None)
    if unpacker is None:
        unpacker = _contexts.unpacker = zstandard.ZstdDecompressor()
    reader = unpacker.stream_reader(data, read_across_frames=True)
    parts: list[bytes] = []
    total = 0
    try:
        while total <= limit:
            part = reader.read(min(bound, limit + 1 - total))
            if not part:
                break
            parts.append(part)
            total += len(part)
    except zstandard.ZstdError as error:
        raise _damaged("zstd", error) from error
    if total > limit:
        raise _too_large(limit)
    return parts[0] if len(parts) == 1 else b"".join(parts)


def _zstd_bound(data: memoryview) -> int:
    """Return an upper bound of the decompressed size of zstd frames, from their block headers (RFC 8878). Raises
    CorruptRecord for a truncated frame."""
    position = 0
    bound = 0
    while position < len(data) or position == 0:
        magic = bytes(data[position : position + 4])
        if len(magic) == 4 and magic[1:] == b"\x2a\x4d\x18" and magic[0] & 0xF0 == 0x50:
            position += 8 + int.from_bytes(data[position + 4 : position + 8], "little")
            continue
        if magic != ZSTD_MAGIC or len(data) < position + 6:
            raise _damaged("zstd", f"no frame at byte {position}")
        position, size = _zstd_blocks(data, position)
        bound += size
    if position > len(data):
        raise _damaged("zstd", "a frame ends early")
    return bound + 1


def _zstd_blocks(data: memoryview, position: int) -> tuple[int, int]:
    """Return the position after a zstd frame and an upper bound of the size of its blocks' contents."""
    descriptor = data[position + 4]
    is_single_segment = descriptor >> 5 & 1
    position += (
        5 + (1 - is_single_segment) + (0, 1, 2, 4)[descriptor & 3] + (is_single_segment, 2, 4, 8)[descriptor >> 6]
    )
    bound = 0
    while True:
        if position + 3 > len(data):
            raise _damaged("zstd", "a frame ends early")
        header = data[position] | data[position + 1] << 8 | data[position + 2] << 16
        kind, size = header >> 1 & 3, header >> 3
        bound += min(size, ZSTD_MAX_BLOCK_SIZE) if kind < 2 else ZSTD_MAX_BLOCK_SIZE
        position += 3 + (1 if kind == 1 else size)
        if header & 1:
            return position + (4 if descriptor & 4 else 0), bound
