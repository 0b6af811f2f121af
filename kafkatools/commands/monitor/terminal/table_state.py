"""The state of a table across refreshes: order, filter, selected row and scroll place. Without Textual.

Rules: the selected row is known by its key, so a refresh, a sort or a filter keeps it, on the same line of the screen
if possible. Until a row is selected the cursor stays on the first one. Unknown values are sorted last in
both directions. Cells are made for visible rows and for the sort column only; with a filter also those of texts.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Sequence

from kafkatools.commands.monitor.terminal.columns import Cell, Column, Item, fitted
from kafkatools.commands.monitor.terminal.model import Model
from kafkatools.commands.monitor.terminal.views import View
from kafkatools.core.java.patterns import java_pattern

_SORT_MARK_WIDTH = 1


class TableState:
    """The rows of one view in order, with cursor and scroll place. `resize` sets the number of lines for rows."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.cursor = 0
        self.top = 0
        self.first_column = 1  # the first one after the pinned column 0
        self.sort_column: int | None = view.sort_column
        self.is_descending = view.sort_column is not None
        self.filter_text = ""
        self.count = 0  # without the filter
        self.rows: Sequence[Item] = ()
        self._height = 1
        self._pattern: re.Pattern[str] | None = None
        self._items: Sequence[Item] = ()
        self._model: Model | None = None
        self._selected: Hashable = None
        self._widths = [0] * len(view.columns)

    # -- rows --

    def refresh(self, model: Model, items: Sequence[Item]) -> None:
        """Take the rows of a new model, and keep the selected row and its line on the screen."""
        self._model, self._items = model, items
        self._arrange()

    def release(self) -> None:
        """Drop the rows while the place is not shown; selection, scroll place, order and filter stay."""
        self._model, self._items, self.rows = None, (), ()

    def _arrange(self) -> None:
        model, pattern = self._model, self._pattern
        if model is None:
            return
        rows = list(self._items)
        self.count = len(rows)
        if pattern is not None:
            rows = [item for item in rows if self._matches(model, item, pattern)]
        if self.sort_column is not None:
            rows = _sorted(rows, model, self.view.columns[self.sort_column], self.is_descending)
        self.rows = rows
        if self._selected is not None:
            key, line = self.view.key, self.cursor - self.top
            found = next((place for place, item in enumerate(rows) if key(item) == self._selected), None)
            if found is not None and found != self.cursor:
                self.cursor, self.top = found, found - line
        self._clamp()

    def _matches(self, model: Model, item: Item, pattern: re.Pattern[str]) -> bool:
        texts = (column.cell(model, item).text for column in self.view.columns if column.is_name)
        return any(pattern.search(text) is not None for text in texts)

    @property
    def selected(self) -> Item | None:
        """The row under the cursor, None without rows."""
        return self.rows[self.cursor] if self.cursor < len(self.rows) else None

    def selected_cells(self) -> list[Cell]:
        """Return the cells of the row under the cursor, none without rows."""
        model, item = self._model, self.selected
        return [] if model is None or item is None else [column.cell(model, item) for column in self.view.columns]

    def visible_rows(self) -> list[tuple[Item, list[Cell]]]:
        """Return the rows on the screen with their cells."""
        model = self._model
        if model is None:
            return []
        shown = self.rows[self.top : self.top + self._height]
        return [(item, [column.cell(model, item) for column in self.view.columns]) for item in shown]

    # -- cursor --

    @property
    def page(self) -> int:
        """The rows of a page, which overlaps the next one by a row."""
        return max(1, self._height - 1)

    def resize(self, height: int) -> None:
        """Set the number of lines for rows."""
        self._height = max(1, height)
        self._clamp()

    def move(self, rows: int) -> None:
        """Move the cursor down, or up (negative), and select the row."""
        self.select(self.cursor + rows)

    def select(self, row: int) -> None:
        """Put the cursor on a row, on the nearest one if there is none."""
        self.cursor = max(0, min(row, len(self.rows) - 1))
        self._selected = self.view.key(self.rows[self.cursor]) if self.rows else None
        self._clamp()

    def scroll(self, rows: int) -> None:
        """Scroll down, or up (negative); the cursor moves only to stay visible."""
        self.top = max(0, min(self.top + rows, len(self.rows) - self._height))
        self.select(max(self.top, min(self.cursor, self.top + self._height - 1)))

    def _clamp(self) -> None:
        self.cursor = max(0, min(self.cursor, len(self.rows) - 1))
        self.top = max(0, min(self.top, len(self.rows) - self._height))
        self.top = max(self.cursor - self._height + 1, min(self.top, self.cursor))

    # -- order and filter --

    def sort_by(self, column: int | None) -> None:
        """Sort by a column: numbers from the largest on, texts from the first on. None is the original order."""
        self.sort_column = column
        self.is_descending = column is not None and self.view.columns[column].is_number
        self._arrange()

    def sort_by_next(self, step: int) -> None:
        """Sort by the next column, or with `step` -1 by the previous one; the original order comes before the first."""
        choices = [None, *range(len(self.view.columns))]
        self.sort_by(choices[(choices.index(self.sort_column) + step) % len(choices)])

    def click_header(self, column: int) -> None:
        """Sort by a column; reverse the order if it is the sort column already."""
        if column == self.sort_column:
            self.reverse()
        else:
            self.sort_by(column)

    def reverse(self) -> None:
        """Reverse the order; without a sort column sort by the first one, from its end."""
        if self.sort_column is None:
            self.sort_column, self.is_descending = 0, True
        else:
            self.is_descending = not self.is_descending
        self._arrange()

    def filter(self, text: str) -> None:
        """Show only rows with a text in which a regular expression matches, whatever their case unless the expression
        has an upper-case letter. An empty text shows all. Raises re.error for an invalid expression, which changes
        nothing."""
        pattern = java_pattern(text) if text else None
        if pattern is not None and text == text.lower():
            pattern = re.compile(pattern.pattern, re.IGNORECASE)
        self.filter_text, self._pattern = text, pattern
        self._arrange()

    # -- columns --

    def pan(self, columns: int) -> None:
        """Show columns further to the right, or to the left (negative). The first column always stays."""
        self.first_column = max(1, min(self.first_column + columns, len(self.view.columns) - 1))

    def layout(self, rows: Sequence[Sequence[Cell]], width: int) -> list[tuple[int, int]]:
        """Return the visible columns and their widths for these cells. A column grows with its longest cell and does
        not shrink while the place is open, so that scrolling does not move columns."""
        for place, column in enumerate(self.view.columns):
            header = len(column.header) + _SORT_MARK_WIDTH * (place == self.sort_column)
            self._widths[place] = max(self._widths[place], header, *(row[place].width for row in rows))
        return fitted(self.view.columns, self._widths, width, self.first_column)


def _sorted(rows: list[Item], model: Model, column: Column, is_descending: bool) -> list[Item]:
    """Return the rows in the order of a column; those with an unknown value last, in their original order."""
    known, unknown = [], []
    for item in rows:
        value = column.cell(model, item).value
        if value is None:
            unknown.append(item)
        else:
            known.append((value, item))
    known.sort(key=lambda pair: pair[0], reverse=is_descending)
    return [item for _, item in known] + unknown
