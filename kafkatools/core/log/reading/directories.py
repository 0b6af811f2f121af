"""Find the partitions in log directories, and the segments of each.

A path is a log directory (one of `log.dirs`), the directory of one partition or one `.log` file. In a log directory
the partitions that a broker has set aside (`-delete`, `-future`, `-stray`) are skipped; named by itself such a
directory is read. Of files in the middle of a cleaning those are read that a broker would load after a crash
(LogLoader.completeSwapOperations): complete `.swap` files replace the segments whose offsets they have. `.deleted` and
`.cleaned` files are never read.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from kafkatools.core.errors import KafkaError
from kafkatools.core.log.format.filenames import (
    CLEANED_SUFFIX,
    INDEX_SUFFIXES,
    LOG_START_OFFSET_CHECKPOINT,
    LOG_SUFFIX,
    SWAP_SUFFIX,
    is_log_name,
    offset_from_name,
    parse_aside_directory,
    parse_partition_directory,
)
from kafkatools.core.topic_partition import TopicPartition

_NO_LIMIT = 1 << 63


class UnreadableLog(KafkaError, name="UNREADABLE_LOG"):
    """The files of a log cannot be read: a path is missing or is not a log, or a file was truncated meanwhile."""


class SegmentPath(NamedTuple):
    """The `.log` file of a segment. Its indexes have the same name with another suffix."""

    path: str
    base_offset: int

    def beside(self, suffix: str) -> str:
        """Return the path of the file of this segment with another suffix, such as `.index`. The indexes of a
        `.log.swap` also end with `.swap`."""
        directory, name = os.path.split(self.path)
        stem, _, swap = name.partition(LOG_SUFFIX)
        return os.path.join(directory, stem + suffix + (swap if suffix in INDEX_SUFFIXES else ""))


class PartitionDirectory(NamedTuple):
    """The directory of a partition; `names` are those of the only `.log` files to read, empty for all."""

    topic_partition: TopicPartition
    path: str
    names: tuple[str, ...] = ()

    def segments(self, next_offset: Callable[[SegmentPath], int]) -> list[SegmentPath]:
        """Return the segments by ascending base offset. `next_offset` returns the offset after the last record of a
        segment. Raises OSError."""
        names: Iterable[str] = self.names
        if not names:
            names = loaded_segments(os.listdir(self.path), lambda name: next_offset(self._segment(name)))
        return sorted(map(self._segment, names), key=lambda segment: segment.base_offset)

    def _segment(self, name: str) -> SegmentPath:
        return SegmentPath(os.path.join(self.path, name), offset_from_name(name) or 0)

    def log_start_offset(self) -> int:
        """Return the log start offset in the checkpoint of the log directory, 0 without one and for named files."""
        if self.names:
            return 0
        path = os.path.join(os.path.dirname(os.path.abspath(self.path)), LOG_START_OFFSET_CHECKPOINT)
        try:
            with open(path, "rb") as file:
                return checkpointed_offset(file.read(), self.topic_partition)
        except OSError:
            return 0


def checkpointed_offset(checkpoint: bytes, partition: TopicPartition) -> int:
    """Return the offset that a log start offset checkpoint has for a partition, 0 if it has none."""
    prefix = "{} {} ".format(*partition).encode()
    offsets = (line[len(prefix) :] for line in checkpoint.splitlines() if line.startswith(prefix))
    return next((int(offset) for offset in offsets if offset.isdigit()), 0)


def loaded_segments(names: Collection[str], next_offset: Callable[[str], int]) -> list[str]:
    """Return the names of the `.log` files that a broker would load from a directory with these names. `next_offset`
    returns the offset after the last record of a `.swap` file."""
    cleaned = [offset_from_name(name) or 0 for name in names if name.endswith(CLEANED_SUFFIX)]
    before = min(cleaned, default=_NO_LIMIT)
    swaps = {
        offset: name
        for name in names
        if name.endswith(LOG_SUFFIX + SWAP_SUFFIX)
        and (offset := offset_from_name(name)) is not None
        and offset < before
    }
    segments = [name for name in names if is_log_name(name)]
    if not swaps:
        return segments
    end = max(max(next_offset(name), offset + 1) for offset, name in swaps.items())
    remaining = [name for name in segments if not min(swaps) <= (offset_from_name(name) or 0) < end]
    return [*remaining, *swaps.values()]


def partition_named_by(directory: str) -> TopicPartition:
    """Return the partition of a directory that is named by itself: also of one that a broker has set aside; for any
    other name partition 0 of a topic of that name."""
    name = os.path.basename(os.path.abspath(directory))
    return parse_aside_directory(name) or parse_partition_directory(name) or TopicPartition(name, 0)


def find_partitions(paths: str) -> list[PartitionDirectory]:
    """Return the partitions below a path, sorted. `paths` may be several paths, separated by commas, unless a file has
    just that name. Raises UnreadableLog for a path that does not exist or is not a log, and for a partition that is in
    two directories; OSError."""
    is_one = "," not in paths or os.path.exists(paths)
    places = [paths] if is_one else [path.strip() for path in paths.split(",") if path.strip()]
    found: dict[TopicPartition, PartitionDirectory] = {}
    for directory in (item for place in places for item in _partitions_below(place)):
        other = found.setdefault(directory.topic_partition, directory)
        if os.path.realpath(other.path) != os.path.realpath(directory.path):
            raise UnreadableLog(
                f"{directory.topic_partition} is in both {other.path} and {directory.path}; name only one"
            )
    return sorted(found.values())


def _partitions_below(path: str) -> Iterable[PartitionDirectory]:
    if not os.path.exists(path):
        raise UnreadableLog(f"{path} does not exist")
    if not os.path.isdir(path):
        directory, name = os.path.split(path)
        if not is_log_name(name) and not name.endswith((LOG_SUFFIX + SWAP_SUFFIX, LOG_SUFFIX + ".deleted")):
            raise UnreadableLog(f"{path} is not a segment: segments are named by their base offset and .log")
        return [PartitionDirectory(partition_named_by(directory or "."), directory or ".", (name,))]
    names = os.listdir(path)
    if any(is_log_name(name) or name.endswith(LOG_SUFFIX + SWAP_SUFFIX) for name in names):
        return [PartitionDirectory(partition_named_by(path), path)]
    partitions = ((name, parse_partition_directory(name)) for name in names)
    found = [
        PartitionDirectory(partition, os.path.join(path, name))
        for name, partition in partitions
        if partition is not None and os.path.isdir(os.path.join(path, name))
    ]
    if not found:
        raise UnreadableLog(f"{path} contains neither segments nor partition directories")
    return found
