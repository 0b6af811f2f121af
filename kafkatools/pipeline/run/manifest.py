"""The manifest of a run: offsets, counts and checksums of the partitions read, and the files written with sizes and
rows.

Rules: a manifest is written at the end of a run, by an atomic rename; a failed run writes none, a stream stopped by
Ctrl-C writes one, and that of a stream that failed or was killed is written at its next start. Before files are moved
into a sink, a journal beside the manifest (`FILE.journal`) holds the future manifest and the list of moves; a run with
--resume completes it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kafkatools.core.json_texts import parse_json
from kafkatools.core.topic_partition import TopicPartition, numbers_by_topic
from kafkatools.pipeline import storage
from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.run.identity import difference
from kafkatools.pipeline.run.spec import Pipeline, Sink, Source
from kafkatools.pipeline.types import (
    FileContent,
    Journal,
    ManifestContent,
    PartitionContent,
    PipelineIdentity,
    SinkContent,
    SourceContent,
)
from kafkatools.pipeline.uris import Cluster, parse_sink, parse_source

VERSION = 1
_MASK = (1 << 64) - 1
_KEYS = ("manifest", "pipeline", "sources", "sink")


_COUNTS = ("records", "bad_keys", "bad_values", "keys_with_unknown_fields", "values_with_unknown_fields")
_WORDS = {
    "first_offset": "begins with offset {}",
    "last_offset": "ends with offset {}",
    "records": "has {} records",
    "checksum": "has the checksum {}",
}


class Difference(NamedTuple):
    """A difference from the manifest: the URI of the source or sink, the partition or file, and the problem."""

    uri: str
    item: str
    problem: str

    def text(self) -> str:
        """Describe the difference in one line."""
        return f"{self.uri}: {self.item}: {self.problem}"


# -- The file --


def read_manifest(path: str) -> ManifestContent | None:
    """Read a manifest; None if the file does not exist. Raises PipelineError if it cannot be read or is not a manifest
    of this version."""
    content = _read_json(path)
    if content is None:
        return None
    if any(key not in content for key in _KEYS):
        raise PipelineError(f"{path} is not a manifest of kt pipeline run")
    if content["manifest"] != VERSION:
        raise PipelineError(f"{path} is a manifest of version {content['manifest']}; supported is version {VERSION}")
    return content


def _read_json(path: str) -> dict[str, Any] | None:
    """Read a JSON object; None if the file does not exist. Raises PipelineError if the file is unreadable or not a JSON
    object."""
    data = storage.read_bytes(path)
    if data is None:
        return None
    try:
        content = parse_json(data)
    except ValueError:
        raise PipelineError(f"{path} cannot be read: it is not JSON") from None
    if not isinstance(content, dict):
        raise PipelineError(f"{path} cannot be read: it is not a JSON object")
    return content


def write_whole(path: str, content: Mapping[str, object]) -> None:
    """Replace a JSON file, which may be a URL, atomically and durably. Raises PipelineError if it cannot be written."""
    storage.write_bytes(path, (json.dumps(content, indent=1) + "\n").encode())


def ensure_writable(path: str) -> None:
    """Raise PipelineError, before a run begins, if the manifest's directory does not exist or is not writable; of a URL
    if the journal beside it cannot be read."""
    local = storage.local_path(path)
    if local is None:
        storage.read_bytes(journal_path(path))
        return
    directory = os.path.dirname(local)
    if not os.path.isdir(directory):
        raise PipelineError(f"{path} cannot be written: there is no directory {directory}")
    if not os.access(directory, os.W_OK):
        raise PipelineError(f"{path} cannot be written: the directory {directory} is not writable")


def journal_path(path: str) -> str:
    """Return the path of the journal beside a manifest."""
    return f"{path}.journal"


def read_journal(path: str) -> Journal | None:
    """Read the journal beside a manifest; None if there is none. Raises PipelineError if the file is unreadable or not
    a JSON object."""
    return _read_json(journal_path(path))


def delete_journal(path: str) -> None:
    """Delete the journal beside a manifest, if there is one. Raises PipelineError if the file cannot be deleted."""
    storage.delete_file(journal_path(path))


# -- Its content --


def pipeline_of(content: ManifestContent, clusters: Mapping[str, Cluster | None]) -> Pipeline:
    """Rebuild a batch pipeline from a manifest, without the decodings, the save mode and secret options. `clusters`
    maps source names to clusters. Raises PipelineError for an invalid URI."""
    about = content["pipeline"]
    sources = tuple(
        Source(source["name"], parse_source(source["uri"]), source["options"], cluster=clusters.get(source["name"]))
        for source in about["sources"]
    )
    sink = about["sink"]
    spec = Sink(parse_sink(sink["uri"]), None, sink["options"], tuple(sink["partition_by"]))
    return Pipeline(sources, spec, about["sql"], about["transform"])


def ensure_same(path: str, content: ManifestContent, present: PipelineIdentity) -> None:
    """Raise PipelineError if the manifest belongs to another pipeline; the message names the first differing part."""
    found = difference(content["pipeline"], present)
    if found is not None:
        raise PipelineError(f"{path} is the manifest of another pipeline: {found}; name another --manifest")


def merged_partitions(before: Iterable[PartitionContent], now: Iterable[PartitionContent]) -> list[PartitionContent]:
    """Merge the partition entries of a run with those of the run that resumed it, sorted by topic and partition.
    Records, batches and checksums add up; a sum is None if either part is."""
    rows: dict[tuple[str, int], PartitionContent] = {
        (partition["topic"], partition["partition"]): partition.copy() for partition in before
    }
    for row in now:
        old = rows.setdefault((row["topic"], row["partition"]), row)
        if old is row:
            continue
        old["first_offset"] = row["first_offset"] if old["first_offset"] is None else old["first_offset"]
        old["last_offset"] = old["last_offset"] if row["last_offset"] is None else row["last_offset"]
        old["start_offset"] = row["start_offset"] if old["start_offset"] is None else old["start_offset"]
        old["end_offset"] = max(old["end_offset"], row["end_offset"])
        old["records"] = _sum(old["records"], row["records"])
        old["batches"] = _sum(old["batches"], row["batches"])
        old["checksum"] = _checksum_sum(old["checksum"], row["checksum"])
        old["files"] = sorted({*old["files"], *row["files"]})
    return [row for _, row in sorted(rows.items())]


def _sum(left: int | None, right: int | None) -> int | None:
    return None if left is None or right is None else left + right


def _checksum_sum(left: str | None, right: str | None) -> str | None:
    return None if left is None or right is None else f"{(int(left, 16) + int(right, 16)) & _MASK:016x}"


def merge(before: ManifestContent, now: ManifestContent) -> ManifestContent:
    """Merge the manifest of a run into the manifest of the run that resumed it: `now` is changed in place and
    returned."""
    old_sources = {old_source["name"]: old_source for old_source in before["sources"]}
    for source in now["sources"]:
        old = old_sources.get(source["name"])
        if old is None:
            continue
        source["partitions"] = merged_partitions(old["partitions"], source["partitions"])
        source["damages"] = old["damages"] + source["damages"]
        for key in _COUNTS:
            source[key] = _sum(old.get(key), source.get(key))  # manifests of earlier versions have fewer counts
        source["files"] = source["files"] if source["files"] is not None else old["files"]
    sink, old_sink = now["sink"], before["sink"]
    if sink["files"] is not None:
        sink["files"] = (old_sink["files"] or []) + sink["files"]
    sink["rows"] = _sum(old_sink["rows"], sink["rows"])
    now["runs"] = before.get("runs", 1) + 1
    return now


# -- Offsets --


def range_options(source: SourceContent) -> dict[str, str]:
    """Return the reader options that read the offset ranges of a manifest's source. Partitions without a first offset,
    where the run read no record, are left out. Offsets that were deleted since do not fail the read (failOnDataLoss is
    false)."""
    rows = [(row["topic"], row["partition"], row) for row in source["partitions"] if row["first_offset"] is not None]
    return {
        "assign": json.dumps(numbers_by_topic((topic, partition) for topic, partition, _ in rows)),
        "startingOffsets": _offsets((topic, partition, row["start_offset"]) for topic, partition, row in rows),
        "endingOffsets": _offsets((topic, partition, row["end_offset"]) for topic, partition, row in rows),
        "failOnDataLoss": "false",
    }


def _offsets(rows: Iterable[tuple[str, int, int | None]]) -> str:
    """Return (topic, partition, offset) rows as JSON for startingOffsets and endingOffsets."""
    offsets: dict[str, dict[str, int | None]] = {}
    for topic, partition, offset in rows:
        offsets.setdefault(topic, {})[str(partition)] = offset
    return json.dumps(offsets)


def next_offsets(
    source: SourceContent, present: Iterable[tuple[str, int]], starts: Mapping[TopicPartition, int]
) -> str:
    """Return the option startingOffsets as JSON for a run that resumes. Each of the `present` partitions starts at the
    manifest's end offset, or if the manifest does not have it, at that of `starts`, else at -2 (earliest)."""
    ends = {(row["topic"], row["partition"]): row["end_offset"] for row in source["partitions"]}
    return _offsets((*key, ends.get(key, starts.get(TopicPartition(*key), -2))) for key in present)


def present_partitions(source: Source) -> list[tuple[str, int]]:
    """Return the topic-partitions that a Kafka source has now, sorted: those of its log files or of the cluster. Raises
    PipelineError for `topic:` without a name or unreadable log files, and KafkaError if the cluster cannot be read."""
    if source.uri.kind == "log":
        from kafkatools.pipeline.sources.log.files import find_log_files
        from kafkatools.pipeline.sources.log.options import read_options

        options = read_options({**source.options, "path": source.uri.target})
        return sorted({(file.topic, file.partition) for file in find_log_files(options.paths, options.selection)})
    if not source.uri.target:
        raise PipelineError("topic: without a name cannot be resumed; name the topics: topic:NAME,NAME")
    assert source.cluster is not None
    from kafkatools.core.admin.client import AdminClient
    from kafkatools.core.admin.topics import describe_topics
    from kafkatools.core.clock import SystemClock

    with AdminClient(source.cluster.bootstrap, dict(source.cluster.settings), SystemClock()) as admin:
        topics = describe_topics(admin, source.uri.topics)
        return sorted((name, info.partition) for name, topic in topics.items() for info in topic.partitions)


def partition_differences(
    uri: str, recorded: Iterable[PartitionContent], present: Iterable[PartitionContent]
) -> list[Difference]:
    """Compare partition entries of a manifest with those read now; one difference at most for each partition. Recorded
    partitions without records and recorded counts of None are not compared."""
    by_partition = {(row["topic"], row["partition"]): row for row in present}
    differences = []
    for row in recorded:
        if row["first_offset"] is None:
            continue
        item = f"{row['topic']}-{row['partition']}"
        current = by_partition.get((row["topic"], row["partition"]))
        if current is None or current["first_offset"] is None:
            differences.append(Difference(uri, item, f"none of its {row['records']} records is present"))
            continue
        for key, words in _WORDS.items():
            if row[key] is not None and current[key] != row[key]:
                differences.append(Difference(uri, item, f"{words.format(current[key])}, not {row[key]}"))
                break
    return differences


def version_differences(uri: str, recorded: int, present: int | None) -> list[Difference]:
    """Compare the version of a table with the one that the run left."""
    if present == recorded:
        return []
    now = "has no version" if present is None else f"has version {present}"
    return [Difference(uri, "table", f"{now}, the run wrote version {recorded}: it was changed after the run")]


def is_sink_verifiable(sink: SinkContent) -> bool:
    """Return whether a manifest has what is needed to verify its sink: files, or the version of a table."""
    return sink["files"] is not None or sink.get("version") is not None


def file_differences(
    uri: str, recorded: Iterable[FileContent], present: Mapping[str, tuple[int, int | None]]
) -> list[Difference]:
    """Compare file entries of a manifest with the files present; one difference at most for each recorded file,
    additional files are ignored. `present` maps paths to size in bytes and rows (None: not counted, then not
    compared)."""
    differences = []
    for file in recorded:
        size, rows = present.get(file["path"], (None, None))
        if size is None:
            differences.append(Difference(uri, file["path"], "is missing"))
        elif size != file["size"]:
            differences.append(Difference(uri, file["path"], f"has {size} bytes, not {file['size']}"))
        elif file.get("rows") is not None and rows is not None and rows != file["rows"]:
            differences.append(Difference(uri, file["path"], f"has {rows} rows, not {file['rows']}"))
    return differences
