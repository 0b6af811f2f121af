"""`retention-forecast` and `compact-forecast` in this process; `jobs/forecast.py` explains the columns.

Records are grouped by segment and key while they are read, so that only the groups are kept: each has the sums of its
records and the last one, which alone may be the latest of its key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kafkatools.pipeline.jobs.forecast_segments import LogSegments, segments_of
from kafkatools.pipeline.jobs.in_process.tables import LocalSource, load, load_rows
from kafkatools.pipeline.scan.plans import BATCHES

if TYPE_CHECKING:
    import duckdb
    import numpy as np
    import numpy.typing as npt
    import pyarrow as pa

    from kafkatools.core.topic_partition import TopicPartition
    from kafkatools.pipeline.jobs.compaction_rules import CleanableRange
    from kafkatools.pipeline.sources.log.files import LogFile

_BATCH_COLUMNS = ("file", "position", "maxTimestamp", "isTransactional")
_RECORD_COLUMNS = ("key", "value", "topic", "partition", "offset", "headers")
_MOST_OFFSETS = (1 << 31) - 1  # of a segment, as in Kafka
_CLEAN, _DIRTY, _ABORTED, _WITHOUT_KEY = range(4)

_TIMES = """
CREATE TABLE times AS
SELECT file, epoch_ms(max("maxTimestamp")) AS newest, epoch_ms(arg_min("maxTimestamp", position)) AS first,
       bool_or("isTransactional") AS has_transactions
FROM input GROUP BY file
"""
_GROUPS = """
CREATE TABLE groups AS
SELECT log, segment, kind, key, count(*) AS n, sum(bytes)::BIGINT AS bytes, count(*) FILTER (is_null) AS nulls,
       max(place) AS last
FROM input GROUP BY log, segment, kind, key
"""
_LATEST = f"""
CREATE TABLE latest AS SELECT log, key, max(segment) AS latest FROM groups WHERE kind = {_DIRTY} GROUP BY log, key
"""
_KEPT = f"""
CASE WHEN kind = {_CLEAN} AND latest IS NULL THEN {{0}} WHEN kind = {_DIRTY} AND segment = latest THEN {{1}} ELSE 0 END
"""
_SEGMENTS = f"""
WITH fates AS (
    SELECT segment, kind, n, bytes, {_KEPT.format("n", "1")} AS kept,
           {_KEPT.format("bytes", "(last >> 1) & 2147483647")} AS kept_bytes,
           {_KEPT.format("nulls", "last & 1")} AS kept_nulls
    FROM groups LEFT JOIN latest ON groups.log = latest.log AND groups.key = latest.key
)
SELECT segment, sum(n)::BIGINT, coalesce(sum(n - kept) FILTER (kind IN ({_CLEAN}, {_DIRTY})), 0)::BIGINT,
       coalesce(sum(n) FILTER (kind = {_ABORTED}), 0)::BIGINT,
       coalesce(sum(n) FILTER (kind = {_WITHOUT_KEY}), 0)::BIGINT,
       sum(kept_nulls)::BIGINT, sum(bytes)::BIGINT, sum(bytes - kept_bytes)::BIGINT
FROM fates GROUP BY segment ORDER BY segment
"""


class MeasuredLogs(NamedTuple):
    """The segments of each partition, and whether any batch is part of a transaction."""

    logs: list[LogSegments]
    has_transactions: bool


def measure_segments(
    database: duckdb.DuckDBPyConnection, source: LocalSource, files: Sequence[LogFile]
) -> MeasuredLogs:
    """Read the batch headers, and return the segments with their timestamps. Raises PipelineError."""
    load(database, source, _BATCH_COLUMNS, _TIMES, BATCHES)
    rows = database.execute("SELECT * FROM times").fetchall()
    times = {file: (newest, first) for file, newest, first, _ in rows}
    return MeasuredLogs(segments_of(files, times), any(row[3] for row in rows))


def compact_forecast(
    database: duckdb.DuckDBPyConnection,
    source: LocalSource,
    measured: MeasuredLogs,
    ranges: Mapping[TopicPartition, CleanableRange],
) -> list[tuple[object, ...]]:
    """Return a row of COMPACTION_COLUMNS for each segment with cleanable records. Raises PipelineError."""
    placement = _Placement(measured.logs, ranges)
    columns = (*_RECORD_COLUMNS, "transaction") if measured.has_transactions else _RECORD_COLUMNS
    with source.reader(columns) as reader:
        load_rows(database, source, placement.rows_of(reader), _GROUPS)
    database.execute(_LATEST)
    return [placement.row(segment, sums) for segment, *sums in database.execute(_SEGMENTS).fetchall()]


class _Placement:
    """Gives each cleanable record the number of its segment, among the segments of all partitions, its kind and its
    place: the offset relative to the segment, then the record's bytes, then whether its value is null, in one number.
    So the maximum of the places of a group also has the bytes of its last record."""

    def __init__(self, logs: Sequence[LogSegments], ranges: Mapping[TopicPartition, CleanableRange]) -> None:
        import numpy as np

        self._logs = {tuple(log.partition): (number, log) for number, log in enumerate(logs)}
        self._ranges = ranges
        self._segments = [(log, segment) for log in logs for segment in log.segments]
        self._bases = [np.array([segment.base_offset for segment in log.segments], np.int64) for log in logs]
        self._firsts = np.cumsum([0, *(len(log.segments) for log in logs)])

    def rows_of(self, batches: pa.RecordBatchReader) -> pa.RecordBatchReader:
        """Return the rows of the table `groups` before they are grouped."""
        import pyarrow as pa

        schema = pa.schema(
            {
                "log": pa.int32(), "segment": pa.int32(), "kind": pa.int8(), "key": pa.binary(), "place": pa.int64(),
                "is_null": pa.bool_(), "bytes": pa.int32(),
            }
        )  # fmt: skip
        return pa.RecordBatchReader.from_batches(schema, self._placed(batches, schema))

    def _placed(self, batches: pa.RecordBatchReader, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        for batch in batches:  # a batch of a scan is of one partition
            number, log = self._logs[batch["topic"][0].as_py(), batch["partition"][0].as_py()]
            cleanable = self._ranges[log.partition]
            rows = batch.filter(pc.less(batch["offset"], cleanable.first_uncleanable_offset))
            if not rows.num_rows:
                continue
            offsets = rows["offset"].to_numpy()
            places = np.maximum(np.searchsorted(self._bases[number], offsets, side="right") - 1, 0)
            kinds = np.where(offsets >= cleanable.first_dirty_offset, _DIRTY, _CLEAN)
            kinds[_is_null(rows["key"])] = _WITHOUT_KEY
            keys = rows["key"]
            if "transaction" in rows.schema.names:
                is_aborted = pc.fill_null(pc.equal(rows["transaction"], "aborted"), False)
                kinds[is_aborted.to_numpy(zero_copy_only=False)] = _ABORTED
                keys = pc.if_else(is_aborted, pa.scalar(None, pa.binary()), keys)
            sizes = _lengths(rows["key"]) + _lengths(rows["value"]) + _header_bytes(rows["headers"])
            is_null = _is_null(rows["value"])
            order = np.minimum(offsets - self._bases[number][places], _MOST_OFFSETS) << 32 | sizes << 1 | is_null
            columns = (np.full(len(offsets), number), places + self._firsts[number], kinds, keys, order, is_null, sizes)
            arrays = [pa.array(column, field.type) if isinstance(column, np.ndarray) else column
                      for column, field in zip(columns, schema, strict=True)]  # fmt: skip
            yield pa.RecordBatch.from_arrays(arrays, schema=schema)

    def row(self, number: int, sums: Sequence[int]) -> tuple[object, ...]:
        """Return the row of a segment from its sums, records to removableBytes."""
        log, segment = self._segments[number]
        cleanable = self._ranges[log.partition]
        is_dirty = segment.base_offset >= cleanable.first_dirty_offset
        return (
            *log.partition, segment.base_offset, segment.size_bytes, is_dirty, *sums, cleanable.is_due,
            cleanable.dirty_ratio,
        )  # fmt: skip


def _is_null(column: pa.Array) -> npt.NDArray[np.bool_]:
    import pyarrow.compute as pc

    is_null: npt.NDArray[np.bool_] = pc.is_null(column).to_numpy(zero_copy_only=False)
    return is_null


def _lengths(column: pa.Array) -> npt.NDArray[np.int64]:
    """Return the lengths in bytes, 0 for null."""
    import numpy as np
    import pyarrow.compute as pc

    lengths: npt.NDArray[np.int64] = pc.fill_null(pc.binary_length(column), 0).to_numpy().astype(np.int64)
    return lengths


def _header_bytes(column: pa.ListArray) -> npt.NDArray[np.int64]:
    """Return the bytes of the keys and values of each record's headers."""
    import numpy as np
    import pyarrow.compute as pc

    counts = pc.fill_null(pc.list_value_length(column), 0).to_numpy().astype(np.int64)
    keys, values = column.flatten().flatten()
    sums = np.concatenate(([0], np.cumsum(_lengths(keys) + _lengths(values))))
    ends = np.cumsum(counts)
    total: npt.NDArray[np.int64] = sums[ends] - sums[ends - counts]
    return total
