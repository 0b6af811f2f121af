"""EndHistory: when the ends of logs were where, to say how long ago a group's next record came in.

Between two looks an end is taken to have moved evenly. Nothing is known of records that came in before the first look:
they are older than it. Only ends that moved are kept, the newest 128 of a partition.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping

TopicPartition = tuple[str, int]

_KEPT = 128


class EndHistory:
    """The ends of partitions by the timers' time, as `add` was told of them."""

    def __init__(self) -> None:
        self._ends: dict[TopicPartition, list[int]] = {}
        self._times: dict[TopicPartition, list[int]] = {}

    def add(self, ends: Mapping[TopicPartition, int], now_ms: int) -> None:
        """What was told now. An end that went back begins anew: the log was truncated, or made anew."""
        for key, end in ends.items():
            known, times = self._ends.setdefault(key, []), self._times.setdefault(key, [])
            if known and end < known[-1]:
                known.clear()
                times.clear()
            if known[-2:] == [end, end]:
                times[-1] = now_ms  # it has stood still since
                continue
            known.append(end)
            times.append(now_ms)
            if len(known) > _KEPT:
                del known[0], times[0]

    def forget_others(self, partitions: Iterable[TopicPartition]) -> None:
        """Keeps these only: the others are gone."""
        kept = set(partitions)
        for key in self._ends.keys() - kept:
            del self._ends[key], self._times[key]

    def age_ms(self, partition: TopicPartition, offset: int, now_ms: int) -> int | None:
        """How long ago the record at an offset came in; 0 when there is none yet, None when it was before the first
        look."""
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
