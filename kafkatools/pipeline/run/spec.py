"""The definition of a pipeline as data, from command-line options, a TOML file or Python.

    from = "topic:orders"                 # or several: [sources.orders] from = "topic:orders"
    value = "json"
    sql = "SELECT value.user, count(*) AS n FROM input GROUP BY 1"
    to = "parquet:out"
    mode = "overwrite"

Rules: the keys of the file are the options of `kt pipeline run`; a command-line option overrides the file. Each error
names the file and the key, or the option. This module does not need Spark.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.storage import read_text
from kafkatools.pipeline.types import PipelineValues
from kafkatools.pipeline.uris import LOG, MODES, TABLE_FORMATS, TOPIC, Cluster, Uri, parse_sink, parse_source

INPUT = "input"
AVAILABLE_NOW = "available-now"
FORMATS = ("binary", "string", "json", "avro", "protobuf")
ISOLATION_OPTIONS = ("isolationlevel", "kafka.isolation.level")
"""Lower-case names of the source options that decide whether aborted records are read."""

_SOURCE_TEXTS = (
    "from", "key", "value", "key-schema", "value-schema", "key-message", "value-message", "schema-registry",
    "bootstrap-server", "command-config",
)  # fmt: skip
_TEXTS = (
    *_SOURCE_TEXTS, "sql", "sql-file", "transform", "to", "mode", "checkpoint", "trigger", "master", "manifest",
    "report-path", "to-bootstrap-server", "to-command-config",
)  # fmt: skip
_FLAGS = ("stream", "strict", "resume")
_TABLES = ("from-option", "to-option", "conf")
_LISTS = ("partition-by", "merge-by")
KEYS = (*_TEXTS, *_FLAGS, *_TABLES, *_LISTS, "sources")
"""All keys of a pipeline file."""

_PARTS = ("key", "value")


class Decoding(NamedTuple):
    """The decoding of the bytes of keys or values into a column: `format` is one of FORMATS. `schema` is the path of a
    local schema file, `message` a Protobuf message name, `registry` the URL of a schema registry, `credentials` its
    user and password."""

    format: str
    schema: str | None = None
    message: str | None = None
    registry: str | None = None
    credentials: tuple[str, str] | None = None


@dataclass(frozen=True)
class Source:
    """One source of a pipeline: the table name for SQL, its URI, reader options, decodings and, for a topic, its
    cluster."""

    name: str
    uri: Uri
    options: Mapping[str, str] = field(default_factory=dict)
    key: Decoding | None = None
    value: Decoding | None = None
    cluster: Cluster | None = None


@dataclass(frozen=True)
class Sink:
    """The sink of a pipeline: its URI, save mode (None: not specified), writer options, partition columns, for a topic
    its cluster, and the key columns by which rows are merged into a table (none: not merged)."""

    uri: Uri
    mode: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    partition_by: tuple[str, ...] = ()
    cluster: Cluster | None = None
    merge_by: tuple[str, ...] = ()


@dataclass(frozen=True)
class Pipeline:
    """A complete pipeline: sources, a query and a sink. The query is `sql` or `transform` (module:function); with
    neither, the only source is copied to the sink.

    With `is_streaming` the run continues with new data from `checkpoint`. `trigger` is "available-now", a number of
    seconds, or None for micro-batches without a pause. `report_path` is a directory that this process and, if
    `shares_reports` is true, all executors can write to.
    """

    sources: tuple[Source, ...]
    sink: Sink
    sql: str | None = None
    transform: str | None = None
    is_streaming: bool = False
    checkpoint: str | None = None
    trigger: str | None = None
    manifest: str | None = None
    resume: bool = False
    strict: bool = False
    report_path: str | None = None
    shares_reports: bool = False

    @property
    def has_several_topics(self) -> bool:
        """Return whether the sources name more than one topic."""
        return len({name for source in self.sources if source.uri.kind == TOPIC for name in source.uri.topics}) > 1


def read_toml(path: str) -> PipelineValues:
    """Read a pipeline file and check its keys and types. Raises PipelineError that names the file and the key."""
    from kafkatools.core import toml_files

    try:
        content = toml_files.read_toml(path)
    except ValueError as error:
        raise PipelineError(str(error)) from None
    for key, value in content.items():
        _check_key(path, key, value)
    for name, source in content.get("sources", {}).items():
        if not isinstance(source, dict):
            raise PipelineError(f"{path}: sources.{name} must be a table")
        for key, value in source.items():
            _check_key(path, key, value, (*_SOURCE_TEXTS, "from-option"), f"sources.{name}.")
    return content


def _check_key(path: str, key: str, value: object, keys: tuple[str, ...] = KEYS, prefix: str = "") -> None:
    if key not in keys:
        raise PipelineError(f"{path}: unknown key {prefix}{key}; the keys are {', '.join(keys)}")
    if key in _FLAGS:
        expected, is_valid = "true or false", isinstance(value, bool)
    elif key in _LISTS:
        expected, is_valid = "a list of texts", isinstance(value, list) and all(isinstance(item, str) for item in value)
    elif key in _TABLES or key == "sources":
        expected, is_valid = "a table", isinstance(value, dict)
    else:
        expected, is_valid = "a text", isinstance(value, str) or (key == "trigger" and isinstance(value, (int, float)))
    if not is_valid:
        raise PipelineError(f"{path}: {prefix}{key} must be {expected}")


def pipeline_from(values: PipelineValues, clusters: Mapping[str, Cluster | None]) -> Pipeline:
    """Build the Pipeline from the values of options and file. `clusters` maps source names to clusters; "" is the
    sink's. Kafka sources read headers if the sink is a topic, unless includeHeaders is set. Raises PipelineError for
    values that are missing, invalid or contradictory, and for an unreadable --sql-file."""
    _check_values(values)
    tables = values.get("sources") or {INPUT: values}
    sink_uri = parse_sink(values["to"])
    sources = tuple(_source(name, table, clusters.get(name), sink_uri) for name, table in tables.items())
    sink = Sink(
        sink_uri,
        values.get("mode"),
        _texts(values.get("to-option", {})),
        tuple(values.get("partition-by", ())),
        clusters.get(""),
        tuple(values.get("merge-by", ())),
    )
    trigger = values.get("trigger")
    return Pipeline(
        sources,
        sink,
        _sql(values),
        values.get("transform"),
        bool(values.get("stream")),
        values.get("checkpoint"),
        None if trigger is None else _trigger(str(trigger)),
        values.get("manifest"),
        bool(values.get("resume")),
        bool(values.get("strict")),
        values.get("report-path"),
        values.get("report-path") is not None,
    )


def _check_values(values: PipelineValues) -> None:
    """Raise PipelineError if a required value is missing or two values exclude each other."""
    if bool(values.get("from")) == bool(values.get("sources")):
        raise PipelineError("A pipeline needs either --from URI or [sources.NAME] tables in its file")
    if not values.get("to"):
        raise PipelineError("A pipeline needs a sink: --to URI")
    queries = [key for key in ("sql", "sql-file", "transform") if values.get(key)]
    if len(queries) > 1:
        raise PipelineError(f"--{queries[0]} and --{queries[1]} cannot be used together")
    if len(values.get("sources", {})) > 1 and not queries:
        raise PipelineError("Several sources need --sql, --sql-file or --transform to combine them into one table")
    if values.get("mode") not in (None, *MODES):
        raise PipelineError(f"--mode must be one of {', '.join(MODES)}, not '{values['mode']}'")
    if values.get("resume") and not values.get("manifest"):
        raise PipelineError("--resume needs --manifest FILE, which records the offsets to continue from")
    _check_merge(values)
    _check_sources(values)
    _check_streaming(values)


def _check_merge(values: PipelineValues) -> None:
    if not values.get("merge-by"):
        return
    if values.get("mode"):
        raise PipelineError(f"--merge-by and --mode {values['mode']} cannot be used together; omit --mode")
    kind = str(values["to"]).partition(":")[0]
    if kind not in TABLE_FORMATS:
        raise PipelineError(f"--merge-by needs a table as the sink: --to delta:PATH or iceberg:TABLE, not {kind}:")


def _check_sources(values: PipelineValues) -> None:
    """Raise PipelineError for an option of the single source if the file has [sources.NAME] tables. --bootstrap-server
    and --command-config are allowed: they are the tables' defaults."""
    of_cluster = ("bootstrap-server", "command-config")
    for key in (*_SOURCE_TEXTS, "from-option"):
        if values.get("sources") and values.get(key) and key not in of_cluster:
            raise PipelineError(f"--{key} needs --from; with [sources.NAME] tables, set {key} in each table")


def _check_streaming(values: PipelineValues) -> None:
    if not values.get("stream"):
        for key in ("checkpoint", "trigger"):
            if values.get(key) is not None:
                raise PipelineError(f"--{key} can only be used with --stream")
    elif not values.get("checkpoint"):
        raise PipelineError("--stream needs --checkpoint DIR, where Spark stores the stream's progress")


def _source(name: str, table: PipelineValues, cluster: Cluster | None, sink: Uri) -> Source:
    if not table.get("from"):
        raise PipelineError(f"sources.{name} has no from")
    uri = parse_source(table["from"])
    options = _texts(table.get("from-option", {}))
    decodings = {part: _decoding(part, table, uri) for part in _PARTS}
    if uri.is_kafka and sink.kind == TOPIC and "includeheaders" not in {option_name.lower() for option_name in options}:
        options["includeHeaders"] = "true"
    return Source(name, uri, options, decodings["key"], decodings["value"], cluster if uri.kind == TOPIC else None)


def _decoding(part: str, table: PipelineValues, uri: Uri) -> Decoding | None:
    form = table.get(part)
    schema, message = table.get(f"{part}-schema"), table.get(f"{part}-message")
    extras = [key for key in (f"{part}-schema", f"{part}-message") if table.get(key)]
    if form is None or form == "binary":
        if extras:
            raise PipelineError(f"--{extras[0]} needs --{part} json, avro or protobuf")
        return None
    if form not in FORMATS:
        raise PipelineError(f"--{part} must be one of {', '.join(FORMATS)}, not '{form}'")
    if not uri.is_kafka:
        raise PipelineError(f"--{part} {form} decodes records of {TOPIC}: and {LOG}:; {uri} already has typed columns")
    registry, credentials = registry_address(table.get("schema-registry"))
    if form in ("avro", "protobuf") and not registry and not schema:
        raise PipelineError(f"--{part} {form} needs --{part}-schema FILE or --schema-registry URL")
    if form == "string" and extras:
        raise PipelineError(f"--{extras[0]} needs --{part} json, avro or protobuf")
    return Decoding(form, schema, message, registry, credentials)


def registry_address(url: str | None) -> tuple[str | None, tuple[str, str] | None]:
    """Split a schema registry URL into the URL without credentials, and the user and password before its @ (None
    without @). Both are None without a URL. Raises PipelineError for another scheme than http or https, or an invalid
    address."""
    if not url:
        return None, None
    try:
        parts = urlsplit(url)
        is_web = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is not a number, or an incomplete IPv6 address
        is_web = False
    if not is_web:
        raise PipelineError("--schema-registry must be http://HOST:PORT or https://HOST:PORT")
    address = parts.netloc.rpartition("@")[2]
    plain = f"{parts.scheme}://{address}{parts.path}".rstrip("/")
    if parts.username is None:
        return plain, None
    return plain, (unquote(parts.username), unquote(parts.password or ""))


def _sql(values: PipelineValues) -> str | None:
    path = values.get("sql-file")
    text = read_text(path) if path else values.get("sql")
    if text is None:
        return None
    statement = text.strip().rstrip(";").rstrip()
    if not statement:
        raise PipelineError(f"{path or '--sql'} contains no SQL statement")
    return statement


def _trigger(text: str) -> str:
    if text != AVAILABLE_NOW:
        try:
            if not 0 <= float(text) < 1e6:
                raise ValueError
        except ValueError:
            raise PipelineError(f"--trigger must be {AVAILABLE_NOW} or a number of seconds, not '{text}'") from None
    return text


def _texts(table: Mapping[str, object]) -> dict[str, str]:
    """Convert TOML values to texts, as Spark's options are; Booleans become "true" and "false"."""
    return {
        key: ("true" if value else "false") if isinstance(value, bool) else str(value) for key, value in table.items()
    }
