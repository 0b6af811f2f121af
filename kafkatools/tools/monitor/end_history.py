"""A history of log end offsets, for the age of the next record of a group.

Between two snapshots, an end offset is assumed to grow evenly. Records that arrived before the first snapshot have an
unknown age, of which the least is known. Only changed end offsets are kept, about 128 of each partition. Beyond that,
points near the line between their neighbours are dropped, those that change ages least in proportion first. So the
history always begins with the first snapshot, and old ages are less exact than new ones.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Mapping

TopicPartition = tuple[str, int]

_MAX_ENDS = 128
_DROPPED = _MAX_ENDS // 4
_THINNED, _THINNED_SHARE = 64, 16


class EndHistory:
    """The end offsets of partitions with the monotonic times (ms) at which they were seen."""

    def __init__(self) -> None:
        # arrays: 10,000 partitions have up to 1.3 million points
        self._ends: dict[TopicPartition, array[int]] = {}
        self._times: dict[TopicPartition, array[int]] = {}

    def add(self, ends: Mapping[TopicPartition, int], now_ms: int) -> None:
        """Add the current end offsets. A lower one (log truncated or recreated) restarts the partition's history."""
        # Many partitions have too many points at the same time: thinning all of them would delay one snapshot.
        left = max(_THINNED, len(ends) // _THINNED_SHARE)
        for key, end in ends.items():
            earlier, times = self._ends.get(key), self._times.get(key)
            if earlier is None or times is None or end < earlier[-1]:
                earlier = self._ends[key] = array("q")
                times = self._times[key] = array("q")
            if len(earlier) > 1 and earlier[-1] == earlier[-2] == end:
                times[-1] = now_ms  # unchanged since then
                continue
            earlier.append(end)
            times.append(now_ms)
            if len(earlier) > _MAX_ENDS and left:
                left -= 1
                _thin(earlier, times)

    def forget_others(self, partitions: Iterable[TopicPartition]) -> None:
        """Drop the history of all partitions except these."""
        retained = set(partitions)
        for key in self._ends.keys() - retained:
            del self._ends[key], self._times[key]

    def age_ms(self, partition: TopicPartition, offset: int, now_ms: int) -> int | None:
        """Return the ms since the record at an offset arrived, 0 if it has not arrived. None if it arrived before the
        history, or the partition has none."""
        ends, times = self._ends.get(partition, ()), self._times.get(partition, ())
        if not ends:
            return None
        if offset >= ends[-1]:
            return 0
        after = bisect_right(ends, offset)
        if after == 0:
            return None
        share = (offset - ends[after - 1]) / (ends[after] - ends[after - 1])
        arrived_ms = times[after - 1] + share * (times[after] - times[after - 1])
        return max(0, round(now_ms - arrived_ms))

    def least_age_ms(self, partition: TopicPartition, offset: int, now_ms: int) -> int:
        """Return the least age in ms of the record at an offset that arrived before the history: the history's own.
        0 for other records and without a history."""
        ends = self._ends.get(partition)
        return max(0, now_ms - self._times[partition][0]) if ends and offset < ends[0] else 0


def _thin(ends: array[int], times: array[int]) -> None:
    """Drop a quarter of the points, never two neighbours."""
    now_ms = times[-1]

    def error(at: int) -> float:
        growth = ends[at + 1] - ends[at - 1]
        share = (ends[at] - ends[at - 1]) / growth if growth else 0.5
        even_ms = times[at - 1] + share * (times[at + 1] - times[at - 1])
        return abs(even_ms - times[at]) / (now_ms - times[at] + 1)

    dropped: set[int] = set()
    for at in sorted(range(1, len(ends) - 1), key=error):
        if len(dropped) == _DROPPED:
            break
        if not dropped & {at - 1, at + 1}:
            dropped.add(at)
    for at in sorted(dropped, reverse=True):
        del ends[at], times[at]
