"""Read and write the small text files of a log directory: offset checkpoints, `partition.metadata`, `meta.properties`
and the clean shutdown marker.

A checkpoint has a version (0), a count and one line per entry. Every write replaces the file atomically. A malformed
file is an error that names the file, and is not taken for an empty one; a malformed clean shutdown marker still counts.
"""

import json
import time
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kafkatools.core.errors import KafkaStorageError
from kafkatools.core.log.files import FileSystem, replace_content, write_atomically
from kafkatools.core.log.format.filenames import TopicPartition

CHECKPOINT_VERSION = 0
_META_PROPERTIES_ORDER = ("node.id", "broker.id", "directory.id", "version", "cluster.id")


def _text(files: FileSystem, path: str) -> str:
    try:
        return files.read_bytes(path).decode("utf-8")
    except UnicodeDecodeError as error:
        raise KafkaStorageError(f"{path} is damaged: it is not UTF-8 text ({error})") from error


def read_checkpoint(files: FileSystem, path: str, columns: int) -> list[tuple[str, ...]]:
    """Return the entries of a checkpoint file as tuples of strings, each with `columns` fields, of which the last two
    are integers. Empty lines are skipped. Raises KafkaStorageError for a malformed file, OSError for a missing one."""
    lines = _text(files, path).split("\n")
    try:
        version, expected = int(lines[0]), int(lines[1])
    except (ValueError, IndexError):
        raise KafkaStorageError(f"Malformed line in checkpoint file ({path}): no version and count") from None
    if version != CHECKPOINT_VERSION:
        raise KafkaStorageError(f"Unrecognized version of the checkpoint file ({path}): {version}")
    entries = []
    for number, line in enumerate(lines[2:], start=3):
        if not line:
            continue
        fields = tuple(line.split())
        if len(fields) != columns or not _are_numbers(fields[-2:]):
            raise KafkaStorageError(f"Malformed line in checkpoint file ({path}), line {number}: {line!r}")
        entries.append(fields)
    if len(entries) != expected:
        raise KafkaStorageError(
            f"Expected {expected} entries in checkpoint file ({path}), but found only {len(entries)}"
        )
    return entries


def _are_numbers(fields: tuple[str, ...]) -> bool:
    return all(field.removeprefix("-").isdigit() for field in fields)


def format_checkpoint(entries: Iterable[tuple[str, ...]]) -> bytes:
    """Return the content of a checkpoint file with these entries."""
    lines = [" ".join(entry) for entry in entries]
    return ("\n".join([str(CHECKPOINT_VERSION), str(len(lines)), *lines]) + "\n").encode()


def read_offset_checkpoint(files: FileSystem, path: str) -> dict[TopicPartition, int]:
    """Return the offset of each partition in a checkpoint such as recovery-point-offset-checkpoint. A missing file
    gives an empty dict. Raises KafkaStorageError for a malformed file."""
    if not files.exists(path):
        return {}
    rows = read_checkpoint(files, path, columns=3)
    return {TopicPartition(topic, int(partition)): int(offset) for topic, partition, offset in rows}


def write_offset_checkpoint(files: FileSystem, path: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Replace a checkpoint of one offset per partition, sorted by partition, atomically and durably. Raises OSError."""
    rows = ((tp.topic, str(tp.partition), str(offset)) for tp, offset in sorted(offsets.items()))
    write_atomically(files, path, format_checkpoint(rows))


class PartitionMetadata(NamedTuple):
    """The content of a partition's `partition.metadata` file: file version and topic id (22 base64 characters)."""

    version: int
    topic_id: str


def read_partition_metadata(files: FileSystem, path: str) -> PartitionMetadata:
    """Read `partition.metadata`. Raises KafkaStorageError when the file is malformed or of another version than 0,
    OSError when it is missing."""
    values = dict(_split_pair(line, path) for line in _text(files, path).splitlines() if line.strip())
    try:
        metadata = PartitionMetadata(int(values["version"]), values["topic_id"])
    except (KeyError, ValueError):
        raise KafkaStorageError(f"Malformed partition metadata file ({path}): {values}") from None
    if metadata.version != 0:
        raise KafkaStorageError(f"Unrecognized version of partition metadata file ({path}): {metadata.version}")
    return metadata


def _split_pair(line: str, path: str) -> tuple[str, str]:
    key, colon, value = line.partition(": ")
    if not colon:
        raise KafkaStorageError(f"Malformed line in partition metadata file ({path}): {line!r}")
    return key, value.strip()


def write_partition_metadata(files: FileSystem, path: str, topic_id: str) -> None:
    """Write `partition.metadata` with a topic id (22 base64 characters). The content is durable at once, the file's
    name with the first flush of the log. A lost file is written again."""
    replace_content(files, path, f"version: 0\ntopic_id: {topic_id}".encode(), sync=True)


def read_meta_properties(files: FileSystem, path: str) -> dict[str, str]:
    """Return the properties in the `meta.properties` file at `path`. Raises FileNotFoundError if there is none (the log
    directory is not formatted), KafkaStorageError for a malformed file."""
    values = {}
    for line in _text(files, path).splitlines():
        if line.strip() and not line.lstrip().startswith(("#", "!")):
            key, equals, value = line.partition("=")
            if not equals:
                raise KafkaStorageError(f"Malformed line in {path}: {line!r}")
            values[key.strip()] = value.strip()
    return values


def write_meta_properties(files: FileSystem, path: str, values: Mapping[str, str], now_ms: int) -> None:
    """Replace `meta.properties` in the form of Java's Properties.store, with `now_ms` in its date comment. The names
    that Kafka writes come first, any others sorted. Raises OSError."""
    first = [name for name in _META_PROPERTIES_ORDER if name in values]
    names = first + sorted(set(values) - set(first))
    lines = ["#", "#" + java_date(now_ms), *(f"{name}={values[name]}" for name in names)]
    write_atomically(files, path, ("\n".join(lines) + "\n").encode())


def java_date(time_ms: int) -> str:
    """Format a time in ms since 1970 as Java's Date does in UTC: `Sat Nov 21 03:00:09 UTC 2026`."""
    at = time.gmtime(time_ms // 1000)
    text = time.asctime(at)  # English in every locale, but it pads the day with a space
    return f"{text[:8]}{at.tm_mday:02d}{text[10:19]} UTC {at.tm_year}"


class CleanShutdown(NamedTuple):
    """The content of the clean shutdown marker `.kafka_cleanshutdown`: file version and broker epoch."""

    version: int
    broker_epoch: int


def read_clean_shutdown(files: FileSystem, path: str) -> CleanShutdown | None:
    """Read the clean shutdown marker; None when it is missing. An empty marker (Kafka before 3.7) or a malformed one
    still counts, with broker epoch -1. Raises OSError."""
    if not files.exists(path):
        return None
    try:
        values = json.loads(files.read_bytes(path))
        return CleanShutdown(int(values["version"]), int(values["brokerEpoch"]))
    except (ValueError, KeyError, TypeError):
        return CleanShutdown(0, -1)


def write_clean_shutdown(files: FileSystem, path: str, broker_epoch: int) -> None:
    """Write the clean shutdown marker with the broker's epoch."""
    text = json.dumps({"version": 0, "brokerEpoch": broker_epoch}, separators=(",", ":"))
    write_atomically(files, path, text.encode())
