"""kt pipeline run: read sources, transform them by SQL or a Python function, and write to a sink."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kafkatools.commands.pipeline.show import report_result, show_rows
from kafkatools.commands.pipeline.spark import (
    cluster_of,
    ensure_log_exists,
    other_cluster,
    session,
    usage,
    with_registry_credentials,
)
from kafkatools.commands.pipeline.spark_progress import spark_progress
from kafkatools.console import Console
from kafkatools.exit_status import ExitStatus
from kafkatools.options import (
    Args,
    property_pairs,
)
from kafkatools.pipeline.run.services import hadoop_setting, outage_notices, services_of
from kafkatools.pipeline.run.spec import Pipeline, pipeline_from
from kafkatools.pipeline.types import PipelineValues
from kafkatools.pipeline.uris import Cluster, topic_names
from kafkatools.progress import Progress

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kafkatools.pipeline.run.batch import RunResult

_TEXTS = (
    "from", "key", "value", "key-schema", "value-schema", "key-message", "value-message", "schema-registry", "sql",
    "sql-file", "transform", "to", "mode", "checkpoint", "trigger", "manifest", "report-path", "to-bootstrap-server",
    "to-command-config",
)  # fmt: skip
_QUERIES = ("sql", "sql-file", "transform")
_FLAGS = ("stream", "strict", "resume")
_TABLES = ("from-option", "to-option")


def run(console: Console, args: Args) -> ExitStatus:
    """Run kt pipeline run. Returns FINDINGS if damaged ranges were skipped.

    Checks options and clusters before Spark starts. After Ctrl-C prints the partial result and raises
    KeyboardInterrupt.
    """
    values = _with_credentials(args, _values(args))
    with usage():
        declared = pipeline_from(values, {})  # report every mistake before Spark or a sandbox starts
    if not declared.is_streaming:
        for source in declared.sources:
            ensure_log_exists(args, source.uri, values)
    clusters = _clusters(console, args, values)
    with usage():
        pipeline = pipeline_from(values, clusters)
    prints = pipeline.sink.uri.kind == "console"
    with session(console, args, values) as spark:
        from kafkatools.pipeline.run.batch import reports_directory

        try:
            with (
                reports_directory(pipeline) as reports,
                spark_progress(console, spark, "Running", reports, prints=prints) as progress,
                outage_notices(
                    services_of(pipeline, hadoop_setting(spark), console.environ), console.note, console.clock
                ),
            ):
                result = _run(console, spark, replace(pipeline, report_path=reports), progress)
        except KeyboardInterrupt as stop:
            stopped: RunResult | None = getattr(stop, "result", None)
            if stopped is not None:
                _report(console, pipeline, stopped)
            raise
    return _report(console, pipeline, result)


def _run(console: Console, spark: SparkSession, pipeline: Pipeline, progress: Progress) -> RunResult:
    def show(table: DataFrame) -> int:
        return show_rows(console, table)

    def show_count(count: int) -> None:
        progress.label = f"{count} records"

    if pipeline.manifest is not None:
        if pipeline.is_streaming:
            from kafkatools.pipeline.run.recorded_stream import stream_recorded

            return stream_recorded(spark, pipeline, show, console.clock, show_count, console.note)
        from kafkatools.pipeline.run.recorded_run import run_recorded

        return run_recorded(spark, pipeline, show, console.clock, console.note)
    if pipeline.is_streaming:
        from kafkatools.pipeline.run.stream import StreamCallbacks, run_stream

        return run_stream(spark, pipeline, show, StreamCallbacks(show_count, console.note))
    from kafkatools.pipeline.run.batch import run_batch

    return run_batch(spark, pipeline, show)


def _values(args: Args) -> PipelineValues:
    """Return the values of the TOML file, overridden by options. Raises UsageError."""
    values: PipelineValues = {}
    if args.operand is not None:
        from kafkatools.pipeline.run.spec import read_toml

        with usage():
            values = read_toml(args.operand)
    options = {name: getattr(args, name.replace("-", "_")) for name in _TEXTS if args.has_option(name)}
    options |= {name: True for name in _FLAGS if args.has_option(name)}
    if options.keys() & set(_QUERIES):
        values = {name: value for name, value in values.items() if name not in _QUERIES}
    values |= options
    for name in _TABLES:
        values[name] = values.get(name, {}) | property_pairs(getattr(args, name.replace("-", "_")), name)
    if args.partition_by:
        values["partition-by"] = args.partition_by
    if args.merge_by:
        values["merge-by"] = args.merge_by
    if "from" in values and args.has_option("from"):
        values.pop("sources", None)
    return values


def _with_credentials(args: Args, values: PipelineValues) -> PipelineValues:
    """Add user and password of each schema registry from the file of command-config or the profile, if its URL has
    none."""
    for table in (values, *values.get("sources", {}).values()):
        if url := table.get("schema-registry"):
            table["schema-registry"] = with_registry_credentials(args, url, _config_file(args, values, table))
    return values


def _config_file(args: Args, values: PipelineValues, table: PipelineValues) -> str | None:
    """Return the properties file of a source: its own, else that of the command line, else that of the pipeline
    file."""
    own: str | None = table.get("command-config") if table is not values else None
    return own or args.command_config or values.get("command-config")


def _clusters(console: Console, args: Args, values: PipelineValues) -> dict[str, Cluster | None]:
    """Return the cluster of each topic source by its name, and that of a topic sink under the key ""; other sources and
    sinks are left out. Raises KafkaError or CommandError if a cluster does not answer or lacks a source topic."""
    tables = values.get("sources") or {"input": values}
    clusters: dict[str, Cluster | None] = {}
    with usage():
        is_interrupted = bool(values.get("stream")) and _has_journal(values.get("manifest"))
    for name, table in tables.items():
        kind, _, target = str(table.get("from", "")).partition(":")
        if kind == "topic":
            # The manifest of a stream that was killed is completed even if a topic was deleted since.
            topics = () if is_interrupted else topic_names(target)
            clusters[name] = _cluster(console, args, values, table, topics)
    if str(values.get("to", "")).startswith("topic:"):
        if values.get("to-bootstrap-server"):
            servers, file = values["to-bootstrap-server"], values.get("to-command-config")
            clusters[""] = other_cluster(console, args, servers, file)
        else:
            clusters[""] = _cluster(console, args, values, values, ())
    return clusters


def _has_journal(manifest: str | None) -> bool:
    from kafkatools.pipeline.run.manifest import read_journal

    return manifest is not None and read_journal(manifest) is not None


def _cluster(
    console: Console, args: Args, values: PipelineValues, table: PipelineValues, topics: tuple[str, ...]
) -> Cluster:
    """Return a source's own cluster, else that of the command line, else that of the file."""
    servers: str | None = table.get("bootstrap-server") if table is not values else None
    if servers is None and not args.has_option("bootstrap-server"):
        servers = values.get("bootstrap-server")
    file = _config_file(args, values, table)
    if servers is not None:
        return other_cluster(console, args, servers, file, *topics)
    return cluster_of(console, args, *topics, config_file=file)


def _report(console: Console, pipeline: Pipeline, result: RunResult) -> ExitStatus:
    report_result(console, pipeline, result)
    return ExitStatus.FINDINGS if result.damage_count else ExitStatus.OK
