"""Read a file through a bounded window, so that a segment of any size takes little memory.

`view(position, size)` returns bytes of the current window, which is read with pread. A view is valid until the next
call. The window is small enough to stay in the processor's cache until its checksums are computed; the system reads the
file ahead. The file is never mapped, so its truncation by another process cannot end this one.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable

from kafkatools.core.closing import Closing

WINDOW_BYTES = 1 << 20
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
        self._buffer = bytearray()

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    @property
    def window_start(self) -> int:
        """The file position where the current window begins."""
        return self._start

    def view(self, position: int, size: int) -> memoryview:
        """Return the bytes [position, position + size), fewer at the end of the file. Copy them to keep them: the next
        call may overwrite them. Raises OSError."""
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

    def _read_window(self, position: int, size: int) -> None:
        window_size = min(max(size, self._window_bytes), max(self.size - position, 0))
        if len(self._buffer) != window_size:
            self._buffer = bytearray(window_size)
        filled = fill(self._descriptor, self._buffer, position)
        self._start, self._window = position, memoryview(self._buffer)[:filled]


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
