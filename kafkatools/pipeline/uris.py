"""What `--from` and `--to` name: `topic:NAME`, `log:PATH`, `parquet:PATH`, `json:PATH`, `csv:PATH`, `delta:PATH`,
`iceberg:TABLE`, `console:`.

Rules: a URI says only what and where; how (offsets, separators, ...) comes as options, which go to Spark's reader or
writer as they are. Nothing is read here but schemas. A sink that holds something already is never written without a
mode; Spark's own modes are the only ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.storage import local_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

TOPIC = "topic"
LOG = "log"
CONSOLE = "console"
ICEBERG = "iceberg"
FILE_FORMATS = ("parquet", "json", "csv", "orc", "text")
TABLE_FORMATS = ("delta", ICEBERG)
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
_CSV_DEFAULTS = {"header": "true"}
_CSV_SOURCE_DEFAULTS = {"inferSchema": "true"}


class Uri(NamedTuple):
    """A source or sink by its kind and what it names."""

    kind: str
    target: str

    def __str__(self) -> str:
        return f"{self.kind}:{self.target}"

    @property
    def is_kafka(self) -> bool:
        """Are its rows Kafka's records?"""
        return self.kind in (TOPIC, LOG)

    @property
    def is_file(self) -> bool:
        """Is it a directory of files that Spark writes and reads by itself?"""
        return self.kind in FILE_FORMATS


@dataclass(frozen=True)
class Cluster:
    """Where a topic lies, and how to get there."""

    bootstrap: str
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)

    def options(self) -> dict[str, str]:
        """The same as options of Spark's Kafka source."""
        return {f"kafka.{name}": value for name, value in self.settings.items()} | {
            "kafka.bootstrap.servers": self.bootstrap
        }


def parse_source(text: str) -> Uri:
    """A source's URI. PipelineError when it is none."""
    uri = _parse(text, "source", SOURCE_KINDS)
    if uri.kind == LOG and not uri.target:
        raise PipelineError("log: wants a path: log:/var/lib/kafka/data, a directory of it, or one segment")
    return uri


def parse_sink(text: str) -> Uri:
    """A sink's URI. PipelineError when it is none."""
    uri = _parse(text, "sink", SINK_KINDS)
    if uri.kind == TOPIC and (not uri.target or "," in uri.target):
        raise PipelineError(f"{uri} as a sink names one topic: topic:NAME")
    if uri.kind == CONSOLE and uri.target:
        raise PipelineError(f"console: has nothing behind the colon, not '{uri.target}'")
    return uri


def _parse(text: str, what: str, kinds: tuple[str, ...]) -> Uri:
    kind, colon, target = text.partition(":")
    known = ", ".join(f"{one}:" for one in kinds)
    if not colon:
        raise PipelineError(f"'{text}' is no {what}: it begins with one of {known}")
    if kind not in kinds:
        raise PipelineError(f"{kind}: is no kind of {what}; there are {known}")
    if not target and kind not in (TOPIC, CONSOLE):
        raise PipelineError(f"{kind}: wants a {'table' if kind == ICEBERG else 'path'} behind the colon")
    return Uri(kind, target)


# -- Sources --


def read_source(
    spark: SparkSession,
    uri: Uri,
    options: Mapping[str, str],
    cluster: Cluster | None,
    schema: StructType | str | None = None,
) -> DataFrame:
    """The source as a table, for one batch; `schema`: only these of its columns. Errors of Spark's go through."""
    form, given = _source_format(uri, options, cluster)
    if uri.kind == ICEBERG:
        return spark.read.options(**given).table(uri.target)
    reader = spark.read.format(form).options(**given)
    if schema is not None:
        reader = reader.schema(schema)
    return reader.load() if uri.kind == TOPIC else reader.load(path_of(uri))


def stream_source(spark: SparkSession, uri: Uri, options: Mapping[str, str], cluster: Cluster | None) -> DataFrame:
    """The source as a table that grows."""
    if uri.kind == LOG:
        raise PipelineError(f"{uri} cannot be streamed: files of a log are read as they are, run it without --stream")
    form, given = _source_format(uri, options, cluster)
    if uri.kind == ICEBERG:
        return spark.readStream.options(**given).table(uri.target)
    reader = spark.readStream.format(form).options(**given)
    if uri.kind == TOPIC:
        return reader.load()
    if uri.is_file:
        reader = reader.schema(read_source(spark, uri, options, cluster).schema)
    return reader.load(path_of(uri))


def _source_format(uri: Uri, options: Mapping[str, str], cluster: Cluster | None) -> tuple[str, dict[str, str]]:
    given = dict(options)
    if uri.kind == TOPIC:
        if cluster is None:
            raise PipelineError(f"{uri} needs the address of its cluster")
        named = {"subscribe": uri.target} if uri.target else {}
        if not named and not {name.lower() for name in given} & {"subscribe", "subscribepattern", "assign"}:
            raise PipelineError("topic: names no topic: topic:NAME, or give the option subscribePattern")
        return "kt", cluster.options() | named | given
    if uri.kind == LOG:
        return "kafka-log", given
    if uri.kind == "csv":
        return "csv", _over(_CSV_DEFAULTS | _CSV_SOURCE_DEFAULTS, given)
    return uri.kind, given


def _over(defaults: Mapping[str, str], given: Mapping[str, str]) -> dict[str, str]:
    names = {name.lower() for name in given}
    return {name: value for name, value in defaults.items() if name.lower() not in names} | dict(given)


def path_of(uri: Uri) -> str:
    """The path of files as Spark gets it."""
    return absolute(uri.target)


def absolute(path: str) -> str:
    """Paths of this machine are absolute for Spark, which has a working directory of its own; URLs stay."""
    found = local_path(path)
    return path if found is None else found


def missing_package(uri: Uri) -> str:
    """What to say when Spark does not know the format of a source or sink."""
    return f"{uri}: Spark has no package for {uri.kind} here; add {_PACKAGES[uri.kind]}"


# -- Sinks --


def write_options(uri: Uri, options: Mapping[str, str], cluster: Cluster | None) -> tuple[str, dict[str, str]]:
    """Format and options of a sink's writer; the path of files among them."""
    given = dict(options)
    if uri.kind == TOPIC:
        if cluster is None:
            raise PipelineError(f"{uri} needs the address of its cluster")
        return "kt", cluster.options() | {"topic": uri.target} | given
    if uri.kind == "csv":
        given = _over(_CSV_DEFAULTS, given)
    return uri.kind, given | ({} if uri.kind == ICEBERG else {"path": path_of(uri)})


def chosen_mode(uri: Uri, mode: str | None, *, has_content: bool) -> str:
    """The mode to write with. PipelineError when the sink holds something and nobody said what to do with it.

    A topic is always appended to, and nothing else can be done with it; a console has no mode.
    """
    if uri.kind == TOPIC:
        if mode not in (None, "append"):
            raise PipelineError(f"{uri} can only be appended to, not --mode {mode}: records of a topic stay")
        return "append"
    if uri.kind == CONSOLE:
        return "append"
    if has_content and mode is None:
        raise PipelineError(f"{uri} exists: say what to do with it, --mode append, overwrite, ignore or error")
    if has_content and mode == "error":
        raise PipelineError(f"{uri} exists, and --mode error was given")
    return mode or "error"
