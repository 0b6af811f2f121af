"""What the readers of a stream report, as an entry in the SQL tab of Spark's UI for each micro-batch.

Rules: a report belongs to the micro-batch whose offsets include its range, since the reports of the next micro-batch
may arrive before Spark's progress of this one. Reports of a stream without end are deleted once they are counted; those
of a stream that ends by itself are kept for its result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from kafkatools.pipeline import storage
from kafkatools.pipeline.run.read_metrics import NewReports, SqlEntry, attempt, sums_of
from kafkatools.pipeline.run.reports import SplitReport
from kafkatools.pipeline.run.stream_sources import SourceOffsets
from kafkatools.pipeline.types import TriggerProgress

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BatchRanges = Sequence[tuple[SourceOffsets, SourceOffsets]]
"""The start and end of a micro-batch for each of Spark's sources."""

_MAX_WAITING = 10_000
"""Reports of a source that wait for the progress of their micro-batch, at most: those of a batch that fails stay."""


class SourceReports:
    """The reports of one source of a stream, in a directory."""

    def __init__(self, directory: str, *, deletes: bool) -> None:
        self._directory = directory
        self._new = NewReports(directory)
        self._deletes = deletes
        self._waiting: list[SplitReport] = []

    def of_batch(self, ranges: BatchRanges) -> list[SplitReport]:
        """Return the reports of the micro-batch that reads these ranges. All ranges are compared: Spark has a source
        for each use in the query, in the order of the query, not of the pipeline. A partition that a start lacks is
        read from its first offset. Raises PipelineError if a report cannot be read."""
        arrived = list(self._new.reports())
        if self._deletes:
            for report in arrived:
                storage.delete_file(storage.join(self._directory, report.name))
                self._new.forget(self._directory, report.name)
        found, waiting = list[SplitReport](), list[SplitReport]()
        for report in [*self._waiting, *arrived]:
            is_inside = any(_includes(start, end, report) for start, end in ranges)
            (found if is_inside else waiting).append(report)
        self._waiting = waiting[-_MAX_WAITING:]
        return found


def _includes(start: SourceOffsets, end: SourceOffsets, report: SplitReport) -> bool:
    topic, partition = report.topic, str(report.partition)
    return start.get(topic, {}).get(partition, 0) <= report.start_offset < end.get(topic, {}).get(partition, 0)


class StreamMetrics:
    """The entries of a stream. `sources` maps names for the entries to the reports of each source of the pipeline, None
    for a source without reports."""

    def __init__(self, spark: SparkSession, description: str, sources: Mapping[str, SourceReports | None]) -> None:
        self._spark = spark
        self._description = description
        self._sources = sources

    def add_batch(self, progress: TriggerProgress, offsets: BatchRanges) -> None:
        """Post the entry of a micro-batch that has ended. `progress` is Spark's, `offsets` has the start and end of
        each of Spark's sources."""
        attempt(lambda: self._add(progress, offsets))

    def _add(self, progress: TriggerProgress, offsets: BatchRanges) -> None:
        sums = {
            name: sums_of(reports.of_batch(offsets)) for name, reports in self._sources.items() if reports is not None
        }
        if not sums:
            return
        started_ms = round(datetime.fromisoformat(progress["timestamp"]).timestamp() * 1000)
        entry = SqlEntry(self._spark, f"{self._description}, micro-batch {progress['batchId']}", list(sums), started_ms)
        entry.add(sums)
        entry.end("", started_ms + int(progress.get("batchDuration") or 0))
