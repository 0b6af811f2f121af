"""Arrow batches as what the producer takes: rows in one buffer, by topic and partition.

Rules: the bytes of values are not copied where there are no keys, and copied once, beside the keys, where there are;
nothing is done row by row but where a batch has headers. Rows of one partition keep their order. Columns and their
types are those of Spark's Kafka sink (KafkaWriter), `timestamp` besides; columns that Spark's Kafka source has and a
record cannot take are passed over, any other is refused, because its content would be lost without a word.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple, TypedDict

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from kafkatools.core.records.columns import RowColumns
from kafkatools.pipeline.errors import PipelineError

_TEXT = ("string", "binary")
_HEADERS = "array<struct<key:string,value:binary>>"
_TYPES = {
    "value": _TEXT,
    "key": _TEXT,
    "topic": ("string",),
    "partition": ("int",),
    "headers": (_HEADERS,),
    "timestamp": ("timestamp",),
}
_OF_THE_SOURCE = frozenset(
    {
        "offset",
        "timestampType",
        "leaderEpoch",
        "producerId",
        "producerEpoch",
        "sequence",
        "transaction",
        "batchPosition",
    }
)
_LARGEST_BUFFER = 1 << 30
_MICROSECONDS_A_MS = 1000
_PARTITIONS = 1 << 32


class Target(NamedTuple):
    """Where rows go; the partition is None when the producer chooses."""

    topic: str
    partition: int | None


def check_columns(schema: StructType, topic: str | None) -> None:
    """Raises PipelineError for a column that is missing, is of another type or has no place in a record."""
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    if topic is None and "topic" not in types:
        raise PipelineError(
            "kt sink: the topic is missing: give the option `topic` or a column `topic` (the option wins)"
        )
    if "value" not in types:
        raise PipelineError(f"kt sink: the column `value` is missing; the query has {_listed(types)}")
    for name, found in types.items():
        wanted = _TYPES.get(name)
        if wanted is not None and found not in wanted:
            raise PipelineError(f"kt sink: the column `{name}` is {found}, it must be {' or '.join(wanted)}")
    unknown = [name for name in types if name not in _TYPES and name not in _OF_THE_SOURCE]
    if unknown:
        raise PipelineError(
            f"kt sink: a record has no place for {_listed(unknown)}; its columns are {_listed(_TYPES)}: "
            "leave others out or put them into the value, with to_json(struct(*)) for one"
        )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def split_by_target(batch: pa.RecordBatch, topic: str | None) -> Iterator[tuple[Target, pa.RecordBatch]]:
    """The rows of a batch by where they go, rows of one target in their order. Raises PipelineError for a row without
    a topic."""
    names = batch.schema.names
    topics: pa.Array = None  # None: all rows have one topic
    partitions: pa.Array = None  # None: no row has a partition
    if topic is None:
        topics = batch.column(names.index("topic")).dictionary_encode()
        if topics.null_count:
            raise PipelineError("kt sink: a row has no topic (null): give every row one, or the option `topic` for all")
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
    """Topic and partition of each row as one number: the partition is one more than its own, 0 for null."""
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
    """The rows as the producer takes them, in pieces whose bytes fit 32-bit places."""
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
    timestamps = _timestamps(batch.column(names.index("timestamp")), now_ms) if "timestamp" in names else None
    data, positions, lengths = _cells(value, 0)
    if key is None:
        yield RowColumns(data, positions, lengths, timestamps=timestamps)
        return
    key_data, key_positions, key_lengths = _cells(key, len(data))
    yield RowColumns(b"".join((data, key_data)), positions, lengths, key_positions, key_lengths, timestamps)


def _cells(column: pa.Array, base: int) -> tuple[memoryview, array[int], array[int]]:
    """The bytes of a column, and where its cells begin, `base` on, and how long they are (-1 for null)."""
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
    """A column of 32-bit integers without nulls."""
    width = 4
    start = column.offset * width
    return array("i", bytes(memoryview(column.buffers()[1])[start : start + len(column) * width]))


def _timestamps(column: pa.Array, now_ms: int) -> array[int] | None:
    """Milliseconds; a row without a timestamp has the time of now. Raises PipelineError for one before 1970."""
    if column.null_count == len(column):
        return None
    micros = column.cast(pa.timestamp("us", column.type.tz)).cast(pa.int64())
    if pc.min(micros).as_py() < 0:
        raise PipelineError("kt sink: a row has a timestamp before 1970, which a record cannot have")
    millis = pc.fill_null(pc.divide(micros, _MICROSECONDS_A_MS), now_ms)
    start, width = millis.offset * 8, len(millis) * 8
    return array("q", bytes(memoryview(millis.buffers()[1])[start : start + width]))


def has_headers(batch: pa.RecordBatch) -> bool:
    """Whether any row has headers."""
    names = batch.schema.names
    if "headers" not in names:
        return False
    column = batch.column(names.index("headers"))
    return column.null_count < len(column) and len(column.flatten()) > 0


class _Header(TypedDict):
    """A header of a row, as pyarrow gives it."""

    key: str | None
    value: bytes | None


class SinkRow(NamedTuple):
    """One row, for those that have headers."""

    key: bytes | None
    value: bytes | None
    timestamp: int | None
    headers: tuple[tuple[str, bytes | None], ...]


def rows(batch: pa.RecordBatch) -> Iterator[SinkRow]:
    """The rows one by one. Raises PipelineError for a header without a name."""
    names = batch.schema.names

    def cells(name: str) -> list[Any]:
        if name not in names:
            return [None] * batch.num_rows
        column = batch.column(names.index(name))
        return list((column.cast(pa.binary()) if name in ("key", "value") else column).to_pylist())

    timestamps: list[int | None] = [None] * batch.num_rows
    if "timestamp" in names:
        found = _timestamps(batch.column(names.index("timestamp")), -1)
        timestamps = timestamps if found is None else [None if ms == -1 else ms for ms in found]
    for key, value, timestamp, headers in zip(cells("key"), cells("value"), timestamps, cells("headers"), strict=True):
        yield SinkRow(key, value, timestamp, tuple(_header(header) for header in headers or ()))


def _header(header: _Header | None) -> tuple[str, bytes | None]:
    if header is None or header["key"] is None:
        raise PipelineError("kt sink: a header of a row has no key (null)")
    return header["key"], header["value"]
