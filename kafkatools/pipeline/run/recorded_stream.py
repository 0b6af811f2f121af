"""Streams with a manifest, and the manifest of a stream that was killed.

Rules: a stream writes its manifest when it ends. While it runs, the journal beside the manifest has the offsets at
which it began. The next start after a kill finds the journal, reads from the checkpoint which micro-batches were
committed since, reads their records again for counts and checksums, and completes the manifest before the stream goes
on. What cannot be counted any more is None: the rows of a merge or of a topic, and the counts of records that were
deleted since, also with their topic.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

from pyspark.sql import SparkSession

from kafkatools.core.clock import Clock
from kafkatools.core.topic_partition import TopicPartition
from kafkatools.pipeline import uris
from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.jobs.offsets import LogRange, Ranges, log_ranges, range_options
from kafkatools.pipeline.run import manifest as records
from kafkatools.pipeline.run.batch import (
    MERGE,
    RunResult,
    Show,
    SourceResult,
    plain_errors,
    read_reported,
    reports_directory,
)
from kafkatools.pipeline.run.identity import difference, identity_with_clusters
from kafkatools.pipeline.run.recorded_run import Recording, Tell, file_rows, manifest_content, read_again
from kafkatools.pipeline.run.spec import Pipeline, Source
from kafkatools.pipeline.run.stream import Stopped, StreamCallbacks, committed_files, partition_progress, run_stream
from kafkatools.pipeline.run.stream_progress import StreamProgress
from kafkatools.pipeline.run.stream_sources import SourceOffsets, lowest, source_name
from kafkatools.pipeline.sinks.files import Directory, SinkFile
from kafkatools.pipeline.types import Journal, ManifestContent

_UNKNOWN_ENDS = "the checkpoint does not tell which of its offsets are those of this source"


def stream_recorded(
    spark: SparkSession,
    pipeline: Pipeline,
    show: Show,
    clock: Clock,
    on_rows_read: Callable[[int], None] | None = None,
    tell: Tell = lambda _: None,
) -> RunResult:
    """Run a streaming pipeline and write its manifest when the stream ends or is stopped; that of a failed stream is
    written at its next start. An existing manifest is continued, as the checkpoint is. Raises PipelineError; Stopped,
    after the manifest is written, on KeyboardInterrupt.

    `on_rows_read` and `tell` are the callbacks of `run_stream`; `tell` also gets a line if a manifest is completed.
    """
    path = pipeline.manifest
    assert path is not None
    records.ensure_writable(path)
    before = records.read_manifest(path)
    with plain_errors():
        recorder = _Recorder(spark, pipeline, path, clock, before)
        recorder.complete(tell)
        recorder.begin()

    def rows_read(count: int) -> None:
        recorder.note_beginning()
        if on_rows_read is not None:
            on_rows_read(count)

    try:
        result = run_stream(spark, pipeline, show, StreamCallbacks(rows_read, tell), recorder.identity)
    except Stopped as stopped:
        recorder.end(stopped.result)
        raise
    except PipelineError:
        recorder.forget_unless_committed()
        raise
    recorder.end(result)
    return result


class _Recorder:
    """The manifest of a stream and the journal beside it."""

    def __init__(
        self, spark: SparkSession, pipeline: Pipeline, path: str, clock: Clock, before: ManifestContent | None
    ) -> None:
        self._spark, self._pipeline, self._path, self._clock = spark, pipeline, path, clock
        self._before = before
        self._checkpoint = uris.absolute(str(pipeline.checkpoint))
        self._progress = StreamProgress(spark, pipeline)
        self.identity = identity_with_clusters(pipeline)
        if before is not None:
            records.ensure_same(path, before, self.identity)
        self._journal: Journal = {}

    def complete(self, tell: Tell) -> None:
        """Complete the manifest of a stream that was killed. Raises PipelineError if the journal is that of another
        run."""
        journal = records.read_journal(self._path)
        if journal is None:
            return
        if journal.get("streaming") != str(self._pipeline.sink.uri) or journal["checkpoint"] != self._checkpoint:
            other = journal.get("streaming") or journal.get("writing") or journal.get("directory")
            checkpoint = f" with --checkpoint {journal['checkpoint']}" if "checkpoint" in journal else ""
            raise PipelineError(
                f"{records.journal_path(self._path)}: another run was interrupted while writing to {other}"
                f"{checkpoint}; complete it, or name another --manifest"
            )
        other_pipeline = difference(journal["pipeline"], self.identity) if "pipeline" in journal else None
        if other_pipeline is not None:
            raise PipelineError(
                f"{records.journal_path(self._path)}: a stream of another pipeline was interrupted: {other_pipeline}; "
                "start that stream again, which completes its manifest, or name another --manifest"
            )
        if self._progress.is_behind_sink():  # the stream is refused
            return
        committed = _committed(self._progress, journal, self._pipeline, self._before)
        if committed is None:
            return
        tell(f"{self._path}: completing the manifest of a stream that was interrupted")
        files = self._new_files(journal)
        rows = self._progress.rows_written(journal["batch"] + 1, committed.batch)
        with reports_directory(self._pipeline) as reports:
            topics = journal.get("pipeline", {}).get("topic_ids", {})
            found = [
                (SourceResult(source.name, str(source.uri)), _UNKNOWN_ENDS)
                if source.name in committed.unknown
                else _read_source(self._spark, source, reports, committed, topics.get(source.name, {}))
                for source in self._pipeline.sources
            ]
        for source, reason in found:
            if reason:
                tell(f"{self._path}: the records of {source.uri} are not counted: {reason}")
        sources = [source for source, _ in found]
        result = RunResult(sources, str(self._pipeline.sink.uri), rows, files)
        self._before = self._write(result, journal["started_ms"])

    def begin(self) -> None:
        """Write the journal of a stream that is about to start."""
        if not self._progress.is_visible or self._progress.is_behind_sink():
            return
        number = self._progress.last_committed()
        planned = self._progress.planned(number) if number >= 0 else None
        files = self._committed_files()
        self._journal = {
            "streaming": str(self._pipeline.sink.uri),
            "checkpoint": self._checkpoint,
            "pipeline": self.identity,
            "batch": number,
            "starts": None if planned is None else planned.ends,
            "files": None if files is None else [file.path for file in files],
            "runs": _runs(self._before),
            "started_ms": self._clock.wall_ms(),
        }
        records.write_whole(records.journal_path(self._path), self._journal)

    def note_beginning(self) -> None:
        """Add the first offsets of a new stream to the journal, as soon as its first micro-batch is planned."""
        if not self._journal or self._journal["starts"] is not None or self._journal["batch"] >= 0:
            return
        planned = self._progress.planned(0)
        if planned is not None:
            self._journal["starts"] = planned.beginnings
            records.write_whole(records.journal_path(self._path), self._journal)

    def forget_unless_committed(self) -> None:
        """Delete the journal of a failed stream that has committed nothing: it would only be in the way of a stream
        with another sink or checkpoint. It stays if the checkpoint cannot be read."""
        with suppress(PipelineError), plain_errors():
            if self._journal and self._progress.last_committed() <= self._journal["batch"]:
                records.delete_journal(self._path)

    def end(self, result: RunResult) -> None:
        """Write the manifest and delete the journal."""
        with plain_errors():
            self._write(result, self._journal.get("started_ms", self._clock.wall_ms()))
            records.delete_journal(self._path)

    def _write(self, result: RunResult, started_ms: int) -> ManifestContent:
        rows = {}
        if result.files:
            directory = uris.path_of(self._pipeline.sink.uri)
            rows = file_rows(self._spark, self._pipeline, directory, [file.path for file in result.files])
        if result.files is not None and result.rows is None:
            result = replace(result, rows=sum(rows.values()))
        mode = MERGE if self._pipeline.sink.merge_by else "append"
        recording = Recording(self._path, self.identity, self._before, self._clock, started_ms)
        content = manifest_content(self._spark, self._pipeline, result, mode, recording, rows)
        records.write_whole(self._path, content)
        return content

    def _committed_files(self) -> list[SinkFile] | None:
        uri = self._pipeline.sink.uri
        directory = Directory(self._spark, uris.path_of(uri)) if uri.is_file else None
        return None if directory is None or not directory.is_visible else committed_files(self._spark, directory)

    def _new_files(self, journal: Journal) -> list[SinkFile] | None:
        files = self._committed_files()
        if files is None:
            return None
        old = [] if self._before is None else [file["path"] for file in self._before["sink"]["files"] or ()]
        return [file for file in files if file.path not in {*old, *(journal["files"] or ())}]


class _CommittedBatches(NamedTuple):
    """The last committed micro-batch of a stream that was killed, and the offsets before and after it by the names of
    sources, empty if unknown. `unknown` has the names of sources whose ends are unknown."""

    batch: int
    starts: dict[str, SourceOffsets]
    ends: dict[str, SourceOffsets]
    unknown: frozenset[str] = frozenset()


def _committed(
    progress: StreamProgress, journal: Journal, pipeline: Pipeline, before: ManifestContent | None
) -> _CommittedBatches | None:
    """Return the commits of a stream since the journal was written. None if there are none, if Spark has deleted
    the offsets, or if the kill came after the manifest, which then has them."""
    if journal.get("runs", _runs(before)) != _runs(before):
        return None
    last = progress.last_committed()
    planned = progress.planned(last) if last > journal["batch"] else None
    if planned is None:
        return None
    starts = _starts(pipeline, journal["starts"])
    if starts is None:
        first = progress.planned(0) if journal["batch"] < 0 else None
        starts = {} if first is None else first.beginnings
    old = {} if before is None else {source["name"]: source["partitions"] for source in before["sources"]}
    began = {}
    for source in pipeline.sources:
        offsets = {topic: {**partitions} for topic, partitions in starts.get(source.name, {}).items()}
        for row in old.get(source.name, ()):
            partitions = offsets.setdefault(row["topic"], {})
            partitions[str(row["partition"])] = max(partitions.get(str(row["partition"]), 0), row["end_offset"])
        began[source.name] = offsets
    committed = _CommittedBatches(last, began, planned.ends, planned.unknown)
    has_ranges = any(_ranges(began[name], ends) for name, ends in planned.ends.items())
    return committed if committed.unknown or has_ranges else None


def _starts(
    pipeline: Pipeline, starts: Mapping[str, SourceOffsets] | Sequence[SourceOffsets] | None
) -> dict[str, SourceOffsets] | None:
    """Return the offsets in a journal by the names of sources. Earlier versions wrote a list in the order of Spark's
    sources."""
    if starts is None or isinstance(starts, Mapping):
        return None if starts is None else dict(starts)
    named = [(source_name(pipeline, dict(offsets)), offsets) for offsets in starts]
    return {
        source.name: lowest(offsets for name, offsets in named if name == source.name) for source in pipeline.sources
    }


def _runs(before: ManifestContent | None) -> int:
    return 0 if before is None else int(before.get("runs", 1))


def _ranges(starts: SourceOffsets, ends: SourceOffsets) -> dict[TopicPartition, tuple[int, int]]:
    """Return the offset ranges that are not empty. A partition without a start appeared later and began at 0."""
    ranges = {
        TopicPartition(topic, int(partition)): (starts.get(topic, {}).get(partition, 0), end)
        for topic, partitions in ends.items()
        for partition, end in partitions.items()
    }
    return {partition: (start, end) for partition, (start, end) in ranges.items() if start < end}


def _read_source(
    spark: SparkSession,
    source: Source,
    reports: str,
    committed: _CommittedBatches,
    topics: Mapping[str, str],
) -> tuple[SourceResult, str]:
    """Read the records of the committed micro-batches again and count them. Without counts, but with the reason, if the
    start is unknown, or if records or the end of a topic are gone since. `topics` has the ids of the topics at the
    start."""
    starts, ends = committed.starts[source.name], committed.ends[source.name]
    uncounted = SourceResult(source.name, str(source.uri), None, partition_progress(starts, ends))
    if not source.uri.is_kafka:
        return uncounted, ""
    if not starts:
        return uncounted, "the offsets at which the stream began are unknown"
    ranges = _ranges(starts, ends)
    if not ranges:
        return SourceResult(source.name, str(source.uri), 0), ""
    assert source.cluster is not None
    if reason := _gone(log_ranges(ranges, source.cluster), ranges, topics):
        return uncounted, reason
    try:
        read_again(spark, source, range_options(ranges), reports)
    except Exception:
        if reason := _gone(log_ranges(ranges, source.cluster), ranges, topics):  # while they were read
            return uncounted, reason
        raise
    return read_reported(source, reports), ""


def _gone(logs: Mapping[TopicPartition, LogRange], ranges: Ranges, topics: Mapping[str, str]) -> str:
    """Return why offsets can no longer be read; empty if they can. `logs` has the partitions that exist."""
    for partition, (start, end) in sorted(ranges.items()):
        log = logs.get(partition)
        if log is None:
            return f"{partition} does not exist, its topic was deleted"
        if topics.get(partition.topic, str(log.topic_id)) != str(log.topic_id):
            return f"topic {partition.topic} was deleted and created again"
        if start < log.start or end > log.end:
            return f"offsets {start} to {end - 1} of {partition} are needed, and the log has {log.start} to {log.end}"
    return ""
