# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: cdivision=True, annotation_typing=False, infer_types=False
"""Conversions between record columns (`RecordColumns`, `RowColumns`) and the buffers of Arrow columns.

The rules of `_kernel.py` hold here too. A state has STATE_SIZE integers: rows of the Arrow column so far, its bytes so
far, its nulls so far. A function appends the rows of one column set and returns how many it appended; it stops early at
a cell outside the data, or when an array or a buffer is full. Bits of `validity`, all ones before, are cleared for
nulls.
"""

from __future__ import annotations

from array import array

try:
    import cython
except ImportError:
    from kafkatools.core import uncompiled as cython

if not cython.compiled:
    from kafkatools.core.records._kernel import _copy, _int_items, _items, _long_items, _slots

Buffer = bytes | bytearray | memoryview
Writable = bytearray | memoryview

STATE_ROWS = 0
STATE_BYTES = 1
STATE_NULLS = 2
STATE_SIZE = 3

# A view of Arrow (BinaryView): length, the first four bytes, number of the buffer, position; up to 12 bytes in place.
VIEW_INTS = 4
VIEW_BYTES = 16
INLINE_BYTES = 12


def cells_size(lengths: array[int]) -> int:
    """Return the number of bytes of cells with these lengths; a negative length is a null."""
    items, count = _int_items(lengths), len(lengths)
    total = 0
    row = 0
    while row < count:
        if items[row] > 0:
            total += items[row]
        row += 1
    return total


def copy_cells(
    data: Buffer,
    positions: array[int],
    lengths: array[int],
    offsets: array[int],
    target: Writable,
    validity: bytearray,
    state: array[int],
) -> int:
    """Append the cells to a column of variable length: their bytes to `target`, the ends to `offsets`, which has one
    item more than there are rows, the first is 0."""
    source, end = _items(data), len(data)
    starts, sizes, ends = _int_items(positions), _int_items(lengths), _int_items(offsets)
    out, bits, numbers = _slots(target), _slots(validity), _long_items(state)
    rows, size, nulls = max(numbers[0], 0), max(numbers[1], 0), numbers[2]
    count = min(len(positions), len(lengths), len(offsets) - 1 - rows, 8 * len(validity) - rows)
    room = min(len(target), 0x7FFFFFFF)
    row = 0
    while row < count:
        length = sizes[row]
        if length > 0:
            start = starts[row]
            if length > room - size or start < 0 or length > end - start:
                break
            _copy(out, size, source, start, length)
            size += length
        elif length < 0:
            bits[rows >> 3] &= ~(1 << (rows & 7))
            nulls += 1
        rows += 1
        ends[rows] = size
        row += 1
    numbers[0], numbers[1], numbers[2] = rows, size, nulls
    return int(row)


def view_cells(
    data: Buffer,
    positions: array[int],
    lengths: array[int],
    buffer_number: int,
    views: bytearray,
    validity: bytearray,
    state: array[int],
) -> int:
    """Append views of the cells, VIEW_BYTES each, to `views`; the data is Arrow's buffer `buffer_number`. A cell of up
    to INLINE_BYTES is copied into its view. `views` is zeros before."""
    source, end = _items(data), len(data)
    starts, sizes = _int_items(positions), _int_items(lengths)
    out, bits, numbers = _slots(views), _slots(validity), _long_items(state)
    rows, size, nulls = max(numbers[0], 0), max(numbers[1], 0), numbers[2]
    count = min(len(positions), len(lengths), len(views) // 16 - rows, 8 * len(validity) - rows)
    row = 0
    while row < count:
        length = sizes[row]
        if length > 0:
            start = starts[row]
            if start < 0 or length > end - start:
                break
            slot = rows * 16
            _put_int(out, slot, length)
            if length > 12:
                _copy(out, slot + 4, source, start, 4)
                _put_int(out, slot + 8, buffer_number)
                _put_int(out, slot + 12, start)
                size += length
            else:
                _copy(out, slot + 4, source, start, length)
        elif length < 0:
            bits[rows >> 3] &= ~(1 << (rows & 7))
            nulls += 1
        rows += 1
        row += 1
    numbers[0], numbers[1], numbers[2] = rows, size, nulls
    return int(row)


def _put_int(target: Writable, position: int, value: int) -> None:
    """Write a 32-bit integer, little-endian. The caller has checked the range."""
    target[position] = value & 0xFF
    target[position + 1] = (value >> 8) & 0xFF
    target[position + 2] = (value >> 16) & 0xFF
    target[position + 3] = (value >> 24) & 0xFF


def cell_places(
    offsets: array[int], validity: Buffer, first_bit: int, shift: int, positions: array[int], lengths: array[int]
) -> int:
    """Write positions and lengths of an Arrow column's cells, -1 for a null. `offsets` has one item more than there are
    rows; `shift` is added to each position. `validity` may be empty: no nulls; else its bits begin at `first_bit`.
    Return the number of rows, fewer if offsets decrease or the bits end."""
    ends, starts, sizes = _int_items(offsets), _int_items(positions), _int_items(lengths)
    bits, bit_count = _items(validity), 8 * len(validity)
    count = min(len(offsets) - 1, len(positions), len(lengths))
    if first_bit < 0:
        return 0
    if bit_count > 0:
        count = min(count, bit_count - first_bit)
    row = 0
    while row < count:
        length = ends[row + 1] - ends[row]
        if length < 0:
            break
        if bit_count > 0 and not (bits[(first_bit + row) >> 3] >> ((first_bit + row) & 7)) & 1:
            length = -1
        starts[row] = ends[row] + shift
        sizes[row] = length
        row += 1
    return int(row)


def rows_by_number(numbers: array[int], ends: array[int], order: array[int]) -> int:
    """Write the rows sorted by their number, from -1 on and in order within a number, to `order`. `ends`, zeros before,
    gets at n + 1 where the rows of number n end in `order`. Return the number of rows; 0 for arrays that are too short
    or a number outside of `ends`."""
    items, places, rows = _int_items(numbers), _int_items(ends), _int_items(order)
    count, width = len(numbers), len(ends)
    if len(order) < count:
        return 0
    row = 0
    while row < count:
        slot = items[row] + 1
        if slot < 0 or slot >= width:
            return 0
        places[slot] += 1
        row += 1
    slot = 0
    total = 0
    while slot < width:  # from counts to where the rows of each number begin
        number_count = places[slot]
        places[slot] = total
        total += number_count
        slot += 1
    if total != count:  # `ends` was not empty
        return 0
    row = 0
    while row < count:
        slot = items[row] + 1
        rows[places[slot]] = row
        places[slot] += 1
        row += 1
    return int(row)


def shift_numbers(numbers: array[int], by: int) -> None:
    """Add a number to each item in place. The caller ensures that the sums fit into 32 bits."""
    items, count = _int_items(numbers), len(numbers)
    row = 0
    while row < count:
        items[row] += by
        row += 1
