"""Batch runs with a manifest: resume where an earlier run ended, move output files into the sink at once, verify a
manifest.

A run into a directory of files has three states. Before the journal, its files are in a hidden directory `_kt-...`.
Once the journal exists the run counts as complete: a run with --resume moves the remaining files and writes the
manifest. At the end the manifest exists and the journal does not. For topics, tables, and files over Spark Connect, the
journal only marks that writing began, so that no run writes the same rows twice unnoticed.
"""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from kafkatools.core.clock import Clock
from kafkatools.pipeline import uris
from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.run import manifest as records
from kafkatools.pipeline.run.batch import (
    MERGE,
    RunResult,
    Show,
    partition_rows,
    plain_errors,
    reports_of,
    run_once,
    sink_mode,
)
from kafkatools.pipeline.run.identity import identity_with_clusters, topic_difference
from kafkatools.pipeline.run.manifest import Difference
from kafkatools.pipeline.run.reports import read_reports
from kafkatools.pipeline.run.resume_starts import resume_offsets
from kafkatools.pipeline.run.session import is_connected
from kafkatools.pipeline.run.spec import ISOLATION_OPTIONS, Pipeline, Source
from kafkatools.pipeline.sinks.files import Directory
from kafkatools.pipeline.sinks.table_versions import table_exists, table_version
from kafkatools.pipeline.storage import normal
from kafkatools.pipeline.types import (
    FileContent,
    Journal,
    ManifestContent,
    PipelineIdentity,
    SinkContent,
    SourceContent,
)
from kafkatools.version import __version__

_WHOLE_LINES = ("json", "text")


class Recording(NamedTuple):
    """The parts of a run's manifest besides the result. `before` is the manifest that the run resumes, or None."""

    path: str
    identity: PipelineIdentity
    before: ManifestContent | None
    clock: Clock
    started_ms: int


Tell = Callable[[str], object]


def run_recorded(
    spark: SparkSession, pipeline: Pipeline, show: Show, clock: Clock, tell: Tell = lambda _: None
) -> RunResult:
    """Run a batch pipeline and write its manifest. With `pipeline.resume`, first complete an interrupted run from its
    journal; then, if the manifest exists and the mode is append or None, continue after its offsets. The result has
    `is_skipped` if nothing new was written. `tell` is called with a line about an interrupted run. Raises
    PipelineError."""
    with plain_errors():
        path = pipeline.manifest
        assert path is not None
        records.ensure_writable(path)
        may_have_leftovers = _settle_journal(spark, pipeline, path, tell)
        before = records.read_manifest(path) if pipeline.resume else None
        present = identity_with_clusters(pipeline)
        recording = Recording(path, present, before, clock, clock.wall_ms())
        if before is not None:
            records.ensure_same(path, before, present)
            _ensure_same_files(spark, pipeline, before)
            if not any(source.uri.is_kafka for source in pipeline.sources):
                return RunResult([], str(pipeline.sink.uri), is_skipped=True)
            pipeline = _remaining_pipeline(pipeline, before, present)
        mode, has_content = sink_mode(spark, pipeline.sink, may_have_leftovers=may_have_leftovers)
        if mode == "ignore" and has_content:
            return RunResult([], str(pipeline.sink.uri), is_skipped=True)
        if pipeline.sink.uri.is_file and Directory(spark, uris.path_of(pipeline.sink.uri)).can_move:
            return _run_staged(spark, pipeline, mode, show, recording)
        return _run_marked(spark, pipeline, mode, show, recording)


def _remaining_pipeline(pipeline: Pipeline, before: ManifestContent, present: PipelineIdentity) -> Pipeline:
    """Return the pipeline with its Kafka sources starting at the manifest's end offsets, appending to the sink. A
    pipeline with another mode than append or None is returned unchanged. Raises PipelineError if a topic was created
    again since, so that these offsets have no meaning."""
    if pipeline.sink.mode not in (None, "append"):
        return pipeline
    if (found := topic_difference(before["pipeline"], present)) is not None:
        raise PipelineError(f"{pipeline.manifest}: {found}; name another --manifest and --to to read it from its start")
    old = {old_source["name"]: old_source for old_source in before["sources"]}
    sources = tuple(
        replace(source, options=_resume_options(source, old[source.name])) if source.uri.is_kafka else source
        for source in pipeline.sources
    )
    return replace(pipeline, sources=sources, sink=replace(pipeline.sink, mode="append"))


def _resume_options(source: Source, old: SourceContent) -> dict[str, str]:
    """Return the source's options with its start options replaced by start offsets: the end offsets of the manifest,
    and for partitions of which it has none the start by the options."""
    other_options = {name: value for name, value in source.options.items() if not name.lower().startswith("starting")}
    return {**other_options, "startingOffsets": resume_offsets(source, old)}


def _ensure_same_files(spark: SparkSession, pipeline: Pipeline, before: ManifestContent) -> None:
    """Raise PipelineError if the files of a file source differ from the manifest in path, size or modification time."""
    old = {old_source["name"]: old_source for old_source in before["sources"]}
    for source in pipeline.sources:
        if not source.uri.is_kafka and _source_files(spark, source) != old[source.name]["files"]:
            raise PipelineError(
                f"The files of {source.uri} differ from those in {pipeline.manifest}; run without --resume"
            )


def _source_files(spark: SparkSession, source: Source) -> list[FileContent] | None:
    if not source.uri.is_file:
        return None
    files = Directory(spark, uris.path_of(source.uri)).files()
    return [{"path": file.path, "size": file.size_bytes, "modified_ms": file.modified_ms} for file in files]


# -- Files that appear all at once --


def _run_staged(spark: SparkSession, pipeline: Pipeline, mode: str, show: Show, recording: Recording) -> RunResult:
    sink = pipeline.sink
    directory = Directory(spark, uris.path_of(sink.uri))
    staging = f"_kt-{hashlib.sha256(normal(recording.path).encode()).hexdigest()[:16]}"
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
    files = directory.files(staging)
    result = replace(result, files=files)
    rows = file_rows(spark, pipeline, place, [file.path for file in files])
    journal: Journal = {
        "directory": directory.path,
        "staging": staging,
        "delete": [file.path for file in directory.files()] if mode == "overwrite" else [],
        "move": [file.path for file in files],
        "manifest": manifest_content(spark, pipeline, result, mode, recording, rows),
    }
    records.write_whole(records.journal_path(recording.path), journal)
    _finish(directory, recording.path, journal)
    return result


def _finish(directory: Directory, manifest: str, journal: Journal) -> None:
    """Carry out the moves of a journal, write the manifest and delete the journal. Safe to repeat after an
    interruption."""
    directory.delete(journal["delete"])
    directory.move(journal["staging"], journal["move"])
    directory.mark_success()
    directory.delete([journal["staging"]])
    records.write_whole(manifest, journal["manifest"])
    records.delete_journal(manifest)


def _settle_journal(spark: SparkSession, pipeline: Pipeline, path: str, tell: Tell) -> bool:
    """Complete an interrupted run from its journal, with --resume. Without a journal, and if the run left its table as
    it was, there is nothing to complete. Return whether the run was to create its table and did not: a directory may
    have files that no commit names. The journal then stays until the next run begins to write. Raises PipelineError
    without --resume if the rows of the run are written, and if the sink may hold rows of the run."""
    journal = records.read_journal(path)
    if journal is None:
        return False
    journal_path = records.journal_path(path)
    if "streaming" in journal:
        raise PipelineError(
            f"{journal_path} belongs to a stream into {journal['streaming']}, which was interrupted; start the stream "
            "again, which completes its manifest, or name another --manifest"
        )
    if "writing" in journal:
        uri = pipeline.sink.uri
        if "version" not in journal or journal["writing"] != str(uri):
            raise PipelineError(
                f"{journal_path}: a run was interrupted while writing to {journal['writing']}, which may hold part of "
                "its rows; check the sink, then delete this file to write all rows again"
            )
        if journal["version"] == (version := _version_if_any(spark, uri)):
            tell(f"{journal_path}: a run was interrupted before it changed {uri}; its rows are written now")
            if version is None:
                return True
            records.delete_journal(path)
            return False
        raise PipelineError(
            f"{journal_path}: a run was interrupted while writing to {uri}, whose version has changed since, from "
            f"{journal['version']} to {version}: if the new version has the rows of the run, they would be written "
            "twice; check the table, then delete this file to write all rows again"
        )
    if not pipeline.resume:
        raise PipelineError(f"{journal_path}: a run was interrupted after its rows were written; --resume completes it")
    tell(f"{journal_path}: completing a run that was interrupted after its rows were written")
    _finish(Directory(spark, journal["directory"]), path, journal)
    return False


# -- Other sinks --


def _run_marked(spark: SparkSession, pipeline: Pipeline, mode: str, show: Show, recording: Recording) -> RunResult:
    """Run into a topic, a table, the console, or over Spark Connect, where files cannot be moved. A failed run deletes
    its journal, since a table takes all rows or none. The journal stays for a topic, as part of the rows may be
    written, and for a table that has changed: the run failed after its commit."""
    uri = pipeline.sink.uri

    def begin() -> None:
        if uri.kind != uris.CONSOLE and mode != MERGE:  # a merge that runs again changes nothing
            version = {"version": _version_if_any(spark, uri)} if _has_version(spark, uri) else {}
            records.write_whole(records.journal_path(recording.path), {"writing": str(uri), **version})

    try:
        result = run_once(spark, pipeline, mode, show, begin=begin)
    except PipelineError:
        if uri.kind != uris.TOPIC and not _has_changed(spark, uri, recording.path):
            records.delete_journal(recording.path)
        raise
    rows = {}
    if result.files:  # over Spark Connect, in a directory of this machine
        rows = file_rows(spark, pipeline, uris.path_of(uri), [file.path for file in result.files])
    records.write_whole(recording.path, manifest_content(spark, pipeline, result, mode, recording, rows))
    records.delete_journal(recording.path)
    return result


def _has_changed(spark: SparkSession, uri: uris.Uri, path: str) -> bool:
    """Return whether a table has another version than in the journal beside a manifest, or none can be found."""
    journal = records.read_journal(path)
    if journal is None or "version" not in journal:
        return False
    try:
        return bool(journal["version"] != _version_if_any(spark, uri))
    except (PipelineError, PySparkException):
        return True


def _has_version(spark: SparkSession, uri: uris.Uri) -> bool:
    """Return whether the versions of a sink tell if a run has committed: not those of a Delta table over Spark Connect,
    whose log may be on another machine."""
    return uri.is_table and not (uri.kind == uris.DELTA and is_connected(spark))


def _version_if_any(spark: SparkSession, uri: uris.Uri) -> int | None:
    """Return the version of a table; None if the table does not exist."""
    return table_version(spark, uri) if table_exists(spark, uri) else None


# -- Content --


def manifest_content(
    spark: SparkSession,
    pipeline: Pipeline,
    result: RunResult,
    mode: str,
    recording: Recording,
    rows: Mapping[str, int],
) -> ManifestContent:
    """Build the manifest of a run; in modes append and merge, combined with the manifest that the run resumes. `rows`
    maps output files to their number of rows."""
    by_name = {source.name: source for source in pipeline.sources}
    sources = [{**vars(source), "files": _source_files(spark, by_name[source.name])} for source in result.sources]
    files: list[FileContent] = [
        {"path": file.path, "size": file.size_bytes, "rows": rows.get(file.path, 0)} for file in result.files or ()
    ]
    content: ManifestContent = {
        "manifest": records.VERSION,
        "kafkatools": __version__,
        "spark": spark.version,
        "python": platform.python_version(),
        "started_ms": recording.started_ms,
        "finished_ms": recording.clock.wall_ms(),
        "runs": 1,
        "pipeline": recording.identity,
        "sources": sources,
        "sink": {
            "uri": result.sink,
            "mode": mode,
            "rows": result.rows,
            "files": None if result.files is None else files,
            "version": _version_if_any(spark, pipeline.sink.uri) if pipeline.sink.uri.is_table else None,
        },
    }
    is_continued = recording.before is not None and mode in ("append", MERGE)
    return records.merge(recording.before, content) if recording.before is not None and is_continued else content


def file_rows(spark: SparkSession, pipeline: Pipeline, directory: str, files: list[str]) -> dict[str, int]:
    """Count the rows of output files with Spark; returns the number by path relative to `directory`. Files without rows
    are not in the result. Rows of JSON and text are lines."""
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
    counts = reader.load([f"{directory}/{path}" for path in files]).groupBy(F.col("_metadata.file_path")).count()
    base = (urlsplit(directory).path if "://" in directory else directory).rstrip("/")
    row_counts = {}
    for row in counts.collect():
        path = unquote(urlsplit(row[0]).path)
        row_counts[path[len(base) + 1 :]] = int(row[1])
    return row_counts


# -- Verification --


def verify_manifest(
    spark: SparkSession, content: ManifestContent, pipeline: Pipeline, reports: str
) -> list[Difference]:
    """Read the offset ranges of a manifest again, check its input and output files, and return all differences.
    `pipeline` has the same sources and sink with their current clusters. `reports` is an empty directory for the
    readers' reports, which the caller deletes. Raises PipelineError."""
    with plain_errors():
        sources = {source.name: source for source in pipeline.sources}
        differences = []
        for recorded in content["sources"]:
            source = sources[recorded["name"]]
            if source.uri.is_kafka:
                differences += _verify_records(spark, recorded, source, reports)
            else:
                differences += _verify_files(spark, recorded, source)
        return differences + _verify_sink(spark, content["sink"], pipeline)


def _verify_records(spark: SparkSession, recorded: SourceContent, source: Source, reports: str) -> list[Difference]:
    if not any(row["first_offset"] is not None for row in recorded["partitions"]):
        return []
    read_again(spark, source, records.range_options(recorded), reports)
    present = partition_rows(read_reports(reports_of(reports, source)))
    return records.partition_differences(recorded["uri"], recorded["partitions"], present)


def read_again(spark: SparkSession, source: Source, ranges: Mapping[str, str], reports: str) -> None:
    """Read the records of a Kafka source within the options `ranges`, at the isolation level of a run and with
    wholeSegments as in the run, for the readers' reports below `reports`. Spark's exceptions pass through."""
    names = (*ISOLATION_OPTIONS, "wholesegments")
    selection = {key: value for key, value in source.options.items() if key.lower() in names}
    options = {**selection, **ranges, "reportPath": reports_of(reports, source), "decodeRecords": "true"}
    uri = source.uri if source.uri.kind == uris.LOG else source.uri._replace(target="")
    table = uris.read_source(spark, uri, options, source.cluster, "offset bigint")
    table.write.format("noop").mode("overwrite").save()


def _verify_files(spark: SparkSession, recorded: SourceContent, source: Source) -> list[Difference]:
    files = _source_files(spark, source)
    if recorded["files"] is None or files is None:
        return []
    present = {file["path"]: (file["size"], None) for file in files}
    return records.file_differences(recorded["uri"], recorded["files"], present)


def _verify_sink(spark: SparkSession, sink: SinkContent, pipeline: Pipeline) -> list[Difference]:
    if sink.get("version") is not None:
        return records.version_differences(sink["uri"], sink["version"], table_version(spark, pipeline.sink.uri))
    if sink["files"] is None:
        return []
    directory = Directory(spark, uris.path_of(pipeline.sink.uri))
    sizes = {file.path: file.size_bytes for file in directory.files()}
    intact = [file["path"] for file in sink["files"] if sizes.get(file["path"]) == file["size"]]
    rows = file_rows(spark, pipeline, directory.path, intact)
    present = {path: (size, rows.get(path, 0) if path in intact else None) for path, size in sizes.items()}
    return records.file_differences(sink["uri"], sink["files"], present)
