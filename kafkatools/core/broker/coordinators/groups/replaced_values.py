"""The values that batches above the high watermark replaced, by group, for `ReplicatedGroups` and `ReplacedOffsets`.

Apache Kafka keeps the state of the group coordinator in timeline collections and reads it at the last committed offset.
Here the value that a batch replaced is kept until the batch is replicated. Usually there is no such batch. Each batch
also drops replicated values of other groups, so that they do not pile up where nobody reads them.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from typing import Generic, NamedTuple, TypeVar

Value = TypeVar("Value")
_SWEPT = 2
"""Number of groups whose values a batch examines: more than the one that it adds."""


class Progress(NamedTuple):
    """Log end offset and high watermark of the `__consumer_offsets` partition that holds a group."""

    log_end_offset: int
    high_watermark: int


class ReplacedValues(Generic[Value]):
    """Replaced values by group and by end offset of the batch that replaced them. `progress` returns the replication
    progress of a group's partition. Without it every batch counts as replicated. At most `limit` batches of a group are
    kept, the newest ones; None keeps all."""

    def __init__(self, progress: Callable[[str], Progress] | None, limit: int | None = None) -> None:
        self._progress, self._limit = progress, limit
        self._groups: OrderedDict[str, dict[int, Value]] = OrderedDict()

    def __iter__(self) -> Iterator[str]:
        """Yield the groups for which values are kept. Some may be replicated by now."""
        return iter(self._groups)

    @property
    def count(self) -> int:
        """The number of batches whose replaced values are kept."""
        return sum(map(len, self._groups.values()))

    def last_batch(self, group_id: str) -> int | None:
        """The end offset of a group's last written batch. None if everything written is replicated."""
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
        return end

    def keep(self, group_id: str, end: int, value: Value) -> Value:
        """Keep the value that the batch ending at offset `end` replaced, and return it; return the kept value if there
        is one already. Batches come in log order."""
        batches = self._groups.setdefault(group_id, {})
        kept = batches.setdefault(end, value)
        if self._limit is not None and len(batches) > self._limit:
            del batches[next(iter(batches))]
        return kept

    def of(self, group_id: str) -> Mapping[int, Value]:
        """The replaced values of a group in log order; none if everything written is replicated."""
        batches = self._groups.get(group_id)
        if batches is None or self._progress is None:
            return {}
        if not _drop_replicated(batches, self._progress(group_id).high_watermark):
            del self._groups[group_id]
        return batches

    def release(self, is_released: Callable[[str], bool]) -> None:
        """Drop the values of the groups for which `is_released` is true. Another broker coordinates them."""
        for group_id in [group_id for group_id in self._groups if is_released(group_id)]:
            del self._groups[group_id]

    def take_over(self, other: ReplacedValues[Value]) -> None:
        """Add the replaced values of loaded groups."""
        self._groups.update(other._groups)


def _drop_replicated(batches: dict[int, Value], high_watermark: int) -> bool:
    """Drop the values of batches below the high watermark; return whether some are left."""
    for end in [end for end in batches if end <= high_watermark]:
        del batches[end]
    return bool(batches)
