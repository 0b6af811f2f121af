"""The directory of an export: its options, its progress, and the moves that finish a round. Shared by both engines.

A run works in rounds, each over some offsets of all partitions. The files of a round are written to a hidden directory.
Then the state file (STATE) records the round's end offsets and the files to move, and only then the files are moved
into place. The next run moves the recorded files first, so that a killed run resumes without lost or duplicate records.
A later run exports the offsets since.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from kafkatools.core.json_texts import parse_json
from kafkatools.core.topic_partition import TopicPartition
from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.jobs.offsets import Ranges
from kafkatools.pipeline.run.identity import first_difference, normal_options, normal_uri, without_password
from kafkatools.pipeline.run.manifest import write_whole
from kafkatools.pipeline.storage import join, local_path, read_bytes
from kafkatools.pipeline.uris import Cluster, Uri, path_of

STATE = "_kt_export.json"
STAGE = "_kt-export"
"""The hidden directory of the files of the current round."""

FORMATS = ("parquet", "json", "csv")
BY_DATE, BY_TOPIC = "date", "topic"
LAYOUTS = (BY_DATE, BY_TOPIC)
DEFAULT_ROUND = 20_000_000
_VERSION = 1
_SELECTION_OPTIONS = {
    name.lower(): name
    for name in (
        "isolationLevel", "kafka.isolation.level", "includeHeaders", "includeMetadata", "table", "wholeSegments",
        "assign", "subscribe", "subscribePattern",
    )
}  # fmt: skip
"""The source options that determine which records and columns an export has, by their lower-case names."""
_COMPARED = frozenset(("source", "cluster", "format", "where", "dialect", "partition_by", "text", "to-option"))
"""The other names of an export's identity."""
_FORM_OPTIONS = (
    "charset", "charToEscapeQuoteEscaping", "dateFormat", "delimiter", "emptyValue", "encoding", "escape",
    "escapeQuotes", "header", "ignoreLeadingWhiteSpace", "ignoreNullFields", "ignoreTrailingWhiteSpace", "lineSep",
    "locale", "nullValue", "quote", "quoteAll", "sep", "timeZone", "timestampFormat", "timestampNTZFormat",
)  # fmt: skip
"""Options of Spark's CSV and JSON writers that determine how rows are written."""


@dataclass(frozen=True)
class Export:
    """The options of an export. `partition_by` lists date (UTC date of the timestamp) and topic in directory order.
    `where` is an SQL filter in `dialect`, None for Spark's. `round_offsets` is the approximate number of offsets in a
    round. `is_text`, always on in CSV, writes keys and values as text, or as base64 in a separate column if not
    UTF-8. `cluster_id` is that of `cluster`, None if it is unknown. `topic_ids` has the known ids of its topics by
    name."""

    source: Uri
    sink: Uri
    cluster: Cluster | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    sink_options: Mapping[str, str] = field(default_factory=dict)
    partition_by: tuple[str, ...] = (BY_DATE,)
    where: str | None = None
    is_text: bool = False
    round_offsets: int = DEFAULT_ROUND
    dialect: str | None = None
    cluster_id: str | None = None
    topic_ids: Mapping[str, str] = field(default_factory=dict)

    @property
    def has_text(self) -> bool:
        """Return whether keys and values are written as text."""
        return self.is_text or self.sink.kind == "csv"


@dataclass
class Exported:
    """Rows, files (of a table 0) and rounds that a run has added, and the next offset of each partition.
    `deleted_ranges` are offset ranges that were deleted before their export."""

    rows: int = 0
    files: int = 0
    rounds: int = 0
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    deleted_ranges: dict[TopicPartition, tuple[int, int]] = field(default_factory=dict)


def export_identity(export: Export) -> dict[str, object]:
    """Return the settings that every run of an export must have in common."""
    shape = {"format": export.sink.kind, "partition_by": list(export.partition_by), "text": export.is_text}
    options = {name.lower(): value for name, value in export.options.items()}
    selection = {name: options.get(name) for name in _SELECTION_OPTIONS}
    given = {name.lower(): value for name, value in export.sink_options.items()}
    form = {name: given[name.lower()] for name in _FORM_OPTIONS if name.lower() in given}
    about = {"source": str(export.source), "where": export.where, "dialect": export.dialect}
    cluster = {} if export.cluster_id is None else {"cluster": export.cluster_id}
    return {**about, **cluster, **shape, **selection, "to-option": form}


def ensure_same_export(export: Export, recorded: Mapping[str, object]) -> None:
    """Raise PipelineError if a recorded identity is that of another export. What it lacks, since an earlier version
    wrote it, is not compared, nor are spellings of one value, nor a cluster without an id."""
    present = export_identity(export)
    difference = first_difference(_compared({**present, **recorded}), _compared(present))
    if difference is not None:
        raise PipelineError(
            f"{export.sink} belongs to another export: {difference}; export into a new place, or repeat the earlier "
            "options"
        )


def _compared(content: Mapping[str, Any]) -> Iterator[tuple[str, object]]:
    """Yield the compared values of an identity, by the names that users write, without defaults."""
    yield "the source", without_password(normal_uri(content["source"]))
    yield "cluster of the source", content.get("cluster")
    yield "the format", content["format"]
    yield "--where", content["where"]
    yield "the --engine of --where", content["where"] and ("local" if content["dialect"] else "spark")
    yield "--partition-by", ",".join(content["partition_by"]) or "none"
    yield "--text", "set" if content["text"] or content["format"] == "csv" else None
    selection = {shown: content[name] for name, shown in _SELECTION_OPTIONS.items() if content[name] is not None}
    options = normal_options(selection)
    yield "--no-headers", None if options.pop("includeheaders", None) else "set"
    for shown, value in options.values():
        yield f"--from-option {shown}", value
    for shown, value in normal_options(content["to-option"]).values():
        yield f"--to-option {shown}", value
    for name in sorted(content.keys() - _COMPARED - _SELECTION_OPTIONS.keys()):
        yield name, content[name]  # of a later version


def lost_ranges(available: Ranges, exported: Mapping[TopicPartition, int]) -> dict[TopicPartition, tuple[int, int]]:
    """Return the offset ranges after the exported offsets that are no longer available."""
    return {
        partition: (exported[partition], start)
        for partition, (start, _) in sorted(available.items())
        if partition in exported and exported[partition] < start
    }


def ensure_continued(export: Export, available: Ranges, exported: Mapping[TopicPartition, int]) -> None:
    """Raise PipelineError if a partition ends before its exported end, so that other records would be left out once it
    has grown. Does nothing with failOnDataLoss=false, and if an option sets an end."""
    if _may_lose_data(export) or any(name.lower().startswith("ending") for name in export.options):
        return
    for partition, (_, end) in sorted(available.items()):
        if end < exported.get(partition, end):
            raise PipelineError(
                f"{partition} ends at offset {end}, but {export.sink} has its records up to {exported[partition] - 1}: "
                "the topic was deleted and created again, or its end is lost; export into a new place "
                "(failOnDataLoss=false continues at the exported offset)"
            )


def ensure_same_topics(export: Export, recorded_ids: Mapping[str, str]) -> None:
    """Raise PipelineError if a topic has another id than the recorded one: its first records would be left out. Does
    nothing with failOnDataLoss=false."""
    for topic, topic_id in sorted(recorded_ids.items()):
        if export.topic_ids.get(topic, topic_id) != topic_id and not _may_lose_data(export):
            raise PipelineError(
                f"Topic {topic} was deleted and created again since the last export into {export.sink}; export into a "
                "new place (failOnDataLoss=false continues at the exported offset)"
            )


def ids_to_record(
    export: Export, recorded_ids: Mapping[str, str], exported: Iterable[TopicPartition]
) -> dict[str, str]:
    """Return the ids of the topics of which records are exported, by name."""
    topics = {partition.topic for partition in exported}
    return {topic: topic_id for topic, topic_id in {**recorded_ids, **export.topic_ids}.items() if topic in topics}


def _may_lose_data(export: Export) -> bool:
    options = {name.lower(): value for name, value in export.options.items()}
    return options.get("failondataloss", "").lower() == "false"


def next_ranges(available: Ranges, exported: Mapping[TopicPartition, int], at_once: int) -> Ranges:
    """Return the next offset range of each partition with new offsets, about `at_once` offsets in all, but at least one
    for each partition; empty if nothing is new."""
    remaining = {}
    for partition, (start, end) in sorted(available.items()):
        first = max(start, exported.get(partition, start))
        if first < end:
            remaining[partition] = (first, end)
    share = max(1, at_once // max(len(remaining), 1))
    return {partition: (first, min(end, first + share)) for partition, (first, end) in remaining.items()}


class ExportDirectory(Protocol):
    """The file operations of an export's directory; paths are relative to it. Raises PipelineError."""

    @property
    def can_move(self) -> bool:
        """Return whether files can be moved and deleted."""

    def exists(self) -> bool:
        """Return whether the path is a file, or a directory with a data file."""

    def delete(self, names: Iterable[str]) -> None:
        """Delete files or directories; missing ones are ignored."""

    def move(self, source: str, names: Iterable[str]) -> None:
        """Move files from the subdirectory `source` up; files already moved are skipped."""


@dataclass(eq=False, repr=False)
class ExportState:
    """The state file of an export: the next offset of each partition, the ids of the exported topics, and the files of
    the current round to move."""

    export: Export
    directory: ExportDirectory
    path: str
    _moving: list[str] = field(default_factory=list, init=False)
    ends: dict[TopicPartition, int] = field(default_factory=dict, init=False)
    topic_ids: dict[str, str] = field(default_factory=dict, init=False)

    @classmethod
    def load(cls, export: Export, directory: ExportDirectory) -> ExportState:
        """Read the state of an export, or create the directory for one. Raises PipelineError if the session is one of
        Spark Connect, or if the sink has other content, or belongs to an export with other settings."""
        if not directory.can_move:
            raise PipelineError(f"An export into {export.sink} does not work over Spark Connect: use another --master")
        place = path_of(export.sink)
        local = local_path(place)
        state = cls(export, directory, join(place, STATE))
        if not state._read() and directory.exists():
            raise PipelineError(f"{export.sink} contains files that are not an export; name an empty directory")
        if local is not None:
            try:
                os.makedirs(local, exist_ok=True)
            except OSError as error:
                raise PipelineError(f"{export.sink} cannot be created: {error.strerror}") from error
        return state

    def _read(self) -> bool:
        """Read the state file; return False if there is none. Raises PipelineError."""
        data = read_bytes(self.path)
        if data is None:
            return False
        try:
            content = parse_json(data)
            if content["version"] != _VERSION:
                raise PipelineError(f"{self.path} has version {content['version']}; supported is version {_VERSION}")
            recorded, moving = content["export"], content["moving"]
            rows = [(TopicPartition(row["topic"], row["partition"]), row["end"]) for row in content["partitions"]]
            self.topic_ids = dict(content.get("topicIds", {}))
        except (ValueError, KeyError, TypeError) as error:
            raise PipelineError(f"{self.path} is not the state of an export: {error}") from None
        ensure_same_export(self.export, recorded)
        self.ends, self._moving = dict(rows), moving
        return True

    def record(self, files: Iterable[str], ranges: Ranges) -> None:
        """Record the files of a round in the stage and the round's end offsets. Raises PipelineError if the state file
        cannot be written."""
        self._moving = list(files)
        self.ends = {**self.ends, **{partition: end for partition, (_, end) in ranges.items()}}
        self.topic_ids = ids_to_record(self.export, self.topic_ids, self.ends)
        self._save()

    def _save(self) -> None:
        partitions = [
            {"topic": partition.topic, "partition": partition.partition, "end": end}
            for partition, end in self.ends.items()
        ]
        write_whole(
            self.path,
            {
                "version": _VERSION,
                "export": export_identity(self.export),
                "partitions": partitions,
                **({"topicIds": self.topic_ids} if self.topic_ids else {}),
                "moving": self._moving,
            },
        )

    def finish_move(self) -> int:
        """Move the files recorded in the state into place and return their number, 0 if none is recorded. Deletes the
        hidden directory. Raises PipelineError if a file is missing or cannot be moved."""
        moved = len(self._moving)
        if moved:
            self.directory.move(STAGE, self._moving)
            self._moving = []
            self._save()
        self.directory.delete([STAGE])
        return moved
