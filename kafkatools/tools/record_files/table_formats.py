"""A stream for the writers of the Parquet and Avro formatters, and their check of header names."""

from __future__ import annotations

import io

from kafkatools.core.errors import SerializationError
from kafkatools.core.records.columns import Buffer, RecordColumns
from kafkatools.tools.lines.formatters import OnError

_NOT_TEXT = "A header name is not UTF-8, which this output format cannot hold; use --output-format json or csv"


class Written(io.RawIOBase):
    """A stream that keeps the written bytes until `take`."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._taken = 0

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: Buffer) -> int:  # type: ignore[override]
        """Keep the bytes; return their number."""
        before = len(self._data)
        self._data += data
        return len(self._data) - before

    def tell(self) -> int:
        """Return how many bytes were written in all."""
        return self._taken + len(self._data)

    def take(self, out: bytearray) -> None:
        """Move the bytes that were written since the last call to `out`."""
        out += self._data
        self._taken += len(self._data)
        self._data.clear()


def runs_with_text_names(columns: RecordColumns, on_error: OnError) -> tuple[int, list[RecordColumns]]:
    """Return how many records are processed, and those of them that can be written, in runs. A header name that is not
    UTF-8 cannot; `on_error` is called for it, and False ends after the record."""
    if not any(columns.header_counts):
        return columns.count, [columns]
    runs, start = [], 0
    for row in range(columns.count):
        if not (columns.header_counts[row] and _has_other_names(columns, row)):
            continue
        if row > start:
            runs.append(columns.slice(start, row))
        start = row + 1
        if not on_error(SerializationError(_NOT_TEXT)):
            return start, runs
    if start < columns.count:
        runs.append(columns.slice(start, columns.count))
    return columns.count, runs


def _has_other_names(columns: RecordColumns, row: int) -> bool:
    try:
        for name, _ in columns.raw_headers(row):
            name.decode()
    except UnicodeDecodeError:
        return True
    return False
