"""Progress of long work: a line on stderr's terminal, drawn by a separate thread.

Rules: the work only changes numbers, so progress costs nothing on a hot path. Nothing is drawn, and rich is not
imported, in the first 0.7 s. The line disappears at the end of the work. Any other writer to the terminal must hold
`hidden()`, whose lock guards the drawing; `Console` does that.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, BinaryIO, cast

from kafkatools.core.control_characters import visible
from kafkatools.terminal import DrawnText

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import ProgressColumn

_FIRST_S = 0.7
_REFRESH_S = 0.2
_BAR_WIDTH = 24


class Progress:
    """The number of finished units of a piece of work, of `total` (None: unknown). This base class draws nothing.

    `measure` returns the finished units beyond `count`; the drawing thread calls it. `detail` is a text, which may
    change, in place of the numbers and the remaining time.
    """

    def __init__(self, label: str, total: int | None = None, measure: Callable[[], int] = lambda: 0) -> None:
        self.label = label
        self.total = total
        self.count = 0
        self.measure = measure
        self.detail = ""

    def advance(self, count: int = 1) -> None:
        """Add to the number of finished units of work."""
        self.count += count


class TerminalProgress(Progress):
    """A progress line on a terminal, from `start` to `stop`. `is_bytes`: the units are bytes. `has_detail`: the line
    shows `detail`."""

    def __init__(
        self,
        stream: BinaryIO,
        width: int,
        label: str,
        total: int | None = None,
        *,
        measure: Callable[[], int] = lambda: 0,
        is_bytes: bool = False,
        has_detail: bool = False,
        has_colour: bool = True,
    ) -> None:
        super().__init__(label, total, measure)
        self._stream = stream
        self._width = width
        self._is_bytes = is_bytes
        self._has_detail = has_detail
        self._has_colour = has_colour
        self._lock = threading.RLock()  # guards _drawn and its writes to the terminal
        self._display: RichProgress | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)

    def start(self, first_s: float = _FIRST_S) -> None:
        """Start the drawing thread, which draws the line after `first_s` seconds."""
        self._first_s = first_s
        self._thread.start()

    def stop(self) -> None:
        """Remove the progress line and wait for the drawing thread to end."""
        self._over.set()
        self._thread.join()

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """Remove the progress line within the context; the drawing thread redraws it at its next refresh."""
        with self._lock:
            if self._display is not None:
                self._display.stop()
            yield

    def _run(self) -> None:
        if self._over.wait(self._first_s):
            return
        try:
            display = self._rich_progress()
            task = display.add_task(visible(self.label), total=self.total, detail="")
            while True:
                with self._lock:
                    self._display = display
                    count = self.count + self.measure()
                    label, detail = visible(self.label), visible(self.detail)
                    display.update(task, completed=count, total=self.total, description=label, detail=detail)
                    display.start()
                    display.refresh()
                if self._over.wait(_REFRESH_S):
                    break
            with self._lock:
                display.stop()
        except (OSError, ValueError):
            return  # the terminal is gone, for which the work must not fail

    def _rich_progress(self) -> RichProgress:
        from rich.console import Console as RichConsole
        from rich.progress import (
            BarColumn,
            DownloadColumn,
            MofNCompleteColumn,
            TextColumn,
            TimeElapsedColumn,
            TimeRemainingColumn,
        )
        from rich.progress import Progress as RichProgress

        file = cast(IO[str], DrawnText(self._stream))
        console = RichConsole(file=file, force_terminal=True, width=self._width, no_color=not self._has_colour)
        columns: list[ProgressColumn] = [
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=_BAR_WIDTH),
        ]
        if self._has_detail:
            columns.append(TextColumn("{task.fields[detail]}", markup=False))
        elif self.total is None:
            columns.append(TimeElapsedColumn())
        else:
            columns += [DownloadColumn() if self._is_bytes else MofNCompleteColumn(), TimeRemainingColumn()]
        return RichProgress(*columns, console=console, auto_refresh=False, transient=True)
