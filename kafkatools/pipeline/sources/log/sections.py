"""Walk through a byte range of a segment: sections of valid batches, and the damage between them.

Batches are located by their headers, a window at a time, and accepted if their checksum is valid. Other bytes are
reported as `Damage`. The walk continues at the next valid batch, as `kt dump-log` does: after the damaged one, or
inside it if only its length was wrong.
"""

from __future__ import annotations

import zlib
from array import array
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from kafkatools.core.log.dump.batch_headers import LARGEST_IN_MEMORY
from kafkatools.core.log.dump.resync import next_valid_batch
from kafkatools.core.log.dump.segment_file import SegmentFile
from kafkatools.core.log.reading import header_columns
from kafkatools.core.records import kernel
from kafkatools.core.records.crc import crc32c
from kafkatools.core.records.layout import HEADER_SIZE, HEADER_SIZE_UP_TO_MAGIC, LOG_OVERHEAD, SMALLEST_OVERHEAD
from kafkatools.pipeline.run import reports
from kafkatools.pipeline.run.reports import Damage

Longs = npt.NDArray[np.int64]
ROWS = 4096
_STEP = 1 << 20
WIDTH = header_columns.WIDTH
KNOWN_ATTRIBUTES, LARGEST_OFFSET_GAP = header_columns.KNOWN_ATTRIBUTES, header_columns.LARGEST_OFFSET_GAP
# Columns of the table of headers.
POSITION, BASE_OFFSET, SIZE, MAGIC, LEADER_EPOCH, CRC, ATTRIBUTES, LAST_DELTA = range(8)
BASE_TIMESTAMP, MAX_TIMESTAMP, PRODUCER_ID, PRODUCER_EPOCH, BASE_SEQUENCE, COUNT = range(8, 14)


class Section(NamedTuple):
    """Consecutive batches: their bytes, the file position of these bytes, and the header table with `rows` valid rows.
    The buffers are reused for the next section."""

    window: memoryview
    origin: int
    table: array[int]
    rows: int

    @property
    def headers(self) -> Longs:
        """The header table as a matrix with one row for each batch."""
        return np.frombuffer(self.table, np.int64).reshape(-1, WIDTH)[: self.rows]

    def batch(self, row: int) -> memoryview:
        """Return the bytes of the batch in a row of the header table."""
        position, size = self.table[row * WIDTH], self.table[row * WIDTH + SIZE]
        return self.window[position : position + size]


class SectionWalk:
    """Iterates over the batches of a segment from byte `start` to `end`, where a batch begins or the file ends.
    `is_relevant(headers)` returns a mask of the batches whose checksums are verified; None means all. Without `checks`
    none are, and headers are trusted as long as they lead to a next header. Damage is passed to `report`.

    An unverified batch may have a wrong length. The bytes after it are then not a header, which shows by offsets, magic
    or attributes, or because no header follows. Such a suspicious header and the batch before it are verified.
    """

    def __init__(
        self, file: SegmentFile, start: int, end: int, report: Callable[[Damage], None], *,
        is_relevant: Callable[[Longs], npt.NDArray[np.bool_]] | None = None, checks: bool = True,
    ) -> None:  # fmt: skip
        self._file = file
        self._position = start
        self._end = min(end, file.size)
        self._missing = end - self._end
        self._report = report
        self._is_relevant = is_relevant
        self._checks = checks
        self._is_legacy: bool | None = None  # unknown before the first valid batch
        self._last = (-1, -1, -1)
        self._table = array("q", bytes(8 * WIDTH * ROWS))
        self._status = array("q", bytes(8 * kernel.STATUS_SIZE))

    def sections(self) -> Iterator[Section]:
        """Yield sections of consecutive batches in file order, each to be used before the next is requested. Bytes
        between them, and bytes that the file has lost since the query began, are reported as damage."""
        while self._position < self._end:
            window = self._window()
            rows = kernel.scan_batches(window, 0, len(window), self._table, self._status)
            if rows == 0:
                self._go_on(*self._misleading_batch() or self._stuck())
                continue
            section = Section(window, self._position, self._table, rows)
            odd = self._odd(section.headers) if self._is_relevant is not None else np.zeros(rows, np.bool_)
            if odd[0]:
                if (problem := self._misleading_batch()) is not None:
                    self._go_on(*problem)
                    continue
                # verifying the batch before this window may have overwritten the window
                section = section._replace(window=self._file.view(self._position, len(window)))
            sound = self._sound_rows(section, odd)
            next_position = self._position + self._status[kernel.STATUS_POSITION]
            wrong = self._wrong(section, sound) if sound < rows else None
            if sound:
                self._is_legacy = self._table[(sound - 1) * WIDTH + MAGIC] < 2
                self._remember(section, sound)
                yield section._replace(rows=sound)
            if wrong is not None:
                self._go_on(*wrong)
            else:
                self._position = next_position
        if self._missing > 0:
            reason = f"the file is {self._missing} bytes shorter than when the query began"
            self._report(Damage(self._file.path, self._end, self._missing, reports.TRUNCATED, reason))

    def _window(self) -> memoryview:
        """Return the bytes to scan next: at least one whole batch, unless its size is implausible."""
        remaining = self._end - self._position
        window = self._file.window(self._position, min(HEADER_SIZE, remaining))
        if len(window) >= LOG_OVERHEAD:
            size = int.from_bytes(window[8:LOG_OVERHEAD], "big", signed=True) + LOG_OVERHEAD
            if len(window) < size <= remaining and (size <= LARGEST_IN_MEMORY or self._is_true(size)):
                window = self._file.window(self._position, size)
        return window[:remaining]

    def _is_true(self, size: int) -> bool:
        """Return whether a very large batch has a valid checksum; such a length is mostly damage."""
        crc = int.from_bytes(self._file.view(self._position, HEADER_SIZE)[17:21], "big")
        return self._file.checksum(self._position + 21, size - 21, crc32c) == crc

    # -- valid batches --

    def _odd(self, headers: Longs) -> npt.NDArray[np.bool_]:
        """Return a mask of headers that do not look like the successor of the previous batch."""
        first, magic = headers[:, BASE_OFFSET], headers[:, MAGIC]
        last = first + headers[:, LAST_DELTA]
        before = np.concatenate((np.array([self._last[1]], np.int64), last[:-1]))
        odd: npt.NDArray[np.bool_] = (first <= before) | (first - before > LARGEST_OFFSET_GAP) | (last < first)
        odd |= headers[:, ATTRIBUTES] & ~KNOWN_ATTRIBUTES != 0
        odd |= magic != np.concatenate((np.array([self._last[2]], np.int64), magic[:-1]))
        return odd

    def _remember(self, section: Section, rows: int) -> None:
        row = section.headers[rows - 1]
        self._last = section.origin + int(row[POSITION]), int(row[BASE_OFFSET] + row[LAST_DELTA]), int(row[MAGIC])

    def _misleading_batch(self) -> tuple[str, str, int, int] | None:
        """Verify the batch before this position. If its checksum is wrong, so that its length led here, return its
        damage; else None. The batch is verified at most once."""
        start = self._last[0]
        if start < 0 or self._is_relevant is None or not self._checks:
            return None
        size = int.from_bytes(self._file.view(start, LOG_OVERHEAD)[8:], "big", signed=True) + LOG_OVERHEAD
        batch = self._file.view(start, size)
        self._last = (-1, -1, -1)
        if _is_sound(batch):
            return None
        return reports.CHECKSUM, _corrupt(batch), start + 1, self._end

    def _sound_rows(self, section: Section, odd: npt.NDArray[np.bool_]) -> int:
        """Return the number of batches before the first damaged one. Magic and size are checked in each header,
        checksums as `checks` and `is_relevant` say and around headers in the mask `odd`."""
        headers = section.headers
        magics = headers[:, MAGIC]
        is_plausible = (magics == 2) & (headers[:, SIZE] >= HEADER_SIZE) | (magics == 0) | (magics == 1)
        stop = section.rows if is_plausible.all() else int(np.argmin(is_plausible))
        if not self._checks:
            return stop
        if stop and magics[:stop].min() < 2:
            return next((row for row in range(stop) if not _is_sound(section.batch(row))), stop)
        rows = headers[:stop]
        if self._is_relevant is not None:
            odd[:-1] |= odd[1:]
            rows = rows[self._is_relevant(rows) | odd[:stop]]
        window = section.window
        for position, size, crc in rows[:, (POSITION, SIZE, CRC)].tolist():
            if crc32c(window[position + 21 : position + size]) != crc:
                return int(np.searchsorted(headers[:, POSITION], position))
        return stop

    # -- damage --

    def _go_on(self, kind: str, reason: str, start: int, before: int) -> None:
        """Report damage and continue at the next valid batch at or after `start`; if there is none before `before`,
        continue at `before`."""
        position = start - 1
        self._last = (-1, -1, -1)
        resume_at = self._next_valid(start, before)
        if resume_at < 0:
            resume_at = before
        elif kind == reports.TRUNCATED:
            kind, reason = reports.SIZE, "the batch does not fit before the next valid one"
        self._position = resume_at
        self._report(Damage(self._file.path, position, resume_at - position, kind, reason))

    def _next_valid(self, start: int, before: int) -> int:
        position = next_valid_batch(self._file, start, self._end, legacy=self._is_legacy is True, before=before)
        if self._is_legacy:  # after an upgrade of the message format, the log continues with magic 2
            newer = next_valid_batch(self._file, start, self._end, before=position if position >= 0 else before)
            position = newer if newer >= 0 else position
        elif self._is_legacy is None and position < 0:
            start = max(start, self._behind_zeros(start, before) - LOG_OVERHEAD)
            position = next_valid_batch(self._file, start, self._end, legacy=True, before=before)
        return position

    def _behind_zeros(self, start: int, before: int) -> int:
        """Return the position of the first non-zero byte from `start` on; `before` if all bytes up to there are zero. A
        message of magic 0 could begin at any of the zeros."""
        while start < before:
            chunk = bytes(self._file.view(start, min(_STEP, before - start)))
            remaining = chunk.lstrip(b"\0")
            if remaining or not chunk:
                return start + len(chunk) - len(remaining)
            start += len(chunk)
        return before

    def _stuck(self) -> tuple[str, str, int, int]:
        """Describe why no batch begins here, and return the byte range in which to search for the next."""
        remaining = self._end - self._position
        start = self._position + 1
        if self._status[kernel.STATUS_REASON] == kernel.SCAN_TOO_SMALL:
            size = int.from_bytes(self._file.view(self._position, LOG_OVERHEAD)[8:], "big", signed=True)
            reason = f"Found record size {size} smaller than minimum record overhead ({SMALLEST_OVERHEAD})"
            return reports.SIZE, reason, start, self._end
        if self._end < self._file.size:
            return reports.SIZE, "the batch does not fit before the next valid one", start, self._end
        if remaining <= HEADER_SIZE_UP_TO_MAGIC:
            return reports.TRUNCATED, f"the log ends with {remaining} bytes of an incomplete batch", start, self._end
        size = int.from_bytes(self._file.view(self._position, LOG_OVERHEAD)[8:], "big", signed=True) + LOG_OVERHEAD
        reason = f"the log ends within a batch: {remaining} of {size} bytes are present"
        return reports.TRUNCATED, reason, start, self._end

    def _wrong(self, section: Section, row: int) -> tuple[str, str, int, int]:
        """Describe the damage of a batch, and return the byte range in which another batch may be hidden."""
        batch = section.batch(row)
        magic = section.table[row * WIDTH + MAGIC]
        start = section.origin + section.table[row * WIDTH]
        before = start + len(batch)
        if magic not in (0, 1, 2):
            return reports.MAGIC, f"Invalid magic found in record: {magic}", start + 1, before
        if magic == 2 and len(batch) < HEADER_SIZE:
            reason = (
                f"Record batch is corrupt (the size {len(batch)} is smaller than the minimum allowed "
                f"overhead {HEADER_SIZE})"
            )
            return reports.CHECKSUM, reason, start + 1, before
        return reports.CHECKSUM, _corrupt(batch), start + 1, before


def _checksums(batch: memoryview) -> tuple[int, int]:
    if batch[16] < 2:
        return int.from_bytes(batch[12:16], "big"), zlib.crc32(batch[16:])
    return int.from_bytes(batch[17:21], "big"), crc32c(batch[21:])


def _corrupt(batch: memoryview) -> str:
    stored, computed = _checksums(batch)
    return f"Record is corrupt (stored crc = {stored}, computed crc = {computed})"


def _is_sound(batch: memoryview) -> bool:
    stored, computed = _checksums(batch)
    return stored == computed and (batch[16] == 2 or len(batch) >= LOG_OVERHEAD + SMALLEST_OVERHEAD)
