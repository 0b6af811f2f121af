"""Record columns as Arrow record batches, without an object per record.

Rules: in core only this module and `arrow_rows.py` import pyarrow, on first use. Offsets and timestamps of one column
set become Arrow buffers as they are. Keys and values are copied by one pass of the kernel, or with `view` not at all:
the column then keeps the received bytes alive.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kafkatools.core.install_command import install_command
from kafkatools.core.records import _arrow_kernel as arrow_kernel
from kafkatools.core.records import _gather_kernel as gather
from kafkatools.core.records import kernel
from kafkatools.core.records.columns import Buffer, RecordColumns, TimestampType

if TYPE_CHECKING:
    import pyarrow as pa

COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "value", "headers")
KINDS = ("binary", "string", "dictionary", "view")
LARGEST_COLUMN = 0x7FFFFFFF

Piece = tuple[str, int, RecordColumns]
"""Records of one partition: topic, partition, columns."""


def ensure_pyarrow() -> None:
    """Raise ImportError, with the command that installs it, when pyarrow is missing or older than 16."""
    try:
        import pyarrow

        pyarrow.binary_view()
    except (ImportError, AttributeError):
        raise ImportError(
            f"Arrow record batches need pyarrow 16 or later: {install_command('arrow')}", name="pyarrow"
        ) from None


class ArrowLayout:
    """The columns of the record batches that `Consumer.poll_arrow` returns. `key` and `value` are one of KINDS. Raises
    ValueError for an unknown kind or column, ImportError without pyarrow."""

    def __init__(self, columns: Sequence[str] | None = None, key: str = "binary", value: str = "binary") -> None:
        for name, kind in (("key", key), ("value", value)):
            if kind not in KINDS:
                raise ValueError(f"{name}={kind!r}: the kinds are {', '.join(KINDS)}")
        self._names = COLUMNS if columns is None else tuple(columns)
        if isinstance(columns, str) or not set(self._names) <= set(COLUMNS) or not self._names:
            raise ValueError(f"columns={columns!r}: name some of {', '.join(COLUMNS)} in a list")
        if len(set(self._names)) < len(self._names):
            raise ValueError(f"columns={columns!r}: a column is named twice")
        ensure_pyarrow()
        self._kinds = {"key": key, "value": value}

    @property
    def schema(self) -> pa.Schema:
        """The schema of every batch."""
        import pyarrow as pa

        kinds = {
            "binary": pa.binary(), "string": pa.string(), "view": pa.binary_view(),
            "dictionary": pa.dictionary(pa.int32(), pa.string()),
        }  # fmt: skip
        types = {
            "topic": kinds["dictionary"],
            "partition": pa.int32(),
            "offset": pa.int64(),
            "timestamp": pa.timestamp("ms", "UTC"),
            "key": kinds[self._kinds["key"]],
            "value": kinds[self._kinds["value"]],
            "headers": _headers_type(),
        }
        return pa.schema([(name, types[name]) for name in self._names])

    def fitting(self, pieces: Sequence[Piece]) -> int:
        """Return how many of the first pieces fit into a batch, whose columns are limited to 2 GiB; at least one."""
        sizes = {"key": 0, "value": 0}
        for number, (_, _, columns) in enumerate(pieces):
            sizes["key"] += arrow_kernel.cells_size(columns.key_lengths)
            sizes["value"] += arrow_kernel.cells_size(columns.value_lengths)
            if number and max(sizes.values()) > LARGEST_COLUMN:
                return number
        return len(pieces)

    def batch(self, pieces: Sequence[Piece]) -> pa.RecordBatch:
        """Return the records of the pieces, one after the other."""
        import pyarrow as pa

        schema = self.schema
        if not pieces:
            return pa.RecordBatch.from_pylist([], schema=schema)
        sets = [columns for _, _, columns in pieces]
        return pa.RecordBatch.from_arrays([self._column(name, pieces, sets) for name in self._names], schema=schema)

    def _column(self, name: str, pieces: Sequence[Piece], sets: Sequence[RecordColumns]) -> pa.Array:
        if name in ("key", "value"):
            return _cells(sets, name, self._kinds[name])
        if name == "topic":
            return _topics(pieces)
        if name == "headers":
            return _headers(sets)
        import pyarrow as pa

        if name == "partition":
            numbers = array("i")
            for _, partition, columns in pieces:
                numbers.extend(array("i", (partition,)) * columns.count)
            return _fixed(pa.int32(), numbers)
        if name == "offset":
            return _fixed(pa.int64(), _joined([columns.offsets for columns in sets]))
        return _timestamps(sets)


def _headers_type() -> pa.DataType:
    import pyarrow as pa

    return pa.list_(pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])))


def _fixed(arrow_type: pa.DataType, numbers: array[int]) -> pa.Array:
    import pyarrow as pa

    return pa.Array.from_buffers(arrow_type, len(numbers), [None, pa.py_buffer(numbers)])


def _joined(arrays: Sequence[array[int]]) -> array[int]:
    """Return the only array, or a new one with the items of all."""
    if len(arrays) == 1:
        return arrays[0]
    joined = array(arrays[0].typecode)
    for items in arrays:
        joined.extend(items)
    return joined


def _timestamps(sets: Sequence[RecordColumns]) -> pa.Array:
    """Return the timestamps; null where the message format has none."""
    import pyarrow as pa

    arrow_type = pa.timestamp("ms", "UTC")
    if all(columns.timestamp_type != TimestampType.NO_TIMESTAMP_TYPE for columns in sets):
        return _fixed(arrow_type, _joined([columns.timestamps for columns in sets]))
    return pa.concat_arrays(
        pa.nulls(columns.count, arrow_type)
        if columns.timestamp_type == TimestampType.NO_TIMESTAMP_TYPE
        else _fixed(arrow_type, columns.timestamps)
        for columns in sets
    )


def _topics(pieces: Sequence[Piece]) -> pa.Array:
    import pyarrow as pa

    names = list(dict.fromkeys(topic for topic, _, _ in pieces))
    numbers = array("i")
    for topic, _, columns in pieces:
        numbers.extend(array("i", (names.index(topic),)) * columns.count)
    return pa.DictionaryArray.from_arrays(_fixed(pa.int32(), numbers), pa.array(names, pa.string()))


class _Validity:
    """The bits of a column and the state that the kernel continues."""

    def __init__(self, rows: int) -> None:
        self.bits = bytearray(b"\xff") * (-(-rows // 8) or 1)
        self.state = array("q", bytes(8 * 4))

    def buffer(self, nulls: int) -> pa.Buffer | None:
        import pyarrow as pa

        return pa.py_buffer(self.bits) if nulls else None


def _cells(sets: Sequence[RecordColumns], column: str, kind: str) -> pa.Array:
    """Return the keys or the values of column sets."""
    cells = [
        (columns.buffer, columns.key_positions, columns.key_lengths)
        if column == "key"
        else (columns.buffer, columns.value_positions, columns.value_lengths)
        for columns in sets
    ]
    if kind == "view":
        return _views(cells)
    copied = _copied(cells)
    if kind == "binary":
        return copied
    text = as_text(copied)
    return text.dictionary_encode() if kind == "dictionary" else text


_Places = tuple[Buffer, "array[int]", "array[int]"]


def _copied(cells: Sequence[_Places]) -> pa.Array:
    """Return cells as a binary column, whose bytes are a copy."""
    import pyarrow as pa

    rows = sum(len(lengths) for _, _, lengths in cells)
    size = sum(arrow_kernel.cells_size(lengths) for _, _, lengths in cells)
    validity = _Validity(rows)
    offsets = kernel.new_ints(rows + 1)
    offsets[0] = 0
    data = pa.allocate_buffer(max(size, 1))
    target = memoryview(data).cast("B")
    for buffer, positions, lengths in cells:
        done = arrow_kernel.copy_cells(buffer, positions, lengths, offsets, target, validity.bits, validity.state)
        _ensure_all(done, len(lengths))
    nulls = validity.state[arrow_kernel.STATE_NULLS]
    buffers = [validity.buffer(nulls), pa.py_buffer(offsets), data.slice(0, size)]
    return pa.Array.from_buffers(pa.binary(), rows, buffers, nulls)


def _views(cells: Sequence[_Places]) -> pa.Array:
    """Return cells as a binary_view column over the received bytes."""
    import pyarrow as pa

    rows = sum(len(lengths) for _, _, lengths in cells)
    validity = _Validity(rows)
    views = bytearray(arrow_kernel.VIEW_BYTES * rows)
    numbers: dict[int, int] = {}
    buffers: list[pa.Buffer] = []
    for buffer, positions, lengths in cells:
        number = numbers.setdefault(id(buffer), len(buffers))
        if number == len(buffers):
            buffers.append(pa.py_buffer(buffer))
        done = arrow_kernel.view_cells(buffer, positions, lengths, number, views, validity.bits, validity.state)
        _ensure_all(done, len(lengths))
    nulls = validity.state[arrow_kernel.STATE_NULLS]
    heads = [validity.buffer(nulls), pa.py_buffer(views)]
    return pa.Array.from_buffers(pa.binary_view(), rows, heads + buffers, nulls)


def _ensure_all(done: int, rows: int) -> None:
    if done < rows:
        raise ValueError(f"row {done} lies outside the buffer of its columns")


def as_text(cells: pa.Array) -> pa.Array:
    """Return a binary column as text. Cells that are not UTF-8 get replacement characters, as in Java."""
    import pyarrow as pa

    try:
        return cells.cast(pa.string())
    except pa.ArrowInvalid:
        texts = [None if cell is None else cell.decode("utf-8", "replace") for cell in cells.to_pylist()]
        return pa.array(texts, pa.string())


def _headers(sets: Sequence[RecordColumns]) -> pa.Array:
    """Return the headers, null for a record without headers."""
    import pyarrow as pa

    rows = sum(columns.count for columns in sets)
    if all(memoryview(columns.header_counts).cast("B") == bytes(4 * columns.count) for columns in sets):
        return pa.nulls(rows, _headers_type())
    validity = _Validity(rows)
    ends = array("i", bytes(4 * (rows + 1)))
    names: list[tuple[Buffer, array[int], int]] = []
    for columns in sets:
        places = array("q", bytes(8 * gather.PLACE_WIDTH * columns.count))
        places[gather.PLACE_HEADERS :: gather.PLACE_WIDTH] = array("q", columns.header_positions)
        places[gather.PLACE_HEADERS + 1 :: gather.PLACE_WIDTH] = array("q", columns.header_counts)
        listed = array("q", bytes(8 * gather.PLACE_WIDTH * arrow_kernel.cells_size(columns.header_counts)))
        validity.state[gather.COLUMN_NEXT] = 0
        count = gather.list_headers(columns.buffer, places, columns.count, ends, validity.bits, listed, validity.state)
        _ensure_all(validity.state[gather.COLUMN_NEXT], columns.count)
        names.append((columns.buffer, listed, count))
    entries = pa.StructArray.from_arrays(
        [as_text(_gathered(names, gather.PLACE_KEY)), _gathered(names, gather.PLACE_VALUE)],
        fields=list(_headers_type().value_type),
    )
    nulls = validity.state[gather.COLUMN_NULLS]
    heads = [validity.buffer(nulls), pa.py_buffer(ends)]
    return pa.Array.from_buffers(_headers_type(), rows, heads, nulls, children=[entries])


def _gathered(listed: Sequence[tuple[Buffer, array[int], int]], column: int) -> pa.Array:
    """Return header names or values as a binary column."""
    import pyarrow as pa

    rows = sum(count for _, _, count in listed)
    size = sum(max(length, 0) for _, places, _ in listed for length in places[column + 1 :: gather.PLACE_WIDTH])
    validity = _Validity(rows)
    offsets = array("i", bytes(4 * (rows + 1)))
    data = bytearray(max(size, 1))
    for buffer, places, count in listed:
        validity.state[gather.COLUMN_NEXT] = 0
        done = gather.gather_cells(buffer, places, column, count, offsets, data, validity.bits, validity.state)
        _ensure_all(done, count)
    nulls = validity.state[gather.COLUMN_NULLS]
    buffers = [validity.buffer(nulls), pa.py_buffer(offsets), pa.py_buffer(data).slice(0, size)]
    return pa.Array.from_buffers(pa.binary(), rows, buffers, nulls)
