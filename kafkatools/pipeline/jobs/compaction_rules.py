"""The part of a compacted partition that the log cleaner would clean, by the rules of
LogCleanerManager.cleanableOffsets.

The cleaner leaves out the active segment, offsets from the last stable offset on, and segments with records younger
than min.compaction.lag.ms together with all later ones. The clean part ends at the offset in cleaner-offset-checkpoint;
the part after it is dirty. A log is cleaned if its dirty part exceeds min.cleanable.dirty.ratio of both parts, or if a
dirty record is older than max.compaction.lag.ms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kafkatools.pipeline.jobs.retention_rules import SegmentSize

_NO_END = (1 << 63) - 1


@dataclass(frozen=True)
class Compaction:
    """Topic settings for compaction, with Kafka's defaults; times in ms."""

    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = (1 << 63) - 1
    delete_retention_ms: int = 86_400_000


@dataclass(frozen=True)
class CleanableRange:
    """The offsets [first_dirty_offset, first_uncleanable_offset) that the cleaner can clean, and the bytes before and
    in that range. `is_overdue`: a dirty record is older than max.compaction.lag.ms."""

    first_dirty_offset: int
    first_uncleanable_offset: int
    clean_bytes: int
    cleanable_bytes: int
    is_overdue: bool
    settings: Compaction

    @property
    def dirty_ratio(self) -> float:
        """Cleanable bytes as a fraction of clean and cleanable bytes, 0 if there are none."""
        total = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total if total else 0.0

    @property
    def is_due(self) -> bool:
        """Return whether the cleaner would clean the log now."""
        return self.dirty_ratio > self.settings.min_cleanable_dirty_ratio or (
            self.is_overdue and self.cleanable_bytes > 0
        )


def cleanable_range(
    segments: Sequence[SegmentSize],
    settings: Compaction,
    now_ms: int,
    *,
    first_dirty_offset: int | None = None,
    last_stable_offset: int | None = None,
    log_start_offset: int = 0,
) -> CleanableRange:
    """Return the cleanable range from all segments of a partition, the active one included. `first_dirty_offset` is
    from cleaner-offset-checkpoint; None, or an offset before the log start offset or the first segment, means the later
    of these two. `last_stable_offset` None means no open transaction. Without segments, offsets and bytes are 0."""
    ordered = sorted(segments, key=lambda segment: segment.base_offset)
    if not ordered:
        return CleanableRange(0, 0, 0, 0, False, settings)
    ends = [segment.base_offset for segment in ordered[1:]] + [_NO_END]
    start, active = max(ordered[0].base_offset, log_start_offset), ordered[-1].base_offset
    dirty = start if first_dirty_offset is None or first_dirty_offset < start else first_dirty_offset
    closed = [segment for segment, end in zip(ordered, ends, strict=True) if dirty < end != _NO_END]
    young_from = now_ms - settings.min_compaction_lag_ms
    young = [segment.base_offset for segment in closed if segment.retention_timestamp > young_from]
    bound = active if last_stable_offset is None else min(active, last_stable_offset)
    bound = max(dirty, min([bound, *young] if settings.min_compaction_lag_ms > 0 else [bound]))
    bound = (
        active if bound >= active else max(segment.base_offset for segment in ordered if segment.base_offset <= bound)
    )

    def between(first: int, stop: int) -> int:
        pairs = zip(ordered, ends, strict=True)
        return sum(segment.size_bytes for segment, end in pairs if end > first and segment.base_offset < stop)

    until = now_ms - settings.max_compaction_lag_ms
    is_overdue = until > 0 and any(0 < segment.first_timestamp < until for segment in closed)
    cleanable = between(dirty, bound) if dirty < bound else 0
    return CleanableRange(dirty, bound, between(-1, dirty), cleanable, is_overdue, settings)
