"""The identity of a pipeline: the part of its definition that determines its rows. It is kept in manifests, in journals
and beside the checkpoint of a stream, so that another pipeline does not continue them.

Rules: options that may be secret are left out (`kafka.*` except the isolation level). Options that do not change rows
are kept, but not compared. Differences are named as the options of `kt pipeline run`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.cluster import describe_cluster
from kafkatools.core.clock import SystemClock
from kafkatools.core.config import ADMIN
from kafkatools.core.errors import KafkaError
from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.run.spec import INPUT, ISOLATION_OPTIONS, Decoding, Pipeline
from kafkatools.pipeline.types import PipelineIdentity
from kafkatools.pipeline.uris import TOPIC, Cluster

_ONLY_SPEED = frozenset(
    ("decoderecords", "fetchoffset.numretries", "fetchoffset.retryintervalms", "groupidprefix",
     "kafkaconsumer.polltimeoutms", "maxbytespertrigger", "maxfilespertrigger", "maxoffsetspertrigger",
     "maxrecordsperpartition", "maxtriggerdelay", "minoffsetspertrigger", "minpartitions", "splitbytes", "strict",
     "strictoptions")
)  # fmt: skip
"""Lower-case names of source options that do not change the rows of a run that succeeds."""
_ONLY_FORM = frozenset(
    ("compression", "exactlyonce", "fanout-enabled", "maxrecordsperfile", "mergeschema", "strictoptions",
     "target-file-size-bytes")
)  # fmt: skip
"""Lower-case names of sink options that do not change which rows are written, nor their text."""
_ONLY_AT_START = ("starting", "failondataloss")
"""How the lower-case names of options begin that have no effect on a stream whose checkpoint has offsets."""
_DEFAULTS = {"isolationlevel": "read_uncommitted", "includeheaders": "false", "includemetadata": "false"}
"""Lower-case names of source options with a default, which may be named or left out."""


def identity(pipeline: Pipeline) -> PipelineIdentity:
    """Return the part of a pipeline's definition that determines its output, without options that may be secret."""
    return {
        "sources": [
            {
                "name": source.name,
                "uri": str(source.uri),
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
            "uri": str(pipeline.sink.uri),
            "options": _public(pipeline.sink.options),
            "partition_by": list(pipeline.sink.partition_by),
            **({"merge_by": list(pipeline.sink.merge_by)} if pipeline.sink.merge_by else {}),
        },
    }


def identity_with_clusters(pipeline: Pipeline) -> PipelineIdentity:
    """Return the identity of a pipeline, with the cluster ids of its topics. Raises PipelineError if a cluster does not
    answer."""
    clusters = [(source.name, source.cluster) for source in pipeline.sources]
    clusters.append(("", pipeline.sink.cluster if pipeline.sink.uri.kind == TOPIC else None))
    return {**identity(pipeline), "clusters": _cluster_ids(clusters)}


def _cluster_ids(clusters: Iterable[tuple[str, Cluster | None]]) -> dict[str, str | None]:
    by_address: dict[str, str | None] = {}
    ids: dict[str, str | None] = {}
    for name, cluster in clusters:
        if cluster is None:
            continue
        if cluster.bootstrap not in by_address:
            settings = {setting: value for setting, value in cluster.settings.items() if setting in ADMIN}
            try:
                with AdminClient(cluster.bootstrap, settings, SystemClock()) as admin:
                    by_address[cluster.bootstrap] = describe_cluster(admin).cluster_id
            except KafkaError as error:
                raise PipelineError(f"{cluster.bootstrap}: {error}") from error
        ids[name] = by_address[cluster.bootstrap]
    return ids


def _public(options: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in sorted(options.items())
        if name.lower() in ISOLATION_OPTIONS or not name.lower().startswith("kafka.")
    }


def _decoding_content(decoding: Decoding | None) -> dict[str, str | None] | None:
    if decoding is None:
        return None
    return {"format": decoding.format, "schema": decoding.schema, "message": decoding.message,
            "registry": decoding.registry}  # fmt: skip


def difference(before: PipelineIdentity, present: PipelineIdentity) -> str | None:
    """Describe the first difference between a recorded identity and the present one; None if there is none. Clusters
    are compared where both identities have them."""
    old, new = dict(_parts(before)), dict(_parts(present))
    for name in dict.fromkeys((*new, *old)):
        if old.get(name) != new.get(name) and not (
            name.startswith("cluster") and None in (old.get(name), new.get(name))
        ):
            return f"{name} is {_text(old.get(name))} there and {_text(new.get(name))} here"
    return None


def _text(value: object) -> str:
    return "not set" if value is None else str(value)


def _parts(content: PipelineIdentity) -> Iterator[tuple[str, object]]:
    """Yield what is compared of an identity, by the names of options; in pipeline files sources have tables."""
    clusters = content.get("clusters", {})
    for source in content["sources"]:
        prefix = "--" if source["name"] == INPUT else f"sources.{source['name']}."
        yield f"{prefix}from", source["uri"]
        yield f"cluster of {prefix}from", clusters.get(source["name"])
        for part in ("key", "value"):
            decoding = source[part] or {}
            yield f"{prefix}{part}", decoding.get("format")
            yield f"{prefix}{part}-schema", decoding.get("schema")
            yield f"{prefix}{part}-message", decoding.get("message")
            yield f"{prefix}schema-registry of {part}s", decoding.get("registry")
        yield from _options(f"{prefix}from-option ", source["options"], is_streaming=content["stream"])
    yield "--sql", content["sql"]
    yield "--transform", content["transform"]
    yield "--stream", "set" if content["stream"] else None
    sink = content["sink"]
    yield "--to", sink["uri"]
    yield "cluster of --to", clusters.get("")
    for name, value in sink["options"].items():
        if name.lower() not in _ONLY_FORM:
            yield f"--to-option {name}", value
    yield "--partition-by", ",".join(sink["partition_by"]) or None
    yield "--merge-by", ",".join(sink.get("merge_by", ())) or None


def _options(prefix: str, options: Mapping[str, str], *, is_streaming: bool) -> Iterator[tuple[str, object]]:
    for name, value in options.items():
        lower = "isolationlevel" if name.lower() in ISOLATION_OPTIONS else name.lower()
        if lower in _ONLY_SPEED or (is_streaming and lower.startswith(_ONLY_AT_START)):
            continue
        if value.lower() != _DEFAULTS.get(lower):
            yield prefix + ("isolationLevel" if name.lower() in ISOLATION_OPTIONS else name), value
