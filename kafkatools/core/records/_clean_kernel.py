# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: cdivision=True, annotation_typing=False, infer_types=False
"""The loops of the log cleaner: put keys into a map of bounded memory, mark the retained records, copy them.

The rules of `_kernel.py` hold here too. The map uses open addressing over slots of three 64-bit words: the two halves
of the key's hash, and the newest offset plus one (0: free slot). The hash is SipHash-2-4 with 128 bits and a secret per
map, where Kafka's SkimpyOffsetMap uses MD5. It has the same size and is faster. Clients do not know the secret, so they
cannot make two keys with the same hash. The number of slots is prime, so that double hashing reaches all of them.
Compiled, the loops over records run without the interpreter's lock.
"""

from __future__ import annotations

from array import array

try:
    import cython
except ImportError:
    from kafkatools.core import uncompiled as cython

if not cython.compiled:
    from kafkatools.core.records._kernel import (
        _as_long,
        _copy,
        _items,
        _long_items,
        _size_of,
        _skip,
        _skip_headers,
        _slots,
        _varint,
        _varlong,
        _write_varint,
    )

Buffer = bytes | bytearray | memoryview
Writable = bytearray | memoryview

SLOT_WORDS = 3
MINIMUM_BODY = 6

# Slots of the map's state: entries, the most there may be, the first offset that counts, the newest offset seen,
# whether the last call stopped because the map is full, the two words of the secret.
MAP_ENTRIES = 0
MAP_LIMIT = 1
MAP_START = 2
MAP_LATEST = 3
MAP_IS_FULL = 4
MAP_SECRET = 5
MAP_STATE_SIZE = 7

# Slots of the counts of `mark_retained`: retained records, retained records without a value, records without a key,
# timestamps of the first and of the newest retained record, bytes of the retained records. The caller sets the last
# slot: whether tombstones are retained.
KEPT_RECORDS = 0
KEPT_TOMBSTONES = 1
KEYLESS_RECORDS = 2
FIRST_TIMESTAMP = 3
NEWEST_TIMESTAMP = 4
KEPT_BYTES = 5
RETAIN_TOMBSTONES = 6
FOUND_SIZE = 7


# -- SipHash (Aumasson, Bernstein) --


def _wrap(value: int) -> int:
    """Return the low 64 bits of a number."""
    if cython.compiled:
        return value
    return value & 0xFFFFFFFFFFFFFFFF


def _rotate(value: int, bits: int) -> int:
    if cython.compiled:
        return (value << bits) | (value >> (64 - bits))
    return ((value << bits) & 0xFFFFFFFFFFFFFFFF) | (value >> (64 - bits))


def _unsigned(value: int) -> int:
    if cython.compiled:
        return value
    return value & 0xFFFFFFFFFFFFFFFF


def _join(high: int, low: int) -> int:
    return (high << 32) | low


def _word(data: Buffer, position: int, size: int) -> int:
    """Read up to eight bytes as a little-endian number."""
    if not cython.compiled:
        return int.from_bytes(data[position : position + size], "little")
    value = 0
    i = 0
    while i < size:
        byte = data[position + i]
        value |= byte << (8 * i)
        i += 1
    return value


def _round(v0: int, v1: int, v2: int, v3: int) -> tuple[int, int, int, int]:
    v0 = _wrap(v0 + v1)
    v1 = _rotate(v1, 13) ^ v0
    v0 = _rotate(v0, 32)
    v2 = _wrap(v2 + v3)
    v3 = _rotate(v3, 16) ^ v2
    v0 = _wrap(v0 + v3)
    v3 = _rotate(v3, 21) ^ v0
    v2 = _wrap(v2 + v1)
    v1 = _rotate(v1, 17) ^ v2
    v2 = _rotate(v2, 32)
    return v0, v1, v2, v3


def _sip_hash(data: Buffer, start: int, size: int, k0: int, k1: int) -> tuple[int, int]:
    v0 = k0 ^ _join(0x736F6D65, 0x70736575)
    v1 = k1 ^ _join(0x646F7261, 0x6E646F6D) ^ 0xEE
    v2 = k0 ^ _join(0x6C796765, 0x6E657261)
    v3 = k1 ^ _join(0x74656462, 0x79746573)
    position = start
    remaining = size
    while remaining >= 8:
        word = _word(data, position, 8)
        v3 ^= word
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        v0 ^= word
        position += 8
        remaining -= 8
    length = size & 0xFF
    word = _word(data, position, remaining) | (length << 56)
    v3 ^= word
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0 ^= word
    v2 ^= 0xEE
    i = 0
    while i < 4:
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        i += 1
    low = v0 ^ v1 ^ v2 ^ v3
    v1 ^= 0xDD
    i = 0
    while i < 4:
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
        i += 1
    return low, v0 ^ v1 ^ v2 ^ v3


def sip_hash(data: Buffer, start: int, size: int, k0: int, k1: int) -> tuple[int, int]:
    """Return SipHash-2-4 of a part of the data as two 64-bit numbers, (0, 0) if the part lies outside the data."""
    if start < 0 or size < 0 or size > len(data) - start:
        return 0, 0
    if size == 0:  # an empty buffer has no address
        return _sip_hash(_items(b"\0"), 0, 0, k0, k1)
    return _sip_hash(_items(data), start, size, k0, k1)


# -- the map --


def _find(slots: memoryview, count: int, low: int, high: int) -> int:
    """Return the slot that holds a hash, or the free slot for it; -1 when the map has neither."""
    index = low % count
    step = 1 + high % (count - 1)
    tries = 0
    while tries < count:
        slot = index * 3
        if slots[slot + 2] == 0 or (slots[slot] == low and slots[slot + 1] == high):
            return slot
        index += step
        if index >= count:
            index -= count
        tries += 1
    return -1


def _put_key(
    slots: memoryview, count: int, state: array[int], data: Buffer, start: int, size: int, offset: int
) -> bool:
    """Store the offset of a key, in place of an earlier one. Return False when the map is full, even if it has the
    key."""
    if state[0] >= state[1]:
        return False
    low, high = _sip_hash(data, start, size, _unsigned(state[5]), _unsigned(state[6]))
    slot = _find(slots, count, low, high)
    if slot < 0:
        return False
    if slots[slot + 2] == 0:
        slots[slot] = low
        slots[slot + 1] = high
        state[0] += 1
    slots[slot + 2] = _unsigned(offset + 1)
    state[3] = offset
    return True


def _newest_offset(slots: memoryview, count: int, state: array[int], data: Buffer, start: int, size: int) -> int:
    """Return the offset stored for a key, -1 when the key is not in the map."""
    low, high = _sip_hash(data, start, size, _unsigned(state[5]), _unsigned(state[6]))
    slot = _find(slots, count, low, high)
    if slot < 0:
        return -1
    return _as_long(slots[slot + 2] - 1)


def _ends_well(data: Buffer, position: int, stop: int) -> bool:
    """Return whether a record, read from its value's length on, ends where its size says."""
    size, position = _varint(data, position, stop)
    position = _skip(position, size, stop)
    size, position = _varint(data, position, stop)
    if size != 0:
        position = _skip_headers(data, position, size, stop)
    return position == stop


def _put_keys(
    source: Buffer,
    position: int,
    end: int,
    count: int,
    base_offset: int,
    slots: memoryview,
    slot_count: int,
    state: array[int],
) -> int:
    row = 0
    after = position
    while row < count:
        size, position = _varint(source, after, end)
        if position < 0 or size < 6 or size > end - position:
            break
        stop = position + size
        size, position = _varlong(source, position + 1, stop)
        delta, position = _varint(source, position, stop)
        size, position = _varint(source, position, stop)
        if not _ends_well(source, _skip(position, size, stop), stop):
            break
        offset = _as_long(base_offset + delta)
        if size >= 0 and offset >= state[2] and not _put_key(slots, slot_count, state, source, position, size, offset):
            state[4] = 1
            break
        after = stop
        row += 1
    return row


def put_keys(data: Buffer, position: int, count: int, base_offset: int, table: memoryview, state: array[int]) -> int:
    """Put the keys of up to `count` v2 records into the map; later records replace earlier ones. Records without a key
    or below state[MAP_START] are read but not put. Return how many records were read. Fewer than `count` means that the
    map is full (state[MAP_IS_FULL] is 1) or that the next record is damaged."""
    source = _items(data)
    end = len(data)
    numbers = _long_items(state)
    slots = _words(table)
    slot_count = len(table) // 3
    if len(state) < 7 or slot_count < 2 or position < 0:
        return 0
    numbers[4] = 0
    with cython.nogil:
        row = _put_keys(source, position, end, count, base_offset, slots, slot_count, numbers)
    return row


def put_key(key: Buffer, offset: int, table: memoryview, state: array[int]) -> bool:
    """Store the offset of one key, in place of an earlier one. Return False when the map is full, even if it has the
    key."""
    slot_count = len(table) // 3
    numbers = _long_items(state)
    if len(state) < 7 or slot_count < 2:
        return False
    source = _items(key if len(key) else b"\0")
    return _put_key(_words(table), slot_count, numbers, source, 0, len(key), offset)


def newest_offset(key: Buffer, table: memoryview, state: array[int]) -> int:
    """Return the newest offset stored for a key, -1 when the key is not in the map."""
    slot_count = len(table) // 3
    numbers = _long_items(state)
    if len(state) < 7 or slot_count < 2:
        return -1
    source = _items(key if len(key) else b"\0")
    return _newest_offset(_words(table), slot_count, numbers, source, 0, len(key))


def _words(table: memoryview) -> memoryview:
    if cython.compiled:
        return cython.address(table[0])  # type: ignore[no-any-return]
    return table


# -- retained records --


def _mark_retained(  # noqa: PLR0913, C901 - plain numbers, in a loop without the interpreter
    source: Buffer,
    position: int,
    end: int,
    count: int,
    base_offset: int,
    base_timestamp: int,
    slots: memoryview,
    slot_count: int,
    state: array[int],
    flags: Writable,
    counts: array[int],
) -> int:
    row = 0
    after = position
    while row < count:
        size, position = _varint(source, after, end)
        if position < 0 or size < 6 or size > end - position:
            break
        stop = position + size
        timestamp, position = _varlong(source, position + 1, stop)
        delta, position = _varint(source, position, stop)
        key_size, position = _varint(source, position, stop)
        key = position
        position = _skip(position, key_size, stop)
        if not _ends_well(source, position, stop):
            break
        value_size, position = _varint(source, position, stop)
        offset = _as_long(base_offset + delta)
        is_retained = 1
        if offset <= state[3]:
            if key_size < 0:
                counts[2] += 1
                is_retained = 0
            elif value_size >= 0 or counts[6]:
                is_retained = offset >= _newest_offset(slots, slot_count, state, source, key, key_size)
            else:
                is_retained = 0
        flags[row] = is_retained
        if is_retained:
            timestamp = _as_long(base_timestamp + timestamp)
            if counts[0] == 0:
                counts[3] = timestamp
                counts[4] = timestamp
            elif timestamp > counts[4]:
                counts[4] = timestamp
            counts[0] += 1
            counts[5] += stop - after
            if value_size < 0:
                counts[1] += 1
        after = stop
        row += 1
    return row


def mark_retained(  # noqa: PLR0913
    data: Buffer,
    position: int,
    base_offset: int,
    base_timestamp: int,
    table: memoryview,
    state: array[int],
    retained: bytearray,
    counts: array[int],
) -> int:
    """Decide which of `len(retained)` v2 records compaction retains (Cleaner.shouldRetainRecord). retained[row] becomes
    1 or 0, and `counts` receives the totals. The caller sets counts[RETAIN_TOMBSTONES], whether tombstones stay. Return
    how many records were read; fewer than all means that the next one is damaged."""
    count = len(retained)
    if count == 0 or len(counts) < 7 or len(state) < 7 or len(table) < 6 or position < 0:
        return 0
    source = _items(data)
    end = len(data)
    base_state, sums = _long_items(state), _long_items(counts)
    slots, slot_count = _words(table), len(table) // 3
    flags = _slots(retained)
    i = 0
    while i < 6:
        sums[i] = 0
        i += 1
    with cython.nogil:
        row = _mark_retained(
            source, position, end, count, base_offset, base_timestamp, slots, slot_count, base_state, flags, sums
        )
    return row


def _copy_retained(
    source: Buffer, position: int, end: int, count: int, flags: Writable, shift: int, target: Writable, room: int
) -> int:
    row = 0
    after = position
    written = 0
    while row < count:
        size, position = _varint(source, after, end)
        if position < 0 or size < 6 or size > end - position:
            return -1
        stop = position + size
        if flags[row]:
            timestamp, rest = _varlong(source, position + 1, stop)
            if rest < 0:
                return -1
            timestamp = _as_long(timestamp + shift)
            body = 1 + _size_of(timestamp) + stop - rest
            if body + 5 > room - written:
                return -1
            written = _write_varint(target, written, body)
            target[written] = source[position]
            written = _write_varint(target, written + 1, timestamp)
            _copy(target, written, source, rest, stop - rest)
            written += stop - rest
        after = stop
        row += 1
    return written


def copy_retained(data: Buffer, position: int, retained: bytearray, shift: int, target: bytearray | memoryview) -> int:
    """Copy the records with retained[row] = 1 to the target, and add `shift` ms to their timestamp deltas. Return the
    number of bytes written, -1 for a damaged record, a target that is too small, or an empty `retained`."""
    count = len(retained)
    if count == 0 or len(target) == 0 or position < 0:
        return -1
    source, flags, out = _items(data), _slots(retained), _slots(target)
    end, room = len(data), len(target)
    with cython.nogil:
        written = _copy_retained(source, position, end, count, flags, shift, out, room)
    return written
