"""Conversion of Arrow record batches to the row columns that the producer sends, grouped by topic and partition.

Rules: without keys the bytes of values are not copied; with keys they are copied once, into one buffer. Only batches
with headers are processed row by row. Rows of one partition keep their order. Column names and types are those of
Spark's Kafka sink (KafkaWriter), plus `timestamp`. Other columns are ignored as there: those of Spark's Kafka source
silently, any other with a warning, or with strictOptions=true an error, since its content is lost.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

import pyarrow as pa
import pyarrow.compute as pc

from kafkatools.core.records.columns import RowColumns
from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.sources.schema import HEADERS, METADATA_COLUMNS

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from kafkatools.pipeline.sources.live.options import OptionWarnings

_TEXT = ("string", "binary")
_TYPES = {
    "value": _TEXT,
    "key": _TEXT,
    "topic": ("string",),
    "partition": ("int",),
    "headers": (HEADERS,),
    "timestamp": ("timestamp",),
}
_OF_THE_SOURCE = frozenset({"offset", "timestampType", *METADATA_COLUMNS})
_LARGEST_BUFFER = 1 << 30
_MICROSECONDS_A_MS = 1000
_PARTITIONS = 1 << 32


class Target(NamedTuple):
    """The topic and partition that rows are sent to; partition None lets the producer choose."""

    topic: str
    partition: int | None


def check_columns(schema: StructType, topic: str | None, warnings: OptionWarnings) -> None:
    """Raise PipelineError if a required column is missing or has the wrong type. `topic` is the option, None if the
    column `topic` is required. Columns that a record cannot store go to `warnings`."""
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    if topic is None and "topic" not in types:
        raise PipelineError("kt sink: the topic is missing: set the option `topic`, or add a column `topic`")
    if "value" not in types:
        raise PipelineError(f"kt sink: the column `value` is missing; the query has {_list_text(types)}")
    for name, data_type in types.items():
        allowed = _TYPES.get(name)
        if allowed is None or data_type in allowed or (name == "topic" and topic is not None):
            continue
        problem = f"kt sink: the column `{name}` is {data_type}, it must be {' or '.join(allowed)}"
        if name != "timestamp":  # Spark's sink never uses it
            raise PipelineError(problem)
        warnings.unknown(problem)
    unknown = [name for name in types if name not in _TYPES and name not in _OF_THE_SOURCE]
    if unknown:
        warnings.unknown(
            f"kt sink: a record has no place for {_list_text(unknown)}",
            f"; its columns are {_list_text(_TYPES)}: "
            "omit other columns or put them into the value, for example with to_json(struct(*))",
        )


def _list_text(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def split_by_target(batch: pa.RecordBatch, topic: str | None) -> Iterator[tuple[Target, pa.RecordBatch]]:
    """Split a batch by topic and partition; rows of one target keep their order. `topic` is the sink's option; with
    None, the column `topic` decides. An empty batch yields nothing. Raises PipelineError for a row without a topic or
    with a negative partition."""
    names = batch.schema.names
    topics: pa.Array = None  # None if all rows have the same topic
    partitions: pa.Array = None  # None if no row has a partition
    if topic is None:
        topics = batch.column(names.index("topic")).dictionary_encode()
        if topics.null_count:
            raise PipelineError("kt sink: a row has no topic (null): set the option `topic`, or a topic in each row")
    if "partition" in names:
        partitions = batch.column(names.index("partition"))
    if batch.num_rows == 0:
        return
    if topics is not None and len(topics.dictionary) == 1:
        topic, topics = topics.dictionary[0].as_py(), None
    if partitions is not None and partitions.null_count == len(partitions):
        partitions = None
    if topics is None and partitions is None:
        assert topic is not None
        yield Target(topic, None), batch
        return
    codes = _codes(topics, partitions)
    order = pc.sort_indices(codes)
    ends = pc.run_end_encode(codes.take(order))
    ordered, start = batch.take(order), 0
    for stop, code in zip(ends.run_ends.to_pylist(), ends.values.to_pylist(), strict=True):
        number, partition = divmod(code, _PARTITIONS)
        name = topic or topics.dictionary[number].as_py()
        yield Target(name, partition - 1 if partition else None), ordered.slice(start, stop - start)
        start = stop


def _codes(topics: pa.Array | None, partitions: pa.Array | None) -> pa.Array:
    """Encode topic and partition of each row as one number, with the partition plus 1 in the lower 32 bits (0 for
    null). `topics` or `partitions` None, but not both: 0 in its place. Raises PipelineError for a negative
    partition."""
    numbers: pa.Array = pa.scalar(0, pa.int64())
    if partitions is not None:
        lowest = pc.min(partitions).as_py()
        if lowest < 0:
            raise PipelineError(f"kt sink: a row has the partition {lowest}; it must be 0 or more, or null")
        numbers = pc.add(pc.fill_null(partitions.cast(pa.int64()), -1), 1)
    if topics is None:
        return numbers
    return pc.add(pc.multiply(topics.indices.cast(pa.int64()), _PARTITIONS), numbers)


def row_columns(batch: pa.RecordBatch, now_ms: int) -> Iterator[RowColumns]:
    """Convert a batch without headers to row columns for the producer, split so that each buffer is at most 1 GiB
    unless one row is larger. `now_ms` replaces null timestamps; without any timestamp the producer sets the time.
    Raises PipelineError for a timestamp before 1970."""
    names = batch.schema.names
    value = batch.column(names.index("value"))
    key = batch.column(names.index("key")) if "key" in names else None
    if key is not None and key.null_count == len(key):
        key = None
    size = value.nbytes + (0 if key is None else key.nbytes)
    if size > _LARGEST_BUFFER and batch.num_rows > 1:
        half = batch.num_rows // 2
        yield from row_columns(batch.slice(0, half), now_ms)
        yield from row_columns(batch.slice(half), now_ms)
        return
    timestamps = _row_timestamps(batch, now_ms)
    data, positions, lengths = _cells(value, 0)
    if key is None:
        yield RowColumns(data, positions, lengths, timestamps=timestamps)
        return
    key_data, key_positions, key_lengths = _cells(key, len(data))
    yield RowColumns(b"".join((data, key_data)), positions, lengths, key_positions, key_lengths, timestamps)


def _cells(column: pa.Array, base: int) -> tuple[memoryview, array[int], array[int]]:
    """Return the bytes of a binary column, the position of each cell (starting at `base`) and its length (-1 for
    null)."""
    if pa.types.is_large_binary(column.type) or pa.types.is_large_string(column.type):
        column = column.cast(pa.binary())
    _, offsets, data = column.buffers()
    count = len(column)
    ends = memoryview(offsets).cast("B").cast("i")[column.offset : column.offset + count + 1]
    first, last = ends[0], ends[count]
    positions = array("i", bytes(ends[:count]))
    if first != base:
        plain = pa.Array.from_buffers(pa.int32(), count, [None, pa.py_buffer(positions)])
        positions = _ints(pc.add(plain, pa.scalar(base - first, pa.int32())))
    lengths = pc.binary_length(column)
    if lengths.null_count:
        lengths = pc.fill_null(lengths, pa.scalar(-1, pa.int32()))
    return memoryview(data if data is not None else b"").cast("B")[first:last], positions, _ints(lengths)


def _ints(column: pa.Array) -> array[int]:
    """Copy a 32-bit integer column without nulls to an array."""
    width = 4
    start = column.offset * width
    return array("i", bytes(memoryview(column.buffers()[1])[start : start + len(column) * width]))


def _row_timestamps(batch: pa.RecordBatch, now_ms: int) -> array[int] | None:
    """Return the timestamps of the rows as epoch milliseconds, `now_ms` for null; None if the batch has none. A column
    of another type than Spark's timestamp has no effect."""
    if "timestamp" not in batch.schema.names:
        return None
    column = batch.column(batch.schema.names.index("timestamp"))
    is_instant = pa.types.is_timestamp(column.type) and column.type.tz is not None
    return _timestamps(column, now_ms) if is_instant else None


def _timestamps(column: pa.Array, now_ms: int) -> array[int] | None:
    """Convert a timestamp column to epoch milliseconds, `now_ms` for null; None if all are null. Raises PipelineError
    for a timestamp before 1970."""
    if column.null_count == len(column):
        return None
    micros = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
    if pc.min(micros).as_py() < 0:
        raise PipelineError("kt sink: a row has a timestamp before 1970, which a record cannot have")
    millis = pc.fill_null(pc.divide(micros, _MICROSECONDS_A_MS), now_ms)
    start, width = millis.offset * 8, len(millis) * 8
    return array("q", bytes(memoryview(millis.buffers()[1])[start : start + width]))


def has_headers(batch: pa.RecordBatch) -> bool:
    """Return whether at least one row of the batch has a record header."""
    names = batch.schema.names
    if "headers" not in names:
        return False
    column = batch.column(names.index("headers"))
    return column.null_count < len(column) and len(column.flatten()) > 0


class _Header(TypedDict):
    """A record header as pyarrow returns it."""

    key: str | None
    value: bytes | None


class SinkRow(NamedTuple):
    """The key, value, timestamp (epoch ms) and headers of one row, for batches that have headers."""

    key: bytes | None
    value: bytes | None
    timestamp: int | None
    headers: tuple[tuple[str, bytes | None], ...]


def sink_rows(batch: pa.RecordBatch) -> Iterator[SinkRow]:
    """Yield the rows of a batch one by one. Raises PipelineError for a header without a key or a timestamp before
    1970."""
    names = batch.schema.names

    def cells(name: str) -> list[Any]:
        if name not in names:
            return [None] * batch.num_rows
        column = batch.column(names.index(name))
        return list((column.cast(pa.binary()) if name in ("key", "value") else column).to_pylist())

    timestamps: list[int | None] = [None] * batch.num_rows
    millis = _row_timestamps(batch, -1)
    if millis is not None:
        timestamps = [None if ms == -1 else ms for ms in millis]
    for key, value, timestamp, headers in zip(cells("key"), cells("value"), timestamps, cells("headers"), strict=True):
        yield SinkRow(key, value, timestamp, tuple(_header(header) for header in headers or ()))


def _header(header: _Header | None) -> tuple[str, bytes | None]:
    if header is None or header["key"] is None:
        raise PipelineError("kt sink: a header of a row has no key (null)")
    return header["key"], header["value"]
