"""The sections of kt monitor as tables of text, for --once and the screen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from kafkatools.tools.monitor.assessment import (
    Health,
    catches_up_s,
    health_of,
    is_in_trouble,
    ordered_topics,
    partition_notes,
)
from kafkatools.tools.monitor.figures import UNKNOWN, at_least, count, ids, local_time, rate, size, span
from kafkatools.tools.monitor.json_form import brokers_json, quorum_json
from kafkatools.tools.monitor.view import ClusterView, Event, GroupView, PartitionView

GOOD, WARNING, BAD = "", "yellow", "red"
_TOPIC_MOODS = {Health.BROKEN: BAD, Health.DEGRADED: WARNING, Health.GOOD: GOOD}


class Row(NamedTuple):
    """A row of a table. `mood`: GOOD, WARNING or BAD, which is also its colour."""

    cells: tuple[str, ...]
    mood: str = GOOD


class Table(NamedTuple):
    """A section as a table. `numbers`: the indexes of number columns. `when_empty`: the text instead of no rows."""

    title: str
    headers: tuple[str, ...]
    rows: Sequence[Row]
    numbers: frozenset[int] = frozenset()
    when_empty: str = ""


def tables(view: ClusterView, sections: Iterable[str], is_overview: bool, events: Iterable[Event]) -> Iterator[Table]:
    """Yield the named sections of a view as tables, in the given order. With `is_overview` the partitions are only the
    unhealthy ones. `events` are shown instead of the view's own."""
    for section in sections:
        if section == "events":
            yield _events(events)
        elif section == "partitions":
            yield _unhealthy_partitions(view) if is_overview else _partitions(view.partitions, "Partitions")
        else:
            yield _SECTIONS[section](view)


def _brokers(view: ClusterView) -> Table:
    rows = []
    for broker, row in zip(view.brokers, brokers_json(view), strict=True):
        states = ["fenced" if broker.is_fenced else "alive" if broker.is_responding else "no response"]
        states += ["controller"] * (broker.id == view.controller)
        states += [f"{len(broker.offline_log_dirs)} log dirs offline"] * bool(broker.offline_log_dirs)
        free = [path.usable_bytes for path in broker.log_dirs or () if path.usable_bytes >= 0]
        cells = (
            str(broker.id), f"{broker.host}:{broker.port}", broker.rack or "-", ", ".join(states),
            count(row["leaders"]), f"{row['in_sync']}/{row['replicas']}", size(broker.log_bytes),
            size(sum(free)) if free else UNKNOWN if broker.log_dirs is None else "-",
        )  # fmt: skip
        mood = BAD if broker.is_fenced or not broker.is_responding or broker.offline_log_dirs else GOOD
        rows.append(Row(cells, mood))
    headers = ("ID", "ADDRESS", "RACK", "STATE", "LEADERS", "IN SYNC", "LOGS", "FREE")
    return Table("Brokers", headers, rows, frozenset({0, 4, 5, 6, 7}), "no broker")


def _topics(view: ClusterView) -> Table:
    rows = []
    for topic in ordered_topics(view):
        parts = topic.partitions
        factor = max((len(part.replicas) - len(part.adding_replicas) for part in parts), default=0)
        cells = (
            topic.name, count(len(parts)), count(factor),
            count(sum(part.is_under_replicated for part in parts)),
            at_least(topic.under_min_isr, topic.least_under_min_isr),
            count(sum(part.is_offline for part in parts)), size(topic.size_bytes),
            rate(topic.messages_in, is_unknown=topic.has_unknown_ends),
            "-" if topic.bytes_in is None and not topic.has_unknown_ends else size(topic.bytes_in),
        )  # fmt: skip
        rows.append(Row(cells, _TOPIC_MOODS[health_of(topic)]))
    headers = ("TOPIC", "PARTS", "RF", "URP", "<MIN-ISR", "OFFLINE", "SIZE", "MSG/S", "BYTES/S")
    return Table("Topics", headers, rows, frozenset(range(1, 9)), "no topic")


def _unhealthy_partitions(view: ClusterView) -> Table:
    partitions = [part for part in view.partitions if is_in_trouble(part)]
    partitions.sort(key=lambda part: (not part.is_offline, not part.is_under_min_isr, part.topic, part.partition))
    return _partitions(partitions, "Unhealthy partitions")


def _partitions(parts: Iterable[PartitionView], title: str) -> Table:
    rows = []
    for part in parts:
        cells = (
            part.topic, str(part.partition), "none" if part.is_offline else str(part.leader), ids(part.replicas),
            ids(part.isr), ids(part.elr) if part.elr is not None else "-", count(part.end_offset),
            size(part.size_bytes), ", ".join(partition_notes(part)),
        )  # fmt: skip
        bad = part.is_offline or part.is_under_min_isr
        rows.append(Row(cells, BAD if bad else WARNING if part.is_under_replicated else GOOD))
    headers = ("TOPIC", "PARTITION", "LEADER", "REPLICAS", "ISR", "ELR", "END", "SIZE", "NOTES")
    return Table(title, headers, rows, frozenset({1, 2, 6, 7}))


def behind(group: GroupView) -> str:
    """Return the time lag of a group as text: `?` when the lag is not completely known, `-` when there is no time
    lag."""
    return UNKNOWN if group.unknown else span(None if group.lag_ms is None else group.lag_ms / 1000)


def _groups(view: ClusterView) -> Table:
    rows = []
    for group in sorted(view.groups, key=lambda group: (-group.least_lag, group.group_id)):
        lag = at_least(group.lag, group.least_lag) if group.partitions != () else "-"
        caught_up = UNKNOWN if group.unknown else span(catches_up_s(view, group))
        cells = (
            group.group_id, group.type, group.state, count(group.members), str(group.coordinator), lag,
            behind(group), rate(group.consumed, is_unknown=group.partitions is None), caught_up,
        )  # fmt: skip
        is_left = group.state == "Empty" and group.least_lag > 0
        rows.append(Row(cells, WARNING if is_left or group.unknown else GOOD))
    headers = ("GROUP", "TYPE", "STATE", "MEMBERS", "COORD", "LAG", "BEHIND", "CONSUMED/S", "CAUGHT UP IN")
    when_empty = f"unknown: {view.unlisted[0]}" if view.unlisted else "no group"
    return Table("Groups", headers, rows, frozenset({3, 4, 5, 6, 7, 8}), when_empty)


def _lag(view: ClusterView) -> Table:
    lags = [
        (group.group_id, topic, lag, (group.consumed_by_topic or {}).get(topic))
        for group in view.groups
        for topic, lag in group.lag_by_topic().items()
    ]
    lags.sort(key=lambda entry: (-(entry[2] or 0), entry[0], entry[1]))
    rows = [Row((group, topic, count(lag), rate(consumed))) for group, topic, lag, consumed in lags]
    return Table("Lag", ("GROUP", "TOPIC", "LAG", "CONSUMED/S"), rows, frozenset({2, 3}), "no group has offsets")


def _quorum(view: ClusterView) -> Table:
    quorum = quorum_json(view.quorum)
    rows = []
    for replica in quorum["replicas"] if quorum is not None else ():
        is_leader = quorum is not None and replica["id"] == quorum["leader"]
        role = "leader" if is_leader else "follower" if replica["voter"] else "observer"
        caught_up = replica["caught_up_time"]
        behind = None if caught_up is None else max(0, view.time_ms - caught_up) / 1000
        cells = (str(replica["id"]), role, count(replica["log_end_offset"]), count(replica["lag"]), span(behind))
        rows.append(Row(cells))
    headers = ("ID", "ROLE", "LOG END", "LAG", "CAUGHT UP AGO")
    title = (
        "Quorum" if quorum is None else f"Quorum, epoch {quorum['epoch']}, high watermark {quorum['high_watermark']:,}"
    )
    return Table(title, headers, rows, frozenset({0, 2, 3, 4}), "no controller quorum was reported")


def _log_dirs(view: ClusterView) -> Table:
    rows = []
    for row in brokers_json(view):
        for path in row["log_dirs"] or ():
            cells = (
                str(row["id"]), path["path"], count(path["replicas"]), size(path["bytes"]), size(path["usable_bytes"]),
                path["error"] or "",
            )  # fmt: skip
            rows.append(Row(cells, BAD if path["error"] else GOOD))
    headers = ("BROKER", "DIRECTORY", "REPLICAS", "LOGS", "FREE", "ERROR")
    return Table("Log directories", headers, rows, frozenset({0, 2, 3, 4}), "no broker reported its log directories")


def _events(events: Iterable[Event]) -> Table:
    rows = [
        Row((local_time(event.time_ms), event.kind, event.message), EVENT_MOODS.get(event.kind, GOOD))
        for event in events
    ]
    return Table("Events", ("TIME", "EVENT", "WHAT"), rows)


def _alerts(view: ClusterView) -> Table:
    rows = [
        Row((alert.state, local_time(alert.since_ms), alert.message), BAD if alert.state == "firing" else WARNING)
        for alert in view.alerts
    ]
    return Table("Alerts", ("STATE", "SINCE", "WHAT"), rows)


EVENT_MOODS = {
    "alert-firing": BAD,
    "alert-repeated": BAD,
    "alert-unknown": WARNING,
    "webhook-failed": WARNING,
    "otlp-failed": WARNING,
    "broker-gone": BAD,
    "broker-silent": BAD,
    "leader-lost": BAD,
    "log-dir-offline": BAD,
    "isr-shrank": WARNING,
    "group-empty": WARNING,
}
_SECTIONS: dict[str, Callable[[ClusterView], Table]] = {
    "alerts": _alerts,
    "brokers": _brokers,
    "topics": _topics,
    "groups": _groups,
    "lag": _lag,
    "quorum": _quorum,
    "log-dirs": _log_dirs,
}
