"""Read producer snapshots and transaction indexes for the dump.

Source: ProducerStateManager.readSnapshot (version 1) and TransactionIndex.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from kafkatools.core.log.dump.damage import Damage
from kafkatools.core.log.dump.segment_file import LARGEST_FILE, SegmentFile
from kafkatools.core.log.format.transaction_index import ENTRY_SIZE, AbortedTransaction, parse_entries
from kafkatools.core.log.producers.snapshot import ENTRY as SNAPSHOT_ENTRY
from kafkatools.core.log.producers.snapshot import SNAPSHOT_VERSION, SnapshotEntry
from kafkatools.core.records.crc import crc32c

_SNAPSHOT_HEAD = struct.Struct(">hII")
_CRC_FROM = 6
_ENTRIES_AT_ONCE = 30000


class ProducerEntry(SnapshotEntry):
    """A producer in a snapshot, with the numbers that Kafka's tool shows."""

    __slots__ = ()

    @property
    def has_batch(self) -> bool:
        """Return whether the producer has appended a data batch."""
        return self.last_offset >= 0

    @property
    def first_sequence(self) -> int:
        """The first sequence of the last batch (BatchMetadata.firstSeq). Sequences wrap to 0 after 2147483647."""
        if self.last_sequence < self.offset_delta:
            return 0x7FFFFFFF - (self.offset_delta - self.last_sequence) + 1
        return self.last_sequence - self.offset_delta


def _wrong_checksum(stored: int, computed: int) -> str:
    return f"Snapshot is corrupt (CRC is no longer valid). Stored crc: {stored}. Computed crc: {computed}"


def read_producer_snapshot(data: bytes) -> list[ProducerEntry]:
    """Return the producers in the bytes of a `.snapshot` file. Raises Damage with Kafka's message."""
    version = int.from_bytes(data[:2], "big", signed=True) if len(data) >= 2 else 0
    if len(data) >= 2 and version != SNAPSHOT_VERSION:
        raise Damage(f"Snapshot failed schema validation: Snapshot contained an unknown file version {version}", 0)
    if len(data) < _SNAPSHOT_HEAD.size:
        raise Damage("Snapshot failed schema validation: null", len(data))
    _, crc, count = _SNAPSHOT_HEAD.unpack_from(data)
    if len(data) < _SNAPSHOT_HEAD.size + count * SNAPSHOT_ENTRY.size:
        raise Damage("Snapshot failed schema validation: null", len(data))
    computed = crc32c(data[_CRC_FROM:])
    if crc != computed:
        raise Damage(_wrong_checksum(crc, computed), 2)
    positions = (_SNAPSHOT_HEAD.size + number * SNAPSHOT_ENTRY.size for number in range(count))
    return [ProducerEntry(*SNAPSHOT_ENTRY.unpack_from(data, position)) for position in positions]


def read_producer_snapshot_file(path: str) -> list[ProducerEntry]:
    """Return the producers in a `.snapshot` file; an oversized file is not loaded. Raises OSError, Damage."""
    with SegmentFile(path) as file:
        if file.size > LARGEST_FILE:
            raise Damage(f"Required array size too large: a snapshot of {file.size} bytes", 0)
        head = bytes(file.view(0, _SNAPSHOT_HEAD.size))
        if len(head) < _SNAPSHOT_HEAD.size:
            return read_producer_snapshot(head)
        version, crc, count = _SNAPSHOT_HEAD.unpack(head)
        expected = _SNAPSHOT_HEAD.size + count * SNAPSHOT_ENTRY.size
        if version == SNAPSHOT_VERSION and file.size > expected:
            computed = file.checksum(_CRC_FROM, file.size - _CRC_FROM, crc32c)
            if crc != computed:
                raise Damage(_wrong_checksum(crc, computed), 2)
        return read_producer_snapshot(bytes(file.view(0, file.size)) if version == SNAPSHOT_VERSION else head)


def aborted_transactions_in(file: SegmentFile) -> Iterator[tuple[int, AbortedTransaction]]:
    """Yield the position and content of each whole entry of a `.txnindex` file, in file order."""
    step = _ENTRIES_AT_ONCE * ENTRY_SIZE
    for start in range(0, file.size, step):
        for number, entry in enumerate(parse_entries(bytes(file.view(start, step)))):
            yield start + number * ENTRY_SIZE, entry
