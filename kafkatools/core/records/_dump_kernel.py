# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: cdivision=True, annotation_typing=False, infer_types=False
"""Format the lines of dump-log for whole batches, from a table of scan_batches or the columns of decode_records.

The rules of `_kernel.py` hold here too: ordinary Python that also compiles, no exception for bad data, and every write
inside a size that was compared with the target's length. What these loops cannot show is refused with -1: damage, more
gaps than there is room for, names or values that are not UTF-8. The caller then formats that batch in Python.
"""

from __future__ import annotations

from array import array

try:
    import cython
except ImportError:
    from kafkatools.core import uncompiled as cython

if not cython.compiled:
    from kafkatools.core.records._kernel import _as_long, _in_c, _int_items, _long_items, _varint

    # what the .pxd brings from C; only compiled branches use it
    memcpy = strlen = _in_c

Buffer = bytes | bytearray | memoryview
Writable = bytearray | memoryview

COMPILED: bool = cython.compiled

# The columns of scan_batches' table.
WIDTH = 14
POSITION, BASE_OFFSET, SIZE, MAGIC, LEADER_EPOCH, CRC, ATTRIBUTES, LAST_DELTA = 0, 1, 2, 3, 4, 5, 6, 7
BASE_TIMESTAMP, MAX_TIMESTAMP, PRODUCER_ID, PRODUCER_EPOCH, BASE_SEQUENCE, COUNT = 8, 9, 10, 11, 12, 13

# The slots of first_irregular's state.
STATE_NEXT_OFFSET = 0
STATE_EPOCH = 1

# Slots of the numbers of format_records: its input, then the last offset and the number of gaps, which it updates.
NUMBER_ROWS = 0
NUMBER_BASE_SEQUENCE = 1
NUMBER_APPEND_TIME = 2
NUMBER_HAS_APPEND_TIME = 3
NUMBER_SHOWS_METADATA = 4
NUMBER_SHOWS_CONTENTS = 5
NUMBER_LAST_OFFSET = 6
NUMBER_GAPS = 7
NUMBERS_SIZE = 8

# More than the labels and numbers of one line take.
BATCH_LINE_BYTES = 640
RECORD_LINE_BYTES = 320


def _target(data: bytearray) -> Writable:
    if cython.compiled:
        return cython.address(data[0])  # type: ignore[no-any-return]
    return data


def _source(data: Buffer) -> Buffer:
    if cython.compiled:
        return cython.address(data[0])  # type: ignore[no-any-return]
    return data


def _text(target: Writable, position: int, literal: bytes) -> int:
    """Copy a literal to the target. Return the position after it."""
    if cython.compiled:
        size: int = strlen(literal)
        memcpy(target + position, literal, size)  # type: ignore[operator]
    else:
        size = len(literal)
        target[position : position + size] = literal
    return position + size


def _bytes(target: Writable, position: int, source: Buffer, start: int, size: int) -> int:
    if cython.compiled:
        memcpy(target + position, source + start, size)  # type: ignore[operator]
    else:
        target[position : position + size] = source[start : start + size]
    return position + size


def _number(target: Writable, position: int, value: int) -> int:
    """Write a 64-bit integer in decimal. Return the position after it."""
    if not cython.compiled:
        digits = str(value).encode()
        target[position : position + len(digits)] = digits
        return position + len(digits)
    rest = value
    if value < 0:
        target[position] = 45
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
        target[at] = 48 + rest % 10
        rest = rest // 10
    return position + size


def _sequence(base: int, increment: int) -> int:
    """Add to a sequence number, as DefaultRecordBatch.incrementSequence; -1 without sequences."""
    if base < 0:
        return -1
    if base > 2147483647 - increment:
        return increment - (2147483647 - base) - 1
    return base + increment


def _is_utf8(data: Buffer, start: int, size: int) -> bool:
    """Return whether bytes are UTF-8 for both Java and Python."""
    if not cython.compiled:
        try:
            bytes(data[start : start + size]).decode()
        except UnicodeDecodeError:
            return False
        return True
    stop = start + size
    at = start
    all_bits = 0
    while at < stop:
        all_bits |= data[at]
        at += 1
    if all_bits < 0x80:
        return True
    return _has_only_sequences(data, start, stop)


def _has_only_sequences(data: Buffer, at: int, stop: int) -> bool:
    while at < stop:
        lead = data[at]
        at += 1
        if lead < 0x80:
            continue
        low, high, more = 0x80, 0xBF, 1
        if lead < 0xC2 or lead > 0xF4:
            return False
        if lead >= 0xF0:
            more = 3
            low = 0x90 if lead == 0xF0 else 0x80
            high = 0x8F if lead == 0xF4 else 0xBF
        elif lead >= 0xE0:
            more = 2
            low = 0xA0 if lead == 0xE0 else 0x80
            high = 0x9F if lead == 0xED else 0xBF
        if more > stop - at or data[at] < low or data[at] > high:
            return False
        at += 1
        more -= 1
        while more > 0:
            if data[at] & 0xC0 != 0x80:
                return False
            at += 1
            more -= 1
    return True


# -- batches --


def first_irregular(table: array[int], first: int, stop: int, valid: bytearray, state: array[int]) -> int:
    """Return the first table row that needs more than a batch line, `stop` when none does. Such a row is damaged,
    legacy, of an unknown codec, or has its offset or epoch out of order. `valid` has a byte per row, 1 where the
    checksum is right. `state` holds the next offset and the leader epoch, and is moved to the returned row."""
    items = _long_items(table)
    flags = _source(valid)
    bounds = _long_items(state)
    width = WIDTH
    stop = min(stop, len(table) // width, len(valid))
    row = max(first, 0)
    while row < stop:
        slot = row * width
        if items[slot + 3] != 2 or items[slot + 2] < 61 or not flags[row] or items[slot + 6] & 7 > 4:
            break
        if items[slot + 1] < bounds[0] or items[slot + 4] < bounds[1] or items[slot + 7] < 0 or items[slot + 12] < -1:
            break
        bounds[0] = _as_long(items[slot + 1] + items[slot + 7] + 1)
        bounds[1] = items[slot + 4]
        row += 1
    return row


def format_batches(target: bytearray, table: array[int], first: int, stop: int, file_position: int) -> int:
    """Write the lines of valid version 2 batches. Return the number of bytes written, -1 when the target may be too
    short. `file_position` is added to the positions in the table."""
    items = _long_items(table)
    width, room = WIDTH, BATCH_LINE_BYTES
    stop = min(stop, len(table) // width)
    if first < 0 or stop <= first:
        return 0
    if (stop - first) * room > len(target):
        return -1
    out = _target(target)
    position = 0
    row = first
    while row < stop:
        slot = row * width
        position = _batch_start(out, position, items, slot)
        position = _batch_end(out, position, items, slot, file_position)
        row += 1
    return position


def _batch_start(out: Writable, position: int, items: array[int], slot: int) -> int:
    attributes = items[slot + 6]
    position = _number(out, _text(out, position, b"baseOffset: "), items[slot + 1])
    position = _number(out, _text(out, position, b" lastOffset: "), _as_long(items[slot + 1] + items[slot + 7]))
    position = _number(out, _text(out, position, b" count: "), items[slot + 13])
    position = _number(out, _text(out, position, b" baseSequence: "), items[slot + 12])
    position = _number(out, _text(out, position, b" lastSequence: "), _sequence(items[slot + 12], items[slot + 7]))
    position = _number(out, _text(out, position, b" producerId: "), items[slot + 10])
    position = _number(out, _text(out, position, b" producerEpoch: "), items[slot + 11])
    position = _number(out, _text(out, position, b" partitionLeaderEpoch: "), items[slot + 4])
    position = _boolean(out, _text(out, position, b" isTransactional: "), attributes & 0x10)
    position = _boolean(out, _text(out, position, b" isControl: "), attributes & 0x20)
    position = _text(out, position, b" deleteHorizonMs: OptionalLong")
    if attributes & 0x40:
        position = _number(out, _text(out, position, b"["), items[slot + 8])
        return _text(out, position, b"]")
    return _text(out, position, b".empty")


def _batch_end(out: Writable, position: int, items: array[int], slot: int, file_position: int) -> int:
    attributes = items[slot + 6]
    position = _number(out, _text(out, position, b" position: "), items[slot] + file_position)
    position = _timestamp(out, position, items[slot + 9], attributes & 8)
    position = _number(out, _text(out, position, b" size: "), items[slot + 2])
    position = _number(out, _text(out, position, b" magic: "), items[slot + 3])
    position = _codec(out, _text(out, position, b" compresscodec: "), attributes & 7)
    position = _number(out, _text(out, position, b" crc: "), items[slot + 5])
    return _text(out, position, b" isvalid: true\n")


def _timestamp(out: Writable, position: int, timestamp: int, is_append_time: int) -> int:
    if is_append_time:
        return _number(out, _text(out, position, b" LogAppendTime: "), timestamp)
    return _number(out, _text(out, position, b" CreateTime: "), timestamp)


def _boolean(out: Writable, position: int, value: int) -> int:
    if value:
        return _text(out, position, b"true")
    return _text(out, position, b"false")


def _codec(out: Writable, position: int, codec: int) -> int:
    if codec == 0:
        return _text(out, position, b"none")
    if codec == 1:
        return _text(out, position, b"gzip")
    if codec == 2:
        return _text(out, position, b"snappy")
    if codec == 3:
        return _text(out, position, b"lz4")
    return _text(out, position, b"zstd")


# -- records --


def format_records(
    target: bytearray,
    data: Buffer,
    base_offset: int,
    longs: tuple[array[int], array[int]],
    ints: tuple[array[int], array[int], array[int], array[int], array[int], array[int]],
    numbers: array[int],
    gaps: array[int],
) -> int:
    """Write the lines of the records that decode_records read from `data`. Return the number of bytes written. Return
    -1 for text that is not UTF-8, an offset outside its batch's range, too many gaps, or a target that may be too
    short. For each offset that does not follow the previous one, the previous offset and the offset are added to
    `gaps`."""
    keeper = _long_items(numbers)
    rows = keeper[0]
    if not _has_room(rows, (*longs, *ints), len(data), len(target)):
        return -1
    offsets, timestamps = _long_items(longs[0]), _long_items(longs[1])
    key_positions, key_lengths = _int_items(ints[0]), _int_items(ints[1])
    value_positions, value_lengths = _int_items(ints[2]), _int_items(ints[3])
    header_positions, header_counts = _int_items(ints[4]), _int_items(ints[5])
    source = _source(data)
    out = _target(target)
    position = 0
    row = 0
    while row < rows and position >= 0:
        if keeper[4]:
            position = _number(out, _text(out, position, b"| offset: "), offsets[row])
            position = _timestamp(out, position, keeper[2] if keeper[3] else timestamps[row], keeper[3])
            position = _number(out, _text(out, position, b" keySize: "), key_lengths[row])
            position = _number(out, _text(out, position, b" valueSize: "), value_lengths[row])
            position = _text(out, position, b" sequence: ")
            position = _number(out, position, _sequence(keeper[1], offsets[row] - base_offset))
            position = _header_names(out, position, source, header_positions[row], header_counts[row], len(data))
        if keeper[5] and position >= 0:
            position = _key(out, position, source, key_positions[row], key_lengths[row], keeper[4])
            has_prefix = keeper[4] or key_lengths[row] >= 0
            position = _value(out, position, source, value_positions[row], value_lengths[row], has_prefix)
        position = _end_line(out, position)
        row += 1
    _clear(header_counts, rows)
    if position >= 0 and not _note_gaps(offsets, base_offset, keeper, _long_items(gaps), len(gaps) // 2):
        position = -1
    return position


def _has_room(rows: int, columns: tuple[array[int], ...], data_size: int, target_size: int) -> bool:
    """Return whether the columns have the rows, and the target room for labels, numbers and twice the data."""
    shortest = min(len(column) for column in columns)
    return 0 < rows <= shortest and data_size * 2 + rows * RECORD_LINE_BYTES <= target_size


def _end_line(out: Writable, position: int) -> int:
    if position < 0:
        return -1
    out[position] = 10
    return position + 1


def _clear(counts: array[int], rows: int) -> None:
    row = 0
    while row < rows:
        counts[row] = 0
        row += 1


def _note_gaps(offsets: array[int], base_offset: int, keeper: array[int], pairs: array[int], room: int) -> bool:
    """Add the previous offset and the offset to `pairs` where one does not follow the other. `keeper` has the number of
    rows [0] and keeps the last offset [6] and the number of pairs [7] between calls. Return False for more than `room`
    pairs, or for an offset whose delta to the base offset is not 0 to 2147483647."""
    rows = keeper[0]
    last = keeper[6]
    pair_count = keeper[7]
    row = 0
    while row < rows:
        if offsets[row] < base_offset or offsets[row] - base_offset > 2147483647:
            return False
        if offsets[row] != last + 1:
            if pair_count >= room:
                return False
            pairs[2 * pair_count] = last
            pairs[2 * pair_count + 1] = offsets[row]
            pair_count += 1
        last = offsets[row]
        row += 1
    keeper[6] = last
    keeper[7] = pair_count
    return True


def _key(out: Writable, position: int, source: Buffer, start: int, length: int, has_prefix: int) -> int:
    """Write a record's key, if it has one. Return the next position, -1 when the key is not UTF-8."""
    if length < 0:
        return position
    if not _is_utf8(source, start, length):
        return -1
    position = _text(out, position, b" key: ") if has_prefix else _text(out, position, b"| key: ")
    return _bytes(out, position, source, start, length)


def _value(out: Writable, position: int, source: Buffer, start: int, length: int, has_prefix: int) -> int:
    """Write a record's value, if it has one. Return the next position, -1 when the value is not UTF-8."""
    if position < 0 or length < 0:
        return position
    if not _is_utf8(source, start, length):
        return -1
    position = _text(out, position, b" payload: ") if has_prefix else _text(out, position, b"| payload: ")
    return _bytes(out, position, source, start, length)


def _header_names(out: Writable, position: int, source: Buffer, at: int, count: int, end: int) -> int:
    """Write the names of a record's headers, which decode_records has checked. Return the next position, -1 when a name
    is not UTF-8."""
    position = _text(out, position, b" headerKeys: [")
    first = True
    while count > 0:
        size, at = _varint(source, at, end)
        if not _is_utf8(source, at, size):
            return -1
        if not first:
            position = _text(out, position, b",")
        first = False
        position = _bytes(out, position, source, at, size)
        at += size
        size, at = _varint(source, at, end)
        if size > 0:
            at += size
        count -= 1
    return _text(out, position, b"]")
