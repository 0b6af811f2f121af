"""Arrow tables as rows to produce (`RowColumns`), without an object per record.

Rules: a table is checked as a whole before its first row is sent. It is converted in pieces of about 64 MiB, which
bounds the memory of copies. Only headers that differ by record become objects, one for each record.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kafkatools.core.records import _arrow_kernel as arrow_kernel
from kafkatools.core.records import kernel
from kafkatools.core.records.arrow import ensure_pyarrow
from kafkatools.core.records.columns import Buffer, RowColumns, encode_headers

if TYPE_CHECKING:
    import pyarrow as pa

Headers = Sequence[tuple[str, bytes | None]]

_PIECE_BYTES = 64 << 20
_HEADERS_HINT = "a list of structs with the fields key (text) and value (bytes), or pairs that every record gets"


class ArrowNames(NamedTuple):
    """The columns of a table to send. `key` and `headers` with their default names are optional columns, every other
    name must exist; None: no such column. `headers` may be pairs that every record gets, `partition` a number."""

    value: str = "value"
    key: str | None = "key"
    headers: str | Headers | None = "headers"
    partition: str | int | None = None
    timestamp: str | None = None


class ArrowPiece(NamedTuple):
    """Rows of a table, with their partitions or one partition for all; None: the producer chooses."""

    rows: RowColumns
    partitions: array[int] | int | None


class ArrowRows:
    """A table to send, in pieces. `data` is a pyarrow Table or RecordBatch, or an object with Arrow's PyCapsule
    interface such as a DataFrame of Polars or pandas.

    Raises TypeError for other data or a column of another type, ValueError for a column that does not exist, or a
    partition or timestamp that is null or negative. ImportError without pyarrow.
    """

    def __init__(self, data: object, names: ArrowNames) -> None:
        table = table_of(data)
        columns = {"value": _cells(table, names.value)}
        if names.key is not None and (names.key != "key" or "key" in table.column_names):
            columns["key"] = _cells(table, names.key)
        self._headers: list[bytes] | None = None
        if isinstance(names.headers, str):
            if names.headers != "headers" or "headers" in table.column_names:
                columns["headers"] = _headers(table, names.headers)
        elif names.headers:
            self._headers = [encode_headers(names.headers)]
        self._partition = names.partition if isinstance(names.partition, int) else None
        if isinstance(names.partition, str):
            columns["partition"] = _numbers(table, names.partition, "partition")
        elif self._partition is not None and self._partition < 0:
            raise ValueError(f"Invalid partition {self._partition}: a partition number is 0 or more")
        if names.timestamp is not None:
            columns["timestamp"] = _numbers(table, names.timestamp, "timestamp")
        import pyarrow as pa

        self._table = pa.table(columns)
        self.count: int = table.num_rows
        self.last_partition = self._partition
        if "partition" in columns and self.count:
            import pyarrow.compute as pc

            self.last_partition = pc.max(columns["partition"]).as_py()

    def pieces(self) -> Iterator[ArrowPiece]:
        """Yield the rows in the order of the table."""
        for batch in self._table.to_batches():
            step = max(1, batch.num_rows * _PIECE_BYTES // max(batch.nbytes, 1))
            for start in range(0, batch.num_rows, step):
                yield self._piece(batch.slice(start, step))

    def _piece(self, batch: pa.RecordBatch) -> ArrowPiece:
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        value_buffer, values = _places(columns["value"], 0)
        buffer = value_buffer
        keys: tuple[array[int] | None, array[int] | None] = (None, None)
        if "key" in columns:
            key_buffer, keys = _places(columns["key"], len(value_buffer))
            if len(key_buffer):
                buffer = b"".join((value_buffer, key_buffer))
        headers = None if self._headers is None else self._headers * batch.num_rows
        if "headers" in columns:
            headers = [encode_headers(_pairs(cell)) for cell in columns["headers"].to_pylist()]
        timestamps = _ints(columns["timestamp"], "q") if "timestamp" in columns else None
        rows = RowColumns(buffer, *values, keys[0], keys[1], timestamps, headers)
        return ArrowPiece(rows, _ints(columns["partition"], "i") if "partition" in columns else self._partition)


def table_of(data: object) -> pa.Table:
    """Return Arrow data as a table; a stream is read to its end. Raises TypeError for other data, ImportError without
    pyarrow."""
    ensure_pyarrow()
    import pyarrow as pa

    if isinstance(data, pa.Table):
        return data
    if isinstance(data, pa.RecordBatch):
        return pa.Table.from_batches([data])
    if hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__"):
        return pa.table(data)
    if isinstance(data, str):
        raise TypeError(f"send_arrow takes the table before the topic: send_arrow(table, {data!r})")
    raise TypeError(
        f"{type(data).__name__} is no Arrow data: send a pyarrow Table or RecordBatch, or an object with "
        "__arrow_c_stream__ such as a DataFrame of Polars or pandas"
    )


def _column(table: pa.Table, name: str) -> pa.ChunkedArray:
    count = table.column_names.count(name)
    if count != 1:
        found = f"has the column {name!r} {count} times" if count else f"has no column {name!r}"
        raise ValueError(f"The table {found}; its columns are {', '.join(map(repr, table.column_names)) or 'none'}")
    return table.column(name)


def _cells(table: pa.Table, name: str) -> pa.ChunkedArray:
    """Return a column as binary. Raises TypeError unless it is text or bytes, or a dictionary of them."""
    import pyarrow as pa

    column = _column(table, name)
    found = _item_type(column.type)
    if not _is_cell(found):
        raise TypeError(f"The column {name!r} is {column.type}: cast it to string or binary before it is sent")
    if pa.types.is_dictionary(column.type):
        column = column.cast(found)
    return column.cast(pa.binary())


def _item_type(arrow_type: pa.DataType) -> pa.DataType:
    """Return the type of the items of a dictionary, any other type as it is."""
    import pyarrow as pa

    return arrow_type.value_type if pa.types.is_dictionary(arrow_type) else arrow_type


def _is_text(arrow_type: pa.DataType) -> bool:
    import pyarrow as pa

    is_text = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(is_type(arrow_type) for is_type in is_text)


def _is_cell(arrow_type: pa.DataType) -> bool:
    """Return whether values of this type are text, bytes or null."""
    import pyarrow as pa

    is_other = (
        pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary, pa.types.is_binary_view,
        pa.types.is_null,
    )  # fmt: skip
    return _is_text(arrow_type) or any(is_type(arrow_type) for is_type in is_other)


def _numbers(table: pa.Table, name: str, kind: str) -> pa.ChunkedArray:
    """Return a column of partitions (int32) or of timestamps (int64, ms). Raises TypeError for other types, ValueError
    for nulls and negative numbers."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = _column(table, name)
    is_time = kind == "timestamp" and pa.types.is_timestamp(column.type)
    if not is_time and not pa.types.is_integer(column.type):
        expected = "integers" if kind == "partition" else "a timestamp or integers, epoch milliseconds"
        raise TypeError(f"The column {name!r} is {column.type}: a {kind} is {expected}")
    if column.null_count:
        raise ValueError(f"The column {name!r} has a null: each row needs its {kind}")
    if is_time:
        column = pc.cast(column, pa.timestamp("ms", column.type.tz), safe=False).cast(pa.int64())
    if len(column) and pc.min(column).as_py() < 0:
        raise ValueError(f"The column {name!r} has a negative {kind}")
    try:
        return column.cast(pa.int32() if kind == "partition" else pa.int64())
    except pa.ArrowInvalid:
        raise ValueError(f"The column {name!r} has a {kind} that is too large") from None


def _headers(table: pa.Table, name: str) -> pa.ChunkedArray:
    import pyarrow as pa

    column = _column(table, name)
    arrow_type = column.type
    if pa.types.is_null(arrow_type):
        return column
    if pa.types.is_map(arrow_type):
        return column.cast(pa.map_(pa.string(), pa.binary()))
    is_list = pa.types.is_list(arrow_type) or pa.types.is_large_list(arrow_type)
    if not is_list or not pa.types.is_struct(arrow_type.value_type):
        raise TypeError(f"The column {name!r} is {arrow_type}: headers are {_HEADERS_HINT}")
    fields = {field.name: _item_type(field.type) for field in arrow_type.value_type}
    if fields.keys() != {"key", "value"}:
        raise TypeError(f"The column {name!r} has the fields {sorted(fields)}: headers are {_HEADERS_HINT}")
    if not _is_text(fields["key"]) or not _is_cell(fields["value"]):
        raise TypeError(f"The column {name!r} is {arrow_type}: headers are {_HEADERS_HINT}")
    import pyarrow.compute as pc

    if pc.struct_field(pc.list_flatten(column), "key").null_count:
        raise ValueError(f"The column {name!r} has a header without a name")
    return column


_Entry = tuple[str, bytes | str | None]


def _pairs(cell: Sequence[Mapping[str, bytes | str | None] | _Entry] | None) -> list[tuple[str, bytes | None]]:
    """Return the headers of one row: of a map the entries are pairs, of a list of structs they are mappings."""
    pairs = []
    for entry in cell or ():
        name, value = (entry["key"], entry["value"]) if isinstance(entry, Mapping) else entry
        pairs.append((str(name), value.encode() if isinstance(value, str) else value))
    return pairs


def _places(cells: pa.Array, shift: int) -> tuple[Buffer, tuple[array[int], array[int]]]:
    """Return the bytes of a binary column, and where each cell is, counted from `shift` before these bytes."""
    rows = len(cells)
    positions, lengths = kernel.new_ints(rows), kernel.new_ints(rows)
    validity, offset_buffer, data = cells.buffers()
    offsets = array("i")
    offsets.frombytes(memoryview(offset_buffer).cast("B")[4 * cells.offset : 4 * (cells.offset + rows + 1)])
    first, end = offsets[0], offsets[-1]
    bits = b"" if validity is None else memoryview(validity).cast("B")
    done = arrow_kernel.cell_places(offsets, bits, cells.offset, shift - first, positions, lengths)
    if done < rows or first < 0 or end > (0 if data is None else data.size):
        raise ValueError(f"row {done} of an Arrow column lies outside its buffer")
    return b"" if data is None else memoryview(data).cast("B")[first:end], (positions, lengths)


def _ints(numbers: pa.Array, typecode: str) -> array[int]:
    """Return a column of integers without nulls."""
    items = array(typecode)
    start = numbers.offset * items.itemsize
    items.frombytes(memoryview(numbers.buffers()[1]).cast("B")[start : start + len(numbers) * items.itemsize])
    return items
