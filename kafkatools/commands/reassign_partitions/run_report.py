"""Progress of kt reassign-partitions run: a bar on a terminal, else lines on stderr, or JSON on stdout."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO, cast

from kafkatools.console import Console
from kafkatools.core.control_characters import visible
from kafkatools.output import bytes_text
from kafkatools.terminal import DrawnText
from kafkatools.tools.reassignment.adaptive_throttle import Change
from kafkatools.tools.reassignment.moves import Progress, TopicPartition
from kafkatools.tools.reassignment.supervision import Report

_LINE_MS = 10_000
_RATE_MS = 30_000
_BAR_WIDTH = 20


@contextmanager
def report(console: Console, as_json: bool) -> Iterator[Report]:
    """Open the progress report of a reassignment for this console; close it at the end of the context."""
    on_stderr = BarReport if console.is_error_terminal else LineReport
    progress_report: Report = JsonReport(console) if as_json else on_stderr(console)
    try:
        yield progress_report
    finally:
        progress_report.close()


class Speed:
    """Computes the bytes per second over the last 30 seconds."""

    def __init__(self) -> None:
        self._samples: deque[tuple[int, int]] = deque()

    def note(self, now_ms: int, moved_bytes: int) -> float | None:
        """Add the total of bytes moved so far. Returns the speed in bytes per second over the last 30 seconds; None
        until time has passed since the first call."""
        self._samples.append((now_ms, moved_bytes))
        while now_ms - self._samples[0][0] > _RATE_MS:
            self._samples.popleft()
        first_ms, first_bytes = self._samples[0]
        if now_ms == first_ms:
            return None
        return max(0, moved_bytes - first_bytes) * 1000 / (now_ms - first_ms)


def seconds_left(progress: Progress, speed: float | None) -> int | None:
    """Return the seconds until all bytes are moved at this speed in bytes per second; None for a speed of None or 0."""
    if not speed:
        return None
    return round((progress.total_bytes - progress.moved_bytes) / speed)


class LineReport:
    """Prints a line on stderr every 10 s, and one for each failure, throttle change and note."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._speed = Speed()
        self._last_line_ms: int | None = None

    def progress(self, progress: Progress, rate: int | None) -> None:
        """Print the progress, unless the last line is younger than 10 s."""
        now_ms = self._console.clock.now_ms()
        speed = self._speed.note(now_ms, progress.moved_bytes)
        if self._last_line_ms is not None and now_ms - self._last_line_ms < _LINE_MS:
            return
        self._last_line_ms = now_ms
        self._console.error(progress_text(progress, speed))

    def partition(self, key: TopicPartition, error: str | None) -> None:
        """Print the error of a failed partition."""
        if error is not None:
            self._write_line(f"{key[0]}-{key[1]}: {error}")

    def limit(self, change: Change) -> None:
        """Print the new throttle rate and the reason."""
        self._write_line(f"Throttle: {bytes_text(change.rate)}/s, because {change.reason}.")

    def note(self, message: str) -> None:
        """Print a note."""
        self._write_line(message)

    def _write_line(self, line: str) -> None:
        self._console.error(line)

    def close(self) -> None:
        """Nothing to do."""


class JsonReport(LineReport):
    """Prints lines of JSON on stdout."""

    def progress(self, progress: Progress, rate: int | None) -> None:
        """Print the progress of the moves and the throttle rate, in bytes per second."""
        speed = self._speed.note(self._console.clock.now_ms(), progress.moved_bytes)
        row: dict[str, object] = {"type": "progress", "time": self._console.clock.wall_ms(), **progress._asdict()}
        row["bytes_per_second"] = None if speed is None else round(speed)
        self._print(row | {"seconds_left": seconds_left(progress, speed), "throttle": rate})

    def partition(self, key: TopicPartition, error: str | None) -> None:
        """Print that a partition finished, or failed with `error`."""
        self._print({"type": "partition", "topic": key[0], "partition": key[1], "done": error is None, "error": error})
        if error is not None:
            self._console.error(f"{key[0]}-{key[1]}: {error}", topic=key[0], partition=key[1])

    def limit(self, change: Change) -> None:
        """Print the new throttle rate and the reason."""
        self._print({"type": "throttle", "throttle": change.rate, "reason": change.reason})

    def note(self, message: str) -> None:
        """Print a note on stderr."""
        self._console.note(message)

    def _print(self, row: dict[str, object]) -> None:
        self._console.print_json(row)
        self._console.flush()


class BarReport(LineReport):
    """Draws a progress bar on stderr, and prints other messages above it."""

    def __init__(self, console: Console) -> None:
        from rich.console import Console as RichConsole
        from rich.progress import BarColumn, Progress, TextColumn

        super().__init__(console)
        self._file = cast(IO[str], DrawnText(console.stderr))
        rich_console = RichConsole(file=self._file, force_terminal=True, width=console.width)
        columns = (BarColumn(bar_width=_BAR_WIDTH), TextColumn("{task.description}", markup=False))
        self._bar = Progress(*columns, console=rich_console, auto_refresh=False)
        self._task = self._bar.add_task("", total=None)
        console.flush()
        self._bar.start()

    def progress(self, progress: Progress, rate: int | None) -> None:
        """Show the progress of the moves and the throttle rate, in bytes per second, on the bar."""
        speed = self._speed.note(self._console.clock.now_ms(), progress.moved_bytes)
        text = progress_text(progress, speed)
        if rate is not None:
            text += f"; at most {bytes_text(rate)}/s"
        self._bar.update(
            self._task, total=max(1, progress.total_bytes), completed=progress.moved_bytes, description=text
        )
        self._bar.refresh()

    def _write_line(self, line: str) -> None:
        self._bar.console.print(visible(line), markup=False, highlight=False)

    def close(self) -> None:
        """Stop the bar and leave it on the terminal."""
        self._bar.stop()
        self._file.flush()


def progress_text(progress: Progress, speed: float | None) -> str:
    """Return `1.5 GB of 3 GB (50%), 20 MB/s, 1 min 15 s left; partitions: 3 moving, 4 waiting, 2 done`."""
    share = 100 * progress.moved_bytes // progress.total_bytes if progress.total_bytes else 100
    text = f"{bytes_text(progress.moved_bytes)} of {bytes_text(progress.total_bytes)} ({share}%)"
    if speed is not None:
        text += f", {bytes_text(speed)}/s"
    remaining_s = seconds_left(progress, speed)
    if remaining_s is not None:
        text += f", {duration_text(remaining_s)} left"
    text += f"; partitions: {progress.moving} moving, {progress.waiting} waiting, {progress.done} done"
    return text + (f", {progress.failed} failed" if progress.failed else "")


def duration_text(seconds: int) -> str:
    """Return a duration such as `1 h 5 min`, `2 min 3 s` or `40 s`."""
    minutes, remaining_s = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {remaining_s} s" if minutes else f"{remaining_s} s"
