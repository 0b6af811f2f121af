"""Runs with a manifest: resumed where an earlier one ended, their files put into the sink all at once, and verified.

The states of a run whose sink is a directory of files: nothing (its files lie below `_kt-...`, and nobody reads them),
the journal is there (from here on the run is as good as done: whoever finds it moves what is not moved yet and writes
the manifest), the manifest is there. Other sinks have their own way of being all or nothing; there the journal says
that writing had begun, so that nobody writes twice without knowing.
"""

from __future__ import annotations

import hashlib
import os
import platform
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from kafkatools.core.clock import Clock
from kafkatools.pipeline import uris
from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.run import manifest as records
from kafkatools.pipeline.run.batch import (
    RunResult,
    Show,
    SourceResult,
    partition_rows,
    plain_errors,
    run_once,
    sink_mode,
)
from kafkatools.pipeline.run.manifest import Difference
from kafkatools.pipeline.run.reports import read_reports
from kafkatools.pipeline.run.spec import ISOLATION_OPTIONS, Pipeline, Source
from kafkatools.pipeline.sinks.files import Directory, SinkFile
from kafkatools.pipeline.types import (
    Journal,
    ManifestContent,
    PipelineIdentity,
    SinkContent,
    SinkFileContent,
    SourceContent,
    SourceFileContent,
)
from kafkatools.version import __version__

_WHOLE_LINES = ("json", "text")


class Recording(NamedTuple):
    """What the manifest of a run needs besides its result. `before` is the manifest that it goes on from."""

    path: str
    identity: PipelineIdentity
    before: ManifestContent | None
    clock: Clock
    started_ms: int


def run_recorded(spark: SparkSession, pipeline: Pipeline, show: Show, clock: Clock) -> RunResult:
    """Runs a pipeline that has a manifest, in one batch; with `resume` what it says is done is not done again."""
    with plain_errors():
        path = pipeline.manifest
        assert path is not None
        records.ensure_writable(path)
        _settle_journal(spark, pipeline, path)
        before = records.read_manifest(path) if pipeline.resume else None
        recording = Recording(path, records.identity(pipeline), before, clock, clock.wall_ms())
        if before is not None:
            records.ensure_same(path, before, pipeline)
            _ensure_same_files(spark, pipeline, before)
            if not any(source.uri.is_kafka for source in pipeline.sources):
                return RunResult([], str(pipeline.sink.uri), is_skipped=True)
            pipeline = _rest(pipeline, before)
        mode, has_content = sink_mode(spark, pipeline.sink)
        if mode == "ignore" and has_content:
            return RunResult([], str(pipeline.sink.uri), is_skipped=True)
        if pipeline.sink.uri.is_file and Directory(spark, uris.path_of(pipeline.sink.uri)).can_move:
            return _run_staged(spark, pipeline, mode, show, recording)
        return _run_marked(spark, pipeline, mode, show, recording)


def _rest(pipeline: Pipeline, before: ManifestContent) -> Pipeline:
    """The same pipeline over what came since; its rows are added."""
    if pipeline.sink.mode not in (None, "append"):
        return pipeline
    old = {one["name"]: one for one in before["sources"]}
    sources = tuple(
        replace(source, options=_resumed(source, old[source.name])) if source.uri.is_kafka else source
        for source in pipeline.sources
    )
    return replace(pipeline, sources=sources, sink=replace(pipeline.sink, mode="append"))


def _resumed(source: Source, old: SourceContent) -> dict[str, str]:
    """The source's options, and where it starts instead of where it started."""
    kept = {name: value for name, value in source.options.items() if not name.lower().startswith("starting")}
    return {**kept, "startingOffsets": records.next_offsets(old, records.present_partitions(source))}


def _ensure_same_files(spark: SparkSession, pipeline: Pipeline, before: ManifestContent) -> None:
    """PipelineError when the files of a file source are others than they were."""
    old = {one["name"]: one for one in before["sources"]}
    for source in pipeline.sources:
        if not source.uri.is_kafka and _source_files(spark, source) != old[source.name]["files"]:
            changed = f"{source.uri}: its files are others than {pipeline.manifest} says"
            raise PipelineError(f"{changed}: run without --resume")


def _source_files(spark: SparkSession, source: Source) -> list[SourceFileContent] | None:
    if not source.uri.is_file:
        return None
    files = Directory(spark, uris.path_of(source.uri)).files()
    return [{"path": one.path, "size": one.size_bytes, "modified_ms": one.modified_ms} for one in files]


# -- Files that appear all at once --


def _run_staged(spark: SparkSession, pipeline: Pipeline, mode: str, show: Show, recording: Recording) -> RunResult:
    sink = pipeline.sink
    directory = Directory(spark, uris.path_of(sink.uri))
    staging = _staging_name(recording.path)
    place = f"{directory.path}/{staging}"
    directory.delete([staging])
    try:
        result = run_once(spark, pipeline, "error", show, place)
    except PipelineError:
        directory.delete([staging])
        raise
    if recording.before is not None and mode == "append" and not any(source.records for source in result.sources):
        directory.delete([staging])
        return replace(result, rows=0, files=[], is_skipped=True)
    staged = directory.files(staging)
    result = replace(result, files=staged)
    rows = file_rows(spark, pipeline, place, [file.path for file in staged])
    journal: Journal = {
        "directory": directory.path,
        "staging": staging,
        "delete": [file.path for file in directory.files()] if mode == "overwrite" else [],
        "move": [file.path for file in staged],
        "manifest": _content(spark, pipeline, result, mode, recording, rows),
    }
    records.write_whole(records.journal_path(recording.path), journal)
    _finish(directory, recording.path, journal)
    return result


def _staging_name(manifest: str) -> str:
    return f"_kt-{hashlib.sha256(os.path.abspath(manifest).encode()).hexdigest()[:16]}"


def _finish(directory: Directory, manifest: str, journal: Journal) -> None:
    """Everything behind the journal; it can be done again and again."""
    directory.delete(journal["delete"])
    directory.move(journal["staging"], journal["move"])
    directory.mark_success()
    directory.delete([journal["staging"]])
    records.write_whole(manifest, journal["manifest"])
    records.delete_journal(manifest)


def _settle_journal(spark: SparkSession, pipeline: Pipeline, path: str) -> None:
    """Finishes a run that was interrupted behind its journal. PipelineError when nobody said that it is to be."""
    journal = records.read_journal(path)
    if journal is None:
        return
    where = records.journal_path(path)
    if "writing" in journal:
        raise PipelineError(
            f"{where}: a run was interrupted while it wrote to {journal['writing']}, part of its rows may be there; "
            "look, then delete that file to write all rows anew"
        )
    if not pipeline.resume:
        raise PipelineError(f"{where}: a run was interrupted when its rows were written already: --resume finishes it")
    _finish(Directory(spark, journal["directory"]), path, journal)


# -- Other sinks --


def _run_marked(spark: SparkSession, pipeline: Pipeline, mode: str, show: Show, recording: Recording) -> RunResult:
    """Sinks that are no directory of files. Tables take all rows or none, so that a failure leaves no doubt; a topic
    may have got a part."""
    uri = pipeline.sink.uri
    if uri.kind == uris.CONSOLE:
        result = run_once(spark, pipeline, mode, show)
        records.write_whole(recording.path, _content(spark, pipeline, result, mode, recording, {}))
        return result

    def begin() -> None:
        records.write_whole(records.journal_path(recording.path), {"writing": str(uri)})

    try:
        result = run_once(spark, pipeline, mode, show, begin=begin)
    except PipelineError:
        if uri.kind != uris.TOPIC and records.read_journal(recording.path) is not None:
            records.delete_journal(recording.path)
        raise
    records.write_whole(recording.path, _content(spark, pipeline, result, mode, recording, {}))
    records.delete_journal(recording.path)
    return result


# -- Streams --


def stream_recorded(
    spark: SparkSession, pipeline: Pipeline, show: Show, clock: Clock, told: Callable[[int], None] | None = None
) -> RunResult:
    """Runs a stream that has a manifest: it is written when the stream ends or is stopped, and goes on with the next
    run, as the checkpoint does.
    """
    from kafkatools.pipeline.run.stream import Stopped, run_stream

    path = pipeline.manifest
    assert path is not None
    records.ensure_writable(path)
    before = records.read_manifest(path)
    if before is not None:
        records.ensure_same(path, before, pipeline)
    recording = Recording(path, records.identity(pipeline), before, clock, clock.wall_ms())
    try:
        result = run_stream(spark, pipeline, show, told)
    except Stopped as stopped:
        _write_streamed(spark, pipeline, stopped.result, recording)
        raise
    _write_streamed(spark, pipeline, result, recording)
    return result


def _write_streamed(spark: SparkSession, pipeline: Pipeline, result: RunResult, recording: Recording) -> None:
    with plain_errors():
        rows = {}
        if result.files:
            rows = file_rows(spark, pipeline, uris.path_of(pipeline.sink.uri), [file.path for file in result.files])
        records.write_whole(recording.path, _content(spark, pipeline, result, "append", recording, rows))


# -- Content --


def _content(
    spark: SparkSession,
    pipeline: Pipeline,
    result: RunResult,
    mode: str,
    recording: Recording,
    rows: Mapping[str, int],
) -> ManifestContent:
    """The manifest of a run, and of those that it went on from."""
    by_name = {source.name: source for source in pipeline.sources}
    content: ManifestContent = {
        "manifest": records.VERSION,
        "kafkatools": __version__,
        "spark": spark.version,
        "python": platform.python_version(),
        "started_ms": recording.started_ms,
        "finished_ms": recording.clock.wall_ms(),
        "runs": 1,
        "pipeline": recording.identity,
        "sources": [_source_content(spark, by_name[one.name], one) for one in result.sources],
        "sink": {
            "uri": result.sink,
            "mode": mode,
            "rows": result.rows,
            "files": None if result.files is None else [_file_content(one, rows) for one in result.files],
        },
    }
    return records.merged(recording.before, content) if recording.before is not None and mode == "append" else content


def _source_content(spark: SparkSession, source: Source, result: SourceResult) -> SourceContent:
    return {
        "name": result.name,
        "uri": result.uri,
        "records": result.records,
        "partitions": result.partitions,
        "damages": result.damages,
        "bad_keys": result.bad_keys,
        "bad_values": result.bad_values,
        "files": _source_files(spark, source),
    }


def _file_content(file: SinkFile, rows: Mapping[str, int]) -> SinkFileContent:
    return {"path": file.path, "size": file.size_bytes, "rows": rows.get(file.path, 0)}


def file_rows(spark: SparkSession, pipeline: Pipeline, directory: str, files: list[str]) -> dict[str, int]:
    """How many rows each of these files has, counted by Spark; the paths are those below the directory."""
    if not files:
        return {}
    uri = pipeline.sink.uri
    form, options = uris.write_options(uri, pipeline.sink.options, None)
    options.pop("path", None)
    if form in _WHOLE_LINES:
        form = "text"
    elif form == "csv":
        options["multiLine"] = "true"
    reader = spark.read.format(form).options(**options, recursiveFileLookup="true")
    if form == "csv":
        reader = reader.schema("line string")
    counted = reader.load([f"{directory}/{path}" for path in files]).groupBy(F.col("_metadata.file_path")).count()
    base = (urlsplit(directory).path if "://" in directory else directory).rstrip("/")
    found = {}
    for row in counted.collect():
        path = unquote(urlsplit(row[0]).path)
        found[path[len(base) + 1 :]] = int(row[1])
    return found


# -- Verification --


def verify_manifest(
    spark: SparkSession, content: ManifestContent, pipeline: Pipeline, reports: str
) -> list[Difference]:
    """Reads again what a manifest says was read, looks at what was written: all differences.

    `pipeline` has the same sources and sink, with the clusters of today; `reports` is an empty directory.
    """
    with plain_errors():
        sources = {source.name: source for source in pipeline.sources}
        found = []
        for one in content["sources"]:
            source = sources[one["name"]]
            if source.uri.is_kafka:
                found += _verify_records(spark, one, source, reports)
            else:
                found += _verify_files(spark, one, source)
        return found + _verify_sink(spark, content["sink"], pipeline)


def _verify_records(spark: SparkSession, one: SourceContent, source: Source, reports: str) -> list[Difference]:
    if not any(row["first_offset"] is not None for row in one["partitions"]):
        return []
    target = f"{reports}/{source.name}"
    kept = {key: value for key, value in source.options.items() if key.lower() in ISOLATION_OPTIONS}
    options = {**kept, **records.range_options(one), "reportPath": target}
    uri = source.uri if source.uri.kind == uris.LOG else source.uri._replace(target="")
    table = uris.read_source(spark, uri, options, source.cluster, "offset bigint")
    table.write.format("noop").mode("overwrite").save()
    return records.partition_differences(one["uri"], one["partitions"], partition_rows(read_reports(target)))


def _verify_files(spark: SparkSession, one: SourceContent, source: Source) -> list[Difference]:
    files = _source_files(spark, source)
    if one["files"] is None or files is None:
        return []
    return records.file_differences(one["uri"], one["files"], {row["path"]: (row["size"], None) for row in files})


def _verify_sink(spark: SparkSession, sink: SinkContent, pipeline: Pipeline) -> list[Difference]:
    if sink["files"] is None:
        return []
    directory = Directory(spark, uris.path_of(pipeline.sink.uri))
    sizes = {file.path: file.size_bytes for file in directory.files()}
    there = [one["path"] for one in sink["files"] if sizes.get(one["path"]) == one["size"]]
    rows = file_rows(spark, pipeline, directory.path, there)
    found = {path: (size, rows.get(path, 0) if path in there else None) for path, size in sizes.items()}
    return records.file_differences(sink["uri"], sink["files"], found)
