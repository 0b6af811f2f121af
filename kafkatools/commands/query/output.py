"""Output of kt query: rows as a table, JSON, CSV or Parquet, to stdout or to a file that is replaced as a whole.

Rows are written as the query delivers them. The columns of a table have the width of its first rows.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kafkatools.exit_status import CommandError, UsageError
from kafkatools.tools.row_texts import CSV, JSON, ROWS_AT_ONCE, TABLE, TEXT_FORMS, Rows, TextForm

if TYPE_CHECKING:
    from io import FileIO

    import pyarrow as pa

    from kafkatools.console import Console

PARQUET = "parquet"
_FORMATS = (TABLE, JSON, CSV, PARQUET)
_BY_EXTENSION = {".csv": CSV, ".json": JSON, ".jsonl": JSON, ".parquet": PARQUET}

Writer = Callable[["pa.Schema", "Iterable[pa.RecordBatch]"], None]


def row_writer(console: Console, output_format: str | None, path: str | None) -> Writer:
    """Return the function that writes rows, from --output-format and --output. Raises UsageError for a format that does
    not exist or does not fit."""
    default = JSON if console.is_json else TABLE
    chosen = output_format or _BY_EXTENSION.get(os.path.splitext(path or "")[1].lower(), default)
    if chosen not in _FORMATS:
        raise UsageError(f"--output-format takes {', '.join(_FORMATS)}, not {chosen}")
    if chosen == PARQUET:
        if path is None:
            raise UsageError("Parquet is written to a file: --output FILE")
        return lambda schema, batches: _write_parquet(path, schema, batches)
    form = TEXT_FORMS[chosen]
    if path is None:
        return lambda schema, batches: _print(console, form, schema, batches)
    return lambda schema, batches: _write_file(path, form, schema, batches)


def _print(console: Console, form: TextForm, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
    for text in form(schema.names, _parts(batches), console.is_terminal):
        console.write(text.encode())
        console.flush()


def _write_file(path: str, form: TextForm, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
    from kafkatools.core.atomic_file import write_all

    with _whole_file(path) as file:
        for text in form(schema.names, _parts(batches), False):
            write_all(file, text.encode())


def _write_parquet(path: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]) -> None:
    import pyarrow as pa
    import pyarrow.parquet as parquet

    try:
        with _whole_file(path) as file, parquet.ParquetWriter(file, schema) as writer:
            for batch in batches:
                writer.write_batch(batch)
    except pa.ArrowException as error:  # an error of the query itself is an SqlError
        reason = str(error).partition("\n")[0] or type(error).__name__
        is_of_type = isinstance(error, pa.ArrowNotImplementedError)
        hint = "Parquet has no such type, such as an interval: cast the column to text, (...)::VARCHAR"
        raise CommandError(
            f"The rows cannot be written as Parquet: {reason}", hint=hint if is_of_type else ""
        ) from error


@contextmanager
def _whole_file(path: str) -> Iterator[FileIO]:
    """Open a file that replaces `path` when it is complete. Raises OSError that names `path`."""
    from kafkatools.core.atomic_file import replacing

    try:
        with replacing(path) as file:
            yield file
    except OSError as error:
        raise OSError(error.errno, error.strerror, path) from error


def _parts(batches: Iterable[pa.RecordBatch]) -> Rows:
    """Yield the rows in lists of at most a thousand."""
    for batch in batches:
        for start in range(0, batch.num_rows, ROWS_AT_ONCE):
            columns = [_values(column) for column in batch.slice(start, ROWS_AT_ONCE).columns]
            yield list(zip(*columns, strict=True))


def _values(column: pa.Array) -> list[object]:
    """Return the values of a column. Timestamps in microseconds and nanoseconds are converted here: pyarrow would
    import pandas for them, which takes longer than a small query, and without pandas it fails for nanoseconds."""
    import pyarrow as pa

    if column.type == pa.timestamp("ns"):
        return [None if text is None else text.replace(" ", "T") for text in column.cast(pa.string()).to_pylist()]
    zone = {pa.timestamp("us"): None, pa.timestamp("us", "UTC"): datetime.UTC}
    if column.type not in zone:
        try:
            values: list[object] = column.to_pylist()
        except (OverflowError, ValueError):  # a date before the year 1 or after 9999; nanoseconds without pandas
            return _days_since_1970(column)
        return values
    epoch = datetime.datetime(1970, 1, 1, tzinfo=zone[column.type])
    try:
        return [
            None if value is None else epoch + datetime.timedelta(microseconds=value)
            for value in column.view(pa.int64()).to_pylist()
        ]
    except OverflowError:  # a year that Python does not have
        times = column.view(pa.int64()).to_pylist()
        return [None if value is None else f"{value} µs since 1970" for value in times]


def _days_since_1970(column: pa.Array) -> list[object]:
    """Return the dates of a column as texts of days since 1970, for years that Python does not have. Raises
    CommandError for a list or structure with such a date."""
    import pyarrow as pa

    if column.type != pa.date32():
        raise CommandError(
            f"A value of type {column.type} has a time before the year 1 or after 9999, or nanoseconds",
            hint="Cast it to text: (...)::VARCHAR",
        )
    days = column.view(pa.int32()).to_pylist()
    return [None if value is None else f"{value} days since 1970" for value in days]
