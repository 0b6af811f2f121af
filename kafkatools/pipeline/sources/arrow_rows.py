"""Conversion of Kafka record batches to Arrow record batches.

`ArrowRows` receives the batches of one partition, many at a time, as a buffer and the header table of `scan_batches`.
The kernel decodes uncompressed batches in runs. Compressed batches are decompressed one by one and then decoded by the
kernel too; messages of magic 0 and 1 are decoded by their Python views. Columns outside the schema are never built.
Batches whose rows the headers determine can be added without their records (`header_rows`). Records that cannot be read
are returned as Unread, not raised.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from kafkatools.core.errors import KafkaError
from kafkatools.core.records import _gather_kernel as kernel
from kafkatools.core.records.batch import RecordBatch
from kafkatools.core.records.compression import decompress
from kafkatools.core.records.damage import explain
from kafkatools.core.records.kernel import HEADER_WIDTH
from kafkatools.core.records.layout import HEADER_SIZE
from kafkatools.core.records.legacy import LegacyBatch
from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.sources.header_rows import HeaderRows, Mask
from kafkatools.pipeline.sources.record_bounds import MAX_LONG, RecordBounds
from kafkatools.tools.arrow.columns import Buffer, Chunk, ColumnTooLarge, Longs, new_column, places_of

TARGET_ROWS = 32768
TARGET_BYTES = 2 << 20
PLACE_ROWS = 8192
_CODEC = 7
_UNREADABLE = (kernel.RUN_DAMAGED, kernel.RUN_LEFT_OVER, kernel.RUN_IMPOSSIBLE)


class Unread(NamedTuple):
    """A batch that could not be read completely: its row in the header table, the position in the buffer of the first
    unread byte (of the batch itself if compressed), and the reason."""

    row: int
    position: int
    reason: str


class ArrowRows:
    """Collects rows of one partition for the next Arrow batch; only records within `bounds` become rows. `records`,
    `first_offset` and `last_offset` cover all rows so far (offsets are -1 without rows)."""

    def __init__(
        self, schema: pa.Schema, topic: str, partition: int, bounds: RecordBounds | None = None, *,
        target_rows: int = TARGET_ROWS, target_bytes: int = TARGET_BYTES,
    ) -> None:  # fmt: skip
        self._schema = schema
        self._columns = [new_column(field.name, field.type, topic, partition) for field in self._schema]
        self._bounds = bounds or RecordBounds()
        self._by_headers = HeaderRows(schema.names, self._bounds)
        self._target_rows, self._target_bytes = target_rows, target_bytes
        self._places = array("q", bytes(8 * kernel.PLACE_WIDTH * PLACE_ROWS))
        self._rows = 0
        self.records = 0
        self.first_offset = -1
        self.last_offset = -1

    def __len__(self) -> int:
        return self._rows

    @property
    def is_full(self) -> bool:
        """Return whether the collected rows have reached the target number of rows or bytes; more may still be
        added."""
        return self._rows >= self._target_rows or any(
            column.size_bytes >= self._target_bytes for column in self._columns
        )

    def take(self) -> pa.RecordBatch:
        """Return the collected rows as a pyarrow.RecordBatch and start an empty one."""
        rows, self._rows = self._rows, 0
        return pa.RecordBatch.from_arrays([column.take(rows) for column in self._columns], schema=self._schema)

    def known_by_headers(self, headers: Longs, candidates: Mask | None = None) -> Mask:
        """Return a mask of the batches that `add_headers` takes: those whose rows do not need the records. `candidates`
        are the batches to add (None: all), which have to be added in order."""
        mask = np.ones(len(headers), np.bool_) if candidates is None else candidates
        return self._by_headers.select(headers, mask, is_first=self.records == 0)

    def add_headers(
        self, headers: Longs, positions: Longs, transactions: Sequence[str | None] | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Add the rows of consecutive batches known by their headers, and yield each pyarrow.RecordBatch that has
        become full. `positions` are the batches' positions in the file, `transactions` their states (None: unknown)."""
        limit = max(self._target_rows, 1)
        for chunk in self._by_headers.chunks(headers, positions, transactions, limit):
            self._add_rows(chunk)
            if self.is_full:
                yield self.take()

    def add_batches(
        self, buffer: Buffer, table: array[int], first: int, stop: int, *,
        origin: int = 0, transactions: Sequence[str | None] | None = None,
    ) -> list[Unread]:  # fmt: skip
        """Add the records of rows first..stop of a header table and return the batches that could not be read
        completely. The caller has verified the checksums. `origin` is the buffer's position in its file; `transactions`
        has the transaction state of each row of the table (None: unknown). Raises PipelineError if a column exceeds 2
        GiB."""
        unread: list[Unread] = []
        rows = np.frombuffer(table, np.int64).reshape(-1, HEADER_WIDTH)
        plain = (rows[first:stop, 3] == 2) & (rows[first:stop, 6] & _CODEC == 0)
        edges = [first, *(np.flatnonzero(np.diff(plain)) + first + 1).tolist(), stop]
        for start, end in zip(edges[:-1], edges[1:], strict=True):
            if start == end:
                continue
            if plain[start - first]:
                positions = rows[:end, 0] + origin
                unread += self._add_run(buffer, table, start, end, (positions, transactions))
                continue
            for row in range(start, end):
                state = None if transactions is None else transactions[row]
                unread += self._add_odd(buffer, rows[row], row, origin, state)
        return unread

    def _add_run(
        self, buffer: Buffer, table: array[int], first: int, stop: int,
        about: tuple[Longs, Sequence[str | None] | None], *, is_compressed: bool = False,
    ) -> list[Unread]:  # fmt: skip
        """Add uncompressed batches, and return those that cannot be read completely. `about` has the file position and
        the transaction state of each batch. `is_compressed`: the bytes are a decompressed batch, for the wording of
        errors."""
        unread: list[Unread] = []
        run = array("q", (first, 0, 0, 0))
        counts = array("i", bytes(4 * stop))
        headers = np.frombuffer(table, np.int64).reshape(-1, HEADER_WIDTH)
        while run[kernel.RUN_ROW] < stop:
            row = run[kernel.RUN_ROW]
            rows = kernel.decode_batches(buffer, table, stop, self._places, counts, run)
            reason, last_row = run[kernel.RUN_REASON], run[kernel.RUN_ROW]
            if reason in _UNREADABLE:
                unread.append(_unread(buffer, headers, run, is_compressed))
                run[kernel.RUN_ROW], run[kernel.RUN_RECORD] = last_row + 1, 0
            end = min(last_row + 1, stop)
            if rows:
                positions, states = about
                self._add_chunk(
                    Chunk(
                        buffer, self._places, rows, headers[row:end], np.frombuffer(counts, np.int32)[row:end],
                        positions[row:end], None if states is None else states[row:end],
                    )
                )  # fmt: skip
            counts[row:end] = array("i", bytes(4 * (end - row)))
        return unread

    def _add_odd(self, buffer: Buffer, header: Longs, row: int, origin: int, state: str | None) -> list[Unread]:
        """Add one compressed batch, or one (possibly compressed) message of magic 0 or 1; return it if it cannot be
        read."""
        position = int(header[0])
        view = memoryview(buffer)[position : position + int(header[2])]
        about = np.array([position + origin], np.int64), None if state is None else (state,)
        try:
            if header[3] < 2:
                self._add_legacy(LegacyBatch(view), header, about)
                return []
            codec = RecordBatch(view).compression_type
            records = decompress(codec, view[HEADER_SIZE:]) if header[13] > 0 else b""
        except KafkaError as error:
            return [Unread(row, position, str(error))]
        table = array("q", header.tolist())
        table[0], table[2] = -HEADER_SIZE, HEADER_SIZE + len(records)
        unread = self._add_run(records, table, 0, 1, about, is_compressed=True)
        return [Unread(row, position, reason) for _, _, reason in unread]

    def _add_legacy(self, batch: LegacyBatch, header: Longs, about: tuple[Longs, Sequence[str | None] | None]) -> None:
        columns = batch.columns()
        batches = header.copy().reshape(1, -1)
        batches[0, 4], batches[0, 6] = -1, batch.attributes
        batches[0, 10:13] = -1
        for start in range(0, columns.count, PLACE_ROWS):
            stop = min(start + PLACE_ROWS, columns.count)
            places = places_of(columns, start, stop)
            counts = np.array([stop - start], np.int32)
            self._add_chunk(Chunk(columns.buffer, places, stop - start, batches, counts, *about))

    def _add_chunk(self, chunk: Chunk) -> None:
        bounds = self._bounds
        if bounds.start_offset > 0 or bounds.end_offset < MAX_LONG or bounds.has_timestamps:
            self._narrow(chunk)
        if chunk.rows:
            self._add_rows(chunk)

    def _add_rows(self, chunk: Chunk) -> None:
        try:
            for column in self._columns:
                column.add(chunk)
        except ColumnTooLarge as error:
            raise PipelineError(str(error)) from error
        first_offset, self.last_offset = chunk.offset_range
        if self.records == 0:
            self.first_offset = first_offset
        self.records += chunk.rows
        self._rows += chunk.rows

    def _narrow(self, chunk: Chunk) -> None:
        """Remove the records outside the bounds from a chunk, in place."""
        bounds, view = self._bounds, chunk.view
        offsets, timestamps = chunk.offsets, chunk.timestamps
        mask = offsets >= bounds.start_offset
        if bounds.end_offset < MAX_LONG:
            mask &= offsets < bounds.end_offset
        if bounds.has_timestamps:
            mask &= timestamps >= bounds.start_timestamp_ms
            if bounds.end_timestamp_ms < MAX_LONG:
                mask &= timestamps < bounds.end_timestamp_ms
        if mask.all():
            return
        owners = np.repeat(np.arange(len(chunk.counts)), chunk.counts)[mask]
        rows = view[mask]
        np.frombuffer(chunk.places, np.int64).reshape(-1, kernel.PLACE_WIDTH)[: len(rows)] = rows
        chunk.rows = len(rows)
        chunk.counts = np.bincount(owners, minlength=len(chunk.counts)).astype(np.int32)


def _unread(buffer: Buffer, headers: Longs, run: array[int], is_compressed: bool) -> Unread:
    """Describe where and why the kernel stopped in a batch, with the words of Kafka's exceptions. For a batch that was
    decompressed (`is_compressed`), the position is within its records."""
    row, reason, position = run[kernel.RUN_ROW], run[kernel.RUN_REASON], run[kernel.RUN_POSITION]
    start, size, count = int(headers[row, 0]), int(headers[row, 2]), int(headers[row, 13])
    if reason == kernel.RUN_IMPOSSIBLE:
        return Unread(row, start, f"Found invalid record count {count} in magic v2 batch")
    end = start + size
    words = explain(memoryview(buffer)[:end], position, reason == kernel.RUN_DAMAGED, is_compressed)
    return Unread(row, position if position < end else start, words)
