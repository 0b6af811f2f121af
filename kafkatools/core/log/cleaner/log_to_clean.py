"""What the cleaner is told about a log: a plan made by the log's owner, followed by the cleaner on its own thread.

The plan holds numbers and names, no object of the log: the segments below the active one do not change while it is
carried out. What does change them (truncation, deletion, an offline log) calls `abort`; the cleaner looks at
`is_aborted` between batches, and the owner refuses to swap anything in for an aborted plan.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kafkatools.core.log.format.filenames import TopicPartition
from kafkatools.core.log.format.transaction_index import AbortedTransaction
from kafkatools.core.log.partition.log_config import LogConfig

NO_OFFSET = -1


class CleaningAborted(Exception):
    """The log changed under the cleaner; the next round begins anew (LogCleaningAbortedException)."""


class SegmentOverflowed(Exception):
    """A segment has offsets that do not fit its indexes: it has to be split before it can be cleaned."""

    def __init__(self, base_offset: int) -> None:
        super().__init__(f"the segment at offset {base_offset} has offsets that do not fit its indexes")
        self.base_offset = base_offset


class LastRecord(NamedTuple):
    """The last offset of data that an active producer wrote (-1: it has markers only) and its epoch."""

    last_data_offset: int
    producer_epoch: int


class SegmentToClean(NamedTuple):
    """One segment: where it is, where the next one begins, how large it and its indexes are."""

    base_offset: int
    end_offset: int
    path: str
    size_bytes: int
    modified_ms: int
    offset_index_bytes: int
    time_index_bytes: int


class Measure(NamedTuple):
    """How dirty a log is (Kafka's LogToClean)."""

    first_dirty_offset: int
    first_uncleanable_offset: int
    clean_bytes: int
    cleanable_bytes: int
    needs_compaction_now: bool

    @property
    def total_bytes(self) -> int:
        """Bytes of the clean and the cleanable part."""
        return self.clean_bytes + self.cleanable_bytes

    @property
    def cleanable_ratio(self) -> float:
        """The dirty part of the whole."""
        return self.cleanable_bytes / self.total_bytes if self.total_bytes else 0.0


@dataclass(eq=False, slots=True)
class LogToClean:
    """One log and the range that is to be cleaned."""

    topic_partition: TopicPartition
    directory: str
    config: LogConfig
    measure: Measure
    segments: Sequence[SegmentToClean]
    aborted_transactions: Sequence[AbortedTransaction]
    last_records: dict[int, LastRecord]
    dirty_position: int
    is_aborted: bool = False

    def abort(self) -> None:
        """The log is not what the plan says any more."""
        self.is_aborted = True
