"""The batches in the bytes of a segment."""

from __future__ import annotations

from collections.abc import Iterator

from kafkatools.core.records.batch import Buffer, RecordBatch, batch_at
from kafkatools.core.records.header import file_batch_size
from kafkatools.core.records.legacy import LegacyBatch


def read_file_batches(
    buffer: Buffer, start: int = 0, end: int | None = None, *, file_name: str = ""
) -> Iterator[RecordBatch | LegacyBatch]:
    """Yield views on the batches in a segment's bytes, up to a partial batch (FileLogInputStream). Any magic byte is
    accepted. Raises CorruptRecord, naming the file, for a size below the smallest overhead."""
    end = len(buffer) if end is None else min(end, len(buffer))
    position = start
    while (size := file_batch_size(buffer, position, end - position, file_name)) is not None:
        yield batch_at(buffer, position)
        position += size
