"""`kafkatools.scan`: records of a topic or of log files as Arrow record batches, for pandas, Polars and DuckDB."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.extras import ensure_installed
from kafkatools.pipeline.scan.ordered import read_in_order
from kafkatools.pipeline.scan.plans import COLUMNS, DEFAULT_COLUMNS, RECORDS, ScanPlan, close_clients
from kafkatools.pipeline.sources.record_bounds import EPOCH, MAX_LONG, MIN_LONG, RecordBounds
from kafkatools.pipeline.uris import LOG, TOPIC, Uri, parse_source

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow as pa

_MOST_THREADS = 4


def scan(
    uri: str,
    settings: Mapping[str, object] | None = None,
    /,
    *,
    columns: Sequence[str] | None = None,
    table: str = RECORDS,
    partitions: Iterable[int] | None = None,
    offsets: tuple[int | None, int | None] = (None, None),
    timestamps: tuple[int | datetime | None, int | datetime | None] = (None, None),
    threads: int | None = None,
    **more_settings: object,
) -> Scan:
    """Return the records of `topic:NAME` or `log:PATH` (a log directory, a partition's directory or a segment) as a
    Scan, which reads them when it is used.

    `columns` are those of the Spark sources, by default key, value, topic, partition, offset, timestamp and
    timestampType; further ones are headers, leaderEpoch, producerId, producerEpoch, sequence, transaction and
    batchPosition. Only these are made. `offsets` and `timestamps` are (first, end) without the end, None for no limit;
    timestamps are epoch milliseconds or datetimes with a time zone. `table` may be "batches" or "errors" for log files.

    Settings are a consumer's, as for `Consumer`: `bootstrap_servers` for a topic, and `isolation_level` for both.
    `threads` read parts of the records, by default one for each core and at most four; the order is always that of
    topic, partition and offset. Raises PipelineError (kafkatools.errors) for an invalid URI, column or bound; reading
    raises it for a partition that does not exist.
    """
    ensure_installed("numpy", "pyarrow")
    place = parse_source(uri)
    numbers = None if partitions is None else frozenset(partitions)
    texts = {**(settings or {}), **{name.replace("_", "."): value for name, value in more_settings.items()}}
    _check(place, table, texts)
    plan = ScanPlan(
        place,
        tuple(DEFAULT_COLUMNS[table] if columns is None else columns),
        table,
        bounds=_bounds(numbers, offsets, timestamps),
        settings={name: str(value) for name, value in texts.items()},
        threads=default_threads() if threads is None else threads,
        required_partitions=numbers or frozenset(),
    )
    return Scan(plan)


def default_threads() -> int:
    """Return the number of threads of a scan: one for each core, at most four."""
    return min(os.cpu_count() or 1, _MOST_THREADS)


class Scan:
    """Records as Arrow record batches. Each iteration reads them anew; a topic is read to its end of that moment.

    Arrow consumers take the object itself (`__arrow_c_stream__`): `duckdb.sql("SELECT count(*) FROM scanned")`.
    Damage in a log file raises PipelineError with the file and the position.
    """

    def __init__(self, plan: ScanPlan) -> None:
        self._plan = plan
        self.schema: pa.Schema = plan.schema

    def __repr__(self) -> str:
        return f"Scan({str(self._plan.uri)!r}, columns={list(self._plan.columns)})"

    def _repr_html_(self) -> str:
        """The first rows and the size of the topic or files, for Jupyter; an error of reading is shown."""
        from kafkatools.pipeline.scan.notebook import scan_html

        try:
            return scan_html(self._plan)
        finally:
            close_clients(self._plan.uri)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield the record batches, about 2 MiB or 32,768 rows each. Raises PipelineError."""
        plan = self._plan
        try:
            yield from read_in_order(plan.tasks(), plan.threads)
        finally:
            close_clients(plan.uri)

    def to_reader(self) -> pa.RecordBatchReader:
        """Return a pyarrow.RecordBatchReader, which reads as far as it is used."""
        import pyarrow as pa

        return pa.RecordBatchReader.from_batches(self.schema, iter(self))

    def to_arrow(self) -> pa.Table:
        """Read all records into a pyarrow.Table. Raises PipelineError."""
        import pyarrow as pa

        return pa.Table.from_batches(iter(self), schema=self.schema)

    def to_pandas(self, **options: Any) -> pandas.DataFrame:
        """Read all records into a pandas.DataFrame; `options` are those of pyarrow.Table.to_pandas."""
        frame: pandas.DataFrame = self.to_arrow().to_pandas(**options)
        return frame

    def to_polars(self) -> polars.DataFrame:
        """Read all records into a polars.DataFrame."""
        import polars

        frame = polars.from_arrow(self.to_arrow())
        assert isinstance(frame, polars.DataFrame)
        return frame

    def __arrow_c_schema__(self) -> object:
        return self.schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return self.to_reader().__arrow_c_stream__(requested_schema)


def _check(uri: Uri, table: str, settings: Mapping[str, object]) -> None:
    if uri.kind not in (TOPIC, LOG):
        raise PipelineError(f"{uri} cannot be scanned; use topic:NAME or log:PATH")
    if table not in COLUMNS:
        raise PipelineError(f"There is no table {table}; the tables are {', '.join(COLUMNS)}")
    if uri.kind == TOPIC and (not uri.target or "," in uri.target):
        raise PipelineError(f"{uri} must name exactly one topic: topic:NAME")
    if uri.kind == TOPIC and not settings.get("bootstrap.servers"):
        raise PipelineError(f"{uri} needs the address of its cluster: bootstrap_servers='HOST:PORT'")
    if uri.kind == LOG and (others := sorted(settings.keys() - {"isolation.level"})):
        raise PipelineError(f"{uri} is read from files and has no setting {others[0]}, only isolation.level")


def _bounds(
    partitions: frozenset[int] | None,
    offsets: tuple[int | None, int | None],
    timestamps: tuple[int | datetime | None, int | datetime | None],
) -> RecordBounds:
    first, end = offsets
    start_ms, end_ms = (None if time is None else _milliseconds(time) for time in timestamps)
    return RecordBounds(
        partitions=partitions,
        start_offset=max(first or 0, 0),
        end_offset=MAX_LONG if end is None else end,
        start_timestamp_ms=MIN_LONG if start_ms is None else start_ms,
        end_timestamp_ms=MAX_LONG if end_ms is None else end_ms,
    )


def _milliseconds(time: int | datetime) -> int:
    """Return a time as epoch milliseconds, rounded up. Raises PipelineError for a datetime without a time zone."""
    if isinstance(time, int):
        return time
    if time.tzinfo is None:
        raise PipelineError(f"The time {time} has no time zone; use for example datetime(..., tzinfo=timezone.utc)")
    return -((EPOCH - time) // timedelta(milliseconds=1))
