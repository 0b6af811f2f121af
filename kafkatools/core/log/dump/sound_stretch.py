"""The fast path of the dump: format windows of valid batches with the record kernels.

The output is the same as that of the slow path. Any batch that is not ordinary (damage, control records, magic 0 and 1,
names or values that are not UTF-8) is left to the slow path, by returning its position.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable

from kafkatools.core.errors import KafkaError
from kafkatools.core.log.dump.batch_headers import LARGEST_IN_MEMORY
from kafkatools.core.log.dump.gaps import GapFinder
from kafkatools.core.log.dump.options import DumpOptions
from kafkatools.core.log.dump.segment_file import WINDOW_BYTES, SegmentFile
from kafkatools.core.log.dump.segment_limits import UNLIMITED, SegmentLimits
from kafkatools.core.records import _dump_kernel as dump_kernel
from kafkatools.core.records import kernel
from kafkatools.core.records.crc import crc32c
from kafkatools.core.records.layout import HEADER_SIZE, LOG_OVERHEAD

_ROWS = 4096
_GAPS = 1024
_SIZE = struct.Struct(">i")
_CONTROL = 0x20
_CODEC = 7
_APPEND_TIME = 8


class SoundStretch:
    """Writes the dump lines of valid batches of one file from a position on. `write` takes bytes."""

    def __init__(
        self,
        file: SegmentFile,
        end: int,
        options: DumpOptions,
        gaps: GapFinder,
        write: Callable[[bytes | memoryview], object],
        limits: SegmentLimits = UNLIMITED,
    ) -> None:
        self._limits = limits
        self._file = file
        self._end = end
        self._write = write
        rows = min(_ROWS, file.size // HEADER_SIZE + 1)
        self._table = array("q", bytes(8 * kernel.HEADER_WIDTH * rows))
        self._status = array("q", bytes(8 * kernel.STATUS_SIZE))
        self._target = bytearray()
        self._records = RecordLines(options, gaps) if options.deep else None

    def forward(self, position: int, state: array[int]) -> int:
        """Write the lines of batches from a position on, until one is not ordinary or the log ends. Return the position
        after them. `state` (next offset, leader epoch) is moved to that batch."""
        while True:
            window = self._window(position)
            rows = kernel.scan_batches(window, 0, len(window), self._table, self._status)
            if rows == 0:
                return position
            scanned = self._status[kernel.STATUS_POSITION]
            valid = self._checksums(window, rows)
            stop = self._regular_rows(rows, valid, state)
            written_rows = self._show(window, position, stop, state)
            if written_rows < rows:
                return position + self._table[written_rows * kernel.HEADER_WIDTH]
            position += scanned

    def _window(self, position: int) -> memoryview:
        """Return the bytes of the file from a position on: at least one whole batch, unless it is very large."""
        window = self._file.window(position, min(HEADER_SIZE, max(self._end - position, 0)))
        if len(window) >= LOG_OVERHEAD:
            size = _SIZE.unpack_from(window, 8)[0] + LOG_OVERHEAD
            if len(window) < size <= min(LARGEST_IN_MEMORY, self._end - position):
                window = self._file.window(position, max(size, WINDOW_BYTES))
        return window[: max(self._end - position, 0)]

    def _regular_rows(self, rows: int, valid: bytearray, state: array[int]) -> int:
        """Return the number of leading rows without a finding. Sets `state` for the row after them."""
        next_offset = state[0]
        stop = dump_kernel.first_irregular(self._table, 0, rows, valid, state)
        row_count = self._limits.first_outside(self._table, stop, next_offset)
        if row_count < stop:
            row = row_count * kernel.HEADER_WIDTH
            previous = row - kernel.HEADER_WIDTH
            if previous >= 0:
                next_offset = (
                    self._table[previous + dump_kernel.BASE_OFFSET] + self._table[previous + dump_kernel.LAST_DELTA] + 1
                )
            state[0], state[1] = next_offset, self._table[row + dump_kernel.LEADER_EPOCH]
        return row_count

    def _checksums(self, window: memoryview, rows: int) -> bytearray:
        valid = bytearray(rows)
        width = kernel.HEADER_WIDTH
        cells = self._table[: rows * width]
        columns = zip(cells[0::width], cells[2::width], cells[5::width], strict=True)
        for row, (position, size, crc) in enumerate(columns):
            valid[row] = crc32c(window[position + 21 : position + size]) == crc
        return valid

    def _show(self, window: memoryview, position: int, stop: int, state: array[int]) -> int:
        """Write the lines of the rows before `stop`. Return the first row that was not written."""
        room = dump_kernel.BATCH_LINE_BYTES * (stop if self._records is None else 1)
        if len(self._target) < room:
            self._target = bytearray(room)
        if self._records is None:
            size = dump_kernel.format_batches(self._target, self._table, 0, stop, position)
            self._write(memoryview(self._target)[:size])
            return stop
        width = kernel.HEADER_WIDTH
        for row in range(stop):
            header = self._table[row * width : (row + 1) * width]
            size = self._records.prepare(window, header)
            if size < 0:
                state[0], state[1] = header[dump_kernel.BASE_OFFSET], header[dump_kernel.LEADER_EPOCH]
                return row
            line = dump_kernel.format_batches(self._target, self._table, row, row + 1, position)
            self._write(memoryview(self._target)[:line])
            self._write(memoryview(self._records.target)[:size])
        return stop


class RecordLines:
    """Formats the dump lines of a batch's records into the buffer `target`."""

    def __init__(self, options: DumpOptions, gaps: GapFinder) -> None:
        self._gaps = gaps
        self._pairs = array("q", bytes(16 * _GAPS))
        self._numbers = array("q", bytes(8 * dump_kernel.NUMBERS_SIZE))
        self._numbers[dump_kernel.NUMBER_SHOWS_METADATA] = not options.skip_metadata
        self._numbers[dump_kernel.NUMBER_SHOWS_CONTENTS] = options.print_contents
        self._status = array("q", bytes(8 * kernel.STATUS_SIZE))
        self._make_room(1 << 12)
        self.target = bytearray(1 << 16)

    def _make_room(self, rows: int) -> None:
        self._room = rows
        self._longs = (kernel.new_longs(rows), kernel.new_longs(rows))
        self._ints = (
            kernel.new_ints(rows),
            kernel.new_ints(rows),
            kernel.new_ints(rows),
            kernel.new_ints(rows),
            kernel.new_ints(rows),
            array("i", bytes(4 * rows)),
        )

    def prepare(self, window: memoryview, header: array[int]) -> int:
        """Format a batch's records into `target`, and collect their offset gaps. Return the number of bytes, a negative
        number for a batch that is not ordinary."""
        attributes, count = header[dump_kernel.ATTRIBUTES], header[dump_kernel.COUNT]
        if count <= 0 or attributes & _CONTROL:
            return count if count <= 0 and not attributes & _CONTROL else -1
        start = header[dump_kernel.POSITION]
        data = window[start + HEADER_SIZE : start + header[dump_kernel.SIZE]]
        if attributes & _CODEC:
            unpacked = self._unpacked(attributes & _CODEC, data)
            if unpacked is None:
                return -1
            data = unpacked
        return self._format(data, header, count)

    def _unpacked(self, codec: int, data: memoryview) -> memoryview | None:
        from kafkatools.core.records.compression import CompressionType, decompress

        try:
            return memoryview(decompress(CompressionType(codec), data))
        except KafkaError:
            return None

    def _format(self, data: memoryview, header: array[int], count: int) -> int:
        if count > len(data):
            return -1
        if count > self._room:
            self._make_room(count)
        base_offset = header[dump_kernel.BASE_OFFSET]
        read = kernel.decode_records(
            data, count, base_offset, header[dump_kernel.BASE_TIMESTAMP], self._longs, self._ints, self._status
        )
        numbers = self._numbers
        numbers[dump_kernel.NUMBER_ROWS] = read
        numbers[dump_kernel.NUMBER_BASE_SEQUENCE] = header[dump_kernel.BASE_SEQUENCE]
        numbers[dump_kernel.NUMBER_APPEND_TIME] = header[dump_kernel.MAX_TIMESTAMP]
        numbers[dump_kernel.NUMBER_HAS_APPEND_TIME] = header[dump_kernel.ATTRIBUTES] & _APPEND_TIME
        numbers[dump_kernel.NUMBER_LAST_OFFSET] = self._gaps.last
        numbers[dump_kernel.NUMBER_GAPS] = 0
        room = 2 * len(data) + read * dump_kernel.RECORD_LINE_BYTES
        if len(self.target) < room:
            self.target = bytearray(room)
        size = dump_kernel.format_records(self.target, data, base_offset, self._longs, self._ints, numbers, self._pairs)
        if size < 0 or read != count or self._status[kernel.STATUS_POSITION] != len(data):
            return -1
        self._gaps.see_all(self._pairs, numbers[dump_kernel.NUMBER_GAPS], numbers[dump_kernel.NUMBER_LAST_OFFSET])
        return size
