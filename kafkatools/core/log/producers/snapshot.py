"""The `.snapshot` file: a partition's producer state at an offset (ProducerStateManager, ProducerSnapshot.json).

Version (2 bytes, 1), CRC-32C of the rest, number of entries, entries of 46 bytes: producer id, epoch, last sequence,
last offset, offset delta of the last batch, its timestamp, coordinator epoch, first offset of the open transaction (-1
without one). Entries are in the order of a java.util.HashMap, as Kafka writes them.
"""

from collections.abc import Iterable
from struct import Struct, error
from typing import NamedTuple

from kafkatools.core.errors import CorruptSnapshot
from kafkatools.core.log.files import FileSystem, RealFileSystem
from kafkatools.core.records.crc import crc32c

SNAPSHOT_VERSION = 1
_PREFIX = Struct(">hI")
_COUNT = Struct(">i")
ENTRY = Struct(">qhiqiqiq")
_CRC_START = _PREFIX.size


class SnapshotEntry(NamedTuple):
    """The state of one producer in a snapshot file. Times in ms, -1 for missing values."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    current_txn_first_offset: int


def parse_snapshot(data: bytes) -> list[SnapshotEntry]:
    """Return the entries in the bytes of a producer snapshot. Raises CorruptSnapshot with Kafka's reason."""
    try:
        version, stored_crc = _PREFIX.unpack_from(data)
        if version != SNAPSHOT_VERSION:
            raise CorruptSnapshot(f"Snapshot contained an unknown file version {version}")
        (count,) = _COUNT.unpack_from(data, _CRC_START)
        start = _CRC_START + _COUNT.size
        if not 0 <= count <= (len(data) - start) // ENTRY.size:
            raise CorruptSnapshot(f"Snapshot failed schema validation: {count} entries do not fit {len(data)} bytes")
        entries = [SnapshotEntry._make(ENTRY.unpack_from(data, start + i * ENTRY.size)) for i in range(count)]
    except error as short:
        raise CorruptSnapshot(f"Snapshot failed schema validation: {short}") from None
    computed = crc32c(data[_CRC_START:])
    if computed != stored_crc:
        raise CorruptSnapshot(
            f"Snapshot is corrupt (CRC is no longer valid). Stored crc: {stored_crc}. Computed crc: {computed}"
        )
    return entries


def read_snapshot(path: str, files: FileSystem | None = None) -> list[SnapshotEntry]:
    """Return the entries of a producer snapshot file. Raises CorruptSnapshot, OSError."""
    return parse_snapshot((files or RealFileSystem()).read_bytes(path))


def format_snapshot(entries: Iterable[SnapshotEntry]) -> bytes:
    """Return the bytes of a producer snapshot with these entries in this order."""
    packed = [ENTRY.pack(*entry) for entry in entries]
    body = _COUNT.pack(len(packed)) + b"".join(packed)
    return _PREFIX.pack(SNAPSHOT_VERSION, crc32c(body)) + body
