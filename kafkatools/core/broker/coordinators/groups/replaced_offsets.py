"""The values that committed offsets had before changes above the high watermark.

Apache Kafka keeps offsets in timeline collections and reads them at the partition's last committed offset. Here a group
has its current offsets, and for each of its batches above the high watermark the values that the batch replaced.
Usually there is no such batch, and nothing is kept.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import NamedTuple

from kafkatools.core.broker.coordinators.groups.offset_records import CommittedOffset

Place = tuple[str, int]
Values = dict[Place, CommittedOffset | None]


class Progress(NamedTuple):
    """Log end offset and high watermark of the `__consumer_offsets` partition that holds a group."""

    log_end_offset: int
    high_watermark: int


_SWEPT = 2
"""Groups whose values a commit examines: more than the one that it adds."""


def _drop_replicated(batches: dict[int, Values], high_watermark: int) -> bool:
    """Drop the values of batches below the high watermark; return whether some are left."""
    for end in [end for end in batches if end <= high_watermark]:
        del batches[end]
    return bool(batches)


class ReplacedOffsets:
    """Replaced values by group and by end offset of the batch that replaced them. None stands for no offset. `progress`
    returns the replication progress of a group's partition. Without it every change counts as replicated."""

    def __init__(self, progress: Callable[[str], Progress] | None = None) -> None:
        self._progress = progress
        self._groups: OrderedDict[str, dict[int, Values]] = OrderedDict()

    @property
    def batches(self) -> int:
        """The number of batches whose replaced values are kept."""
        return sum(map(len, self._groups.values()))

    def batch(self, group_id: str) -> Values | None:
        """The dict for the values that a group's last written batch replaced. None, after dropping the group's replaced
        values, if everything written is replicated; None also without `progress`. Drops replaced values of this and of
        other groups that are replicated by now: most groups commit often, and nobody fetches their offsets."""
        if self._progress is None:
            return None
        for _ in range(min(_SWEPT, len(self._groups))):
            swept, batches = self._groups.popitem(last=False)
            if _drop_replicated(batches, self._progress(swept).high_watermark):
                self._groups[swept] = batches
        end, high_watermark = self._progress(group_id)
        if high_watermark >= end:
            self._groups.pop(group_id, None)
            return None
        _drop_replicated(self._groups.get(group_id, {}), high_watermark)
        return self.batch_at(group_id, end)

    def batch_at(self, group_id: str, end: int) -> Values:
        """The dict for the values that the batch ending at offset `end` replaced. Batches come in log order."""
        return self._groups.setdefault(group_id, {}).setdefault(end, {})

    def before(self, group_id: str, current: Mapping[Place, CommittedOffset]) -> Mapping[Place, CommittedOffset]:
        """The offsets of a group as of the high watermark, given its current ones. Drops replaced values of batches
        that are replicated by now."""
        batches = self._groups.get(group_id)
        if batches is None or self._progress is None:
            return current
        high_watermark = self._progress(group_id).high_watermark
        if not _drop_replicated(batches, high_watermark):
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

    def release(self, is_released: Callable[[str], bool]) -> None:
        """Drop the groups for which `is_released` is true. Another broker coordinates them."""
        for group_id in [group_id for group_id in self._groups if is_released(group_id)]:
            del self._groups[group_id]

    def take_over(self, other: ReplacedOffsets) -> None:
        """Add the replaced values of loaded groups."""
        self._groups.update(other._groups)
