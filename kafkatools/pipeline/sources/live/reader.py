"""The executor's side of the `kt` source: offset ranges of a live topic as Arrow batches.

Rules: a task reads one range with one consumer, which its Python worker keeps for later tasks. Each fetched batch is
checked by its header: checksum, transaction marker, aborted transaction, end of range. Runs of valid batches are
converted to columns together, exact on offsets through the bounds. Damage is an error unless the query writes reports.
Offsets deleted during the read are an error too; with failOnDataLoss=false the task logs a warning and continues after
them.
"""

from __future__ import annotations

import contextlib
import logging
import os
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from kafkatools.core.consumer.fetcher import FetchedBatches
from kafkatools.core.consumer.range_reader import RangeLost, RangeReader
from kafkatools.core.errors import KafkaError
from kafkatools.core.log.reading import header_columns
from kafkatools.pipeline.errors import PipelineError, unreachable_brokers_hint
from kafkatools.pipeline.run.reports import RECORDS, SplitReport, reporting, write_report
from kafkatools.pipeline.sources.arrow_rows import ArrowRows
from kafkatools.pipeline.sources.live.batches import AbortedTransactions, BatchWalk, Markers, Run
from kafkatools.pipeline.sources.live.cluster import LiveCluster
from kafkatools.pipeline.sources.live.offsets import OffsetRange, split_ranges
from kafkatools.pipeline.sources.live.options import SourceOptions
from kafkatools.pipeline.sources.record_bounds import RecordBounds

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class LiveSplit:
    """The offset range [start, end) of one task; `topic_id` is the topic it was planned for. For the column
    `transaction`: transactions below `stable_end` were complete when the query was planned. For those above, the
    markers up to `whole_end`, the end of the query in this partition, decide."""

    topic: str
    partition: int
    start: int
    end: int
    topic_id: uuid.UUID | None = None
    stable_end: int = 0
    whole_end: int = 0

    def __repr__(self) -> str:
        return f"LiveSplit({self.topic}-{self.partition}, {self.start} to {self.end})"


def splits_of(
    ranges: Sequence[OffsetRange], options: SourceOptions, schema: pa.Schema, cluster: LiveCluster
) -> list[LiveSplit]:
    """Split ranges into tasks, by default enough for the cores of this machine. If the schema has the column
    `transaction` and the query is read_uncommitted, asks the cluster for the last stable offsets. Raises
    PipelineError."""
    ends = {offset_range.partition: offset_range.end for offset_range in ranges}
    needs_states = _has(schema, "transaction") and not options.is_committed_only
    stable = cluster.stable_ends(ends) if needs_states else {}
    parts = split_ranges(ranges, os.cpu_count() or 1, options.min_partitions, options.max_records_per_partition)
    return [
        LiveSplit(
            *part.partition, part.start, part.end, part.topic_id, stable.get(part.partition, 0), ends[part.partition]
        )
        for part in parts
    ]


def _has(schema: pa.Schema, column: str) -> bool:
    return any(name.lower() == column for name in schema.names)


class Task(NamedTuple):
    """The options, schema and bounds that all tasks of a query share; can be pickled."""

    options: SourceOptions
    schema: pa.Schema
    bounds: RecordBounds


def read_split(split: LiveSplit, task: Task) -> Iterator[pa.RecordBatch]:
    """Yield the rows of an offset range as pyarrow.RecordBatches, then write its report if reportPath is set. Offsets
    deleted meanwhile are skipped with a warning if failOnDataLoss is false. Raises PipelineError for them otherwise,
    for a failed fetch, for damage if strict, and for a report that cannot be written unless requireReports is false."""
    report = SplitReport(
        split.topic, split.partition, "", split.start, split.end, start_offset=split.start, end_offset=split.end
    )
    start: int | None = split.start
    try:
        while start is not None:
            try:
                yield from _read_range(replace(split, start=start), task, report)
                start = None
            except RangeLost as loss:
                if task.options.fail_on_data_loss:
                    raise PipelineError(f"{loss} (failOnDataLoss=false continues without the lost records)") from loss
                _log.warning("%s", loss)
                start = loss.resume_at
    except KafkaError as error:
        hint = unreachable_brokers_hint(error, task.options.settings)
        raise PipelineError(f"{split.topic}-{split.partition}: {error}{hint}") from error
    if task.options.report_path is None:
        return
    with reporting(is_required=task.options.requires_reports):
        write_report(task.options.report_path, report)


def _read_range(split: LiveSplit, task: Task, report: SplitReport) -> Iterator[pa.RecordBatch]:
    bounds = replace(
        task.bounds,
        start_offset=max(split.start, task.bounds.start_offset),
        end_offset=min(split.end, task.bounds.end_offset),
    )
    rows = ArrowRows(task.schema, split.topic, split.partition, bounds)
    has_positions = _has(task.schema, "batchposition")
    loss: RangeLost | None = None
    try:
        for run in _runs(replace(split, start=bounds.start_offset, end=bounds.end_offset), task, report):
            yield from _add(rows, run, has_positions, decodes_records=task.options.decodes_records)
            if rows.is_full:
                yield rows.take()
    except RangeLost as lost:
        loss = lost  # what was read before it counts
    if len(rows):
        yield rows.take()
    report.records += rows.records
    if rows.records:
        report.first_offset = rows.first_offset if report.first_offset < 0 else report.first_offset
        report.last_offset = rows.last_offset
    if loss is not None:
        raise loss


def _runs(split: LiveSplit, task: Task, report: SplitReport) -> Iterator[Run]:
    options = task.options
    walk = BatchWalk((split.start, split.end), report, is_strict=options.is_strict)
    has_states = _has(task.schema, "transaction")
    if options.is_committed_only or not has_states:
        with _reader_for(options) as reader:
            for fetched in _fetch(reader, split, split.start, split.end):
                needs_judge = options.is_committed_only and (has_states or fetched.aborted)
                judge = AbortedTransactions(fetched.aborted, drops_aborted=True) if needs_judge else None
                yield from walk.runs(fetched, judge)
        return
    middle = min(max(split.start, split.stable_end), split.end)
    committed = replace(options, settings={**options.settings, "isolation.level": "read_committed"})
    with _reader_for(committed) as reader:
        for fetched in _fetch(reader, split, split.start, middle):
            yield from walk.runs(fetched, AbortedTransactions(fetched.aborted, drops_aborted=False), middle)
    if middle == split.end:
        return
    with _reader_for(options) as reader:
        markers = Markers()
        for fetched in _fetch(reader, split, middle, max(split.whole_end, split.end)):
            walk.collect(fetched, markers)
        for fetched in _fetch(reader, split, middle, split.end):
            yield from walk.runs(fetched, markers)


def _fetch(reader: RangeReader, split: LiveSplit, start: int, end: int) -> Iterator[FetchedBatches]:
    return reader.read_range((split.topic, split.partition), start, end, split.topic_id)


def _add(rows: ArrowRows, run: Run, has_positions: bool, *, decodes_records: bool) -> Iterator[pa.RecordBatch]:
    """Add a run of batches to the rows, by their headers where these suffice and unless `decodes_records`; yield
    batches of rows that have become full."""
    if decodes_records:
        _decode(rows, run, has_positions)
        return
    headers = run.headers
    is_known = rows.known_by_headers(headers)
    edges = [0, *(np.flatnonzero(np.diff(is_known)) + 1).tolist(), len(headers)]
    for first, stop in pairwise(edges):
        if not is_known[first]:
            _decode(rows, run._replace(first=run.first + first, stop=run.first + stop), has_positions)
            continue
        states = None if run.transactions is None else run.transactions[run.first + first : run.first + stop]
        yield from rows.add_headers(headers[first:stop], headers[first:stop, header_columns.BASE_OFFSET], states)


def _decode(rows: ArrowRows, run: Run, has_positions: bool) -> None:
    """Add the records of a run of batches. With `has_positions` each batch is added alone, since its position is its
    base offset."""
    parts = [(row, row + 1) for row in range(run.first, run.stop)] if has_positions else [(run.first, run.stop)]
    for first, stop in parts:
        origin = run.base_offset(first) - run.position(first) if has_positions else 0
        unread = rows.add_batches(run.buffer, run.table, first, stop, origin=origin, transactions=run.transactions)
        for damage in unread:
            run.walk.note_damage(run.header(damage.row), RECORDS, damage.reason)


# The consumers that no task uses, by their settings: tasks follow each other in a Python worker and in a thread of a
# scan. Lists are changed by single operations only, since threads share them.
_idle: dict[tuple[object, ...], list[RangeReader]] = {}


def close_idle() -> None:
    """Close the consumers that stay open for later tasks, in a process that is not a Spark worker."""
    while _idle:
        _, readers = _idle.popitem()
        while readers:
            readers.pop().close()


@contextlib.contextmanager
def _reader_for(options: SourceOptions) -> Iterator[RangeReader]:
    """Yield a consumer for one range: one that an earlier task with the same settings left open, or a new one. At the
    end it stays open for the next task; a consumer that failed is closed."""
    key = (*sorted(options.settings.items()), options.poll_timeout_ms)
    try:
        reader = _idle.setdefault(key, []).pop()
    except IndexError:
        reader = RangeReader(options.settings, patience_ms=options.poll_timeout_ms)
    is_usable = False
    try:
        yield reader
        is_usable = True
    except GeneratorExit:
        is_usable = True  # the query needs no more rows
        raise
    finally:
        if is_usable:
            _idle.setdefault(key, []).append(reader)
        else:
            reader.close()
