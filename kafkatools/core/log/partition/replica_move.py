"""Copy a partition's log to another log directory of the broker, while the log is in use (ReplicaAlterLogDirsThread).

The copy receives whole batches with their offsets and epochs, as a follower does, and every checksum is verified.
Before each slice the copy is truncated to where both logs agree, by their leader epochs (KIP-101). It is flushed every
FLUSH_BYTES. When the copy is complete and durable it may replace the log in the same turn of the owner's loop, because
nothing was written in between.
"""

from dataclasses import replace

from kafkatools.core.log.partition.partition_log import PartitionLog
from kafkatools.core.records.header import whole_batches_bytes

SLICE_BYTES = 1 << 20
FLUSH_BYTES = 16 << 20


class ReplicaMove:
    """The copying of a current replica's log to its future replica in another log directory."""

    def __init__(self, current: PartitionLog, future: PartitionLog) -> None:
        self.current = current
        self.future = future
        self._unflushed_bytes = 0

    def step(self, now_ms: int, max_bytes: int = SLICE_BYTES) -> int:
        """Copy up to `max_bytes`, at least one batch. Return the bytes copied, or 0 when the copy is complete. Return 1
        if the copy was only truncated, because its leader epochs diverge from the log's. Raises KafkaStorageError, and
        CorruptRecord for a damaged batch."""
        current, future = self.current, self.future
        if future.log_end_offset < current.log_start_offset:
            future.truncate_fully_and_start_at(current.log_start_offset, now_ms)
        elif self._cut_back(now_ms):
            return 1
        if future.log_end_offset >= current.log_end_offset:
            self._take_log_start()
            return 0
        limit = min(max_bytes, current.config.segment_bytes)
        log_slice = current.read(future.log_end_offset, limit)
        data = current.storage("copying", log_slice.read)
        data = data[: whole_batches_bytes(data)]
        self._append(memoryview(bytearray(data)), now_ms)
        future.update_high_watermark(current.high_watermark)
        self._take_log_start()
        self._flush_now_and_then(len(data), now_ms)
        return len(data)

    def _append(self, records: memoryview, now_ms: int) -> None:
        """Append to the future replica. A batch above the current segment.bytes gets a segment of its size."""
        future, config = self.future, self.future.config
        if len(records) > config.segment_bytes:
            future.config = replace(config, segment_bytes=len(records))
        try:
            future.append_as_follower(records, now_ms)
        finally:
            future.config = config

    def _cut_back(self, now_ms: int) -> bool:
        """Truncate the future replica to where its leader epochs agree with the current one's. Return whether anything
        was removed."""
        current, future = self.current, self.future
        epoch = future.latest_epoch
        if epoch is None:
            return False
        latest = current.latest_epoch
        if latest is None or epoch > latest:
            common_epoch, end = -1 if latest is None else latest, current.log_end_offset
        else:
            common_epoch, end = current.end_offset_for_epoch(epoch)
        if common_epoch < epoch:
            _, own_end = future.end_offset_for_epoch(common_epoch)
            end = min(end, own_end) if own_end >= 0 else end
        if end >= future.log_end_offset:
            return False
        if end < future.log_start_offset:
            future.truncate_fully_and_start_at(current.log_start_offset, now_ms)
        else:
            future.truncate_to(end, now_ms)
        return True

    def _take_log_start(self) -> None:
        future = self.future
        start = min(self.current.log_start_offset, future.log_end_offset)
        if start > future.log_start_offset:
            future.update_high_watermark(future.log_end_offset)
            future.increment_log_start_offset(start)

    def _flush_now_and_then(self, size_bytes: int, now_ms: int) -> None:
        """Flush the future replica every FLUSH_BYTES, so that no single flush takes long."""
        self._unflushed_bytes += size_bytes
        if self._unflushed_bytes >= FLUSH_BYTES:
            self.future.flush(now_ms)
            self._unflushed_bytes = 0
