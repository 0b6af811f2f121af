"""Forecast of when a broker deletes the segments of a partition, by Kafka's rules and from batch headers.

The order is that of UnifiedLog.deleteOldSegments: segments below the log start offset, then by size, then by time. Each
rule deletes whole segments, oldest first, and stops at the first that must stay. A segment whose largest timestamp is
in the future therefore keeps all later ones. By time, a segment is deleted when its largest timestamp (or its file's
modification time if no record has one) is older than retention.ms. The active segment is deleted too unless empty; a
new one is rolled first. All records are assumed to be below the high watermark.
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
    """Size and timestamps of a segment, for the retention rules. `modified_ms` is used if `largest_timestamp` is
    negative. `first_timestamp` is the largest timestamp of its first batch, -1 if it has none."""

    base_offset: int
    size_bytes: int
    largest_timestamp: int
    modified_ms: int = -1
    first_timestamp: int = -1

    @property
    def retention_timestamp(self) -> int:
        """The largest timestamp, or the file's modification time without one (LogSegment.largestTimestamp), in epoch
        ms."""
        return self.largest_timestamp if self.largest_timestamp >= 0 else self.modified_ms


@dataclass(frozen=True)
class Retention:
    """Topic settings for retention, with Kafka's defaults. `is_deleted`: cleanup.policy includes delete."""

    retention_ms: int = 604_800_000
    retention_bytes: int = UNLIMITED
    is_deleted: bool = True


@dataclass(frozen=True)
class Forecast:
    """The forecast for a segment: the rule that deletes it (or KEPT) and the time in epoch ms (None: never by time).
    `waits_for` is the base offset of an older segment that delays it. `bytes_until_size` is how much must be written
    before retention.bytes deletes it; None for never, or if another rule or the size deletes it now."""

    segment: SegmentSize
    is_active: bool
    reason: str
    due_ms: int | None
    waits_for: int | None = None
    bytes_until_size: int | None = None


def forecast_retention(
    segments: Sequence[SegmentSize], retention: Retention, now_ms: int, *, log_start_offset: int = 0
) -> list[Forecast]:
    """Return a forecast for each segment of a partition, oldest first. Segments that a broker would delete now have
    `due_ms` equal to `now_ms`, also those that the log start offset has passed."""
    ordered = sorted(segments, key=lambda segment: segment.base_offset)
    below = sum(segment.base_offset <= log_start_offset for segment in ordered[1:])
    result = []
    excess = sum(segment.size_bytes for segment in ordered[below:]) - retention.retention_bytes
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
        due_ms = _due_by_time(segment, retention)
        if due_ms is not None and (latest is None or due_ms > latest[0]):
            latest = (due_ms, segment.base_offset)
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
    due_ms, holder = latest
    waits_for = None if holder == segment.base_offset else holder
    return Forecast(segment, is_active, TIME, max(due_ms, now_ms), waits_for, missing)
