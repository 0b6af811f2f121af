"""Read a file through a bounded window, so that a segment of any size takes little memory.

`view(position, size)` returns bytes of the current window. Windows are read with pread into one of two buffers. A
thread reads the next one ahead while the caller uses the current one (reads release the interpreter's lock). A view is
valid until the next call. The file is never mapped, so its truncation by another process cannot end this one.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Callable

from kafkatools.core.closing import Closing

WINDOW_BYTES = 4 << 20
LARGEST_FILE = (1 << 31) - 1
"""No file of a segment is larger: Kafka counts its bytes in a Java int."""


class SegmentFile(Closing):
    """A file open for reading. `size` is its size in bytes when it was opened."""

    def __init__(self, path: str, window_bytes: int = WINDOW_BYTES) -> None:
        self.path = path
        self._descriptor = open_regular_file(path)
        self.size = os.fstat(self._descriptor).st_size
        self._window_bytes = window_bytes
        self._start = 0
        self._window = memoryview(b"")
        self._spare = bytearray()
        self._buffer = bytearray()
        self._ahead: _ReadAhead | None = None

    def close(self) -> None:
        if self._ahead is not None:
            self._ahead.join()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    @property
    def window_start(self) -> int:
        """The file position where the current window begins."""
        return self._start

    def view(self, position: int, size: int) -> memoryview:
        """Return the bytes [position, position + size), fewer at the end of the file. Copy them to keep them: the next
        call or `read_ahead_from` may overwrite them. Raises OSError."""
        offset = position - self._start
        if offset >= 0 and offset + size <= len(self._window):
            return self._window[offset : offset + size]
        size = max(0, min(size, self.size - position))
        if position < self._start or offset + size > len(self._window):
            self._read_window(position, size)
        offset = position - self._start
        return self._window[offset : offset + size]

    def window(self, position: int, least: int) -> memoryview:
        """Return the window's bytes from `position` on: at least `least`, unless the file ends. Raises OSError."""
        self.view(position, least)
        return self._window[position - self._start :]

    def checksum(self, position: int, size: int, function: Callable[[memoryview, int], int]) -> int:
        """Return the checksum of a byte range, computed window by window with `function(data, checksum so far)`. A
        range beyond the end of the file is cut. Raises OSError."""
        value = 0
        stop = min(position + size, self.size)
        while position < stop:
            data = self.view(position, min(self._window_bytes, stop - position))
            if not data:
                break
            value = function(data, value)
            position += len(data)
        return value

    def next_data(self, position: int) -> int:
        """Return the first position from `position` on outside a hole of a sparse file, the file's size if there is
        none. Where the file system does not know its holes, return `position`."""
        try:
            return os.lseek(self._descriptor, position, os.SEEK_DATA)
        except OSError as problem:
            return self.size if problem.errno == errno.ENXIO else position

    def read_ahead_from(self, position: int) -> None:
        """Start to read the window at `position` on a thread. Does nothing at the end of the file, or while a window
        read ahead is unused."""
        if self._ahead is not None or position >= self.size:
            return
        if len(self._spare) < self._window_bytes:
            self._spare = bytearray(self._window_bytes)
        self._ahead = _ReadAhead(self._descriptor, self._spare, position)
        self._ahead.start()

    def _read_window(self, position: int, size: int) -> None:
        read_ahead, self._ahead = self._ahead, None
        if read_ahead is not None:
            read_ahead.join()
            if read_ahead.problem is None and read_ahead.position <= position and position + size <= read_ahead.end:
                self._buffer, self._spare = self._spare, self._buffer
                self._start, self._window = read_ahead.position, memoryview(self._buffer)[: read_ahead.filled]
                return
        window_size = min(max(size, self._window_bytes), max(self.size - position, 0))
        if len(self._buffer) != window_size:
            self._buffer = bytearray(window_size)
        filled = fill(self._descriptor, self._buffer, position)
        self._start, self._window = position, memoryview(self._buffer)[:filled]


class _ReadAhead(threading.Thread):
    """A thread that reads one window. Its results may be used after `join` only."""

    def __init__(self, descriptor: int, buffer: bytearray, position: int) -> None:
        super().__init__(name="segment-reader", daemon=True)
        self.position = position
        self.filled = 0
        self.problem: OSError | None = None
        self._descriptor = descriptor
        self._buffer = buffer

    def run(self) -> None:
        try:
            self.filled = fill(self._descriptor, self._buffer, self.position)
        except OSError as problem:
            self.problem = problem

    @property
    def end(self) -> int:
        return self.position + self.filled


def is_zero(data: bytes) -> bool:
    """Return whether all bytes are zero."""
    return data.count(0) == len(data)


def open_regular_file(path: str) -> int:
    """Open a file for reading and return its descriptor. Raises OSError for a pipe or a device, which could block."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    if stat.S_ISREG(os.fstat(descriptor).st_mode):
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "not a regular file", path)


def fill(descriptor: int, buffer: bytearray, position: int) -> int:
    """Read from a file position until the buffer is full or the file ends. Return the number of bytes."""
    filled = 0
    with memoryview(buffer) as view:
        while filled < len(buffer):
            count = os.preadv(descriptor, [view[filled:]], position + filled)
            if count == 0:
                break
            filled += count
    return filled
