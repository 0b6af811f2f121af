"""Copy the sound batches of a damaged partition directory into a new one that a broker can load, and list what is lost.

A batch is sound if its checksum is right and its offsets follow those of the batch before it. Whatever is not copied is
lost: the ranges of bytes between the copied batches, with the offsets that are missing there. Indexes, leader epochs
and the producer snapshot are built again from the batches; `partition.metadata` is copied. The source is only read.
"""

from __future__ import annotations

import os
import shutil
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from io import FileIO
from typing import NamedTuple

from kafkatools.core.atomic_file import write_all
from kafkatools.core.log.delayed_tasks import DelayedTasks
from kafkatools.core.log.dump.batch_headers import Header, LegacyHeader, V2Header, codec_name
from kafkatools.core.log.dump.batch_watch import SilentLines, WatchedStretch
from kafkatools.core.log.dump.damage import Damage, Finding
from kafkatools.core.log.dump.file_dump import FileDump
from kafkatools.core.log.dump.gaps import GapFinder
from kafkatools.core.log.dump.options import DumpOptions
from kafkatools.core.log.dump.records import records_of
from kafkatools.core.log.dump.segment_file import SegmentFile, is_zero
from kafkatools.core.log.dump.segment_limits import UNLIMITED, SegmentLimits
from kafkatools.core.log.files import RealFileSystem
from kafkatools.core.log.format.filenames import LOG_SUFFIX, PARTITION_METADATA, is_log_name, offset_from_name
from kafkatools.core.log.partition.log_config import LogConfig
from kafkatools.core.log.partition.partition_log import PartitionLog
from kafkatools.core.records import _dump_kernel as dump_kernel
from kafkatools.core.records import kernel

_CHUNK_BYTES = 1 << 20
_UNEXPLAINED = "not part of a sound batch"


class LostRange(NamedTuple):
    """Bytes of a segment that were not copied. `first_offset` is None if no offset is missing there, `last_offset` also
    if it is unknown, at the end of a log."""

    file: str
    position: int
    size_bytes: int
    first_offset: int | None
    last_offset: int | None
    problem: str


@dataclass
class SalvagedPartition:
    """The batches copied from a partition directory, and the lost ranges. `end_offset` is the offset after the last
    batch, -1 without batches."""

    directory: str
    batches: int = 0
    size_bytes: int = 0
    end_offset: int = -1
    lost: list[LostRange] = field(default_factory=list)


def salvage_partition(
    source: str, target: str, *, deep: bool = False, advance: Callable[[int], None] = lambda size_bytes: None
) -> SalvagedPartition:
    """Copy the sound batches of the segments in directory `source` into the new directory `target`, and index them.
    With `deep` a batch is sound only if its records can be read too. `advance` is called with the size of each segment
    when it was read. Raises OSError if `target` exists or cannot be written, KafkaStorageError."""
    os.mkdir(target)
    names = sorted(name for name in os.listdir(source) if is_log_name(name))
    result = SalvagedPartition(source)
    for name in names:
        path, copy = os.path.join(source, name), os.path.join(target, name)
        _salvage_segment(path, copy, result, deep)
        if not os.path.getsize(copy) and name != names[-1]:
            os.unlink(copy)  # the last one stays, since its name is the least log end offset
        advance(os.path.getsize(path) if os.path.exists(path) else 0)
    _name_lost_offsets(result, [(os.path.join(source, name), offset_from_name(name) or 0) for name in names])
    metadata = os.path.join(source, PARTITION_METADATA)
    if os.path.isfile(metadata):
        shutil.copyfile(metadata, os.path.join(target, PARTITION_METADATA))
    _index(target)
    return result


def _salvage_segment(path: str, target: str, result: SalvagedPartition, deep: bool) -> None:
    findings: list[Finding] = []
    with open(target, "xb", buffering=0) as file:
        copy = _SoundCopy(path, file, result, deep)
        problem = ""
        try:
            FileDump(DumpOptions(deep=deep, salvage=True, judges_by_neighbours=True), copy, findings.append).dump(path)
        except Damage as damage:
            problem = damage.reason
        except OSError as error:
            problem = f"cannot be read: {error.strerror}"
        copy.finish(problem)
        os.fsync(file.fileno())
    result.lost = [_explain(lost, findings) if lost.file == path else lost for lost in result.lost]


def _explain(lost: LostRange, findings: Sequence[Finding]) -> LostRange:
    if lost.problem:
        return lost
    end = lost.position + lost.size_bytes
    problems = [
        finding.problem for finding in findings if finding.file == lost.file and lost.position <= finding.position < end
    ]
    return lost._replace(problem=problems[0] if problems else _UNEXPLAINED)


def _name_lost_offsets(result: SalvagedPartition, segments: Sequence[tuple[str, int]]) -> None:
    """Set the last offset of a range at the end of a segment to the one before the next segment."""
    following = {path: base for (path, _), (_, base) in zip(segments, segments[1:], strict=False)}
    for index, lost in enumerate(result.lost):
        if lost.first_offset is None or lost.last_offset is not None or lost.file not in following:
            continue
        last = following[lost.file] - 1
        is_missing = lost.first_offset <= last
        result.lost[index] = lost._replace(
            first_offset=lost.first_offset if is_missing else None, last_offset=last if is_missing else None
        )


def _index(directory: str) -> None:
    """Build the indexes, leader epochs and producer snapshot of a directory with sound segments. A missing offset is no
    reason to end the log there."""
    bases = [offset_from_name(name) or 0 for name in os.listdir(directory) if name.endswith(LOG_SUFFIX)]
    start = min(bases, default=0)
    log = PartitionLog(directory, LogConfig(), RealFileSystem(), DelayedTasks())
    log.first_dirty_offset = start
    log.load(start, 1 << 62, 0, had_clean_shutdown=True)
    log.flush(log.log_end_offset)
    log.close()


class _Kept(NamedTuple):
    """The state before the last copied batch, to undo its copy."""

    position: int
    copied_bytes: int
    next_offset: int


class _SoundCopy(SilentLines):
    """An implementation of file_dump.Lines that copies the sound batches of a segment, in the order of their offsets,
    and adds the ranges between them to the result."""

    def __init__(self, path: str, target: FileIO, result: SalvagedPartition, deep: bool) -> None:
        self.batches = 0
        self._path = path
        self._target = target
        self._result = result
        self._deep = deep
        self._limits = UNLIMITED
        self._position = 0  # after the last copied batch, in the source
        self._copied_bytes = 0
        self._next_offset = max(offset_from_name(os.path.basename(path)) or 0, result.end_offset)
        self._kept: _Kept | None = None

    # -- what the walk sees --

    def stretch(
        self, file: SegmentFile, end: int, gaps: GapFinder, limits: SegmentLimits
    ) -> Callable[[int, array[int]], int]:
        self._limits = limits
        return WatchedStretch(file, end, self._deep, gaps, self.sound, limits).forward

    def sound(self, table: array[int], rows: int, window_position: int, window: memoryview) -> None:
        """Copy the valid batches in the first rows of the kernel's header table."""
        if rows <= 0:
            return
        width, last_row = kernel.HEADER_WIDTH, (rows - 1) * kernel.HEADER_WIDTH
        first = table[dump_kernel.BASE_OFFSET]
        if first < self._next_offset:  # below the end of the segment before
            for row in range(0, rows * width, width):
                start, size = table[row + dump_kernel.POSITION], table[row + dump_kernel.SIZE]
                base = table[row + dump_kernel.BASE_OFFSET]
                last = base + table[row + dump_kernel.LAST_DELTA]
                self._take(window_position + start, window[start : start + size], base, last)
            return
        start, last_start = table[dump_kernel.POSITION], table[last_row + dump_kernel.POSITION]
        if rows > 1:
            before_last = last_row - width
            end = table[before_last + dump_kernel.BASE_OFFSET] + table[before_last + dump_kernel.LAST_DELTA]
            self._keep(window_position + start, window[start:last_start], first, end, rows - 1)
        base = table[last_row + dump_kernel.BASE_OFFSET]
        last = base + table[last_row + dump_kernel.LAST_DELTA]
        end_position = last_start + table[last_row + dump_kernel.SIZE]
        self._keep(window_position + last_start, window[last_start:end_position], base, last, 1)

    def batch(self, header: Header, decoder: object, gaps: GapFinder) -> None:
        """Copy one batch outside of the fast path if it is sound. Raises Damage for one that Kafka's tool cannot
        read."""
        if isinstance(header, LegacyHeader):
            header.ensure_supported_magic()
        codec_name(header.codec)
        if self._deep:
            for _ in records_of(header):
                pass
        if not header.is_valid or (isinstance(header, V2Header) and header.magic != 2):
            return
        first = header.base_offset if isinstance(header, V2Header) else header.offset
        self._take(header.position, header.view[: header.size_bytes], first, header.last_offset)

    def _take(self, position: int, data: memoryview, first: int, last: int) -> None:
        """Copy a valid batch unless its offsets are impossible. If it shows that the batch before it had jumped ahead,
        that one is removed: the checksum does not cover the base offset."""
        largest = self._limits.largest_offset
        if last < first or (largest is not None and last > largest):
            return
        kept = self._kept
        if first < self._next_offset and kept is not None and kept.next_offset <= first:
            self._undo(kept)
        if first >= self._next_offset:
            self._keep(position, data, first, last, 1)

    def _keep(self, position: int, data: memoryview, first: int, last: int, batches: int) -> None:
        self._kept = _Kept(self._position, self._copied_bytes, self._next_offset)
        self._note_lost(position, first)
        write_all(self._target, data)
        self._position = position + len(data)
        self._copied_bytes += len(data)
        self._next_offset = last + 1
        self.batches += batches

    def _undo(self, kept: _Kept) -> None:
        self._target.truncate(kept.copied_bytes)
        self._target.seek(kept.copied_bytes)
        lost = self._result.lost
        if lost and lost[-1].file == self._path and lost[-1].position >= kept.position:
            lost.pop()
        self._position, self._copied_bytes, self._next_offset = kept
        self._kept = None
        self.batches -= 1

    def _note_lost(self, position: int, next_offset: int | None, problem: str = "") -> None:
        size = position - self._position
        if size <= 0:
            return
        first: int | None = self._next_offset
        last = None if next_offset is None else next_offset - 1
        if last is not None and last < self._next_offset:
            first = last = None
        self._result.lost.append(LostRange(self._path, self._position, size, first, last, problem))

    def finish(self, problem: str) -> None:
        """Add what follows the last copied batch to the lost ranges, unless it is zeros of a preallocated file, and the
        totals to the result. `problem`: why the segment could not be read further, empty if it could."""
        try:
            with SegmentFile(self._path) as file:
                if problem or not all(map(is_zero, _chunks(file, self._position))):
                    self._note_lost(file.size, None, problem)
        except OSError:
            self._result.lost.append(LostRange(self._path, 0, 0, self._next_offset, None, problem))
        self._result.batches += self.batches
        self._result.size_bytes += self._copied_bytes
        if self.batches:
            self._result.end_offset = self._next_offset


def _chunks(file: SegmentFile, position: int) -> Iterator[bytes]:
    while position < file.size:
        yield bytes(file.view(position, _CHUNK_BYTES))
        position += _CHUNK_BYTES
