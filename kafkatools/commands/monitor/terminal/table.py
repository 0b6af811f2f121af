"""The table on the screen: a header and the visible rows of a TableState. Only visible rows are drawn, so its size does
not matter for keys."""

from __future__ import annotations

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from kafkatools.commands.monitor.tables import BAD, GOOD, WARNING
from kafkatools.commands.monitor.terminal.columns import GAP, padded
from kafkatools.commands.monitor.terminal.table_state import TableState

_HEADER = Style(bold=True)
_STYLES = {GOOD: Style(), WARNING: Style(color="yellow"), BAD: Style(color="red")}
_CURSOR = Style(reverse=True)
_EMPTY = Style(dim=True)
_WHEEL_ROWS = 3


class Table(Widget, can_focus=True):
    """Draws a TableState and takes the mouse; the application moves the cursor. `notice` is shown without rows."""

    class Changed(Message):
        """The mouse scrolled, selected a row, or sorted."""

    class Opened(Message):
        """The selected row was clicked twice."""

    def __init__(self) -> None:
        super().__init__()
        self._state: TableState | None = None
        self._notice = ""
        self._lines: list[list[Segment]] = []
        self._columns: list[tuple[int, int]] = []

    @property
    def hidden_columns(self) -> tuple[int, int]:
        """The numbers of columns that do not fit, at the left and at the right."""
        if self._state is None or not self._columns:
            return 0, 0
        before = self._state.first_column - 1 if len(self._columns) > 1 else 0
        return before, len(self._state.view.columns) - len(self._columns) - before

    def show(self, state: TableState, notice: str) -> None:
        """Draw a state, with `notice` in place of its rows if there are none."""
        self._state, self._notice = state, notice
        self.redraw()

    def redraw(self) -> None:
        """Draw the header and the visible rows."""
        state = self._state
        if state is None:
            return
        state.resize(self.size.height - 1)
        rows = state.visible_rows()
        self._columns = state.layout([cells for _, cells in rows], self.size.width)
        self._lines = [[Segment(self._header(state), _HEADER)]]
        for place, (item, cells) in enumerate(rows):
            style = _STYLES[state.view.mood(item)]
            if place + state.top == state.cursor:
                style += _CURSOR
            columns = state.view.columns
            texts = (padded(cells[n].text, width, is_number=columns[n].is_number) for n, width in self._columns)
            line = (" " * GAP).join(texts)
            self._lines.append([Segment(padded(line, self.size.width, is_number=False), style)])
        if not rows and self._notice:
            self._lines.append([Segment(padded(self._notice, self.size.width, is_number=False), _EMPTY)])
        self.refresh()

    def _header(self, state: TableState) -> str:
        texts = []
        for place, width in self._columns:
            column = state.view.columns[place]
            mark = ("▼" if state.is_descending else "▲") if place == state.sort_column else ""
            texts.append(padded(column.header + mark, width, is_number=column.is_number))
        return (" " * GAP).join(texts)

    def render_line(self, y: int) -> Strip:
        """Return a line of the table."""
        line = self._lines[y] if y < len(self._lines) else []
        return Strip(line).adjust_cell_length(self.size.width, Style())

    def on_resize(self, event: events.Resize) -> None:
        """Fit columns and rows into the new size."""
        self.redraw()
        self.post_message(self.Changed())

    def on_click(self, event: events.Click) -> None:
        """Sort by a clicked header, select a clicked row, open a row that was clicked twice."""
        state = self._state
        if state is None:
            return
        if event.y == 0:
            column = self._column_at(event.x)
            if column is not None:
                state.click_header(column)
        elif state.top + event.y - 1 < len(state.rows):
            state.select(state.top + event.y - 1)
            if event.chain == 2:
                self.post_message(self.Opened())
        self.redraw()
        self.post_message(self.Changed())

    def _column_at(self, x: int) -> int | None:
        start = 0
        for place, width in self._columns:
            if start <= x < start + width + GAP:
                return place
            start += width + GAP
        return None

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Scroll down."""
        self._scroll_rows(_WHEEL_ROWS)

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Scroll up."""
        self._scroll_rows(-_WHEEL_ROWS)

    def _scroll_rows(self, rows: int) -> None:
        if self._state is not None:
            self._state.scroll(rows)
            self.redraw()
            self.post_message(self.Changed())
