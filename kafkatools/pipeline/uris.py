"""Source and sink URIs of `--from` and `--to`, and the Spark reader or writer for each.

The URIs are `topic:NAME`, `log:PATH`, `parquet:PATH`, `json:PATH`, `csv:PATH`, `orc:PATH`, `text:PATH`, `delta:PATH`,
`iceberg:TABLE` and `console:`.

Rules: a URI names only the kind and the place. Offsets, separators and other settings are options, which are passed to
Spark's reader or writer unchanged; CSV has a header by default, and readers infer its types. This module opens sources
and runs no query, but Spark may read files to infer a schema. A table or directory that already has content is written
only with an explicit save mode; the modes are Spark's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.storage import local_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, DataFrameWriterV2, SparkSession
    from pyspark.sql.types import StructType

TOPIC = "topic"
LOG = "log"
CONSOLE = "console"
ICEBERG = "iceberg"
DELTA = "delta"
FILE_FORMATS = ("parquet", "json", "csv", "orc", "text")
TABLE_FORMATS = (DELTA, ICEBERG)
SOURCE_KINDS = (TOPIC, LOG, *FILE_FORMATS, *TABLE_FORMATS)
SINK_KINDS = (TOPIC, *FILE_FORMATS, *TABLE_FORMATS, CONSOLE)
MODES = ("append", "overwrite", "error", "ignore")

_PACKAGES = {
    "delta": "--conf spark.jars.packages=io.delta:delta-spark_2.13:VERSION "
    "--conf spark.sql.extensions=io.delta.sql.DeltaSparkSessionExtension "
    "--conf spark.sql.catalog.spark_catalog=org.apache.spark.sql.delta.catalog.DeltaCatalog",
    "iceberg": "--conf spark.jars.packages=org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:VERSION "
    "--conf spark.sql.catalog.NAME=org.apache.iceberg.spark.SparkCatalog",
}


class Uri(NamedTuple):
    """The kind of a source or sink, and its topic, path or table name."""

    kind: str
    target: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.target}"

    @property
    def topics(self) -> tuple[str, ...]:
        """The topics that a `topic:` source names, each once."""
        return topic_names(self.target)

    @property
    def is_kafka(self) -> bool:
        """Return whether the rows are Kafka records: the kind is `topic` or `log`."""
        return self.kind in (TOPIC, LOG)

    @property
    def is_table(self) -> bool:
        """Return whether the place is a Delta or Iceberg table."""
        return self.kind in TABLE_FORMATS

    @property
    def is_file(self) -> bool:
        """Return whether the place is a directory of files in one of Spark's built-in formats."""
        return self.kind in FILE_FORMATS


@dataclass(frozen=True)
class Cluster:
    """A Kafka cluster: its bootstrap servers and client settings. The settings may be secret and stay out of the
    repr."""

    bootstrap: str
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)

    def options(self) -> dict[str, str]:
        """Return the options of a Spark Kafka source: each client setting and the bootstrap servers, prefixed with
        `kafka.`."""
        return {f"kafka.{name}": value for name, value in self.settings.items()} | {
            "kafka.bootstrap.servers": self.bootstrap
        }


def topic_names(text: str) -> tuple[str, ...]:
    """Return the topics of a list with commas, each once. Blanks around a name are ignored."""
    return tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))


def parse_source(text: str) -> Uri:
    """Parse a `--from` URI. Raises PipelineError for text without a colon, an unknown kind, or a missing path or table.
    `topic:` may lack a name, since the option subscribePattern or assign can select topics."""
    uri = _parse(text, "source", SOURCE_KINDS)
    if uri.kind == TOPIC and uri.target and not uri.topics:
        raise PipelineError(f"The source '{text}' names no topic; use topic:NAME,NAME")
    return uri


def parse_sink(text: str) -> Uri:
    """Parse a `--to` URI. Raises PipelineError for an unknown kind, a missing target, more than one topic, or text
    after `console:`."""
    uri = _parse(text, "sink", SINK_KINDS)
    if uri.kind == TOPIC and (not uri.target or "," in uri.target):
        raise PipelineError(f"The sink {uri} must name exactly one topic: topic:NAME")
    if uri.kind == CONSOLE and uri.target:
        raise PipelineError(f"console: takes nothing after the colon, not '{uri.target}'")
    return uri


def _parse(text: str, label: str, kinds: tuple[str, ...]) -> Uri:
    kind, colon, target = text.partition(":")
    prefixes = ", ".join(f"{kind}:" for kind in kinds)
    if not colon:
        raise PipelineError(f"Invalid {label} '{text}': it must begin with one of {prefixes}")
    if kind not in kinds:
        raise PipelineError(f"{kind}: is not a kind of {label}; use one of {prefixes}")
    if not target and kind not in (TOPIC, CONSOLE):
        raise PipelineError(f"{kind}: needs a {'table' if kind == ICEBERG else 'path'} after the colon")
    return Uri(kind, target)


# -- Sources --


def read_source(
    spark: SparkSession,
    uri: Uri,
    options: Mapping[str, str],
    cluster: Cluster | None,
    schema: StructType | str | None = None,
) -> DataFrame:
    """Open a source for a batch query and return its DataFrame. `schema` (None: inferred) restricts the columns that
    the reader makes; an Iceberg table ignores it. Raises PipelineError for a topic without a cluster, and for `topic:`
    without a name or an option that selects topics; Spark's own exceptions pass through."""
    form, settings = _source_format(uri, options, cluster)
    if uri.kind == ICEBERG:
        return spark.read.options(**settings).table(uri.target)
    reader = spark.read.format(form).options(**settings)
    if schema is not None:
        reader = reader.schema(schema)
    return reader.load() if uri.kind == TOPIC else reader.load(path_of(uri))


def stream_source(
    spark: SparkSession,
    uri: Uri,
    options: Mapping[str, str],
    cluster: Cluster | None,
    schema: StructType | None = None,
) -> DataFrame:
    """Open a source for structured streaming and return its streaming DataFrame. `schema` (None: all columns) restricts
    the columns that the reader of a topic makes. The schema of a file source is read from the files present now.
    Spark's own exceptions pass through.

    Raises PipelineError for `log:`, which cannot be streamed, and for a topic without a cluster. Also for `topic:`
    without a name or an option that selects topics.
    """
    if uri.kind == LOG:
        raise PipelineError(f"{uri} cannot be streamed: log files are read once, as they are; run without --stream")
    form, settings = _source_format(uri, options, cluster)
    if uri.kind == ICEBERG:
        return spark.readStream.options(**settings).table(uri.target)
    reader = spark.readStream.format(form).options(**settings)
    if uri.kind == TOPIC:
        return (reader if schema is None else reader.schema(schema)).load()
    if uri.is_file:
        reader = reader.schema(read_source(spark, uri, options, cluster).schema)
    return reader.load(path_of(uri))


def _source_format(uri: Uri, options: Mapping[str, str], cluster: Cluster | None) -> tuple[str, dict[str, str]]:
    names = {name.lower() for name in options}
    if uri.kind == TOPIC:
        topics = {"subscribe": uri.target} if uri.target else {}
        if not topics and not names & {"subscribe", "subscribepattern", "assign"}:
            raise PipelineError(
                "'topic:' names no topic; use topic:NAME, or give subscribePattern or assign with --from-option"
            )
        return "kt", _cluster_options(uri, cluster) | topics | dict(options)
    if uri.kind == LOG:
        return "kafka-log", dict(options)
    if uri.kind == "csv":
        return "csv", _with_defaults({"header": "true", "inferSchema": "true"}, options)
    return uri.kind, dict(options)


def _cluster_options(uri: Uri, cluster: Cluster | None) -> dict[str, str]:
    if cluster is None:
        raise PipelineError(f"{uri} needs the address of its cluster: --bootstrap-server HOST:PORT")
    return cluster.options() | {"strictOptions": "true"}  # a typing error on the command line is an error


def _with_defaults(defaults: Mapping[str, str], options: Mapping[str, str]) -> dict[str, str]:
    names = {name.lower() for name in options}  # Spark ignores the case of option names
    return {name: value for name, value in defaults.items() if name.lower() not in names} | dict(options)


def path_of(uri: Uri) -> str:
    """Return the path of a file URI as Spark needs it: absolute if local, a URL unchanged."""
    return absolute(uri.target)


def absolute(path: str) -> str:
    """Make a local path absolute, since Spark's JVM has its own working directory. URLs are returned unchanged."""
    return local_path(path) or path


def missing_package(uri: Uri) -> str:
    """The error text for a Delta or Iceberg URI whose Spark package is not loaded, with the `--conf` options that load
    it."""
    return f"{uri} needs Spark's package for {uri.kind}, which is not loaded; add {_PACKAGES[uri.kind]}"


# -- Sinks --


def write_options(uri: Uri, options: Mapping[str, str], cluster: Cluster | None) -> tuple[str, dict[str, str]]:
    """Return the Spark format name and the writer options of a sink, with its path unless it is a topic or an Iceberg
    table. Raises PipelineError for a topic without a cluster."""
    if uri.kind == TOPIC:
        return "kt", _cluster_options(uri, cluster) | {"topic": uri.target} | dict(options)
    settings = _with_defaults({"header": "true"} if uri.kind == "csv" else {}, options)
    return uri.kind, settings | ({} if uri.kind == ICEBERG else {"path": path_of(uri)})


def new_iceberg_table(
    rows: DataFrame, uri: Uri, options: Mapping[str, str], partition_by: tuple[str, ...]
) -> DataFrameWriterV2:
    """Return the writer that creates or replaces an Iceberg table with the columns of `rows`."""
    from pyspark.sql import functions as F

    writer = rows.writeTo(uri.target).using(ICEBERG).options(**options)
    return writer.partitionedBy(*[F.col(name) for name in partition_by]) if partition_by else writer


def chosen_mode(uri: Uri, mode: str | None, *, has_content: bool) -> str:
    """Return the Spark save mode for a sink: `mode`, or "error" if the sink is empty and `mode` is None. A topic or
    console is always appended to. Raises PipelineError for another mode on a topic, and for a sink with content if
    `mode` is None or "error"."""
    if uri.kind == TOPIC:
        if mode not in (None, "append"):
            raise PipelineError(f"{uri} can only be appended to, as records cannot be replaced; omit --mode {mode}")
        return "append"
    if uri.kind == CONSOLE:
        return "append"
    if has_content and mode is None:
        raise PipelineError(f"{uri} already exists; choose --mode append, overwrite or ignore")
    if has_content and mode == "error":
        raise PipelineError(f"{uri} already exists, and --mode error does not write to an existing sink")
    return mode or "error"
