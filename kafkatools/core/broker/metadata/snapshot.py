"""Metadata snapshots `<offset>-<epoch>.checkpoint` (KIP-630, Kafka's RecordsSnapshotWriter).

A snapshot is a control batch with a SnapshotHeader (and the voters of a dynamic quorum), batches of records, and a
control batch with a SnapshotFooter. The name has the first offset that the snapshot does not contain and the leader
epoch of the record before it. The file is written as `.part`, synced and renamed, so a named snapshot is complete.
Reading checks checksums, header and footer.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from kafkatools.core.broker.metadata.batches import encode_batch, encode_control_batch
from kafkatools.core.errors import CorruptRecord
from kafkatools.core.log.files import Buffer, FileSystem
from kafkatools.core.protocol.entities import Entity
from kafkatools.core.protocol.schemas import metadata
from kafkatools.core.protocol.schemas.snapshot import (
    SnapshotFooterRecord,
    SnapshotHeaderRecord,
    decode_record,
    encode_record,
)
from kafkatools.core.records.batch import RecordBatch, read_batches
from kafkatools.core.records.control import ControlRecordType, parse_control_type

SUFFIX = ".checkpoint"
PART_SUFFIX = ".part"
DELETED_SUFFIX = ".deleted"
RECORDS_PER_BATCH = 1000
OFFSET_DIGITS, EPOCH_DIGITS = 20, 10
QUORUM_KINDS = (5, 6)  # KRaftVersion and KRaftVoters, which each snapshot takes over from the previous one

ControlRecord = tuple[bytes, bytes]


class SnapshotId(NamedTuple):
    """The end offset and the last leader epoch of a snapshot (Kafka's OffsetAndEpoch)."""

    offset: int
    epoch: int

    @property
    def file_name(self) -> str:
        """The file name of the snapshot (Snapshots.filenameFromSnapshotId)."""
        return f"{self.offset:0{OFFSET_DIGITS}d}-{self.epoch:0{EPOCH_DIGITS}d}{SUFFIX}"


class Snapshot(NamedTuple):
    """The content of a snapshot; `records` decodes the metadata records on demand."""

    snapshot_id: SnapshotId
    last_contained_timestamp: int
    records: Iterator[Entity]
    quorum_records: Sequence[ControlRecord]


def parse_name(name: str) -> SnapshotId | None:
    """Return the id in a complete snapshot's file name, None for any other name."""
    offset, dash, rest = name.partition("-")
    epoch = rest.removesuffix(SUFFIX)
    is_snapshot = dash and rest.endswith(SUFFIX) and len(offset) == OFFSET_DIGITS and len(epoch) == EPOCH_DIGITS
    if not is_snapshot or not (offset + epoch).isascii() or not (offset + epoch).isdigit():
        return None
    return SnapshotId(int(offset), int(epoch))


def encode_snapshot(
    records: Iterable[Entity],
    epoch: int,
    *,
    last_contained_timestamp: int,
    wall_ms: int,
    quorum_records: Sequence[ControlRecord] = (),
) -> bytes:
    """Encode a snapshot file; `epoch` is the leader epoch of its batches."""
    header = encode_record(SnapshotHeaderRecord(version=0, last_contained_log_timestamp=last_contained_timestamp))
    footer = encode_record(SnapshotFooterRecord(version=0))
    out = bytearray(encode_control_batch((header, *quorum_records), 0, epoch, wall_ms))
    offset = 1 + len(quorum_records)
    remaining = iter(records)
    while part := list(islice(remaining, RECORDS_PER_BATCH)):
        out += encode_batch(part, offset, epoch, wall_ms)
        offset += len(part)
    out += encode_control_batch((footer,), offset, epoch, wall_ms)
    return bytes(out)


def decode_snapshot(snapshot_id: SnapshotId, data: bytes) -> Snapshot:
    """Decode a snapshot, its records on demand. Raises CorruptRecord unless it is complete and valid."""
    batches: list[RecordBatch] = []
    end = 0
    for batch in read_batches(data):
        if not isinstance(batch, RecordBatch):
            raise CorruptRecord(f"{snapshot_id.file_name} has a batch with magic {batch.magic} instead of 2")
        batch.ensure_valid()
        batches.append(batch)
        end += batch.size_bytes
    controls = [(r.key or b"", r.value or b"") for batch in batches if batch.is_control for r in batch.records()]
    kinds = [parse_control_type(key) for key, _ in controls]
    is_whole = bool(batches) and end == len(data) and batches[0].is_control and batches[-1].is_control
    ends = [ControlRecordType.SNAPSHOT_HEADER, ControlRecordType.SNAPSHOT_FOOTER]
    if not is_whole or kinds[:1] + kinds[-1:] != ends:
        raise CorruptRecord(
            f"{snapshot_id.file_name} is not a complete snapshot: it does not begin with a header and end with a footer"
        )
    header = decode_record(ControlRecordType.SNAPSHOT_HEADER, controls[0][1])
    quorum = [record for record, kind in zip(controls, kinds, strict=True) if kind in QUORUM_KINDS]
    return Snapshot(snapshot_id, header.last_contained_log_timestamp, _decoded(batches), quorum)


def _decoded(batches: Iterable[RecordBatch]) -> Iterator[Entity]:
    for batch in batches:
        if not batch.is_control:
            for record in batch.records():
                if record.value is not None:
                    yield metadata.decode_record(record.value)


class SnapshotDownload:
    """A snapshot that a follower downloads in parts. It gets its name when it is complete, valid and synced."""

    def __init__(self, files: FileSystem, path: str, snapshot_id: SnapshotId, note_change: Callable[[], None]) -> None:
        self._files = files
        self._path = path
        self._note_change = note_change
        self.snapshot_id = snapshot_id
        self._file = files.open(path + PART_SUFFIX, create=True)

    @property
    def size_bytes(self) -> int:
        """The number of bytes downloaded so far."""
        return self._file.size_bytes

    def append(self, data: Buffer) -> None:
        """Append the next part."""
        self._file.append(data)

    def finish(self) -> None:
        """Validate the downloaded file and give it its name. Raises CorruptRecord after deleting an invalid one,
        OSError."""
        try:
            decode_snapshot(self.snapshot_id, self._file.read_at(0, self._file.size_bytes))
        except CorruptRecord:
            self.abandon()
            raise
        self._file.flush()
        self._file.close()
        self._files.rename(self._path + PART_SUFFIX, self._path)
        self._files.fsync_directory(os.path.dirname(self._path))
        self._note_change()

    def abandon(self) -> None:
        """Close and delete the downloaded parts."""
        self._file.close()
        self._files.remove(self._path + PART_SUFFIX)


class SnapshotStore:
    """The snapshot files in a metadata log's directory; no other process changes them."""

    def __init__(self, files: FileSystem, directory: str) -> None:
        self._files = files
        self._directory = directory
        self._ids: list[SnapshotId] | None = None

    def _forget(self) -> None:
        self._ids = None

    def ids(self) -> list[SnapshotId]:
        """Return the ids of the complete snapshots, oldest first."""
        if self._ids is None:
            names = [entry.name for entry in self._files.list_directory(self._directory) if not entry.is_directory]
            self._ids = sorted(snapshot_id for snapshot_id in map(parse_name, names) if snapshot_id is not None)
        return self._ids

    def sizes(self) -> dict[SnapshotId, int]:
        """Return the size in bytes of each complete snapshot."""
        entries = [(parse_name(entry.name), entry.size_bytes) for entry in self._files.list_directory(self._directory)]
        return {snapshot_id: size for snapshot_id, size in entries if snapshot_id is not None}

    def _path(self, snapshot_id: SnapshotId) -> str:
        return os.path.join(self._directory, snapshot_id.file_name)

    def read(self, snapshot_id: SnapshotId) -> Snapshot:
        """Read and decode a snapshot. Raises CorruptRecord, OSError."""
        return decode_snapshot(snapshot_id, self._files.read_bytes(self._path(snapshot_id)))

    def write(self, snapshot_id: SnapshotId, data: bytes) -> None:
        """Write a snapshot file atomically."""
        path = self._path(snapshot_id)
        self._files.write_bytes(path + PART_SUFFIX, data, sync=True)
        self._files.rename(path + PART_SUFFIX, path)
        self._files.fsync_directory(self._directory)
        self._forget()

    def read_part(self, snapshot_id: SnapshotId, position: int, max_bytes: int) -> bytes:
        """Return bytes of a snapshot file from `position` on. Raises FileNotFoundError."""
        file = self._files.open(self._path(snapshot_id))
        try:
            return file.read_at(position, min(max_bytes, max(0, file.size_bytes - position)))
        finally:
            file.close()

    def begin_download(self, snapshot_id: SnapshotId) -> SnapshotDownload:
        """Start downloading a snapshot from another node; an unfinished download of it is deleted."""
        path = self._path(snapshot_id)
        self._files.remove(path + PART_SUFFIX)
        return SnapshotDownload(self._files, path, snapshot_id, self._forget)

    def delete(self, snapshot_id: SnapshotId) -> None:
        """Delete a snapshot."""
        self._forget()
        self._files.remove(self._path(snapshot_id))

    def delete_before(self, snapshot_id: SnapshotId) -> None:
        """Delete all snapshots before this one, which need not exist."""
        for stored_id in self.ids():
            if stored_id < snapshot_id:
                self.delete(stored_id)

    def remove_leftovers(self) -> None:
        """Delete the files of unfinished writes and deletions."""
        self._forget()
        for entry in self._files.list_directory(self._directory):
            if SUFFIX in entry.name and entry.name.endswith((PART_SUFFIX, DELETED_SUFFIX)):
                self._files.remove(os.path.join(self._directory, entry.name))
