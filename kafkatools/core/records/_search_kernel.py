# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: cdivision=True, annotation_typing=False, infer_types=False
"""Search the cells of record columns for a text, and gather the columns of selected rows. The rules of `_kernel.py`
hold here too.

A cell is a key, a value, a header's name or a header's value. `mark_rows` searches the buffer behind all cells once, as
long as the cells lie in the order of their rows, and compares each occurrence with the bounds of the cells. So an
occurrence across two cells or in the bytes between them does not count. Out of order each cell is searched alone.

`data` may be a copy of a part of the columns' buffer that begins at position `origin` of it.
"""

from __future__ import annotations

from array import array

try:
    import cython
except ImportError:
    from kafkatools.core import uncompiled as cython

if not cython.compiled:
    from kafkatools.core.records._kernel import _in_c, _int_items, _is_inside, _items, _long_items, _slots, _varint

    # what the .pxd brings from C; only compiled branches use it
    PyBytes_AS_STRING = memchr = memcmp = memmem = _in_c

Buffer = bytes | bytearray | memoryview
Searchable = bytes | bytearray

# The parts of a record to search, as bits.
IN_KEY = 1
IN_VALUE = 2
IN_HEADERS = 4

# Slots of the state of a search: the position from which the occurrence at STATE_FOUND is the first one, and whether
# all cells so far were in the order of their positions.
STATE_FROM = 0
STATE_FOUND = 1
STATE_ORDERED = 2
STATE_SIZE = 3


def _searchable(data: Buffer) -> Searchable:
    """Return the bytes in the form that `_find` takes."""
    if cython.compiled:
        return _items(data)  # type: ignore[return-value]
    return bytes(data) if isinstance(data, memoryview) else data


def _find(source: Searchable, text: bytes, size: int, start: int, end: int) -> int:
    """Return the position of the first occurrence of a text inside start..end, `end` when there is none."""
    if end - start < size:
        return end
    if not cython.compiled:
        place: int = source.find(text, start, end)
        return end if place < 0 else place
    letters = cython.cast("const unsigned char*", PyBytes_AS_STRING(text))
    if size == 1:
        found = cython.cast("const unsigned char*", memchr(source + start, letters[0], end - start))  # type: ignore[operator]
    else:
        found = cython.cast("const unsigned char*", memmem(source + start, end - start, letters, size))  # type: ignore[operator]
    return end if found == cython.NULL else found - source


def _occurs(source: Searchable, text: bytes, size: int, start: int, length: int, limit: int, state: array[int]) -> bool:
    """Return whether the cell of `length` bytes at `start` contains the text. Searches up to `limit`, unless the first
    occurrence at or after `start` is known from an earlier cell."""
    if length < size:
        return False
    end = start + length
    if start < state[0]:
        state[2] = 0
    if state[2] == 0:
        return _find(source, text, size, start, end) < end or size == 0
    if start > state[1] or state[1] < 0:
        state[1] = _find(source, text, size, start, limit)
    state[0] = start
    return state[1] <= end - size


def _header_occurs(
    source: Searchable, text: bytes, size: int, position: int, count: int, limit: int, state: array[int]
) -> bool:
    """Return whether one of the `count` headers at `position` has the text in its name or value."""
    cells = 2 * count
    while cells > 0:
        length, position = _varint(source, position, limit)
        if position < 0 or length > limit - position:
            return False
        if length >= 0:
            if _occurs(source, text, size, position, length, limit, state):
                return True
            position += length
        cells -= 1
    return False


def _headers_end(data: Buffer, position: int, count: int, end: int) -> int:
    """Return the position after the headers of a record; `end` if they cannot be read."""
    cells = 2 * count
    while cells > 0:
        length, position = _varint(data, position, end)
        if position < 0 or length > end - position:
            return end
        if length > 0:
            position += length
        cells -= 1
    return position


def find_text(data: Buffer, text: bytes, start: int, end: int) -> int:
    """Return the position of the first occurrence of a text inside start..end, -1 when there is none or when these are
    not within the data."""
    if start < 0 or start > end or end > len(data):
        return -1
    place = _find(_searchable(data), text, len(text), start, end)
    return place if place < end else -1


def find_extent(data: Buffer, places: tuple[array[int], ...], parts: int, extent: array[int]) -> int:
    """Set `extent` to the first position and the end of the searched cells. Return 0 when there are no such cells, else
    1. `places` has the positions and lengths of keys, those of values, and the positions and counts of headers."""
    source, end = _items(data), len(data)
    keys, key_sizes = _int_items(places[0]), _int_items(places[1])
    values, value_sizes = _int_items(places[2]), _int_items(places[3])
    headers, header_counts = _int_items(places[4]), _int_items(places[5])
    count = min(map(len, places))
    first, last = end, 0
    row = 0
    while row < count:
        if parts & 1 and key_sizes[row] >= 0 and _is_inside(keys[row], key_sizes[row], end):
            first = min(first, keys[row])
            last = max(last, keys[row] + key_sizes[row])
        if parts & 2 and value_sizes[row] >= 0 and _is_inside(values[row], value_sizes[row], end):
            first = min(first, values[row])
            last = max(last, values[row] + value_sizes[row])
        if parts & 4 and header_counts[row] > 0 and _is_inside(headers[row], 0, end):
            first = min(first, headers[row])
            last = max(last, _headers_end(source, headers[row], header_counts[row], end))
        row += 1
    extent[0], extent[1] = first, last
    return 1 if first <= last else 0


def is_ordered(places: tuple[array[int], ...]) -> bool:
    """Return whether the key, the value and the headers of each row lie in this order, behind those of the row before
    and without overlaps. The ends of headers are not checked."""
    keys, key_sizes = _int_items(places[0]), _int_items(places[1])
    values, value_sizes = _int_items(places[2]), _int_items(places[3])
    headers = _int_items(places[4])
    count = min(map(len, places[:5]))
    last = -1
    row = 0
    while row < count:
        if keys[row] <= last or values[row] < keys[row] + max(key_sizes[row], 0):
            return False
        last = headers[row]
        if last < values[row] + max(value_sizes[row], 0):
            return False
        row += 1
    return True


def mark_rows(
    data: Buffer, origin: int, places: tuple[array[int], ...], parts: int, text: bytes, mask: bytearray, extent: int
) -> int:
    """Set the bytes of `mask` to 1 for the rows that contain the text in one of the `parts`; the others stay. Return
    how many rows contain it. `data` is searched up to the position `extent` of the columns' buffer. An empty text
    occurs in each cell that is not null."""
    source, limit = _searchable(data), min(len(data), extent - origin)
    keys, key_sizes = _int_items(places[0]), _int_items(places[1])
    values, value_sizes = _int_items(places[2]), _int_items(places[3])
    headers, header_counts = _int_items(places[4]), _int_items(places[5])
    count = min(*map(len, places), len(mask))
    state = array("q", (0, -1, 1))
    numbers, marks = _long_items(state), _slots(mask)
    size = len(text)
    row = marked = 0
    while row < count:
        is_marked = False
        if parts & 1 and key_sizes[row] >= 0 and _is_inside(keys[row] - origin, key_sizes[row], limit):
            is_marked = _occurs(source, text, size, keys[row] - origin, key_sizes[row], limit, numbers)
        if is_marked or not parts & 2 or value_sizes[row] < 0:
            pass
        elif _is_inside(values[row] - origin, value_sizes[row], limit):
            is_marked = _occurs(source, text, size, values[row] - origin, value_sizes[row], limit, numbers)
        if is_marked or not parts & 4 or header_counts[row] <= 0:
            pass
        elif _is_inside(headers[row] - origin, 0, limit):
            is_marked = _header_occurs(source, text, size, headers[row] - origin, header_counts[row], limit, numbers)
        if is_marked:
            marks[row] = 1
            marked += 1
        row += 1
    return marked


def mark_equal(data: Buffer, positions: array[int], lengths: array[int], text: bytes, mask: bytearray) -> int:
    """Set the bytes of `mask` to 1 for the rows whose cell is exactly the text; the others stay. Return how many."""
    source, end = _items(data), len(data)
    starts, sizes = _int_items(positions), _int_items(lengths)
    count = min(len(positions), len(lengths), len(mask))
    marks = _slots(mask)
    size = len(text)
    row = marked = 0
    while row < count:
        if sizes[row] == size and _is_inside(starts[row], size, end) and _is_equal(source, starts[row], text, size):
            marks[row] = 1
            marked += 1
        row += 1
    return marked


def _is_equal(source: Buffer, start: int, text: bytes, size: int) -> bool:
    if cython.compiled:
        return memcmp(source + start, PyBytes_AS_STRING(text), size) == 0  # type: ignore[operator]
    return source[start : start + size] == text


def lower_letters(data: Buffer, start: int, target: bytearray) -> None:
    """Fill `target` with the bytes of `data` from `start` on, with the letters A to Z in lower case. Does nothing when
    `data` is too short."""
    source, slots = _items(data), _slots(target)
    size = len(target)
    if start < 0 or size > len(data) - start:
        return
    if not cython.compiled:
        target[:] = bytes(data[start : start + size]).lower()
        return
    place = 0
    while place < size:
        byte = source[start + place]
        slots[place] = byte + 32 if 65 <= byte <= 90 else byte
        place += 1


def marked_rows(mask: bytearray, rows: array[int]) -> int:
    """Write the ascending numbers of the rows whose byte of `mask` is not 0 to `rows`. Return how many."""
    marks, numbers = _slots(mask), _int_items(rows)
    size, room = len(mask), len(rows)
    row = count = 0
    while row < size and count < room:
        if marks[row] != 0:
            numbers[count] = row
            count += 1
        row += 1
    return count


def take_ints(source: array[int], rows: array[int], target: array[int]) -> int:
    """Copy the items of `source` at `rows` to `target`, both of 32-bit integers. Return how many; it stops at a row
    outside of `source`."""
    items, numbers, slots = _int_items(source), _int_items(rows), _int_items(target)
    count, size = min(len(rows), len(target)), len(source)
    place = 0
    while place < count:
        row = numbers[place]
        if row < 0 or row >= size:
            break
        slots[place] = items[row]
        place += 1
    return place


def take_longs(source: array[int], rows: array[int], target: array[int]) -> int:
    """Copy the items of `source` at `rows` to `target`, both of 64-bit integers. Return how many; it stops at a row
    outside of `source`."""
    items, numbers, slots = _long_items(source), _int_items(rows), _long_items(target)
    count, size = min(len(rows), len(target)), len(source)
    place = 0
    while place < count:
        row = numbers[place]
        if row < 0 or row >= size:
            break
        slots[place] = items[row]
        place += 1
    return place
