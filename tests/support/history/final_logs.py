"""The replicas' logs after a run: the bytes of each replica, and the records of a partition, committed or aborted."""

from __future__ import annotations

import pathlib
import struct
from collections.abc import Mapping
from typing import NamedTuple

from kafkatools.core.records.batch import RecordBatch, read_batches

DATA, COMMIT, ABORT = "data", "commit", "abort"
OPEN = "open"


class Entry(NamedTuple):
    """A record of data, or a marker. `fate` of a transactional record: commit, abort or open; of others `data`."""

    offset: int
    value: str
    producer_id: int
    producer_epoch: int
    sequence: int
    fate: str


class Partition(NamedTuple):
    """A partition as one replica holds it."""

    entries: tuple[Entry, ...]

    def visible(self, isolation: str) -> list[Entry]:
        """The records that a reader of this isolation is given; for read_committed below the first open one."""
        if isolation == "read_uncommitted":
            return [entry for entry in self.entries if entry.value]
        stable = next((entry.offset for entry in self.entries if entry.fate == OPEN), 1 << 62)
        return [e for e in self.entries if e.value and e.fate in (DATA, COMMIT) and e.offset < stable]


def partition_bytes(data_directory: pathlib.Path, topic: str, partition: int) -> bytes:
    """All segments of a replica in the order of their offsets."""
    directory = data_directory / f"{topic}-{partition}"
    return b"".join(path.read_bytes() for path in sorted(directory.glob("*.log")))


def decode(data: bytes) -> Partition:
    """The records of a partition. A transaction's fate is that of the next marker of its producer."""
    entries: list[Entry] = []
    pending: dict[int, list[int]] = {}
    for batch in read_batches(data):
        assert isinstance(batch, RecordBatch)
        if batch.is_control:
            for record in batch.records():
                fate = COMMIT if struct.unpack(">hh", (record.key or b"")[:4])[1] == 1 else ABORT
                for index in pending.pop(batch.producer_id, ()):
                    entries[index] = entries[index]._replace(fate=fate)
                entries.append(Entry(record.offset, "", batch.producer_id, batch.producer_epoch, -1, fate))
            continue
        for number, record in enumerate(batch.records()):
            if batch.is_transactional:
                pending.setdefault(batch.producer_id, []).append(len(entries))
            value, sequence = (record.value or b"").decode(), batch.base_sequence + number
            fate = OPEN if batch.is_transactional else DATA
            entries.append(Entry(record.offset, value, batch.producer_id, batch.producer_epoch, sequence, fate))
    return Partition(tuple(entries))


def check_replicas(place: tuple[str, int], copies: Mapping[int, bytes], high_watermark: int) -> list[str]:
    """Replicas are the same bytes up to the high watermark; each reaches it."""
    problems, kept = [], {}
    for node, data in copies.items():
        batches = {
            batch.base_offset: batch
            for batch in read_batches(data)
            if isinstance(batch, RecordBatch) and batch.base_offset < high_watermark
        }
        last = batches[max(batches)] if batches else None
        end = 0 if last is None else last.next_offset
        if end < high_watermark:
            problems.append(f"divergent: {place} on node {node} ends at {end}, the high watermark is {high_watermark}")
        kept[node] = {o: bytes(data[b.position : b.position + b.size_bytes]) for o, b in batches.items()}
    first_node, *others = kept
    for node in others:
        offsets = sorted(kept[first_node].keys() | kept[node].keys())
        differing = next((o for o in offsets if kept[first_node].get(o) != kept[node].get(o)), None)
        if differing is not None:
            problems.append(
                f"divergent: {place} differs between nodes {first_node} and {node} from the batch at offset {differing}"
                f" on ({_header(kept[first_node].get(differing))} and {_header(kept[node].get(differing))})"
            )
    return problems


def _header(data: bytes | None) -> str:
    if data is None:
        return "no batch"
    batch = RecordBatch(data)
    return (
        f"leader epoch {batch.partition_leader_epoch} producer {batch.producer_id}:{batch.producer_epoch} "
        f"sequence {batch.base_sequence} last offset {batch.last_offset} crc {batch.crc}"
    )
