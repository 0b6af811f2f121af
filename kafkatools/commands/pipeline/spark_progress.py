"""The progress line of kt pipeline: how much of the sources is read, finished tasks, and the remaining time.

Rules: an unknown number is left out or shown as unknown. The size of the sources comes from the report directory
(`ReadProgress`); without one, or if no report arrives there, only finished tasks are known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kafkatools.console import Console
from kafkatools.output import bytes_text
from kafkatools.pipeline.run.read_progress import BYTES, ReadProgress, ReadState
from kafkatools.pipeline.run.session import is_connected
from kafkatools.progress import Progress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_UNKNOWN_REST = "time left unknown"


@contextmanager
def spark_progress(
    console: Console, spark: SparkSession, label: str, reports: str | None = None, *, prints: bool = True
) -> Iterator[Progress]:
    """Show how much of the sources is read, the remaining time and the rows read so far on the terminal. `reports` is
    the directory of the readers' reports. `prints`: rows go to stdout at the same time.

    Without reports, the number of finished Spark tasks is shown. With Spark Connect it is unknown.
    """
    tasks = None if is_connected(spark) else TaskCounter(spark, label)
    now_ms = console.clock.now_ms
    line = _Line(tasks, None if reports is None else ReadProgress(reports, now_ms), now_ms)
    with console.progress(label, measure=line.measure, has_detail=True, prints=prints) as progress:
        line.progress = progress
        yield progress


@contextmanager
def job_progress(
    console: Console, spark: SparkSession, label: str, reports: str, *, prints: bool = True
) -> Iterator[Progress]:
    """Show the progress line of a job, and the sums of its readers' reports in Spark's UI."""
    from kafkatools.pipeline.run.read_metrics import read_metrics

    metrics = read_metrics(spark, f"kt pipeline: {label}", {"Kafka records": reports})
    with spark_progress(console, spark, label, reports, prints=prints) as progress, metrics:
        yield progress


class _Line:
    """Updates a progress line from the finished tasks and from what is read of the sources (None: unknown)."""

    def __init__(self, tasks: TaskCounter | None, reading: ReadProgress | None, now_ms: Callable[[], int]) -> None:
        self.progress: Progress | None = None
        self._tasks = tasks
        self._reading = reading
        self._now_ms = now_ms
        self._since_ms = now_ms()

    def measure(self) -> int:
        """Update the label, the detail and the total of the line; return the finished units."""
        progress = self.progress
        if progress is None:
            return 0
        state = None if self._reading is None else self._reading.state()
        finished = total = 0
        if self._tasks is not None:
            finished, total = self._tasks.count()
            progress.label = self._tasks.label
        if not total:
            self._since_ms = self._now_ms()
        progress.detail = detail_text(state, finished, total, (self._now_ms() - self._since_ms) / 1000)
        if state is not None and (state.done or not finished):
            progress.total = state.total
            return state.done
        progress.total = total or None
        return finished


def detail_text(state: ReadState | None, finished: int, tasks: int, seconds: float) -> str:
    """Return the text on a query's progress: how much of its sources is read, or else how many tasks finished within
    `seconds`, and the estimated time left."""
    task_text = f"{finished} of {tasks} tasks" if tasks else ""
    if state is None or (finished and not state.done):
        rest = f"about {_duration_text(seconds / finished * (tasks - finished))} left" if finished else _UNKNOWN_REST
        return f"{task_text}, {rest}" if finished < tasks else task_text
    total = _amount(state.total, state.unit)
    read = bytes_text(state.done) if state.unit == BYTES else f"{state.done:,}"
    if state.done >= state.total:
        return ", ".join(filter(None, (f"{total} read", task_text)))
    left = _UNKNOWN_REST
    if state.rate is not None and state.remaining_s is not None:
        left = f"about {_amount(round(state.rate), state.unit)}/s, about {_duration_text(state.remaining_s)} left"
    return f"{read} of {total} read, {left}"


def _amount(number: int, unit: str) -> str:
    return bytes_text(number) if unit == BYTES else f"{number:,} {unit}"


def _duration_text(seconds: float) -> str:
    if seconds < 90:
        return f"{max(round(seconds), 1)} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


class TaskCounter:
    """Counts the finished tasks, and the rows they have read, of the stages seen running since now. `label` has the
    rows of the last count."""

    def __init__(self, spark: SparkSession, label: str) -> None:
        self.label = label
        self._label = label
        self._tracker = spark.sparkContext.statusTracker()
        self._rows_read: Callable[[int], int] = lambda stage: _rows_read(spark, stage)
        self._stages: dict[int, tuple[int, int]] = {}
        self._rows: dict[int, int] = {}

    def count(self) -> tuple[int, int]:
        """Return the number of finished tasks and of all tasks so far."""
        for stage in self._tracker.getActiveStageIds():
            self._stages.setdefault(stage, (0, 0))
        for stage, (finished, total) in list(self._stages.items()):
            info = self._tracker.getStageInfo(stage)
            if info is not None and (finished < total or not total):
                self._stages[stage] = (info.numCompletedTasks, info.numTasks)
                self._rows[stage] = self._rows_read(stage)
        count = sum(self._rows.values())
        self.label = f"{self._label}: {count:,} rows" if count else self._label
        return sum(finished for finished, _ in self._stages.values()), sum(total for _, total in self._stages.values())


def _rows_read(spark: SparkSession, stage: int) -> int:
    """Return the number of rows that the finished tasks of a stage have read from sources; 0 if Spark does not know."""
    from py4j.protocol import Py4JError

    try:
        return int(spark.sparkContext._jsc.sc().statusStore().lastStageAttempt(stage).inputRecords())
    except Py4JError:  # Spark has forgotten the stage
        return 0
