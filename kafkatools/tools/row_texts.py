"""Rows of a query as text: a table, JSON or CSV.

Rows are written part by part. The columns of a table have the width of its first part, at most 60 characters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from kafkatools.output import cell_text, json_line, plain_value, visible

TABLE, JSON, CSV = "table", "json", "csv"
ROWS_AT_ONCE = 1000
"""The number of rows of a part."""
_MAX_WIDTH = 60

Rows = Iterator[Sequence[Sequence[object]]]
"""Yields the rows part by part."""

TextForm = Callable[[Sequence[str], Rows, bool], Iterator[str]]
"""Yields the text of rows, part by part, from the names of the columns and the rows; the last argument is whether they
go to a terminal."""


def _table(names: Sequence[str], parts: Rows, is_terminal: bool) -> Iterator[str]:
    widths: list[int] | None = None
    heading = [visible(name) for name in names] if is_terminal else list(names)
    for rows in parts:
        lines = [[cell_text(value) for value in row] for row in rows]
        if is_terminal:
            lines = [[visible(cell) for cell in line] for line in lines]
        if widths is None:
            lines.insert(0, heading)
            widths = [min(_MAX_WIDTH, max(map(len, column))) for column in zip(*lines, strict=True)]
        yield "".join(
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() + "\n"
            for line in lines
        )
    if widths is None:
        yield "  ".join(heading) + "\n"


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


TEXT_FORMS: dict[str, TextForm] = {TABLE: _table, JSON: _json, CSV: _csv}


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
