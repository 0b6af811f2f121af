"""Checks across the files of a partition directory.

Segments must follow one another. Each leader epoch must be in leader-epoch-checkpoint. Each aborted transaction with
records in the log must be in a transaction index, or readers of committed data would see its records. Compaction
removes records and markers: a gap in offsets is damage only if the log was certainly never compacted (its log directory
has a cleaner-offset-checkpoint that does not list the partition). If that is unknown, a gap is a warning.

Source: TransactionIndex, CleanedTransactionMetadata (KIP-98), LeaderEpochFileCache (KIP-101).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from kafkatools.core.errors import KafkaError
from kafkatools.core.log.files import RealFileSystem
from kafkatools.core.log.format.checkpoints import read_checkpoint, read_offset_checkpoint
from kafkatools.core.log.format.filenames import (
    CLEANER_OFFSET_CHECKPOINT,
    LEADER_EPOCH_CHECKPOINT,
    LOG_SUFFIX,
    TXN_INDEX_SUFFIX,
    offset_from_name,
    offset_name,
    parse_partition_directory,
)
from kafkatools.pipeline.jobs.check_files import (
    ABORT,
    DAMAGE,
    DATA,
    WARNING,
    Problem,
    SegmentFacts,
    read_aborted_entries,
)

_COMPACTED_TOPICS = frozenset({"__consumer_offsets", "__transaction_state"})


@dataclass(frozen=True)
class _Aborted:
    producer_id: int
    first_offset: int
    marker_offset: int


def check_partition(directory: str, segments: Sequence[SegmentFacts]) -> list[Problem]:
    """Return the problems across the files of one directory; `segments` may be in any order. A file or directory that
    cannot be read is a problem, not an exception."""
    ordered = sorted(segments, key=lambda facts: facts.base_offset)
    problems: list[Problem] = []
    for check in (_order, _lone_files, _epochs, _transactions):
        try:
            problems.extend(check(directory, ordered))
        except OSError as error:
            path = error.filename or directory
            problems.append(Problem(path, _kind_of(path), -1, f"cannot be read: {error.strerror}"))
    return problems


def _kind_of(path: str) -> str:
    return "directory" if os.path.isdir(path) else os.path.basename(path).rpartition(".")[2]


# -- segments --


def _order(directory: str, segments: Sequence[SegmentFacts]) -> Iterator[Problem]:
    hole = _weight_of_holes(directory, segments)
    previous = -1
    for facts in segments:
        path = os.path.join(directory, offset_name(facts.base_offset) + ".log")
        if previous >= facts.base_offset:
            text = f"begins at offset {facts.base_offset}, but the previous segment ends with {previous}"
            yield Problem(path, "log", -1, text)
        elif hole and previous >= 0 and facts.base_offset > previous + 1:
            yield _hole(path, previous, facts.base_offset, hole)
        if hole and facts.first_offset > facts.base_offset:
            yield _hole(path, facts.base_offset - 1, facts.first_offset, hole)
        for before, after in facts.holes if hole else ():
            if after > before + 1:
                yield _hole(path, before, after, hole)
        previous = max(previous, facts.last_offset, facts.base_offset - 1)


def _hole(path: str, before: int, after: int, severity: str) -> Problem:
    return Problem(
        path, "log", -1, f"offset {before} is followed by {after}", f"{after - before - 1} offsets", severity
    )


def _weight_of_holes(directory: str, segments: Iterable[SegmentFacts]) -> str:
    """Return the severity of a gap in offsets. DAMAGE if the log was certainly never compacted, "" (no problem) if it
    was or its topic always is, else WARNING."""
    partition = parse_partition_directory(os.path.basename(os.path.abspath(directory)))
    if any(facts.misses_records for facts in segments) or (partition and partition.topic in _COMPACTED_TOPICS):
        return ""
    checkpoint = os.path.join(os.path.dirname(os.path.abspath(directory)), CLEANER_OFFSET_CHECKPOINT)
    if partition is None or not os.path.exists(checkpoint):
        return WARNING
    try:
        cleaned = read_offset_checkpoint(RealFileSystem(), checkpoint)
    except (KafkaError, OSError):
        return WARNING
    return "" if partition in cleaned else DAMAGE


def _lone_files(directory: str, segments: Sequence[SegmentFacts]) -> Iterator[Problem]:
    """Yield problems for indexes without a segment and for files left by a crash."""
    names = sorted(os.listdir(directory))
    unreadable = {offset_from_name(name) for name in names if name.endswith(LOG_SUFFIX)}
    bases = {facts.base_offset for facts in segments} | unreadable
    for name in names:
        path = os.path.join(directory, name)
        kind = name.rpartition(".")[2]
        if name.endswith((".swap", ".cleaned")):
            yield Problem(path, kind, -1, "left behind by a crash", "a broker would finish or remove it", WARNING)
        elif name.endswith((".index", ".timeindex", ".txnindex")) and offset_from_name(name) not in bases:
            yield Problem(path, kind, -1, "there is no segment of that base offset")


# -- leader epochs --


def _epochs(directory: str, segments: Sequence[SegmentFacts]) -> Iterator[Problem]:
    path = os.path.join(directory, LEADER_EPOCH_CHECKPOINT)
    batch_epochs = [pair for facts in segments for pair in facts.epochs if pair[0] >= 0]
    if not os.path.exists(path):
        if batch_epochs and len(segments) and parse_partition_directory(os.path.basename(os.path.abspath(directory))):
            yield Problem(path, LEADER_EPOCH_CHECKPOINT, -1, "there is no such file", "a broker would recreate it")
        return
    try:
        rows = read_checkpoint(RealFileSystem(), path, columns=2)
    except KafkaError as error:
        yield Problem(path, LEADER_EPOCH_CHECKPOINT, -1, error.message or str(error))
        return
    entries = [(int(epoch), int(offset)) for epoch, offset in rows]
    for (epoch, offset), (next_epoch, next_offset) in zip(entries, entries[1:], strict=False):
        if next_epoch <= epoch or next_offset <= offset:
            text = f"epoch {next_epoch} from offset {next_offset} after epoch {epoch} from offset {offset}"
            yield Problem(path, LEADER_EPOCH_CHECKPOINT, -1, text)
    yield from _epochs_of_batches(path, entries, batch_epochs)


def _epochs_of_batches(
    path: str, entries: Sequence[tuple[int, int]], batch_epochs: Sequence[tuple[int, int]]
) -> Iterator[Problem]:
    """Yield a problem for each epoch with a batch at whose offset the checkpoint has another epoch. A checkpoint entry
    may begin before the first batch that compaction left. Batches before the first entry are older than the log start:
    when it moves, the broker removes the entries before it, and the segment keeps its batches."""
    reported: set[int] = set()
    for epoch, offset in batch_epochs:
        if epoch in reported:
            continue
        entry = next((entry for entry, start in reversed(entries) if start <= offset), None)
        if entry is None and entries and epoch <= entries[0][0]:
            continue
        if entry != epoch:
            reported.add(epoch)
            epoch_text = "no epoch" if entry is None else f"epoch {entry}"
            text = f"the checkpoint has {epoch_text} for offset {offset}, but the batch there has epoch {epoch}"
            yield Problem(path, LEADER_EPOCH_CHECKPOINT, -1, text)


# -- aborted transactions --


def _transactions(directory: str, segments: Sequence[SegmentFacts]) -> Iterator[Problem]:
    aborted, markers = _outcomes(segments)
    index_entries: dict[tuple[int, int], int] = {}
    for facts in segments:
        path = os.path.join(directory, offset_name(facts.base_offset) + TXN_INDEX_SUFFIX)
        entries = read_aborted_entries(path) if os.path.exists(path) else []
        for producer_id, first_offset, last_offset in entries:
            index_entries[(producer_id, last_offset)] = first_offset
            yield from _entry(path, (producer_id, first_offset, last_offset), facts, markers)
    for transaction in aborted:
        first = index_entries.get((transaction.producer_id, transaction.marker_offset))
        path = os.path.join(directory, offset_name(_segment_of(segments, transaction.marker_offset)) + TXN_INDEX_SUFFIX)
        subject = (
            f"the aborted transaction of producer {transaction.producer_id} from offset {transaction.first_offset}"
        )
        if first is None:
            text = f"{subject} to {transaction.marker_offset} is missing"
            yield Problem(path, "txnindex", -1, text, "readers of committed data would see its records")
        elif first > transaction.first_offset:
            text = f"{subject} is listed as beginning at {first}"
            yield Problem(path, "txnindex", -1, text, "readers of committed data would see its first records")


def _outcomes(segments: Sequence[SegmentFacts]) -> tuple[list[_Aborted], dict[int, tuple[str, int]]]:
    """Return the aborted transactions with records in the log, and the kind and producer ID of each marker by
    offset."""
    first_offsets: dict[int, int] = {}
    markers: dict[int, tuple[str, int]] = {}
    aborted = []
    for facts in segments:
        for kind, producer_id, offset in facts.transactions:
            if kind == DATA:
                first_offsets.setdefault(producer_id, offset)
                continue
            markers[offset] = (kind, producer_id)
            first = first_offsets.pop(producer_id, None)
            if kind == ABORT and first is not None:
                aborted.append(_Aborted(producer_id, first, offset))
    return aborted, markers


def _entry(
    path: str, entry: tuple[int, int, int], facts: SegmentFacts, markers: dict[int, tuple[str, int]]
) -> Iterator[Problem]:
    """Check a transaction index entry against the marker at its last offset, which compaction may have removed."""
    producer_id, first_offset, last_offset = entry
    marker = markers.get(last_offset)
    text = f"entry of producer {producer_id}, offsets {first_offset} to {last_offset}"
    if first_offset > last_offset:
        yield Problem(path, "txnindex", -1, f"{text}: it ends before it begins")
    elif marker == (ABORT, producer_id):
        return
    elif marker is not None:
        yield Problem(path, "txnindex", -1, f"{text}: offset {last_offset} {marker[0]}s for producer {marker[1]}")
    elif facts.base_offset <= last_offset <= facts.last_offset and not facts.misses_records and not facts.holes:
        yield Problem(path, "txnindex", -1, f"{text}: there is no abort marker at offset {last_offset}")


def _segment_of(segments: Sequence[SegmentFacts], offset: int) -> int:
    return max((facts.base_offset for facts in segments if facts.base_offset <= offset), default=0)
