"""Which segments a path means, and whose they are.

A path is a segment file, a partition's directory (`topic-N`) or a log directory with such directories in it; several
may be given, with `*`, `?` and `[...]` in them, on this machine or behind any URL of fsspec. What a log directory holds
besides is passed over as Kafka does at its start: partitions that are being deleted, future replicas, strays, files
that are no segments. Named by itself, such a directory is read: what a broker threw away can be looked at.

A directory of another name that holds segments is partition 0 of a topic of that name. Topics of the brokers
themselves are read only where they are named, by a topic or by their directory's path.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from kafkatools.core.java.patterns import java_pattern
from kafkatools.core.log.dump.file_kinds import LOG, kind_of
from kafkatools.core.log.format.filenames import (
    CLEANED_SUFFIX,
    DELETE_DIRECTORY_SUFFIX,
    FUTURE_DIRECTORY_SUFFIX,
    INDEX_SUFFIXES,
    LOG_START_OFFSET_CHECKPOINT,
    LOG_SUFFIX,
    STRAY_DIRECTORY_SUFFIX,
    SWAP_SUFFIX,
    is_log_name,
    offset_from_name,
    parse_partition_directory,
)
from kafkatools.core.topic_partition import TopicPartition
from kafkatools.options.patterns import INTERNAL_TOPICS
from kafkatools.pipeline import storage
from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.sources.live.options import OptionReader

HIDDEN_TOPICS = INTERNAL_TOPICS | {"__cluster_metadata", "__remote_log_metadata"}
"""Topics that are left out unless they are named."""

_ASIDE = re.compile(
    rf"(.+)-([0-9]+)\.[^.]*(?:{DELETE_DIRECTORY_SUFFIX}|{FUTURE_DIRECTORY_SUFFIX}|{STRAY_DIRECTORY_SUFFIX})", re.ASCII
)
_SHOWN = 8


@dataclass(frozen=True, slots=True)
class LogFile:
    """One segment. `url` is an absolute path, or a URL for fsspec; `next_base_offset` that of the segment behind it
    (None: it is the last); `log_start_offset` the first offset that the broker still shows of this partition;
    `suffixes` those of the files beside it with the same name (`.index`)."""

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
        return TopicPartition(self.topic, self.partition)

    @property
    def directory(self) -> str:
        return storage.split(self.url)[0]

    def beside(self, suffix: str) -> str:
        """The URL of one of the segment's other files, by its suffix (`.index`)."""
        directory, name = storage.split(self.url)
        stem, _, swap = name.partition(LOG_SUFFIX)
        return storage.join(directory, stem + suffix + (swap if suffix in INDEX_SUFFIXES else ""))

    def read_beside(self, suffix: str) -> bytes | None:
        """What is in one of the segment's other files; None when there is none. `.snapshot`: the producers that were
        known at its first offset."""
        return storage.read_bytes(self.beside(suffix)) if suffix in self.suffixes else None


@dataclass(frozen=True, slots=True)
class Selection:
    """Which partitions are wanted: named topics, topics by a pattern, or named partitions; all of it None for every
    partition. Of the three at most one is set. A pattern may match anywhere in a name, as for Spark's Kafka source
    (SubscribePatternStrategy): `^orders$` is one topic."""

    topics: frozenset[str] | None = None
    pattern: str | None = None
    partitions: frozenset[TopicPartition] | None = None

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Selection:
        """Docstring."""
        given = OptionReader(options).subscription()
        if given is None:
            return cls()
        return cls(frozenset(given.topics) or None, given.pattern or None, frozenset(given.partitions) or None)

    def takes(self, topic: str, partition: int, *, is_named: bool = False) -> bool:
        """Whether a partition is wanted; `is_named`: its directory was."""
        if self.topics is not None:
            return topic in self.topics
        if self.partitions is not None:
            return TopicPartition(topic, partition) in self.partitions
        if topic in HIDDEN_TOPICS and not is_named:
            return False
        return self.pattern is None or java_pattern(self.pattern).search(topic) is not None

    def ensure_found(self, found: Iterable[TopicPartition], present: Iterable[TopicPartition], where: str) -> None:
        """Raise PipelineError for what was asked for and is not there."""
        there = set(found)
        if self.topics is not None:
            missing = sorted(self.topics - {each.topic for each in there})
        else:
            missing = [f"{each.topic}-{each.partition}" for each in sorted((self.partitions or frozenset()) - there)]
        if missing:
            raise PipelineError(f"{_list(missing)} not found in {where}; {_there(present)}")
        if not there:
            wanted = f"no topic in {where} matches {self.pattern}" if self.pattern else f"no topic to read in {where}"
            raise PipelineError(f"{wanted}; {_there(present)}")


def given_paths(options: Mapping[str, str]) -> list[str]:
    """The paths in the options of a read: `path`, or the JSON list `paths` of `load([...])`."""
    given = {name.lower(): text for name, text in options.items()}
    paths = json.loads(given["paths"]) if "paths" in given else []
    paths += [given["path"]] if given.get("path") else []
    if not paths:
        raise PipelineError("option path is missing: a segment file, a partition's directory or a log directory")
    return [str(each) for each in paths]


def find_log_files(paths: str | Sequence[str], selection: Selection | None = None) -> list[LogFile]:
    """The segments that paths mean, by topic, partition and base offset.

    A text may name several paths with commas between them, unless there is one of just that name. Raises PipelineError
    for a path that does not exist or cannot be read, that holds no segments, for topics and partitions that are not
    there, and when the same partition lies in two directories.
    """
    selection = selection or Selection()
    given = [paths] if isinstance(paths, str) else list(paths)
    places = [place for each in given for url in _expanded(each) for place in _places(url)]
    wanted = [place for place in places if selection.takes(*place.topic_partition, is_named=place.is_named)]
    selection.ensure_found(
        [place.topic_partition for place in wanted], [place.topic_partition for place in places], ", ".join(given)
    )
    _ensure_one_directory_each(wanted)
    files = {file.url: file for place in wanted for file in _segments_of(place)}
    for url in files:
        storage.ensure_readable(url)
    return _in_order(files.values())


@dataclass(frozen=True, slots=True)
class _Place:
    """A partition's directory; `segment`: only this one of it is wanted; `entries` where they are known already."""

    topic_partition: TopicPartition
    directory: str
    is_named: bool
    segment: str = ""
    entries: tuple[storage.Entry, ...] | None = None


def _expanded(path: str) -> list[str]:
    if not path.strip():
        raise PipelineError("option path is empty")
    if "," in path and storage.kind_of(storage.normal(path)) is None:
        return [url for each in path.split(",") if each.strip() for url in _expanded(each.strip())]
    found = storage.expand(path)
    if found == [storage.normal(path)]:
        return found
    found = [url for url in found if _is_log(url)]
    if not found:
        raise PipelineError(f"{path} matches no segment and no directory")
    return found


def _is_log(url: str) -> bool:
    """Whether something that a pattern matched is to be read: a segment, or a directory that is not put aside."""
    name = storage.split(url)[1]
    if storage.kind_of(url) == storage.DIRECTORY:
        return _ASIDE.fullmatch(name) is None
    return is_log_name(name)


def _places(url: str) -> list[_Place]:
    """The partitions that lie under one path."""
    kind = storage.kind_of(url)
    if kind is None:
        raise PipelineError(f"{url} does not exist")
    directory, name = storage.split(url)
    if kind == storage.FILE:
        if kind_of(name) != LOG or not is_log_name(name):
            raise PipelineError(f"{url} is no segment: the name of one is its base offset and .log")
        return [_Place(_partition_of(directory), directory, True, name)]
    inside = storage.entries(url)
    if any(_is_segment(each) for each in inside):
        return [_Place(_partition_of(url), url, True, entries=tuple(inside))]
    found = [
        _Place(partition, storage.join(url, each.name), False)
        for each in inside
        if each.kind == storage.DIRECTORY and (partition := parse_partition_directory(each.name)) is not None
    ]
    if not found:
        raise PipelineError(f"{url} holds neither segments nor directories of partitions")
    return found


def _is_segment(entry: storage.Entry) -> bool:
    return entry.kind == storage.FILE and is_log_name(entry.name)


def _partition_of(directory: str) -> TopicPartition:
    """Whose directory this is, by its name."""
    name = storage.split(directory)[1]
    found = parse_partition_directory(name)
    if found is None and (aside := _ASIDE.fullmatch(name)) is not None:
        found = TopicPartition(aside[1], int(aside[2]))
    return found or TopicPartition(name, 0)


def _segments_of(place: _Place) -> list[LogFile]:
    entries = place.entries if place.entries is not None else storage.entries(place.directory)
    suffixes: dict[str, set[str]] = {}
    for each in entries:
        stem, dot, suffix = each.name.partition(".")
        suffixes.setdefault(stem, set()).add(dot + suffix)
    start = _log_start_offset(place)
    segments: Sequence[storage.Entry] = [
        each for each in entries if _is_segment(each) and place.segment in ("", each.name)
    ]
    if not place.segment:
        segments = _with_swaps(place.directory, segments, entries)
    files = []
    for each in segments:
        stem, _, swap = each.name.partition(LOG_SUFFIX)
        found = {suffix.removesuffix(swap) if swap else suffix for suffix in suffixes[stem]}
        files.append(
            LogFile(
                *place.topic_partition,
                base_offset=offset_from_name(each.name) or 0,
                url=storage.join(place.directory, each.name),
                size_bytes=each.size_bytes,
                log_start_offset=start,
                suffixes=frozenset(found - {LOG_SUFFIX}),
            )
        )
    return files


def _with_swaps(
    directory: str, segments: Sequence[storage.Entry], entries: Iterable[storage.Entry]
) -> Sequence[storage.Entry]:
    """The segments as a broker would find them after a crash while the cleaner put others in their place: what is
    complete (`.swap`) counts, and not what it replaces (LogLoader.completeSwapOperations)."""
    cleaned = [offset_from_name(each.name) or 0 for each in entries if each.name.endswith(CLEANED_SUFFIX)]
    before = min(cleaned, default=1 << 63)
    swaps = {
        offset: each
        for each in entries
        if each.name.endswith(LOG_SUFFIX + SWAP_SUFFIX)
        and (offset := offset_from_name(each.name)) is not None
        and offset < before
    }
    if not swaps:
        return segments
    end = max(_next_offset(storage.join(directory, each.name), offset) for offset, each in swaps.items())
    kept = [each for each in segments if not min(swaps) <= (offset_from_name(each.name) or 0) < end]
    return [*kept, *swaps.values()]


def _next_offset(url: str, base_offset: int) -> int:
    """The offset behind the last batch of a segment."""
    from kafkatools.pipeline.sources.log import sections as log_sections

    found = base_offset + 1
    with storage.open_segment(url) as segment:
        for section in log_sections.SectionWalk(segment, 0, segment.size, lambda damage: None, checks=False).sections():
            last = section.headers[-1]
            found = max(found, int(last[log_sections.BASE_OFFSET] + last[log_sections.LAST_DELTA]) + 1)
    return found


def _log_start_offset(place: _Place) -> int:
    """What the log directory says of the first offset that is not deleted; 0 where it says nothing."""
    text = storage.read_bytes(storage.join(storage.split(place.directory)[0], LOG_START_OFFSET_CHECKPOINT))
    topic, partition = place.topic_partition
    wanted = f"{topic} {partition} ".encode()
    for line in (text or b"").splitlines():
        offset = line[len(wanted) :]
        if line.startswith(wanted) and offset.isdigit():
            return int(offset)
    return 0


def _ensure_one_directory_each(places: Iterable[_Place]) -> None:
    """The same records must not be read twice, from two replicas."""
    directories: dict[TopicPartition, str] = {}
    for place in places:
        other = directories.setdefault(place.topic_partition, place.directory)
        if other != place.directory:
            topic, partition = place.topic_partition
            raise PipelineError(f"{topic}-{partition} lies in {other} and in {place.directory}: name one of them")


def _in_order(files: Iterable[LogFile]) -> list[LogFile]:
    ordered = sorted(files, key=lambda file: (file.topic, file.partition, file.base_offset, file.url))
    result = []
    for _, group in groupby(ordered, key=lambda file: file.topic_partition):
        segments = list(group)
        behind = [file.base_offset for file in segments[1:]] + [None]
        result += [replace(file, next_base_offset=offset) for file, offset in zip(segments, behind, strict=True)]
    return result


def _list(names: Sequence[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


def _there(present: Iterable[TopicPartition]) -> str:
    topics = sorted({each.topic for each in present})
    return f"there is {_list(topics)}" if topics else "there is nothing"
