"""Discovery of log segments below paths, and of the topic-partition of each.

A path is a segment file, a partition directory (`topic-N`) or a log directory that contains such directories. Several
paths may be given, with `*`, `?` and `[...]`, on local disks or behind any fsspec URL. In a log directory, entries that
Kafka ignores or sets aside at startup are skipped: deleted, future and stray partitions, and files that are not
segments. Such a directory is read if named by itself, so that data a broker has set aside can be examined.

A directory with segments but another name is partition 0 of a topic of that name. Internal topics are read only if
named, by topic or by the path of their directory.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from kafkatools.core.java.patterns import java_pattern
from kafkatools.core.log.dump.file_kinds import LOG, kind_of
from kafkatools.core.log.format.filenames import (
    INDEX_SUFFIXES,
    LOG_START_OFFSET_CHECKPOINT,
    LOG_SUFFIX,
    is_log_name,
    offset_from_name,
    parse_aside_directory,
    parse_partition_directory,
)
from kafkatools.core.log.reading.directories import checkpointed_offset, loaded_segments
from kafkatools.core.topic_partition import TopicPartition
from kafkatools.options.patterns import INTERNAL_TOPICS
from kafkatools.pipeline import storage
from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.sources.live.options import OptionReader
from kafkatools.pipeline.sources.log import sections as table

HIDDEN_TOPICS = INTERNAL_TOPICS | {"__cluster_metadata", "__remote_log_metadata"}
"""Internal topics, which are read only if named."""

_MAX_NAMES = 8


@dataclass(frozen=True, slots=True)
class LogFile:
    """One log segment. `url` is an absolute path or an fsspec URL; `next_base_offset` is that of the next segment (None
    for the last). `log_start_offset` is the partition's first offset that the broker still serves. `suffixes` are those
    of the files with the same base name (such as `.index`)."""

    topic: str
    partition: int
    base_offset: int
    url: str
    size_bytes: int
    next_base_offset: int | None = None
    log_start_offset: int = 0
    suffixes: frozenset[str] = frozenset()

    @property
    def topic_partition(self) -> TopicPartition:
        """The segment's topic and partition."""
        return TopicPartition(self.topic, self.partition)

    @property
    def directory(self) -> str:
        """The directory that contains the segment."""
        return storage.split(self.url)[0]

    def beside(self, suffix: str) -> str:
        """Return the URL of the file with the same base name and another suffix, such as `.index`. The indexes of a
        `.log.swap` also end with `.swap`. The file need not exist."""
        directory, name = storage.split(self.url)
        stem, _, swap = name.partition(LOG_SUFFIX)
        return storage.join(directory, stem + suffix + (swap if suffix in INDEX_SUFFIXES else ""))

    def read_beside(self, suffix: str) -> bytes | None:
        """Read the file with the same base name and another suffix; None if there is none. `.snapshot` holds the
        producer state at the segment's base offset. Raises PipelineError if the file cannot be read."""
        return storage.read_bytes(self.beside(suffix)) if suffix in self.suffixes else None


@dataclass(frozen=True, slots=True)
class Selection:
    """The partitions to read: named topics, topics matching a pattern, or named partitions; at most one is set, and
    none means all. A pattern may match anywhere in a name, as in Spark's SubscribePatternStrategy; `^orders$` is one
    topic."""

    topics: frozenset[str] | None = None
    pattern: str | None = None
    partitions: frozenset[TopicPartition] | None = None

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Selection:
        """Build the selection from the option subscribe, subscribePattern or assign. Raises PipelineError if several
        are set or one is invalid."""
        subscription = OptionReader(options).subscription()
        if subscription is None:
            return cls()
        return cls(
            frozenset(subscription.topics) or None,
            subscription.pattern or None,
            frozenset(subscription.partitions) or None,
        )

    def takes(self, topic: str, partition: int, *, is_named: bool = False) -> bool:
        """Return whether a partition is selected. A pattern, or no selection, includes an internal topic only with
        `is_named`: the path names the partition's directory."""
        if self.topics is not None:
            return topic in self.topics
        if self.partitions is not None:
            return TopicPartition(topic, partition) in self.partitions
        if topic in HIDDEN_TOPICS and not is_named:
            return False
        return self.pattern is None or java_pattern(self.pattern).search(topic) is not None

    def ensure_complete(
        self, partitions: Iterable[TopicPartition], present: Iterable[TopicPartition], place: str
    ) -> None:
        """Raise PipelineError if a named topic or partition is missing or nothing is selected. `present` are the
        partitions in `place`, for the message."""
        selection = set(partitions)
        if self.topics is not None:
            missing = sorted(self.topics - {partition.topic for partition in selection})
        else:
            missing = [str(partition) for partition in sorted((self.partitions or frozenset()) - selection)]
        if missing:
            raise PipelineError(f"{_list(missing)} not found in {place}; {_topics(present)}")
        if not selection:
            problem = f"No topic in {place} matches {self.pattern}" if self.pattern else f"No topic to read in {place}"
            raise PipelineError(f"{problem}; {_topics(present)}")


def paths_of(options: Mapping[str, str]) -> list[str]:
    """Return the paths of a read: the option `path`, and the JSON list `paths` of `load([...])`. Raises PipelineError
    if both are missing."""
    values = {name.lower(): text for name, text in options.items()}
    paths = json.loads(values["paths"]) if "paths" in values else []
    paths += [values["path"]] if values.get("path") else []
    if not paths:
        raise PipelineError("The option path is missing: a segment file, a partition directory or a log directory")
    return [str(path) for path in paths]


def find_log_files(paths: str | Sequence[str], selection: Selection | None = None) -> list[LogFile]:
    """Return the selected log segments below the paths, sorted by topic, partition and base offset. A text may contain
    several paths separated by commas, unless a file has just that name. Raises PipelineError if a path does not exist,
    cannot be read or holds no segments. Also raises it if a named topic or partition is missing, or a partition is in
    two directories."""
    selection = selection or Selection()
    names = [paths] if isinstance(paths, str) else list(paths)
    places = [place for name in names for url in _expand(name) for place in _places(url)]
    selected_places = [place for place in places if selection.takes(*place.topic_partition, is_named=place.is_named)]
    selection.ensure_complete(
        [place.topic_partition for place in selected_places],
        [place.topic_partition for place in places],
        ", ".join(names),
    )
    _ensure_one_directory_each(selected_places)
    files = {file.url: file for place in selected_places for file in _segments_of(place)}
    for url in files:
        storage.ensure_readable(url)
    return _in_order(files.values())


def ensure_local_paths_exist(path: str) -> None:
    """Raise PipelineError for a path that does not exist on this machine. `path` may contain several paths, as in
    `find_log_files`. Whether URLs exist is not checked."""
    if "://" in path and "," not in path:
        return
    for url in _expand(path):
        if "://" not in url and storage.kind_of(url) is None:
            raise PipelineError(f"{url} does not exist")


@dataclass(frozen=True, slots=True)
class _Place:
    """A partition directory to read; `segment` restricts it to one file. `is_named`: a path names this directory or a
    file in it. `entries` caches its listing, None if not listed yet."""

    topic_partition: TopicPartition
    directory: str
    is_named: bool
    segment: str = ""
    entries: tuple[storage.Entry, ...] | None = None


def _expand(path: str) -> list[str]:
    if not path.strip():
        raise PipelineError("The option path is empty")
    if _is_list(path):
        return [url for part in path.split(",") if part.strip() for url in _expand(part.strip())]
    urls = storage.expand(path)
    if urls == [storage.normal(path)]:
        return urls
    urls = [url for url in urls if _is_log(url)]
    if not urls:
        raise PipelineError(f"{path} matches no segment and no directory")
    return urls


def _is_list(path: str) -> bool:
    """Return whether a text has several paths separated by commas. No file has the name of a path and a URL."""
    first, comma, others = path.partition(",")
    is_path_and_url = "://" in others and "://" not in first
    return bool(comma) and (is_path_and_url or storage.kind_of(storage.normal(path)) is None)


def _is_log(url: str) -> bool:
    """Return whether a path that matched a wildcard is read: a segment, or a directory that the broker has not set
    aside."""
    name = storage.split(url)[1]
    if storage.kind_of(url) == storage.DIRECTORY:
        return parse_aside_directory(name) is None
    return is_log_name(name)


def _places(url: str) -> list[_Place]:
    """Return the partition directories below one path. Raises PipelineError if there are none, the path does not exist,
    or a file is not a segment."""
    kind = storage.kind_of(url)
    if kind is None:
        raise PipelineError(f"{url} does not exist")
    directory, name = storage.split(url)
    if kind == storage.FILE:
        if kind_of(name) != LOG or not is_log_name(name):
            raise PipelineError(f"{url} is not a segment: segments are named by their base offset and .log")
        return [_Place(_partition_of(directory), directory, True, name)]
    entries = storage.entries(url)
    if any(_is_segment(entry) for entry in entries):
        return [_Place(_partition_of(url), url, True, entries=tuple(entries))]
    places = [
        _Place(partition, storage.join(url, entry.name), False)
        for entry in entries
        if entry.kind == storage.DIRECTORY and (partition := parse_partition_directory(entry.name)) is not None
    ]
    if not places:
        raise PipelineError(f"{url} contains neither segments nor partition directories")
    return places


def _is_segment(entry: storage.Entry) -> bool:
    return entry.kind == storage.FILE and is_log_name(entry.name)


def _partition_of(directory: str) -> TopicPartition:
    name = storage.split(directory)[1]
    return parse_aside_directory(name) or parse_partition_directory(name) or TopicPartition(name, 0)


def _segments_of(place: _Place) -> list[LogFile]:
    _ensure_utf8(place)
    entries = place.entries if place.entries is not None else storage.entries(place.directory)
    suffixes: dict[str, set[str]] = {}
    for entry in entries:
        stem, dot, suffix = entry.name.partition(".")
        suffixes.setdefault(stem, set()).add(dot + suffix)
    start = _log_start_offset(place)
    if place.segment:
        segments: Sequence[storage.Entry] = [
            entry for entry in entries if _is_segment(entry) and entry.name == place.segment
        ]
    else:
        segments = _loaded(place.directory, entries)
    files = []
    for entry in segments:
        stem, _, swap = entry.name.partition(LOG_SUFFIX)
        files.append(
            LogFile(
                *place.topic_partition,
                base_offset=offset_from_name(entry.name) or 0,
                url=storage.join(place.directory, entry.name),
                size_bytes=entry.size_bytes,
                log_start_offset=start,
                suffixes=frozenset({suffix.removesuffix(swap) for suffix in suffixes[stem]} - {LOG_SUFFIX}),
            )
        )
    return files


def _ensure_utf8(place: _Place) -> None:
    """Raise PipelineError for a directory name with bytes that are not UTF-8: no topic has such a name."""
    try:
        place.topic_partition.topic.encode()
    except UnicodeEncodeError:
        raise PipelineError(
            f"{place.directory}: the name of the directory is not UTF-8, so it is no partition of a topic; rename it"
        ) from None


def _loaded(directory: str, entries: Iterable[storage.Entry]) -> Sequence[storage.Entry]:
    """Return the segments that a broker would load after a crash during log cleaning: complete `.swap` files replace
    the segments they cover (LogLoader.completeSwapOperations)."""
    by_name = {entry.name: entry for entry in entries if _is_segment(entry) or not is_log_name(entry.name)}
    loaded = loaded_segments(by_name, lambda name: _next_offset(storage.join(directory, name)))
    return [by_name[name] for name in loaded]


def _next_offset(url: str) -> int:
    """Return the offset after the last batch of a segment, 0 without batches."""
    offset = 0
    with storage.open_segment(url) as segment:
        for section in table.SectionWalk(segment, 0, segment.size, lambda damage: None, checks=False).sections():
            last = section.headers[-1]
            offset = max(offset, int(last[table.BASE_OFFSET] + last[table.LAST_DELTA]) + 1)
    return offset


def _log_start_offset(place: _Place) -> int:
    """Return the log start offset from the log directory's checkpoint; 0 if it has none for the partition."""
    text = storage.read_bytes(storage.join(storage.split(place.directory)[0], LOG_START_OFFSET_CHECKPOINT))
    return checkpointed_offset(text or b"", place.topic_partition)


def _ensure_one_directory_each(places: Iterable[_Place]) -> None:
    """Raise PipelineError if a partition is in two directories: the records of two replicas would be read twice."""
    directories: dict[TopicPartition, str] = {}
    for place in places:
        other = directories.setdefault(place.topic_partition, place.directory)
        if other != place.directory:
            raise PipelineError(f"{place.topic_partition} is in both {other} and {place.directory}; name only one")


def _in_order(files: Iterable[LogFile]) -> list[LogFile]:
    ordered = sorted(files, key=lambda file: (file.topic, file.partition, file.base_offset, file.url))
    result = []
    for _, group in groupby(ordered, key=lambda file: file.topic_partition):
        segments = list(group)
        next_offsets = [file.base_offset for file in segments[1:]] + [None]
        result += [replace(file, next_base_offset=offset) for file, offset in zip(segments, next_offsets, strict=True)]
    return result


def _list(names: Sequence[str]) -> str:
    return ", ".join(names[:_MAX_NAMES]) + (f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else "")


def _topics(present: Iterable[TopicPartition]) -> str:
    topics = sorted({partition.topic for partition in present})
    return f"its topics are {_list(topics)}" if topics else "it has no topics"
