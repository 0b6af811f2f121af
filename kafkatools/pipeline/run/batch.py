"""Runs a pipeline once: sources become tables, the query becomes a table, that goes to the sink, and what was read and
written is counted.

Rules: counts never come from a second look at the data. What was read of Kafka's records is told by the readers
(reports.py: a report for each split, written once however often its task runs); what was written by an observation on
the way to the sink. Errors leave as PipelineError, one line each.
"""

from __future__ import annotations

import os
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from pyspark import cloudpickle
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from kafkatools.pipeline import uris
from kafkatools.pipeline.decoding import formats as decoding
from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.run.reports import SplitReport, read_reports
from kafkatools.pipeline.run.session import is_connected, is_ours, plain_error, was_interrupted
from kafkatools.pipeline.run.spec import AVAILABLE_NOW, ISOLATION_OPTIONS, Decoding, Pipeline, Sink, Source
from kafkatools.pipeline.sinks.files import Directory, SinkFile
from kafkatools.pipeline.sources.pruning import Needs, pruned
from kafkatools.pipeline.sources.record_bounds import RecordBounds
from kafkatools.pipeline.sources.schema import METADATA_COLUMNS, RECORD_COLUMNS, spark_schema
from kafkatools.pipeline.storage import local_path
from kafkatools.pipeline.types import PartitionContent, SourceFileContent

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject

Show = Callable[["DataFrame"], int]
"""Prints all rows of a table; how many there were."""

ROWS = "rows"
_MASK = (1 << 64) - 1
_RECORD_COLUMNS = ("key", "value", "headers", "timestamp")
"""What goes from topic to topic without SQL."""
_NOT_WRITTEN = {*RECORD_COLUMNS, *METADATA_COLUMNS} - {*_RECORD_COLUMNS, "partition"}
"""Columns of a source that a record cannot take, or, `topic`, that the sink says itself."""


@dataclass
class SourceResult:
    """What was read of one source.

    `partitions` and `damages` are rows as the manifest has them (Kafka's sources only); `records` is None where nobody
    counted. `files` are those of file sources.
    """

    name: str
    uri: str
    records: int | None = None
    partitions: list[PartitionContent] = field(default_factory=list)
    damages: list[dict[str, object]] = field(default_factory=list)
    bad_keys: int | None = None
    bad_values: int | None = None
    files: list[SourceFileContent] | None = None


@dataclass
class RunResult:
    """What a run did. `is_skipped`: everything was done already, or the sink was to be left alone."""

    sources: list[SourceResult]
    sink: str
    rows: int | None = None
    files: list[SinkFile] | None = None
    is_skipped: bool = False

    @property
    def damage_count(self) -> int:
        """How many ranges of the sources could not be read."""
        return sum(len(source.damages) for source in self.sources)


class Table(NamedTuple):
    """An opened source: its rows, and where it will be told how many keys and values were bad."""

    frame: DataFrame
    observation: Observation | None = None


def run_batch(spark: SparkSession, pipeline: Pipeline, show: Show) -> RunResult:
    """Reads what is there now, and ends. `show` prints for console:."""
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
    """The run itself. `path`: a directory to write to instead of the sink's; `begin` is called when all is ready to be
    written."""
    sink = pipeline.sink
    with reports_directory(pipeline) as reports:
        tables, made = _prepared(spark, pipeline, reports)
        if begin is not None:
            begin()
        rows, files = write_table(spark, sink, mode, made, show, path)
        told = Told(spark, made if sink.uri.kind == uris.CONSOLE else None)
        sources = [read_result(source, reports, tables[source.name], told) for source in pipeline.sources]
        return RunResult(sources, str(sink.uri), rows, files)


def _prepared(spark: SparkSession, pipeline: Pipeline, reports: str) -> tuple[dict[str, Table], DataFrame]:
    """The sources and the query over them, of Kafka's columns only those that it uses.

    What is used is found without observations: they would tell a plan from another that is the same.
    """
    opening = Opening(spark, pipeline, reports)
    taken: list[Needs] = []
    if pipeline.transform is None and any(source.uri.is_kafka for source in pipeline.sources):
        plain = replace(opening, is_counting=False)

        def make(needs: Needs) -> DataFrame:
            taken.append(needs)
            return _query_over(replace(plain, needs=needs))[1]

        everything = _query_over(plain)[1]
        if pruned(everything, make, with_bounds=_is_filtered_by_source(pipeline)) is everything:
            taken.clear()
    return _query_over(replace(opening, needs=taken[-1] if taken else None))


def _is_filtered_by_source(pipeline: Pipeline) -> bool:
    """Whether sources are told what filters say (Spark tells them nothing that can be relied on, see
    `log_source.FilteredLogReader`); not where rows are counted on the way."""
    return pipeline.manifest is None and not any(source.key or source.value for source in pipeline.sources)


def _query_over(opening: Opening) -> tuple[dict[str, Table], DataFrame]:
    pipeline = opening.pipeline
    tables = {source.name: open_table(opening, source) for source in pipeline.sources}
    return tables, query(opening.spark, pipeline, {name: table.frame for name, table in tables.items()})


class Told:
    """What observations saw. Spark tells an observation as soon as rows begin to be handed out one by one: then what
    the plan itself has counted by the end is looked at (`printed`), which Spark Connect does not show.
    """

    def __init__(self, spark: SparkSession, printed: DataFrame | None) -> None:
        self._spark = spark
        self._printed = printed

    def of(self, observation: Observation) -> Mapping[str, int | None] | None:
        """The metrics by name; None when nobody knows."""
        if self._printed is None:
            return observation.get
        if is_connected(self._spark):
            return None
        seen: JavaObject = self._printed._jdf.queryExecution().observedMetrics()
        name = observation._name
        if not seen.contains(name):
            return None
        row = seen.apply(name)
        return {str(row.schema().fieldNames()[at]): row.get(at) for at in range(row.size())}


@contextmanager
def plain_errors() -> Iterator[None]:
    """Whatever Spark raises leaves as PipelineError in one line."""
    try:
        yield
    except PipelineError:
        raise
    except (KeyboardInterrupt, BrokenPipeError):
        raise
    except Exception as error:
        if was_interrupted(error):
            raise KeyboardInterrupt from error
        raise PipelineError(plain_error(error)) from error


# -- Sources --


@contextmanager
def reports_directory(pipeline: Pipeline) -> Iterator[str]:
    """Where the readers put what they read: a new directory below --report-path, or a temporary one of this machine."""
    if pipeline.report_path is None or (path := local_path(pipeline.report_path)) is not None:
        below = None if pipeline.report_path is None else path
        if below is not None and not os.path.isdir(below):
            raise PipelineError(f"--report-path {below}: there is no such directory")
        with tempfile.TemporaryDirectory(prefix="kt-pipeline-", dir=below) as directory:
            yield directory
        return
    from fsspec.core import url_to_fs

    url = f"{pipeline.report_path.rstrip('/')}/kt-pipeline-{uuid.uuid4().hex}"
    try:
        yield url
    finally:
        system, inner = url_to_fs(url)
        if system.exists(inner):
            system.rm(inner, recursive=True)


@dataclass(frozen=True)
class Opening:
    """How sources are opened: what is needed of Kafka's (None: all), bad keys and values counted or not. What is found
    out about how to decode is kept for the next time."""

    spark: SparkSession
    pipeline: Pipeline
    reports: str
    needs: Needs | None = None
    is_counting: bool = True
    plans: dict[tuple[str, str], decoding.Plan] = field(default_factory=dict)


def open_table(opening: Opening, source: Source) -> Table:
    """The source as a table with its keys and values decoded."""
    pipeline = opening.pipeline
    options = dict(source.options)
    if pipeline.strict and source.uri.is_kafka:
        options["strict"] = "true"
    if source.uri.is_kafka and (not pipeline.is_streaming or pipeline.trigger == AVAILABLE_NOW):
        options["reportPath"] = reports_of(opening.reports, source)
    schema = None
    is_records = "table" not in {name.lower() for name in options}
    if source.uri.is_kafka and is_records and opening.needs is not None:
        schema = columns_schema(opening.needs.columns)
        if opening.needs.bounds != RecordBounds():
            options["bounds"] = opening.needs.bounds.to_text()
    try:
        if pipeline.is_streaming:
            table = uris.stream_source(opening.spark, source.uri, options, source.cluster)
        else:
            table = uris.read_source(opening.spark, source.uri, options, source.cluster, schema)
    except PipelineError:
        raise
    except Exception as error:
        raise PipelineError(_unreadable(source.uri, error)) from error
    return _decoded(opening, source, table)


def columns_schema(columns: frozenset[str]) -> StructType:
    """The schema of a reader that makes only these columns; a reader makes one at least."""
    fields = spark_schema(True, True).fields
    wanted = columns or {"partition"}
    return StructType([field for field in fields if field.name in wanted])


_ONLY_WHERE = ("subscribe", "subscribepattern", "assign", *ISOLATION_OPTIONS)


def _decoded(opening: Opening, source: Source, table: DataFrame) -> Table:
    """Keys and values decoded, the bad ones null and counted on the way."""
    pipeline = opening.pipeline
    bad = []
    for part, how in (("key", source.key), ("value", source.value)):
        if how is not None and part in table.columns:
            plan = _plan(opening, source, part, how)
            table = decoding.decode(table, plan, strict=pipeline.strict)
            bad.append(plan.bad_column)
    bad = [] if pipeline.strict else bad
    if not opening.is_counting or (not bad and pipeline.manifest is None):
        return Table(table.drop(*bad))
    # No filter gets past an observation into the reader: with a manifest all that lies in the range is counted.
    name = f"kt_{source.name}"
    counts = [F.coalesce(F.sum(F.col(column).cast("long")), F.lit(0)).alias(column) for column in bad]
    counts.append(F.count(F.lit(1)).alias(ROWS))
    if pipeline.is_streaming:
        return Table(table.observe(name, *counts).drop(*bad))
    observation = Observation(name)
    return Table(table.observe(observation, *counts).drop(*bad), observation)


def _plan(opening: Opening, source: Source, part: str, how: Decoding) -> decoding.Plan:
    """How a column is decoded; a sample is read where the schema has to be found."""
    found = opening.plans.get((source.name, part))
    if found is not None:
        return found
    spark = opening.spark
    options = {name: value for name, value in source.options.items() if name.lower() in _ONLY_WHERE}

    def sample(column: str) -> list[bytes]:
        table = uris.read_source(spark, source.uri, options, source.cluster, columns_schema(frozenset({column})))
        return decoding.take_sample(table, column)

    topic = source.uri.target if source.uri.kind == uris.TOPIC and "," not in source.uri.target else None
    plan = decoding.plan_decoding(spark, part, how, sample, f"{topic}-{part}" if topic else None)
    opening.plans[source.name, part] = plan
    return plan


def _unreadable(uri: uris.Uri, error: Exception) -> str:
    text = plain_error(error)
    if uri.kind in uris.TABLE_FORMATS and ("DefaultSource" in text or "Failed to find the data source" in text):
        return uris.missing_package(uri)
    if is_ours(error) or (uri.target and uris.path_of(uri) in text):
        return text
    return f"{uri}: {text}"


def reports_of(reports: str, source: Source) -> str:
    """The directory of one source's reports."""
    return f"{reports.rstrip('/')}/{source.name}"


def read_result(source: Source, reports: str, table: Table, told: Told) -> SourceResult:
    """What the readers told of a source, and what could not be decoded."""
    if not source.uri.is_kafka:
        return SourceResult(source.name, str(source.uri))
    result = read_reported(source, reports)
    if table.observation is not None:
        seen = told.of(table.observation) or {}
        result.bad_keys, result.bad_values = seen.get("__kt_bad_key"), seen.get("__kt_bad_value")
    return result


def read_reported(source: Source, reports: str) -> SourceResult:
    """What the readers of a Kafka source told."""
    found = list(read_reports(reports_of(reports, source)))
    damages = [asdict(damage) for report in found for damage in report.damages]
    records = sum(report.records for report in found)
    return SourceResult(source.name, str(source.uri), records, partition_rows(found), damages)


def partition_rows(reports: Iterable[SplitReport]) -> list[PartitionContent]:
    """Reports of splits as a row a partition, in order. What was read is the batches from `start_offset` to before
    `end_offset`, where the next run goes on."""
    sums: dict[tuple[str, int], _PartitionSum] = {}
    for report in reports:
        sums.setdefault((report.topic, report.partition), _PartitionSum()).add(report)
    return [sums[topic, partition].content(topic, partition) for topic, partition in sorted(sums)]


@dataclass
class _PartitionSum:
    """What was read of one partition, while its splits' reports are added up."""

    first_offset: int | None = None
    last_offset: int | None = None
    start_offset: int | None = None
    end_offset: int = 0
    records: int = 0
    batches: int = 0
    checksum: int = 0
    files: set[str] = field(default_factory=set)

    def add(self, report: SplitReport) -> None:
        """Add what one split read."""
        if report.records:
            first, last = self.first_offset, self.last_offset
            self.first_offset = report.first_offset if first is None else min(first, report.first_offset)
            self.last_offset = report.last_offset if last is None else max(last, report.last_offset)
        if report.start_offset >= 0:
            start = self.start_offset
            self.start_offset = report.start_offset if start is None else min(start, report.start_offset)
        self.end_offset = max(self.end_offset, report.end_offset)
        self.records += report.records
        self.batches += report.batches
        self.checksum = (self.checksum + report.checksum) & _MASK
        if report.file:
            self.files.add(report.file)

    def content(self, topic: str, partition: int) -> PartitionContent:
        """The partition's row of a manifest."""
        return {
            "topic": topic, "partition": partition, "first_offset": self.first_offset, "last_offset": self.last_offset,
            "start_offset": self.start_offset, "end_offset": self.end_offset, "records": self.records,
            "batches": self.batches, "checksum": f"{self.checksum:016x}", "files": sorted(self.files),
        }  # fmt: skip


# -- Query --


def query(spark: SparkSession, pipeline: Pipeline, tables: Mapping[str, DataFrame]) -> DataFrame:
    """The table that goes to the sink."""
    made = _made(spark, pipeline, tables)
    if pipeline.sink.uri.kind == "csv":
        _check_has_no_bytes(made)
    return as_records(made) if pipeline.sink.uri.kind == uris.TOPIC else made


def _check_has_no_bytes(table: DataFrame) -> None:
    """Spark would write a text about them."""
    names = [field.name for field in table.schema.fields if field.dataType.typeName() == "binary"]
    if names:
        decoded = " and ".join(f"--{name} string" for name in names if name in ("key", "value"))
        hint = f"decode with {decoded or 'base64()'}, or leave out with --sql"
        raise PipelineError(f"CSV has no bytes, which column {', '.join(names)} would be: {hint}")


def _made(spark: SparkSession, pipeline: Pipeline, tables: Mapping[str, DataFrame]) -> DataFrame:
    if pipeline.transform is not None:
        return _transformed(pipeline.transform, tables)
    if pipeline.sql is not None:
        for name, table in tables.items():
            table.createOrReplaceTempView(name)
        try:
            made = spark.sql(pipeline.sql)
        except Exception as error:
            raise PipelineError(f"SQL: {plain_error(error)}") from error
        if not made.columns:
            raise PipelineError("SQL: this is no query, it makes no table")
        return made
    (table,) = tables.values()
    if pipeline.sink.uri.kind == uris.TOPIC and pipeline.sources[0].uri.is_kafka:
        return table.select(*[name for name in _RECORD_COLUMNS if name in table.columns])
    return table


def as_records(table: DataFrame) -> DataFrame:
    """Rows as records for a topic: keys and values as bytes or text, rows without a value as JSON."""
    names: list[str]
    if "value" not in table.columns:
        rest = [name for name in table.columns if name not in ("key", "headers")]
        table = table.withColumn("value", F.to_json(F.struct(*rest)))
        names = [name for name in ("key", "value", "headers") if name in table.columns]
    else:
        names = [name for name in table.columns if name not in _NOT_WRITTEN]  # the sink refuses what has no place
    kinds = {field.name: field.dataType.typeName() for field in table.schema.fields}
    return table.select(*[_as_bytes(name, kinds[name]) if name in ("key", "value") else name for name in names])


def _as_bytes(name: str, kind: str) -> Column:
    column = F.col(name)
    if kind in ("binary", "string"):
        return column
    return (F.to_json(column) if kind in ("struct", "array", "map") else column.cast("string")).alias(name)


def _transformed(spec: str, tables: Mapping[str, DataFrame]) -> DataFrame:
    """What the function makes of the table, or of the tables by name when there are several."""
    function = load_function(spec)
    made = function(*tables.values()) if len(tables) == 1 else function(**tables)
    if not isinstance(made, DataFrame):
        raise PipelineError(f"--transform {spec}: the function returns {type(made).__name__}, not a DataFrame")
    return made


def load_function(spec: str) -> Callable[..., object]:
    """`module:function`; the module may lie in the working directory. Its code goes to the executors with it."""
    module_name, colon, name = spec.partition(":")
    if not (module_name and colon and name):
        raise PipelineError(f"--transform takes module:function, not '{spec}'")
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
    made: Callable[..., object] = function
    return made


# -- Sink --


def sink_mode(spark: SparkSession, sink: Sink) -> tuple[str, bool]:
    """The mode to write with, and whether the sink holds something."""
    uri = sink.uri
    if uri.kind == uris.ICEBERG:
        try:
            has_content = bool(spark.catalog.tableExists(uri.target))
        except Exception as error:
            raise PipelineError(_unreadable(uri, error)) from error
    else:
        has_content = uri.kind not in (uris.TOPIC, uris.CONSOLE) and Directory(spark, uris.path_of(uri)).exists()
    return uris.chosen_mode(uri, sink.mode, has_content=has_content), has_content


def write_table(
    spark: SparkSession, sink: Sink, mode: str, table: DataFrame, show: Show, path: str | None = None
) -> tuple[int | None, list[SinkFile] | None]:
    """Writes the rows: how many, and the files that came (None where the sink has none). `path`: another directory."""
    if sink.uri.kind == uris.CONSOLE:
        return show(table), None
    counted = Observation()
    table = table.observe(counted, F.count(F.lit(1)).alias(ROWS))
    directory = Directory(spark, path or uris.path_of(sink.uri)) if sink.uri.is_file else None
    before = set(directory.files()) if directory is not None else set()
    try:
        _save(sink, mode, table, path)
    except Exception as error:
        raise PipelineError(_unreadable(sink.uri, error)) from error
    files = None
    if directory is not None and directory.is_visible:
        files = [file for file in directory.files() if file not in before]
    return int(counted.get[ROWS]), files


def _save(sink: Sink, mode: str, table: DataFrame, path: str | None) -> None:
    form, options = uris.write_options(sink.uri, sink.options, sink.cluster)
    if path is not None:
        options["path"] = path
    if sink.uri.kind == uris.ICEBERG:
        to_table = table.writeTo(sink.uri.target).options(**options)
        if mode == "append":
            to_table.append()
        elif mode == "overwrite":
            to_table.using("iceberg").createOrReplace()
        else:
            to_table.using("iceberg").create()
        return
    writer = table.write.format(form).options(**options).mode("append" if mode == "error" else mode)
    if sink.partition_by:
        writer = writer.partitionBy(*sink.partition_by)
    writer.save()
