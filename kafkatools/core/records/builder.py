"""Build record batches of magic 2 (Kafka's MemoryRecordsBuilder).

Rules:

- Records are written uncompressed into one buffer, whose first 61 bytes are kept for the header. `close` compresses the
  records and writes the header and the CRC. So an append costs the same with every codec, and a batch is compressed
  once.
- Offset deltas are 0, 1, 2..., unless set one by one. Timestamps are relative to the first record's.
- Free room is judged with the topic's estimated compression ratio (estimated_ratio x 1.05), as Kafka does. The first
  record of a batch always has room.
- The caller's buffer (from a pool) is used as long as it is large enough. A larger batch continues in a new buffer.
- The bytes are those of the Java client for the same records; compressed, they depend on the compression library.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Sequence
from typing import TypedDict, Unpack

from kafkatools.core.records import kernel
from kafkatools.core.records.batch import CURRENT_MAGIC
from kafkatools.core.records.columns import NO_HEADERS, NO_TIMESTAMP, Buffer, RowColumns, TimestampType, encode_headers
from kafkatools.core.records.compression import CompressionType, compress
from kafkatools.core.records.crc import crc32c
from kafkatools.core.records.header import NO_PARTITION_LEADER_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE
from kafkatools.core.records.layout import (
    ATTRIBUTES_OFFSET,
    CONTROL_BIT,
    CRC_OFFSET,
    DELETE_HORIZON_BIT,
    HEADER_SIZE,
    LOG_OVERHEAD,
    TIMESTAMP_TYPE_BIT,
    TRANSACTIONAL_BIT,
    V2_HEADER,
)

__all__ = ["BatchBuilder", "BatchHeader", "RowColumns", "write_header"]

COMPRESSION_RATE_ESTIMATION_FACTOR = 1.05
MAX_OFFSET_DELTA = 0x7FFFFFFF
MOST_LENGTH_GROWTH = 15
"""Bytes by which another base timestamp can lengthen a record: its timestamp delta and its size."""


class BatchHeader(TypedDict, total=False):
    """Header fields for a new batch. Missing fields have the defaults of Kafka's builder."""

    timestamp_type: TimestampType
    base_offset: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    is_transactional: bool
    is_control: bool
    partition_leader_epoch: int
    delete_horizon_ms: int | None
    log_append_time: int


class BatchBuilder:
    """A record batch under construction. `capacity_bytes` limits the batch with its header (batch.size). `level` is the
    codec's, `estimated_ratio` the expected compressed size by plain size, `buffer` the memory to write to. Other
    options are those of BatchHeader."""

    def __init__(
        self,
        capacity_bytes: int,
        codec: int = CompressionType.NONE,
        *,
        level: int | None = None,
        estimated_ratio: float = 1.0,
        buffer: bytearray | None = None,
        **header: Unpack[BatchHeader],
    ) -> None:
        self.capacity_bytes = capacity_bytes
        self.codec = CompressionType.for_id(codec)
        self.level = level
        self.timestamp_type = header.get("timestamp_type", TimestampType.CREATE_TIME)
        self.base_offset = header.get("base_offset", 0)
        self.producer_id = header.get("producer_id", NO_PRODUCER_ID)
        self.producer_epoch = header.get("producer_epoch", NO_PRODUCER_EPOCH)
        self.base_sequence = header.get("base_sequence", NO_SEQUENCE)
        self.is_transactional = header.get("is_transactional", False)
        self.is_control = header.get("is_control", False)
        self.partition_leader_epoch = header.get("partition_leader_epoch", NO_PARTITION_LEADER_EPOCH)
        self.delete_horizon_ms = header.get("delete_horizon_ms")
        self.log_append_time = header.get("log_append_time", NO_TIMESTAMP)
        self.compression_ratio = 1.0
        self._factor = (
            1.0 if self.codec is CompressionType.NONE else estimated_ratio * COMPRESSION_RATE_ESTIMATION_FACTOR
        )
        self._buffer = bytearray(max(capacity_bytes, HEADER_SIZE)) if buffer is None else buffer
        if len(self._buffer) < HEADER_SIZE:
            self._buffer = bytearray(HEADER_SIZE)
        self._state = array("q", bytes(8 * kernel.STATE_SIZE))
        self._state[kernel.STATE_POSITION] = self._state[kernel.STATE_ORIGIN] = HEADER_SIZE
        self._state[kernel.STATE_WRITE_LIMIT] = capacity_bytes - HEADER_SIZE
        self._state[kernel.STATE_MAX_TIMESTAMP] = NO_TIMESTAMP
        self._last_offset_delta: int | None = None
        self._batch_bytes: memoryview | bytes | None = None

    @property
    def record_count(self) -> int:
        return self._state[kernel.STATE_ROWS]

    @property
    def uncompressed_size_bytes(self) -> int:
        """The size of the records before compression, without the header."""
        return self._state[kernel.STATE_POSITION] - HEADER_SIZE

    @property
    def base_timestamp(self) -> int:
        return self._state[kernel.STATE_BASE_TIMESTAMP] if self.record_count else NO_TIMESTAMP

    @property
    def max_timestamp(self) -> int:
        """The newest timestamp in ms, -1 in an empty batch; with LogAppendTime the append time."""
        if self.timestamp_type is TimestampType.LOG_APPEND_TIME:
            return self.log_append_time
        return self._state[kernel.STATE_MAX_TIMESTAMP]

    @property
    def last_offset_delta(self) -> int:
        """The offset delta of the last record, or as set by `override_last_offset`; -1 in an empty batch."""
        if self._last_offset_delta is not None:
            return self._last_offset_delta
        return self._state[kernel.STATE_NEXT_DELTA] - 1

    @property
    def is_closed(self) -> bool:
        return self._batch_bytes is not None

    @property
    def estimated_size_bytes(self) -> int:
        """The closed batch's size in bytes: exact without a codec and after `close`, else by the estimated ratio."""
        if self._batch_bytes is not None:
            return len(self._batch_bytes)
        return HEADER_SIZE + int(self.uncompressed_size_bytes * self._factor)

    @property
    def is_full(self) -> bool:
        """Return whether no further byte fits; True also once the batch is closed. An open batch without records is not
        full."""
        return self.is_closed or (self.record_count > 0 and self.capacity_bytes <= self.estimated_size_bytes)

    def has_room_for(self, size: int) -> bool:
        """Return whether a record of `size` bytes (see `record_size`) fits into the open batch. The first record does,
        whatever its size. False when closed."""
        if self.is_closed:
            return False
        return self.record_count == 0 or self.capacity_bytes >= self.estimated_size_bytes + size

    def record_size(
        self,
        timestamp: int,
        key: Buffer | None,
        value: Buffer | None,
        headers: Sequence[tuple[str | bytes, bytes | None]] = (),
    ) -> int:
        """Return the uncompressed size in bytes of a record as the batch's next one (DefaultRecord.sizeInBytes)."""
        return self._encoded_size(timestamp, key, value, len(encode_headers(headers)))

    def _encoded_size(self, timestamp: int, key: Buffer | None, value: Buffer | None, headers_size: int) -> int:
        return kernel.record_size(
            timestamp - self._state[kernel.STATE_BASE_TIMESTAMP] if self.record_count else 0,
            self._state[kernel.STATE_NEXT_DELTA],
            -1 if key is None else len(key),
            -1 if value is None else len(value),
            headers_size,
        )

    def append(
        self,
        timestamp: int,
        key: Buffer | None,
        value: Buffer | None,
        headers: Sequence[tuple[str | bytes, bytes | None]] = (),
    ) -> int:
        """Add a record, even above the capacity. Return its offset delta. `timestamp` in ms. Raises ValueError when
        closed."""
        if self._batch_bytes is not None:
            raise ValueError("the batch is closed")
        encoded = encode_headers(headers) if headers else NO_HEADERS
        delta = kernel.append_record(self._buffer, self._state, timestamp, key, value, encoded)
        if delta < 0:
            self._grow(self._state[kernel.STATE_NEEDED])
            delta = kernel.append_record(self._buffer, self._state, timestamp, key, value, encoded)
        return delta

    def append_with_offset(
        self,
        offset: int,
        timestamp: int,
        key: Buffer | None,
        value: Buffer | None,
        headers: Sequence[tuple[str | bytes, bytes | None]] = (),
    ) -> int:
        """Add a record with an absolute offset, which may leave a gap before it. Return its offset delta. Raises
        ValueError unless the offset is above those before, or when closed."""
        delta = offset - self.base_offset
        if not self._state[kernel.STATE_NEXT_DELTA] <= delta <= MAX_OFFSET_DELTA:
            raise ValueError(f"offset {offset} is not above the other offsets of the batch at {self.base_offset}")
        self._state[kernel.STATE_NEXT_DELTA] = delta
        return self.append(timestamp, key, value, headers)

    def override_last_offset(self, last_offset: int) -> None:
        """Set the batch's last offset beyond its last record (MemoryRecordsBuilder.overrideLastOffset)."""
        self._last_offset_delta = last_offset - self.base_offset

    def append_columns(self, columns: RowColumns, start: int, stop: int, now_ms: int) -> int:
        """Add rows `start` to before `stop` while there is room, at least one to an empty batch. Return how many were
        added, 0 when closed. Rows without timestamps get `now_ms`. Raises ValueError for a cell outside the columns'
        buffer."""
        if self._batch_bytes is not None:
            return 0
        if columns.headers is not None:
            return self._append_with_headers(columns, columns.headers, range(start, stop), now_ms)
        self._state[kernel.STATE_DEFAULT_TIMESTAMP] = now_ms
        cells = (
            columns.key_positions,
            columns.key_lengths,
            columns.value_positions,
            columns.value_lengths,
            columns.timestamps,
        )
        row_count = 0
        while True:
            row_count += kernel.encode_columns(
                self._buffer, self._state, columns.buffer, cells, start + row_count, stop, self._factor
            )
            needed_bytes = self._state[kernel.STATE_NEEDED]
            if needed_bytes == 0:
                return row_count
            if needed_bytes < 0:
                raise ValueError(f"row {start + row_count} lies outside the buffer of its columns")
            self._grow(needed_bytes)

    def _append_with_headers(self, columns: RowColumns, headers: Sequence[bytes], rows: range, now_ms: int) -> int:
        """Add these rows one by one while there is room, at least one to an empty batch. Return how many were added."""
        for count, row in enumerate(rows):
            key, value, encoded = columns.key(row), columns.value(row), headers[row]
            timestamp = now_ms if columns.timestamps is None else columns.timestamps[row]
            if not self.has_room_for(self._encoded_size(timestamp, key, value, len(encoded))):
                return count
            delta = kernel.append_record(self._buffer, self._state, timestamp, key, value, encoded)
            if delta < 0:
                self._grow(self._state[kernel.STATE_NEEDED])
                kernel.append_record(self._buffer, self._state, timestamp, key, value, encoded)
        return len(rows)

    def _grow(self, needed_bytes: int) -> None:
        """Continue in a larger buffer of the builder's own. A pool's buffer keeps its size."""
        grown = bytearray(max(needed_bytes, 2 * len(self._buffer)))
        position = self._state[kernel.STATE_POSITION]
        grown[:position] = memoryview(self._buffer)[:position]
        self._buffer = grown

    def set_producer_state(
        self, producer_id: int, producer_epoch: int, base_sequence: int, is_transactional: bool = False
    ) -> None:
        """Set the producer id, epoch and base sequence of an open batch. Raises ValueError when closed."""
        if self._batch_bytes is not None:
            raise ValueError("the producer state of a closed batch cannot be changed")
        self.producer_id, self.producer_epoch, self.base_sequence = producer_id, producer_epoch, base_sequence
        self.is_transactional = is_transactional

    def reopen_and_rewrite_producer_state(
        self, producer_id: int, producer_epoch: int, base_sequence: int, is_transactional: bool = False
    ) -> None:
        """Change a closed batch's producer id, epoch and sequence. `close` then writes the header again."""
        self._batch_bytes = None
        self.set_producer_state(producer_id, producer_epoch, base_sequence, is_transactional)

    def close(self) -> memoryview | bytes:
        """Compress the records, write the header and return the batch, empty bytes without records. A second call
        returns the same batch. Raises ValueError for a level that the codec lacks."""
        if self._batch_bytes is None:
            self._batch_bytes = self._finish()
        return self._batch_bytes

    def _finish(self) -> memoryview | bytes:
        if self.record_count == 0:
            return b""
        if self.delete_horizon_ms is not None:
            self._count_from_horizon(self.delete_horizon_ms)
        size = self._state[kernel.STATE_POSITION]
        if self.codec is CompressionType.NONE:
            self._write_header(self._buffer, size)
            return memoryview(self._buffer)[:size]
        packed = compress(self.codec, memoryview(self._buffer)[HEADER_SIZE:size], self.level)
        self.compression_ratio = len(packed) / (size - HEADER_SIZE)
        batch = bytearray(HEADER_SIZE + len(packed))
        batch[HEADER_SIZE:] = packed
        self._write_header(batch, len(batch))
        return memoryview(batch)

    def _count_from_horizon(self, horizon_ms: int) -> None:
        """Make the timestamps relative to the delete horizon, which becomes the batch's base timestamp."""
        from kafkatools.core.records import _clean_kernel as clean_kernel

        size, rows = self._state[kernel.STATE_POSITION], self.record_count
        buffer = bytearray(size + MOST_LENGTH_GROWTH * rows)
        written = clean_kernel.copy_retained(
            memoryview(self._buffer)[:size],
            HEADER_SIZE,
            bytearray(b"\x01") * rows,
            self.base_timestamp - horizon_ms,
            memoryview(buffer)[HEADER_SIZE:],
        )
        self._buffer = buffer
        self._state[kernel.STATE_POSITION] = HEADER_SIZE + written
        self._state[kernel.STATE_BASE_TIMESTAMP] = horizon_ms

    def _write_header(self, batch: bytearray, size: int) -> None:
        timestamps = (self.base_timestamp, self.max_timestamp)
        attributes = _attributes(
            self.codec, self.timestamp_type, self.is_transactional, self.is_control, self.delete_horizon_ms
        )
        producer = (self.producer_id, self.producer_epoch, self.base_sequence)
        places = (self.base_offset, self.partition_leader_epoch, self.last_offset_delta)
        _pack_header(batch, size, attributes, self.record_count, timestamps, places, producer)


def write_header(
    batch: bytearray,
    size_bytes: int,
    codec: int,
    last_offset_delta: int,
    record_count: int,
    timestamps: tuple[int, int],
    header: BatchHeader,
) -> None:
    """Write header and CRC of a batch whose records are in place (DefaultRecordBatch.writeHeader). `timestamps`: base
    and max, in ms. `last_offset_delta` may be beyond the last record, as in compacted batches."""
    horizon = header.get("delete_horizon_ms")
    attributes = _attributes(
        codec,
        header.get("timestamp_type", TimestampType.CREATE_TIME),
        header.get("is_transactional", False),
        header.get("is_control", False),
        horizon,
    )
    if horizon is not None:
        timestamps = (horizon, timestamps[1])
    producer = (
        header.get("producer_id", NO_PRODUCER_ID),
        header.get("producer_epoch", NO_PRODUCER_EPOCH),
        header.get("base_sequence", NO_SEQUENCE),
    )
    leader_epoch = header.get("partition_leader_epoch", NO_PARTITION_LEADER_EPOCH)
    places = (header.get("base_offset", 0), leader_epoch, last_offset_delta)
    _pack_header(batch, size_bytes, attributes, record_count, timestamps, places, producer)


def _attributes(
    codec: int, timestamp_type: TimestampType, is_transactional: bool, is_control: bool, horizon_ms: int | None
) -> int:
    attributes = int(codec)
    if timestamp_type is TimestampType.LOG_APPEND_TIME:
        attributes |= TIMESTAMP_TYPE_BIT
    if is_transactional:
        attributes |= TRANSACTIONAL_BIT
    if is_control:
        attributes |= CONTROL_BIT
    if horizon_ms is not None:
        attributes |= DELETE_HORIZON_BIT
    return attributes


def _pack_header(
    batch: bytearray,
    size_bytes: int,
    attributes: int,
    record_count: int,
    timestamps: tuple[int, int],
    places: tuple[int, int, int],
    producer: tuple[int, int, int],
) -> None:
    """Write header and CRC. `places`: base offset, leader epoch, last offset delta. `producer`: id, epoch, sequence."""
    base_offset, leader_epoch, last_offset_delta = places
    V2_HEADER.pack_into(
        batch,
        0,
        base_offset,
        size_bytes - LOG_OVERHEAD,
        leader_epoch,
        CURRENT_MAGIC,
        0,
        attributes,
        last_offset_delta,
        *timestamps,
        *producer,
        record_count,
    )
    crc = crc32c(memoryview(batch)[ATTRIBUTES_OFFSET:size_bytes])
    struct.pack_into(">I", batch, CRC_OFFSET, crc)
