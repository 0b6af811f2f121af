"""The executor's side of `kt` as a source: ranges of a live topic as Arrow batches.

Rules: a task reads one range with one consumer, which its Python worker keeps for the next tasks. What comes is looked
at batch by batch from the table of headers: checksums, markers, aborted transactions and what lies behind the range;
runs of sound batches become columns in one go, exact on offsets by the bounds. Damage is an error: a live topic has no
place where it could be told of. Offsets that go away while they are read are an error too, or with
failOnDataLoss=false a warning, and the task goes on behind them.
"""

from __future__ import annotations

import contextlib
import logging
import os
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.reports import SplitReport, write_report
from kafkatools.pipeline.spark_api import InputPartition

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from kafkatools.core.consumer.range_reader import RangeReader
    from kafkatools.pipeline.arrow_rows import ArrowRows
    from kafkatools.pipeline.live_batches import BatchWalk, Run
    from kafkatools.pipeline.live_offsets import OffsetRange
    from kafkatools.pipeline.live_options import SourceOptions
    from kafkatools.pipeline.record_bounds import RecordBounds

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LiveSplit(InputPartition):
    """The range of one task: start <= offset < end. `topic_id`: the topic that it was planned for."""

    topic: str
    partition: int
    start: int
    end: int
    topic_id: uuid.UUID | None = None

    def __repr__(self) -> str:
        return f"LiveSplit({self.topic}-{self.partition}, {self.start} to {self.end})"


def splits_of(ranges: Iterable[OffsetRange], options: SourceOptions) -> list[InputPartition]:
    """Ranges as tasks, by default enough for the cores of this machine."""
    from kafkatools.pipeline.live_offsets import split_ranges

    parts = split_ranges(ranges, os.cpu_count() or 1, options.min_partitions, options.max_records_per_partition)
    return [LiveSplit(*part.partition, part.start, part.end, part.topic_id) for part in parts]


class Task(NamedTuple):
    """What every task of a query has in common; plain data."""

    options: SourceOptions
    schema: StructType
    bounds: RecordBounds


def read_split(split: LiveSplit, task: Task) -> Iterator[Any]:
    """The rows of a range as pyarrow.RecordBatches. Raises PipelineError."""
    from kafkatools.core.consumer.range_reader import RangeLost
    from kafkatools.core.errors import KafkaError

    report = SplitReport(split.topic, split.partition, "", split.start, split.end)
    start: int | None = split.start
    try:
        while start is not None:
            try:
                yield from _read_range(replace(split, start=start), task, report)
                start = None
            except RangeLost as lost:
                if task.options.fail_on_data_loss:
                    raise PipelineError(f"{lost} (failOnDataLoss=false goes on without what is lost)") from lost
                _log.warning("%s", lost)
                start = lost.resume_at
    except KafkaError as error:
        raise PipelineError(f"{split.topic}-{split.partition}: {error}") from error
    if task.options.report_path is not None:
        write_report(task.options.report_path, report)


def _read_range(split: LiveSplit, task: Task, report: SplitReport) -> Iterator[Any]:
    from kafkatools.pipeline.arrow_rows import ArrowRows
    from kafkatools.pipeline.live_batches import BatchWalk

    bounds = replace(
        task.bounds,
        start_offset=max(split.start, task.bounds.start_offset),
        end_offset=min(split.end, task.bounds.end_offset),
    )
    rows = ArrowRows(task.schema, split.topic, split.partition, bounds)
    walk = BatchWalk(f"{split.topic}-{split.partition}", bounds.end_offset, task.options.is_committed_only)
    with _reader_for(task.options) as reader:
        place = split.topic, split.partition
        for fetched in reader.read_range(place, bounds.start_offset, bounds.end_offset, split.topic_id):
            for run in walk.runs(fetched):
                _add(rows, run, walk)
                _count(report, run)
                if rows.is_full:
                    yield rows.take()
    if len(rows):
        yield rows.take()
    report.records += rows.records
    if rows.records:
        report.first_offset = rows.first_offset if report.first_offset < 0 else report.first_offset
        report.last_offset = rows.last_offset


def _count(report: SplitReport, run: Run) -> None:
    """Batches count where they begin: one that lies across two ranges is read for both."""
    bases, checksums = run.checksums()
    here = bases >= report.start_position
    report.add_batches(bases[here], checksums[here])


def _add(rows: ArrowRows, run: Run, walk: BatchWalk) -> None:
    unread = rows.add_batches(run.buffer, run.table, run.first, run.stop)
    for one in unread:
        raise walk.damage(run.base_offset(one.row), one.reason)


# A worker runs task after task, one at a time: the consumers that are not in use, by their settings.
_idle: dict[tuple[Any, ...], RangeReader] = {}


@contextlib.contextmanager
def _reader_for(options: SourceOptions) -> Iterator[RangeReader]:
    """A consumer for one range; one that failed is closed."""
    from kafkatools.core.consumer.range_reader import RangeReader

    key = (*sorted(options.settings.items()), options.poll_timeout_ms)
    reader = _idle.pop(key, None) or RangeReader(options.settings, patience_ms=options.poll_timeout_ms)
    is_usable = False
    try:
        yield reader
        is_usable = True
    except GeneratorExit:
        is_usable = True  # the query wants no more rows
        raise
    finally:
        if is_usable and key not in _idle:
            _idle[key] = reader
        else:
            reader.close()
