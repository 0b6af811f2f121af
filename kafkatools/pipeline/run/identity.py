"""The identity of a pipeline: the part of its definition that determines its rows. It is kept in manifests, in journals
and beside the checkpoint of a stream, so that another pipeline does not continue them.

Rules: options that may be secret are left out: `kafka.*` except the isolation level, those of Hadoop's file systems,
and names such as password. Options that do not change rows are kept, but not compared. Two spellings of a path, a list
of topics, an option's name, a Boolean or a JSON object are equal. A stream has absolute paths, so that its checkpoint
is not continued into the same relative path of another directory; a manifest may move with its directory. Differences
are named as the options of `kt pipeline run`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.cluster import describe_cluster
from kafkatools.core.clock import Clock, SystemClock
from kafkatools.core.config import ADMIN
from kafkatools.core.errors import KafkaError
from kafkatools.core.json_texts import parse_json
from kafkatools.pipeline import storage
from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.jobs.offsets import topic_ids
from kafkatools.pipeline.run.spec import INPUT, ISOLATION_OPTIONS, Decoding, Pipeline, Source
from kafkatools.pipeline.types import PipelineIdentity
from kafkatools.pipeline.uris import CONSOLE, ICEBERG, TOPIC, Cluster, Uri

_ONLY_SPEED = frozenset(
    ("decoderecords", "fetchoffset.numretries", "fetchoffset.retryintervalms", "groupidprefix",
     "kafkaconsumer.polltimeoutms", "maxbytespertrigger", "maxfilespertrigger", "maxoffsetspertrigger",
     "maxrecordsperpartition", "maxtriggerdelay", "minoffsetspertrigger", "minpartitions", "pushfilters", "reportpath",
     "requirereports", "splitbytes", "strict", "strictoptions")
)  # fmt: skip
"""Lower-case names of source options that do not change the rows of a run that succeeds."""
_ONLY_FORM = frozenset(
    ("compression", "exactlyonce", "fanout-enabled", "maxrecordsperfile", "mergeschema", "strictoptions",
     "target-file-size-bytes")
)  # fmt: skip
"""Lower-case names of sink options that do not change which rows are written, nor their text."""
_ONLY_AT_START = frozenset(
    ("failondataloss", "startingoffsets", "startingoffsetsbytimestamp", "startingoffsetsbytimestampstrategy",
     "startingtimestamp", "startingversion", "stream-from-timestamp")
)  # fmt: skip
"""Lower-case names of options that have no effect on a stream whose checkpoint has offsets."""
_DEFAULTS = {"isolationlevel": "read_uncommitted", "includeheaders": "false", "includemetadata": "false",
             "table": "records", "wholesegments": "false", "header": "true", "inferschema": "true"}  # fmt: skip
"""The defaults of options, which may be named or left out, by lower-case names; the last two are those of CSV."""
_SYNONYMS = {"kafka.isolation.level": "isolationLevel", "delimiter": "sep", "charset": "encoding"}
_TEXTS = ("emptyvalue", "nullvalue")
"""Lower-case names of options whose values are written into rows, so that case matters."""
_TOPICS = "subscribe"
_SECRET = re.compile(r"^(spark\.hadoop\.)?fs\.|password|passwd|secret|token|credential|access\.?key|account\.?key")
"""Matches the lower-case names of options that may be secret, besides `kafka.*`."""
_PASSWORD = re.compile(r"(?<=://)([^/@:]*):[^/]*@")
_EXCERPT, _CONTEXT = 160, 40
"""The characters of a value that an error shows, and those of them before the first difference."""


def identity(pipeline: Pipeline) -> PipelineIdentity:
    """Return the part of a pipeline's definition that determines its output, without options that may be secret."""
    return {
        "sources": [
            {
                "name": source.name,
                "uri": _recorded(source.uri, pipeline),
                "options": _public(source.options),
                "key": _decoding_content(source.key),
                "value": _decoding_content(source.value),
            }
            for source in pipeline.sources
        ],
        "sql": pipeline.sql,
        "transform": pipeline.transform,
        "stream": pipeline.is_streaming,
        "sink": {
            "uri": _recorded(pipeline.sink.uri, pipeline),
            "options": _public(pipeline.sink.options),
            "partition_by": list(pipeline.sink.partition_by),
            **({"merge_by": list(pipeline.sink.merge_by)} if pipeline.sink.merge_by else {}),
        },
    }


def identity_with_clusters(pipeline: Pipeline) -> PipelineIdentity:
    """Return the identity of a pipeline, with the cluster ids of its topics and the ids of the topics that it reads.
    Raises PipelineError if a cluster does not answer."""
    clusters = [(source.name, source.cluster) for source in pipeline.sources]
    clusters.append(("", pipeline.sink.cluster if pipeline.sink.uri.kind == TOPIC else None))
    topics = {source.name: _topic_ids(source, is_streaming=pipeline.is_streaming) for source in pipeline.sources}
    return {**identity(pipeline), "clusters": _cluster_ids(clusters), "topic_ids": topics}


def _topic_ids(source: Source, *, is_streaming: bool) -> dict[str, str]:
    """Return the ids of the topics that a live source reads, as texts; topics of old brokers have none."""
    if source.cluster is None:
        return {}
    ids = topic_ids(source.uri, source.options, source.cluster, is_streaming=is_streaming)
    return {topic: str(topic_id) for topic, topic_id in ids.items() if topic_id is not None}


def _cluster_ids(clusters: Iterable[tuple[str, Cluster | None]]) -> dict[str, str | None]:
    by_address: dict[str, str | None] = {}
    ids: dict[str, str | None] = {}
    for name, cluster in clusters:
        if cluster is None:
            continue
        if cluster.bootstrap not in by_address:
            by_address[cluster.bootstrap] = cluster_id_of(cluster)
        ids[name] = by_address[cluster.bootstrap]
    return ids


def cluster_id_of(cluster: Cluster, clock: Clock | None = None) -> str | None:
    """Return the id of a cluster. Raises PipelineError if no broker answers."""
    settings = {setting: value for setting, value in cluster.settings.items() if setting in ADMIN}
    try:
        with AdminClient(cluster.bootstrap, settings, clock or SystemClock()) as admin:
            return describe_cluster(admin).cluster_id
    except KafkaError as error:
        raise PipelineError(f"{cluster.bootstrap}: {error}") from error


def _recorded(uri: Uri, pipeline: Pipeline) -> str:
    return normal_uri(str(uri)) if pipeline.is_streaming else str(uri)


def normal_uri(text: str) -> str:
    """Return the URI of a source or sink with an absolute path, or with its topics in order."""
    kind, colon, target = text.partition(":")
    if kind == TOPIC:
        target = _sorted_names(target)
    elif kind not in (CONSOLE, ICEBERG):
        target = storage.normal(target)
    return kind + colon + target


def _sorted_names(text: str) -> str:
    return ",".join(sorted({name.strip() for name in text.split(",")} - {""}))


def without_passwords(content: PipelineIdentity) -> PipelineIdentity:
    """Return an identity without the passwords of its URLs."""
    sources = [{**source, "uri": without_password(source["uri"])} for source in content["sources"]]
    sink = {**content["sink"], "uri": without_password(content["sink"]["uri"])}
    return {**content, "sources": sources, "sink": sink}


def without_password(uri: str) -> str:
    """Return the URI of a source or sink without the passwords of its URLs."""
    return _PASSWORD.sub(r"\1@", uri)


def normal_options(options: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """Return the names and values of options in the spelling in which two runs are compared, by the names in lower
    case. Defaults and what may be secret are left out. If both an option and its synonym are set, the option counts."""
    found: dict[str, tuple[str, str]] = {}
    for name in sorted(options, key=lambda name: name.lower() in _SYNONYMS):
        shown = _SYNONYMS.get(name.lower(), name)
        found.setdefault(shown.lower(), (shown, _normal_value(shown.lower(), options[name])))
    return {
        name: (shown, value)
        for name, (shown, value) in found.items()
        if not _is_secret(name) and value.lower() != _DEFAULTS.get(name)
    }


def _normal_value(name: str, value: str) -> str:
    if name in _TEXTS:
        return value
    if value.lower() in ("true", "false"):
        return value.lower()
    if name == _TOPICS:
        return _sorted_names(value)
    if value.startswith("{"):
        try:
            return json.dumps(parse_json(value), sort_keys=True)
        except ValueError:
            return value
    return value


def _is_secret(name: str) -> bool:
    """Return whether the value of an option (`name` in lower case) may be secret."""
    if name in ISOLATION_OPTIONS:
        return False
    return name.startswith("kafka.") or _SECRET.search(name) is not None


def _public(options: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in sorted(options.items()) if not _is_secret(name.lower())}


def _decoding_content(decoding: Decoding | None) -> dict[str, str | None] | None:
    if decoding is None:
        return None
    return {"format": decoding.format, "schema": decoding.schema, "message": decoding.message,
            "registry": decoding.registry}  # fmt: skip


def difference(before: PipelineIdentity, present: PipelineIdentity) -> str | None:
    """Describe the first difference between a recorded identity and the present one; None if there is none. Clusters
    are compared where both identities have them."""
    return first_difference(_parts(before), _parts(present))


def topic_difference(before: PipelineIdentity, present: PipelineIdentity) -> str | None:
    """Name a topic that has another id than in a recorded identity: its records below the recorded offsets are new.
    None if there is none, and for sources with failOnDataLoss=false."""
    recorded = before.get("topic_ids", {})
    for source in present["sources"]:
        if normal_options(source["options"]).get("failondataloss", ("", ""))[1] == "false":
            continue
        ids = recorded.get(source["name"], {})
        for topic, topic_id in present.get("topic_ids", {}).get(source["name"], {}).items():
            if ids.get(topic, topic_id) != topic_id:
                return f"topic {topic} was deleted and created again"
    return None


def first_difference(before: Iterable[tuple[str, object]], present: Iterable[tuple[str, object]]) -> str | None:
    """Describe the first difference between recorded values and the present ones; None if there is none. The values
    have the names that users write, whose case does not count. A cluster without an id is not compared."""
    old, new = _by_name(before), _by_name(present)
    for key in dict.fromkeys((*new, *old)):
        (_, before_value), (_, present_value) = old.get(key, ("", None)), new.get(key, ("", None))
        if before_value == present_value or (key.startswith("cluster") and None in (before_value, present_value)):
            continue
        name = (new.get(key) or old[key])[0]
        there, here = _excerpts(_text(before_value), _text(present_value))
        return f"{name} is {there} there and {here} here"
    return None


def _by_name(values: Iterable[tuple[str, object]]) -> dict[str, tuple[str, object]]:
    """Return names and values by the names in lower case."""
    return {name.lower(): (name, value) for name, value in values}


def _text(value: object) -> str:
    return "not set" if value is None else " ".join(str(value).split())


def _excerpts(before: str, present: str) -> tuple[str, str]:
    """Cut long texts so that both show where they begin to differ."""
    if max(len(before), len(present)) <= _EXCERPT:
        return before, present
    start = max(len(os.path.commonprefix((before, present))) - _CONTEXT, 0)
    return _excerpt(before, start), _excerpt(present, start)


def _excerpt(text: str, start: int) -> str:
    end = start + _EXCERPT
    return ("..." if start else "") + text[start:end] + ("..." if end < len(text) else "")


def _parts(content: PipelineIdentity) -> Iterator[tuple[str, object]]:
    """Yield the compared values of an identity, by the names of options; in pipeline files sources have tables. Schema
    files of a stream may change with the records, as the schemas of a registry do."""
    clusters = content.get("clusters", {})
    for source in content["sources"]:
        prefix = "--" if source["name"] == INPUT else f"sources.{source['name']}."
        yield f"{prefix}from", without_password(normal_uri(source["uri"]))
        yield f"cluster of {prefix}from", clusters.get(source["name"])
        for part in ("key", "value"):
            decoding = source[part] or {}
            yield f"{prefix}{part}", decoding.get("format")
            schema = None if content["stream"] else decoding.get("schema")
            yield f"{prefix}{part}-schema", None if schema is None else storage.normal(schema)
            yield f"{prefix}{part}-message", decoding.get("message")
            yield f"{prefix}schema-registry of {part}s", decoding.get("registry")
        left_out = (*_ONLY_SPEED, *(_ONLY_AT_START if content["stream"] else ()))
        yield from _options(f"{prefix}from-option ", source["options"], left_out)
    yield "--sql", content["sql"]
    yield "--transform", content["transform"]
    yield "--stream", "set" if content["stream"] else None
    sink = content["sink"]
    yield "--to", without_password(normal_uri(sink["uri"]))
    yield "cluster of --to", clusters.get("")
    yield from _options("--to-option ", sink["options"], _ONLY_FORM)
    yield "--partition-by", ",".join(sink["partition_by"]) or None
    yield "--merge-by", ",".join(sink.get("merge_by", ())) or None


def _options(prefix: str, options: Mapping[str, str], left_out: Collection[str]) -> Iterator[tuple[str, object]]:
    for name, (shown, value) in normal_options(options).items():
        if name not in left_out:
            yield prefix + shown, value
