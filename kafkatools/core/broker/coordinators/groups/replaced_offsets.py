"""The values that offsets had before changes above the high watermark.

Apache Kafka keeps the offsets in timeline collections and reads them at the last committed offset of the partition.
Here a group has the current offsets, and for each of its batches above the high watermark the values that the batch
replaced. Without such a batch, the usual case, nothing is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from kafkatools.core.broker.coordinators.groups.offset_records import CommittedOffset

Place = tuple[str, int]
Values = dict[Place, CommittedOffset | None]


class Progress(NamedTuple):
    """The replication of the partition of `__consumer_offsets` that holds a group."""

    log_end_offset: int
    high_watermark: int


class ReplacedOffsets:
    """By group, then by the end offset of a batch, in order: places and their values before the batch, None: absent.

    `progress` gives the replication of a group's partition; None (the default) when every change counts at once.
    """

    def __init__(self, progress: Callable[[str], Progress] | None = None) -> None:
        self._progress = progress
        self._groups: dict[str, dict[int, Values]] = {}

    def batch(self, group_id: str) -> Values | None:
        """Where to note the values before the changes that were just written to the log; None when they are
        replicated already."""
        if self._progress is None:
            return None
        end, high_watermark = self._progress(group_id)
        if high_watermark >= end:
            self._groups.pop(group_id, None)
            return None
        return self.batch_at(group_id, end)

    def batch_at(self, group_id: str, end: int) -> Values:
        """Where to note the values before the batch that ends at an offset. Batches come in the order of the log."""
        return self._groups.setdefault(group_id, {}).setdefault(end, {})

    def before(self, group_id: str, current: Mapping[Place, CommittedOffset]) -> Mapping[Place, CommittedOffset]:
        """The offsets of a group without the changes above the high watermark."""
        batches = self._groups.get(group_id)
        if batches is None or self._progress is None:
            return current
        high_watermark = self._progress(group_id).high_watermark
        for end in [end for end in batches if end <= high_watermark]:
            del batches[end]
        if not batches:
            del self._groups[group_id]
            return current
        offsets = dict(current)
        for end in sorted(batches, reverse=True):
            for place, previous in batches[end].items():
                if previous is None:
                    offsets.pop(place, None)
                else:
                    offsets[place] = previous
        return offsets

    def release(self, is_mine: Callable[[str], bool]) -> None:
        """Forget groups that this node does not coordinate any more."""
        for group_id in [group_id for group_id in self._groups if is_mine(group_id)]:
            del self._groups[group_id]

    def take_over(self, other: ReplacedOffsets) -> None:
        """Take the batches of groups that were just loaded."""
        self._groups.update(other._groups)
