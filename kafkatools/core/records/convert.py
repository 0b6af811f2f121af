"""Convert batches between message formats, up and down, and report what the target format cannot hold.

Rules:

- Offsets are kept. Batches that have the target's magic and codec already are copied byte for byte.
- Down to magic 1 and 0, each record becomes a message set entry; compressed records become one wrapper. Control batches
  are dropped (RecordsUtil.downConvert). What else the format lacks is dropped and counted in `Loss`.
- Up to magic 2, each message set entry becomes a batch. A message of magic 0 gets the timestamp -1.
- zstd exists with magic 2 only. Below it, another codec must be named.
- The partition leader epoch is assigned by the broker, and is -1 in converted batches.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields

from kafkatools.core.errors import CorruptRecord, UnsupportedCompressionType, UnsupportedForMessageFormat
from kafkatools.core.records.batch import CURRENT_MAGIC, RecordBatch
from kafkatools.core.records.builder import BatchBuilder
from kafkatools.core.records.columns import Record, TimestampType
from kafkatools.core.records.compression import CompressionType
from kafkatools.core.records.layout import HEADER_SIZE
from kafkatools.core.records.legacy import LegacyBatch, write_message_set

AnyBatch = RecordBatch | LegacyBatch


@dataclass
class Loss:
    """Counts of what the target's message format cannot hold."""

    headers: int = 0
    timestamps: int = 0
    producer_batches: int = 0
    transactional_batches: int = 0
    control_batches: int = 0
    delete_horizons: int = 0
    empty_batches: int = 0

    def __bool__(self) -> bool:
        return any(getattr(self, item.name) for item in fields(self))

    def describe(self) -> str:
        """Return the non-zero counts as one line, empty when nothing was lost."""
        return ", ".join(
            f"{getattr(self, item.name)} {item.name.replace('_', ' ')}"
            for item in fields(self)
            if getattr(self, item.name)
        )


@dataclass(frozen=True)
class Conversion:
    """The converted batches, the number of their records, and the loss."""

    data: bytes
    record_count: int
    loss: Loss = field(default_factory=Loss)


def convert(
    batches: Iterable[AnyBatch], magic: int, *, codec: int | None = None, level: int | None = None
) -> Conversion:
    """Convert batches to magic 0, 1 or 2, with their own codec or `codec`. Raises UnsupportedForMessageFormat for
    another magic, UnsupportedCompressionType for zstd below magic 2, CorruptRecord for damage, RecordTooLarge. A
    `level` that the codec lacks raises ValueError, with magic 2 CorruptRecord."""
    if not 0 <= magic <= CURRENT_MAGIC:
        raise UnsupportedForMessageFormat(f"There is no message format {magic}.")
    loss = Loss()
    parts: list[bytes] = []
    total = 0
    for batch in batches:
        part, count = _convert_batch(batch, magic, codec, level, loss)
        parts.append(part)
        total += count
    return Conversion(b"".join(parts), total, loss)


def _convert_batch(batch: AnyBatch, magic: int, codec: int | None, level: int | None, loss: Loss) -> tuple[bytes, int]:
    if batch.magic == magic and codec in (None, batch.compression_type):
        return batch.to_bytes(), batch.record_count
    target = batch.compression_type if codec is None else CompressionType.for_id(codec)
    if magic < CURRENT_MAGIC:
        if batch.is_control:
            loss.control_batches += 1
            return b"", 0
        if target is CompressionType.ZSTD:
            raise UnsupportedCompressionType("Down-conversion of zstandard-compressed batches is not supported")
    rows = list(batch.records())
    if magic < CURRENT_MAGIC:
        _count_loss(batch, rows, magic, loss)
        return write_message_set(rows, magic, target, timestamp_type=batch.timestamp_type, level=level), len(rows)
    return _write_batch(batch, rows, target, level), len(rows)


def _count_loss(batch: AnyBatch, rows: list[Record], magic: int, loss: Loss) -> None:
    loss.producer_batches += batch.has_producer_id
    loss.transactional_batches += batch.is_transactional
    loss.delete_horizons += batch.delete_horizon_ms is not None
    loss.empty_batches += not rows
    loss.headers += sum(len(row.headers) for row in rows)
    if magic == 0:
        loss.timestamps += sum(row.timestamp >= 0 for row in rows)


def _write_batch(batch: AnyBatch, rows: list[Record], codec: CompressionType, level: int | None) -> bytes:
    """Write a batch of magic 2 with the same offsets, producer, flags and delete horizon. A batch without records is
    copied. Raises CorruptRecord for offsets that do not rise, an impossible level, or a batch shorter than its
    header."""
    timestamp_type = batch.timestamp_type
    if timestamp_type is TimestampType.NO_TIMESTAMP_TYPE:
        timestamp_type = TimestampType.CREATE_TIME
    builder = BatchBuilder(
        batch.size_bytes,
        codec,
        level=level,
        timestamp_type=timestamp_type,
        log_append_time=batch.max_timestamp,
        base_offset=batch.base_offset,
        producer_id=batch.producer_id,
        producer_epoch=batch.producer_epoch,
        base_sequence=batch.base_sequence,
        is_transactional=batch.is_transactional,
        is_control=batch.is_control,
        delete_horizon_ms=batch.delete_horizon_ms,
    )
    try:
        for row in rows:
            builder.append_with_offset(row.offset, row.timestamp, row.key, row.value, row.headers)
        builder.override_last_offset(batch.last_offset)
        if rows:
            return bytes(builder.close())
    except (ValueError, OverflowError) as error:  # offsets that do not rise, or numbers out of range
        raise CorruptRecord(str(error)) from error
    if batch.size_bytes < HEADER_SIZE:
        raise CorruptRecord(f"A batch of {batch.size_bytes} bytes is smaller than its header")
    return batch.to_bytes()
