# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: cdivision=True, annotation_typing=False, infer_types=False
"""Write record columns by a format: literal text, keys, values, sizes, offsets and timestamps in any order.

The rules of `_kernel.py` hold here too: ordinary Python that `_format_kernel.pxd` turns into C. Every cell is compared
with the end of its buffer, and the output is made long enough before anything is written.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

try:
    import cython
except ImportError:
    from kafkatools.core import uncompiled as cython

if not cython.compiled:
    from kafkatools.core.records._kernel import _copy, _int_items, _is_inside, _items, _long_items
    from kafkatools.core.records._kernel_text import _resize, _writable

if TYPE_CHECKING:
    from kafkatools.core.records.columns import RecordColumns

Buffer = bytes | bytearray | memoryview
Writable = bytearray | memoryview

COMPILED: bool = cython.compiled

# The kinds of parts. A part is three integers: kind, and for LITERAL start and length of its text.
PART_WIDTH = 3
LITERAL = 0
VALUE = 1
KEY = 2
VALUE_SIZE = 3
KEY_SIZE = 4
BINARY_VALUE_SIZE = 5
OFFSET = 6
TIMESTAMP = 7


def _room(
    columns: RecordColumns, items: array[int], width: int, values: array[int], keys: array[int], end: int
) -> tuple[int, int]:
    """Return how many rows have their cells inside the buffer, and the most bytes that these rows take; 20 for each
    number."""
    value_sizes, key_sizes, count = _int_items(columns.value_lengths), _int_items(columns.key_lengths), columns.count
    fixed, value_count, key_count, part = 0, 0, 0, 0
    while part < width:
        fixed += items[part + 2] if items[part] == 0 else 20
        value_count += items[part] == 1
        key_count += items[part] == 2
        part += 3
    need, row = 0, 0
    while row < count:
        if not (_is_inside(values[row], value_sizes[row], end) and _is_inside(keys[row], key_sizes[row], end)):
            break
        need += fixed + max(value_sizes[row], 0) * value_count + max(key_sizes[row], 0) * key_count
        row += 1
    return row, need


def write_parts(  # noqa: C901, PLR0915 - one branch for each kind of part, in the inner loop
    columns: RecordColumns, out: bytearray, parts: array[int], literals: bytes
) -> int:
    """Append all parts of each record to `out`. Nulls are empty, and their size is -1. Return how many rows were
    written; fewer than all when a cell lies outside its buffer. `literals` must not be empty."""
    width, data = len(parts), columns.buffer
    source, text, items = _items(data), _items(literals), _int_items(parts)
    values, value_sizes = _int_items(columns.value_positions), _int_items(columns.value_lengths)
    keys, key_sizes = _int_items(columns.key_positions), _int_items(columns.key_lengths)
    offsets, timestamps = _long_items(columns.offsets), _long_items(columns.timestamps)
    count, need = _room(columns, items, width, values, keys, len(data))
    position = len(out)
    _resize(out, position + need)
    slots = _writable(out)
    row = 0
    while row < count:
        part = 0
        while part < width:
            kind = items[part]
            if kind == 0:
                _copy(slots, position, text, items[part + 1], items[part + 2])
                position += items[part + 2]
            elif kind == 1:
                position = _put(slots, position, source, values[row], value_sizes[row])
            elif kind == 2:
                position = _put(slots, position, source, keys[row], key_sizes[row])
            elif kind == 3:
                position = _number(slots, position, value_sizes[row])
            elif kind == 4:
                position = _number(slots, position, key_sizes[row])
            elif kind == 5:
                position = _big_endian(slots, position, value_sizes[row])
            elif kind == 6:
                position = _number(slots, position, offsets[row])
            else:
                position = _number(slots, position, timestamps[row])
            part += 3
        row += 1
    _resize(out, position)
    return count


def _put(slots: Writable, position: int, source: Buffer, start: int, length: int) -> int:
    if length <= 0:
        return position
    _copy(slots, position, source, start, length)
    return position + length


def _big_endian(slots: Writable, position: int, value: int) -> int:
    slots[position] = (value >> 24) & 255
    slots[position + 1] = (value >> 16) & 255
    slots[position + 2] = (value >> 8) & 255
    slots[position + 3] = value & 255
    return position + 4


def _number(slots: Writable, position: int, value: int) -> int:
    """Write a 64-bit integer in decimal. Return the position after it."""
    if not cython.compiled:
        digits = str(value).encode()
        slots[position : position + len(digits)] = digits
        return position + len(digits)
    rest = value
    if value < 0:
        slots[position] = 45
        position += 1
        rest = 0 - rest
    size = 1
    limit = rest
    while limit >= 10:
        limit = limit // 10
        size += 1
    at = position + size
    while at > position:
        at -= 1
        slots[at] = 48 + rest % 10
        rest = rest // 10
    return position + size
