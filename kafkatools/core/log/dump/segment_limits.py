"""Limits for the offsets and leader epochs of a segment's batches, taken from the other files of its directory.

A batch's checksum does not cover its base offset and leader epoch. Other files restrict both: the name of the next
segment, `leader-epoch-checkpoint`, the offset index, and the offset of a producer snapshot that was taken when the log
was closed. A missing file gives no limit. The directory is read after the segment was opened. A broker that appends
meanwhile writes these files first, or they concern later batches.
"""

from __future__ import annotations

import os
from array import array
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass

from kafkatools.core.errors import KafkaStorageError
from kafkatools.core.log.dump import file_kinds
from kafkatools.core.log.dump.batch_headers import V2Header, next_batch
from kafkatools.core.log.dump.damage import Damage, Finding
from kafkatools.core.log.dump.index_files import OffsetIndexFile
from kafkatools.core.log.dump.segment_file import SegmentFile
from kafkatools.core.log.files import RealFileSystem
from kafkatools.core.log.format.checkpoints import read_checkpoint
from kafkatools.core.log.format.filenames import LEADER_EPOCH_CHECKPOINT
from kafkatools.core.records import _dump_kernel as dump_kernel
from kafkatools.core.records import kernel

NO_EPOCH = -1
LARGEST_RELATIVE_OFFSET = (1 << 31) - 1
_WIDTH = kernel.HEADER_WIDTH
_HEAD_BYTES = 1 << 16


@dataclass(frozen=True)
class SegmentLimits:
    """Limits on the batches of one segment; `SegmentLimits()` has none. `epochs`: (start offset, leader epoch), rising
    in both. `log_ends`: offsets at which the log once ended, inside the last segment. `next_path`: the next segment."""

    largest_offset: int | None = None
    epochs: tuple[tuple[int, int], ...] = ()
    log_ends: tuple[int, ...] = ()
    next_path: str | None = None

    def first_outside(self, table: array[int], rows: int, previous_end: int) -> int:
        """Return the first row of a scan_batches table that violates the limits, `rows` when none does. Offsets and
        epochs of the rows rise. So the first and the last row stand for those between them, unless an epoch begins or
        the log once ended there."""
        if rows <= 0:
            return rows
        last = (rows - 1) * _WIDTH
        first_offset, last_offset = table[dump_kernel.BASE_OFFSET], table[last + dump_kernel.BASE_OFFSET]
        end = last_offset + table[last + dump_kernel.LAST_DELTA] + 1
        first_epoch, last_epoch = table[dump_kernel.LEADER_EPOCH], table[last + dump_kernel.LEADER_EPOCH]
        is_simple = (
            first_epoch == last_epoch
            and self._entry(first_offset) == self._entry(last_offset)
            and self.epoch_problem(first_offset, first_epoch) is None
            and (self.largest_offset is None or end - 1 <= self.largest_offset)
            and not any(previous_end < log_end < end for log_end in self.log_ends)
        )
        return rows if is_simple else self._first_wrong(table, rows, previous_end)

    def _first_wrong(self, table: array[int], rows: int, previous_end: int) -> int:
        for row in range(rows):
            slot = row * _WIDTH
            offset, epoch = table[slot + dump_kernel.BASE_OFFSET], table[slot + dump_kernel.LEADER_EPOCH]
            last_offset = offset + table[slot + dump_kernel.LAST_DELTA]
            if self.epoch_problem(offset, epoch) or self.offset_problem(previous_end, offset, last_offset):
                return row
            previous_end = last_offset + 1
        return rows

    def _entry(self, offset: int) -> int:
        return bisect_right(self.epochs, (offset, LARGEST_RELATIVE_OFFSET + 1)) - 1

    def epoch_problem(self, offset: int, epoch: int) -> str | None:
        """Return, as text, the problem with the leader epoch of a batch that begins at `offset`. None when the epoch is
        possible, or without limits."""
        if not self.epochs or epoch == NO_EPOCH:
            return None
        entry = self._entry(offset)
        if entry < 0:
            first = self.epochs[0][1]
            is_wrong, expected_epoch = epoch > first, f"{first} or less"
        else:
            is_wrong, expected_epoch = epoch != self.epochs[entry][1], str(self.epochs[entry][1])
        return f"leader epoch {epoch} where {LEADER_EPOCH_CHECKPOINT} has {expected_epoch}" if is_wrong else None

    def offset_problem(self, previous_end: int, offset: int, last_offset: int) -> str | None:
        """Return, as text, the problem with the offsets of a batch, None when they are possible. `previous_end`: the
        offset after the previous batch."""
        if self.largest_offset is not None and last_offset > self.largest_offset:
            limit_text = "the next segment begins after" if self.next_path is not None else "a segment can hold up to"
            return f"last offset {last_offset}, but {limit_text} offset {self.largest_offset}"
        for log_end in self.log_ends:
            if previous_end < log_end <= last_offset:
                return f"offsets {offset} to {last_offset}, but a snapshot was taken when the log ended at {log_end}"
        return None


UNLIMITED = SegmentLimits()


def read_limits(path: str, base_offset: int, report: Callable[[Finding], None]) -> SegmentLimits:
    """Read the limits for a segment from its directory. An unreadable leader epoch checkpoint is reported and gives no
    limit. Raises OSError for an unreadable directory."""
    directory = os.path.dirname(os.path.abspath(path))
    own_name = os.path.basename(path)
    segments: dict[int, str] = {}
    snapshots = []
    with os.scandir(directory) as entries:
        for entry in entries:
            stem, _, suffix = entry.name.partition(".")
            if len(stem) == 20 and stem.isascii() and stem.isdigit():
                if "." + suffix == file_kinds.LOG and entry.name != own_name:
                    segments[int(stem)] = entry.path
                elif "." + suffix == file_kinds.PRODUCER_SNAPSHOT:
                    snapshots.append(int(stem))
    following = min((offset for offset in segments if offset > base_offset), default=None)
    largest = base_offset + LARGEST_RELATIVE_OFFSET
    return SegmentLimits(
        largest_offset=largest if following is None else min(largest, following - 1),
        epochs=_read_epochs(os.path.join(directory, LEADER_EPOCH_CHECKPOINT), report),
        log_ends=tuple(sorted(end for end in snapshots if end > base_offset)) if following is None else (),
        next_path=None if following is None else segments[following],
    )


def _read_epochs(path: str, report: Callable[[Finding], None]) -> tuple[tuple[int, int], ...]:
    try:
        if not os.path.getsize(path):  # Kafka creates the file before the first leader epoch
            return ()
        rows = read_checkpoint(RealFileSystem(), path, columns=2)
    except FileNotFoundError:
        return ()
    except (KafkaStorageError, OSError, UnicodeDecodeError) as problem:
        report(Finding(path, -1, f"cannot be read: {problem}", "leader epochs are not compared with it"))
        return ()
    return tuple(sorted((int(offset), int(epoch)) for epoch, offset in rows))


def later_epoch_problem(next_path: str | None, epoch: int) -> Damage | None:
    """Return the damage of a log whose last leader epoch `epoch` is above that of the first batch in the next segment.
    None otherwise, and when there is no next segment or it cannot be read."""
    if next_path is None or epoch == NO_EPOCH:
        return None
    try:
        with SegmentFile(next_path, _HEAD_BYTES) as following:
            batch = next_batch(following, 0, following.size, next_path)
    except (Damage, OSError):
        return None
    if not isinstance(batch, V2Header) or not NO_EPOCH < batch.partition_leader_epoch < epoch:
        return None
    return Damage(f"leader epoch {epoch} at the end, {batch.partition_leader_epoch} where {next_path} begins")


def wrongly_indexed_batch(log: SegmentFile, log_path: str, base_offset: int) -> Damage | None:
    """Return the damage of a batch whose last offset is above that of the last index entry, which points to it. None
    otherwise, and without a readable index. An index entry above the batch's last offset is valid: older brokers
    indexed several batches as one."""
    path = log_path.removesuffix(file_kinds.LOG) + file_kinds.OFFSET_INDEX
    try:
        entries = OffsetIndexFile.read(path, base_offset, log.size).entries
        number = entries.stored_count - 1
        if number < 0:
            return None
        offset, position = entries[number]
        batch = next_batch(log, position, log.size, log_path) if position >= 0 else None
    except (Damage, OSError):
        return None
    if not isinstance(batch, V2Header) or not batch.is_valid or batch.last_offset <= offset:
        return None
    return Damage(f"last offset {batch.last_offset}, but {path} has {offset} for this batch", position)
