"""Read runs of whole batches from one segment, and find batches by offset or timestamp.

A run is a copy, so its records stay valid while the next run is read. Each batch is checked before it is handed out:
magic, size, offsets and checksum. A run ends before damage; the next read reports the damage with its position and with
the position of the next valid batch. The bytes after the last whole batch of a log are its end, not damage.
"""

from __future__ import annotations

import os
import zlib
from array import array
from collections.abc import Callable, Iterator
from typing import NamedTuple

from kafkatools.core.errors import KafkaError
from kafkatools.core.log.dump.batch_headers import LARGEST_IN_MEMORY
from kafkatools.core.log.dump.resync import next_valid_batch
from kafkatools.core.log.dump.segment_file import SegmentFile, is_zero, open_regular_file
from kafkatools.core.log.reading.directories import SegmentPath, UnreadableLog
from kafkatools.core.log.reading.header_columns import (
    ATTRIBUTES,
    BASE_OFFSET,
    BASE_TIMESTAMP,
    CRC,
    LAST_DELTA,
    MAGIC,
    MAX_TIMESTAMP,
    POSITION,
    SIZE,
    WIDTH,
)
from kafkatools.core.log.reading.segment_indexes import SegmentIndexes
from kafkatools.core.records import kernel
from kafkatools.core.records.batch import batch_at
from kafkatools.core.records.crc import crc32c
from kafkatools.core.records.header import BatchHeader, read_header, wrong_checksum
from kafkatools.core.records.layout import (
    ATTRIBUTES_OFFSET,
    HEADER_SIZE,
    HEADER_SIZE_UP_TO_MAGIC,
    LEGACY_CRC_START,
    LOG_OVERHEAD,
    SMALLEST_OVERHEAD,
    TIMESTAMP_TYPE_BIT,
)

CHUNK_BYTES = 1 << 20
_LOOKUP_BYTES = 1 << 16
_ROWS = 4096
_LARGEST_DELTA = (1 << 31) - 1
_LEGACY_TIMESTAMP = 18
_LEGACY_LEAST = LOG_OVERHEAD + SMALLEST_OVERHEAD


class SegmentReplaced(KafkaError, name="SEGMENT_REPLACED"):
    """A running broker has deleted the file of a segment, or replaced it with a cleaned one."""


class Damage(NamedTuple):
    """Bytes of a segment that are no valid batch, from `position` up to the next valid batch at `resume_at`, whose
    first offset is `next_offset`."""

    path: str
    position: int
    cause: str
    resume_at: int
    next_offset: int


class Run(NamedTuple):
    """Consecutive whole batches: their bytes, the position of these in the segment, and the rows of their headers (see
    kernel.scan_batches), with positions relative to `data`."""

    data: memoryview
    position: int
    table: array[int]
    rows: int

    @property
    def end(self) -> int:
        """The position after the last batch."""
        if not self.rows:
            return self.position
        last = (self.rows - 1) * WIDTH
        return self.position + self.table[last] + self.table[last + SIZE]

    @property
    def next_offset(self) -> int:
        """The offset after the last batch; the run must not be empty."""
        last = (self.rows - 1) * WIDTH
        return self.table[last + BASE_OFFSET] + self.table[last + LAST_DELTA] + 1

    def headers(self) -> Iterator[array[int]]:
        """Yield the header of each batch."""
        for start in range(0, self.rows * WIDTH, WIDTH):
            yield self.table[start : start + WIDTH]

    def first(self, rows: int) -> Run:
        """Return the run of the first batches only."""
        return self._replace(data=self.data[: self._replace(rows=rows).end - self.position], rows=rows)


class LogEnd(NamedTuple):
    """The offset after the last record of a segment, the position after its last batch, and the number of bytes behind
    it that are no batch, without zeros."""

    offset: int
    position: int
    trailing_bytes: int


class SegmentReader:
    """Reads one segment, whose offsets are below `next_base_offset`. Opens the file for each read and keeps no
    descriptor. The methods raise UnreadableLog for a file that became shorter, OSError."""

    def __init__(self, segment: SegmentPath, next_base_offset: int, note: Callable[[str], None] | None = None) -> None:
        self.path = segment.path
        self.base_offset = segment.base_offset
        status = os.stat(segment.path)
        self.size_bytes = status.st_size
        self._inode = status.st_ino
        self._limit = min(next_base_offset, segment.base_offset + _LARGEST_DELTA + 1)
        self._note = note
        self._indexes = SegmentIndexes(segment)
        self._noted: set[str] = set()
        self._table = array("q", bytes(8 * WIDTH * _ROWS))
        self._status = array("q", bytes(8 * kernel.STATUS_SIZE))

    # --- runs of batches

    def run(self, position: int, expected_offset: int, chunk_bytes: int = CHUNK_BYTES) -> Run | Damage | None:
        """Return the valid batches from a position on, about `chunk_bytes` and at least one; None at the end of the
        segment. `expected_offset`: the offset after the previous batch. Damage is returned when it comes first."""
        run = self._scan(position, chunk_bytes)
        sound, cause = self._sound_rows(run, expected_offset)
        if sound:
            return run.first(sound)
        if not run.rows and self._is_end(position):
            return None
        return self._damage(position, cause or self._cause(position), expected_offset)

    def headers(self, position: int, chunk_bytes: int = CHUNK_BYTES) -> Iterator[tuple[int, array[int]]]:
        """Yield position and header of each batch, without a check of the records. Continues after damage at the next
        valid batch."""
        while True:
            run = self._scan(position, chunk_bytes)
            for header in run.headers():
                if not self._is_plausible(header):
                    run = run._replace(rows=0)
                    position += header[POSITION]
                    break
                yield run.position + header[POSITION], header
            if not run.rows:
                resume_at = -1 if self._is_end(position) else self._next_valid(position + 1)
                if resume_at < 0:
                    return
                position = resume_at
            else:
                position = run.end

    def _scan(self, position: int, chunk_bytes: int) -> Run:
        data = self.read(position, min(chunk_bytes, self.size_bytes - position))
        rows = kernel.scan_batches(data, 0, len(data), self._table, self._status)
        if not rows and len(data) >= LOG_OVERHEAD:
            size = int.from_bytes(data[8:LOG_OVERHEAD], "big", signed=True) + LOG_OVERHEAD
            is_longer = len(data) < size <= self.size_bytes - position
            if is_longer and (size <= LARGEST_IN_MEMORY or self._has_right_checksum(position, size)):
                data = self.read(position, size)
                rows = kernel.scan_batches(data, 0, len(data), self._table, self._status)
        run = Run(memoryview(data), position, self._table[: rows * WIDTH], rows)
        if rows and min(run.table[MAGIC::WIDTH]) < 2:
            _complete_legacy(run)
        return run._replace(data=run.data[: run.end - position])

    def read(self, position: int, size: int) -> bytes:
        """Return bytes of the file. Raises SegmentReplaced, and UnreadableLog if it has become shorter."""
        try:
            descriptor = open_regular_file(self.path)
        except FileNotFoundError:
            raise SegmentReplaced(f"{self.path} was deleted while it was read") from None
        try:
            if os.fstat(descriptor).st_ino != self._inode:
                raise SegmentReplaced(f"{self.path} was replaced while it was read")
            data = os.pread(descriptor, max(size, 0), position)
            while len(data) < size:
                more = os.pread(descriptor, size - len(data), position + len(data))
                if not more:
                    actual = os.fstat(descriptor).st_size
                    raise UnreadableLog(
                        f"{self.path} was cut from {self.size_bytes} to {actual} bytes while it was read"
                    )
                data += more
        finally:
            os.close(descriptor)
        return data

    def _sound_rows(self, run: Run, expected_offset: int) -> tuple[int, str]:
        """Return the number of valid batches at the start of a run, and what is wrong with the next one."""
        columns = (run.table[column::WIDTH] for column in (POSITION, BASE_OFFSET, SIZE, MAGIC, CRC, LAST_DELTA))
        data, next_offset, limit = run.data, expected_offset, self._limit
        for row, (position, first, size, magic, crc, delta) in enumerate(zip(*columns, strict=True)):
            if magic != 2 or size < HEADER_SIZE:
                problem = _legacy_problem(data[position : position + size], magic)
            else:
                computed = crc32c(data[position + ATTRIBUTES_OFFSET : position + size])
                problem = "" if computed == crc else wrong_checksum(crc, computed)
            if not problem and not (next_offset <= first <= first + delta < limit):
                problem = f"its offsets {first} to {first + delta} are not between {next_offset} and {limit - 1}"
            if problem:
                return row, problem
            next_offset = first + delta + 1
        return run.rows, ""

    def _is_plausible(self, header: array[int]) -> bool:
        magic, first, delta = header[MAGIC], header[BASE_OFFSET], header[LAST_DELTA]
        is_known = magic == 2 and header[SIZE] >= HEADER_SIZE or magic in (0, 1)
        return is_known and self.base_offset <= first <= first + delta < self._limit

    def _is_end(self, position: int) -> bool:
        """Return whether no batch follows and the rest of the file is empty or zero: preallocated space."""
        while position < self.size_bytes:
            chunk = self.read(position, min(CHUNK_BYTES, self.size_bytes - position))
            if not is_zero(chunk):
                return False
            position += len(chunk)
        return True

    # --- damage

    def _damage(self, position: int, cause: str, expected_offset: int) -> Damage:
        header = self.read(position, min(LOG_OVERHEAD, self.size_bytes - position))
        size = int.from_bytes(header[8:], "big", signed=True) + LOG_OVERHEAD
        behind = position + size
        if size > LOG_OVERHEAD and behind < self.size_bytes and self._next_valid(behind, behind + 1) == behind:
            resume_at = behind
        else:
            resume_at = self._next_valid(position + 1)
        if resume_at < 0:
            return Damage(self.path, position, cause, self.size_bytes, max(expected_offset, self._stated_end(position)))
        first = int.from_bytes(self.read(resume_at, 8), "big", signed=True)
        if not expected_offset <= first < self._limit:
            first = expected_offset
        return Damage(self.path, position, cause, resume_at, first)

    def _stated_end(self, position: int) -> int:
        """Return the offset after a damaged batch by its header, -1 if that is impossible."""
        run = self._scan(position, _LOOKUP_BYTES)
        return run.first(1).next_offset if run.rows and self._is_plausible(run.table[:WIDTH]) else -1

    def _next_valid(self, position: int, before: int | None = None) -> int:
        with SegmentFile(self.path) as file:
            end = min(self.size_bytes, file.size)
            newest = next_valid_batch(file, position, end, before=before)
            if self._is_legacy():
                older = next_valid_batch(file, position, end, legacy=True, before=newest if newest >= 0 else before)
                return older if older >= 0 else newest
        return newest

    def _is_legacy(self) -> bool:
        """Return whether the segment begins with a batch of magic 0 or 1."""
        start = self.read(0, min(HEADER_SIZE_UP_TO_MAGIC, self.size_bytes))
        return len(start) == HEADER_SIZE_UP_TO_MAGIC and start[-1] < 2

    def _cause(self, position: int) -> str:
        remaining = self.size_bytes - position
        if remaining <= HEADER_SIZE_UP_TO_MAGIC:
            return f"{remaining} bytes of an incomplete batch"
        size = int.from_bytes(self.read(position, LOG_OVERHEAD)[8:], "big", signed=True)
        if size < SMALLEST_OVERHEAD:
            return f"Found record size {size} smaller than minimum record overhead ({SMALLEST_OVERHEAD})"
        return f"{remaining} of {size + LOG_OVERHEAD} bytes of a batch are there"

    def _has_right_checksum(self, position: int, size: int) -> bool:
        """Return whether a very large batch has the right checksum; such a length is mostly damage."""
        crc = int.from_bytes(self.read(position, ATTRIBUTES_OFFSET)[17:], "big")
        with SegmentFile(self.path) as file:
            return file.checksum(position + ATTRIBUTES_OFFSET, size - ATTRIBUTES_OFFSET, crc32c) == crc

    # --- lookups

    def position_of(self, offset: int) -> int:
        """Return the position of the first batch whose last offset is at or above `offset`, the size of the file
        without one."""
        for position, header in self.headers(self._indexed_position(offset), _LOOKUP_BYTES):
            if header[BASE_OFFSET] + header[LAST_DELTA] >= offset:
                return position
        return self.size_bytes

    def extent(self, position: int) -> tuple[int, int, int] | None:
        """Return first offset, last offset and size of the batch at a position, None at the end of the file."""
        header = self._header_at(position)
        if header is None:
            return None
        return self._first_offset(position, header), header.last_offset, header.size_bytes

    def _indexed_position(self, offset: int) -> int:
        """Return where a search for an offset may start, by the offset index; 0 if that is missing or wrong."""
        entry = self._indexes.position_of(offset)
        if entry is None or not entry.position:
            self._note_missing_index(offset)
            return 0
        header = self._header_at(entry.position)
        if header is None or not self._first_offset(entry.position, header) <= entry.offset <= header.last_offset:
            self._report(f"{self._indexes.offsets.path} does not fit its segment: searched without it")
            return 0
        return entry.position

    def _first_offset(self, position: int, header: BatchHeader) -> int:
        """Return the first offset of a batch. The header of a compressed message of magic 0 or 1 has the last one, and
        an index that an old broker wrote has the first one."""
        if header.magic >= 2 or not header.codec:
            return header.base_offset
        try:
            return batch_at(self.read(position, header.size_bytes), 0).columns().offsets[0]
        except (KafkaError, IndexError):
            return header.base_offset

    def _note_missing_index(self, offset: int) -> None:
        if self._indexes.offsets.is_missing and offset > self.base_offset and self.size_bytes > _LOOKUP_BYTES:
            self._report(f"{self._indexes.offsets.path} is missing: searched without it")

    def _report(self, line: str) -> None:
        if self._note is not None and line not in self._noted:
            self._noted.add(line)
            self._note(line)

    def _header_at(self, position: int) -> BatchHeader | None:
        """Return the header at a position of an index entry, None if no batch begins there."""
        if not 0 <= position < self.size_bytes - HEADER_SIZE_UP_TO_MAGIC:
            return None
        try:
            header = read_header(self.read(position, min(HEADER_SIZE, self.size_bytes - position)))
        except (KafkaError, ValueError):
            return None
        return header if header.size_bytes <= self.size_bytes - position else None

    def log_end(self) -> LogEnd:
        """Return where the segment ends. Damage before the last valid batch is ignored."""
        entry = self._indexes.last_position()
        start = 0
        if entry is not None:
            start = self._indexed_position(entry.offset)
        else:
            self._note_missing_index(self._limit)
        offset, end = self.base_offset, start
        for position, header in self.headers(start):
            offset = max(offset, header[BASE_OFFSET] + header[LAST_DELTA] + 1)
            end = position + header[SIZE]
        trailing = 0 if self._is_end(end) else self.size_bytes - end
        return LogEnd(offset, end, trailing)

    def newest_timestamp(self) -> int:
        """Return the newest timestamp (ms) of a record, by the time index and the headers of the batches behind its
        last entry; -1 without one."""
        entry = self._indexes.newest()
        start, newest = 0, -1
        if entry is not None and self._is_right(entry.timestamp, entry.offset):
            start, newest = self._indexed_position(entry.offset), entry.timestamp
        for _, header in self.headers(start):
            newest = max(newest, header[MAX_TIMESTAMP])
        return newest

    def late_batches_before(self, timestamp: int, position: int) -> int:
        """Return the offset after the last batch from a position on that has a record older than `timestamp` (ms) by
        its first or newest timestamp; -1 without such a batch."""
        offset = -1
        for _, header in self.headers(position):
            is_created = header[MAGIC] == 2 and not header[ATTRIBUTES] & TIMESTAMP_TYPE_BIT
            oldest = min(header[BASE_TIMESTAMP], header[MAX_TIMESTAMP]) if is_created else header[MAX_TIMESTAMP]
            if oldest < timestamp:
                offset = header[BASE_OFFSET] + header[LAST_DELTA] + 1
        return offset

    def batches_from_time(self, timestamp: int) -> Iterator[memoryview]:
        """Yield the batches whose newest timestamp is at or after `timestamp` (ms), from the first one on."""
        entry = self._indexes.before_time(timestamp)
        is_right = entry is not None and self._is_right(entry.timestamp, entry.offset)
        for position, header in self.headers(self._indexed_position(entry.offset) if entry and is_right else 0):
            if header[MAX_TIMESTAMP] >= timestamp:
                yield memoryview(self.read(position, header[SIZE]))

    def _is_right(self, timestamp: int, offset: int) -> bool:
        """Return whether the batch with an offset of the time index has its timestamp."""
        position = self.position_of(offset)
        header = self._header_at(position)
        if header is not None and header.max_timestamp == timestamp:
            return True
        self._report(f"{self._indexes.times.path} does not fit its segment: searched without it")
        return False


def _legacy_problem(message: memoryview, magic: int) -> str:
    """Return what is wrong with a message of magic 0 or 1, or with an invalid header; empty if nothing is."""
    if magic not in (0, 1):
        return f"Invalid magic found in record: {magic}" if magic != 2 else f"a batch of {len(message)} bytes"
    if len(message) < _LEGACY_LEAST:
        return f"a message of {len(message)} bytes, less than {_LEGACY_LEAST}"
    stored = int.from_bytes(message[LEGACY_CRC_START - 4 : LEGACY_CRC_START], "big")
    computed = zlib.crc32(message[LEGACY_CRC_START:])
    return "" if computed == stored else wrong_checksum(stored, computed)


def _complete_legacy(run: Run) -> None:
    """Write attributes and timestamps into the headers of messages of magic 0 and 1; -1 without a timestamp."""
    for start in range(0, run.rows * WIDTH, WIDTH):
        position, magic = run.table[start], run.table[start + MAGIC]
        if magic in (0, 1):
            timestamp = -1
            if magic and run.table[start + SIZE] >= _LEGACY_TIMESTAMP + 8:
                at = position + _LEGACY_TIMESTAMP
                timestamp = int.from_bytes(run.data[at : at + 8], "big", signed=True)
            run.table[start + ATTRIBUTES] = run.data[position + HEADER_SIZE_UP_TO_MAGIC]
            run.table[start + BASE_TIMESTAMP] = run.table[start + MAX_TIMESTAMP] = timestamp
