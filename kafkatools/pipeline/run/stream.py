"""Run a pipeline with Spark structured streaming: micro-batches from a checkpoint, until no data is left
(available-now) or until stopped.

Rules: exactly-once delivery needs Spark's checkpoint together with the sink: files through the log of Spark's file
sink, topics through transactions of the `kt` sink. Counts come from Spark's progress of each micro-batch; with
available-now also from the readers' reports. Ctrl-C stops the query, and the counts of the completed micro-batches are
reported.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from kafkatools.core.json_values import JsonValue
from kafkatools.pipeline import uris
from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.run.batch import (
    ROWS,
    Opening,
    RunResult,
    Show,
    SourceResult,
    column_needs,
    open_table,
    plain_errors,
    query,
    read_reported,
    reports_directory,
    reports_of,
    sink_mode,
)
from kafkatools.pipeline.run.checkpoint_identity import claim_checkpoint
from kafkatools.pipeline.run.executors import is_local
from kafkatools.pipeline.run.read_metrics import is_shown
from kafkatools.pipeline.run.reports import SplitReport
from kafkatools.pipeline.run.session import is_connected, was_interrupted
from kafkatools.pipeline.run.spec import AVAILABLE_NOW, Pipeline, Sink, Source
from kafkatools.pipeline.run.stream_metrics import SourceReports, StreamMetrics
from kafkatools.pipeline.run.stream_progress import StreamProgress
from kafkatools.pipeline.run.stream_sources import SourceOffsets, highest, lowest, parsed, source_name, topic_offsets
from kafkatools.pipeline.sinks.files import Directory, SinkFile
from kafkatools.pipeline.sinks.merge import MicroBatch, ensure_mergeable, merge_rows
from kafkatools.pipeline.types import PartitionContent, PipelineIdentity, TriggerProgress

_SINK_METRICS = "kt_sink"
_POLL_S = 0.5
_MODE = "outputmode"


class StreamCallbacks(NamedTuple):
    """Functions that a running stream calls: `on_rows_read` twice a second with the total number of rows read, `tell`
    with a line once values cannot be decoded or have fields that the columns lack."""

    on_rows_read: Callable[[int], object]
    tell: Callable[[str], object]


def run_stream(
    spark: SparkSession,
    pipeline: Pipeline,
    show: Show,
    callbacks: StreamCallbacks | None = None,
    identity: PipelineIdentity | None = None,
) -> RunResult:
    """Run a streaming pipeline until it ends and return what it read and wrote. Raises PipelineError if the sink cannot
    be appended to, the checkpoint belongs to another pipeline, or the query fails; BrokenPipeError if `show` fails with
    it. On KeyboardInterrupt stop the query and raise Stopped with the result so far. `identity`: that of the pipeline
    with its clusters, if it is known.
    """
    with plain_errors():
        _ensure_appendable(spark, pipeline)
        directory = Directory(spark, uris.path_of(pipeline.sink.uri)) if pipeline.sink.uri.is_file else None
        before = set(directory.files()) if directory is not None else set()
        spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", "10000")
        _ensure_few_tasks(spark)
        with reports_directory(pipeline) as reports:
            metrics = _metrics_of(spark, pipeline, reports)
            is_endless = pipeline.trigger != AVAILABLE_NOW
            opening = Opening(spark, pipeline, reports, has_stream_reports=is_endless and metrics is not None)
            opening = replace(opening, needs=column_needs(opening, with_bounds=False))
            tables = {source.name: open_table(opening, source) for source in pipeline.sources}
            rows = query(spark, pipeline, {name: table.frame for name, table in tables.items()})
            if pipeline.sink.merge_by:
                ensure_mergeable(pipeline.sink, rows.columns, has_several_topics=pipeline.has_several_topics)
            claim_checkpoint(spark, pipeline, identity)
            counts = _Counts()
            broken_pipes: list[BrokenPipeError] = []
            streaming_query = _start(pipeline, rows, show, broken_pipes)
            stop: KeyboardInterrupt | None = None
            try:
                for batches in _counted(streaming_query, counts, broken_pipes):
                    _show_batches(metrics, batches)
                    if callbacks is not None:
                        callbacks.on_rows_read(counts.read)
                        _tell_of_values(pipeline, counts, callbacks.tell)
            except KeyboardInterrupt as interrupt:
                stop = interrupt
                streaming_query.stop()
                _show_batches(metrics, counts.update(streaming_query))
            has_all_reports = not is_endless and _shares_reports(spark, pipeline)
            sources = [
                _source_result(opening, source, counts, has_all_reports=has_all_reports) for source in pipeline.sources
            ]
            result = RunResult(sources, str(pipeline.sink.uri), counts.rows, _files_since(spark, directory, before))
        if stop is not None:
            raise Stopped(result) from stop
        return result


def _metrics_of(spark: SparkSession, pipeline: Pipeline, reports: str) -> StreamMetrics | None:
    """Return the metrics of the stream in Spark's UI; None if it has none, or executors could not share reports, whose
    files nobody would delete."""
    if not is_shown(spark) or not _shares_reports(spark, pipeline):
        return None
    deletes = pipeline.trigger != AVAILABLE_NOW
    sources = {
        f"{source.uri} as {source.name}": SourceReports(reports_of(reports, source), deletes=deletes)
        if source.uri.is_kafka
        else None
        for source in pipeline.sources
    }
    names = ", ".join(str(source.uri) for source in pipeline.sources)
    return StreamMetrics(spark, f"kt pipeline: {names} to {pipeline.sink.uri}", sources)


def _shares_reports(spark: SparkSession, pipeline: Pipeline) -> bool:
    """Return whether this process sees the reports of all executors."""
    return pipeline.shares_reports or (not is_connected(spark) and is_local(spark.sparkContext))


def _show_batches(metrics: StreamMetrics | None, batches: Iterable[TriggerProgress]) -> None:
    if metrics is not None:
        for batch in batches:
            metrics.add_batch(batch, _source_offsets(batch))


def _files_since(
    spark: SparkSession, directory: Directory | None, before: Collection[SinkFile]
) -> list[SinkFile] | None:
    """Return the committed files that were not there before; None for a sink without files, and for a directory that is
    not visible."""
    if directory is None or not directory.is_visible:
        return None
    return [file for file in committed_files(spark, directory) if file not in before]


def committed_files(spark: SparkSession, directory: Directory) -> list[SinkFile]:
    """Return the files of committed micro-batches according to the log of Spark's file sink; none if there is no log.
    Files of an interrupted micro-batch may still be in the directory."""
    log = "_spark_metadata"
    if not Directory(spark, f"{directory.path}/{log}").files():
        return []
    base = (urlsplit(directory.path).path if "://" in directory.path else directory.path).rstrip("/")
    committed = {
        unquote(urlsplit(url).path)[len(base) + 1 :]
        for url in spark.read.format("text").load(directory.path).inputFiles()
    }
    return [file for file in directory.files() if file.path in committed]


class Stopped(KeyboardInterrupt):
    """Ctrl-C stopped the stream; `result` is the RunResult so far."""

    def __init__(self, result: RunResult) -> None:
        super().__init__()
        self.result = result


def _ensure_appendable(spark: SparkSession, pipeline: Pipeline) -> None:
    """Raise PipelineError for a mode other than append, for the directory of a stream with another checkpoint, or if a
    file sink has content or a table exists, the checkpoint is new and --mode append is missing. Rows can be merged into
    a table at any time."""
    sink = pipeline.sink
    if sink.mode not in (None, "append"):
        raise PipelineError(f"A stream can only append to its sink; --mode {sink.mode} cannot be used with --stream")
    if StreamProgress(spark, pipeline).is_behind_sink():
        raise PipelineError(
            f"{sink.uri} has the files of a stream with another checkpoint than {pipeline.checkpoint}: Spark would "
            "leave out the first micro-batches of this one; name the checkpoint of that stream, or another directory"
        )
    if sink.mode == "append" or sink.merge_by or not (sink.uri.is_file or sink.uri.is_table):
        return
    assert pipeline.checkpoint is not None
    has_checkpoint = Directory(spark, uris.absolute(pipeline.checkpoint)).exists()
    if not has_checkpoint and sink_mode(spark, replace(sink, mode="append"))[1]:
        raise PipelineError(
            f"{sink.uri} already exists, and there is no checkpoint in {pipeline.checkpoint}; --mode append adds to it"
        )


def _ensure_few_tasks(spark: SparkSession) -> None:
    """On a local master, plan as many shuffle tasks as there are cores, unless spark.sql.shuffle.partitions is set.
    Spark plans 200 for each micro-batch of a stream and does not reduce them."""
    name = "spark.sql.shuffle.partitions"
    if is_connected(spark) or not (spark.sparkContext.master or "").startswith("local"):
        return
    if spark.sparkContext.getConf().get(name) is None and spark.conf.get(name) == "200":
        spark.conf.set(name, str(spark.sparkContext.defaultParallelism))


def _start(pipeline: Pipeline, rows: DataFrame, show: Show, broken_pipes: list[BrokenPipeError]) -> StreamingQuery:
    assert pipeline.checkpoint is not None
    sink = pipeline.sink
    rows = rows.observe(_SINK_METRICS, F.count(F.lit(1)).alias(ROWS))
    modes = {name: value for name, value in sink.options.items() if name.lower() == _MODE}
    writer = rows.writeStream.option("checkpointLocation", uris.absolute(pipeline.checkpoint))
    for mode in modes.values():
        writer = writer.outputMode(mode)
    if pipeline.trigger == AVAILABLE_NOW:
        writer = writer.trigger(availableNow=True)
    elif pipeline.trigger is not None:
        writer = writer.trigger(processingTime=f"{pipeline.trigger} seconds")
    if sink.merge_by:
        return writer.foreachBatch(lambda table, number: _merge_batch(sink, table, number)).start()
    if sink.uri.kind == uris.CONSOLE:
        return writer.foreachBatch(lambda table, _: _show_batch(show, table, broken_pipes)).start()
    options = {name: value for name, value in sink.options.items() if name not in modes}
    if sink.uri.kind == uris.ICEBERG:  # else rows of a partitioned table would have to arrive sorted
        options = {"fanout-enabled": "true", **options}
    form, options = uris.write_options(sink.uri, options, sink.cluster)
    writer = writer.format(form).options(**options)
    if sink.partition_by:
        writer = writer.partitionBy(*sink.partition_by)
    return writer.toTable(sink.uri.target) if sink.uri.kind == uris.ICEBERG else writer.start()


def _merge_batch(sink: Sink, table: DataFrame, number: int) -> None:
    """Merge a micro-batch into the table, on Spark's thread."""
    spark = table.sparkSession
    query_id = spark.sparkContext.getLocalProperty("sql.streaming.queryId")
    merge_rows(spark, sink, table, MicroBatch(query_id, number) if query_id else None)


def _show_batch(show: Show, table: DataFrame, broken_pipes: list[BrokenPipeError]) -> None:
    """Print a micro-batch on Spark's thread; a BrokenPipeError is also stored in `broken_pipes` for the waiting
    thread."""
    try:
        show(table)
    except BrokenPipeError as error:
        broken_pipes.append(error)
        raise


def _counted(
    streaming_query: StreamingQuery, counts: _Counts, broken_pipes: list[BrokenPipeError]
) -> Iterator[list[TriggerProgress]]:
    """Update the counts twice a second and yield the progress of the micro-batches that have ended, until the query
    ends. Raises the exception that ended the query; KeyboardInterrupt or BrokenPipeError if that was the cause."""
    ended = False
    while not ended:
        try:
            ended = bool(streaming_query.awaitTermination(_POLL_S))  # type: ignore[arg-type]
        except Exception as error:
            if broken_pipes:
                raise BrokenPipeError from broken_pipes[0]
            if was_interrupted(error):
                raise KeyboardInterrupt from error
            raise
        yield counts.update(streaming_query)


_OUTCOMES = {
    "bad": "{part}s cannot be decoded: null in their place",
    "unknown_fields": "{part}s of a newer schema have fields that the columns of this stream lack: they are left out; "
    "start the stream again to get them, or give --{part}-schema FILE",
}
"""The lines of a stream about values, by the kind of the column that marks them."""


def _tell_of_values(pipeline: Pipeline, counts: _Counts, tell: Callable[[str], object]) -> None:
    """Call `tell` with a line once the first keys or values of a source are bad or have more fields than the column."""
    for source in pipeline.sources:
        metrics = counts.metrics.get(f"kt_{source.name}", {})
        for part in ("key", "value"):
            for kind, line in _OUTCOMES.items():
                name = f"{source.name} {kind} {part}"
                if metrics.get(f"__kt_{kind}_{part}") and name not in counts.told:
                    counts.told.add(name)
                    tell(f"{source.uri}: {line.format(part=part)}")


def progress_since(streaming_query: StreamingQuery, timestamp: str) -> list[TriggerProgress]:
    """Return the query's progress of the triggers after the one that began at `timestamp`, oldest first. Timestamps are
    compared for equality only, since the clock may be set back. From the JVM of this process only the progress after
    it is fetched: a long stream has thousands."""
    found: list[TriggerProgress] = []
    if is_connected(streaming_query):
        for progress in reversed(streaming_query.recentProgress):
            content = json.loads(progress.json)
            if content["timestamp"] == timestamp:
                break
            found.append(content)
        return found[::-1]
    kept = streaming_query._jsq.recentProgress()
    for at in reversed(range(len(kept))):
        if kept[at].timestamp() == timestamp:
            break
        found.append(json.loads(kept[at].json()))
    return found[::-1]


class _Counts:
    """Sums of Spark's progress over micro-batches: rows written, rows read, metrics and offset ranges. A batch counts
    once; a batch that read no rows is left out, except in `ends`: the end offsets of all partitions. What a source has
    is in Spark's order; `uses` finds the sources of the pipeline in it."""

    def __init__(self) -> None:
        self.rows = 0
        self.read = 0
        self.metrics: dict[str, dict[str, int]] = {}
        self.offsets: list[tuple[SourceOffsets, SourceOffsets]] = []
        self.read_of: list[int] = []
        self.told: set[str] = set()
        self.ends: list[SourceOffsets] = []
        self._identities: list[tuple[JsonValue, str]] = []  # the newest end offsets and the description of each source
        self._newest = ""  # the timestamp of the newest progress that was seen

    def update(self, streaming_query: StreamingQuery) -> list[TriggerProgress]:
        """Add the query's recent micro-batches that read rows and are not counted yet, and return their progress."""
        added = []
        for batch in progress_since(streaming_query, self._newest):
            self._newest = batch["timestamp"]
            for at, source in enumerate(batch["sources"]):
                self._note_end(at, parsed(source.get("endOffset")), str(source.get("description", "")))
            rows = sum(int(source["numInputRows"]) for source in batch["sources"])  # Spark Connect has no sum
            if rows:
                self.read += rows
                self._add(batch)
                added.append(batch)
        return added

    def uses(self, pipeline: Pipeline, source: Source) -> list[int] | None:
        """Return the positions in Spark's order that belong to a source of the pipeline: one for each use in the query.
        None if that is unknown: offsets of its kind cannot be told from those of another source."""
        names = [source_name(pipeline, offsets, description) for offsets, description in self._identities]
        is_unknown = any(
            name is None and bool(topic_offsets(offsets)) == source.uri.is_kafka
            for name, (offsets, _) in zip(names, self._identities, strict=True)
        )
        found = [at for at, name in enumerate(names) if name == source.name]
        return found if found or not is_unknown else None

    def records(self, uses: Sequence[int]) -> int:
        """Return the number of records of a source that the query reads at these positions: once for each of them."""
        return max((self.read_of[at] for at in uses if at < len(self.read_of)), default=0)

    def _note_end(self, at: int, offsets: JsonValue, description: str) -> None:
        if at == len(self.ends):
            self.ends.append({})
            self._identities.append((offsets, description))
        if offsets is not None:
            self._identities[at] = (offsets, description)
        for topic, partitions in topic_offsets(offsets).items():
            self.ends[at].setdefault(topic, {}).update(partitions)

    def _add(self, batch: TriggerProgress) -> None:
        for name, row in (batch.get("observedMetrics") or {}).items():
            sums = self.metrics.setdefault(name, {})
            for metric, value in _metrics(row or {}).items():
                sums[metric] = sums.get(metric, 0) + int(value or 0)
        self.rows = self.metrics.get(_SINK_METRICS, {}).get(ROWS, 0)
        for at, (source, (start, end)) in enumerate(zip(batch["sources"], _source_offsets(batch), strict=True)):
            if at == len(self.read_of):
                self.read_of.append(0)
                self.offsets.append((start, {}))
            self.read_of[at] += int(source["numInputRows"])
            self.offsets[at] = (self.offsets[at][0], end)


def _source_offsets(batch: TriggerProgress) -> list[tuple[SourceOffsets, SourceOffsets]]:
    """Return the start and end of each source of a micro-batch, from its progress."""
    return [(_offsets(source.get("startOffset")), _offsets(source.get("endOffset"))) for source in batch["sources"]]


def _metrics(row: Mapping[str, Any]) -> Mapping[str, int | None]:
    """Return the metrics of an observation by name. Spark Connect has them as a row with its schema."""
    if row.keys() != {"values", "schema"}:
        return row
    names = [field["name"] for field in row["schema"]["fields"]]
    return dict(zip(names, row["values"], strict=True))


def _offsets(value: JsonValue) -> SourceOffsets:
    """Return Kafka offsets by topic and partition from Spark's progress; empty for sources with other offsets."""
    return topic_offsets(parsed(value))


def _source_result(opening: Opening, source: Source, counts: _Counts, *, has_all_reports: bool = False) -> SourceResult:
    """Return the counts of a source. If Spark shares it among several uses in the query, its progress adds up their
    rows. The observation of the source has them once, and so have the readers' reports with `has_all_reports`."""
    uses = counts.uses(opening.pipeline, source)
    metrics = counts.metrics.get(f"kt_{source.name}", {})
    has_end = opening.pipeline.trigger == AVAILABLE_NOW
    ended = highest(counts.ends if uses is None else [counts.ends[at] for at in uses])

    def is_counted(report: SplitReport) -> bool:
        """Return whether the report is one of a micro-batch that has ended. Ctrl-C leaves reports of a batch that will
        be read again; those of a stream without end are for Spark's UI, and not all of them are there."""
        return has_end and report.start_offset < ended.get(report.topic, {}).get(str(report.partition), 0)

    result = read_reported(source, opening.reports, is_counted)
    if uses is not None:
        reported = result.records if has_all_reports else None
        observed = metrics.get(ROWS) if len(uses) == 1 else None
        result.records = min(count for count in (counts.records(uses), observed, reported) if count is not None)
    elif not has_end:  # else the readers' reports have the number
        result.records = None
    if source.uri.is_kafka and not result.partitions and result.records and uses is not None:
        ranges = [counts.offsets[at] for at in uses if at < len(counts.offsets)]
        result.partitions = partition_progress(lowest(start for start, _ in ranges), highest(end for _, end in ranges))
    result.set_counts(metrics)
    for part in ("key", "value"):
        plan = opening.plans.get((source.name, part))
        if plan is None or metrics:
            continue
        if not opening.pipeline.strict:  # no micro-batch, so no value was bad
            setattr(result, f"bad_{part}s", 0)
        if plan.finds_unknown_fields:
            setattr(result, f"{part}s_with_unknown_fields", 0)
    return result


def partition_progress(
    starts: Mapping[str, Mapping[str, int]], ends: Mapping[str, Mapping[str, int]]
) -> list[PartitionContent]:
    """Build manifest entries from Spark's offsets alone: `first_offset` is the start offset (None if unknown); the last
    offset, counts and checksum are None."""
    return [
        {"topic": topic, "partition": int(partition), "first_offset": starts.get(topic, {}).get(partition),
         "last_offset": None, "start_offset": starts.get(topic, {}).get(partition), "end_offset": end,
         "records": None, "batches": None, "checksum": None, "files": []}
        for topic, partitions in sorted(ends.items())
        for partition, end in sorted(partitions.items(), key=lambda entry: int(entry[0]))
    ]  # fmt: skip
