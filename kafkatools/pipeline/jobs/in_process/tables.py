"""Sources of jobs in this process, and the DuckDB connection that aggregates their records.

Damaged ranges are left out and collected. DuckDB keeps what does not fit in its memory limit in a private temporary
directory, so the number of keys is not limited by memory.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from kafkatools.core.topic_partition import TopicPartition
from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.extras import ensure_installed
from kafkatools.pipeline.jobs.offsets import Ranges, offsets_of_topics, range_options, ranges_of_log
from kafkatools.pipeline.run.reports import Damage, SplitReport
from kafkatools.pipeline.scan.ordered import read_in_order
from kafkatools.pipeline.scan.plans import BATCHES, RECORDS, ScanPlan, close_clients
from kafkatools.pipeline.uris import LOG, Cluster, Uri

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

_MEMORY = "96MB"


@dataclass
class LocalSource:
    """A topic or log files. `isolation` is an isolation level, empty for that of the cluster's settings. `damages`
    collects the damaged ranges of all reads, by file and position. `has_whole_segments`: of log files
    also read what is below the log start offset."""

    uri: Uri
    cluster: Cluster | None = None
    isolation: str = ""
    damages: dict[tuple[str, int], Damage] = field(default_factory=dict)
    failure: Exception | None = None
    """The exception that ended the last read; DuckDB replaces it by one of its own."""
    has_whole_segments: bool = False

    @contextmanager
    def reader(self, columns: Sequence[str], table: str = RECORDS) -> Iterator[pa.RecordBatchReader]:
        """Open a reader of the columns of a table. Raises PipelineError, also while it is read."""
        import pyarrow as pa

        plan = self._plan(columns, table)
        try:
            with closing(read_in_order(plan.tasks(), plan.threads)) as batches:
                yield pa.RecordBatchReader.from_batches(plan.schema, self._watched(batches))
        finally:
            close_clients(self.uri)

    def _watched(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        try:
            yield from batches
        except Exception as error:  # a boundary: pyarrow and DuckDB keep only its text
            self.failure = error
            raise

    def topics(self) -> set[str]:
        """Return the names of the topics. Raises PipelineError."""
        return self._plan(()).topics()

    @contextmanager
    def in_order(self, columns: Sequence[str], ranges: Ranges) -> Iterator[Iterator[pa.RecordBatch]]:
        """Open an iterator over the records in these offset ranges. One thread reads them, since each further one takes
        100 MB. Raises PipelineError, also while it is read."""
        losses = {"failOnDataLoss": "false"} if self.uri.kind == LOG else {}  # as read_ranges
        plan = replace(self._plan(columns), options=range_options(ranges) | losses)
        try:
            with closing(read_in_order(plan.tasks(), plan.threads)) as batches:
                yield batches
        finally:
            close_clients(self.uri)

    def ranges(self) -> Ranges:
        """Return the offset range of each partition; of log files by their batch headers. Raises PipelineError."""
        if self.uri.kind != LOG:
            assert self.cluster is not None
            return offsets_of_topics(self.uri, {}, self.cluster)
        import pyarrow.compute as pc

        ends: dict[TopicPartition, int] = {}
        plan = replace(self._plan(("topic", "partition", "lastOffset"), BATCHES), on_report=lambda report: None)
        with closing(read_in_order(plan.tasks(), plan.threads)) as batches:
            for batch in batches:  # of one partition each
                place = TopicPartition(batch.column(0)[0].as_py(), batch.column(1)[0].as_py())
                ends[place] = max(ends.get(place, 0), pc.max(batch.column(2)).as_py() + 1)
        return ranges_of_log(self.uri, {}, ends)

    def _plan(self, columns: Sequence[str], table: str = RECORDS) -> ScanPlan:
        settings = {} if self.cluster is None else _settings(self.cluster)
        if self.isolation:
            settings["isolation.level"] = self.isolation
        return ScanPlan(
            self.uri, tuple(columns), table, settings=settings,
            on_report=self._on_report,
            options={"wholeSegments": "true"} if self.has_whole_segments else {},
        )  # fmt: skip

    def sorted_damages(self) -> list[Damage]:
        """Return the damaged ranges of all reads, sorted by file and position."""
        return [self.damages[place] for place in sorted(self.damages)]

    def _on_report(self, report: SplitReport) -> None:
        for damage in report.damages:
            self.damages[damage.file, damage.position] = damage


def _settings(cluster: Cluster) -> dict[str, str]:
    return {**cluster.settings, "bootstrap.servers": cluster.bootstrap}


@contextmanager
def connection() -> Iterator[duckdb.DuckDBPyConnection]:
    """Open a DuckDB connection for this context, with one thread and 96 MB: the process stays near 300 MiB, and two
    threads were slower. Raises PipelineError without the packages of the extra sql, and if DuckDB fails, as it does
    with a full disk."""
    ensure_installed("duckdb", "numpy", "pyarrow")
    import duckdb

    with tempfile.TemporaryDirectory(prefix="kt-job-") as directory:
        database = duckdb.connect(config={"temp_directory": directory, "memory_limit": _MEMORY})
        try:
            database.execute("SET threads=1")
            database.execute("SET TimeZone='UTC'")
            database.execute("SET python_enable_replacements=false")
            database.execute("SET preserve_insertion_order=false")
            yield database
        except duckdb.Error as error:
            reason = str(error).partition("\n")[0]
            raise PipelineError(f"{reason} (TMPDIR names the directory of temporary files: {directory})") from error
        finally:
            database.close()


def load(
    database: duckdb.DuckDBPyConnection, source: LocalSource, columns: Sequence[str], query: str, table: str = RECORDS
) -> None:
    """Run a statement that reads the table `input` once: these columns of the source. Raises PipelineError,
    duckdb.Error."""
    with source.reader(columns, table) as reader:
        load_rows(database, source, reader, query)


def load_rows(database: duckdb.DuckDBPyConnection, source: LocalSource, rows: pa.RecordBatchReader, query: str) -> None:
    """Run a statement that reads the table `input` once: rows made of those of a reader of the source. Raises
    PipelineError, duckdb.Error."""
    import duckdb

    database.register("input", rows)
    try:
        database.execute(query)
    except duckdb.Error as error:
        if source.failure is None:
            raise
        raise source.failure from error
    finally:
        database.unregister("input")


def number_of(database: duckdb.DuckDBPyConnection, query: str) -> int:
    """Return the number that a query gives in one row."""
    [(number,)] = database.execute(query).fetchall()
    return int(number)


def rows_of(database: duckdb.DuckDBPyConnection, query: str) -> tuple[list[str], list[tuple[object, ...]]]:
    """Return the columns and rows of a query. Times are datetimes in UTC."""
    table: pa.Table = database.sql(query).to_arrow_table()
    return table.column_names, [tuple(row.values()) for row in table.to_pylist()]
