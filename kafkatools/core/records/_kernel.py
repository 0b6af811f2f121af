# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: cdivision=True, annotation_typing=False, infer_types=False
"""The loops that run once per record: varints, decoding to columns, encoding from columns.

Rules of this file:

- It is ordinary Python and, with the C types that `_kernel.pxd` adds, C. Both give the same results; `COMPILED` is True
  when the C code runs.
- Compiled code checks no index. So every read is guarded by an explicit comparison with the end of the data, and every
  write by the length of the target array, in this file. Lengths are compared as `size > end - position`, which cannot
  overflow.
- Nothing here raises for bad data. Functions return how far they came, and the callers in batch.py explain the damage.
- A position of -1 means that the data ended or is malformed. It is passed on, so that a row is checked once, at its
  end.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

try:
    import cython
except ImportError:
    from kafkatools.core import uncompiled as cython

if not cython.compiled:
    # what the .pxd brings from C; only compiled branches use it
    def _in_c(*arguments: object) -> int:
        """Placeholder for a C function that only compiled code calls."""
        raise NotImplementedError

    clone = memcpy = _in_c

Buffer = bytes | bytearray | memoryview
Writable = bytearray | memoryview

COMPILED: bool = cython.compiled

# Slots of the status array of decode_records and scan_batches (which alone has a reason).
STATUS_POSITION = 0
STATUS_REASON = 1
# Only decode_records reads these, and only in a status array that has them.
STATUS_START = 2
STATUS_ROW = 3
STATUS_SIZE = 2

# Slots of the state array of encode_columns: the place of the next record in the target, records so far, timestamps,
# where the first record begins, the most that records may take, why the last call stopped, the timestamp of rows
# without one, the next record's offset delta.
STATE_POSITION = 0
STATE_ROWS = 1
STATE_BASE_TIMESTAMP = 2
STATE_MAX_TIMESTAMP = 3
STATE_ORIGIN = 4
STATE_WRITE_LIMIT = 5
STATE_NEEDED = 6
STATE_DEFAULT_TIMESTAMP = 7
STATE_NEXT_DELTA = 8
STATE_SIZE = 9

# attributes, timestamp delta, offset delta, key length, value length, header count: one byte each
MINIMUM_RECORD_BODY = 6


_LONGS = array("q")
_INTS = array("i")


def new_longs(count: int) -> array[int]:
    """Return an array of `count` 64-bit integers to be filled by the caller; uninitialized when compiled."""
    if cython.compiled:
        return clone(_LONGS, max(count, 0), False)  # type: ignore[return-value]
    return array("q", bytes(8 * max(count, 0)))


def new_ints(count: int) -> array[int]:
    """Return an array of `count` 32-bit integers to be filled by the caller; uninitialized when compiled."""
    if cython.compiled:
        return clone(_INTS, max(count, 0), False)  # type: ignore[return-value]
    return array("i", bytes(4 * max(count, 0)))


def _as_int(value: int) -> int:
    """Return the low 32 bits as a signed integer, as Java's int arithmetic does."""
    if cython.compiled:
        return value
    value &= 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


def _as_unsigned_int(value: int) -> int:
    if cython.compiled:
        return value
    return value & 0xFFFFFFFF


def _as_long(value: int) -> int:
    """Return the low 64 bits as a signed integer, as Java's long arithmetic does."""
    if cython.compiled:
        return value
    value &= 0xFFFFFFFFFFFFFFFF
    return value - (1 << 64) if value >> 63 else value


def _as_unsigned_long(value: int) -> int:
    if cython.compiled:
        return value
    return value & 0xFFFFFFFFFFFFFFFF


def _items(data: Buffer) -> Buffer:
    """Return the bytes in the form that loops index: a pointer when compiled, else the buffer itself."""
    if cython.compiled:
        return cython.address(data[0])  # type: ignore[no-any-return]
    return data


def _slots(data: Writable) -> Writable:
    """Return writable bytes in the form that loops index: a pointer when compiled, else the buffer itself."""
    if cython.compiled:
        return cython.address(data[0])  # type: ignore[no-any-return]
    return data


def _long_items(column: array[int] | None) -> array[int]:
    if column is None or column.itemsize != 8:
        raise TypeError("expected an array of 64-bit integers")
    if cython.compiled:
        return column.data.as_longlongs  # type: ignore[attr-defined, no-any-return]
    return column


def _int_items(column: array[int] | None) -> array[int]:
    if column is None or column.itemsize != 4:
        raise TypeError("expected an array of 32-bit integers")
    if cython.compiled:
        return column.data.as_ints  # type: ignore[attr-defined, no-any-return]
    return column


def _copy(target: Writable, position: int, source: Buffer, start: int, size: int) -> None:
    """Copy `size` bytes between buffers. The caller has checked both ranges."""
    if cython.compiled:
        memcpy(target + position, source + start, size)  # type: ignore[operator]
    else:
        target[position : position + size] = source[start : start + size]


# -- varints (ByteUtils.readVarint, readVarlong, writeVarint, writeVarlong) --


def _long_varint(data: Buffer, position: int, end: int) -> tuple[int, int]:
    shift = 0
    raw = 0
    while position < end and shift < 35:
        byte = data[position]
        position += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            raw = _as_unsigned_int(raw)
            return _as_long((raw >> 1) ^ -(raw & 1)), position
        shift += 7
    return 0, -1


def _varint(data: Buffer, position: int, end: int) -> tuple[int, int]:
    """Read a zig-zag 32-bit varint. Return it and the position after it, (0, -1) if it is cut off or longer than 5
    bytes."""
    if position < 0 or position >= end:
        return 0, -1
    byte = data[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    if position + 1 < end and data[position + 1] < 0x80:
        byte = (byte & 0x7F) | (data[position + 1] << 7)
        return (byte >> 1) ^ -(byte & 1), position + 2
    return _long_varint(data, position, end)


def _long_varlong(data: Buffer, position: int, end: int) -> tuple[int, int]:
    shift = 0
    raw = 0
    while position < end and shift < 70:
        byte = data[position]
        position += 1
        raw |= (byte & 0x7F) << shift
        if byte < 0x80:
            raw = _as_unsigned_long(raw)
            return _as_long((raw >> 1) ^ -(raw & 1)), position
        shift += 7
    return 0, -1


def _varlong(data: Buffer, position: int, end: int) -> tuple[int, int]:
    """Read a zig-zag 64-bit varint. Return it and the position after it, (0, -1) if it is cut off or longer than 10
    bytes."""
    if position < 0 or position >= end:
        return 0, -1
    byte = data[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    if position + 1 < end and data[position + 1] < 0x80:
        byte = (byte & 0x7F) | (data[position + 1] << 7)
        return (byte >> 1) ^ -(byte & 1), position + 2
    return _long_varlong(data, position, end)


def _zigzag(value: int) -> int:
    return _as_unsigned_long((value << 1) ^ (value >> 63))


def _size_of_unsigned(raw: int) -> int:
    size = 1
    while raw >= 0x80:
        raw >>= 7
        size += 1
    return size


def _size_of(value: int) -> int:
    """Return the number of bytes of a value's zig-zag varint."""
    return _size_of_unsigned(_zigzag(value))


def _write_varint(target: Writable, position: int, value: int) -> int:
    """Write a zig-zag varint and return the position after it. The caller has made room."""
    raw = _zigzag(value)
    while raw >= 0x80:
        target[position] = (raw & 0x7F) | 0x80
        raw >>= 7
        position += 1
    target[position] = raw
    return position + 1


def read_varint(data: Buffer, position: int) -> tuple[int, int]:
    """Read a zig-zag 32-bit varint. Return it and the position after it, (0, -1) when it is malformed or cut off."""
    return _varint(_items(data), position, len(data))


def read_varlong(data: Buffer, position: int) -> tuple[int, int]:
    """Read a zig-zag 64-bit varint. Return it and the position after it, (0, -1) when it is malformed or cut off."""
    return _varlong(_items(data), position, len(data))


def varint(value: int) -> bytes:
    """Encode a signed integer of at most 64 bits as a zig-zag varint."""
    raw = (value << 1) ^ (value >> 63)
    out = bytearray()
    while raw >= 0x80:
        out.append((raw & 0x7F) | 0x80)
        raw >>= 7
    out.append(raw)
    return bytes(out)


def size_of_varint(value: int) -> int:
    """Return the number of bytes of `varint(value)`."""
    return _size_of(value)


# -- decoding --


def _skip(position: int, size: int, end: int) -> int:
    """Return the position after `size` bytes, -1 past the end. A negative size (null) takes no bytes."""
    if position < 0 or size > end - position:
        return -1
    if size > 0:
        return position + size
    return position


def _skip_headers(data: Buffer, position: int, count: int, end: int) -> int:
    """Return the position after `count` record headers of at least two bytes, -1 when they are malformed."""
    if position < 0 or count < 0 or count > end - position:
        return -1
    while count > 0:
        size, position = _varint(data, position, end)
        if size < 0:
            return -1
        position = _skip(position, size, end)
        size, position = _varint(data, position, end)
        position = _skip(position, size, end)
        if position < 0:
            return -1
        count -= 1
    return position


def decode_records(  # noqa: PLR0915 - one statement per field of the format
    data: Buffer,
    count: int,
    base_offset: int,
    base_timestamp: int,
    longs: tuple[array[int], array[int]],
    ints: tuple[array[int], array[int], array[int], array[int], array[int], array[int]],
    status: array[int],
) -> int:
    """Decode up to `count` records of a v2 batch into columns (DefaultRecord.readFrom). Return how many were valid.

    `longs` = offsets, timestamps; `ints` = key positions, key lengths, value positions, value lengths, header
    positions, header counts. Every array has at least `count` items, those of the headers zeros. status[0] becomes the
    position of the first record that was not read. A status array with STATUS_START and STATUS_ROW gives the position
    and the row to begin at, so that the batches of a fetch are decoded into the same columns. Then `count` and the
    result are rows of the columns.
    """
    for column in (*longs, *ints):
        count = min(count, len(column))
    source = _items(data)
    end = len(data)
    offsets, timestamps = _long_items(longs[0]), _long_items(longs[1])
    key_positions, key_lengths = _int_items(ints[0]), _int_items(ints[1])
    value_positions, value_lengths = _int_items(ints[2]), _int_items(ints[3])
    header_positions, header_counts = _int_items(ints[4]), _int_items(ints[5])
    smallest = MINIMUM_RECORD_BODY
    row = 0
    after = 0
    if len(status) > STATUS_ROW:
        after = max(status[STATUS_START], 0)
        row = max(status[STATUS_ROW], 0)
    while row < count:
        size, position = _varint(source, after, end)
        if position < 0 or size < smallest or size > end - position:
            break
        stop = position + size
        timestamp, position = _varlong(source, position + 1, stop)
        delta, position = _varint(source, position, stop)
        timestamps[row] = _as_long(base_timestamp + timestamp)
        offsets[row] = _as_long(base_offset + delta)
        size, position = _varint(source, position, stop)
        key_positions[row] = position
        key_lengths[row] = size if size >= 0 else -1
        position = _skip(position, size, stop)
        size, position = _varint(source, position, stop)
        value_positions[row] = position
        value_lengths[row] = size if size >= 0 else -1
        position = _skip(position, size, stop)
        size, position = _varint(source, position, stop)
        if size != 0:
            header_positions[row] = position
            header_counts[row] = size
            position = _skip_headers(source, position, size, stop)
        if position != stop:
            header_counts[row] = 0
            break
        after = stop
        row += 1
    status[STATUS_POSITION] = after
    return row


def check_records(data: Buffer, position: int, count: int, base_timestamp: int) -> tuple[int, int, int]:
    """Validate the records of an uncompressed v2 batch without decoding them. Return how many are valid and numbered 0,
    1, 2..., the position after them, and their newest timestamp in ms (at least -1, as in LogValidator)."""
    source = _items(data)
    end = len(data)
    smallest = MINIMUM_RECORD_BODY
    newest = -1
    row = 0
    after = position
    while row < count:
        size, position = _varint(source, after, end)
        if position < 0 or size < smallest or size > end - position:
            break
        stop = position + size
        timestamp, position = _varlong(source, position + 1, stop)
        delta, position = _varint(source, position, stop)
        if delta != row:
            break
        size, position = _varint(source, position, stop)
        position = _skip(position, size, stop)
        size, position = _varint(source, position, stop)
        position = _skip(position, size, stop)
        size, position = _varint(source, position, stop)
        if size != 0:
            position = _skip_headers(source, position, size, stop)
        if position != stop:
            break
        timestamp = _as_long(base_timestamp + timestamp)
        newest = max(newest, timestamp)
        after = stop
        row += 1
    return row, after, newest


# -- encoding --


def _body_size(timestamp_delta: int, offset_delta: int, key_length: int, value_length: int, headers_size: int) -> int:
    """Return a record's size in bytes without its size field (DefaultRecord.sizeOfBodyInBytes). Length -1 is null."""
    size = 1 + _size_of(timestamp_delta) + _size_of(offset_delta) + headers_size
    size += _size_of(key_length) + _size_of(value_length)
    if key_length > 0:
        size += key_length
    if value_length > 0:
        size += value_length
    return size


def record_size(timestamp_delta: int, offset_delta: int, key_length: int, value_length: int, headers_size: int) -> int:
    """Return a record's size in a v2 batch in bytes (DefaultRecord.sizeInBytes). `headers_size` includes the header
    count: 1 for no headers."""
    size = _body_size(timestamp_delta, offset_delta, key_length, value_length, headers_size)
    return size + _size_of(size)


def append_record(
    target: bytearray, state: array[int], timestamp: int, key: Buffer | None, value: Buffer | None, headers: bytes
) -> int:
    """Write one record after the existing ones. Return its offset delta, -1 when the target must grow to
    state[STATE_NEEDED] bytes. `headers` holds the encoded headers with their count. Raises ValueError for a short state
    array."""
    if len(state) < STATE_SIZE:
        raise ValueError("short state")
    items = _long_items(state)
    position, rows, base, delta = items[0], items[1], items[2], items[8]
    if rows == 0:
        base = timestamp
    key_length = -1 if key is None else len(key)
    value_length = -1 if value is None else len(value)
    headers_size = len(headers)
    size = _body_size(_as_long(timestamp - base), delta, key_length, value_length, headers_size)
    total = size + _size_of(size)
    if position < 0 or total > len(target) - position:
        items[6] = position + total
        return -1
    slots = _slots(target)
    position = _write_varint(slots, position, size)
    slots[position] = 0
    position = _write_varint(slots, position + 1, _as_long(timestamp - base))
    position = _write_varint(slots, position, delta)
    position = _append_cell(slots, position, key, key_length)
    position = _append_cell(slots, position, value, value_length)
    _copy(slots, position, _items(headers), 0, headers_size)
    items[0] = position + headers_size
    items[1] = rows + 1
    items[2] = base
    if rows == 0 or timestamp > items[3]:
        items[3] = timestamp
    items[8] = delta + 1
    return int(delta)


def _append_cell(slots: Writable, position: int, data: Buffer | None, length: int) -> int:
    position = _write_varint(slots, position, length)
    if data is not None and length > 0:
        _copy(slots, position, _items(data), 0, length)
        position += length
    return position


def _write_cell(slots: Writable, position: int, source: Buffer, start: int, length: int) -> int:
    position = _write_varint(slots, position, length)
    if length > 0:
        _copy(slots, position, source, start, length)
        position += length
    return position


def _is_inside(start: int, length: int, end: int) -> bool:
    return length <= 0 or (start >= 0 and start <= end and length <= end - start)


def encode_columns(  # noqa: PLR0915 - the state is taken apart and put together once
    target: bytearray,
    state: array[int],
    data: Buffer,
    columns: Sequence[array[int] | None],
    start: int,
    stop: int,
    factor: float,
) -> int:
    """Write rows start..stop as records without headers. Return how many were written.

    `columns` = key positions, key lengths, value positions, value lengths, timestamps; the first two and the last may
    be None. A row is written while `size so far x factor + its size` is within the write limit (the first row of a
    batch always is) and the target has room. state[STATE_NEEDED] is the reason for an early stop: 0 for the limit, > 0
    for the size in bytes that the target needs, -1 for a cell outside the data.
    """
    key_positions, key_lengths, value_positions, value_lengths, timestamps = columns
    has_keys = key_lengths is not None
    has_timestamps = timestamps is not None
    for column in columns:
        if column is not None:
            stop = min(stop, len(column))
    source, end = _items(data), len(data)
    slots, room = _slots(target), len(target)
    keys, key_sizes = _int_items(key_positions or value_positions), _int_items(key_lengths or value_lengths)
    values, value_sizes = _int_items(value_positions), _int_items(value_lengths)
    times = _long_items(timestamps if has_timestamps else state)
    position, rows, base, latest = (
        state[STATE_POSITION],
        state[STATE_ROWS],
        state[STATE_BASE_TIMESTAMP],
        state[STATE_MAX_TIMESTAMP],
    )
    origin, limit, timestamp = state[STATE_ORIGIN], state[STATE_WRITE_LIMIT], state[STATE_DEFAULT_TIMESTAMP]
    delta = state[STATE_NEXT_DELTA]
    start, position = max(start, 0), max(position, 0)
    needed = 0
    row = start
    while row < stop:
        if has_timestamps:
            timestamp = times[row]
        if rows == 0:
            base = timestamp
            latest = timestamp
        key_length = key_sizes[row] if has_keys else -1
        value_length = value_sizes[row]
        if not _is_inside(values[row], value_length, end) or (has_keys and not _is_inside(keys[row], key_length, end)):
            needed = -1
            break
        size = _body_size(_as_long(timestamp - base), delta, key_length, value_length, 1)
        total = size + _size_of(size)
        if rows > 0 and limit < _estimate(position - origin, factor) + total:
            break
        if total > room - position:
            needed = position + total
            break
        position = _write_varint(slots, position, size)
        slots[position] = 0
        position = _write_varint(slots, position + 1, _as_long(timestamp - base))
        position = _write_varint(slots, position, delta)
        position = _write_cell(slots, position, source, keys[row], key_length)
        position = _write_cell(slots, position, source, values[row], value_length)
        slots[position] = 0
        position += 1
        latest = max(latest, timestamp)
        rows += 1
        delta += 1
        row += 1
    state[STATE_NEXT_DELTA] = delta
    state[STATE_POSITION], state[STATE_ROWS], state[STATE_BASE_TIMESTAMP], state[STATE_MAX_TIMESTAMP] = (
        position,
        rows,
        base,
        latest,
    )
    state[STATE_NEEDED] = needed
    return row - start


def _estimate(size: int, factor: float) -> int:
    """Estimate the compressed size of `size` bytes of records (MemoryRecordsBuilder.estimatedBytesWritten)."""
    if factor == 1.0:
        return size
    return int(size * factor)
