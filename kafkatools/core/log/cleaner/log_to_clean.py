"""What the cleaner is told about a log: a plan made by the log's owner, followed by the cleaner on its own thread.

The plan holds numbers and names, no object of the log: the segments below the active one do not change while it is
carried out. What does change them (truncation, deletion, an offline log) calls `abort`; the cleaner looks at
`is_aborted` between batches, and the owner refuses to swap anything in for an aborted plan.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from kafkatools.core.log.format.filenames import TopicPartition
from kafkatools.core.log.format.transaction_index import AbortedTransaction
from kafkatools.core.log.partition.log_config import LogConfig
from kafkatools.core.log.partition.segment import LogSegment

if TYPE_CHECKING:
    from kafkatools.core.log.partition.partition_log import PartitionLog

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


def measure(log: "PartitionLog", now_ms: int) -> Measure:
    """What of a log is clean, what may be cleaned, and what may not yet (LogCleanerManager.cleanableOffsets): never the
    active segment, nothing from the last stable offset on, nothing younger than min.compaction.lag.ms."""
    first_dirty = log.log_start_offset if log.first_dirty_offset is None else log.first_dirty_offset
    if not log.log_start_offset <= first_dirty <= log.log_end_offset:
        first_dirty = log.log_start_offset
    active = log.active_segment
    uncleanable = min(log.last_stable_offset, active.base_offset)
    closed = [segment for segment in log.segments.range(first_dirty, active.base_offset) if segment is not active]
    lag_ms = log.config.min_compaction_lag_ms
    if lag_ms > 0:
        young = (segment.base_offset for segment in closed if segment.largest_timestamp > now_ms - lag_ms)
        uncleanable = min(uncleanable, next(young, uncleanable))
    uncleanable = max(first_dirty, uncleanable)
    if uncleanable < active.base_offset:
        floor = log.segments.floor(uncleanable)
        uncleanable = active.base_offset if floor is None else floor.base_offset
    else:
        uncleanable = active.base_offset
    dirty = _between(log, min(first_dirty, uncleanable), uncleanable)
    return Measure(
        first_dirty,
        uncleanable,
        sum(segment.size_bytes for segment in _between(log, NO_OFFSET, first_dirty)),
        sum(segment.size_bytes for segment in dirty),
        _is_overdue(log, closed, now_ms),
    )


def _between(log: "PartitionLog", start: int, end: int) -> list[LogSegment]:
    """The segments from the one that holds `start` to the one that holds `end - 1`."""
    return log.segments.range(start, end) if start < end else []


def _is_overdue(log: "PartitionLog", closed: Sequence[LogSegment], now_ms: int) -> bool:
    """Whether a dirty record is older than max.compaction.lag.ms (LogCleanerManager.maxCompactionDelay)."""
    clean_until_ms = now_ms - log.config.max_compaction_lag_ms
    if clean_until_ms <= 0:
        return False
    return any(0 < segment.first_batch_timestamp < clean_until_ms for segment in closed)


def plan(log: "PartitionLog", measured: Measure) -> LogToClean:
    """All that the cleaner needs to know to clean this log up to the measured bound."""
    found = [each for each in _between(log, 0, measured.first_uncleanable_offset) if each is not log.active_segment]
    ends = [segment.base_offset for segment in found[1:]] + [measured.first_uncleanable_offset]
    segments = [
        SegmentToClean(
            segment.base_offset,
            end,
            segment.log.path,
            segment.size_bytes,
            log.files.modified_ms(segment.log.path),
            segment.offset_index.size_bytes,
            segment.time_index.size_bytes,
        )
        for segment, end in zip(found, ends, strict=True)
    ]
    start = segments[0].base_offset if segments else 0
    producers = log.producer_state.producers.items()
    return LogToClean(
        log.topic_partition,
        log.directory,
        log.config,
        measured,
        segments,
        log.aborted_transactions(start, measured.first_uncleanable_offset) if segments else (),
        {producer_id: LastRecord(entry.last_data_offset, entry.producer_epoch) for producer_id, entry in producers},
        _dirty_position(log, measured.first_dirty_offset),
    )


def _dirty_position(log: "PartitionLog", first_dirty_offset: int) -> int:
    """Where in its segment the first dirty batch begins."""
    segment = log.segments.floor(first_dirty_offset)
    found = None if segment is None else segment.translate_offset(first_dirty_offset)
    return 0 if found is None else found.position
