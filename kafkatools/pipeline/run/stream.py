"""Runs a pipeline that goes on with what comes: micro-batches from a checkpoint, until there is nothing left
(available-now) or until it is stopped.

Rules: exactly once is Spark's checkpoint together with the sink: files through Spark's own log of them, topics through
the transactions of `kt`. Counts are those of Spark's progress, taken batch by batch; with available-now, which ends,
the readers' reports too. Stopping (Ctrl-C) ends after what the sink has; it is told what was done until then.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NotRequired, TypedDict
from urllib.parse import unquote, urlsplit

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from kafkatools.core.json_values import JsonValue
from kafkatools.pipeline import uris
from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.run.batch import (
    ROWS,
    Opening,
    RunResult,
    Show,
    SourceResult,
    open_table,
    plain_errors,
    query,
    read_reported,
    reports_directory,
)
from kafkatools.pipeline.run.session import is_connected, was_interrupted
from kafkatools.pipeline.run.spec import AVAILABLE_NOW, Pipeline, Source
from kafkatools.pipeline.sinks.files import Directory, SinkFile
from kafkatools.pipeline.sources.live import offsets as live_offsets
from kafkatools.pipeline.types import PartitionContent

_SINK_METRICS = "kt_sink"
_POLL_S = 0.5
_MODE = "outputmode"


def run_stream(
    spark: SparkSession, pipeline: Pipeline, show: Show, told: Callable[[int], None] | None = None
) -> RunResult:
    """Runs until the stream ends; `told` is called with the number of rows read so far.

    KeyboardInterrupt stops it: what was done is in the exception's `result`.
    """
    with plain_errors():
        _ensure_appendable(spark, pipeline)
        directory = Directory(spark, uris.path_of(pipeline.sink.uri)) if pipeline.sink.uri.is_file else None
        before = set(directory.files()) if directory is not None else set()
        spark.conf.set("spark.sql.streaming.numRecentProgressUpdates", "10000")
        _ensure_few_tasks(spark)
        with reports_directory(pipeline) as reports:
            opening = Opening(spark, pipeline, reports)
            tables = {source.name: open_table(opening, source) for source in pipeline.sources}
            made = query(spark, pipeline, {name: table.frame for name, table in tables.items()})
            counts = _Counts()
            unread: list[BrokenPipeError] = []
            running = _started(pipeline, made, show, unread)
            stop: KeyboardInterrupt | None = None
            try:
                _follow(running, counts, told, unread)
            except KeyboardInterrupt as interrupt:
                stop = interrupt
                running.stop()
                counts.take(running)
            sources = [_source_result(pipeline, source, reports, counts) for source in pipeline.sources]
            files = None
            if directory is not None and directory.is_visible:
                files = [file for file in _committed(spark, directory) if file not in before]
            result = RunResult(sources, str(pipeline.sink.uri), counts.rows, files)
        if stop is not None:
            raise Stopped(result) from stop
        return result


def _committed(spark: SparkSession, directory: Directory) -> list[SinkFile]:
    """The files that belong to rounds that were committed, as the log of Spark's file sink says; those of a round that
    was stopped may lie there still."""
    log = "_spark_metadata"
    if not Directory(spark, f"{directory.path}/{log}").files():
        return []
    base = (urlsplit(directory.path).path if "://" in directory.path else directory.path).rstrip("/")
    known = {
        unquote(urlsplit(url).path)[len(base) + 1 :]
        for url in spark.read.format("text").load(directory.path).inputFiles()
    }
    return [file for file in directory.files() if file.path in known]


class Stopped(KeyboardInterrupt):
    """The stream was stopped; `result` is what it did."""

    def __init__(self, result: RunResult) -> None:
        super().__init__()
        self.result = result


def _ensure_appendable(spark: SparkSession, pipeline: Pipeline) -> None:
    """A stream adds to its sink: one that holds something has to be its own, or --mode append says that it may."""
    sink = pipeline.sink
    if sink.mode not in (None, "append"):
        raise PipelineError(f"A stream can only append to its sink, not --mode {sink.mode}")
    if not sink.uri.is_file or sink.mode == "append":
        return
    assert pipeline.checkpoint is not None
    is_known = Directory(spark, uris.absolute(pipeline.checkpoint)).exists()
    if not is_known and Directory(spark, uris.path_of(sink.uri)).exists():
        raise PipelineError(
            f"{sink.uri} exists, and {pipeline.checkpoint} knows nothing of it: --mode append adds to it"
        )


def _ensure_few_tasks(spark: SparkSession) -> None:
    """Spark plans a stream's aggregations for 200 tasks a round, and never fewer: too many for one machine's cores."""
    name = "spark.sql.shuffle.partitions"
    if is_connected(spark) or not (spark.sparkContext.master or "").startswith("local"):
        return
    if spark.sparkContext.getConf().get(name) is None and spark.conf.get(name) == "200":
        spark.conf.set(name, str(spark.sparkContext.defaultParallelism))


def _started(pipeline: Pipeline, made: DataFrame, show: Show, unread: list[BrokenPipeError]) -> StreamingQuery:
    assert pipeline.checkpoint is not None
    sink = pipeline.sink
    made = made.observe(_SINK_METRICS, F.count(F.lit(1)).alias(ROWS))
    modes = {name: value for name, value in sink.options.items() if name.lower() == _MODE}
    writer = made.writeStream.option("checkpointLocation", uris.absolute(pipeline.checkpoint))
    for mode in modes.values():
        writer = writer.outputMode(mode)
    if pipeline.trigger == AVAILABLE_NOW:
        writer = writer.trigger(availableNow=True)
    elif pipeline.trigger is not None:
        writer = writer.trigger(processingTime=f"{pipeline.trigger} seconds")
    if sink.uri.kind == uris.CONSOLE:
        return writer.foreachBatch(lambda table, _: _shown(show, table, unread)).start()
    options = {name: value for name, value in sink.options.items() if name not in modes}
    form, given = uris.write_options(sink.uri, options, sink.cluster)
    writer = writer.format(form).options(**given)
    if sink.partition_by:
        writer = writer.partitionBy(*sink.partition_by)
    return _start(writer, sink.uri)


def _start(writer: DataStreamWriter, uri: uris.Uri) -> StreamingQuery:
    return writer.toTable(uri.target) if uri.kind == uris.ICEBERG else writer.start()


def _shown(show: Show, table: DataFrame, unread: list[BrokenPipeError]) -> None:
    """Prints on a thread of Spark's; that nobody reads any more is told to the one that waits."""
    try:
        show(table)
    except BrokenPipeError as error:
        unread.append(error)
        raise


def _follow(
    running: StreamingQuery, counts: _Counts, told: Callable[[int], None] | None, unread: list[BrokenPipeError]
) -> None:
    """Until it ends; raises what ended it."""
    ended = False
    while not ended:
        try:
            ended = bool(running.awaitTermination(_POLL_S))  # type: ignore[arg-type]
        except Exception as error:
            if unread:
                raise BrokenPipeError from unread[0]
            if was_interrupted(error):
                raise KeyboardInterrupt from error
            raise
        counts.take(running)
        if told is not None:
            told(counts.read)


class _SourceProgress(TypedDict):
    """One source of a batch, as Spark's StreamingQueryProgress names it."""

    numInputRows: int
    startOffset: NotRequired[JsonValue]
    endOffset: NotRequired[JsonValue]


class _BatchProgress(TypedDict):
    """One batch, as Spark's StreamingQueryProgress names it."""

    batchId: int
    numInputRows: int
    observedMetrics: NotRequired[Mapping[str, Mapping[str, int | None] | None] | None]
    sources: Sequence[_SourceProgress]


class _Counts:
    """What Spark's progress adds up to; a batch counts once."""

    def __init__(self) -> None:
        self.rows = 0
        self.read = 0
        self.metrics: dict[str, dict[str, int]] = {}
        self.offsets: list[tuple[dict[str, dict[str, int]], dict[str, dict[str, int]]]] = []
        self.read_of: list[int] = []
        self._seen: set[int] = set()

    def take(self, running: StreamingQuery) -> None:
        """Adds the batches that are new."""
        for progress in running.recentProgress:
            batch = _as_dict(progress)
            if batch["batchId"] not in self._seen and batch.get("numInputRows"):
                self._seen.add(batch["batchId"])
                self._add(batch)

    def _add(self, batch: _BatchProgress) -> None:
        self.read += int(batch["numInputRows"])
        for name, row in (batch.get("observedMetrics") or {}).items():
            into = self.metrics.setdefault(name, {})
            for metric, value in _metrics(row):
                into[metric] = into.get(metric, 0) + int(value or 0)
        self.rows = self.metrics.get(_SINK_METRICS, {}).get(ROWS, 0)
        for at, source in enumerate(batch["sources"]):
            if at == len(self.read_of):
                self.read_of.append(0)
                self.offsets.append((_offsets(source.get("startOffset")), {}))
            self.read_of[at] += int(source["numInputRows"])
            self.offsets[at] = (self.offsets[at][0], _offsets(source.get("endOffset")))


def _as_dict(progress: StreamingQueryProgress) -> _BatchProgress:
    made: _BatchProgress = json.loads(progress.json)
    return made


def _metrics(row: Mapping[str, int | None] | None) -> Iterator[tuple[str, int | None]]:
    return iter(row.items()) if isinstance(row, dict) else iter(())


def _offsets(value: JsonValue) -> dict[str, dict[str, int]]:
    """Kafka's offsets as Spark tells them; empty for what has others."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError:
            return {}
    if not isinstance(value, dict):
        return {}
    try:
        return live_offsets.to_json(live_offsets.from_json(value))  # without what a first batch tells besides
    except PipelineError:
        return {}


def _source_result(pipeline: Pipeline, source: Source, reports: str, counts: _Counts) -> SourceResult:
    at = pipeline.sources.index(source)
    seen = counts.metrics.get(f"kt_{source.name}", {})
    result = read_reported(source, reports) if source.uri.is_kafka else SourceResult(source.name, str(source.uri))
    result.records = counts.read_of[at] if at < len(counts.read_of) else 0
    if source.uri.is_kafka and not result.partitions and at < len(counts.offsets):
        result.partitions = _progressed(*counts.offsets[at])
    for part in ("key", "value"):
        if getattr(source, part) is not None and not pipeline.strict:
            setattr(result, f"bad_{part}s", seen.get(f"__kt_bad_{part}", 0))
    return result


def _progressed(
    starts: Mapping[str, Mapping[str, int]], ends: Mapping[str, Mapping[str, int]]
) -> list[PartitionContent]:
    """Partitions by Spark's offsets alone: neither counts nor checksums are known of each."""
    return [
        {"topic": topic, "partition": int(partition), "first_offset": starts.get(topic, {}).get(partition),
         "last_offset": None, "start_offset": starts.get(topic, {}).get(partition), "end_offset": end,
         "records": None, "batches": None, "checksum": None, "files": []}
        for topic, partitions in sorted(ends.items())
        for partition, end in sorted(partitions.items(), key=lambda one: int(one[0]))
    ]  # fmt: skip
