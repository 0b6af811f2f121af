"""The inputs and results of appends and reads on a partition's log."""

from typing import NamedTuple

from kafkatools.core.log.files import LogFile
from kafkatools.core.log.partition.segment import LogSegment
from kafkatools.core.log.producers.append import BatchMetadata
from kafkatools.core.records.header import BatchHeader


class CheckedBatch(NamedTuple):
    """A validated batch, ready to be appended. `append_time` in ms is -1 for CreateTime."""

    records: memoryview
    header: BatchHeader
    leader_epoch: int
    now_ms: int
    append_time: int

    @property
    def max_timestamp(self) -> int:
        """The max timestamp in ms that the batch gets in the log."""
        return self.header.max_timestamp if self.append_time < 0 else self.append_time


class LogAppendInfo(NamedTuple):
    """The result of an append. `log_append_time` in ms is -1 for CreateTime, and the batch's timestamp for a duplicate.
    `batch_max_timestamp` is that of the last batch, on a follower the newest of all batches."""

    first_offset: int
    last_offset: int
    log_append_time: int
    log_start_offset: int
    batch_max_timestamp: int
    is_duplicate: bool

    @classmethod
    def of_duplicate(cls, batch: BatchMetadata, log_start_offset: int) -> "LogAppendInfo":
        """Build the result of a duplicate batch: the offsets and the timestamp of the first append."""
        return cls(batch.first_offset, batch.last_offset, batch.timestamp, log_start_offset, batch.timestamp, True)


class LogSlice(NamedTuple):
    """A byte range of a segment file that a read returns, to be sent without a copy. `base_offset` is that of the first
    batch, or the requested offset if the range is empty. `first_entry_incomplete`, as in FetchDataInfo: the size limit
    cuts the first batch."""

    file: LogFile
    position: int
    size_bytes: int
    base_offset: int
    segment: LogSegment
    first_entry_incomplete: bool = False

    def read(self) -> bytes:
        """Return the bytes of the slice. Raises OSError."""
        return self.file.read_at(self.position, self.size_bytes) if self.size_bytes else b""

    def fileno(self) -> int:
        """Return the segment file's descriptor, for sendfile. It is valid until the next use of the log. Raises
        OSError."""
        return self.file.fileno()
