# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: cdivision=True, annotation_typing=False, infer_types=False
"""Loops over text and keys: split lines into columns, write columns as lines, assign keys to partitions.

The rules of `_kernel.py` hold here too: ordinary Python that `_kernel_text.pxd` turns into C. Every position is
compared with the end of its buffer, and functions return how far they came. Output is appended to a bytearray, which is
made long enough before anything is written.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

try:
    import cython
except ImportError:
    from kafkatools.core import uncompiled as cython

if not cython.compiled:
    from kafkatools.core.records._kernel import (
        _as_int,
        _as_unsigned_int,
        _copy,
        _in_c,
        _int_items,
        _is_inside,
        _items,
    )

    # what the .pxd brings from C; only compiled branches use it
    PyByteArray_AS_STRING = PyByteArray_Resize = PyBytes_AS_STRING = memchr = memcmp = memcpy = _in_c

if TYPE_CHECKING:
    from kafkatools.core.records.column_places import KeyAndValuePlaces

Buffer = bytes | bytearray | memoryview
Searchable = bytes | bytearray
Writable = bytearray | memoryview


def _resize(out: bytearray, size: int) -> int:
    """Change the size of a bytearray. New bytes are uninitialized when compiled."""
    if cython.compiled:
        return PyByteArray_Resize(out, size)
    if size > len(out):
        out.extend(bytes(size - len(out)))
    else:
        del out[size:]
    return 0


def _writable(out: bytearray) -> Writable:
    """Return a bytearray in the form that loops write to: a pointer when compiled, void after `_resize`."""
    if cython.compiled:
        return cython.cast("unsigned char*", PyByteArray_AS_STRING(out))  # type: ignore[no-any-return]
    return out


def _put_text(slots: Writable, position: int, text: bytes) -> int:
    size = len(text)
    if cython.compiled:
        memcpy(slots + position, PyBytes_AS_STRING(text), size)  # type: ignore[operator]
    else:
        slots[position : position + size] = text
    return position + size


# -- lines to columns --


def _searchable(data: Buffer) -> Searchable:
    """Return the bytes in the form that `_find` takes."""
    if cython.compiled:
        return _items(data)  # type: ignore[return-value]
    return bytes(data) if isinstance(data, memoryview) else data


def _find(source: Searchable, byte: int, start: int, end: int) -> int:
    """Return the position of the next occurrence of a byte, `end` when there is none."""
    if not cython.compiled:
        place: int = source.find(byte, start, end)
        return end if place < 0 else place
    if start >= end:
        return end
    pointer = cython.cast("const unsigned char*", memchr(source + start, byte, end - start))  # type: ignore[operator]
    return end if pointer == cython.NULL else pointer - source


def find_lines(
    data: Buffer, start: int, is_end: bool, positions: array[int], lengths: array[int], status: array[int]
) -> int:
    r"""Split data into lines at \n, \r and \r\n (java.io.BufferedReader.readLine), from position `start` on. Fill
    `positions` and `lengths`; return the number of lines, at most the arrays' length.

    With `is_end` the text after the last separator is a line too, unless empty; else it is left for the next call.
    status[0] becomes the position after the last line. Raises ValueError above 2 GiB of data.
    """
    if len(data) > 2147483647:
        raise ValueError(
            f"{len(data)} bytes of text in one piece; positions have 32 bits, so at most 2147483647 are possible"
        )
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
            if newline == after and after < end:
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
    """Split each cell of `values` in rows start..stop at its first separator into key and value, in place. Return
    `stop`, or the first row whose cell has no separator or lies outside the data; that cell is unchanged."""
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


def _find_text(source: Searchable, text: bytes, start: int, end: int) -> int:
    """Return the position of a non-empty text inside start..end, -1 when there is none."""
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
        if memcmp(source + place, letters, size) == 0:  # type: ignore[operator]
            return place
        start = place + 1
    return -1


# -- columns to lines --


def write_values(columns: KeyAndValuePlaces, out: bytearray, separator: bytes, null_literal: bytes) -> int:
    """Append each record's value and a separator to `out`, `null_literal` for a null. Return how many rows were
    written; fewer than all when a cell lies outside its buffer."""
    return write_keys_and_values(columns, out, None, separator, null_literal)


def write_keys_and_values(
    columns: KeyAndValuePlaces, out: bytearray, key_separator: bytes | None, separator: bytes, null_literal: bytes
) -> int:
    """Append each record's key, `key_separator`, value and separator to `out`. Without a `key_separator` the keys are
    left out. Return how many rows were written; fewer than all when a cell lies outside its buffer."""
    data = columns.buffer
    source, end = _items(data), len(data)
    has_keys = key_separator is not None
    middle = b"" if key_separator is None else key_separator
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


def _row_count(columns: KeyAndValuePlaces) -> int:
    return min(
        columns.count,
        len(columns.value_positions),
        len(columns.value_lengths),
        len(columns.key_positions),
        len(columns.key_lengths),
    )


def _put_cell(slots: Writable, position: int, source: Buffer, start: int, length: int, null_literal: bytes) -> int:
    if length < 0:
        return _put_text(slots, position, null_literal)
    _copy(slots, position, source, start, length)
    return position + length


# -- murmur2 (Utils.murmur2) --


def _murmur2(data: Buffer, position: int, length: int) -> int:
    h = _as_unsigned_int(-1756908916 ^ length)
    end = position + (length & ~3)
    while position < end:
        k = _as_unsigned_int(
            data[position] | (data[position + 1] << 8) | (data[position + 2] << 16) | (data[position + 3] << 24)
        )
        k = _as_unsigned_int(k * 1540483477)
        k ^= k >> 24
        k = _as_unsigned_int(k * 1540483477)
        h = _as_unsigned_int(h * 1540483477)
        h ^= k
        position += 4
    rest = length & 3
    if rest == 3:
        h ^= data[position + 2] << 16
    if rest >= 2:
        h ^= data[position + 1] << 8
    if rest >= 1:
        h = _as_unsigned_int((h ^ data[position]) * 1540483477)
    h ^= h >> 13
    h = _as_unsigned_int(h * 1540483477)
    h ^= h >> 15
    return _as_int(h)


def murmur2(data: Buffer) -> int:
    """Return Kafka's murmur2 hash of a key, a signed 32-bit integer."""
    return _murmur2(_items(data), 0, len(data))


def partitions_for_keys(
    data: Buffer, key_positions: array[int], key_lengths: array[int], partition_count: int, partitions: array[int]
) -> int:
    """Set `partitions` to the default partitioner's choice for each key, -1 for a null key. Return the number of rows,
    -1 when a key lies outside the data or `partition_count` is below 1."""
    source, end = _items(data), len(data)
    positions, lengths, out = _int_items(key_positions), _int_items(key_lengths), _int_items(partitions)
    count = min(len(key_positions), len(key_lengths), len(partitions))
    if partition_count < 1:
        return -1
    row = 0
    while row < count:
        length = lengths[row]
        if not _is_inside(positions[row], length, end):
            return -1
        out[row] = -1
        if length >= 0:
            out[row] = (_murmur2(source, positions[row], length) & 2147483647) % partition_count
        row += 1
    return count
