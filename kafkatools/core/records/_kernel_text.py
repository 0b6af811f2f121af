# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: cdivision=True, annotation_typing=False, infer_types=False
"""The loops between records and text: lines to columns, columns to lines, the lines of a dump.

The rules of `_kernel.py` hold here too: ordinary Python that `_kernel_text.pxd` makes C of; every place is compared with the end of its buffer;
functions return how far they came. Output is appended to a bytearray, which is made long enough before anything is written to it.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Any

try:
    import cython
except ImportError:

    class _Uncompiled:
        compiled = False

    cython = _Uncompiled()

if not cython.compiled:
    from kafkatools.core.records._kernel import _copy, _int_items, _is_inside, _items, _long_items, _varint

if TYPE_CHECKING:
    from kafkatools.core.records.columns import RecordColumns

Buffer = bytes | bytearray | memoryview

# Flags of format_records.
SHOW_METADATA = 1
SHOW_DATA = 2

REPLACEMENT = b"\xef\xbf\xbd"
# what a dump line has beside its texts: words and eight numbers of at most 20 digits
LINE_OVERHEAD = 320


def _resize(out: bytearray, size: int) -> int:
    """Makes a bytearray longer or shorter; what is new in it has no meaning yet."""
    if cython.compiled:
        return PyByteArray_Resize(out, size)
    if size > len(out):
        out.extend(bytes(size - len(out)))
    else:
        del out[size:]
    return 0


def _writable(out: bytearray) -> Any:
    """The bytes to write to: a pointer when compiled, good until the next `_resize`."""
    if cython.compiled:
        return cython.cast("unsigned char*", PyByteArray_AS_STRING(out))
    return out


def _put_text(slots: Any, position: int, text: bytes) -> int:
    size = len(text)
    if cython.compiled:
        memcpy(slots + position, PyBytes_AS_STRING(text), size)
    else:
        slots[position : position + size] = text
    return position + size


def _put_number(slots: Any, position: int, value: int) -> int:
    """Writes a signed integer in decimal."""
    if value < 0:
        slots[position] = 45
        position += 1
    if not cython.compiled:
        return _put_text(slots, position, b"%d" % abs(value))
    rest = _magnitude(value)
    size = 1
    while rest >= 10:
        rest //= 10
        size += 1
    rest = _magnitude(value)
    end = position + size
    place = end
    while place > position:
        place -= 1
        slots[place] = 48 + rest % 10
        rest //= 10
    return end


def _magnitude(value: int) -> int:
    return -value if value < 0 else value


# -- lines to columns --


def _searchable(data: Buffer) -> Any:
    """The bytes as `_find` takes them."""
    if cython.compiled:
        return _items(data)
    return bytes(data) if isinstance(data, memoryview) else data


def _find(source: Any, byte: int, start: int, end: int) -> int:
    """Where a byte comes next; `end` when it does not."""
    if not cython.compiled:
        place: int = source.find(byte, start, end)
        return end if place < 0 else place
    if start >= end:
        return end
    found = cython.cast("const unsigned char*", memchr(source + start, byte, end - start))
    return end if found == cython.NULL else found - source


def find_lines(data: Buffer, start: int, is_end: bool, positions: array[int], lengths: array[int], status: array[int]) -> int:
    r"""Splits data into lines at \n, \r and \r\n (java.io.BufferedReader.readLine); how many, at most as many as `positions` has room for.

    With `is_end` what follows the last separator is a line too (if it is not empty); else it is left for the next time.
    status[0] = where the first line begins that was not taken.
    """
    source, end = _searchable(data), len(data)
    starts, sizes = _int_items(positions), _int_items(lengths)
    room = min(len(positions), len(lengths))
    position = max(start, 0)
    newline, carriage = position - 1, position - 1
    row = 0
    while row < room and position < end:
        if newline < position:
            newline = _find(source, 10, position, end)
        if carriage < position:
            carriage = _find(source, 13, position, end)
        stop = min(newline, carriage)
        after = stop + 1
        if stop == end:
            if not is_end:
                break
            after = end
        elif stop == carriage:
            if after == end and not is_end:
                break
            if newline == after:
                after += 1
        starts[row] = position
        sizes[row] = stop - position
        position = after
        row += 1
    status[0] = position
    return row


def split_keys(
    data: Buffer,
    separator: bytes,
    values: tuple[array[int], array[int]],
    keys: tuple[array[int], array[int]],
    start: int,
    stop: int,
) -> int:
    """Splits the cells `values` (positions, lengths) of rows start..stop at their first separator into keys and values, in place.

    Returns `stop`, or the row of the first cell that has no separator (or lies outside the data): that one is left as it is.
    """
    source, end = _searchable(data), len(data)
    value_positions, value_lengths = _int_items(values[0]), _int_items(values[1])
    key_positions, key_lengths = _int_items(keys[0]), _int_items(keys[1])
    stop = min(stop, len(values[0]), len(values[1]), len(keys[0]), len(keys[1]))
    row = max(start, 0)
    size = len(separator)
    while row < stop:
        position, length = value_positions[row], value_lengths[row]
        if not _is_inside(position, length, end):
            return row
        place = _find_text(source, separator, position, position + length)
        if place < 0:
            return row
        key_positions[row] = position
        key_lengths[row] = place - position
        value_positions[row] = place + size
        value_lengths[row] = length - (place - position) - size
        row += 1
    return stop


def _find_text(source: Any, text: bytes, start: int, end: int) -> int:
    """Where a text that is not empty begins inside start..end; -1 when it does not."""
    size = len(text)
    if size == 0:
        return -1
    if not cython.compiled:
        return int(source.find(text, start, end))
    letters = cython.cast("const unsigned char*", PyBytes_AS_STRING(text))
    while end - start >= size:
        place = _find(source, letters[0], start, end)
        if end - place < size:
            return -1
        if memcmp(source + place, letters, size) == 0:
            return place
        start = place + 1
    return -1


# -- columns to lines --


def write_values(columns: RecordColumns, out: bytearray, separator: bytes, null_literal: bytes) -> int:
    """Appends every value (`null_literal` for a null) and the separator after it; how many rows, fewer when a cell lies outside its buffer."""
    return write_keys_and_values(columns, out, None, separator, null_literal)


def write_keys_and_values(
    columns: RecordColumns, out: bytearray, key_separator: bytes | None, separator: bytes, null_literal: bytes
) -> int:
    """The same with the key and `key_separator` before each value; None leaves the key out."""
    data = columns.buffer
    source, end = _items(data), len(data)
    has_keys = key_separator is not None
    middle = key_separator if has_keys else b""
    values, value_sizes = _int_items(columns.value_positions), _int_items(columns.value_lengths)
    keys, key_sizes = _int_items(columns.key_positions), _int_items(columns.key_lengths)
    count = _row_count(columns)
    need = len(out)
    null_size = len(null_literal)
    fixed = len(separator) + len(middle)
    row = 0
    while row < count:
        length = value_sizes[row]
        if not _is_inside(values[row], length, end):
            break
        need += fixed + (length if length >= 0 else null_size)
        if has_keys:
            length = key_sizes[row]
            if not _is_inside(keys[row], length, end):
                break
            need += length if length >= 0 else null_size
        row += 1
    position = len(out)
    count = row
    _resize(out, need)
    slots = _writable(out)
    row = 0
    while row < count:
        if has_keys:
            position = _put_cell(slots, position, source, keys[row], key_sizes[row], null_literal)
            position = _put_text(slots, position, middle)
        position = _put_cell(slots, position, source, values[row], value_sizes[row], null_literal)
        position = _put_text(slots, position, separator)
        row += 1
    if position < len(out):
        _resize(out, position)
    return count


def _row_count(columns: RecordColumns) -> int:
    return min(
        columns.count,
        len(columns.value_positions),
        len(columns.value_lengths),
        len(columns.key_positions),
        len(columns.key_lengths),
    )


def _put_cell(slots: Any, position: int, source: Any, start: int, length: int, null_literal: bytes) -> int:
    if length < 0:
        return _put_text(slots, position, null_literal)
    _copy(slots, position, source, start, length)
    return position + length


# -- text as Java decodes it --


def _is_continuation(byte: int) -> bool:
    return (byte & 0xC0) == 0x80


def _sequence(source: Any, position: int, end: int) -> int:
    """How many bytes the UTF-8 sequence at `position` has; -n when Java's decoder puts one U+FFFD for n malformed ones (java.lang.String)."""
    first = source[position]
    left = end - position
    if first < 0x80:
        return 1
    if first < 0xC2 or first > 0xF4:
        return -1
    if first < 0xE0:
        return 2 if left > 1 and _is_continuation(source[position + 1]) else -1
    if left == 1:
        return -1
    if first < 0xF0:
        return _sequence_of_three(source, position, left)
    return _sequence_of_four(source, position, left)


def _sequence_of_three(source: Any, position: int, left: int) -> int:
    first, second = source[position], source[position + 1]
    if not _is_continuation(second) or (first == 0xE0 and second < 0xA0):
        return -1
    if left == 2 or not _is_continuation(source[position + 2]):
        return -2
    return -3 if first == 0xED and second >= 0xA0 else 3


def _sequence_of_four(source: Any, position: int, left: int) -> int:
    first, second = source[position], source[position + 1]
    if not _is_continuation(second) or (first == 0xF0 and second < 0x90) or (first == 0xF4 and second >= 0x90):
        return -1
    if left == 2 or not _is_continuation(source[position + 2]):
        return -2
    return 4 if left > 3 and _is_continuation(source[position + 3]) else -3


def _put_utf8(slots: Any, position: int, source: Any, start: int, size: int) -> int:
    """Copies text and puts U+FFFD for what is not UTF-8; at most three bytes for each of the source's."""
    end = start + size
    sound = start
    while start < end:
        if source[start] < 0x80:
            start += 1
            continue
        step = _sequence(source, start, end)
        if step > 0:
            start += step
            continue
        _copy(slots, position, source, sound, start - sound)
        position = _put_text(slots, position + start - sound, REPLACEMENT)
        start -= step
        sound = start
    _copy(slots, position, source, sound, end - sound)
    return position + end - sound


def java_utf8(data: Buffer) -> bytes:
    """`new String(data, UTF_8)` as UTF-8."""
    out = bytearray()
    _resize(out, 3 * len(data))
    size = _put_utf8(_writable(out), 0, _items(data), 0, len(data))
    return bytes(out[:size])


# -- the lines of a dump --


def _header_names_size(source: Any, position: int, count: int, end: int) -> int:
    """The names' bytes and a comma for each; -1 when the headers are malformed."""
    total = 0
    while count > 0:
        size, position = _varint(source, position, end)
        if position < 0 or size < 0 or size > end - position:
            return -1
        total += size + 1
        size, position = _varint(source, position + size, end)
        if position < 0 or size > end - position:
            return -1
        if size > 0:
            position += size
        count -= 1
    return total


def _put_header_names(slots: Any, position: int, source: Any, place: int, count: int, end: int) -> int:
    index = 0
    while index < count:
        if index > 0:
            slots[position] = 44
            position += 1
        size, place = _varint(source, place, end)
        position = _put_utf8(slots, position, source, place, size)
        size, place = _varint(source, place + size, end)
        if size > 0:
            place += size
        index += 1
    return position


def format_records(columns: RecordColumns, out: bytearray, base_offset: int, base_sequence: int, flags: int) -> int:
    """Appends the lines that `kafka-dump-log --deep-iteration` has for the records of a v2 batch; how many rows, fewer at a malformed one.

    `flags`: SHOW_METADATA (all but with --skip-record-metadata), SHOW_DATA (--print-data-log, the string decoder).
    """
    data = columns.buffer
    source, end = _items(data), len(data)
    offsets, timestamps = _long_items(columns.offsets), _long_items(columns.timestamps)
    values, value_sizes = _int_items(columns.value_positions), _int_items(columns.value_lengths)
    keys, key_sizes = _int_items(columns.key_positions), _int_items(columns.key_lengths)
    headers, header_counts = _int_items(columns.header_positions), _int_items(columns.header_counts)
    count = min(_row_count(columns), len(columns.offsets), len(columns.timestamps))
    count = min(count, len(columns.header_positions), len(columns.header_counts))
    label = b" %s: " % columns.timestamp_type.label.encode()
    has_metadata, has_data = flags & SHOW_METADATA, flags & SHOW_DATA
    overhead = LINE_OVERHEAD
    position = len(out)
    room = position
    slots = _writable(out)
    row = 0
    while row < count:
        key_size, value_size = key_sizes[row], value_sizes[row]
        if not (_is_inside(keys[row], key_size, end) and _is_inside(values[row], value_size, end)):
            break
        names = _header_names_size(source, headers[row], header_counts[row], end) if header_counts[row] else 0
        if names < 0 or headers[row] < 0:
            break
        need = position + overhead + 3 * (names + max(key_size, 0) + max(value_size, 0))
        if need > room:
            room = 2 * need
            _resize(out, room)
            slots = _writable(out)
        slots[position] = 124
        position += 1
        if has_metadata:
            position = _put_text(slots, position, b" offset: ")
            position = _put_number(slots, position, offsets[row])
            position = _put_text(slots, position, label)
            position = _put_number(slots, position, timestamps[row])
            position = _put_text(slots, position, b" keySize: ")
            position = _put_number(slots, position, key_size)
            position = _put_text(slots, position, b" valueSize: ")
            position = _put_number(slots, position, value_size)
            position = _put_text(slots, position, b" sequence: ")
            position = _put_number(slots, position, _sequence_number(base_sequence, offsets[row] - base_offset))
            position = _put_text(slots, position, b" headerKeys: [")
            if names > 0:
                position = _put_header_names(slots, position, source, headers[row], header_counts[row], end)
            slots[position] = 93
            position += 1
        if has_data:
            position = _put_data(slots, position, source, b" key: ", keys[row], key_size)
            position = _put_data(slots, position, source, b" payload: ", values[row], value_size)
        slots[position] = 10
        position += 1
        row += 1
    _resize(out, position)
    return row


def _put_data(slots: Any, position: int, source: Any, name: bytes, start: int, size: int) -> int:
    if size < 0:
        return position
    position = _put_text(slots, position, name)
    return _put_utf8(slots, position, source, start, size)


def _sequence_number(base: int, delta: int) -> int:
    """DefaultRecordBatch.incrementSequence; -1 without a producer."""
    if base < 0:
        return -1
    if base > 2147483647 - delta:
        return delta - (2147483647 - base) - 1
    return base + delta
