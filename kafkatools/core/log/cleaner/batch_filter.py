"""Filter the records of one batch for log compaction (MemoryRecords.filterTo with the filter of Cleaner.cleanInto).

The result is the unchanged batch, a batch with fewer records, an empty batch, or nothing. A rewritten batch keeps its
base offset, last offset, producer id, epoch and sequence. Readers see gaps in the offsets, and the producer's last
sequence survives. The first cleaning of a batch with tombstones, or of a marker whose transaction has no records left,
sets the batch's delete horizon (KIP-534): the time from which they may be removed. Every checksum is verified first,
because a rewritten batch gets a fresh checksum that would hide damage.
"""

from __future__ import annotations

from array import array
from dataclasses import KW_ONLY, dataclass, field

from kafkatools.core.errors import CorruptRecord
from kafkatools.core.java.longs import wrapped
from kafkatools.core.log.cleaner.cleaned_transactions import CleanedTransactions
from kafkatools.core.log.cleaner.log_to_clean import LastRecord
from kafkatools.core.log.cleaner.offset_map import OffsetMap
from kafkatools.core.log.files import Buffer
from kafkatools.core.records import _clean_kernel as kernel
from kafkatools.core.records.batch import batch_at
from kafkatools.core.records.builder import BatchHeader as HeaderFields
from kafkatools.core.records.builder import write_header
from kafkatools.core.records.columns import TimestampType
from kafkatools.core.records.compression import MAX_DECOMPRESSED_BYTES, CompressionType, compress, decompress
from kafkatools.core.records.header import NO_PRODUCER_ID, NO_TIMESTAMP, BatchHeader, ensure_valid
from kafkatools.core.records.layout import CODEC_MASK, DELETE_HORIZON_BIT, HEADER_SIZE, TIMESTAMP_TYPE_BIT

NO_CODEC = 0
LENGTH_ROOM = 15


def delete_horizon_ms(header: BatchHeader) -> int | None:
    """Return a v2 batch's delete horizon (KIP-534) in ms since 1970, None when it has none or is of magic 0 or 1."""
    if header.magic >= 2 and header.attributes & DELETE_HORIZON_BIT:
        return header.base_timestamp
    return None


def plain_records(header: BatchHeader, batch: memoryview, max_decompressed_bytes: int) -> tuple[Buffer, int]:
    """Decompress the records of a batch of magic 2. Return a buffer and the position of its first record. An
    uncompressed batch is returned itself, without a copy. Raises CorruptRecord, UnsupportedCompressionType, and
    RecordTooLarge for more than `max_decompressed_bytes`."""
    codec = header.attributes & CODEC_MASK
    if codec == NO_CODEC:
        return batch, HEADER_SIZE
    return decompress(codec, batch[HEADER_SIZE:], max_output_bytes=max_decompressed_bytes), 0


@dataclass(eq=False, repr=False)
class BatchFilter:
    """Decides which records of each batch survive compaction. Takes the batches in offset order."""

    offset_map: OffsetMap
    transactions: CleanedTransactions
    last_records: dict[int, LastRecord]
    _: KW_ONLY
    now_ms: int
    delete_retention_ms: int
    upper_bound_offset: int
    max_decompressed_bytes: int = MAX_DECOMPRESSED_BYTES
    _kernel_results: array[int] = field(default_factory=lambda: array("q", bytes(8 * kernel.FOUND_SIZE)), init=False)
    retains_legacy_tombstones: bool = field(default=True, init=False)

    def apply(self, header: BatchHeader, batch: memoryview) -> Buffer | None:
        """Return the bytes that replace a batch in the cleaned segment, None to drop the batch. Raises CorruptRecord
        for damage, RecordTooLarge for records above `max_decompressed_bytes`, UnsupportedCompressionType."""
        ensure_valid(batch, header)
        return self._apply_v2(header, batch) if header.magic >= 2 else self._apply_legacy(header, batch)

    def _apply_v2(self, header: BatchHeader, batch: memoryview) -> Buffer | None:
        horizon = delete_horizon_ms(header)
        if header.is_control:
            is_of_nothing = self.transactions.on_control_batch(header, batch)
            if is_of_nothing and horizon is not None and horizon <= self.now_ms:
                return self._emptied(header)
            return self._control_batch(header, batch, needs_horizon=is_of_nothing and horizon is None)
        if self.transactions.on_batch(header):
            return self._emptied(header)
        return self._data_batch(header, batch, horizon)

    def _emptied(self, header: BatchHeader) -> Buffer | None:
        """Return the bare header of a batch without records, or None when the header is not needed either. The header
        stays if it carries the last sequence of an active producer, or ends the range that is cleaned."""
        last = self.last_records.get(header.producer_id)
        is_last_of_producer = False
        if header.producer_id != NO_PRODUCER_ID and last is not None:
            if last.last_data_offset >= 0:
                is_last_of_producer = header.last_offset == last.last_data_offset
            else:
                is_last_of_producer = header.is_control and header.producer_epoch == last.producer_epoch
        if not is_last_of_producer and header.last_offset + 1 != self.upper_bound_offset:
            return None
        empty = bytearray(HEADER_SIZE)
        timestamps = NO_TIMESTAMP, header.max_timestamp
        write_header(empty, HEADER_SIZE, NO_CODEC, header.last_offset_delta, 0, timestamps, _header_fields(header))
        return empty

    def _control_batch(self, header: BatchHeader, batch: memoryview, *, needs_horizon: bool) -> Buffer | None:
        if header.record_count == 0:
            return self._emptied(header)
        if not needs_horizon:
            return batch
        return self._rewritten(header, batch, bytearray(b"\1" * header.record_count), needs_horizon=True)

    def _data_batch(self, header: BatchHeader, batch: memoryview, horizon: int | None) -> Buffer | None:
        records, position = plain_records(header, batch, self.max_decompressed_bytes)
        count = header.record_count
        retained_flags = bytearray(max(count, 0))
        results = self._kernel_results
        retains_tombstones = horizon is None or self.now_ms < horizon
        results[kernel.RETAIN_TOMBSTONES] = retains_tombstones
        results[kernel.KEPT_RECORDS] = 0
        base_offset, base_timestamp = header.base_offset, header.base_timestamp
        readable_count = kernel.mark_retained(
            records,
            position,
            base_offset,
            base_timestamp,
            self.offset_map.table,
            self.offset_map.state,
            retained_flags,
            results,
        )
        if readable_count != count:
            raise CorruptRecord(f"Record {max(readable_count, 0)} of the batch at offset {base_offset} is damaged")
        retained_count = results[kernel.KEPT_RECORDS]
        if retained_count == 0:
            return self._emptied(header)
        needs_horizon = results[kernel.KEPT_TOMBSTONES] > 0 and horizon is None
        if retained_count == count and not needs_horizon:
            return batch
        return self._rewritten(header, batch, retained_flags, needs_horizon=needs_horizon, plain=(records, position))

    def _rewritten(
        self,
        header: BatchHeader,
        batch: memoryview,
        retained_flags: bytearray,
        *,
        needs_horizon: bool,
        plain: tuple[Buffer, int] | None = None,
    ) -> Buffer:
        """Build a batch from the records that `keep` marks with 1 (MemoryRecords.buildRetainedRecordsInto)."""
        records, position = plain_records(header, batch, self.max_decompressed_bytes) if plain is None else plain
        retained_count = retained_flags.count(1)
        horizon = self.now_ms + self.delete_retention_ms if needs_horizon else delete_horizon_ms(header)
        has_append_time = header.attributes & TIMESTAMP_TYPE_BIT
        is_marker = plain is None
        newest = header.max_timestamp if has_append_time or is_marker else self._kernel_results[kernel.NEWEST_TIMESTAMP]
        base = self._kernel_results[kernel.FIRST_TIMESTAMP] if horizon is None else horizon
        shift = wrapped(header.base_timestamp - base)
        target = bytearray(HEADER_SIZE + len(records) - position + LENGTH_ROOM * retained_count)
        size = kernel.copy_retained(records, position, retained_flags, shift, memoryview(target)[HEADER_SIZE:])
        if size < 0:
            raise CorruptRecord(f"A record of the batch at offset {header.base_offset} is damaged")
        codec = CompressionType.for_id(header.attributes & CODEC_MASK)
        if codec is not CompressionType.NONE:
            packed = compress(codec, memoryview(target)[HEADER_SIZE : HEADER_SIZE + size])
            target = bytearray(HEADER_SIZE) + packed
            size = len(packed)
        del target[HEADER_SIZE + size :]
        fields = _header_fields(header)
        fields["delete_horizon_ms"] = horizon
        write_header(target, len(target), codec, header.last_offset_delta, retained_count, (base, newest), fields)
        return target

    def _apply_legacy(self, header: BatchHeader, batch: memoryview) -> Buffer | None:
        """Filter one message set entry of magic 0 or 1. Return it unchanged, rewritten, or None without a surviving
        record. Tombstones are dropped if the segment is old (`retains_legacy_tombstones` is False)."""
        from kafkatools.core.records.legacy import LegacyBatch, write_message_set

        entry = batch_at(batch, 0)
        assert isinstance(entry, LegacyBatch)
        records = list(entry.columns(self.max_decompressed_bytes).records())
        retained = [record for record in records if self._keeps(record.offset, record.key, record.value)]
        if not retained:
            return None
        if len(retained) == len(records):
            return batch
        codec = header.attributes & CODEC_MASK
        return write_message_set(retained, header.magic, codec, timestamp_type=records[0].timestamp_type)

    def _keeps(self, offset: int, key: bytes | None, value: bytes | None) -> bool:
        if offset > self.offset_map.latest_offset:
            return True
        may_stay = value is not None or self.retains_legacy_tombstones
        return key is not None and offset >= self.offset_map.get(key) and may_stay


def _header_fields(header: BatchHeader) -> HeaderFields:
    has_append_time = header.attributes & TIMESTAMP_TYPE_BIT
    return {
        "timestamp_type": TimestampType.LOG_APPEND_TIME if has_append_time else TimestampType.CREATE_TIME,
        "base_offset": header.base_offset,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "is_transactional": header.is_transactional,
        "is_control": header.is_control,
        "partition_leader_epoch": header.partition_leader_epoch,
    }
