"""Partitions as brokers tell of them, many at a time: an error code, three numbers, then lists of broker ids.

Metadata and DescribeTopicPartitions hold thousands of these rows, and those of a topic nearly always have lists of the
same lengths, hence the same size: such a run is checked column by column (the bytes that say how long a list is, and
that no tagged fields follow) and unpacked by one layout. Any other row is read field by field. Rules: flexible versions
only; nothing is read past the end of the buffer, nothing is made that is larger than what is left of it.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from functools import lru_cache
from itertools import pairwise
from operator import itemgetter
from typing import Any, NamedTuple

from kafkatools.core.errors import DecodeError
from kafkatools.core.protocol.varints import read_unsigned_varint, skip_tagged_fields

Row = tuple[Any, ...]
"""error_code, partition_index, leader_id, leader_epoch, then each list (None for a null one)."""
Lists = tuple[bool, ...]
"""The lists of a row: whether each may be null."""

_HEAD = struct.Struct(">hiii")
_LONG = 0x80  # a length of more than one byte begins so
# A run is looked for in so many rows at a time, so that rows of ever changing shapes cost no more than this each.
_RUN_ROWS = 256
_LAYOUTS = 256  # of as many shapes they are kept


class _Layout(NamedTuple):
    """Rows whose length bytes are these, the last one the (empty) section of tagged fields."""

    codec: struct.Struct
    marks: tuple[tuple[int, bytes], ...]  # where the bytes stand in a row, and what they are
    cut: Callable[[Row], Row]


def read_rows(buffer: memoryview, position: int, count: int, lists: Lists) -> tuple[list[Row], int]:
    """So many rows, and the position after them.

    Raises DecodeError, struct.error or IndexError for what is cut off, or null where it may not be.
    """
    rows: list[Row] = []
    while len(rows) < count:
        shape = _shape(buffer, position, lists)
        if shape is None:
            row, position = _read_row(buffer, position, lists)
            rows.append(row)
            continue
        codec, marks, cut = _layout(shape, lists)
        size = codec.size
        most = min(count - len(rows), _RUN_ROWS, (len(buffer) - position) // size)
        end = position + most * size
        for offset, mark in marks:
            column = bytes(buffer[position + offset : end : size])
            alike = len(column) - len(column.lstrip(mark))
            if alike < len(column):
                end = position + alike * size
        if end == position:
            raise DecodeError(f"a partition at byte {position} is cut off")
        rows += map(cut, codec.iter_unpack(buffer[position:end]))
        position = end
    return rows, position


def _shape(buffer: memoryview, position: int, lists: Lists) -> bytes | None:
    """The length bytes of the row at a position; None when one of them is no plain byte."""
    found = bytearray()
    position += _HEAD.size
    for _ in lists:
        mark = buffer[position]
        if mark >= _LONG:
            return None
        found.append(mark)
        position += 4 * mark - 3 if mark else 1
    return bytes(found) if buffer[position] == 0 else None


@lru_cache(_LAYOUTS)
def _layout(shape: bytes, lists: Lists) -> _Layout:
    codes = [_HEAD.format]
    marks = []
    bounds = [4]
    offset = _HEAD.size
    for mark, nullable in zip(shape, lists, strict=True):
        if mark == 0 and not nullable:
            raise DecodeError("a null list of brokers")
        count = max(0, mark - 1)
        marks.append((offset, bytes((mark,))))
        codes.append(f"x{count}i")
        bounds.append(bounds[-1] + count)
        offset += 1 + 4 * count
    marks.append((offset, b"\0"))
    return _Layout(struct.Struct("".join([*codes, "x"])), tuple(marks), _cut_of(shape, bounds))


def _cut_of(shape: bytes, bounds: list[int]) -> Callable[[Row], Row]:
    """From all numbers of a row to the numbers at its head and its lists."""
    slices = [slice(*pair) for pair in pairwise(bounds)]
    if 0 not in shape:
        return itemgetter(0, 1, 2, 3, *slices)

    def cut(numbers: Row) -> Row:
        lists = [numbers[each] if mark else None for mark, each in zip(shape, slices, strict=True)]
        return (*numbers[:4], *lists)

    return cut


def _read_row(buffer: memoryview, position: int, lists: Lists) -> tuple[Row, int]:
    row: Row = _HEAD.unpack_from(buffer, position)
    position += _HEAD.size
    for nullable in lists:
        number, position = read_unsigned_varint(buffer, position)
        count = number - 1
        if count < 0 and not nullable:
            raise DecodeError(f"a null list of brokers at byte {position}")
        if count * 4 > len(buffer) - position:
            raise DecodeError(f"a list of {count} brokers at byte {position} with {len(buffer) - position} bytes left")
        row += (None if count < 0 else struct.unpack_from(f">{count}i", buffer, position),)
        position += 4 * max(0, count)
    return row, skip_tagged_fields(buffer, position)
