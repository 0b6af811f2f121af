"""Iterate over the record batches of a segment file: headers only, or whole batches, up to the end of the log."""

from collections.abc import Iterator

from kafkatools.core.log.files import LogFile
from kafkatools.core.records.header import BatchHeader, file_batch_size, read_header
from kafkatools.core.records.layout import HEADER_SIZE, HEADER_SIZE_UP_TO_MAGIC, LOG_OVERHEAD

WALK_CHUNK_BYTES = 16 * 1024
READ_CHUNK_BYTES = 1024 * 1024


def walk_headers(file: LogFile, start: int = 0, end: int | None = None) -> Iterator[tuple[int, BatchHeader]]:
    """Yield the position and header of each batch between the byte positions `start` and `end` (default: the file's
    end). Checksums are not verified. Stops at a partial batch, which is the end of the log. Raises CorruptRecord at an
    impossible batch size, OSError."""
    return _Walker(file, end, WALK_CHUNK_BYTES).headers(start)


def walk_batches(
    file: LogFile, start: int = 0, end: int | None = None
) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """Yield the position, header and bytes of each batch between two byte positions. Checksums are not verified. Stops
    at a partial batch. Raises CorruptRecord at an impossible batch size, OSError."""
    walker = _Walker(file, end, READ_CHUNK_BYTES)
    for position, header in walker.headers(start):
        yield position, header, walker.window(position, header.size_bytes)


class _Walker:
    """A read buffer that moves forward over a segment file."""

    def __init__(self, file: LogFile, end: int | None, chunk_bytes: int) -> None:
        self._file = file
        self._end = file.size_bytes if end is None else min(end, file.size_bytes)
        self._chunk_bytes = chunk_bytes
        self._start = 0
        self._window = memoryview(b"")

    def window(self, position: int, size: int) -> memoryview:
        """Return up to `size` bytes at a position; fewer at the end of the file. Reads ahead by `chunk_bytes`."""
        offset = position - self._start
        if offset < 0 or offset + size > len(self._window):
            count = min(max(size, self._chunk_bytes), self._end - position)
            self._window = memoryview(self._file.read_at(position, count))
            self._start = position
            offset = 0
        return self._window[offset : offset + size]

    def headers(self, position: int) -> Iterator[tuple[int, BatchHeader]]:
        """Yield the position and header of each batch from a position on. Raises CorruptRecord."""
        while True:
            remaining = self._end - position
            prefix = self.window(position, LOG_OVERHEAD) if remaining > HEADER_SIZE_UP_TO_MAGIC else b""
            size = file_batch_size(prefix, 0, remaining)
            if size is None:
                return
            yield position, read_header(self.window(position, min(HEADER_SIZE, remaining)))
            position += size
