"""Load the cluster metadata from a snapshot, a segment, or a directory of `__cluster_metadata` (SnapshotFileReader).

A snapshot must be complete. A segment is read to its end or to a truncated last batch. A directory gives its newest
complete snapshot and the records after it.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple

from kafkatools.core.broker.metadata import snapshot
from kafkatools.core.broker.metadata.image import MetadataImage
from kafkatools.core.errors import DecodeError, KafkaError
from kafkatools.core.protocol.schemas import metadata
from kafkatools.core.protocol.schemas.errors import RecordFormatError
from kafkatools.core.records.batch import RecordBatch, read_batches
from kafkatools.exit_status import CommandError

_SEGMENT = ".log"
_PARTITION = "__cluster_metadata-0"


class Provenance(NamedTuple):
    """The last record of an image: its offset, leader epoch and time in ms since 1970; -1 without a record."""

    offset: int = -1
    epoch: int = -1
    timestamp_ms: int = -1


class LoadedMetadata(NamedTuple):
    """An image and its last record."""

    image: MetadataImage
    provenance: Provenance


class _Loader:
    """Replays batches. Calls `note` for records of an unknown type or version, which are left out."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self.image = MetadataImage()
        self.provenance = Provenance()
        self._note = note

    def read(self, path: str, first_offset: int = -1, *, with_position: bool = True) -> None:
        """Replay the records of a file from an offset on. `with_position`: they are the newest of the image. Raises
        CommandError for a damaged file."""
        data = _content(path)
        position = 0
        try:
            for batch in read_batches(data):
                if not isinstance(batch, RecordBatch):
                    raise CommandError(f"{path}, position {position}: the magic is {batch.magic}, not 2")
                batch.ensure_valid()
                if not batch.is_control and batch.last_offset >= first_offset:
                    self._replay(path, batch, first_offset)
                    if with_position:
                        last = batch.last_offset
                        self.provenance = Provenance(last, batch.partition_leader_epoch, batch.max_timestamp)
                position += batch.size_bytes
        except (KafkaError, DecodeError) as damage:
            raise CommandError(f"{path}, position {position}: {damage}", hint=f"kt check {path}") from damage
        if not path.endswith(_SEGMENT) and position != len(data):
            raise CommandError(f"{path} is not complete: {len(data) - position} bytes at its end are no batch")

    def _replay(self, path: str, batch: RecordBatch, first_offset: int) -> None:
        for record in batch.records():
            if record.value is None or record.offset < first_offset:
                continue
            try:
                self.image.replay(metadata.decode_record(record.value))
            except RecordFormatError as error:
                self._note(f"{path}, offset {record.offset}: {error}; the record is left out")


def load_file(path: str, note: Callable[[str], None]) -> LoadedMetadata:
    """Load a snapshot or a segment. Offsets are those in the file, as in Kafka's shell. Raises CommandError."""
    loader = _Loader(note)
    if not path.endswith(_SEGMENT):
        _check_snapshot(path)
    loader.read(path)
    return LoadedMetadata(loader.image, loader.provenance)


def load_directory(path: str, note: Callable[[str], None]) -> LoadedMetadata:
    """Load the newest complete snapshot of a directory and the records after it. `path` is that of the partition or of
    the log directory with it. Raises CommandError."""
    inner = os.path.join(path, _PARTITION)
    directory = inner if os.path.isdir(inner) else path
    try:
        names = sorted(os.listdir(directory))
    except OSError as error:
        raise CommandError(f"Cannot read {directory}", hint=error.strerror or "") from None
    segments = [name for name in names if name.endswith(_SEGMENT) and name[:-4].isdigit()]
    ids = sorted(parsed for name in names if (parsed := snapshot.parse_name(name)) is not None)
    if not segments and not ids:
        raise CommandError(f"{directory} has no snapshot and no segment of {_PARTITION}")
    loader = _Loader(note)
    start = 0
    if ids:
        newest = ids[-1]
        start, file = newest.offset, os.path.join(directory, newest.file_name)
        timestamp = _check_snapshot(file)
        loader.read(file, with_position=False)
        loader.provenance = Provenance(start - 1, newest.epoch, timestamp)
    bases = [int(name[:-4]) for name in segments]
    if bases and min(bases) > start:
        raise CommandError(f"{directory} begins at offset {min(bases)}, and no snapshot has the records before it")
    for index, name in enumerate(segments):
        if index + 1 == len(segments) or bases[index + 1] > start:
            loader.read(os.path.join(directory, name), start)
    return LoadedMetadata(loader.image, loader.provenance)


def _content(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise CommandError(f"Cannot read {path}", hint=error.strerror or "") from None


def _check_snapshot(path: str) -> int:
    """Return the time of the last record that a snapshot contains. Raises CommandError unless it is complete."""
    parsed = snapshot.parse_name(os.path.basename(path)) or snapshot.SnapshotId(0, 0)
    data = _content(path)
    try:
        return snapshot.decode_snapshot(parsed, data).last_contained_timestamp
    except (KafkaError, DecodeError) as damage:
        raise CommandError(f"{path} is no complete snapshot: {damage}", hint=f"kt check {path}") from damage
