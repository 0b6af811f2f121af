"""Cells and columns of the tables, and which columns fit into a width.

Rules: a cell's text is free of control characters. Numbers and lists of ids are never cut: texts get narrower first,
then the last columns are hidden. An unknown value is `?` and has the value None.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from rich.cells import cell_len, set_cell_size

from kafkatools.commands.monitor.terminal.model import Model
from kafkatools.output import visible
from kafkatools.tools.monitor import figures

GAP = 2
_LEAST_TEXT = 11
_ELLIPSIS = "…"

Item = Any
"""The subject of a row: a BrokerView, a GroupView, ...; each view knows its own."""
Value = str | float | tuple[str | float, ...]


class Cell(NamedTuple):
    """A cell. `value` decides the order of rows, None if unknown."""

    text: str
    value: Value | None

    @property
    def width(self) -> int:
        """The columns of the terminal that the text takes."""
        return len(self.text) if self.text.isascii() else cell_len(self.text)


class Column(NamedTuple):
    """A column of a view. `about` explains the header in the help. `is_list`: broker ids, which are not cut either, and
    which a filter does not search. `least`: the width to which words are cut before a column is hidden."""

    header: str
    cell: Callable[[Model, Item], Cell]
    about: str = ""
    is_number: bool = True
    is_list: bool = False
    least: int = _LEAST_TEXT

    @property
    def is_name(self) -> bool:
        """Return whether the column has names or other words: it may be cut, and a filter searches it."""
        return not self.is_number and not self.is_list


def text(content: str, value: Value | None = None) -> Cell:
    """Return a cell of text, with control characters escaped; sorted by `value`, or by the text."""
    shown = content if content.isascii() and content.isprintable() else visible(content)
    return Cell(shown, content.lower() if value is None else value)


def number(value: int | None) -> Cell:
    """Return a cell of a count, `?` for None."""
    return Cell(figures.count(value), value)


def at_least(value: int | None, least: int) -> Cell:
    """Return a cell of a sum; of one that is partly unknown `>=N`, sorted by the known part."""
    return Cell(figures.at_least(value, least), least or None if value is None else value)


def size(value: float | None) -> Cell:
    """Return a cell of a number of bytes, `?` for None."""
    return Cell(figures.size(value), value)


def rate(value: float | None, *, is_unknown: bool) -> Cell:
    """Return a cell of a number per second. None is `?` if it is unknown, else `-`: before the second snapshot."""
    return Cell(figures.rate(value, is_unknown=is_unknown), value)


def span(seconds: float | None, *, is_unknown: bool = False) -> Cell:
    """Return a cell of a duration. None is `?` if it is unknown, else `-`."""
    return Cell(figures.UNKNOWN, None) if is_unknown else Cell(figures.span(seconds), seconds)


def cut(content: str, width: int) -> str:
    """Return a text in at most `width` columns, with an ellipsis in place of its middle, since names often differ at
    their ends."""
    if (len(content) if content.isascii() else cell_len(content)) <= width:
        return content
    if width <= 1:
        return _ELLIPSIS[:width]
    tail_width = (width - 1) // 3
    tail = ""
    for character in reversed(content):
        if cell_len(character + tail) > tail_width:
            break
        tail = character + tail
    return set_cell_size(content, width - 1 - tail_width).rstrip() + _ELLIPSIS + tail


def padded(content: str, width: int, *, is_number: bool) -> str:
    """Return a text in exactly `width` columns, a number at the right."""
    shown = cut(content, width)
    blanks = " " * (width - (len(shown) if shown.isascii() else cell_len(shown)))
    return blanks + shown if is_number else shown + blanks


def fitted(columns: Sequence[Column], widths: Sequence[int], width: int, first: int) -> list[tuple[int, int]]:
    """Return the columns to show in `width` and their widths: the first column, then those from `first` on."""
    shown = [0, *range(max(1, first), len(columns))]
    while True:
        chosen = _narrowed(columns, widths, shown, width)
        if chosen is not None or len(shown) == 1:
            break
        shown.pop()
    if chosen is None:
        chosen = [min(widths[0], width)]
    return list(zip(shown, chosen, strict=True))


def _narrowed(columns: Sequence[Column], widths: Sequence[int], shown: Sequence[int], width: int) -> list[int] | None:
    """Return the widths of the shown columns with texts narrowed until they fit, the widest first; None if they do not
    fit."""
    chosen = [widths[column] for column in shown]
    floors = [
        min(widths[column], columns[column].least) if columns[column].is_name else widths[column] for column in shown
    ]
    excess = sum(chosen) + GAP * (len(chosen) - 1) - width
    while excess > 0:
        wide = [place for place, floor in enumerate(floors) if chosen[place] > floor]
        if not wide:
            return None
        chosen[max(wide, key=chosen.__getitem__)] -= 1
        excess -= 1
    return chosen
