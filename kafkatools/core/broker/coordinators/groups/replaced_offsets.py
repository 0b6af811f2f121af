"""The values that committed offsets had before changes above the high watermark.

A group has its current offsets, and for each of its batches above the high watermark the values that the batch replaced
(`ReplacedValues`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kafkatools.core.broker.coordinators.groups.offset_records import CommittedOffset
from kafkatools.core.broker.coordinators.groups.replaced_values import Progress, ReplacedValues

Place = tuple[str, int]
Values = dict[Place, CommittedOffset | None]


class ReplacedOffsets:
    """Replaced values by group and batch. None stands for no offset. `progress` as in `ReplacedValues`."""

    def __init__(self, progress: Callable[[str], Progress] | None = None) -> None:
        self._batches: ReplacedValues[Values] = ReplacedValues(progress)

    @property
    def batches(self) -> int:
        """The number of batches whose replaced values are kept."""
        return self._batches.count

    def batch(self, group_id: str) -> Values | None:
        """The dict for the values that a group's last written batch replaced. None if everything written is
        replicated."""
        end = self._batches.last_batch(group_id)
        return None if end is None else self.batch_at(group_id, end)

    def batch_at(self, group_id: str, end: int) -> Values:
        """The dict for the values that the batch ending at offset `end` replaced. Batches come in log order."""
        return self._batches.keep(group_id, end, {})

    def before(self, group_id: str, current: Mapping[Place, CommittedOffset]) -> Mapping[Place, CommittedOffset]:
        """The offsets of a group as of the high watermark, given its current ones."""
        batches = self._batches.of(group_id)
        if not batches:
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
        self._batches.release(is_released)

    def take_over(self, other: ReplacedOffsets) -> None:
        """Add the replaced values of loaded groups."""
        self._batches.take_over(other._batches)
