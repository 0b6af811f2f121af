"""Validate and convert batches before they are appended (LogValidator, UnifiedLog.analyzeAndValidateRecords).

Size, checksum and codec of each batch are checked. Of a client's batch also the other header fields are checked, and
the form of uncompressed records: the kernel walks over 16 KiB of them in 2 us. Compressed records are not decompressed
for this check (Kafka does it). Valid records are decoded only where a topic setting needs it: compaction (every record
needs a key), timestamp limits, compression.type, message.timestamp.type. A batch that must change its codec is returned
as new bytes.
"""

from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from kafkatools.core.errors import (
    CorruptRecord,
    InvalidRecord,
    InvalidTimestamp,
    MessageTooLarge,
    RecordTooLarge,
    UnsupportedCompressionType,
)
from kafkatools.core.log.partition.log_config import MAX_LONG, LogConfig
from kafkatools.core.log.producers.append import AppendOrigin
from kafkatools.core.records.header import NO_PRODUCER_ID, NO_TIMESTAMP, BatchHeader, compute_crc
from kafkatools.core.records.kernel import check_records
from kafkatools.core.records.layout import (
    ATTRIBUTES_OFFSET,
    CRC_FIELD,
    CRC_OFFSET,
    HEADER_SIZE,
    LOG_OVERHEAD,
    TIMESTAMP_TYPE_BIT,
    V2_HEADER,
)

if TYPE_CHECKING:
    from kafkatools.core.records.batch import RecordBatch
    from kafkatools.core.records.columns import RecordColumns

_HIGHEST_CODEC = 4
_MAX_TIMESTAMP_FIELD = Struct(">q")
_MAX_TIMESTAMP_POSITION = 35
_CODEC_IDS = {"uncompressed": 0, "none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
_SHOWN_ERRORS = 3


class RecordErrorDetail(NamedTuple):
    """The index of an invalid record in its batch and the reason, for the Produce response."""

    batch_index: int
    message: str


class RejectedRecords(InvalidRecord):
    """A batch was rejected because some records have no key in a compacted topic. `record_errors` lists them; the
    message shows the first three."""

    record_errors: list[RecordErrorDetail]

    def __init__(self, record_errors: list[RecordErrorDetail]) -> None:
        details = ", ".join(
            f"RecordError(batchIndex={error.batch_index}, message='{error.message}')"
            for error in record_errors[:_SHOWN_ERRORS]
        )
        super().__init__(
            f"One or more records have been rejected due to {len(record_errors)} record errors in total, and only "
            f"showing the first three errors at most: [{details}]"
        )
        self.record_errors = record_errors


class RejectedTimestamps(InvalidTimestamp):
    """A batch was rejected because some timestamps are outside the topic's range, or because the client set
    LogAppendTime where it may not. `record_errors` also lists records without a required key."""

    record_errors: list[RecordErrorDetail]

    def __init__(self, record_errors: list[RecordErrorDetail]) -> None:
        super().__init__("One or more records have been rejected due to invalid timestamp")
        self.record_errors = record_errors


def single_batch(records: memoryview) -> BatchHeader | None:
    """Return the header if the bytes are exactly one batch of magic 2, else None. Used on the hot path."""
    if len(records) < HEADER_SIZE:
        return None
    header = BatchHeader._make(V2_HEADER.unpack_from(records, 0))
    return header if header.magic == 2 and header.length + LOG_OVERHEAD == len(records) else None


def split_batches(records: memoryview, label: object) -> list[BatchHeader]:
    """Return the headers of consecutive whole batches of magic 2 (ByteBufferLogInputStream,
    ProduceRequest.validateRecords). Checksums are not verified.

    Raises InvalidRecord for no batch, a rest shorter than a header, or magic 0 or 1. Raises CorruptRecord for another
    magic, or for a batch size that is too small or goes beyond the bytes. `label` names the partition in messages.
    """
    headers = []
    position = 0
    end = len(records)
    while position < end:
        if end - position < HEADER_SIZE:
            raise InvalidRecord(f"Produce requests must have whole record batches in topic partition {label}")
        header = BatchHeader._make(V2_HEADER.unpack_from(records, position))
        if header.magic != 2:
            raise wrong_magic(header.magic)
        if header.length < HEADER_SIZE - LOG_OVERHEAD or header.size_bytes > end - position:
            raise CorruptRecord(
                f"The batch at position {position} of the records for topic partition {label} has a size of "
                f"{header.size_bytes} bytes; a header has {HEADER_SIZE}, and {end - position} bytes follow"
            )
        headers.append(header)
        position += header.size_bytes
    if not headers:
        raise InvalidRecord(f"Produce requests must have at least one record batch per partition ({label})")
    return headers


def wrong_magic(magic: int) -> Exception:
    """Return the error for a batch not of magic 2: InvalidRecord for magic 0 and 1, CorruptRecord for any other."""
    if magic in (0, 1):
        return InvalidRecord(
            "Produce requests with version 3 or higher are only allowed to contain record batches with magic version 2"
        )
    return CorruptRecord(f"Invalid magic found in record: {magic}")


def check_batch(
    header: BatchHeader, batch: memoryview, max_message_bytes: int, label: object, *, is_client: bool
) -> None:
    """Check a batch of magic 2, in Kafka's order. Raises MessageTooLarge above `max_message_bytes`, CorruptRecord for a
    wrong checksum, UnsupportedCompressionType for an unknown codec. A batch from a client also gets InvalidRecord for a
    base offset other than 0, a control batch, or inconsistent offsets, record count or sequence."""
    if is_client and header.base_offset != 0:
        raise InvalidRecord(
            f"The baseOffset of the record batch in the append to {label} should be 0, but it is {header.base_offset}"
        )
    size = header.length + LOG_OVERHEAD
    if size > max_message_bytes:
        raise MessageTooLarge(
            f"The record batch size in the append to {label} is {size} bytes which exceeds the maximum configured "
            f"value of {max_message_bytes}."
        )
    if compute_crc(batch, 2) != header.crc:
        raise CorruptRecord(f"Record is corrupt (stored crc = {header.crc}) in topic partition {label}.")
    if header.attributes & 0x07 > _HIGHEST_CODEC:
        raise UnsupportedCompressionType(f"Unknown compression type id: {header.codec}")
    if is_client:
        _check_client_header(header, label)


def _check_client_header(header: BatchHeader, label: object) -> None:
    delta = header.last_offset_delta
    count = header.record_count
    if delta < 0:
        raise InvalidRecord(
            f"Batch has an invalid offset range: [{header.base_offset}, {header.last_offset}] in topic partition "
            f"{label}"
        )
    if count <= 0:
        raise InvalidRecord(f"Invalid reported count for record batch: {count} in topic partition {label}")
    if delta + 1 != count:
        raise InvalidRecord(
            f"Inconsistent batch offset range [{header.base_offset}, {header.last_offset}] and count of records "
            f"{count} in topic partition {label}"
        )
    if header.attributes & 0x20:
        raise InvalidRecord(f"Clients are not allowed to write control records in topic partition {label}")
    if header.producer_id != NO_PRODUCER_ID and header.base_sequence < 0:
        raise InvalidRecord(
            f"Invalid sequence number {header.base_sequence} in record batch with producerId {header.producer_id} in "
            f"topic partition {label}"
        )


def check_contents(header: BatchHeader, batch: memoryview, label: object) -> BatchHeader:
    """Check the records of a client's uncompressed batch, and return its header. A wrong max timestamp is corrected in
    the batch, with the checksum (DefaultRecordBatch.setMaxTimestamp), unless the batch has LogAppendTime.

    Raises InvalidRecord for damaged records, a wrong record count, or offsets that are not 0, 1, 2...
    """
    count, end, newest = check_records(batch, HEADER_SIZE, header.record_count, header.base_timestamp)
    if count != header.record_count or end != len(batch):
        from kafkatools.core.records.batch import RecordBatch

        _readable(RecordBatch(batch), label, len(batch))
        raise InvalidRecord(
            f"The offset of the record at batch index {count} does not follow that of the one before it in topic "
            f"partition {label}"
        )
    if newest == header.max_timestamp or header.attributes & TIMESTAMP_TYPE_BIT:
        return header
    _MAX_TIMESTAMP_FIELD.pack_into(batch, _MAX_TIMESTAMP_POSITION, newest)
    crc = compute_crc(batch, 2)
    CRC_FIELD.pack_into(batch, CRC_OFFSET, crc)
    return header._replace(max_timestamp=newest, crc=crc)


class AppendRules:
    """The checks and conversions that a topic's settings require of each batch, prepared once per configuration."""

    def __init__(self, config: LogConfig, label: object) -> None:
        self._config = config
        self._label = label
        self._target_codec = None if config.compression_type == "producer" else _CODEC_IDS[config.compression_type]
        self._has_log_append_time = config.has_log_append_time
        self._needs_keys = config.is_compacted
        self._before_max_ms = config.message_timestamp_before_max_ms
        self._after_max_ms = config.message_timestamp_after_max_ms
        self._max_decompressed_bytes = config.max_decompressed_bytes
        self._max_bytes = min(config.max_message_bytes, config.segment_bytes)
        self._is_plain = (
            self._target_codec is None
            and not self._has_log_append_time
            and not self._needs_keys
            and self._before_max_ms == MAX_LONG
        )

    def is_plain(self, header: BatchHeader, now_ms: int) -> bool:
        """Return whether a batch needs no check or conversion by the topic's settings, so that `apply` is not called.
        False for a batch that is too new or has LogAppendTime, and for a topic with LogAppendTime, compaction, its own
        codec or a limit on old timestamps."""
        return (
            self._is_plain
            and header.max_timestamp <= now_ms + self._after_max_ms
            and header.attributes & TIMESTAMP_TYPE_BIT == 0
        )

    def is_ordinary(self, size_bytes: int, max_timestamp: int, now_ms: int) -> bool:
        """Return whether a batch of this size and max timestamp (ms) fits the topic's limits, in a topic without
        special settings. False in a topic with LogAppendTime, compaction, its own codec or a limit on old
        timestamps."""
        return self._is_plain and size_bytes <= self._max_bytes and max_timestamp <= now_ms + self._after_max_ms

    def append_time(self, now_ms: int) -> int | None:
        """Return the LogAppendTime timestamp to stamp on a batch (`now_ms`), None for a topic with CreateTime."""
        return now_ms if self._has_log_append_time else None

    def apply(self, header: BatchHeader, batch: memoryview, origin: AppendOrigin, now_ms: int) -> memoryview:
        """Check the records of a batch by the topic's settings. Return the same bytes, or new ones if a client's batch
        is recompressed with the topic's codec. A control batch is returned unchecked.

        For a topic with CreateTime, a batch's LogAppendTime bit is cleared in place. The append time of a LogAppendTime
        topic is stamped later. Raises RejectedRecords, RejectedTimestamps, InvalidRecord for unreadable records, and
        MessageTooLarge after a recompression.
        """
        if header.is_control:
            return batch
        if self._needs_keys or not self._has_log_append_time or header.attributes & TIMESTAMP_TYPE_BIT:
            self._check_records(header, batch, now_ms)
        if header.attributes & TIMESTAMP_TYPE_BIT and not self._has_log_append_time:
            _restore_create_time(batch)
        if self._target_codec is None or self._target_codec == header.codec or origin is not AppendOrigin.CLIENT:
            return batch
        return self._rewrite(header, batch, self._target_codec)

    def _check_records(self, header: BatchHeader, batch: memoryview, now_ms: int) -> None:
        from kafkatools.core.records.batch import RecordBatch

        is_wrong_type = header.attributes & TIMESTAMP_TYPE_BIT != 0 and (
            self._has_log_append_time or header.max_timestamp == NO_TIMESTAMP
        )
        columns = _readable(RecordBatch(batch), self._label, self._max_decompressed_bytes)
        if not is_wrong_type and not self._has_faulty_record(columns, now_ms):
            return
        key_errors: list[RecordErrorDetail] = []
        time_errors: list[RecordErrorDetail] = []
        oldest, newest = now_ms - self._before_max_ms, now_ms + self._after_max_ms
        for index in range(columns.count):
            if self._needs_keys and columns.key_lengths[index] < 0:
                key_errors.append(self._without_key(index))
            elif is_wrong_type:
                time_errors.append(RecordErrorDetail(index, _WRONG_TYPE))
            elif not self._has_log_append_time:
                timestamp = columns.timestamps[index]
                if timestamp != NO_TIMESTAMP and not oldest <= timestamp <= newest:
                    time_errors.append(_out_of_range(index, timestamp, oldest, newest))
        if time_errors:
            raise RejectedTimestamps(sorted(key_errors + time_errors))
        if key_errors:
            raise RejectedRecords(key_errors)

    def _has_faulty_record(self, columns: "RecordColumns", now_ms: int) -> bool:
        """Return whether a record may break a rule; True also for records without a timestamp, which are allowed. Reads
        whole columns, as a batch may hold millions of records."""
        if not columns.count:
            return False
        if self._needs_keys and min(columns.key_lengths) < 0:
            return True
        if self._has_log_append_time:
            return False
        oldest, newest = min(columns.timestamps), max(columns.timestamps)
        return oldest < now_ms - self._before_max_ms or newest > now_ms + self._after_max_ms

    def _without_key(self, index: int) -> RecordErrorDetail:
        return RecordErrorDetail(
            index, f"Compacted topic cannot accept message without key in topic partition {self._label}"
        )

    def _rewrite(self, header: BatchHeader, batch: memoryview, codec: int) -> memoryview:
        """Return the batch's records as a new batch, compressed with another codec
        (LogValidator.buildRecordsAndAssignOffsets). Raises MessageTooLarge above max.message.bytes, InvalidRecord for
        unreadable records."""
        from kafkatools.core.records.batch import RecordBatch
        from kafkatools.core.records.builder import BatchBuilder
        from kafkatools.core.records.compression import CompressionType

        columns = _readable(RecordBatch(batch), self._label, self._max_decompressed_bytes)
        builder = BatchBuilder(
            max(header.size_bytes, 1024),
            codec=CompressionType(codec),
            level=self._level(codec),
            producer_id=header.producer_id,
            producer_epoch=header.producer_epoch,
            base_sequence=header.base_sequence,
            is_transactional=header.is_transactional,
        )
        for index in range(columns.count):
            builder.append(columns.timestamps[index], columns.key(index), columns.value(index), columns.headers(index))
        rewritten = memoryview(bytearray(builder.close()))
        if len(rewritten) > self._config.max_message_bytes:
            raise MessageTooLarge(
                f"Message batch size is {len(rewritten)} bytes in append to partition {self._label} which exceeds the "
                f"maximum configured size of {self._config.max_message_bytes}."
            )
        return rewritten

    def _level(self, codec: int) -> int | None:
        config = self._config
        levels = {1: config.compression_gzip_level, 3: config.compression_lz4_level, 4: config.compression_zstd_level}
        return levels.get(codec)


_WRONG_TYPE = "Invalid timestamp type in message. Producer should not set timestamp type to LogAppendTime."


def _restore_create_time(batch: memoryview) -> None:
    """Clear the LogAppendTime bit of a batch in place, and correct its checksum, for a topic with CreateTime
    (DefaultRecordBatch.setMaxTimestamp)."""
    batch[ATTRIBUTES_OFFSET + 1] &= 0xFF ^ TIMESTAMP_TYPE_BIT
    CRC_FIELD.pack_into(batch, CRC_OFFSET, compute_crc(batch, 2))


def _out_of_range(index: int, timestamp: int, oldest: int, newest: int) -> RecordErrorDetail:
    return RecordErrorDetail(
        index,
        f"Timestamp {timestamp} of message with offset {index} is out of range. The timestamp should be within "
        f"[{oldest}, {newest}]",
    )


def _readable(batch: "RecordBatch", label: object, max_output_bytes: int) -> "RecordColumns":
    """Decode a batch whose checksum is right. Raises InvalidRecord for contents that contradict the header or exceed
    `max_output_bytes`."""
    try:
        return batch.columns(max_output_bytes)
    except (CorruptRecord, RecordTooLarge) as error:
        raise InvalidRecord(f"{error} in topic partition {label}") from error
