"""Output of kt query: rows as a table, JSON, CSV or Parquet, to stdout or to a file that is replaced as a whole.

Rows are written as the query delivers them. The columns of a table have the width of its first rows.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kafkatools.exit_status import UsageError
from kafkatools.output import cell_text, json_line, plain_value, visible

if TYPE_CHECKING:
    from io import FileIO

    import pyarrow as pa

    from kafkatools.console import Console

TABLE, JSON, CSV, PARQUET = "table", "json", "csv", "parquet"
_FORMATS = (TABLE, JSON, CSV, PARQUET)
_BY_EXTENSION = {".csv": CSV, ".json": JSON, ".jsonl": JSON, ".parquet": PARQUET}
_MAX_WIDTH = 60
_ROWS_AT_ONCE = 1000

Writer = Callable[["pa.Schema", "Iterable[pa.RecordBatch]"], None]
Rows = Iterator[Sequence[Sequence[object]]]


def row_writer(console: Console, output_format: str | None, path: str | None) -> Writer:
    """Return the function that writes rows, from --output-format and --output. Raises UsageError for a format that does
    not exist or does not fit."""
    chosen = output_format or (JSON if console.is_json and not path else None)
    if chosen is None:
        chosen = _BY_EXTENSION.get(os.path.splitext(path or "")[1].lower(), TABLE)
    if chosen not in _FORMATS:
        raise UsageError(f"--output-format takes {', '.join(_FORMATS)}, not {chosen}")
    if chosen == PARQUET:
        if path is None:
            raise UsageError("Parquet is written to a file: --output FILE")
        return lambda schema, batches: _write_parquet(path, schema, batches)
    form = _TEXT_FORMS[chosen]
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
    import pyarrow.parquet as parquet

    with _whole_file(path) as file, parquet.ParquetWriter(file, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


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
        for start in range(0, batch.num_rows, _ROWS_AT_ONCE):
            columns = [_values(column) for column in batch.slice(start, _ROWS_AT_ONCE).columns]
            yield list(zip(*columns, strict=True))


def _values(column: pa.Array) -> list[object]:
    """Return the values of a column. Timestamps in microseconds are converted here: pyarrow would import pandas for
    them, which takes longer than a small query."""
    import pyarrow as pa

    zone = {pa.timestamp("us"): None, pa.timestamp("us", "UTC"): datetime.UTC}
    if column.type not in zone:
        values: list[object] = column.to_pylist()
        return values
    epoch = datetime.datetime(1970, 1, 1, tzinfo=zone[column.type])
    try:
        return [
            None if value is None else epoch + datetime.timedelta(microseconds=value)
            for value in column.view(pa.int64()).to_pylist()
        ]
    except OverflowError:  # a year that Python does not have
        return [f"{value} µs since 1970" for value in column.view(pa.int64()).to_pylist()]


# -- text --

TextForm = Callable[[Sequence[str], Rows, bool], Iterator[str]]
"""Yields the text of rows, part by part, from the names of the columns and the rows; the last argument is whether they
go to a terminal."""


def _table(names: Sequence[str], parts: Rows, is_terminal: bool) -> Iterator[str]:
    widths: list[int] | None = None
    for rows in parts:
        lines = [[cell_text(value) for value in row] for row in rows]
        if is_terminal:
            lines = [[visible(cell) for cell in line] for line in lines]
        if widths is None:
            lines.insert(0, list(names))
            widths = [min(_MAX_WIDTH, max(map(len, column))) for column in zip(*lines, strict=True)]
        yield "".join(
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() + "\n"
            for line in lines
        )
    if widths is None:
        yield "  ".join(names) + "\n"


def _json(names: Sequence[str], parts: Rows, is_terminal: bool) -> Iterator[str]:
    keys = _unique(names)
    for rows in parts:
        yield "".join(json_line(dict(zip(keys, map(plain_value, row), strict=True))) + "\n" for row in rows)


def _csv(names: Sequence[str], parts: Rows, is_terminal: bool) -> Iterator[str]:
    import csv
    import io

    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    for rows in parts:
        writer.writerows(["" if value is None else cell_text(value) for value in row] for row in rows)
        yield out.getvalue()
        out.seek(0)
        out.truncate()
    yield out.getvalue()


_TEXT_FORMS: dict[str, TextForm] = {TABLE: _table, JSON: _json, CSV: _csv}


def _unique(names: Sequence[str]) -> list[str]:
    """Return the names with a number behind those that occur again: `count`, `count_1`."""
    keys: list[str] = []
    for name in names:
        key, number = name, 0
        while key in keys:
            number += 1
            key = f"{name}_{number}"
        keys.append(key)
    return keys
