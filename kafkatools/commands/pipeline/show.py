"""Output of kt pipeline run: the rows of the sink console:, and a summary at the end.

Rows are printed part by part as Spark delivers them, as JSON or as a table with column widths of the first part. If
rows go to stdout, the summary goes to stderr.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING

from kafkatools.output import cell_text as text
from kafkatools.output import json_line, visible
from kafkatools.output import plain_value as plain

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kafkatools.console import Console
    from kafkatools.pipeline.run.batch import RunResult, SourceResult
    from kafkatools.pipeline.run.spec import Pipeline

_AT_ONCE = 1000
_MAX_WIDTH = 60


def show_rows(console: Console, table: DataFrame) -> int:
    """Print every row of a DataFrame. Returns the number of rows."""
    rows = table.toLocalIterator()
    count = 0
    widths: list[int] | None = None
    while part := list(islice(rows, _AT_ONCE)):
        count += len(part)
        if console.is_json:
            for row in part:
                console.print(json_line(dict(zip(table.columns, map(plain, row), strict=True))))
        else:
            widths = _print_table(console, table.columns, part, widths)
        console.flush()
    if widths is None and not console.is_json:
        _print_table(console, table.columns, [], None)
    return count


def _print_table(
    console: Console, columns: Sequence[str], rows: Sequence[Sequence[object]], widths: list[int] | None
) -> list[int]:
    cells = [[text(cell) for cell in row] for row in rows]
    if console.is_terminal:
        cells = [[visible(cell) for cell in row] for row in cells]
    if widths is None:
        cells.insert(0, list(columns))
        widths = [min(_MAX_WIDTH, max(map(len, column))) for column in zip(*cells, strict=True)]
    for row in cells:
        console.print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())
    return widths


# -- The end --


def report_result(console: Console, pipeline: Pipeline, result: RunResult) -> None:
    """Print the summary of a run: records read, rows written, damaged ranges."""
    prints_rows = pipeline.sink.uri.kind == "console"
    if console.is_json:
        row = result_row(pipeline, result)
        if prints_rows:
            console.note("", row)
        else:
            console.print(json_line(row))
        return
    for line in _lines(result):
        console.note(line)


def result_row(pipeline: Pipeline, result: RunResult) -> dict[str, object]:
    """Return the summary of a run as a JSON row."""
    sources = [vars(source).copy() for source in result.sources]
    for source in sources:
        source["damages"] = source.pop("damages")  # as the last key
    files = None if result.files is None else [{"path": file.path, "size": file.size_bytes} for file in result.files]
    sink = {"uri": result.sink, "rows": result.rows, "files": files}
    return {"skipped": result.is_skipped, "sources": sources, "sink": sink, "manifest": pipeline.manifest}


def _lines(result: RunResult) -> list[str]:
    sink = result.sink.rstrip(":")
    if result.is_skipped:
        return [f"{sink}: nothing to do"]
    lines = [line for source in result.sources for line in _source_lines(source)]
    if result.files is not None:
        size = sum(file.size_bytes for file in result.files)
        lines.append(f"{sink}: {_rows(result.rows)} in {count_text(len(result.files), 'file')} ({size} bytes)")
    else:
        lines.append(f"{sink}: {_rows(result.rows)}")
    return lines


def _source_lines(source: SourceResult) -> list[str]:
    lines = []
    if source.records is not None:
        suffix = f" of {count_text(len(source.partitions), 'partition')}" if source.partitions else ""
        lines.append(f"{source.uri}: {count_text(source.records, 'record')}{suffix}")
    for count, part in ((source.bad_keys, "key"), (source.bad_values, "value")):
        if count:
            lines.append(f"{source.uri}: {count_text(count, part)} could not be decoded: null in their place")
    for count, part in ((source.keys_with_unknown_fields, "key"), (source.values_with_unknown_fields, "value")):
        if count:
            lines.append(
                f"{source.uri}: fields of a newer schema are left out in {count_text(count, part)}, since the columns "
                f"lack them; run again to get them, or give --{part}-schema FILE"
            )
    if source.damages:
        first = source.damages[0]
        lines.append(
            f"{source.uri}: {count_text(len(source.damages), 'damaged range')}, the first in {first['file']} at "
            f"{first['unit']} {first['position']} ({first['length']} bytes): {first['reason']}"
        )
    return lines


def _rows(count: int | None) -> str:
    return "rows" if count is None else count_text(count, "row")


def count_text(count: int, noun: str, plural: str = "") -> str:
    """Return a count with its noun: `1 row`, `2 rows`."""
    return f"{count} {noun}" if count == 1 else f"{count} {plural or noun + 's'}"
