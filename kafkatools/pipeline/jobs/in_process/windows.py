"""Two sources of records side by side, in windows that end at the same place in both.

Readers yield records sorted by topic, partition and offset. Windows with equal rows are skipped, so sources that
are almost the same need little memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa


def unequal_windows(
    left: Iterator[pa.RecordBatch], right: Iterator[pa.RecordBatch], place: Sequence[str]
) -> Iterator[tuple[pa.RecordBatch | None, pa.RecordBatch | None]]:
    """Yield pairs of record batches that hold all rows which are on one side only, each with rows of the same stretch;
    None for no rows. Rows are sorted by the columns `place`. All columns are compared."""
    sides = [_Side(left), _Side(right)]
    while True:
        first, second = (side.rows() for side in sides)
        if first is None and second is None:
            return
        if first is None or second is None:
            yield first, second
            for side in sides:
                side.skip_all()
            continue
        count = min(first.num_rows, second.num_rows)
        if first.slice(0, count).equals(second.slice(0, count)):
            counts = [count, count]
        else:
            end = min(_place(first, place), _place(second, place))
            counts = [_rows_up_to(rows, place, end) for rows in (first, second)]
            yield _leading(first, counts[0]), _leading(second, counts[1])
        for side, skipped in zip(sides, counts, strict=True):
            side.skip(skipped)


def _leading(rows: pa.RecordBatch, count: int) -> pa.RecordBatch | None:
    return rows.slice(0, count) if count else None


class _Side:
    """The rows of one source that are still to be compared."""

    def __init__(self, batches: Iterator[pa.RecordBatch]) -> None:
        self._batches = batches
        self._rows: pa.RecordBatch | None = None

    def rows(self) -> pa.RecordBatch | None:
        """Return the next rows, at least one; None at the end."""
        while self._rows is None or not self._rows.num_rows:
            self._rows = next(self._batches, None)
            if self._rows is None:
                return None
        return self._rows

    def skip(self, count: int) -> None:
        """Pass over the first rows."""
        if self._rows is not None:
            self._rows = self._rows.slice(count)

    def skip_all(self) -> None:
        """Pass over all rows of the current batch."""
        self._rows = None


def _place(rows: pa.RecordBatch, place: Sequence[str]) -> tuple[Any, ...]:
    """Return the place of the last row."""
    return tuple(rows.column(name)[-1].as_py() for name in place)


def _rows_up_to(rows: pa.RecordBatch, place: Sequence[str], end: tuple[Any, ...]) -> int:
    """Return the number of leading rows whose place is at most `end`."""
    low, high = 0, rows.num_rows
    while low < high:
        middle = (low + high) // 2
        if tuple(rows.column(name)[middle].as_py() for name in place) <= end:
            low = middle + 1
        else:
            high = middle
    return low
