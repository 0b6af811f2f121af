# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: cdivision=True, annotation_typing=False, infer_types=False
"""Read the headers of all batches in a buffer into one table of integers. The rules of `_kernel.py` hold here too."""

from __future__ import annotations

from array import array

try:
    import cython
except ImportError:
    from kafkatools.core import uncompiled as cython

if not cython.compiled:
    from kafkatools.core.records._kernel import _as_int, _as_unsigned_int, _items, _long_items

Buffer = bytes | bytearray | memoryview

# Slots of the status array.
STATUS_POSITION = 0
STATUS_REASON = 1

# Why scan_batches stopped (FileLogInputStream.nextBatch).
SCAN_END = 0
SCAN_PARTIAL = 1
SCAN_TOO_SMALL = 2
SCAN_FULL = 3

HEADER_WIDTH = 14
UP_TO_MAGIC = 17
SMALLEST_OVERHEAD = 14


def _get_int(data: Buffer, position: int) -> int:
    """Read a big-endian signed 32-bit integer."""
    if cython.compiled:
        return _as_int(
            (data[position] << 24) | (data[position + 1] << 16) | (data[position + 2] << 8) | data[position + 3]
        )
    return int.from_bytes(data[position : position + 4], "big", signed=True)


def _get_long(data: Buffer, position: int) -> int:
    """Read a big-endian signed 64-bit integer."""
    if cython.compiled:
        high = _get_int(data, position)
        return (high << 32) | _as_unsigned_int(_get_int(data, position + 4))
    return int.from_bytes(data[position : position + 8], "big", signed=True)


def _get_short(data: Buffer, position: int) -> int:
    if cython.compiled:
        return _get_int(data, position) >> 16
    return int.from_bytes(data[position : position + 2], "big", signed=True)


def _get_magic(data: Buffer, position: int) -> int:
    value: int = data[position]
    return value - 256 if value > 127 else value


def scan_batches(data: Buffer, start: int, end: int, table: array[int], status: array[int]) -> int:
    """Read batch headers from `start` on into a table of HEADER_WIDTH integers per batch (FileLogInputStream). Return
    how many.

    status[STATUS_REASON] says why it stopped: SCAN_END at the end of the data, SCAN_PARTIAL at a partial batch,
    SCAN_TOO_SMALL at a size below the smallest overhead of any version, SCAN_FULL when the table is full.
    status[STATUS_POSITION] is where it stopped. Messages of magic 0 and 1, and batches smaller than a v2 header, have
    only position, base offset, size and magic; their other columns are 0.
    """
    source = _items(data)
    end = min(end, len(data))
    items = _long_items(table)
    width, smallest, up_to_magic = HEADER_WIDTH, SMALLEST_OVERHEAD, UP_TO_MAGIC
    room = len(table) // width
    position = max(start, 0)
    reason = SCAN_FULL
    row = 0
    while row < room:
        if position >= end - up_to_magic:
            reason = SCAN_END if position == end else SCAN_PARTIAL
            break
        size = _get_int(source, position + 8)
        if size < smallest:
            reason = SCAN_TOO_SMALL
            break
        size += 12
        if size > end - position:
            reason = SCAN_PARTIAL
            break
        _read_header(source, position, size, items, row * width)
        position += size
        row += 1
    status[STATUS_POSITION] = position
    status[STATUS_REASON] = reason
    return row


def _read_header(data: Buffer, position: int, size: int, items: array[int], slot: int) -> None:
    magic = _get_magic(data, position + 16)
    items[slot] = position
    items[slot + 1] = _get_long(data, position)
    items[slot + 2] = size
    items[slot + 3] = magic
    if magic < 2 or size < 61:
        column = 4
        while column < 14:
            items[slot + column] = 0
            column += 1
        return
    items[slot + 4] = _get_int(data, position + 12)
    items[slot + 5] = _as_unsigned_int(_get_int(data, position + 17))
    items[slot + 6] = _get_short(data, position + 21)
    items[slot + 7] = _get_int(data, position + 23)
    items[slot + 8] = _get_long(data, position + 27)
    items[slot + 9] = _get_long(data, position + 35)
    items[slot + 10] = _get_long(data, position + 43)
    items[slot + 11] = _get_short(data, position + 51)
    items[slot + 12] = _get_int(data, position + 53)
    items[slot + 13] = _get_int(data, position + 57)
