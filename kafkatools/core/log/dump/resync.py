"""Find the next valid batch after damage.

A candidate has magic 2 (0 or 1 in a legacy log), a size that fits, possible counts, and a correct checksum.
"""

from __future__ import annotations

import struct
import zlib

from kafkatools.core.log.dump.batch_headers import LEGACY_HEADER_V0
from kafkatools.core.log.dump.segment_file import SegmentFile, is_zero
from kafkatools.core.records.crc import crc32c
from kafkatools.core.records.layout import HEADER_SIZE, LOG_OVERHEAD

_LENGTH = struct.Struct(">i")
_TAIL = struct.Struct(">hiqqqhii")
_KNOWN_ATTRIBUTES = 0x7F
_LAST_CODEC = 4
_STEP = 1 << 20
_MAGIC_POSITION = 16


def next_valid_batch(
    file: SegmentFile, position: int, end: int, *, legacy: bool = False, before: int | None = None
) -> int:
    """Return the position of the first valid batch from `position` on that ends by `end` and begins before `before`; -1
    without one. With `legacy` batches of magic 0 and 1 are searched instead of magic 2. Raises OSError."""
    stop = end - LEGACY_HEADER_V0 if before is None else min(before, end - LEGACY_HEADER_V0)
    while position < stop:
        position = max(position, file.next_data(position) - HEADER_SIZE)
        batch_position = _in_step(file, position, min(_STEP, stop - position), end, legacy)
        if batch_position >= 0:
            return batch_position if batch_position < stop else -1
        position += _STEP
    return -1


def _in_step(file: SegmentFile, position: int, starts: int, end: int, legacy: bool) -> int:
    """Return the first of the next `starts` positions at which a valid batch begins, -1 without one. Only these bytes
    and one header more are read: a caller that asks about one position does not pay for a whole step."""
    chunk = bytes(file.view(position, min(starts + HEADER_SIZE, end - position)))
    if legacy and is_zero(chunk):
        return -1
    magics = (b"\x00", b"\x01") if legacy else (b"\x02",)
    limit = min(starts, len(chunk) - _MAGIC_POSITION)
    best = -1
    for magic in magics:
        start = _MAGIC_POSITION
        stop = (best if best >= 0 else limit) + _MAGIC_POSITION
        while (at := chunk.find(magic, start, stop)) >= 0:
            candidate = at - _MAGIC_POSITION
            if _is_batch(file, position + candidate, end, chunk[candidate : candidate + HEADER_SIZE]):
                best = candidate
                break
            start = at + 1
    return position + best if best >= 0 else -1


def _is_batch(file: SegmentFile, position: int, end: int, header: bytes) -> bool:
    if len(header) < LEGACY_HEADER_V0:
        return False
    size = _LENGTH.unpack_from(header, 8)[0] + LOG_OVERHEAD
    if header[0] & 0x80 or size > end - position:
        return False
    if header[_MAGIC_POSITION] < 2:
        crc = int.from_bytes(header[12:16], "big")
        return size >= LEGACY_HEADER_V0 + 8 and file.checksum(position + 16, size - 16, zlib.crc32) == crc
    if size < HEADER_SIZE or len(header) < HEADER_SIZE or not _is_plausible(header):
        return False
    crc = int.from_bytes(header[17:21], "big")
    return file.checksum(position + 21, size - 21, crc32c) == crc


def _is_plausible(header: bytes) -> bool:
    """Check the header fields before the checksum is computed, so that garbage costs little."""
    attributes, last_delta, _, max_timestamp, producer_id, epoch, sequence, count = _TAIL.unpack_from(header, 21)
    return bool(
        attributes & ~_KNOWN_ATTRIBUTES == 0
        and attributes & 7 <= _LAST_CODEC
        and 0 <= count <= last_delta + 1
        and min(max_timestamp, producer_id, epoch, sequence) >= -1
    )
