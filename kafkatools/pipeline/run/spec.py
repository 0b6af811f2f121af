"""What a pipeline is to do, as data: from a command line, from a TOML file, or from Python.

    from = "topic:orders"                 # or several: [sources.orders] from = "topic:orders"
    value = "json"
    sql = "SELECT value.user, count(*) AS n FROM input GROUP BY 1"
    to = "parquet:out"
    mode = "overwrite"

Rules: the keys of the file are the options of `kt pipeline run`, and an option of the command line wins over the file.
Every mistake names the file and the key, or the option. Nothing here needs Spark.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, cast
from urllib.parse import unquote, urlsplit

from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.types import PipelineValues
from kafkatools.pipeline.uris import LOG, MODES, TOPIC, Cluster, Uri, parse_sink, parse_source

INPUT = "input"
AVAILABLE_NOW = "available-now"
FORMATS = ("binary", "string", "json", "avro", "protobuf")
ISOLATION_OPTIONS = ("isolationlevel", "kafka.isolation.level")
"""Options of a Kafka source, in small letters, that say whether aborted records are read."""

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
_LISTS = ("partition-by",)
KEYS = (*_TEXTS, *_FLAGS, *_TABLES, *_LISTS, "sources")
"""Everything that a file may say."""


_Part = Literal["key", "value"]
_PARTS: tuple[_Part, ...] = ("key", "value")
_SCHEMAS: dict[_Part, Literal["key-schema", "value-schema"]] = {"key": "key-schema", "value": "value-schema"}
_MESSAGES: dict[_Part, Literal["key-message", "value-message"]] = {"key": "key-message", "value": "value-message"}


class Decoding(NamedTuple):
    """How the bytes of keys or values become a column.

    `schema` is the path of a local schema file, `message` the name of a protobuf message, `registry` the URL of a
    schema registry, `credentials` are user and password for it.
    """

    format: str
    schema: str | None = None
    message: str | None = None
    registry: str | None = None
    credentials: tuple[str, str] | None = None


@dataclass(frozen=True)
class Source:
    """One table that the SQL may name."""

    name: str
    uri: Uri
    options: Mapping[str, str] = field(default_factory=dict)
    key: Decoding | None = None
    value: Decoding | None = None
    cluster: Cluster | None = None


@dataclass(frozen=True)
class Sink:
    uri: Uri
    mode: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    partition_by: tuple[str, ...] = ()
    cluster: Cluster | None = None


@dataclass(frozen=True)
class Pipeline:
    """One run: sources, a query, a sink.

    `sql` or `transform` (module:function), or neither: then the one source goes to the sink as it is. With
    `is_streaming` the run goes on with what comes, from `checkpoint`; `trigger` is "available-now", seconds, or None
    (as fast as it can). `report_path`: a directory that this process and all executors can write to.
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


def read_toml(path: str) -> PipelineValues:
    """What a file says, its keys and types checked. PipelineError names the file and the key."""
    from kafkatools.core import toml_files

    try:
        content = toml_files.read_toml(path)
    except ValueError as error:
        raise PipelineError(str(error)) from None
    for key, value in content.items():
        _check_key(path, key, value)
    for name, source in content.get("sources", {}).items():
        if not isinstance(source, dict):
            raise PipelineError(f"{path}: sources.{name} is a table")
        for key, value in source.items():
            if key not in (*_SOURCE_TEXTS, "from-option"):
                known = ", ".join((*_SOURCE_TEXTS, "from-option"))
                raise PipelineError(f"{path}: there is no key sources.{name}.{key} (known: {known})")
            _check_key(path, key, value, f"sources.{name}.")
    return cast("PipelineValues", content)


def _check_key(path: str, key: str, value: object, prefix: str = "") -> None:
    if key not in KEYS:
        raise PipelineError(f"{path}: there is no key {key} (known: {', '.join(KEYS)})")
    if key in _FLAGS:
        wanted, fits = "true or false", isinstance(value, bool)
    elif key in _LISTS:
        wanted, fits = "a list of texts", isinstance(value, list) and all(isinstance(one, str) for one in value)
    elif key in _TABLES or key == "sources":
        wanted, fits = "a table", isinstance(value, dict)
    else:
        wanted, fits = "a text", isinstance(value, str) or (key == "trigger" and isinstance(value, int))
    if not fits:
        raise PipelineError(f"{path}: {prefix}{key} is {wanted}")


def pipeline_from(values: PipelineValues, clusters: Mapping[str, Cluster | None]) -> Pipeline:
    """The pipeline that the keys describe. `clusters`: of sources by their name, "" is the sink's."""
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
    )


def _check_values(values: PipelineValues) -> None:
    """What has to be there, and what does not go together."""
    if bool(values.get("from")) == bool(values.get("sources")):
        raise PipelineError("A pipeline has one source: --from URI, or [sources.NAME] tables in a file")
    if not values.get("to"):
        raise PipelineError("A pipeline has a sink: --to URI")
    queries = [key for key in ("sql", "sql-file", "transform") if values.get(key)]
    if len(queries) > 1:
        raise PipelineError(f"--{queries[0]} and --{queries[1]} cannot be used together")
    if len(values.get("sources", {})) > 1 and not queries:
        raise PipelineError("Several sources need --sql, --sql-file or --transform to become one table")
    if values.get("mode") not in (None, *MODES):
        raise PipelineError(f"--mode is one of {', '.join(MODES)}, not '{values['mode']}'")
    if values.get("resume") and not values.get("manifest"):
        raise PipelineError("--resume goes with --manifest FILE: it says what is done already")
    _check_sources(values)
    _check_streaming(values)


def _check_sources(values: PipelineValues) -> None:
    """What is said of the one source means nothing where there are tables of them."""
    of_cluster = ("bootstrap-server", "command-config")
    for key in (*_SOURCE_TEXTS, "from-option"):
        if values.get("sources") and values.get(key) and key not in of_cluster:
            raise PipelineError(f"--{key} goes with --from; with [sources.NAME] tables it stands in each of them")


def _check_streaming(values: PipelineValues) -> None:
    if not values.get("stream"):
        for key in ("checkpoint", "trigger"):
            if values.get(key) is not None:
                raise PipelineError(f"--{key} goes with --stream")
    elif not values.get("checkpoint"):
        raise PipelineError("--stream needs --checkpoint DIR: where it writes how far it is")


def _source(name: str, table: PipelineValues, cluster: Cluster | None, sink: Uri) -> Source:
    if not table.get("from"):
        raise PipelineError(f"sources.{name} has no from")
    uri = parse_source(table["from"])
    options = _texts(table.get("from-option", {}))
    decodings = {part: _decoding(part, table, uri) for part in _PARTS}
    if uri.is_kafka and sink.kind == TOPIC and "includeheaders" not in {one.lower() for one in options}:
        options["includeHeaders"] = "true"
    return Source(name, uri, options, decodings["key"], decodings["value"], cluster if uri.kind == TOPIC else None)


def _decoding(part: _Part, table: PipelineValues, uri: Uri) -> Decoding | None:
    form = table.get(part)
    schema, message = table.get(_SCHEMAS[part]), table.get(_MESSAGES[part])
    extras = [key for key in (f"{part}-schema", f"{part}-message") if table.get(key)]
    if form is None or form == "binary":
        if extras:
            raise PipelineError(f"--{extras[0]} goes with --{part} json, avro or protobuf")
        return None
    if form not in FORMATS:
        raise PipelineError(f"--{part} is one of {', '.join(FORMATS)}, not '{form}'")
    if not uri.is_kafka:
        raise PipelineError(f"--{part} {form} is for {TOPIC}: and {LOG}:, whose rows have bytes; {uri} has columns")
    registry, credentials = _registry(table.get("schema-registry"))
    if form in ("avro", "protobuf") and not registry and not schema:
        raise PipelineError(f"--{part} {form} needs --{part}-schema FILE or --schema-registry URL")
    if form == "string" and extras:
        raise PipelineError(f"--{extras[0]} goes with --{part} json, avro or protobuf")
    return Decoding(form, schema, message, registry, credentials)


def _registry(url: str | None) -> tuple[str | None, tuple[str, str] | None]:
    """URL without what stands in front of its @, and that."""
    if not url:
        return None, None
    try:
        parts = urlsplit(url)
        is_web = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:  # a port that is no number, half of an IPv6 address
        is_web = False
    if not is_web:
        raise PipelineError("--schema-registry takes http://HOST:PORT or https://HOST:PORT")
    place = parts.netloc.rpartition("@")[2]
    plain = f"{parts.scheme}://{place}{parts.path}".rstrip("/")
    if parts.username is None:
        return plain, None
    return plain, (unquote(parts.username), unquote(parts.password or ""))


def _sql(values: PipelineValues) -> str | None:
    path = values.get("sql-file")
    if not path:
        text = values.get("sql")
        return None if text is None else _statement(text, "--sql")
    try:
        with open(path, encoding="utf-8") as file:
            return _statement(file.read(), path)
    except OSError as error:
        raise PipelineError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise PipelineError(f"{path} is not UTF-8") from None


def _statement(text: str, where: str) -> str:
    statement = text.strip().rstrip(";").rstrip()
    if not statement:
        raise PipelineError(f"{where}: there is no SQL in it")
    return statement


def _trigger(text: str) -> str:
    if text != AVAILABLE_NOW:
        try:
            if not 0 <= float(text) < 1e6:
                raise ValueError
        except ValueError:
            raise PipelineError(f"--trigger is {AVAILABLE_NOW} or seconds, not '{text}'") from None
    return text


def _texts(table: Mapping[str, object]) -> dict[str, str]:
    """Spark's options are texts; TOML has true and numbers, too."""
    return {
        key: ("true" if value else "false") if isinstance(value, bool) else str(value) for key, value in table.items()
    }
