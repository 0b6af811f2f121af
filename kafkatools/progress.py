"""How far long work is: a line on the terminal of stderr, drawn by a thread of its own.

Rules: the work only changes numbers, so that telling how far it is costs nothing on a hot path. Nothing is drawn
before the work has lasted a moment, and rich is not even imported then. The line goes away with the work. Whoever
writes to the terminal meanwhile does it within `hidden()`, under the lock that guards what is drawn; `Console` does.
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
_EACH_S = 0.2
_BAR_WIDTH = 24


class Progress:
    """What is done of a piece of work, and of how much; `total` None: nobody knows. Drawn nowhere."""

    def __init__(self, label: str, total: int | None = None) -> None:
        self.label = label
        self.total = total
        self.done = 0
        self.measure: Callable[[], int] | None = None
        """What is done beyond `done`, asked for when it is drawn, on another thread."""

    def advance(self, count: int = 1) -> None:
        """So much more is done."""
        self.done += count

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """For who writes to the same terminal."""
        yield


class TerminalProgress(Progress):
    """The same on a terminal, from `start` to `stop`. `is_bytes`: the numbers are bytes."""

    def __init__(
        self,
        stream: BinaryIO,
        width: int,
        label: str,
        total: int | None = None,
        *,
        is_bytes: bool = False,
        has_colour: bool = True,
    ) -> None:
        super().__init__(label, total)
        self._stream = stream
        self._width = width
        self._is_bytes = is_bytes
        self._has_colour = has_colour
        self._lock = threading.RLock()  # guards _drawn and what is written of it
        self._drawn: RichProgress | None = None
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)

    def start(self, first_s: float = _FIRST_S) -> None:
        """Draws from so many seconds on."""
        self._first_s = first_s
        self._thread.start()

    def stop(self) -> None:
        """Takes the line away."""
        self._over.set()
        self._thread.join()

    @contextmanager
    def hidden(self) -> Iterator[None]:
        """The line is not there; it comes back with the next turn."""
        with self._lock:
            if self._drawn is not None:
                self._drawn.stop()
            yield

    def _run(self) -> None:
        if self._over.wait(self._first_s):
            return
        try:
            drawn = self._made()
            task = drawn.add_task(visible(self.label), total=self.total)
            while True:
                with self._lock:
                    self._drawn = drawn
                    drawn.update(task, completed=self._done_now(), total=self.total, description=visible(self.label))
                    drawn.start()
                    drawn.refresh()
                if self._over.wait(_EACH_S):
                    break
            with self._lock:
                drawn.stop()
        except (OSError, ValueError):
            return  # nobody reads the terminal any more: that is no reason for the work to fail

    def _done_now(self) -> int:
        return self.done + (0 if self.measure is None else self.measure())

    def _made(self) -> RichProgress:
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
        if self.total is None:
            columns.append(TimeElapsedColumn())
        else:
            columns += [DownloadColumn() if self._is_bytes else MofNCompleteColumn(), TimeRemainingColumn()]
        return RichProgress(*columns, console=console, auto_refresh=False, transient=True)
