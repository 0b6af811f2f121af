"""The live view of kt monitor without keys: tables on rich's alternate screen, cut to fit. For a terminal without
Textual or without a keyboard; the view with keys is in `terminal/`.

The most important rows come first. Problems are named in words at the top, never by colour alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import IO, cast

from rich.console import Console as RichConsole
from rich.console import Group, JustifyMethod, RenderableType
from rich.live import Live
from rich.table import Table as RichTable
from rich.text import Text

from kafkatools.commands.monitor.monitor_options import MonitorOptions
from kafkatools.commands.monitor.outputs import Output
from kafkatools.commands.monitor.tables import BAD, GOOD, WARNING, Row, Table, tables
from kafkatools.commands.monitor.terminals import EXTRA, has_textual
from kafkatools.console import Console
from kafkatools.core.errors import KafkaError
from kafkatools.output import visible
from kafkatools.tools.monitor.board import Board
from kafkatools.tools.monitor.conditions import what_is_wrong
from kafkatools.tools.monitor.figures import at_least, local_time, rate, size
from kafkatools.tools.monitor.view import ClusterView

_DEFAULT_HEIGHT = 40
_EVENTS = 8
_FRAME_LINES = 3  # lines of a table besides its rows: title, headers, blank line
_LEAST_ROWS = 3
_SHORT_TEXT, _LEAST_TEXT, _LEAST_HEADER = 24, 8, 4
_GAP = 2


class Screen(Output):
    """An Output that redraws the terminal. Findings of --fail-if are printed after the screen is closed."""

    _live: Live  # set by __enter__

    def __init__(self, console: Console, options: MonitorOptions, board: Board, addresses: Sequence[str]) -> None:
        super().__init__(console, options)
        self._board = board
        self._addresses = addresses
        self._findings: Sequence[str] = ()
        self._view: ClusterView | None = None

    def __enter__(self) -> Screen:
        rich_console = RichConsole(
            file=cast(IO[str], _Writer(self.console)),
            force_terminal=True,
            width=self.console.width,
            height=_height(self.console),
            no_color=not self.console.has_colour,
            highlight=False,
        )
        self._live = Live(
            console=rich_console, screen=True, auto_refresh=False, redirect_stdout=False, redirect_stderr=False
        )
        self._live.start()
        self.console.flush()
        return self

    def __exit__(self, *exc: object) -> None:
        self._live.stop()
        self.console.flush()
        self.report_findings(self._findings)

    def show(self, view: ClusterView, findings: Sequence[str], unknowns: Sequence[str]) -> None:
        self._view = view
        self._findings = [*findings, *unknowns]
        self._draw()

    def fail(self, error: KafkaError) -> None:
        self._draw()
        self.console.flush()

    def _draw(self) -> None:
        width, height = self.console.width, _height(self.console)
        self._live.console.size = (width, height)
        if self._view is not None:
            lines = list(self._head(self._view))
            remaining_lines = height - len(lines) - 1
            self._live.update(Group(*lines, *self._tables(self._view, remaining_lines)), refresh=True)

    def _head(self, view: ClusterView) -> Iterator[RenderableType]:
        totals = view.totals
        every = f"every {self.options.interval_ms / 1000:g} s, Ctrl-C to exit"
        cluster = visible(view.cluster_id or "-")
        yield _text(
            f"cluster {cluster}  {local_time(view.time_ms)}  refreshed in {view.took_ms} ms, {every}", style="dim"
        )
        is_unknown = any(topic.has_unknown_ends for topic in view.topics)
        wrong = what_is_wrong(view)
        yield (
            _text(f"Unhealthy: {', '.join(wrong)}", style="bold red") if wrong else _text("Healthy", style="bold green")
        )
        yield _text(
            f"{totals.answering}/{totals.brokers} brokers  {totals.topics} topics  {totals.partitions} partitions  "
            f"{totals.groups} groups  lag {at_least(totals.lag, totals.least_lag)}  "
            f"{rate(totals.messages_in, is_unknown=is_unknown)} messages/s  {size(totals.bytes_in)}/s"
        )
        error = self._board.last[1]
        if error is not None:
            yield _text(f"the last refresh failed: {visible(error)}", style="bold red")
        for problem in view.problems[:3]:
            yield _text(f"No data: {visible(problem.message)}", style="yellow")
        for line in self._addresses:  # whole, since an address without the end of its token leads nowhere
            for start in range(0, len(line), self.console.width):
                yield _text(line[start : start + self.console.width], style="dim")
        if not has_textual():
            yield _text(EXTRA, style="dim")
        yield Text("")

    def _tables(self, view: ClusterView, height: int) -> Iterator[RenderableType]:
        all_tables = list(tables(view, self.options.sections, self.options.is_overview, self._board.events(_EVENTS)))
        nonempty_tables = [table for table in all_tables if table.rows]
        counts = visible_row_counts([len(table.rows) for table in nonempty_tables], height)
        for table, rows in zip(nonempty_tables, counts, strict=True):
            yield _rich_table(table, rows, self.console.width)


def visible_row_counts(rows: Sequence[int], height: int) -> list[int]:
    """Return how many rows of each table are drawn in `height` lines. The longest tables are cut first, but none below
    three rows, so on a low terminal they may not fit."""
    counts = list(rows)
    while counts and sum(counts) + _FRAME_LINES * len(counts) > height and max(counts) > _LEAST_ROWS:
        counts[counts.index(max(counts))] -= 1
    return counts


def column_widths(table: Table, rows: Sequence[Row], width: int) -> list[int]:
    """Return the column widths of a table for `width` characters.

    Cuts long texts, the widest column first, then headers of numbers, then all texts; never a number. A narrow terminal
    may still be too small.
    """
    cells = [max((len(row.cells[place]) for row in rows), default=0) for place in range(len(table.headers))]
    widths = [max(len(header), longest) for header, longest in zip(table.headers, cells, strict=True)]
    texts = [place for place in range(len(cells)) if place not in table.numbers]
    steps = [
        dict.fromkeys(texts, _SHORT_TEXT),
        {place: max(cells[place], _LEAST_HEADER) for place in table.numbers},
        dict.fromkeys(texts, _LEAST_TEXT),
    ]
    for least in steps:
        while sum(widths) + _GAP * (len(widths) - 1) > width:
            wide = [place for place, floor in least.items() if widths[place] > floor]
            if not wide:
                break
            widths[max(wide, key=widths.__getitem__)] -= 1
    return widths


def _text(line: str, style: str = "") -> Text:
    return Text(line, style=style, no_wrap=True, overflow="ellipsis")


def _rich_table(table: Table, count: int, width: int) -> RichTable:
    hidden_rows = len(table.rows) - count
    rows = list(table.rows[: count - 1 if hidden_rows else count])
    title = table.title + (f" (first {len(rows)} of {len(table.rows):,})" if hidden_rows else "")
    rich_table = RichTable(
        title=title, title_justify="left", title_style="bold", box=None, pad_edge=False, padding=(0, _GAP, 0, 0),
        header_style="dim",
    )  # fmt: skip
    for number, column_width in enumerate(column_widths(table, rows, width)):
        justify: JustifyMethod = "right" if number in table.numbers else "left"
        rich_table.add_column(
            table.headers[number], justify=justify, width=column_width, no_wrap=True, overflow="ellipsis"
        )
    for row in rows:
        rich_table.add_row(*(Text(visible(cell)) for cell in row.cells), style=_STYLES[row.mood])
    rich_table.add_row(style="")
    return rich_table


_STYLES = {GOOD: "", WARNING: "yellow", BAD: "red"}


def _height(console: Console) -> int:
    lines = console.environ.get("LINES", "")
    if lines.isdecimal() and int(lines) > 0:
        return int(lines)
    try:
        return os.get_terminal_size(console.stdout.fileno()).lines or _DEFAULT_HEIGHT
    except (OSError, ValueError):
        return _DEFAULT_HEIGHT


class _Writer:
    """Console's stdout as the text file that rich writes to."""

    encoding = "utf-8"

    def __init__(self, console: Console) -> None:
        self._console = console

    def write(self, text: str) -> int:
        self._console.draw(text)
        return len(text)

    def flush(self) -> None:
        self._console.flush()

    def isatty(self) -> bool:
        return True
