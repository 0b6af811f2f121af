"""The manifest of a run: what was read (offsets, counts and a checksum of each partition), what was written (each file
with its size and rows), by which pipeline. A run can be resumed by it, and verified.

Rules: a manifest appears at the end of a run, whole, by a rename; a run that did not end has none. Before files are
moved into a sink the manifest-to-be stands in a journal beside it (`FILE.journal`) with the list of moves: who finds
one finishes that run. What may be a secret (`kafka.*` options but the isolation level) is in neither.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Literal, NamedTuple

from kafkatools.core import atomic_file
from kafkatools.core.topic_partition import numbers_by_topic
from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.run.spec import ISOLATION_OPTIONS, Decoding, Pipeline, Sink, Source
from kafkatools.pipeline.types import (
    Journal,
    ManifestContent,
    PartitionContent,
    PipelineIdentity,
    SinkFileContent,
    SourceContent,
    SourceFileContent,
)
from kafkatools.pipeline.uris import Cluster, parse_sink, parse_source

VERSION = 1
_MASK = (1 << 64) - 1
_KEYS = ("manifest", "pipeline", "sources", "sink")


_COUNTS: tuple[Literal["records", "bad_keys", "bad_values"], ...] = ("records", "bad_keys", "bad_values")
_WORDS: dict[Literal["first_offset", "last_offset", "records", "checksum"], str] = {
    "first_offset": "begins with offset {}",
    "last_offset": "ends with offset {}",
    "records": "has {} records",
    "checksum": "has the checksum {}",
}


class Difference(NamedTuple):
    """What is not as the manifest says: of which source or sink, and where in it."""

    uri: str
    item: str
    problem: str

    def text(self) -> str:
        return f"{self.uri}: {self.item}: {self.problem}"


# -- The file --


def read_manifest(path: str) -> ManifestContent | None:
    """What a manifest says; None when there is none. PipelineError for what is no manifest."""
    try:
        with open(path, encoding="utf-8") as file:
            content: ManifestContent = json.load(file)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise PipelineError(f"{path}: {error.strerror}") from None
    except ValueError:
        raise PipelineError(f"{path} is no manifest: it is not JSON") from None
    if not isinstance(content, dict) or any(key not in content for key in _KEYS):
        raise PipelineError(f"{path} is no manifest of a pipeline")
    if content["manifest"] != VERSION:
        raise PipelineError(f"{path} is a manifest of version {content['manifest']}, not {VERSION}")
    return content


def write_whole(path: str, content: Mapping[str, object]) -> None:
    """Replace the file durably. Raises PipelineError when that cannot be done."""
    try:
        atomic_file.replace_durably(path, (json.dumps(content, indent=1) + "\n").encode())
    except OSError as error:
        raise PipelineError(f"{path} cannot be written: {error.strerror}") from error


def ensure_writable(path: str) -> None:
    """PipelineError when the manifest could not be written at the end."""
    directory = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(directory):
        raise PipelineError(f"{path} cannot be written: there is no directory {directory}")
    if not os.access(directory, os.W_OK):
        raise PipelineError(f"{path} cannot be written: the directory {directory} is not writable")


def journal_path(path: str) -> str:
    """Where what is under way stands."""
    return f"{path}.journal"


def read_journal(path: str) -> Journal | None:
    """The journal beside a manifest; None when there is none."""
    try:
        with open(journal_path(path), encoding="utf-8") as file:
            content: Journal = json.load(file)
            return content
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise PipelineError(f"{journal_path(path)} cannot be read: {error}") from None


def delete_journal(path: str) -> None:
    """What was under way has ended."""
    os.unlink(journal_path(path))


# -- Its content --


def identity(pipeline: Pipeline) -> PipelineIdentity:
    """What makes a pipeline the same as another, as far as its results go."""
    return {
        "sources": [
            {
                "name": source.name,
                "uri": str(source.uri),
                "options": _public(source.options),
                "key": _decoding(source.key),
                "value": _decoding(source.value),
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
        },
    }


def pipeline_of(content: ManifestContent, clusters: Mapping[str, Cluster | None]) -> Pipeline:
    """The pipeline that a manifest is of, as far as it says; `clusters` by the sources' names."""
    about = content["pipeline"]
    sources = tuple(
        Source(one["name"], parse_source(one["uri"]), one["options"], cluster=clusters.get(one["name"]))
        for one in about["sources"]
    )
    sink = about["sink"]
    made = Sink(parse_sink(sink["uri"]), None, sink["options"], tuple(sink["partition_by"]))
    return Pipeline(sources, made, about["sql"], about["transform"])


def _public(options: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in sorted(options.items())
        if name.lower() in ISOLATION_OPTIONS or not name.lower().startswith("kafka.")
    }


def _decoding(decoding: Decoding | None) -> dict[str, str | None] | None:
    if decoding is None:
        return None
    return {"format": decoding.format, "schema": decoding.schema, "message": decoding.message,
            "registry": decoding.registry}  # fmt: skip


def ensure_same(path: str, content: ManifestContent, pipeline: Pipeline) -> None:
    """PipelineError when the manifest is of another pipeline; it says in what."""
    before, now = content["pipeline"], identity(pipeline)
    for key, value in now.items():
        if before.get(key) != value:
            raise PipelineError(f"{path} is the manifest of another pipeline: its {key} was {before.get(key)!r}")


def merged_partitions(before: Iterable[PartitionContent], now: Iterable[PartitionContent]) -> list[PartitionContent]:
    """The partitions of two runs of which the second went on where the first ended."""
    rows: dict[tuple[str, int], PartitionContent] = {(one["topic"], one["partition"]): one.copy() for one in before}
    for one in now:
        place = one["topic"], one["partition"]
        old = rows.get(place)
        if old is None:
            rows[place] = one.copy()
            continue
        old["first_offset"] = one["first_offset"] if old["first_offset"] is None else old["first_offset"]
        old["last_offset"] = old["last_offset"] if one["last_offset"] is None else one["last_offset"]
        old["start_offset"] = one["start_offset"] if old["start_offset"] is None else old["start_offset"]
        old["end_offset"] = max(old["end_offset"], one["end_offset"])
        old["records"] = _sum(old["records"], one["records"])
        old["batches"] = _sum(old["batches"], one["batches"])
        old["checksum"] = _checksum_sum(old["checksum"], one["checksum"])
        old["files"] = sorted({*old["files"], *one["files"]})
    return [row for _, row in sorted(rows.items())]


def _sum(one: int | None, other: int | None) -> int | None:
    """None where either was not counted."""
    return None if one is None or other is None else one + other


def _checksum_sum(one: str | None, other: str | None) -> str | None:
    return None if one is None or other is None else f"{(int(one, 16) + int(other, 16)) & _MASK:016x}"


def merged(before: ManifestContent, now: ManifestContent) -> ManifestContent:
    """The manifest of a run that went on where another had ended."""
    old_sources = {one["name"]: one for one in before["sources"]}
    for source in now["sources"]:
        old = old_sources.get(source["name"])
        if old is None:
            continue
        source["partitions"] = merged_partitions(old["partitions"], source["partitions"])
        source["damages"] = old["damages"] + source["damages"]
        for key in _COUNTS:
            source[key] = None if old[key] is None and source[key] is None else (old[key] or 0) + (source[key] or 0)
        source["files"] = source["files"] if source["files"] is not None else old["files"]
    sink, old_sink = now["sink"], before["sink"]
    if sink["files"] is not None:
        sink["files"] = (old_sink["files"] or []) + sink["files"]
    sink["rows"] = None if sink["rows"] is None else (old_sink["rows"] or 0) + sink["rows"]
    now["runs"] = before.get("runs", 1) + 1
    return now


# -- Offsets --


def range_options(source: SourceContent) -> dict[str, str]:
    """Options that read exactly what a source of a manifest says was read."""
    partitions = [one for one in source["partitions"] if one["first_offset"] is not None]
    return {
        "assign": json.dumps(numbers_by_topic((one["topic"], one["partition"]) for one in partitions)),
        "startingOffsets": json.dumps(_offsets(partitions, lambda one: one["start_offset"])),
        "endingOffsets": json.dumps(_offsets(partitions, lambda one: one["end_offset"])),
        "failOnDataLoss": "false",
    }


def _offsets(
    partitions: Iterable[PartitionContent], offset: Callable[[PartitionContent], int | None]
) -> dict[str, dict[str, int | None]]:
    found: dict[str, dict[str, int | None]] = {}
    for one in partitions:
        found.setdefault(one["topic"], {})[str(one["partition"])] = offset(one)
    return found


def next_offsets(source: SourceContent, present: Iterable[tuple[str, int]]) -> str:
    """startingOffsets for a run that goes on: where the manifest ends, and the beginning of partitions that are new."""
    ends = {(one["topic"], one["partition"]): one["end_offset"] for one in source["partitions"]}
    found: dict[str, dict[str, int]] = {}
    for topic, partition in present:
        found.setdefault(topic, {})[str(partition)] = ends.get((topic, partition), -2)
    return json.dumps(found)


def present_partitions(source: Source) -> list[tuple[str, int]]:
    """The partitions that a Kafka source has now. Raises PipelineError or KafkaError."""
    if source.uri.kind == "log":
        from kafkatools.pipeline.sources.log.files import find_log_files
        from kafkatools.pipeline.sources.log.options import read_options

        options = read_options({**source.options, "path": source.uri.target})
        return sorted({(file.topic, file.partition) for file in find_log_files(options.paths, options.selection)})
    if not source.uri.target:
        raise PipelineError("topic: without a name cannot be resumed: name the topics")
    assert source.cluster is not None
    from kafkatools.core.admin.client import AdminClient
    from kafkatools.core.admin.topics import describe_topics
    from kafkatools.core.clock import SystemClock

    with AdminClient(source.cluster.bootstrap, dict(source.cluster.settings), SystemClock()) as admin:
        found = describe_topics(admin, source.uri.target.split(","))
        return sorted((name, one.partition) for name, topic in found.items() for one in topic.partitions)


def partition_differences(
    uri: str, wanted: Iterable[PartitionContent], found: Iterable[PartitionContent]
) -> list[Difference]:
    """What of partitions is not as it was."""
    by_place = {(one["topic"], one["partition"]): one for one in found}
    differences = []
    for one in wanted:
        if one["first_offset"] is None:
            continue
        item = f"{one['topic']}-{one['partition']}"
        now = by_place.get((one["topic"], one["partition"]))
        if now is None or now["first_offset"] is None:
            differences.append(Difference(uri, item, f"none of its {one['records']} records is there"))
            continue
        for key, words in _WORDS.items():
            if one[key] is not None and now[key] != one[key]:
                differences.append(Difference(uri, item, f"{words.format(now[key])}, not {one[key]}"))
                break
    return differences


def file_differences(
    uri: str, wanted: Iterable[SinkFileContent | SourceFileContent], found: Mapping[str, tuple[int, int | None]]
) -> list[Difference]:
    """What of files is not as it was; `found` has size and rows by path (rows None: nobody counted)."""
    differences = []
    for one in wanted:
        now = found.get(one["path"])
        if now is None:
            differences.append(Difference(uri, one["path"], "is not there"))
        elif now[0] != one["size"]:
            differences.append(Difference(uri, one["path"], f"has {now[0]} bytes, not {one['size']}"))
        elif one.get("rows") is not None and now[1] is not None and now[1] != one["rows"]:
            differences.append(Difference(uri, one["path"], f"has {now[1]} rows, not {one['rows']}"))
    return differences
