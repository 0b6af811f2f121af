"""Send record batches that are encoded already, for restores: only producer id, epoch, sequence and CRC are written.

Retries, sequence numbers, leader changes and order are those of any batch of the producer, so that an idempotent
producer writes each batch once. The records are never decoded, except when a broker refuses a batch as too large and it
is split. The first batch that fails is fatal: an ordinary producer would take another epoch and write the batches
behind it, which would leave a gap in the order.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

from kafkatools.core.clock import Clock
from kafkatools.core.errors import KafkaError
from kafkatools.core.producer.futures import ColumnsFuture, RowsRun, TopicPartition
from kafkatools.core.producer.producer import Producer
from kafkatools.core.producer.producer_batch import ProducerBatch, RowsSink, RowsThunk
from kafkatools.core.records.batch import stamp_crc
from kafkatools.core.records.builder import BatchBuilder
from kafkatools.core.records.layout import LOG_OVERHEAD, MAGIC_OFFSET, TRANSACTIONAL_BIT, V2_HEADER

_MAGIC = 2


class EncodedBatch(BatchBuilder):
    """An encoded batch of magic 2 whose offset deltas have no gaps. `close` writes producer state and CRC in place."""

    def __init__(self, data: bytearray) -> None:
        if data[MAGIC_OFFSET] != _MAGIC:
            raise ValueError(f"a batch to send must have magic 2, not {data[MAGIC_OFFSET]}")
        super().__init__(0, buffer=bytearray(LOG_OVERHEAD))
        self._data = data
        self._header = V2_HEADER.unpack_from(data)
        self._count = int(self._header[12])

    @property
    def record_count(self) -> int:
        return self._count

    @property
    def last_offset_delta(self) -> int:
        return self._count - 1

    @property
    def estimated_size_bytes(self) -> int:
        return len(self._data)

    @property
    def is_full(self) -> bool:
        return True

    def has_room_for(self, size: int) -> bool:
        """Return False: an encoded batch takes no records."""
        return False

    def _finish(self) -> memoryview | bytes:
        _, length, _, magic, crc, attributes, last_delta, base_timestamp, max_timestamp = self._header[:9]
        attributes = attributes | TRANSACTIONAL_BIT if self.is_transactional else attributes & ~TRANSACTIONAL_BIT
        state = (self.producer_id, self.producer_epoch, self.base_sequence, self._count)
        fields = (0, length, -1, magic, crc, attributes, last_delta, base_timestamp, max_timestamp, *state)
        V2_HEADER.pack_into(self._data, 0, *fields)
        stamp_crc(self._data, 0, len(self._data))
        return memoryview(self._data)


class BatchProducer(Producer):
    """A producer of encoded batches. A context manager. `memory_bytes`: the batches in memory, beyond which
    `send_batch` waits."""

    def __init__(self, config: Mapping[str, object], clock: Clock | None = None, memory_bytes: int = 64 << 20) -> None:
        super().__init__(config, clock)
        self._limit_bytes = memory_bytes
        self._pending_bytes = 0
        self._changed = threading.Condition()  # guards _pending_bytes

    def __enter__(self) -> BatchProducer:
        return self

    def send_batch(self, topic: str, partition: int, data: bytearray, on_done: Callable[[RowsRun], None]) -> None:
        """Queue an encoded batch, whose header this changes. `on_done` is called on another thread when it is
        acknowledged or failed; after a failure all batches that are not in flight fail with its error. Waits while too
        much is in memory. Raises KafkaError when metadata cannot be had."""
        self._ensure_ready_to_send()
        self._wait_on_metadata(topic, partition)
        builder = EncodedBatch(data)
        size, rows = len(data), range(builder.record_count)
        with self._changed:
            self._changed.wait_for(lambda: self._pending_bytes < self._limit_bytes)
            self._pending_bytes += size
        unfinished = [builder.record_count]

        def done(run: RowsRun) -> None:
            on_done(run)
            if run.error is not None and self.sender.transactions is not None:
                self.sender.transactions.fail(run.error)
            unfinished[0] -= run.row_count
            if unfinished[0] <= 0:
                with self._changed:
                    self._pending_bytes -= size
                    self._changed.notify()

        batch = ProducerBatch(TopicPartition(topic, partition), builder, self.clock.now_ms())
        batch.thunks.append(RowsThunk(RowsSink(ColumnsFuture(builder.record_count), done, rows)))
        try:
            self._accumulator.append_batch(batch)
        except KafkaError:
            with self._changed:
                self._pending_bytes -= size
            raise
        self.sender.wakeup()
