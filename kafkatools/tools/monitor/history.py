"""The history of an hour for the charts: a point for each 5 seconds, in numeric arrays.

Kept are series of the cluster, of each broker, and of up to 1,000 topics and 1,000 groups; `not_kept` counts the rest.
When more exist, the unhealthy and busiest topics and the groups with the largest lag are chosen, and they stay chosen
while they exist. NaN in an array is a value that was unknown, or missing since the thing did not exist.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from kafkatools.tools.monitor.assessment import ordered_topics
from kafkatools.tools.monitor.view import ClusterView, total

KEPT_MS = 3_600_000
STEP_MS = 5_000
MOST_TOPICS = 1000
MOST_GROUPS = 1000
MOST_BROKERS = 1000
_MOST_ROWS = KEPT_MS // STEP_MS + 2

CLUSTER = "cluster"
BROKER = "broker"
TOPIC = "topic"
GROUP = "group"

SERIES: Mapping[str, tuple[str, ...]] = {
    CLUSTER: ("messages_per_second", "bytes_per_second", "lag", "offline", "under_min_isr", "under_replicated"),
    BROKER: ("messages_per_second", "leaders", "log_bytes"),
    TOPIC: ("messages_per_second", "bytes_per_second"),
    GROUP: ("lag", "consumed_per_second"),
}
"""The names of the series of each kind of thing, in the order of their values."""

_MOST = {CLUSTER: 1, BROKER: MOST_BROKERS, TOPIC: MOST_TOPICS, GROUP: MOST_GROUPS}

Values = tuple[float | None, ...]


class Series(NamedTuple):
    """The points of one thing, oldest first. `times_ms` is since 1970; each series has a value for each time, None
    where it is unknown. `is_kept`: False if no history is kept of it."""

    times_ms: list[int]
    values: dict[str, list[float | None]]
    is_kept: bool


class History:
    """The points of the last hour. Not for several threads: the Board has the lock."""

    def __init__(self) -> None:
        self._times_ms = array("q")
        self._clocks_ms = array("q")  # the monotonic time at which each row began
        self._series: dict[str, dict[str, tuple[array[float], ...]]] = {kind: {} for kind in SERIES}
        self._last_seen_ms: dict[str, dict[str, int]] = {kind: {} for kind in SERIES}
        self._is_interrupted = False
        self.not_kept: dict[str, int] = dict.fromkeys(SERIES, 0)

    def interrupt(self) -> None:
        """Note that a refresh failed: the next point follows a gap."""
        self._is_interrupted = True

    def add(self, view: ClusterView) -> None:
        """Add the values of a view: as a new point, or in place of the last one if that is less than 5 s old."""
        if self._is_interrupted and self._clocks_ms:
            self._append_row(self._clocks_ms[-1], self._times_ms[-1] + 1)
        if self._is_interrupted or not self._clocks_ms or view.clock_ms - self._clocks_ms[-1] >= STEP_MS:
            self._append_row(view.clock_ms, view.time_ms)
        self._times_ms[-1] = view.time_ms
        self._is_interrupted = False
        self._store(CLUSTER, {"": _cluster_values(view)}, view.clock_ms)
        self._store(BROKER, dict(_broker_values(view)), view.clock_ms)
        self._store(TOPIC, self._topics(view), view.clock_ms)
        self._store(GROUP, self._groups(view), view.clock_ms)

    def read(self, kind: str, name: str = "") -> Series:
        """Return the points of a thing: `kind` is CLUSTER, BROKER, TOPIC or GROUP, `name` its id or name."""
        times = list(self._times_ms)
        arrays = self._series[kind].get(name)
        if arrays is None:
            return Series(times, {series: [None] * len(times) for series in SERIES[kind]}, is_kept=False)
        values: dict[str, list[float | None]] = {}
        for series, column in zip(SERIES[kind], arrays, strict=True):
            known = [None if math.isnan(value) else round(value, 3) for value in column]
            values[series] = [*[None] * (len(times) - len(known)), *known]
        return Series(times, values, is_kept=True)

    def _append_row(self, clock_ms: int, time_ms: int) -> None:
        """Append a point without values, and drop points older than an hour."""
        self._clocks_ms.append(clock_ms)
        self._times_ms.append(time_ms)
        for arrays in self._all_arrays():
            for column in arrays:
                column.append(math.nan)
        while len(self._clocks_ms) > _MOST_ROWS or clock_ms - self._clocks_ms[0] > KEPT_MS:
            self._clocks_ms.pop(0)
            self._times_ms.pop(0)
        rows = len(self._clocks_ms)
        for arrays in self._all_arrays():
            for column in arrays:
                if len(column) > rows:
                    del column[: len(column) - rows]
        for kind, seen in self._last_seen_ms.items():
            for name in [name for name, seen_ms in seen.items() if clock_ms - seen_ms > KEPT_MS]:
                del seen[name], self._series[kind][name]

    def _all_arrays(self) -> Iterator[tuple[array[float], ...]]:
        for by_name in self._series.values():
            yield from by_name.values()

    def _store(self, kind: str, values: Mapping[str, Values], clock_ms: int) -> None:
        """Write the values of present things into the last point, NaN for the others."""
        series, seen = self._series[kind], self._last_seen_ms[kind]
        absent = series.keys() - values.keys()
        for name in absent:
            _write(series[name], (None,) * len(SERIES[kind]))
        missing = [name for name in values if name not in series]
        room = _MOST[kind] - len(series)
        for name in sorted(absent, key=seen.__getitem__)[: max(0, len(missing) - room)]:
            del series[name], seen[name]  # things that are gone make room
        for name in missing[: _MOST[kind] - len(series)]:
            series[name] = tuple(array("d", [math.nan]) for _ in SERIES[kind])
        for name, row in values.items():
            if name in series:
                _write(series[name], row)
                seen[name] = clock_ms
        self.not_kept[kind] = len(values) - sum(name in series for name in values)

    def _topics(self, view: ClusterView) -> dict[str, Values]:
        """Return the values of all topics, the most important ones first while series can still be added."""
        is_crowded = len(view.topics) > MOST_TOPICS and len(self._series[TOPIC]) < MOST_TOPICS
        topics = ordered_topics(view) if is_crowded else view.topics
        return {topic.name: (topic.messages_in, topic.bytes_in) for topic in topics}

    def _groups(self, view: ClusterView) -> dict[str, Values]:
        is_crowded = len(view.groups) > MOST_GROUPS and len(self._series[GROUP]) < MOST_GROUPS
        groups = sorted(view.groups, key=lambda group: -group.least_lag) if is_crowded else view.groups
        return {group.group_id: (group.lag, group.consumed) for group in groups}


def _write(arrays: Iterable[array[float]], values: Values) -> None:
    for column, value in zip(arrays, values, strict=True):
        column[-1] = math.nan if value is None else value


def _cluster_values(view: ClusterView) -> Values:
    totals = view.totals
    return (
        totals.messages_in,
        totals.bytes_in,
        totals.lag,
        totals.offline,
        view.under_min_isr,
        totals.under_replicated,
    )


def _broker_values(view: ClusterView) -> Iterator[tuple[str, Values]]:
    leaders: dict[int, int] = {}
    rates: dict[int, list[float | None]] = {}
    for topic in view.topics:
        for part, rate in zip(topic.partitions, topic.rates, strict=False):
            rates.setdefault(part.leader, []).append(rate)
        for part in topic.partitions:
            leaders[part.leader] = leaders.get(part.leader, 0) + 1
    for broker in view.brokers:
        count, led = leaders.get(broker.id, 0), rates.get(broker.id, [])
        rate = 0.0 if not count else total(led) if len(led) == count else None
        yield str(broker.id), (rate, count, broker.log_bytes)
