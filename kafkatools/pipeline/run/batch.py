"""Run a pipeline as one Spark batch: open the sources, run the query, write the sink, count rows read and written.

Rules: counting never reads the data twice. The readers' reports (reports.py) count Kafka records; a task that runs
twice counts once. A Spark observation before the sink counts the rows written, and a `console:` sink counts what it
prints. Errors leave as PipelineError with one line; KeyboardInterrupt and BrokenPipeError pass through.
"""

from __future__ import annotations

import os
import re
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field, replace
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from pyspark import cloudpickle
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from kafkatools.pipeline import storage, uris
from kafkatools.pipeline.decoding import formats as decoding
from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.identifiers import quoted
from kafkatools.pipeline.run.read_metrics import read_metrics
from kafkatools.pipeline.run.reports import SplitReport, read_reports
from kafkatools.pipeline.run.session import is_connected, is_ours, plain_error, was_interrupted
from kafkatools.pipeline.run.spec import AVAILABLE_NOW, ISOLATION_OPTIONS, Decoding, Pipeline, Sink, Source
from kafkatools.pipeline.sinks.files import Directory, SinkFile
from kafkatools.pipeline.sinks.merge import TOMBSTONE, ensure_mergeable, merge_rows
from kafkatools.pipeline.sinks.table_versions import table_exists
from kafkatools.pipeline.sources.pruning import Needs, prune
from kafkatools.pipeline.sources.record_bounds import RecordBounds
from kafkatools.pipeline.sources.schema import METADATA_COLUMNS, RECORD_COLUMNS, spark_schema
from kafkatools.pipeline.storage import local_path
from kafkatools.pipeline.types import PartitionContent

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject

Show = Callable[["DataFrame"], int]
"""Prints all rows of a table and returns their number."""

ROWS = "rows"
MERGE = "merge"
"""The mode of a sink with merge columns."""
_MASK = (1 << 64) - 1
_RECORD_COLUMNS = ("key", "value", "headers", "timestamp")
"""Columns that are copied from topic to topic without SQL."""
_NOT_WRITTEN = {*RECORD_COLUMNS, *METADATA_COLUMNS} - {*_RECORD_COLUMNS, "partition"}
"""Source columns that are not written: a record has no place for them, or, for `topic`, the sink's URI decides."""


@dataclass
class SourceResult:
    """The counts of the rows that a run read from one source. `partitions` and `damages` are manifest entries of Kafka
    sources. Bad keys and values could not be decoded; those with unknown fields were written by a later schema with
    fields that the column lacks. `records` and the counts of keys and values are None if not counted."""

    name: str
    uri: str
    records: int | None = None
    partitions: list[PartitionContent] = field(default_factory=list)
    damages: list[dict[str, object]] = field(default_factory=list)
    bad_keys: int | None = None
    bad_values: int | None = None
    keys_with_unknown_fields: int | None = None
    values_with_unknown_fields: int | None = None

    def set_counts(self, metrics: Mapping[str, int | None]) -> None:
        """Set the counts of keys and values from the metrics of the source's observation."""
        for part in ("key", "value"):
            setattr(self, f"bad_{part}s", metrics.get(f"__kt_bad_{part}"))
            setattr(self, f"{part}s_with_unknown_fields", metrics.get(f"__kt_unknown_fields_{part}"))


@dataclass
class RunResult:
    """The counts of what a run read and wrote. `rows` is None if not counted; `files` is None if the sink has no files
    or they cannot be listed. `is_skipped`: a resumed run found nothing new, or the mode is ignore and the sink has
    content."""

    sources: list[SourceResult]
    sink: str
    rows: int | None = None
    files: list[SinkFile] | None = None
    is_skipped: bool = False

    @property
    def damage_count(self) -> int:
        """Number of damaged ranges in all sources."""
        return sum(len(source.damages) for source in self.sources)


class Table(NamedTuple):
    """An opened source: its rows, and the Spark observation that counts rows and undecodable keys and values."""

    frame: DataFrame
    observation: Observation | None = None


def run_batch(spark: SparkSession, pipeline: Pipeline, show: Show) -> RunResult:
    """Run a pipeline over the data present now. `show` prints the rows of a console: sink and returns their number. If
    the mode is ignore and the sink has content, nothing is read and the result has `is_skipped`. Raises
    PipelineError."""
    with plain_errors():
        mode, has_content = sink_mode(spark, pipeline.sink)
        if mode == "ignore" and has_content:
            return RunResult([], str(pipeline.sink.uri), is_skipped=True)
        return run_once(spark, pipeline, mode, show)


def run_once(
    spark: SparkSession,
    pipeline: Pipeline,
    mode: str,
    show: Show,
    path: str | None = None,
    begin: Callable[[], None] | None = None,
) -> RunResult:
    """Open the sources, run the query and write the sink in `mode`; return the counts. `path` (None: no change)
    replaces the sink's directory. `begin` is called after the query is planned, right before rows are written. Raises
    PipelineError."""
    sink = pipeline.sink
    with reports_directory(pipeline) as reports, _shown_metrics(spark, pipeline, reports):
        tables, output = _open_query(spark, pipeline, reports)
        if sink.merge_by:
            ensure_mergeable(sink, output.columns, has_several_topics=pipeline.has_several_topics)
        if begin is not None:
            begin()
        rows, files = write_table(spark, sink, mode, output, show, path)
        console_output = output if sink.uri.kind == uris.CONSOLE else None
        sources = [read_reported(source, reports) for source in pipeline.sources]
        for source, result in zip(pipeline.sources, sources, strict=True):
            observation = tables[source.name].observation
            if source.uri.is_kafka and observation is not None:
                result.set_counts(observed_metrics(spark, observation, console_output) or {})
        return RunResult(sources, str(sink.uri), rows, files)


def _open_query(spark: SparkSession, pipeline: Pipeline, reports: str) -> tuple[dict[str, Table], DataFrame]:
    """Return the opened sources and the query over them. For SQL or a plain copy of Kafka sources, only the Kafka
    columns that the query uses are read; with --transform, all. Column use is found without observations, since they
    would make equal plans differ."""
    opening = Opening(spark, pipeline, reports)
    needs = column_needs(opening, with_bounds=_is_filtered_by_source(pipeline))
    return _query_over(replace(opening, needs=needs))


def column_needs(opening: Opening, *, with_bounds: bool) -> Needs | None:
    """Return the Kafka columns that the pipeline's query uses, and `with_bounds` those of its filters; None if all
    columns have to be read."""
    pipeline = opening.pipeline
    if pipeline.transform is not None or not any(source.uri.is_kafka for source in pipeline.sources):
        return None
    plain = replace(opening, is_counting=False)
    tried: list[Needs] = []

    def make(needs: Needs) -> DataFrame:
        tried.append(needs)
        return _query_over(replace(plain, needs=needs))[1]

    unpruned = _query_over(plain)[1]
    if prune(unpruned, make, with_bounds=with_bounds) is unpruned or not tried:
        return None
    return tried[-1]


def _is_filtered_by_source(pipeline: Pipeline) -> bool:
    """Return whether the query's filters may be evaluated by the source. False with a manifest or a decoding, since
    they count rows before the filter. Spark's own filter pushdown is unreliable here (see
    `log.source.FilteredLogReader`)."""
    return pipeline.manifest is None and not any(source.key or source.value for source in pipeline.sources)


def _query_over(opening: Opening) -> tuple[dict[str, Table], DataFrame]:
    pipeline = opening.pipeline
    tables = {source.name: open_table(opening, source) for source in pipeline.sources}
    return tables, query(opening.spark, pipeline, {name: table.frame for name, table in tables.items()})


def observed_metrics(
    spark: SparkSession, observation: Observation, console_output: DataFrame | None
) -> Mapping[str, int | None] | None:
    """Return the metrics of an observation by name, after waiting for Spark to complete it.

    With `printed`, a table whose rows are handed out one by one, read the counts from that table's plan instead: Spark
    completes its observation too early. None if the plan has no such observation, or over Spark Connect, which does not
    expose the plan.
    """
    if console_output is None:
        return observation.get
    if is_connected(spark):
        return None
    metrics: JavaObject = console_output._jdf.queryExecution().observedMetrics()
    name = observation._name
    if not metrics.contains(name):
        return None
    row = metrics.apply(name)
    return {str(row.schema().fieldNames()[at]): row.get(at) for at in range(row.size())}


@contextmanager
def plain_errors() -> Iterator[None]:
    """Convert an exception within the block to a one-line PipelineError. PipelineError, KeyboardInterrupt and
    BrokenPipeError pass through; an error caused by Ctrl-C becomes KeyboardInterrupt."""
    try:
        yield
    except (PipelineError, KeyboardInterrupt, BrokenPipeError):
        raise
    except Exception as error:
        if was_interrupted(error):
            raise KeyboardInterrupt from error
        raise PipelineError(plain_error(error)) from error


# -- Sources --


@contextmanager
def reports_directory(pipeline: Pipeline) -> Iterator[str]:
    """Yield a directory for the readers' reports, below --report-path or temporary on this machine; delete it at the
    end. Below a remote URL the directory is only named here: the readers create it. Raises PipelineError if a local
    --report-path does not exist, or a remote one cannot be deleted. A local one stays if a task that Ctrl-C or an error
    has not ended yet writes into it while it is deleted."""
    if pipeline.report_path is None or (path := local_path(pipeline.report_path)) is not None:
        parent = None if pipeline.report_path is None else path
        if parent is not None and not os.path.isdir(parent):
            raise PipelineError(f"--report-path {parent}: there is no such directory")
        with tempfile.TemporaryDirectory(prefix="kt-pipeline-", dir=parent, ignore_cleanup_errors=True) as directory:
            yield directory
        return
    url = f"{pipeline.report_path.rstrip('/')}/kt-pipeline-{uuid.uuid4().hex}"
    try:
        yield url
    finally:
        storage.delete_below(url)


@dataclass(frozen=True)
class Opening:
    """The options of opening sources: the required Kafka columns (None: all), whether to count rows and undecodable
    keys and values, and whether readers of a stream without end write reports. `plans` caches the decoding plan of each
    source and part ("key" or "value")."""

    spark: SparkSession
    pipeline: Pipeline
    reports: str
    needs: Needs | None = None
    is_counting: bool = True
    has_stream_reports: bool = False
    plans: dict[tuple[str, str], decoding.Plan] = field(default_factory=dict)


def open_table(opening: Opening, source: Source) -> Table:
    """Open a source, as a stream if the pipeline is one, and decode its keys and values if decodings are set. May read
    a sample of records to find a schema. Raises PipelineError."""
    pipeline = opening.pipeline
    options = dict(source.options)
    if pipeline.strict and source.uri.is_kafka:
        options["strict"] = "true"
    if source.uri.is_kafka and (not pipeline.is_streaming or pipeline.trigger == AVAILABLE_NOW):
        options["reportPath"] = reports_of(opening.reports, source)
    elif source.uri.is_kafka and opening.has_stream_reports:
        options = with_reports(options, reports_of(opening.reports, source))
    if source.uri.kind == uris.TOPIC and pipeline.is_streaming and len(pipeline.sources) > 1:
        options["sourceName"] = source.name  # Spark's progress and checkpoint do not tell which source is which
    schema = None
    is_records = "table" not in {name.lower() for name in options}
    if source.uri.is_kafka and is_records and opening.needs is not None:
        schema = columns_schema(opening.needs.columns)
        if opening.needs.bounds != RecordBounds():
            options["bounds"] = opening.needs.bounds.to_text()
    try:
        if pipeline.is_streaming:
            table = uris.stream_source(opening.spark, source.uri, options, source.cluster, schema)
        else:
            table = uris.read_source(opening.spark, source.uri, options, source.cluster, schema)
    except PipelineError:
        raise
    except Exception as error:
        raise PipelineError(unreadable(source.uri, error)) from error
    return _decode(opening, source, table)


def with_reports(options: Mapping[str, str], directory: str) -> dict[str, str]:
    """Return the options of a Kafka source with reports for Spark's UI alone. Damage ends the query and headers of
    batches are used, as without reports; a report that cannot be written does not end the query."""
    names = {name.lower() for name in options}
    if "reportpath" in names:
        return dict(options)
    strict = {} if "strict" in names else {"strict": "true"}
    decodes = {} if names & {"strict", "decoderecords"} else {"decodeRecords": "false"}
    return {**options, **strict, **decodes, "reportPath": directory, "requireReports": "false"}


def columns_schema(columns: frozenset[str]) -> StructType:
    """Return the schema of the record columns `columns`, in reading order; `partition` alone if the set is empty, since
    a reader makes at least one column."""
    return StructType([field for field in spark_schema(True, True) if field.name in (columns or {"partition"})])


_UNION_OR_WITH = re.compile(r"\b(union|with)\b", re.IGNORECASE)
_ONLY_WHERE = ("subscribe", "subscribepattern", "assign", *ISOLATION_OPTIONS)


def _decode(opening: Opening, source: Source, table: DataFrame) -> Table:
    """Decode keys and values, if set. Undecodable ones become null and are counted by an observation; with --strict the
    query fails at the first one. Those with fields that the column lacks are counted too. With a manifest, and for a
    stream whose uses of a source Spark may share, the observation also counts rows. `is_counting` False: no
    observation."""
    pipeline = opening.pipeline
    if pipeline.sink.merge_by and source.uri.is_kafka and "value" in table.columns:
        table = table.withColumn(TOMBSTONE, F.col("value").isNull())
    marks = []
    for part, decoder in (("key", source.key), ("value", source.value)):
        if decoder is not None and part in table.columns:
            plan = _plan(opening, source, part, decoder)
            table = decoding.decode(table, plan, strict=pipeline.strict)
            marks += plan.mark_columns(strict=pipeline.strict)
    if not opening.is_counting or not (marks or pipeline.manifest is not None or _may_share_sources(pipeline)):
        return Table(table.drop(*marks))
    # Spark pushes no filter through an observation, so with a manifest all records of the offset range are counted.
    name = f"kt_{source.name}"
    counts = [F.coalesce(F.sum(F.col(column).cast("long")), F.lit(0)).alias(column) for column in marks]
    counts.append(F.count(F.lit(1)).alias(ROWS))
    if pipeline.is_streaming:
        return Table(table.observe(name, *counts).drop(*marks))
    observation = Observation(name)
    return Table(table.observe(observation, *counts).drop(*marks), observation)


def _may_share_sources(pipeline: Pipeline) -> bool:
    """Return whether the query of a stream has a UNION or WITH, for which Spark may share a source: its progress then
    adds up the rows of all uses. The query of a function is unknown and counts as one of these."""
    return pipeline.is_streaming and (pipeline.transform is not None or bool(_UNION_OR_WITH.search(pipeline.sql or "")))


def _plan(opening: Opening, source: Source, part: str, how: Decoding) -> decoding.Plan:
    """Return the decoding plan of a column, cached in `opening`. Reads a sample of values if the schema has to be
    found."""
    cached = opening.plans.get((source.name, part))
    if cached is not None:
        return cached
    spark = opening.spark
    options = {name: value for name, value in source.options.items() if name.lower() in _ONLY_WHERE}

    def sample(column: str) -> list[bytes]:
        table = uris.read_source(spark, source.uri, options, source.cluster, columns_schema(frozenset({column})))
        return decoding.take_sample(table, column)

    topic = source.uri.target if source.uri.kind == uris.TOPIC and "," not in source.uri.target else None
    plan = decoding.plan_decoding(spark, part, how, sample, f"{topic}-{part}" if topic else None)
    opening.plans[source.name, part] = plan
    return plan


def unreadable(uri: uris.Uri, error: Exception) -> str:
    """Return the text of Spark's error about a source or sink, with the package that it lacks."""
    text = plain_error(error)
    if uri.kind in uris.TABLE_FORMATS and ("DefaultSource" in text or "Failed to find the data source" in text):
        return uris.missing_package(uri)
    if is_ours(error) or (uri.target and uris.path_of(uri) in text):
        return text
    return f"{uri}: {text}"


def reports_of(reports: str, source: Source) -> str:
    """Return the directory of one source's reports."""
    return f"{reports.rstrip('/')}/{source.name}"


def _shown_metrics(spark: SparkSession, pipeline: Pipeline, reports: str) -> AbstractContextManager[None]:
    """Return the context that shows what the readers report in Spark's UI."""
    sources = [source for source in pipeline.sources if source.uri.is_kafka]
    description = f"kt pipeline: {', '.join(str(source.uri) for source in sources)} to {pipeline.sink.uri}"
    names = {f"{source.uri} as {source.name}": reports_of(reports, source) for source in sources}
    return read_metrics(spark, description, names)


def read_reported(
    source: Source, reports: str, is_counted: Callable[[SplitReport], bool] = lambda _: True
) -> SourceResult:
    """Sum the reports of a Kafka source's readers for which `is_counted` is true into a SourceResult. For another
    source return one without counts. Raises PipelineError if a report cannot be read."""
    if not source.uri.is_kafka:
        return SourceResult(source.name, str(source.uri))
    splits = [*filter(is_counted, read_reports(reports_of(reports, source)))]
    damages = [asdict(damage) for split in splits for damage in split.damages]
    records = sum(split.records for split in splits)
    return SourceResult(source.name, str(source.uri), records, partition_rows(splits), damages)


def partition_rows(reports: Iterable[SplitReport]) -> list[PartitionContent]:
    """Merge the reports of splits into one manifest entry for each partition, sorted by topic and partition."""
    by_partition: dict[tuple[str, int], list[SplitReport]] = {}
    for report in reports:
        by_partition.setdefault((report.topic, report.partition), []).append(report)
    return [_partition_row(topic, partition, splits) for (topic, partition), splits in sorted(by_partition.items())]


def _partition_row(topic: str, partition: int, splits: Sequence[SplitReport]) -> PartitionContent:
    return {
        "topic": topic,
        "partition": partition,
        "first_offset": min((split.first_offset for split in splits if split.records), default=None),
        "last_offset": max((split.last_offset for split in splits if split.records), default=None),
        "start_offset": min((split.start_offset for split in splits if split.start_offset >= 0), default=None),
        "end_offset": max(0, *(split.end_offset for split in splits)),
        "records": sum(split.records for split in splits),
        "batches": sum(split.batches for split in splits),
        "checksum": f"{sum(split.checksum for split in splits) & _MASK:016x}",
        "files": sorted({split.file for split in splits if split.file}),
    }


# -- Query --


def query(spark: SparkSession, pipeline: Pipeline, tables: Mapping[str, DataFrame]) -> DataFrame:
    """Return the DataFrame that is written to the sink: the sources through SQL or the transform function, or the only
    source itself; for a topic, converted to records. Raises PipelineError for invalid SQL, a --transform that cannot be
    loaded or does not return a DataFrame, and binary columns in CSV."""
    output = _output(spark, pipeline, tables)
    if pipeline.sink.uri.kind == "csv":
        _check_has_no_bytes(output)
    return as_records(output) if pipeline.sink.uri.kind == uris.TOPIC else output


def _check_has_no_bytes(table: DataFrame) -> None:
    """Raise PipelineError if a column is binary, which CSV cannot hold; Spark would write the text of a Java object."""
    names = [field.name for field in table.schema.fields if field.dataType.typeName() == "binary"]
    if names:
        decode_options = " and ".join(f"--{name} string" for name in names if name in ("key", "value"))
        hint = f"decode with {decode_options or 'base64()'}, or omit with --sql"
        raise PipelineError(f"CSV cannot hold binary columns ({', '.join(names)}): {hint}")


def _output(spark: SparkSession, pipeline: Pipeline, tables: Mapping[str, DataFrame]) -> DataFrame:
    if pipeline.transform is not None:
        return _transform(pipeline.transform, tables)
    if pipeline.sql is not None:
        for name, table in tables.items():
            table.createOrReplaceTempView(name)
        try:
            output = spark.sql(pipeline.sql)
        except Exception as error:
            raise PipelineError(f"SQL: {plain_error(error)}") from error
        if not output.columns:
            raise PipelineError("SQL: the statement is not a query and returns no columns")
        return output
    (table,) = tables.values()
    if pipeline.sink.uri.kind == uris.TOPIC and pipeline.sources[0].uri.is_kafka:
        return table.select(*[name for name in _RECORD_COLUMNS if name in table.columns])
    return table


def as_records(table: DataFrame) -> DataFrame:
    """Convert rows to records for a topic. Keys and values of other types than bytes or text become JSON or text. Rows
    without a `value` column become a JSON object of all columns but `key` and `headers`. Otherwise the columns of a
    Kafka source that are not written, such as `offset`, are dropped."""
    names: list[str]
    if "value" not in table.columns:
        other_columns = [name for name in table.columns if name not in ("key", "headers")]
        table = table.withColumn("value", F.to_json(F.struct(*map(quoted, other_columns))))
        names = [name for name in ("key", "value", "headers") if name in table.columns]
    else:
        names = [name for name in table.columns if name not in _NOT_WRITTEN]  # the sink rejects unknown columns
    kinds = {field.name: field.dataType.typeName() for field in table.schema.fields}
    return table.select(*[_as_bytes(name, kinds[name]) if name in ("key", "value") else quoted(name) for name in names])


def _as_bytes(name: str, kind: str) -> Column:
    column = F.col(name)
    if kind in ("binary", "string"):
        return column
    return (F.to_json(column) if kind in ("struct", "array", "map") else column.cast("string")).alias(name)


def _transform(spec: str, tables: Mapping[str, DataFrame]) -> DataFrame:
    function = load_function(spec)
    output = function(*tables.values()) if len(tables) == 1 else function(**tables)
    if not isinstance(output, DataFrame):
        raise PipelineError(f"--transform {spec}: the function returns {type(output).__name__}, not a DataFrame")
    return output


def load_function(spec: str) -> Callable[..., object]:
    """Import the function named by `module:function`; the module may be in the working directory. The function is
    pickled by value, so executors need no copy of the module. Raises PipelineError for another form of `spec`, a module
    that cannot be imported, or a missing function."""
    module_name, colon, name = spec.partition(":")
    if not (module_name and colon and name):
        raise PipelineError(f"--transform must be module:function, not '{spec}'")
    sys.path.insert(0, os.getcwd())
    try:
        module = import_module(module_name.removesuffix(".py"))
    except Exception as error:
        raise PipelineError(f"--transform {spec}: {type(error).__name__}: {error}") from error
    finally:
        sys.path.remove(os.getcwd())
    function = getattr(module, name, None)
    if not callable(function):
        raise PipelineError(f"--transform {spec}: the module {module_name} has no function {name}")
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    transform: Callable[..., object] = function
    return transform


# -- Sink --


def sink_mode(spark: SparkSession, sink: Sink, *, may_have_leftovers: bool = False) -> tuple[str, bool]:
    """Return the save mode for the sink and whether the sink has content (False for a topic or the console). Files in
    the directory of a Delta table that does not exist are content, unless they may be those of an interrupted run.
    Raises PipelineError if the mode forbids writing."""
    uri = sink.uri
    if uri.kind == uris.ICEBERG or (uri.kind == uris.DELTA and may_have_leftovers):
        try:
            has_content = table_exists(spark, uri)
        except Exception as error:
            raise PipelineError(unreadable(uri, error)) from error
    else:
        has_content = uri.kind not in (uris.TOPIC, uris.CONSOLE) and Directory(spark, uris.path_of(uri)).exists()
    if sink.merge_by:
        return MERGE, has_content
    return uris.chosen_mode(uri, sink.mode, has_content=has_content), has_content


def write_table(
    spark: SparkSession, sink: Sink, mode: str, table: DataFrame, show: Show, path: str | None = None
) -> tuple[int | None, list[SinkFile] | None]:
    """Write the rows to the sink; return their number and the new files. The files are None if the sink has no files,
    or they cannot be listed over Spark Connect. `path` replaces the sink's directory. Raises PipelineError if writing
    fails."""
    if sink.uri.kind == uris.CONSOLE:
        return show(table), None
    if sink.merge_by:
        try:
            return merge_rows(spark, sink, table), None
        except Exception as error:
            raise PipelineError(unreadable(sink.uri, error)) from error
    row_count = Observation()
    table = table.observe(row_count, F.count(F.lit(1)).alias(ROWS))
    directory = Directory(spark, path or uris.path_of(sink.uri)) if sink.uri.is_file else None
    before = set(directory.files()) if directory is not None else set()
    try:
        _save(sink, mode, table, path)
    except Exception as error:
        raise PipelineError(unreadable(sink.uri, error)) from error
    files = None
    if directory is not None and directory.is_visible:
        files = [file for file in directory.files() if file not in before]
    return int(row_count.get[ROWS]), files


def _save(sink: Sink, mode: str, table: DataFrame, path: str | None) -> None:
    form, options = uris.write_options(sink.uri, sink.options, sink.cluster)
    if path is not None:
        options["path"] = path
    if sink.uri.kind == uris.ICEBERG:
        if mode == "append":
            table.writeTo(sink.uri.target).options(**options).append()
            return
        new_table = uris.new_iceberg_table(table, sink.uri, options, sink.partition_by)
        if mode == "overwrite":
            new_table.createOrReplace()
        else:
            new_table.create()
        return
    writer = table.write.format(form).options(**options).mode("append" if mode == "error" else mode)
    if sink.partition_by:
        writer = writer.partitionBy(*sink.partition_by)
    writer.save()
