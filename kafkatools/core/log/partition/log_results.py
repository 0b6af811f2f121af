"""What goes through an append, and what appends and reads give back."""

from typing import NamedTuple

from kafkatools.core.log.files import LogFile
from kafkatools.core.log.partition.segment import LogSegment
from kafkatools.core.log.producers.append import BatchMetadata
from kafkatools.core.records.header import BatchHeader


class CheckedBatch(NamedTuple):
    """A batch that has passed validation and is to be appended; `append_time` is -1 for CreateTime."""

    records: memoryview
    header: BatchHeader
    leader_epoch: int
    now_ms: int
    append_time: int

    @property
    def max_timestamp(self) -> int:
        """The newest timestamp that readers will see."""
        return self.header.max_timestamp if self.append_time < 0 else self.append_time


class LogAppendInfo(NamedTuple):
    """What an append did. `log_append_time` is -1 for CreateTime; `batch_max_timestamp` is that of the newest batch."""

    first_offset: int
    last_offset: int
    log_append_time: int
    log_start_offset: int
    batch_max_timestamp: int
    is_duplicate: bool

    @classmethod
    def of_duplicate(cls, batch: BatchMetadata, log_start_offset: int) -> "LogAppendInfo":
        """The result for a batch that was appended before."""
        return cls(batch.first_offset, batch.last_offset, batch.timestamp, log_start_offset, batch.timestamp, True)


class LogSlice(NamedTuple):
    """A stretch of a segment's file to be sent. `file.fileno()` is asked for at the moment of sending.
    `first_entry_incomplete` (as in FetchDataInfo): the limit cut the first batch."""

    file: LogFile
    position: int
    size_bytes: int
    base_offset: int
    segment: LogSegment
    first_entry_incomplete: bool = False

    def read(self) -> bytes:
        """The bytes."""
        return self.file.read_at(self.position, self.size_bytes) if self.size_bytes else b""

    def fileno(self) -> int:
        """The descriptor, for sendfile; valid until the next use of the log."""
        return self.file.fileno()
