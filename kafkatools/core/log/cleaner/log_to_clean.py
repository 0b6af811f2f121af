"""The plan of one log compaction: the log's owner makes it, and the cleaner follows it on its own thread.

The plan holds numbers and names, no object of the log. The segments below the active one do not change while the plan
is carried out. Truncation, deletion and a disk failure call `abort`. The cleaner checks `is_aborted` between batches,
and the owner refuses to swap in segments of an aborted plan.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from kafkatools.core.log.format.transaction_index import AbortedTransaction
from kafkatools.core.log.partition.log_config import LogConfig

NO_OFFSET = -1


class CleaningAborted(Exception):
    """The log changed during its cleaning. The next round starts from the beginning (LogCleaningAbortedException)."""


class SegmentOverflowed(Exception):
    """A segment has offsets that do not fit its indexes, and must be split before it can be cleaned."""

    def __init__(self, base_offset: int) -> None:
        super().__init__(f"the segment at offset {base_offset} has offsets that do not fit its indexes")
        self.base_offset = base_offset


class LastRecord(NamedTuple):
    """The offset of an active producer's last data record (-1 when it has only markers) and its producer epoch."""

    last_data_offset: int
    producer_epoch: int


class SegmentToClean(NamedTuple):
    """A segment of a cleaning plan: offset range, path, modification time, sizes of the log file and indexes."""

    base_offset: int
    end_offset: int
    path: str
    size_bytes: int
    modified_ms: int
    offset_index_bytes: int
    time_index_bytes: int


class Measure(NamedTuple):
    """The clean bytes of a log and those that can be cleaned (Kafka's LogToClean)."""

    first_dirty_offset: int
    first_uncleanable_offset: int
    clean_bytes: int
    cleanable_bytes: int
    needs_compaction_now: bool

    @property
    def total_bytes(self) -> int:
        """The size of the clean part and the cleanable part together."""
        return self.clean_bytes + self.cleanable_bytes

    @property
    def cleanable_ratio(self) -> float:
        """The cleanable part of `total_bytes`, from 0.0 to 1.0. Compared with min.cleanable.dirty.ratio."""
        return self.cleanable_bytes / self.total_bytes if self.total_bytes else 0.0


@dataclass(eq=False, slots=True)
class LogToClean:
    """The plan for cleaning one log: its segments, the offset range, and the transactions and producers in it."""

    directory: str
    config: LogConfig
    measure: Measure
    segments: Sequence[SegmentToClean]
    aborted_transactions: Sequence[AbortedTransaction]
    last_records: dict[int, LastRecord]
    dirty_position: int
    is_aborted: bool = False

    def abort(self) -> None:
        """Void the plan, because the log has changed. The cleaner then raises CleaningAborted."""
        self.is_aborted = True
