"""Walking through the batches of a file: headers alone or whole batches, until Kafka's end of the log."""

from collections.abc import Iterator

from kafkatools.core.log.files import LogFile
from kafkatools.core.records.header import BatchHeader, file_batch_size, read_header
from kafkatools.core.records.layout import HEADER_SIZE, HEADER_SIZE_UP_TO_MAGIC, LOG_OVERHEAD

WALK_CHUNK_BYTES = 16 * 1024
READ_CHUNK_BYTES = 1024 * 1024


def walk_headers(file: LogFile, start: int = 0, end: int | None = None) -> Iterator[tuple[int, BatchHeader]]:
    """Positions and headers from `start` on; reads headers and little else. Raises CorruptRecord at damage."""
    walker = _Walker(file, end, WALK_CHUNK_BYTES)
    position = start
    while (header := walker.header_at(position)) is not None:
        yield position, header
        position += header.length + LOG_OVERHEAD


def walk_batches(
    file: LogFile, start: int = 0, end: int | None = None
) -> Iterator[tuple[int, BatchHeader, memoryview]]:
    """Positions, headers and whole batches from `start` on. Checksums are the caller's business."""
    walker = _Walker(file, end, READ_CHUNK_BYTES)
    position = start
    while (header := walker.header_at(position)) is not None:
        size = header.length + LOG_OVERHEAD
        yield position, header, walker.window(position, size)
        position += size


class _Walker:
    """A window that moves forward over a file."""

    def __init__(self, file: LogFile, end: int | None, chunk_bytes: int) -> None:
        self._file = file
        self._end = file.size_bytes if end is None else min(end, file.size_bytes)
        self._chunk_bytes = chunk_bytes
        self._start = 0
        self._window = memoryview(b"")

    def window(self, position: int, size: int) -> memoryview:
        """Bytes of the file, read ahead by a chunk; what lies past the end is left out."""
        offset = position - self._start
        if offset < 0 or offset + size > len(self._window):
            wanted = min(max(size, self._chunk_bytes), self._end - position)
            self._window = memoryview(self._file.read_at(position, wanted))
            self._start = position
            offset = 0
        return self._window[offset : offset + size]

    def header_at(self, position: int) -> BatchHeader | None:
        """The header of the whole batch at a position, None at the end of the log."""
        left = self._end - position
        prefix = self.window(position, LOG_OVERHEAD) if left > HEADER_SIZE_UP_TO_MAGIC else b""
        if file_batch_size(prefix, 0, left) is None:
            return None
        return read_header(self.window(position, min(HEADER_SIZE, left)))
