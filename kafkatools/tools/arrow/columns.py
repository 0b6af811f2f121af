"""Builders of Arrow columns, one class for each kind of column.

A builder receives chunks: the places of records in a buffer, and the headers of their batches. `take` returns the
finished column and starts an empty one. Buffers that no longer have references are reused (`Spares`), since writing to
memory pages touched before is cheaper.
"""

from __future__ import annotations

import sys
import threading
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafkatools.core.records import _gather_kernel as kernel
from kafkatools.core.records.columns import RecordColumns

Buffer = bytes | bytearray | memoryview
Longs = npt.NDArray[np.int64]
Items = npt.NDArray[np.signedinteger]
B = TypeVar("B", bytearray, "array[int]", npt.NDArray[np.signedinteger])

LARGEST_COLUMN = 0x7FFFFFFF
OPEN, COMMITTED, ABORTED = TRANSACTION_STATES = ("open", "committed", "aborted")
_MICROS = 1000
_FURTHEST_MS = ((1 << 63) - 1) // _MICROS
_SEQUENCES = 1 << 31
_FIRST_ROWS = 16384
_FIRST_BYTES = 4 << 20
_SPARES = 12
_LARGEST_SPARE = 8 << 20
_HEADER_PLACES = 4096
_NO_PLACES: array[int] = array("q")
_MAX_TIMESTAMP = 9


@dataclass(slots=True)
class Chunk:
    """Records in one buffer: their places (rows of PLACE_WIDTH integers). For each batch: its header row, number of
    records, file position and transaction state."""

    buffer: Buffer
    places: array[int]
    rows: int
    batches: Longs
    counts: npt.NDArray[np.int32]
    positions: Longs
    transactions: Sequence[str | None] | None

    @property
    def view(self) -> Longs:
        """The places as a matrix with one row for each record."""
        return np.frombuffer(self.places, np.int64).reshape(-1, kernel.PLACE_WIDTH)[: self.rows]

    @property
    def offsets(self) -> Longs:
        """The offset of each record."""
        return self.view[:, kernel.PLACE_OFFSET]

    @property
    def offset_range(self) -> tuple[int, int]:
        """The offsets of the first and the last record."""
        return int(self.offsets[0]), int(self.offsets[-1])

    @property
    def timestamps(self) -> Longs:
        """The timestamp of each record in epoch milliseconds."""
        return self.view[:, kernel.PLACE_TIMESTAMP]

    def of_batch(self, column: int) -> Longs:
        """Return a column of the header table, repeated for each record of its batch."""
        return np.repeat(self.batches[:, column], self.counts)


class HeaderChunk(Chunk):
    """Records known from the headers of their batches alone, which have no places. The offsets of a batch ascend by one
    from `first_offsets`; the timestamps are those of LogAppendTime."""

    __slots__ = ("_first_offsets",)

    def __init__(
        self, batches: Longs, counts: Longs, positions: Longs, transactions: Sequence[str | None] | None,
        first_offsets: Longs,
    ) -> None:  # fmt: skip
        super().__init__(b"", _NO_PLACES, int(counts.sum()), batches, counts.astype(np.int32), positions, transactions)
        self._first_offsets = first_offsets

    @property
    def offsets(self) -> Longs:
        before = np.cumsum(self.counts, dtype=np.int64) - self.counts
        return np.repeat(self._first_offsets - before, self.counts) + np.arange(self.rows)

    @property
    def offset_range(self) -> tuple[int, int]:
        filled = np.flatnonzero(self.counts)
        last = self._first_offsets[filled[-1]] + self.counts[filled[-1]] - 1
        return int(self._first_offsets[filled[0]]), int(last)

    @property
    def timestamps(self) -> Longs:
        return self.of_batch(_MAX_TIMESTAMP)


class ColumnTooLarge(Exception):
    """A run of records has more bytes in one column than an Arrow array of 32-bit offsets holds."""


class Column(Protocol):
    """A builder of one Arrow column."""

    def add(self, chunk: Chunk) -> None:
        """Append the records of a chunk. Raises ColumnTooLarge beyond 2 GiB."""

    def take(self, rows: int) -> pa.Array:
        """Return the finished pyarrow.Array of `rows` rows and start an empty column."""

    @property
    def size_bytes(self) -> int:
        """Number of variable-length bytes appended since the last `take`; 0 for a fixed-width column."""


class Spares(Generic[B]):
    """A pool of buffers that Arrow arrays may still reference; a buffer is reused once no array does. Shared by all
    tasks and threads of a process."""

    def __init__(self, make: Callable[[int], B]) -> None:
        self._make: Callable[[int], B] = make
        self._buffers: list[B] = []
        self._lock = threading.Lock()  # guards _buffers: a buffer that is found free must be the one that is removed

    def take(self, least: int) -> B:
        """Return a buffer with at least `least` items and arbitrary content: one of the pool that no array references,
        else a new one."""
        buffers = self._buffers
        with self._lock:
            for index in range(len(buffers)):
                # two references, the list's and the argument's: no Arrow array uses the buffer
                if sys.getrefcount(buffers[index]) <= 2 and len(buffers[index]) >= least:
                    return buffers.pop(index)
        return self._make(least)

    def release(self, buffer: B) -> None:
        """Put a buffer into the pool, which has the last twelve; a buffer above 8 MiB is ignored."""
        if memoryview(buffer).nbytes > _LARGEST_SPARE:  # type: ignore[arg-type]  # numpy types __buffer__ from 3.12 on
            return
        with self._lock:
            self._buffers.append(buffer)
            del self._buffers[:-_SPARES]


def _new_ints(count: int) -> array[int]:
    return array("i", bytes(4 * count))


_INTS = Spares(_new_ints)
_BYTES = Spares(bytearray)
_BY_TYPE: dict[str, Spares[Items]] = {}


def _numbers(dtype: str) -> Spares[Items]:
    if dtype not in _BY_TYPE:
        _BY_TYPE[dtype] = Spares(lambda rows: np.empty(rows, dtype))
    return _BY_TYPE[dtype]


class Numbers:
    """Builds a fixed-width column; `of_chunk` computes its values from a chunk."""

    size_bytes = 0

    def __init__(self, arrow_type: pa.DataType, dtype: str, of_chunk: Callable[[Chunk], Items]) -> None:
        self._type = arrow_type
        self._of_chunk = of_chunk
        self._spares = _numbers(dtype)
        self._items: Items = self._spares.take(_FIRST_ROWS)
        self._rows = 0

    def add(self, chunk: Chunk) -> None:
        """Append the values of a chunk."""
        end = self._rows + chunk.rows
        if end > len(self._items):
            items = self._spares.take(max(2 * len(self._items), end))
            items[: self._rows] = self._items[: self._rows]
            self._items = items
        self._items[self._rows : end] = self._of_chunk(chunk)
        self._rows = end

    def take(self, rows: int) -> pa.Array:
        """Return the column of `rows` values and start an empty one."""
        column = self._finish(self._items, rows)
        self._spares.release(self._items)
        self._items, self._rows = self._spares.take(_FIRST_ROWS), 0
        return column

    def _finish(self, items: Items, rows: int) -> pa.Array:
        return pa.Array.from_buffers(self._type, rows, [None, pa.py_buffer(items)])


class Transactions(Numbers):
    """Builds the column of transaction states as texts, null for records outside of transactions."""

    def __init__(self, arrow_type: pa.DataType) -> None:
        super().__init__(arrow_type, "i1", _states)

    def _finish(self, items: Items, rows: int) -> pa.Array:
        states = items[:rows]
        return pa.array(TRANSACTION_STATES, self._type).take(pa.array(states, mask=states < 0))


def _states(chunk: Chunk) -> Items:
    codes = [-1] * len(chunk.counts)
    if chunk.transactions is not None:
        codes = [-1 if state is None else TRANSACTION_STATES.index(state) for state in chunk.transactions]
    return np.repeat(np.array(codes, "i1"), chunk.counts)


class Constant:
    """Builds a column with the same value in each row; the longest array is cached and sliced."""

    size_bytes = 0

    def __init__(self, arrow_type: pa.DataType, value: int | str) -> None:
        self._type = arrow_type
        self._value = value
        self._cache = pa.nulls(0, arrow_type)

    def add(self, chunk: Chunk) -> None:
        """Do nothing: the value does not depend on the records."""

    def take(self, rows: int) -> pa.Array:
        """Return an array of `rows` equal values."""
        if len(self._cache) < rows:
            self._cache = self._repeated(max(rows, _FIRST_ROWS))
        return self._cache.slice(0, rows)

    def _repeated(self, rows: int) -> pa.Array:
        """Build the array from buffers: pyarrow would import pandas, if installed, to convert a scalar."""
        if isinstance(self._value, int):
            return pa.Array.from_buffers(self._type, rows, [None, pa.py_buffer(np.full(rows, self._value, np.int32))])
        text = self._value.encode()
        offsets = np.arange(rows + 1, dtype=np.int32) * np.int32(len(text))
        return pa.Array.from_buffers(self._type, rows, [None, pa.py_buffer(offsets), pa.py_buffer(text * rows)])


class Cells:
    """Builds the column of keys or of values: variable-length bytes with nulls."""

    def __init__(self, arrow_type: pa.DataType, column: int) -> None:
        self._type = arrow_type
        self._column = column
        self._begin()

    def _begin(self) -> None:
        self._offsets: array[int] = _INTS.take(_FIRST_ROWS + 1)
        self._offsets[0] = 0
        self._bytes: bytearray = _BYTES.take(_FIRST_BYTES)
        self._validity = bytearray(b"\xff") * (len(self._offsets) // 8 + 1)
        self._state = array("q", bytes(8 * kernel.COLUMN_SIZE))

    @property
    def size_bytes(self) -> int:
        """Number of bytes of keys or values since the last `take`."""
        return self._state[kernel.COLUMN_BYTES]

    def add(self, chunk: Chunk) -> None:
        """Copy the keys or values of a chunk. Raises ColumnTooLarge beyond 2 GiB in one column."""
        self.add_places(chunk.buffer, chunk.places, chunk.rows)

    def add_places(self, buffer: Buffer, places: array[int], stop: int) -> None:
        """Copy the cells at the first `stop` rows of a place table. Raises ColumnTooLarge beyond 2 GiB."""
        self._state[kernel.COLUMN_NEXT] = 0
        while True:
            row = kernel.gather_cells(
                buffer, places, self._column, stop, self._offsets, self._bytes, self._validity, self._state
            )
            if row == stop:
                return
            self._grow(places[row * kernel.PLACE_WIDTH + self._column + 1])

    def _grow(self, length: int) -> None:
        if self._state[kernel.COLUMN_ROWS] == min(len(self._offsets) - 1, 8 * len(self._validity)):
            self._offsets.extend(_new_ints(len(self._offsets)))
            self._validity.extend(b"\xff" * (len(self._offsets) // 8 + 1 - len(self._validity)))
            return
        size = self._state[kernel.COLUMN_BYTES]
        needed = size + length
        if needed > LARGEST_COLUMN:
            raise ColumnTooLarge(
                f"A run of records has {needed} bytes in one column, more than the 2 GiB that Arrow holds"
            )
        larger = _BYTES.take(min(max(needed, 2 * len(self._bytes)), LARGEST_COLUMN))
        larger[:size] = memoryview(self._bytes)[:size]
        self._bytes = larger

    def take(self, rows: int) -> pa.Array:
        """Return the column of `rows` cells and start an empty one."""
        nulls, size = self._state[kernel.COLUMN_NULLS], self._state[kernel.COLUMN_BYTES]
        buffers = [
            pa.py_buffer(self._validity) if nulls else None,
            pa.py_buffer(self._offsets).slice(0, 4 * (rows + 1)),
            pa.py_buffer(self._bytes).slice(0, size),
        ]
        column = pa.Array.from_buffers(self._type, rows, self._check(buffers, rows), nulls)
        _INTS.release(self._offsets)
        _BYTES.release(self._bytes)
        self._begin()
        return column

    def _check(self, buffers: list[pa.Buffer], rows: int) -> list[pa.Buffer]:
        return buffers


class Texts(Cells):
    """Builds a column of keys, values or header names as text; invalid UTF-8 becomes replacement characters, as in
    Java."""

    def _check(self, buffers: list[pa.Buffer], rows: int) -> list[pa.Buffer]:
        data = buffers[2]
        if not len(data) or int(np.frombuffer(data, np.uint8).max()) < 0x80:
            return buffers
        offsets = np.frombuffer(buffers[1], np.int32)
        if _are_texts(data, offsets):
            return buffers
        whole = data.to_pybytes()
        texts: list[str | None] = [
            whole[start:end].decode("utf-8", "replace") for start, end in pairwise(offsets.tolist())
        ]
        if buffers[0] is not None:
            validity = np.unpackbits(np.frombuffer(buffers[0], np.uint8), count=rows, bitorder="little").tolist()
            texts = [text if is_valid else None for text, is_valid in zip(texts, validity, strict=True)]
        return list(pa.array(texts, pa.string()).buffers())


def _are_texts(data: pa.Buffer, offsets: npt.NDArray[np.int32]) -> bool:
    """Return whether each cell is valid UTF-8: all bytes together are, and no cell begins within a character."""
    try:
        str(data, "utf-8")
    except UnicodeDecodeError:
        return False
    starts = offsets[:-1][np.diff(offsets) > 0]
    return not (np.frombuffer(data, np.uint8)[starts] & 0xC0 == 0x80).any()


class Headers:
    """Builds the column of record headers, lists of keys and values; null for a record without headers, as in Spark's
    Kafka source."""

    def __init__(self, arrow_type: pa.DataType) -> None:
        self._type = arrow_type
        entry = arrow_type.value_type
        self._names = Texts(entry.field(0).type, kernel.PLACE_KEY)
        self._values = _cells(entry.field(1).type, kernel.PLACE_VALUE)
        self._listed = array("q", bytes(8 * kernel.PLACE_WIDTH * _HEADER_PLACES))
        self._begin(_FIRST_ROWS)

    def _begin(self, rows: int) -> None:
        self._ends = _new_ints(rows + 1)
        self._validity = bytearray(b"\xff") * (-(-rows // 8))
        self._state = array("q", bytes(8 * kernel.COLUMN_SIZE))

    @property
    def size_bytes(self) -> int:
        """Number of bytes of header keys and values since the last `take`."""
        return self._names.size_bytes + self._values.size_bytes

    def add(self, chunk: Chunk) -> None:
        """Copy the headers of a chunk's records. Raises ColumnTooLarge beyond 2 GiB of keys or of values."""
        self._state[kernel.COLUMN_NEXT] = 0
        while True:
            before = self._state[kernel.COLUMN_NEXT]
            count = kernel.list_headers(
                chunk.buffer, chunk.places, chunk.rows, self._ends, self._validity, self._listed, self._state
            )
            self._names.add_places(chunk.buffer, self._listed, count)
            self._values.add_places(chunk.buffer, self._listed, count)
            if self._state[kernel.COLUMN_NEXT] == chunk.rows:
                return
            if self._state[kernel.COLUMN_NEXT] == before:
                self._grow(chunk, before)

    def _grow(self, chunk: Chunk, row: int) -> None:
        rows = min(len(self._ends) - 1, 8 * len(self._validity))
        if self._state[kernel.COLUMN_ROWS] == rows:
            self._ends.extend(_new_ints(rows))
            self._validity.extend(b"\xff" * (len(self._ends) // 8 + 1 - len(self._validity)))
            return
        count = chunk.places[row * kernel.PLACE_WIDTH + 7]
        self._listed = array("q", bytes(8 * kernel.PLACE_WIDTH * max(count, 2 * _HEADER_PLACES)))

    def take(self, rows: int) -> pa.Array:
        """Return the column of `rows` header lists and start an empty one."""
        nulls, total = self._state[kernel.COLUMN_NULLS], self._state[kernel.COLUMN_BYTES]
        entries = pa.StructArray.from_arrays(
            [self._names.take(total), self._values.take(total)], fields=list(self._type.value_type)
        )
        buffers = [pa.py_buffer(self._validity) if nulls else None, pa.py_buffer(self._ends).slice(0, 4 * (rows + 1))]
        column = pa.Array.from_buffers(self._type, rows, buffers, nulls, children=[entries])
        self._begin(len(self._ends) - 1)
        return column


def _cells(arrow_type: pa.DataType, column: int) -> Cells:
    """Return a builder of text or of bytes, as the type of the column says."""
    return (Texts if arrow_type == pa.string() else Cells)(arrow_type, column)


def places_of(columns: RecordColumns, start: int, stop: int) -> array[int]:
    """Return the kernel's place table for rows start..stop of a column set."""
    places = np.empty((stop - start, kernel.PLACE_WIDTH), np.int64)
    sources = (
        columns.offsets, columns.timestamps, columns.key_positions, columns.key_lengths, columns.value_positions,
        columns.value_lengths, columns.header_positions, columns.header_counts,
    )  # fmt: skip
    for index, column in enumerate(sources):
        places[:, index] = column[start:stop]
    return array("q", places.tobytes())


# -- the values of each column --


def _offsets(chunk: Chunk) -> Items:
    return chunk.offsets


def micros(milliseconds: Items) -> Items:
    """Convert epoch milliseconds to Spark's epoch microseconds, clipped to the range of 64 bits."""
    within: Items = np.clip(milliseconds, -_FURTHEST_MS, _FURTHEST_MS) * _MICROS
    return within


def timestamp_types(batches: Longs) -> Longs:
    """Return the timestamp type of each batch: 0 CreateTime, 1 LogAppendTime, -1 none (magic 0)."""
    types: Longs = np.where(batches[:, 3] == 0, -1, (batches[:, 6] >> 3) & 1)
    return types


def _sequences(chunk: Chunk) -> Items:
    first = chunk.of_batch(12)
    sequences = (first + (_offsets(chunk) - chunk.of_batch(1))) % _SEQUENCES
    return np.where(first < 0, -1, sequences)


def new_column(name: str, arrow_type: pa.DataType, topic: str, partition: int) -> Column:
    """Return an empty builder for a column of the record table, by the column's name in any case. `topic` and
    `partition` are the values of the columns of these names. Keys, values and header values are text if the type is
    string. Raises KeyError for an unknown name."""
    numbers: dict[str, tuple[str, Callable[[Chunk], Items]]] = {
        "offset": ("i8", _offsets),
        "timestamp": ("i8", lambda chunk: micros(chunk.timestamps)),
        "timestamptype": ("i4", lambda chunk: np.repeat(timestamp_types(chunk.batches), chunk.counts)),
        "leaderepoch": ("i4", lambda chunk: chunk.of_batch(4)),
        "producerid": ("i8", lambda chunk: chunk.of_batch(10)),
        "producerepoch": ("i2", lambda chunk: chunk.of_batch(11)),
        "sequence": ("i4", _sequences),
        "batchposition": ("i8", lambda chunk: np.repeat(chunk.positions, chunk.counts)),
    }
    name = name.lower()
    if name in numbers:
        return Numbers(arrow_type, *numbers[name])
    factories: dict[str, Callable[[], Column]] = {
        "key": lambda: _cells(arrow_type, kernel.PLACE_KEY),
        "value": lambda: _cells(arrow_type, kernel.PLACE_VALUE),
        "key_bytes": lambda: Cells(arrow_type, kernel.PLACE_KEY),
        "value_bytes": lambda: Cells(arrow_type, kernel.PLACE_VALUE),
        "headers": lambda: Headers(arrow_type),
        "topic": lambda: Constant(arrow_type, topic),
        "partition": lambda: Constant(arrow_type, partition),
        "transaction": lambda: Transactions(arrow_type),
    }
    return factories[name]()
