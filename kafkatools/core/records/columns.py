"""Records as columns: offsets, timestamps, and positions of keys and values in one buffer, without an object per
record.

A column set never copies the bytes of its records; `key(i)` and `value(i)` return copies. Length -1 is null. Positions
count from the start of `buffer`. A column set owns its arrays; a slice has its own arrays and shares the buffer.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from enum import IntEnum, unique
from itertools import accumulate, repeat
from operator import add
from typing import NamedTuple, cast

from kafkatools.core.records import kernel
from kafkatools.core.records.kernel import read_varint, varint

Buffer = bytes | bytearray | memoryview
Header = tuple[str, bytes | None]
Row = tuple[int, int, bytes | None, bytes | None, tuple[Header, ...]]
"""Offset, timestamp, key, value and headers of a record."""

NO_TIMESTAMP = -1
NO_HEADERS = b"\x00"
_ROWS_AT_ONCE = 1000
_CLOSE_BYTES = 1 << 16


@unique
class TimestampType(IntEnum):
    """The meaning of a record's timestamp: bit 3 of a batch's attributes. Magic 0 has no timestamps."""

    NO_TIMESTAMP_TYPE = -1
    CREATE_TIME = 0
    LOG_APPEND_TIME = 1

    @property
    def label(self) -> str:
        """Kafka's name of the timestamp type, as its tools print it."""
        return ("CreateTime", "LogAppendTime", "NoTimestampType")[self.value]


class Record(NamedTuple):
    """A record. `timestamp` in ms, -1 for none."""

    offset: int
    timestamp: int
    timestamp_type: TimestampType
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


class RecordColumns:
    """The records of one batch or message set entry, as columns over one buffer."""

    __slots__ = (
        "buffer",
        "count",
        "header_counts",
        "header_positions",
        "key_lengths",
        "key_positions",
        "offsets",
        "timestamp_type",
        "timestamps",
        "value_lengths",
        "value_positions",
    )

    def __init__(
        self,
        buffer: Buffer,
        longs: tuple[array[int], array[int]],
        ints: Sequence[array[int]],
        timestamp_type: TimestampType = TimestampType.CREATE_TIME,
    ) -> None:
        self.buffer = buffer
        self.offsets, self.timestamps = longs
        self.key_positions, self.key_lengths, self.value_positions, self.value_lengths = ints[:4]
        self.header_positions, self.header_counts = ints[4:]
        self.timestamp_type = timestamp_type
        self.count = len(self.offsets)

    def __len__(self) -> int:
        return self.count

    @classmethod
    def empty(cls) -> RecordColumns:
        """Return columns without records."""
        return cls(b"", (array("q"), array("q")), tuple(array("i") for _ in range(6)))

    def key(self, index: int) -> bytes | None:
        """Return a copy of a record's key, None when it is null."""
        length = self.key_lengths[index]
        if length < 0:
            return None
        start = self.key_positions[index]
        return bytes(self.buffer[start : start + length])

    def value(self, index: int) -> bytes | None:
        """Return a copy of a record's value, None when it is null."""
        length = self.value_lengths[index]
        if length < 0:
            return None
        start = self.value_positions[index]
        return bytes(self.buffer[start : start + length])

    def headers(self, index: int) -> tuple[Header, ...]:
        """Return names and values of a record's headers. A name that is not UTF-8 gets replacement characters."""
        if not self.header_counts[index]:
            return ()
        return tuple([(str(name, "utf-8", "replace"), value) for name, value in self.raw_headers(index)])

    def headers_of(self, start: int, stop: int) -> list[tuple[Header, ...]] | None:
        """Return the headers of rows `start` to before `stop`; None when none of them has a header."""
        return list(map(self.headers, range(start, stop))) if any(self.header_counts[start:stop]) else None

    def raw_headers(self, index: int) -> list[tuple[bytes, bytes | None]]:
        """Return names and values of a record's headers as they are in the log."""
        position = self.header_positions[index]
        headers = []
        for _ in range(self.header_counts[index]):
            size, position = read_varint(self.buffer, position)
            name = bytes(self.buffer[position : position + size])
            size, position = read_varint(self.buffer, position + size)
            headers.append((name, bytes(self.buffer[position : position + size]) if size >= 0 else None))
            position += max(size, 0)
        return headers

    def encoded_headers(self, index: int) -> bytes:
        """Return the headers of a record as they are encoded, with their count. Names need not be UTF-8."""
        count, start = self.header_counts[index], self.header_positions[index]
        if count == 0:
            return NO_HEADERS
        position = start
        for _ in range(2 * count):
            size, position = read_varint(self.buffer, position)
            position += max(size, 0)
        return varint(count) + bytes(self.buffer[start:position])

    def record(self, index: int) -> Record:
        """Return a row as a Record."""
        return Record(
            self.offsets[index],
            self.timestamps[index],
            self.timestamp_type,
            self.key(index),
            self.value(index),
            self.headers(index),
        )

    def records(self) -> Iterator[Record]:
        """Yield all rows as Record objects."""
        kind = self.timestamp_type
        for offset, timestamp, key, value, headers in self.rows():
            yield Record(offset, timestamp, kind, key, value, headers)

    def rows(self) -> Iterator[Row]:
        """Yield offset, timestamp, key, value and headers of all rows; several times faster than row by row."""
        for start in range(0, self.count, _ROWS_AT_ONCE):
            rows = slice(start, start + _ROWS_AT_ONCE)
            headers = self.headers_of(start, min(self.count, start + _ROWS_AT_ONCE)) or repeat(())
            yield from zip(
                self.offsets[rows],
                self.timestamps[rows],
                _cells(self.buffer, self.key_positions[rows], self.key_lengths[rows]),
                _cells(self.buffer, self.value_positions[rows], self.value_lengths[rows]),
                headers,
                strict=False,
            )

    def __iter__(self) -> Iterator[Record]:
        return self.records()

    @property
    def places(self) -> tuple[array[int], ...]:
        """The positions and lengths of keys, those of values, and the positions and counts of headers."""
        return (
            self.key_positions,
            self.key_lengths,
            self.value_positions,
            self.value_lengths,
            self.header_positions,
            self.header_counts,
        )

    def slice(self, start: int, stop: int) -> RecordColumns:
        """Return the rows from `start` to before `stop`, over the same buffer."""
        rows = slice(start, stop)
        ints = tuple(column[rows] for column in self.places)
        return RecordColumns(self.buffer, (self.offsets[rows], self.timestamps[rows]), ints, self.timestamp_type)

    def take(self, rows: array[int]) -> RecordColumns:
        """Return the rows with these numbers, an array('i'), in this order and over the same buffer. Raises IndexError
        for a row that does not exist."""
        from kafkatools.core.records import _search_kernel as search_kernel

        count = len(rows)
        longs = kernel.new_longs(count), kernel.new_longs(count)
        ints = tuple(kernel.new_ints(count) for _ in self.places)
        for column, target in zip((self.offsets, self.timestamps), longs, strict=True):
            if search_kernel.take_longs(column, rows, target) < count:
                raise IndexError(f"a row is outside of the {self.count} rows of these columns")
        for column, target in zip(self.places, ints, strict=True):
            search_kernel.take_ints(column, rows, target)
        return RecordColumns(self.buffer, longs, ints, self.timestamp_type)


class RowColumns:
    """Rows to produce: values, optional keys and timestamps, as positions in one buffer. Positions and lengths are
    array('i'), timestamps array('q') in ms. Without key arrays all keys are null, without timestamps the time of append
    is used. `headers`: the encoded headers of each row, as of `encode_headers`; None for rows without headers. Raises
    ValueError for columns of different lengths."""

    __slots__ = (
        "buffer",
        "count",
        "headers",
        "key_lengths",
        "key_positions",
        "timestamps",
        "value_lengths",
        "value_positions",
    )

    def __init__(
        self,
        buffer: Buffer,
        value_positions: array[int],
        value_lengths: array[int],
        key_positions: array[int] | None = None,
        key_lengths: array[int] | None = None,
        timestamps: array[int] | None = None,
        headers: Sequence[bytes] | None = None,
    ) -> None:
        self.buffer = buffer
        self.headers = headers
        self.count = len(value_positions)
        self.value_positions = value_positions
        self.value_lengths = value_lengths
        self.key_positions = key_positions
        self.key_lengths = key_lengths
        self.timestamps = timestamps
        if (key_positions is None) != (key_lengths is None):
            raise ValueError("key_positions and key_lengths must be given together")
        for column in (value_lengths, key_positions, key_lengths, timestamps, headers):
            if column is not None and len(column) != self.count:
                raise ValueError("all columns must have the same length")

    def __len__(self) -> int:
        return self.count

    def key(self, row: int) -> bytes | None:
        """Return a copy of a row's key, None when it is null. Raises ValueError for a key outside the buffer."""
        if self.key_positions is None or self.key_lengths is None:
            return None
        return _cell(self.buffer, self.key_positions[row], self.key_lengths[row], row)

    def value(self, row: int) -> bytes | None:
        """Return a copy of a row's value, None when it is null. Raises ValueError for a value outside the buffer."""
        return _cell(self.buffer, self.value_positions[row], self.value_lengths[row], row)

    @classmethod
    def of_values(cls, values: Sequence[bytes | None], keys: Sequence[bytes | None] | None = None) -> RowColumns:
        """Build rows from byte strings, which are copied into one buffer. Without `keys` all keys are null. Raises
        ValueError for another number of keys than values."""
        data = bytearray()
        value_positions, value_lengths = gather_cells(data, values)
        if keys is None:
            return cls(bytes(data), value_positions, value_lengths)
        key_positions, key_lengths = gather_cells(data, keys)
        return cls(bytes(data), value_positions, value_lengths, key_positions, key_lengths)


def _cells(buffer: Buffer, positions: array[int], lengths: array[int]) -> Sequence[bytes | None]:
    """Copies of cells, None for null ones. Cells that lie close together are copied at once: bytes are sliced faster
    than a memoryview."""
    if max(lengths) < 0:
        return [None] * len(lengths)
    start, end = min(positions), max(map(add, positions, lengths))
    if min(lengths) < 0 or end - start > _CLOSE_BYTES + 8 * sum(lengths):
        return [
            bytes(buffer[position : position + length]) if length >= 0 else None
            for position, length in zip(positions, lengths, strict=True)
        ]
    data = bytes(buffer[start:end])
    return [
        data[position - start : position - start + length] for position, length in zip(positions, lengths, strict=True)
    ]


def _cell(buffer: Buffer, position: int, length: int, row: int) -> bytes | None:
    if length < 0:
        return None
    if position < 0 or position + length > len(buffer):
        raise ValueError(f"row {row} lies outside the buffer of its columns")
    return bytes(buffer[position : position + length])


def gather_cells(data: bytearray, cells: Sequence[bytes | None]) -> tuple[array[int], array[int]]:
    """Append the cells to `data`. Return their positions and lengths, -1 for null."""
    start = len(data)
    if None in cells:
        lengths = array("i", [-1 if cell is None else len(cell) for cell in cells])
        data += b"".join([cell for cell in cells if cell])
        sizes: Iterable[int] = (max(length, 0) for length in lengths)
    else:
        filled = cast("Sequence[bytes]", cells)
        lengths = array("i", map(len, filled))
        data += b"".join(filled)
        sizes = lengths
    positions = array("i", accumulate(sizes, initial=start))
    positions.pop()
    return positions, lengths


def decode_headers(encoded: bytes) -> tuple[Header, ...]:
    """Return names and values of encoded headers. A name that is not UTF-8 gets replacement characters."""
    count, position = read_varint(encoded, 0)
    headers = []
    for _ in range(count):
        size, position = read_varint(encoded, position)
        name = str(encoded[position : position + size], "utf-8", "replace")
        size, position = read_varint(encoded, position + size)
        headers.append((name, encoded[position : position + size] if size >= 0 else None))
        position += max(size, 0)
    return tuple(headers)


def name_bytes(name: str | bytes) -> bytes:
    """Return a header's name as bytes. Surrogates from `surrogateescape` become the original bytes. Raises
    UnicodeEncodeError for other surrogates."""
    return name.encode("utf-8", "surrogateescape") if isinstance(name, str) else name


def encode_headers(headers: Sequence[tuple[str | bytes, bytes | None]]) -> bytes:
    """Encode a record's headers with their count, in the v2 format."""
    if not headers:
        return NO_HEADERS
    parts = [varint(len(headers))]
    for name, value in headers:
        encoded_name = name_bytes(name)
        parts += (varint(len(encoded_name)), encoded_name)
        if value is None:
            parts.append(b"\x01")
        else:
            parts += (varint(len(value)), bytes(value))
    return b"".join(parts)
