"""Runs statements of kt pipeline sql: rows to stdout, everything else to stderr."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING

from kafkatools.commands.pipeline.show import count_text
from kafkatools.commands.pipeline.spark_progress import spark_progress
from kafkatools.console import Console
from kafkatools.exit_status import ExitStatus
from kafkatools.pipeline.catalog.catalog import Catalog, LocatedError, StatementError, located_error
from kafkatools.pipeline.catalog.statements import Statement
from kafkatools.pipeline.catalog.tables import TableReports
from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.run.executors import is_local
from kafkatools.pipeline.run.read_metrics import is_shown, read_metrics
from kafkatools.pipeline.run.session import plain_error, was_interrupted
from kafkatools.tools.row_texts import ROWS_AT_ONCE, TABLE, TEXT_FORMS, Rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

_INDENT = "  "


class Shell:
    """Runs statements one by one and prints their rows in a format. `file`: the file of the statements, for errors;
    empty without one."""

    def __init__(self, console: Console, spark: SparkSession, catalog: Catalog, form: str, file: str = "") -> None:
        self.catalog = catalog
        self.spark = spark
        self._console = console
        self._form = form
        self._file = file

    def run(self, statement: Statement, *, is_interactive: bool = False) -> ExitStatus:
        """Run a statement and print its rows or its error. Returns USAGE if the statement is wrong, FAILED if it fails.
        `is_interactive`: also print the number of rows and the time. Raises KeyboardInterrupt and BrokenPipeError."""
        start_ms = self._console.clock.now_ms()
        try:
            with spark_progress(self._console, self.spark, "Running", prints=True):
                rows = self._run(statement.text)
        except Exception as error:
            if was_interrupted(error):
                raise KeyboardInterrupt from error
            status = self._report(error, statement)
            if status is None:
                raise
            return status
        if is_interactive and rows is not None:
            seconds = (self._console.clock.now_ms() - start_ms) / 1000
            self._console.note(f"{count_text(rows, 'row')} in {seconds:.1f} s")
        return ExitStatus.OK

    def _run(self, text: str) -> int | None:
        """Run a statement and return the number of its rows; None for a statement that returns no rows."""
        with _table_reports(self.spark) as reports:
            prepared = self.catalog.prepare(text, is_counting=True, reports=reports)
            count = None
            if prepared.frame is not None:
                tables = {} if reports is None else reports.by_table
                with read_metrics(self.spark, f"kt pipeline sql: {' '.join(text.split())}", tables):
                    count = self._print(prepared.frame)
        if prepared.note:
            self._console.note(prepared.note)
        for name, bad in prepared.undecodable().items():
            for part, number in bad.items():
                self._console.note(f"{name}: {count_text(number, part)} could not be decoded: null in their place")
        return count

    def _print(self, frame: DataFrame) -> int:
        count = 0

        def parts() -> Rows:
            nonlocal count
            rows = frame.toLocalIterator()
            while part := _next_rows(rows):
                count += len(part)
                yield part

        is_aligned = self._console.is_terminal and self._form == TABLE
        for text in TEXT_FORMS[self._form](frame.columns, parts(), is_aligned):
            self._console.write(text.encode("utf-8", "surrogateescape"))
            self._console.flush()
        self._console.flush()
        return count

    # -- Errors --

    def _report(self, error: Exception, statement: Statement) -> ExitStatus | None:
        """Print the error of a statement. Returns the status; None, without a line, if the error has another cause."""
        from pyspark.errors import PySparkException

        if isinstance(error, PipelineError):
            located = error if isinstance(error, LocatedError) else LocatedError(str(error))
        elif isinstance(error, PySparkException):
            located = located_error(error)
        elif type(error).__module__.startswith(("pyspark.", "py4j.")):
            located = LocatedError(plain_error(error))
        else:
            return None
        status = ExitStatus.USAGE if isinstance(error, StatementError) else ExitStatus.FAILED
        self._print_error(located, statement, status)
        return status

    def _print_error(self, error: LocatedError, statement: Statement, status: ExitStatus) -> None:
        kind = "USAGE" if status is ExitStatus.USAGE else "FAILED"
        if not error.line:
            place = f" ({self._file}, line {statement.line})" if self._file else ""
            self._console.error(f"{error}{place}", kind, exit=int(status))
            return
        line = statement.line + error.line - 1
        file = f"{self._file}, " if self._file else ""
        if self._console.is_json:
            self._console.error(str(error), kind, exit=int(status), line_number=line, position=error.column)
            return
        self._console.error(f"{error} ({file}line {line}, position {error.column})")
        self._console.error_lines(line_with_caret(statement.text, error.line, error.column, self._console.width))


@contextmanager
def _table_reports(spark: SparkSession) -> Iterator[TableReports | None]:
    """Yield the place for the reports of a statement's readers; None if they would not be shown in Spark's UI, or
    executors write them on other machines."""
    if not is_shown(spark) or not is_local(spark.sparkContext):
        yield None
        return
    # LIMIT leaves tasks that write reports while the directory is deleted.
    with tempfile.TemporaryDirectory(prefix="kt-pipeline-", ignore_cleanup_errors=True) as directory:
        yield TableReports(directory)


def _next_rows(rows: Iterator[Row]) -> list[Row]:
    """Return the next rows, none at the end. Raises PipelineError for a value that Python cannot represent, such as a
    timestamp after the year 9999."""
    try:
        return list(islice(rows, ROWS_AT_ONCE))
    except (ValueError, OverflowError) as error:
        raise PipelineError(f"A value cannot be shown: {error}; CAST(... AS STRING) shows dates and times") from error


def line_with_caret(text: str, line: int, column: int, width: int) -> str:
    """Return a line of SQL, or the part of it that fits a width, with a caret below a column; both count from 1."""
    lines = text.split("\n")
    source = lines[line - 1].replace("\t", " ") if line <= len(lines) else ""
    room = max(width - len(_INDENT), 20)
    start = 0 if len(source) <= room else max(0, min(column - 1 - room // 2, len(source) - room))
    return f"{_INDENT}{source[start : start + room]}\n{_INDENT}{' ' * (column - 1 - start)}^"
