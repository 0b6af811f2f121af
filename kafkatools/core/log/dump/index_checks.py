"""Compare indexes with their log, entry by entry, as DumpLogSegments does.

Each check yields one `CheckedEntry` per index entry; `problem` is set where Kafka's tool would end. The check of a time
index walks over each batch header of the log once, however many entries there are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from kafkatools.core.log.dump.batch_headers import LegacyHeader, V2Header, next_batch
from kafkatools.core.log.dump.damage import Damage
from kafkatools.core.log.dump.index_files import OffsetIndexFile, TimeIndexFile
from kafkatools.core.log.dump.records import records_of
from kafkatools.core.log.dump.segment_file import SegmentFile

END_OF_FILES = 2147483647
NO_BATCH = -1


@dataclass
class CheckedEntry:
    """An index entry and the log's values for it. `first` and `second` are the entry's numbers: offset and position, or
    timestamp and offset."""

    first: int
    second: int
    log_offset: int | None = None
    """Offset index: the last offset of the batch at the position. Time index: the last offset of the batch found."""
    is_harmless: bool = False
    """A difference that older versions of Kafka and log compaction leave behind."""
    largest_timestamp: int | None = None
    problem: Damage | None = None


def slice_end(file: SegmentFile, position: int, size: int, log_path: str) -> int:
    """Return the end position of a log slice. Raises Damage if it is outside the log (FileRecords.availableBytes)."""
    file_text = f"FileRecords(size={file.size}, file={log_path}, start=0, end={END_OF_FILES})"
    if position < 0:
        raise Damage(f"Invalid position: {position} in read from {file_text}")
    if position > file.size:
        raise Damage(f"Slice from position {position} exceeds end position of {file_text}")
    if size < 0:
        raise Damage(f"Invalid size: {size} in read from {file_text}")
    return min(position + size, file.size)


def check_offset_index(
    index: OffsetIndexFile, log: SegmentFile, log_path: str, max_message_size: int
) -> Iterator[CheckedEntry]:
    """Yield every entry before the first zero entry, with the last offset of the batch at its position. `problem` is
    set where no batch can be read. At most `max_message_size` bytes are read at a position."""
    for number, (offset, position) in enumerate(index.entries):
        if offset == index.base_offset and number > 0:
            return
        entry = CheckedEntry(offset, position)
        try:
            end = slice_end(log, position, max_message_size, log_path)
            batch = next_batch(log, position, end, log_path)
            if batch is None:
                raise Damage("no whole batch begins at this position of the log", position)
            entry.log_offset = batch.last_offset
            entry.is_harmless = not isinstance(batch, V2Header) and bool(batch.codec) and offset < batch.last_offset
        except Damage as problem:
            entry.problem = problem
        yield entry


class BatchChain:
    """The batches of a log from any position on; each header is read once and then remembered."""

    def __init__(self, log: SegmentFile, log_path: str) -> None:
        self._log = log
        self._log_path = log_path
        self._next: dict[int, tuple[int, int] | None] = {}
        self._ends: dict[int, Damage | None] = {}

    def _step(self, position: int) -> tuple[int, int] | None:
        """Return the last offset of the batch and the position of the next one, None at the end. Raises Damage."""
        if position not in self._next:
            batch = next_batch(self._log, position, self._log.size, self._log_path)
            self._next[position] = None if batch is None else (batch.last_offset, position + batch.size_bytes)
        return self._next[position]

    def find(self, position: int, offset: int) -> tuple[int, int]:
        """Return position and last offset of the first batch from `position` on that reaches `offset`, (-1, -1) when
        there is none. Raises Damage."""
        while (step := self._step(position)) is not None:
            if step[0] >= offset:
                return position, step[0]
            position = step[1]
        return NO_BATCH, -1

    def ensure_readable(self, position: int) -> None:
        """Raise the Damage that ends the chain of batches from `position` on, if there is any."""
        positions = []
        problem: Damage | None = None
        while position not in self._ends:
            positions.append(position)
            try:
                step = self._step(position)
            except Damage as damage:
                problem = damage
                break
            if step is None:
                break
            position = step[1]
        else:
            problem = self._ends[position]
        for earlier in positions:
            self._ends[earlier] = problem
        if problem is not None:
            raise problem


def check_time_index(
    times: TimeIndexFile, offsets: OffsetIndexFile, log: SegmentFile, log_path: str
) -> Iterator[CheckedEntry]:
    """Yield every entry before the first zero entry. `found` is the last offset of the first batch that reaches the
    entry's offset, -1 without one. If it is the entry's offset, `largest_timestamp` is that of the batch. `problem` is
    set where the log cannot be read."""
    chain = BatchChain(log, log_path)
    for number, (timestamp, offset) in enumerate(times.entries):
        if offset == times.base_offset and number > 0:
            return
        entry = CheckedEntry(timestamp, offset)
        try:
            start = offsets.lookup(offset)
            slice_end(log, start, END_OF_FILES, log_path)
            chain.ensure_readable(start)
            position, last_offset = chain.find(start, offset)
            entry.log_offset = last_offset
            if last_offset == offset and position != NO_BATCH:
                entry.largest_timestamp, entry.is_harmless = _largest_timestamp(log, position, log_path)
        except Damage as problem:
            entry.problem = problem
        yield entry


def _largest_timestamp(log: SegmentFile, position: int, log_path: str) -> tuple[int, bool]:
    """Return the largest record timestamp of a batch in ms, and True if a difference is harmless. It is for batches
    emptied by compaction, and for messages of magic 0, which have no timestamp. Raises Damage."""
    batch = next_batch(log, position, log.size, log_path)
    largest = -1
    count = 0
    for record in records_of(batch) if batch is not None else ():
        largest = max(largest, record.timestamp)
        count += 1
    return largest, count == 0 or (isinstance(batch, LegacyHeader) and batch.magic == 0)
