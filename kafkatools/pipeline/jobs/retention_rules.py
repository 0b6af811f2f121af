"""When a broker will delete the segments of a partition, by Kafka's rules and from what the segments' headers say.

In the order of UnifiedLog.deleteOldSegments: what lies below the log start offset, then by size, then by time, each
time whole segments from the oldest on, until one has to stay. So a segment whose newest timestamp lies in the future
keeps all that follow it. By time a segment goes when its newest timestamp is older than retention.ms (the time of its
file where no record has a timestamp). The active segment goes like the others unless it is empty: a new one is begun
first. That everything is committed (below the high watermark) is assumed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

START_OFFSET = "log start offset"
SIZE = "retention.bytes"
TIME = "retention.ms"
KEPT = "kept"
UNLIMITED = -1


@dataclass(frozen=True)
class SegmentSize:
    """A segment as retention sees it; `modified_ms` counts where `largest_timestamp` is negative. `first_timestamp` is
    the newest one of its first batch, -1 when there is none."""

    base_offset: int
    size_bytes: int
    largest_timestamp: int
    modified_ms: int = -1
    first_timestamp: int = -1

    @property
    def retention_timestamp(self) -> int:
        """LogSegment.largestTimestamp."""
        return self.largest_timestamp if self.largest_timestamp >= 0 else self.modified_ms


@dataclass(frozen=True)
class Retention:
    """The settings of a topic that decide; `is_deleted`: cleanup.policy has delete in it."""

    retention_ms: int = 604_800_000
    retention_bytes: int = UNLIMITED
    is_deleted: bool = True


@dataclass(frozen=True)
class Forecast:
    """What becomes of a segment. `reason`: the rule that takes it (or KEPT). `due_ms`: when, in ms since 1970; None
    when time never takes it. `waits_for`: the older segment that keeps it beyond its own time, if one does.
    `bytes_until_size`: how much more has to be written until retention.bytes takes it, None when that never does."""

    segment: SegmentSize
    is_active: bool
    reason: str
    due_ms: int | None
    waits_for: int | None = None
    bytes_until_size: int | None = None


def forecast_retention(
    segments: Sequence[SegmentSize], retention: Retention, now_ms: int, *, log_start_offset: int = 0
) -> list[Forecast]:
    """All segments of one partition, oldest first; those that go now have `due_ms` = `now_ms`."""
    ordered = sorted(segments, key=lambda each: each.base_offset)
    below = sum(each.base_offset <= log_start_offset for each in ordered[1:])
    result = []
    left = sum(each.size_bytes for each in ordered[below:])
    excess = left - retention.retention_bytes
    by_size = retention.is_deleted and retention.retention_bytes != UNLIMITED
    latest: tuple[int, int] | None = None
    for number, segment in enumerate(ordered):
        is_active = number == len(ordered) - 1
        if number < below:
            result.append(Forecast(segment, is_active, START_OFFSET, now_ms))
            continue
        excess -= segment.size_bytes
        if by_size and excess >= 0 and not _is_empty_active(segment, is_active):
            result.append(Forecast(segment, is_active, SIZE, now_ms))
            continue
        missing = None if not by_size or is_active else -excess
        due = _due_by_time(segment, retention)
        if due is not None and (latest is None or due > latest[0]):
            latest = (due, segment.base_offset)
        result.append(_by_time(segment, is_active, latest, now_ms, missing))
    return result


def _is_empty_active(segment: SegmentSize, is_active: bool) -> bool:
    return is_active and segment.size_bytes == 0


def _due_by_time(segment: SegmentSize, retention: Retention) -> int | None:
    if not retention.is_deleted or retention.retention_ms < 0:
        return None
    return segment.retention_timestamp + retention.retention_ms + 1


def _by_time(
    segment: SegmentSize, is_active: bool, latest: tuple[int, int] | None, now_ms: int, missing: int | None
) -> Forecast:
    if latest is None or _is_empty_active(segment, is_active):
        return Forecast(segment, is_active, KEPT, None, None, missing)
    due, holder = latest
    waits_for = None if holder == segment.base_offset else holder
    return Forecast(segment, is_active, TIME, max(due, now_ms), waits_for, missing)
