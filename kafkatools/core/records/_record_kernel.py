# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
# cython: annotation_typing=False, infer_types=False
"""Make the record objects of a poll from columns, and hand them out one by one.

The classes and functions run as Python and, compiled, as C. A record object is a tuple of a subclass of `tuple` with
nine fields, whose names only the caller knows.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence

try:
    import cython
except ImportError:
    from kafkatools.core import uncompiled as cython

if not cython.compiled:
    # What the .pxd brings from `_kernel` and from C.
    def _same(column: array[int]) -> array[int]:
        """Return the column itself; compiled, a pointer to its items."""
        return column

    def _copied(data: Buffer, position: int, length: int) -> bytes:
        """Return a copy of bytes."""
        return bytes(data[position : position + length])

    def _tuple_of(kind: type, *fields: object) -> tuple[object, ...]:
        """Return a record object of the tuple class `kind`."""
        record: tuple[object, ...] = tuple.__new__(kind, fields)
        return record

    _int_items = _long_items = _same
    cell_of, new_record = _copied, _tuple_of

Buffer = bytes | bytearray | memoryview


def make_records(
    data: Buffer,
    longs: tuple[array[int], array[int]],
    places: tuple[array[int], ...],
    headers: Sequence[object] | None,
    rows: tuple[int, int],
    constants: tuple[type, object, object, object, object],
) -> list[tuple[object, ...]]:
    """Return the record objects of the (start, stop) `rows` of columns over `data`.

    `longs`: offsets and timestamps. `places`: positions and lengths of keys, those of values; a negative length is a
    null. `headers`: those of each row from `start` on, None when there are none. `constants`: the class of the objects,
    topic, partition, timestamp type and delivery count. Raises ValueError for a cell outside the data and for rows that
    a column lacks.
    """
    start, stop = rows
    kind, topic, partition, timestamp_type, delivery_count = constants
    offsets, timestamps = longs
    key_positions, key_lengths, value_positions, value_lengths = places
    lengths = map(len, (offsets, timestamps, key_positions, key_lengths, value_positions, value_lengths))
    if start < 0 or stop > min(lengths) or (headers is not None and len(headers) < stop - start):
        raise ValueError(f"rows {start} to {stop} are more than the columns have")
    if not issubclass(kind, tuple):
        raise TypeError(f"{kind} is not a subclass of tuple")
    offset_items, timestamp_items = _long_items(offsets), _long_items(timestamps)
    key_places, key_sizes = _int_items(key_positions), _int_items(key_lengths)
    value_places, value_sizes = _int_items(value_positions), _int_items(value_lengths)
    end = len(data)
    no_headers: tuple[object, ...] = ()
    records: list[tuple[object, ...]] = []
    last_ms = -1
    timestamp: object = -1
    for row in range(start, stop):
        key = value = None
        size = key_sizes[row]
        if size >= 0:
            position = key_places[row]
            if position < 0 or size > end - position:
                raise ValueError(f"the key of row {row} lies outside the buffer of its columns")
            key = cell_of(data, position, size)
        size = value_sizes[row]
        if size >= 0:
            position = value_places[row]
            if position < 0 or size > end - position:
                raise ValueError(f"the value of row {row} lies outside the buffer of its columns")
            value = cell_of(data, position, size)
        if timestamp_items[row] != last_ms:  # rows of one millisecond share the number
            last_ms = timestamp_items[row]
            timestamp = last_ms
        own = no_headers if headers is None else headers[row - start]
        offset: object = offset_items[row]
        records.append(
            new_record(kind, topic, partition, offset, timestamp, timestamp_type, key, value, own, delivery_count)
        )
    return records


class HeldRecords:
    """Records in their order; those before `next_row` were handed out."""

    __slots__ = ("next_row", "records")

    def __init__(self) -> None:
        self.records: Sequence[object] = []
        self.next_row = 0

    def take(self) -> object:
        """Hand out the next record; None when there is none."""
        row = self.next_row
        if row >= len(self.records):
            return None
        self.next_row = row + 1
        return self.records[row]


class HeldIterator:
    """Hands out the records of `held`. Calls `fill` when there are none, which adds some or raises StopIteration."""

    __slots__ = ("held",)

    def __init__(self, held: HeldRecords) -> None:
        self.held = held

    def fill(self) -> None:
        """Add records to `held`; it may add none. Raises StopIteration at the end."""
        raise NotImplementedError

    def __iter__(self) -> Iterator[object]:
        return self

    def __next__(self) -> object:
        held = self.held
        while held.next_row >= len(held.records):
            self.fill()
        row = held.next_row
        held.next_row = row + 1
        return held.records[row]
