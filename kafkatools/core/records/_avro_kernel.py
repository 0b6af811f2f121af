# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: cdivision=True, annotation_typing=False, infer_types=False
"""Write Avro values as JSON text, by a program that describes the schema.

The rules of `_kernel.py` hold here too. A program is an array of integers: each type is an operation followed by its
operands, and refers to other types by their index in the array, so that a record may contain itself. Field names and
enum symbols are JSON text already, in one byte string; an operand pair is where such a text begins and its length.

JSON text: decimals are numbers with all digits; dates, times and timestamps are ISO 8601 (UTC), and plain numbers
outside of the years 1 to 9999; bytes are a string if they are UTF-8, else {"b64": base64}; NaN and infinities are
strings; a union is its value. A value that is not valid returns BAD, one that needs a longer output FULL.
"""

from __future__ import annotations

import struct
from array import array
from typing import Any

try:
    import cython
except ImportError:
    from kafkatools.core import uncompiled as cython

if not cython.compiled:
    # What the .pxd brings from `_kernel` and from C. A compiled `_kernel` lacks these as Python functions, and this
    # kernel has to run as plain Python beside it.
    def _same(value: Any) -> Any:
        """Return what a pointer stands for when compiled."""
        return value

    def _in_c(*arguments: object) -> int:
        """Placeholder for a C function that only compiled code calls."""
        raise NotImplementedError

    def _as_unsigned_long(value: int) -> int:
        return value & 0xFFFFFFFFFFFFFFFF

    def _copy(target: Writable, position: int, source: Buffer, start: int, size: int) -> None:
        target[position : position + size] = source[start : start + size]

    def _long_varlong(data: Buffer, position: int, end: int) -> tuple[int, int]:
        raw = shift = 0
        while position < end and shift < 70:
            byte = data[position]
            position += 1
            raw |= (byte & 0x7F) << shift
            if byte < 0x80:
                raw &= 0xFFFFFFFFFFFFFFFF
                return (raw >> 1) ^ -(raw & 1), position
            shift += 7
        return 0, -1

    _items = _slots = _int_items = _long_items = _same
    memcpy = _in_c

Buffer = bytes | bytearray | memoryview
Writable = bytearray | memoryview

# Operations, each with its operands. Functions have the numbers in place of names, for speed.
NULL = 0
BOOLEAN = 1
LONG = 2
FLOAT = 3
DOUBLE = 4
BYTES = 5
STRING = 6
FIXED = 7  # size
ENUM = 8  # count, then (text, length) of each symbol
ARRAY = 9  # type of the items
MAP = 10  # type of the values
UNION = 11  # count, then the type of each branch
RECORD = 12  # count, then (text, length, type) of each field
DATE = 13
TIME = 14  # digits of the fraction: 3 or 6
TIMESTAMP = 15  # digits of the fraction: 3, 6 or 9; 1 for UTC
DECIMAL = 16  # scale
DECIMAL_FIXED = 17  # scale, size
DURATION = 18

# Slots of the state: where the output ends and how long it may get, levels of nesting, the end of the value, the row,
# the row to stop before, and why it stopped.
STATE_OUT = 0
STATE_LIMIT = 1
STATE_DEPTH = 2
STATE_END = 3
STATE_ROW = 4
STATE_STOP = 5
STATE_REASON = 6
STATE_SIZE = 7

ROWS_DONE = 0
ROW_OF_ANOTHER_SCHEMA = 1
ROW_BAD = 2
ROW_FULL = 3

BAD = -1
FULL = -2


def _float_text(value: float) -> bytes:
    """The shortest text that gives the same 32-bit number."""
    for digits in range(6, 9):
        text = f"{value:.{digits}g}"
        if struct.unpack("<f", struct.pack("<f", float(text)))[0] == value:
            return repr(float(text)).encode()
    return repr(float(f"{value:.9g}")).encode()


def _special_text(value: float) -> bytes:
    if value != value:
        return b'"NaN"'
    return b'"Infinity"' if value > 0 else b'"-Infinity"'


def _decimal_text(data: bytes, scale: int) -> bytes:
    number = int.from_bytes(data, "big", signed=True)
    digits = str(abs(number)).rjust(scale + 1, "0")
    sign = "-" if number < 0 else ""
    if scale == 0:
        return b"%d" % number
    point = len(digits) - scale
    return f"{sign}{digits[:point]}.{digits[point:]}".encode()


def _number(source: Buffer, place: int, end: int) -> tuple[int, int]:
    """Read a varint of up to 64 bits; return it and the place after it, -1 if it is truncated or too long."""
    if place >= end:
        return 0, -1
    byte = source[place]
    if byte < 0x80:
        return (byte >> 1) ^ -(byte & 1), place + 1
    return _long_varlong(source, place, end)


def _put_long(slots: Writable, position: int, value: int) -> int:
    number = _as_unsigned_long(-value if value < 0 else value)
    if value < 0:
        slots[position] = 45
        position += 1
    size = 1
    rest = number
    while rest >= 10:
        rest = rest // 10
        size += 1
    place = position + size
    while place > position:
        place -= 1
        slots[place] = 48 + number % 10
        number = number // 10
    return position + size


def _put_digits(slots: Writable, position: int, value: int, width: int) -> int:
    place = position + width
    while place > position:
        place -= 1
        slots[place] = 48 + value % 10
        value = value // 10
    return position + width


def _put_bytes(slots: Writable, state: array[int], text: bytes) -> int:
    """Append text of Python's; return 0, or FULL."""
    size = len(text)
    if size > state[1] - state[0]:
        return -2
    _copy(slots, state[0], _items(text), 0, size)
    state[0] += size
    return 0


def _hex_digit(value: int) -> int:
    return 48 + value if value < 10 else 87 + value


def _put_string(source: Buffer, start: int, size: int, slots: Writable, state: array[int]) -> int:
    """Append a JSON string; return 0, FULL, or BAD for bytes that are not UTF-8, which leaves the output as it was."""
    if size * 6 + 2 > state[1] - state[0]:
        return -2
    out = state[0]
    stop = start + size
    place = start
    slots[out] = 34
    out += 1
    while place < stop:
        byte = source[place]
        if byte < 0x80:
            place += 1
            if byte >= 32 and byte != 34 and byte != 92 and byte != 127:
                slots[out] = byte
                out += 1
                continue
            slots[out] = 92
            if byte == 34 or byte == 92:
                slots[out + 1] = byte
                out += 2
            elif byte == 10:
                slots[out + 1] = 110
                out += 2
            else:
                slots[out + 1] = 117
                slots[out + 2] = 48
                slots[out + 3] = 48
                slots[out + 4] = _hex_digit(byte >> 4)
                slots[out + 5] = _hex_digit(byte & 15)
                out += 6
            continue
        length = _character_size(source, place, stop)
        if length == 0:
            return -1
        _copy(slots, out, source, place, length)
        out += length
        place += length
    slots[out] = 34
    state[0] = out + 1
    return 0


def _character_size(source: Buffer, place: int, stop: int) -> int:
    """Return the size of a UTF-8 character of several bytes, 0 if it is not valid."""
    byte = source[place]
    if byte < 0xC2 or byte > 0xF4:
        return 0
    size = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
    if size > stop - place:
        return 0
    low, high = 0x80, 0xBF
    if byte == 0xE0:
        low = 0xA0
    elif byte == 0xED:
        high = 0x9F
    elif byte == 0xF0:
        low = 0x90
    elif byte == 0xF4:
        high = 0x8F
    if source[place + 1] < low or source[place + 1] > high:
        return 0
    if size > 2 and (source[place + 2] & 0xC0) != 0x80:
        return 0
    if size > 3 and (source[place + 3] & 0xC0) != 0x80:
        return 0
    return size


def _base64_digit(value: int) -> int:
    if value < 26:
        return 65 + value
    if value < 52:
        return 71 + value
    if value < 62:
        return value - 4
    return 43 if value == 62 else 47


def _put_binary(source: Buffer, start: int, size: int, slots: Writable, state: array[int]) -> int:
    """Append bytes as a string or as {"b64": base64}; return 0 or FULL."""
    done = _put_string(source, start, size, slots, state)
    if done != -1:
        return done
    if (size + 2) // 3 * 4 + 12 > state[1] - state[0]:
        return -2
    _put_bytes(slots, state, b'{"b64":"')
    out = state[0]
    place = start
    stop = start + size
    while place < stop:
        left = stop - place
        bits = source[place] << 16
        if left > 1:
            bits |= source[place + 1] << 8
        if left > 2:
            bits |= source[place + 2]
        slots[out] = _base64_digit(bits >> 18)
        slots[out + 1] = _base64_digit((bits >> 12) & 63)
        slots[out + 2] = _base64_digit((bits >> 6) & 63) if left > 1 else 61
        slots[out + 3] = _base64_digit(bits & 63) if left > 2 else 61
        out += 4
        place += 3
    state[0] = out
    return _put_bytes(slots, state, b'"}')


def _put_date(slots: Writable, position: int, days: int) -> int:
    """Write a date of the years 1 to 9999 as YYYY-MM-DD (Howard Hinnant's civil_from_days)."""
    shifted = days + 719468
    era = shifted // 146097
    day_of_era = shifted - era * 146097
    year_of_era = (day_of_era - day_of_era // 1460 + day_of_era // 36524 - day_of_era // 146096) // 365
    day_of_year = day_of_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    shifted_month = (5 * day_of_year + 2) // 153
    month = shifted_month + 3 if shifted_month < 10 else shifted_month - 9
    year = year_of_era + era * 400 + (1 if month <= 2 else 0)
    position = _put_digits(slots, position, year, 4)
    slots[position] = 45
    position = _put_digits(slots, position + 1, month, 2)
    slots[position] = 45
    return _put_digits(slots, position + 1, day_of_year - (153 * shifted_month + 2) // 5 + 1, 2)


def _put_time(slots: Writable, position: int, seconds: int, fraction: int, digits: int) -> int:
    """Write the time of a day as HH:MM:SS.fraction."""
    position = _put_digits(slots, position, seconds // 3600, 2)
    slots[position] = 58
    position = _put_digits(slots, position + 1, seconds // 60 % 60, 2)
    slots[position] = 58
    position = _put_digits(slots, position + 1, seconds % 60, 2)
    slots[position] = 46
    return _put_digits(slots, position + 1, fraction, digits)


def _put_moment(slots: Writable, out: int, value: int, digits: int, kind: int) -> int:
    """Write a date (kind 0), time of day (1), local timestamp (2) or timestamp in UTC (3); outside of its range the
    number. Return the end of the output, which has room for 40 bytes."""
    unit = 1000000000 if digits == 9 else 1000000 if digits == 6 else 1000 if digits == 3 else 1
    seconds = value // unit
    fraction = value - seconds * unit
    if fraction < 0:
        seconds -= 1
        fraction += unit
    if kind == 1:
        if seconds < 0 or seconds >= 86400:
            return _put_long(slots, out, value)
        slots[out] = 34
        out = _put_time(slots, out + 1, seconds, fraction, digits)
        slots[out] = 34
        return out + 1
    days = value
    if kind > 1:
        days = seconds // 86400
        seconds -= days * 86400
        if seconds < 0:
            days -= 1
            seconds += 86400
    if days < -719162 or days > 2932896:
        return _put_long(slots, out, value)
    slots[out] = 34
    out = _put_date(slots, out + 1, days)
    if kind > 1:
        slots[out] = 84
        out = _put_time(slots, out + 1, seconds, fraction, digits)
        if kind == 3:
            slots[out] = 90
            out += 1
    slots[out] = 34
    return out + 1


def _put_decimal(source: Buffer, start: int, size: int, scale: int, slots: Writable, state: array[int]) -> int:
    """Append a big-endian number in two's complement as a decimal; return 0, FULL, or BAD for more than 1024 bytes:
    Python neither writes nor reads numbers of more than 4300 digits."""
    if size > 1024:
        return -1
    if size > 8 or scale > 18 or size == 0:
        return _put_bytes(slots, state, _decimal_text(bytes(source[start : start + size]), scale))
    if state[1] - state[0] < 24:
        return -2
    value = source[start]
    if value > 127:
        value -= 256
    place = start + 1
    while place < start + size:
        value = (value << 8) | source[place]
        place += 1
    out = state[0]
    if scale == 0:
        state[0] = _put_long(slots, out, value)
        return 0
    number = _as_unsigned_long(-value if value < 0 else value)
    if value < 0:
        slots[out] = 45
        out += 1
    unit = _as_unsigned_long(1)
    place = 0
    while place < scale:
        unit = unit * 10
        place += 1
    whole = number // unit
    out = _put_long(slots, out, whole)
    slots[out] = 46
    number = number - whole * unit
    place = out + 1 + scale
    while place > out + 1:
        place -= 1
        slots[place] = 48 + number % 10
        number = number // 10
    state[0] = out + 1 + scale
    return 0


def _put_fraction(source: Buffer, place: int, is_double: bool, slots: Writable, state: array[int]) -> int:
    """Append a float or double; return 0 or FULL."""
    if cython.compiled:
        value = 0.0
        single = 0.0
        if is_double:
            memcpy(cython.address(value), source + place, 8)  # type: ignore[operator]
        else:
            memcpy(cython.address(single), source + place, 4)  # type: ignore[operator]
            value = single
    elif is_double:
        value = struct.unpack_from("<d", source, place)[0]
    else:
        value = struct.unpack_from("<f", source, place)[0]
    if value - value != 0:  # NaN or infinite
        return _put_bytes(slots, state, _special_text(value))
    if is_double:
        return _put_bytes(slots, state, repr(value).encode())
    return _put_bytes(slots, state, _float_text(value))


def _put_duration(source: Buffer, place: int, slots: Writable, state: array[int]) -> int:
    parts = struct.unpack("<III", bytes(source[place : place + 12]))
    return _put_bytes(slots, state, b'{"months":%d,"days":%d,"millis":%d}' % parts)


def _value(  # noqa: C901 - the frequent types, without a further call
    source: Buffer, place: int, code: array[int], at: int, texts: Buffer, slots: Writable, state: array[int]
) -> int:
    """Append the JSON of the value at `place`, of the type at `code[at]`; return the place after the value, BAD or
    FULL."""
    if state[1] - state[0] < 48:
        return -2
    end = state[3]
    if code[at] == 11:
        index, place = _number(source, place, end)
        if place < 0 or index < 0 or index >= code[at + 1]:
            return -1
        at = code[at + 2 + index]
    op = code[at]
    if op == 6 or op == 5:
        size, place = _number(source, place, end)
        if place < 0 or size < 0 or size > end - place:
            return -1
        if op == 6:
            done = _put_string(source, place, size, slots, state)
        else:
            done = _put_binary(source, place, size, slots, state)
        return place + size if done == 0 else done
    if op == 2:
        size, place = _number(source, place, end)
        if place >= 0:
            state[0] = _put_long(slots, state[0], size)
        return place
    if op == 12:
        return _record(source, place, code, at, texts, slots, state)
    if op == 9 or op == 10:
        return _items_of(source, place, code, at, texts, slots, state)
    if op <= 1 or op == 8:
        return _word(source, place, code, at, texts, slots, state)
    return _logical(source, place, code, at, slots, state)


def _word(
    source: Buffer, place: int, code: array[int], at: int, texts: Buffer, slots: Writable, state: array[int]
) -> int:
    """Like `_value`, for null, Booleans and enums."""
    end = state[3]
    if code[at] == 0:
        _put_bytes(slots, state, b"null")
        return place
    if code[at] == 1:
        if place >= end or source[place] > 1:
            return -1
        _put_bytes(slots, state, b"true" if source[place] else b"false")
        return place + 1
    index, place = _number(source, place, end)
    if place < 0 or index < 0 or index >= code[at + 1]:
        return -1
    return place if _text(code, at + 2 + 2 * index, texts, slots, state) == 0 else -2


def _text(code: array[int], at: int, texts: Buffer, slots: Writable, state: array[int]) -> int:
    """Append one of the program's texts; return 0 or FULL."""
    size = code[at + 1]
    if size > state[1] - state[0]:
        return -2
    _copy(slots, state[0], texts, code[at], size)
    state[0] += size
    return 0


def _logical(source: Buffer, place: int, code: array[int], at: int, slots: Writable, state: array[int]) -> int:
    """Like `_value`, for the less frequent types."""
    op = code[at]
    end = state[3]
    if op >= 13 and op <= 15:
        size, place = _number(source, place, end)
        if place < 0:
            return -1
        kind = 0 if op == 13 else 1 if op == 14 else 2 + code[at + 2]
        state[0] = _put_moment(slots, state[0], size, 0 if op == 13 else code[at + 1], kind)
        return place
    if op == 16:
        size, place = _number(source, place, end)
    else:
        size = 4 if op == 3 else 8 if op == 4 else code[at + 1] if op == 7 else code[at + 2] if op == 17 else 12
    if place < 0 or size < 0 or size > end - place:
        return -1
    if op == 3 or op == 4:
        done = _put_fraction(source, place, op == 4, slots, state)
    elif op == 7:
        done = _put_binary(source, place, size, slots, state)
    elif op == 18:
        done = _put_duration(source, place, slots, state)
    else:
        done = _put_decimal(source, place, size, code[at + 1], slots, state)
    return place + size if done == 0 else done


def _record(
    source: Buffer, place: int, code: array[int], at: int, texts: Buffer, slots: Writable, state: array[int]
) -> int:
    if state[2] >= 200:
        return -1
    state[2] += 1
    count = code[at + 1]
    if count == 0:
        slots[state[0]] = 123
        state[0] += 1
    at += 2
    while count > 0:
        if _text(code, at, texts, slots, state) != 0:
            return -2
        place = _value(source, place, code, code[at + 2], texts, slots, state)
        if place < 0:
            return place
        at += 3
        count -= 1
    if state[0] >= state[1]:
        return -2
    slots[state[0]] = 125
    state[0] += 1
    state[2] -= 1
    return place


def _items_of(  # noqa: C901 - every write is guarded by a comparison
    source: Buffer, place: int, code: array[int], at: int, texts: Buffer, slots: Writable, state: array[int]
) -> int:
    """Append an array or a map, which come in blocks. Items may take no bytes, so a count may be somewhat higher than
    the bytes that are left."""
    if state[2] >= 200:
        return -1
    state[2] += 1
    is_map = code[at] == 10
    first = state[0] + 1
    slots[state[0]] = 123 if is_map else 91
    state[0] = first
    while True:
        count, place = _block(source, place, state[3])
        if place < 0:
            return -1
        if count == 0:
            break
        while count > 0:
            if state[1] - state[0] < 8:
                return -2
            if state[0] > first:
                slots[state[0]] = 44
                state[0] += 1
            if is_map:
                place = _name(source, place, slots, state)
            if place >= 0:
                place = _value(source, place, code, code[at + 1], texts, slots, state)
            if place < 0:
                return place
            count -= 1
    if state[0] >= state[1]:
        return -2
    slots[state[0]] = 125 if is_map else 93
    state[0] += 1
    state[2] -= 1
    return place


def _block(source: Buffer, place: int, end: int) -> tuple[int, int]:
    """Read the number of items in a block, 0 at the end; return it and the place after it, -1 for an impossible one. A
    negative number precedes the size of the block in bytes."""
    count, place = _number(source, place, end)
    if place >= 0 and count < 0:
        count = -count
        size, place = _number(source, place, end)
        if size < 0:
            return 0, -1
    if place < 0 or count < 0 or count > end - place + 1024:
        return 0, -1
    return count, place


def _name(source: Buffer, place: int, slots: Writable, state: array[int]) -> int:
    """Append the key of a map's entry; return the place after it, BAD or FULL."""
    end = state[3]
    size, place = _number(source, place, end)
    if place < 0 or size < 0 or size > end - place:
        return -1
    done = _put_string(source, place, size, slots, state)
    if done != 0:
        return done
    if state[0] >= state[1]:
        return -2
    slots[state[0]] = 58
    state[0] += 1
    return place + size


def write_rows(
    data: Buffer,
    cells: tuple[array[int], array[int]],
    program: tuple[array[int], bytes],
    schema_id: int,
    out: bytearray,
    texts: tuple[array[int], array[int]],
    state_array: array[int],
) -> int:
    """Write the cells of rows state[STATE_ROW] to before state[STATE_STOP] as JSON at out[state[STATE_OUT]:], and the
    position and length of each into `texts`. A cell is byte 0, the schema's ID in four bytes and the value; null stays
    null. Return the row at which it stopped; state[STATE_REASON] says why, and that row has written nothing."""
    source, end = _items(data), len(data)
    positions, lengths = _int_items(cells[0]), _int_items(cells[1])
    new_positions, new_lengths = _int_items(texts[0]), _int_items(texts[1])
    code, names = _int_items(program[0]), _items(program[1])
    state = _long_items(state_array)
    slots = _slots(out)
    state[1] = len(out)
    row: int = state[4]
    stop = min(state[5], len(cells[0]), len(cells[1]), len(texts[0]), len(texts[1]))
    state[6] = 0
    while row < stop:
        place, length = positions[row], lengths[row]
        start = state[0]
        if length < 0:
            new_positions[row] = start
            new_lengths[row] = -1
            row += 1
            continue
        if place < 0 or length < 5 or length > end - place or source[place] != 0:
            state[6] = 1
            break
        number = (source[place + 1] << 24) | (source[place + 2] << 16) | (source[place + 3] << 8) | source[place + 4]
        if number != schema_id:
            state[6] = 1
            break
        state[2] = 0
        state[3] = place + length
        after = _value(source, place + 5, code, 0, names, slots, state)
        if after != place + length:
            state[0] = start
            state[6] = 3 if after == -2 else 2
            break
        new_positions[row] = start
        new_lengths[row] = state[0] - start
        row += 1
    state[4] = row
    return row
