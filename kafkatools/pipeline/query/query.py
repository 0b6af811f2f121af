"""A query: checked before anything is read, then run with only the records and columns that it uses.

1. DuckDB parses the statement, which must be one SELECT, and lists its tables.
2. Empty tables of the same names bind it and give the optimized plan (`pushdown.py`). The connection has no access to
   files other than those of the query from here on.
3. The empty tables are replaced by Arrow streams of the records under the same names, the settings are locked, and the
   statement is run. Columns that the query does not use are null there: the statement means the same as in step 2.

One connection serves all steps: a second one would take longer to open than a small query to run.

Rows are read as far as the result is used, so a LIMIT ends the scan.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafkatools.pipeline.extras import ensure_installed
from kafkatools.pipeline.query.pushdown import RESET, SETTING, TableNeeds, needs_of
from kafkatools.pipeline.query.stream import RecordStream
from kafkatools.pipeline.query.tables import FileTable, RecordTable, resolve, table_names
from kafkatools.pipeline.scan.plans import ScanPlan
from kafkatools.pipeline.scan.scan import default_threads
from kafkatools.pipeline.uris import TOPIC
from kafkatools.tools.search import sql
from kafkatools.tools.search.sql import QuotedSql, SqlError

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

_BATCH_ROWS = 32768
_EXPLAIN = "EXPLAIN "


@dataclass(frozen=True)
class Query:
    """A checked statement, its tables, and its needs of each table of records. `connection` has the statement's
    files as views and no table of records yet; the Result closes it, so a query runs once."""

    text: QuotedSql
    records: Sequence[RecordTable]
    files: Sequence[FileTable]
    needs: Mapping[str, TableNeeds]
    connection: duckdb.DuckDBPyConnection

    @property
    def needs_cluster(self) -> bool:
        """True if the query reads a topic."""
        return any(table.uri.kind == TOPIC for table in self.records)


def check(text: str, *, only_topics: bool = False, memory_bytes: int | None = None) -> Query:
    """Parse and bind a statement; reads no record. `only_topics`: refuse files before any is looked up. `memory_bytes`:
    DuckDB's memory limit, None for its default. Raises SqlError for wrong SQL and for other statements than one SELECT,
    PipelineError for a table that cannot be read and for a missing package."""
    ensure_installed("duckdb", "numpy", "pyarrow")
    quoted = sql.quote_offset(text)
    words = sql.names_of(text)
    connection = sql.connect_unlocked()
    if memory_bytes is not None:
        connection.execute(f"SET memory_limit='{memory_bytes}B'")
    try:
        with _one_line_errors(quoted):
            tables = [resolve(name, words, only_topics=only_topics) for name in _names(connection, quoted)]
            records = [table for table in tables if isinstance(table, RecordTable)]
            files = [table for table in tables if isinstance(table, FileTable)]
            sql.restrict(connection, _paths(files), [SETTING, *(table.definition() for table in tables)])
        with _one_line_errors(quoted, len(_EXPLAIN)):
            connection.execute(_EXPLAIN + quoted.text)  # binds; the errors of connection.sql have no position
        needs = needs_of(connection, quoted.text, {table.name: tuple(table.columns) for table in records})
        connection.execute(";".join([RESET, *(f"DROP TABLE {sql.quote_name(table.name)}" for table in records)]))
        sql.lock(connection)
    except BaseException:
        connection.close()
        raise
    return Query(quoted, records, files, needs, connection)


def _names(connection: duckdb.DuckDBPyConnection, text: QuotedSql) -> list[str]:
    """Return the sorted names of the tables of a statement. Raises duckdb.Error, and SqlError if it is not a SELECT."""
    import duckdb

    statements = connection.extract_statements(text.text)
    if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
        raise SqlError("only one SELECT statement is allowed: a query reads and changes nothing")
    row = connection.execute("SELECT json_serialize_sql(?::VARCHAR)", [text.text]).fetchone()
    return table_names(json.loads(row[0] if row is not None else "{}"))


def _paths(files: Sequence[FileTable]) -> list[str]:
    return [path for table in files for path in table.paths]


class Result:
    """The rows of a query: the `schema` of the result, and Arrow record batches. Close it after use."""

    def __init__(self, query: Query, settings: Mapping[str, str]) -> None:
        """Start a query. `settings` are a consumer's; log files use only `isolation.level`. Raises PipelineError and
        SqlError."""
        self._query = query
        self._streams = [RecordStream(_plan(query, table, settings), table.columns) for table in query.records]
        self._connection = query.connection
        self._reader: pa.RecordBatchReader | None = None
        try:
            with self._errors():
                for table, stream in zip(query.records, self._streams, strict=True):
                    self._connection.register(table.name, stream)
                self._reader = self._connection.sql(query.text.text).to_arrow_reader(_BATCH_ROWS)
        except BaseException:
            self.close()
            raise
        self.schema: pa.Schema = self._reader.schema

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        """Yield the batches of rows. Raises SqlError if the query fails on a row, PipelineError if a source fails."""
        while self._reader is not None:
            with self._errors():
                try:
                    batch = self._reader.read_next_batch()
                except StopIteration:
                    return
            yield batch

    def close(self) -> None:
        """End the scans and close the connection to DuckDB."""
        if self._reader is not None:
            self._reader.close()
            self._reader = None
        for table in self._query.records:
            self._connection.unregister(table.name)
        self._connection.close()
        for stream in self._streams:
            stream.close()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Raise the error of a source in place of DuckDB's error about it, and DuckDB's own errors as one line."""
        try:
            with _one_line_errors(self._query.text):
                yield
        except Exception:
            for stream in self._streams:
                error, stream.error = stream.error, None
                if error is not None:
                    raise error from error.__cause__
            raise


def _plan(query: Query, table: RecordTable, settings: Mapping[str, str]) -> ScanPlan:
    needs = query.needs[table.name]
    columns = tuple(name for name in table.columns if name in needs.columns) or ("partition",)
    return ScanPlan(
        table.uri,
        columns,
        types=table.columns,
        bounds=needs.bounds,
        settings=settings,
        threads=default_threads(),
        decodes_records=False,
    )


@contextmanager
def _one_line_errors(text: QuotedSql, shift: int = 0) -> Iterator[None]:
    import duckdb
    import pyarrow as pa

    try:
        yield
    except (duckdb.Error, pa.ArrowException) as error:
        raise SqlError(sql.describe_error(error, text, shift=shift)) from error
