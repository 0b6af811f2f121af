"""console-consumer --output-format parquet: records as a Parquet file, in row groups of bounded size."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pyarrow.parquet as pq

from kafkatools.core.consumer.completed_fetch import FetchedColumns
from kafkatools.tools.lines.formatters import OnError
from kafkatools.tools.record_files.table_formats import Written, runs_with_text_names

_TIMESTAMP = pa.timestamp("ms", "UTC")
_HEADERS = pa.list_(pa.struct([("name", pa.string()), ("value", pa.binary())]))
SCHEMA = pa.schema(
    [
        pa.field("topic", pa.string(), nullable=False),
        pa.field("partition", pa.int32(), nullable=False),
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("timestamp", _TIMESTAMP),
        pa.field("timestamp_type", pa.string(), nullable=False),
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("headers", _HEADERS, nullable=False),
    ]
)
_ROW_GROUP_RECORDS = 1 << 17


class ParquetFormatter:
    """Writes the records of a run as one Parquet file. A row group is written when its records have
    `row_group_bytes()` or are 131,072. A header name that is not UTF-8 fails its record."""

    def __init__(self, row_group_bytes: Callable[[], int]) -> None:
        self._row_group_bytes = row_group_bytes
        self._stream = Written()
        self._writer = pq.ParquetWriter(self._stream, SCHEMA, compression="zstd")
        self._batches: list[pa.RecordBatch] = []
        self._bytes = self._records = 0

    def write(self, out: bytearray, fetched: FetchedColumns, on_error: OnError) -> int:
        """Take the records, and append full row groups to `out`. Returns how many were processed."""
        count, runs = runs_with_text_names(fetched.columns, on_error)
        for columns in runs:
            batch = _batch(fetched._replace(columns=columns))
            self._batches.append(batch)
            self._bytes += batch.nbytes
            self._records += batch.num_rows
        if self._bytes >= self._row_group_bytes() or self._records >= _ROW_GROUP_RECORDS:
            self._write_row_group()
        self._stream.take(out)
        return count

    def finish(self, out: bytearray) -> None:
        """Append the last row group and the footer."""
        self._write_row_group()
        self._writer.close()
        self._stream.take(out)

    def _write_row_group(self) -> None:
        if self._batches:
            self._writer.write_table(pa.Table.from_batches(self._batches, SCHEMA), row_group_size=_ROW_GROUP_RECORDS)
            self._batches, self._bytes, self._records = [], 0, 0


def _batch(fetched: FetchedColumns) -> pa.RecordBatch:
    columns, count = fetched.columns, fetched.columns.count
    rows = range(count)
    headers = [
        [{"name": str(name, "utf-8"), "value": value} for name, value in columns.raw_headers(row)] for row in rows
    ]
    arrays = [
        pa.repeat(pa.scalar(fetched.topic), count),
        pa.repeat(pa.scalar(fetched.partition, pa.int32()), count),
        pa.array(columns.offsets, pa.int64()),
        pa.array([None if time == -1 else time for time in columns.timestamps], _TIMESTAMP),
        pa.repeat(pa.scalar(columns.timestamp_type.label), count),
        pa.array([columns.key(row) for row in rows], pa.binary()),
        pa.array([columns.value(row) for row in rows], pa.binary()),
        pa.array(headers, _HEADERS),
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
