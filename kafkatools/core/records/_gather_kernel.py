# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: cdivision=True, annotation_typing=False, infer_types=False
"""Gather the records of many batches into the columns of a table: first their positions, then their bytes by column.

The rules of `_kernel.py` hold here too. There are two steps. `decode_batches` walks over the records of a run of
batches (rows of a scan_batches table) and writes PLACE_WIDTH integers per record. `gather_cells` copies the keys or
values one after the other, and writes their offsets and a validity bitmap (Arrow's columnar format). `list_headers`
does the first step for record headers.

Functions that run without the interpreter's lock have numbers in place of names: 8 is PLACE_WIDTH, and also the bit of
LogAppendTime. 6 bytes is the smallest body of a record. This file has its own functions to read varints, because those
of `_kernel.py` would be calls through a pointer, seven per record.
"""

from __future__ import annotations

from array import array

try:
    import cython
except ImportError:
    from kafkatools.core import uncompiled as cython

if not cython.compiled:
    from kafkatools.core.records._kernel import (
        _copy,
        _int_items,
        _items,
        _long_items,
        _long_varint,
        _long_varlong,
        _skip_headers,
        _slots,
    )

Buffer = bytes | bytearray | memoryview

# A row of places: offset, timestamp, where the key begins and its length (-1: null), the same of the value, where the
# headers begin and their number.
PLACE_WIDTH = 8
PLACE_OFFSET = 0
PLACE_TIMESTAMP = 1
PLACE_KEY = 2
PLACE_VALUE = 4
PLACE_HEADERS = 6

# Slots of the state of decode_batches: the row of the next batch, how many of its records are done, where the next one
# begins, and why the last call stopped.
RUN_ROW = 0
RUN_RECORD = 1
RUN_POSITION = 2
RUN_REASON = 3
RUN_SIZE = 4

# All batches are done; the places are full; a record of the batch at RUN_ROW cannot be read; bytes are left behind its
# last record; its count is negative or it does not lie within the data.
RUN_DONE = 0
RUN_FULL = 1
RUN_DAMAGED = 2
RUN_LEFT_OVER = 3
RUN_IMPOSSIBLE = 4

# Slots of the state of gather_cells and list_headers: the row of places that is next, rows of the column so far, bytes
# (of list_headers: headers) so far, nulls so far.
COLUMN_NEXT = 0
COLUMN_ROWS = 1
COLUMN_BYTES = 2
COLUMN_NULLS = 3
COLUMN_SIZE = 4

BATCH_WIDTH = 14
BATCH_HEADER = 61


def _number(data: Buffer, position: int, end: int) -> tuple[int, int]:
    """Read a varint like `_varint` of `_kernel`. A function of another module cannot be inlined, and these loops would
    take a third longer."""
    if position < 0 or position >= end:
        return 0, -1
    byte = data[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    if position + 1 < end and data[position + 1] < 0x80:
        byte = (byte & 0x7F) | (data[position + 1] << 7)
        return (byte >> 1) ^ -(byte & 1), position + 2
    return _long_varint(data, position, end)


def _wide_number(data: Buffer, position: int, end: int) -> tuple[int, int]:
    """Read a varlong like `_varlong` of `_kernel`, inlined here for speed."""
    if position < 0 or position >= end:
        return 0, -1
    byte = data[position]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), position + 1
    return _long_varlong(data, position, end)


def _after(position: int, size: int, end: int) -> int:
    """Skip bytes like `_skip` of `_kernel`, inlined here for speed."""
    if position < 0 or size > end - position:
        return -1
    if size > 0:
        return position + size
    return position


def _wrapped(value: int) -> int:
    """Return the low 64 bits as a signed integer like `_as_long` of `_kernel`, inlined here for speed."""
    if cython.compiled:
        return value
    value &= 0xFFFFFFFFFFFFFFFF
    return value - (1 << 64) if value >> 63 else value


def _decode_batch(
    data: Buffer, after: int, end: int, batches: array[int], batch: int, places: array[int], row: int, stop: int
) -> tuple[int, int]:
    """Write the positions of a batch's records to the rows before `stop` (DefaultRecord.readFrom). Return the next row,
    and the position of the first record that was not read."""
    base_offset = batches[batch + 1]
    base_timestamp = batches[batch + 8]
    append_time = batches[batch + 9]
    has_append_time = (batches[batch + 6] & 8) != 0
    slot = row * 8
    while row < stop:
        size, position = _number(data, after, end)
        if position < 0 or size < 6 or size > end - position:
            break
        limit = position + size
        timestamp, position = _wide_number(data, position + 1, limit)
        delta, position = _number(data, position, limit)
        places[slot] = _wrapped(base_offset + delta)
        places[slot + 1] = append_time if has_append_time else _wrapped(base_timestamp + timestamp)
        size, position = _number(data, position, limit)
        places[slot + 2] = position
        places[slot + 3] = size
        position = _after(position, size, limit)
        size, position = _number(data, position, limit)
        places[slot + 4] = position
        places[slot + 5] = size
        position = _after(position, size, limit)
        size, position = _number(data, position, limit)
        places[slot + 6] = position
        places[slot + 7] = size
        if size != 0:
            position = _skip_headers(data, position, size, limit)
        if position != limit:
            break
        after = limit
        slot += 8
        row += 1
    return row, after


def decode_batches(
    data: Buffer, batches: array[int], stop: int, places: array[int], counts: array[int], run: array[int]
) -> int:
    """Write the positions of the records in the batches run[RUN_ROW] to before `stop`, one row of `places` per record.
    Return the number of rows written; run[RUN_REASON] says why it stopped.

    `batches` is a table of `scan_batches` over the same data, with uncompressed batches of magic 2 only. For a
    compressed batch the caller decompresses the records, and sets the table's position to that of the records minus the
    header size. counts[row of the batch] is the number of its records in this call. A call that stops because `places`
    is full is continued by another one with the same `run`, which begins with zeros.
    """
    source, end = _items(data), len(data)
    headers, rows, record_counts = _long_items(batches), _long_items(places), _int_items(counts)
    stop = min(stop, len(batches) // BATCH_WIDTH, len(counts))
    room, width, header = len(places) // PLACE_WIDTH, BATCH_WIDTH, BATCH_HEADER
    state = _long_items(run)
    batch, record, after = max(run[RUN_ROW], 0), max(run[RUN_RECORD], 0), run[RUN_POSITION]
    row = 0
    reason = RUN_DONE
    while batch < stop:
        slot = batch * width
        first = headers[slot] + header
        last = headers[slot] + headers[slot + 2]
        count = headers[slot + 13]
        if count < 0 or first < 0 or first > last or last > end:
            reason = RUN_IMPOSSIBLE
            break
        if record == 0:
            after = first
        remaining = count - record
        reached, after = _decode_batch(source, after, last, headers, slot, rows, row, min(room, row + remaining))
        record_counts[batch] = reached - row
        record += reached - row
        row = reached
        if record < count:
            reason = RUN_FULL if row == room else RUN_DAMAGED
            break
        if after != last:
            reason = RUN_LEFT_OVER
            break
        record = 0
        batch += 1
    state[0], state[1], state[2], state[3] = batch, record, after, reason
    return row


def gather_cells(
    data: Buffer,
    places: array[int],
    column: int,
    stop: int,
    offsets: array[int],
    target: bytearray,
    validity: bytearray,
    state: array[int],
) -> int:
    """Append the cells of the rows state[COLUMN_NEXT] to before `stop` to a column of variable length. Return the next
    row. `column` is PLACE_KEY or PLACE_VALUE. `offsets` has one item more than there are rows, the first is 0. A bit of
    `validity`, all ones before, is cleared for a null. Stops early when `offsets`, `target` or `validity` is full, or
    at a cell outside the data."""
    source, end = _items(data), len(data)
    cells, ends = _long_items(places), _int_items(offsets)
    out, bits = _slots(target), _slots(validity)
    numbers = _long_items(state)
    stop = min(stop, len(places) // PLACE_WIDTH)
    row, rows, size, nulls = max(numbers[0], 0), max(numbers[1], 0), max(numbers[2], 0), numbers[3]
    stop = min(stop, row + len(offsets) - 1 - rows, row + 8 * len(validity) - rows)
    room = min(len(target), 0x7FFFFFFF)
    width = PLACE_WIDTH
    slot = row * width + min(max(column, 0), PLACE_HEADERS)
    while row < stop:
        length = cells[slot + 1]
        if length > 0:
            start = cells[slot]
            if length > room - size or start < 0 or start > end or length > end - start:
                break
            _copy(out, size, source, start, length)
            size += length
        elif length < 0:
            bits[rows >> 3] &= ~(1 << (rows & 7))
            nulls += 1
        rows += 1
        ends[rows] = size
        slot += width
        row += 1
    numbers[0], numbers[1], numbers[2], numbers[3] = row, rows, size, nulls
    return int(row)


def _list_record(data: Buffer, position: int, count: int, end: int, places: array[int], row: int) -> bool:
    """Write the positions of one record's headers. Return False if they cannot be read."""
    slot = row * 8
    while count > 0:
        size, position = _number(data, position, end)
        places[slot + 2] = position
        places[slot + 3] = max(size, 0)
        position = _after(position, size, end)
        size, position = _number(data, position, end)
        places[slot + 4] = position
        places[slot + 5] = size
        position = _after(position, size, end)
        if position < 0:
            return False
        slot += 8
        count -= 1
    return True


def list_headers(
    data: Buffer,
    places: array[int],
    stop: int,
    ends: array[int],
    validity: bytearray,
    headers: array[int],
    state: array[int],
) -> int:
    """Write the positions of the record headers of the rows state[COLUMN_NEXT] to before `stop` to `headers`. Return
    how many headers. Names are in the columns of PLACE_KEY, values in those of PLACE_VALUE.

    `ends` has one item more than there are rows: the number of headers up to a row, with those of earlier calls. A
    record without headers is a null. Stops early when an array is full or a record's headers cannot be read.
    """
    source, end = _items(data), len(data)
    cells, sums, header_places = _long_items(places), _int_items(ends), _long_items(headers)
    bits = _slots(validity)
    numbers = _long_items(state)
    stop = min(stop, len(places) // PLACE_WIDTH)
    row, rows, total, nulls = max(numbers[0], 0), max(numbers[1], 0), max(numbers[2], 0), numbers[3]
    stop = min(stop, row + len(ends) - 1 - rows, row + 8 * len(validity) - rows)
    room = len(headers) // PLACE_WIDTH
    header_count = 0
    width = PLACE_WIDTH
    slot = row * width + PLACE_HEADERS
    while row < stop:
        count = cells[slot + 1]
        if count > 0:
            if count > room - header_count or not _list_record(
                source, cells[slot], count, end, header_places, header_count
            ):
                break
            header_count += count
            total += count
        else:
            bits[rows >> 3] &= ~(1 << (rows & 7))
            nulls += 1
        rows += 1
        sums[rows] = total
        slot += width
        row += 1
    numbers[0], numbers[1], numbers[2], numbers[3] = row, rows, total, nulls
    return header_count
