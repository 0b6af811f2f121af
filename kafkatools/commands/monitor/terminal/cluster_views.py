"""The views of the cluster: overview, brokers, quorum, log directories, and findings with events."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kafkatools.commands.monitor.tables import BAD, EVENT_MOODS, GOOD, WARNING
from kafkatools.commands.monitor.terminal import columns as c
from kafkatools.commands.monitor.terminal import places
from kafkatools.commands.monitor.terminal.columns import Cell, Column
from kafkatools.commands.monitor.terminal.model import BrokerFigures, Model
from kafkatools.commands.monitor.terminal.places import Place
from kafkatools.commands.monitor.terminal.views import Target, View
from kafkatools.core.admin.log_dirs import LogDir
from kafkatools.core.admin.quorum import QuorumReplica
from kafkatools.tools.diagnosis.observations import BROKER, CLUSTER, GROUP, PARTITION, TOPIC, Subject
from kafkatools.tools.monitor.conditions import what_is_wrong
from kafkatools.tools.monitor.figures import UNKNOWN, at_least, count, local_time, rate, size
from kafkatools.tools.monitor.measures import active_controllers
from kafkatools.tools.monitor.view import NO_BROKER, BrokerView, Event

_ADDRESS_PART = 48

# -- overview --


class Fact(NamedTuple):
    """A line of the overview. `opens`: the place with the rows that it counts."""

    name: str
    value: str
    note: str = ""
    mood: str = GOOD
    opens: Place | None = None


def _facts(model: Model, target: Target) -> list[Fact]:
    view, totals = model.view, model.view.totals
    return [
        *_broker_facts(model),
        Fact("Topics", count(totals.topics), opens=Place(places.TOPICS)),
        Fact("Partitions", count(totals.partitions), opens=Place(places.PARTITIONS)),
        *_partition_facts(model),
        Fact("Groups", count(totals.groups), *_group_note(model)),
        Fact("Lag", at_least(totals.lag, totals.least_lag), "of all groups", opens=Place(places.LAG)),
        Fact("Msg/s", rate(totals.messages_in, is_unknown=any(topic.has_unknown_ends for topic in view.topics)),
             "records that come in", opens=Place(places.TOPICS)),
        Fact("Bytes/s", _bytes_in(model),
             "growth of the leaders' logs", opens=Place(places.TOPICS)),
        *_addresses(model),
    ]  # fmt: skip


def _bytes_in(model: Model) -> str:
    is_none_yet = model.before is None or not model.view.topics
    number = model.view.totals.bytes_in
    return "-" if number is None and is_none_yet else size(number)


def _addresses(model: Model) -> Iterator[Fact]:
    """Yield the addresses of --web in parts that fit, since one without the end of its token leads nowhere."""
    for number, line in enumerate(model.addresses, 1):
        for start in range(0, len(line), _ADDRESS_PART):
            yield Fact(f"Address {number}" if start == 0 else "", "", line[start : start + _ADDRESS_PART])


def _broker_facts(model: Model) -> Iterator[Fact]:
    view, totals = model.view, model.view.totals
    brokers = Place(places.BROKERS)
    is_whole = totals.answering == totals.brokers
    note = f"{totals.brokers - totals.alive} fenced, {totals.alive - totals.answering} without a response"
    yield Fact("Brokers", f"{totals.answering}/{totals.brokers}", "" if is_whole else note, GOOD if is_whole else BAD,
               brokers)  # fmt: skip
    active = active_controllers(view)
    controller = str(view.controller) if active else "none" if active == 0 else UNKNOWN
    epoch = "" if view.quorum is None else f"epoch {view.quorum.leader_epoch}"
    yield Fact("Controller", controller, epoch, BAD if active == 0 else GOOD, Place(places.QUORUM))
    silent = [broker.id for broker in view.brokers if broker.is_alive and broker.log_dirs is None]
    offline = totals.offline_log_dirs
    yield Fact("Log dirs offline", at_least(None if silent else offline, offline),
               f"not reported by {', '.join(map(str, silent))}" if silent else "", BAD if offline else GOOD,
               Place(places.LOG_DIRS))  # fmt: skip


def _partition_facts(model: Model) -> Iterator[Fact]:
    totals = model.view.totals
    unset = "" if model.view.is_min_isr_known else "min.insync.replicas is not reported"
    moves = model.view.why_no_moves
    for name, state, known, note, mood in (
        ("  offline", "offline", True, "", BAD),
        ("  under min ISR", "under-min-isr", not unset, unset, BAD),
        ("  at min ISR", "at-min-isr", not unset, unset, GOOD),
        ("  under-replicated", "under-replicated", True, "", WARNING),
        ("  moving", "moving", not moves, moves, GOOD),
        ("  not preferred", "not-preferred", True, "led by another replica than the first", GOOD),
    ):
        number: int = getattr(totals, state.replace("-", "_"))
        text = at_least(number if known else None, number)
        yield Fact(name, text, note, mood if number else GOOD, Place(places.PARTITIONS, (state,)))


def _group_note(model: Model) -> tuple[str, str, Place]:
    note = f"some may be missing: {model.view.unlisted[0]}" if model.view.unlisted else ""
    return note, WARNING if note else GOOD, Place(places.GROUPS)


OVERVIEW = View(
    "Overview",
    (
        Column("What", lambda model, fact: c.text(fact.name), is_number=False),
        Column("Value", lambda model, fact: c.text(fact.value), "? is unknown, >=N the known part of a sum"),
        Column("Note", lambda model, fact: c.text(fact.note), is_number=False),
    ),
    _facts,
    key=lambda fact: fact.name or fact.note,
    opens=lambda model, fact: fact.opens,
    mood=lambda fact: fact.mood,
)


# -- brokers --


def _figures(model: Model, broker: BrokerView) -> BrokerFigures:
    return model.figures.get(broker.id, BrokerFigures())


def _state(model: Model, broker: BrokerView) -> Cell:
    states = ["fenced" if broker.is_fenced else "alive" if broker.is_responding else "no response"]
    states += [f"{len(broker.offline_log_dirs)} dirs offline"] * bool(broker.offline_log_dirs)
    return c.text(", ".join(states))


def _free(model: Model, broker: BrokerView) -> Cell:
    free = [path.usable_bytes for path in broker.log_dirs or () if path.usable_bytes >= 0]
    return c.size(sum(free) if free else None)


def _in_sync(model: Model, broker: BrokerView) -> Cell:
    figures = _figures(model, broker)
    return Cell(f"{figures.in_sync:,}/{figures.replicas:,}", figures.in_sync - figures.replicas)


BROKERS = View(
    "Brokers",
    (
        Column("ID", lambda model, broker: Cell(str(broker.id), broker.id)),
        Column("State", _state, "fenced: the controller does not hear of it", is_number=False),
        Column("Ctrl", lambda model, broker: c.text("yes" if broker.id == model.view.controller else ""),
               "the active controller", is_number=False),
        Column("Lead", lambda model, broker: c.number(_figures(model, broker).leaders), "partitions it leads"),
        Column("ISR", _in_sync, "replicas in sync, of all its replicas"),
        Column("Msg/s", lambda model, broker: c.rate(_figures(model, broker).messages_in,
                                                     is_unknown=_figures(model, broker).has_unknown_ends),
               "records per second in the partitions it leads"),
        Column("Size", lambda model, broker: c.size(broker.log_bytes), "bytes of its logs"),
        Column("Free", _free, "bytes free in its log directories"),
        Column("Address", lambda model, broker: c.text(f"{broker.host}:{broker.port}"), is_number=False, least=21),
        Column("Rack", lambda model, broker: c.text(broker.rack or "-"), is_number=False),
    ),
    lambda model, target: model.view.brokers,
    key=lambda broker: broker.id,
    opens=lambda model, broker: Place(places.BROKER, (broker.id,)),
    subject=lambda broker: Subject(BROKER, str(broker.id)),
    mood=lambda broker: BAD if broker.is_fenced or not broker.is_responding or broker.offline_log_dirs else GOOD,
    when_empty=lambda model, target: "no broker",
)  # fmt: skip


# -- quorum --


class _Voter(NamedTuple):
    """A replica of the metadata log; `lag` is counted from the end of the furthest voter, None if unknown."""

    replica: QuorumReplica
    role: str
    lag: int | None


def _quorum(model: Model, target: Target) -> list[_Voter]:
    quorum = model.view.quorum
    if quorum is None:
        return []
    voters = [(replica, "leader" if replica.id == quorum.leader_id else "follower") for replica in quorum.voters]
    replicas = [*voters, *((replica, "observer") for replica in quorum.observers)]
    return [_Voter(replica, role, quorum.lag(replica)) for replica, role in replicas]


def _caught_up(model: Model, voter: _Voter) -> Cell:
    time_ms = voter.replica.last_caught_up_timestamp
    if time_ms < 0:
        return Cell(UNKNOWN, None)
    return c.span(max(0, model.view.time_ms - time_ms) / 1000)


QUORUM = View(
    "Quorum",
    (
        Column("ID", lambda model, voter: Cell(str(voter.replica.id), voter.replica.id)),
        Column("Role", lambda model, voter: c.text(voter.role), is_number=False),
        Column("Log end", lambda model, voter: c.number(voter.replica.end), "of the metadata log"),
        Column("Lag", lambda model, voter: c.number(voter.lag), "records behind the furthest voter"),
        Column("Caught up ago", _caught_up, "since it had all records"),
    ),
    _quorum,
    key=lambda voter: voter.replica.id,
    opens=lambda model, voter: Place(places.BROKER, (voter.replica.id,)) if voter.replica.id in model.figures else None,
    when_empty=lambda model, target: "no controller quorum was reported",
)


# -- log directories --


class _Directory(NamedTuple):
    """A log directory of a broker; `path` None: the broker did not report its directories."""

    broker: int
    path: LogDir | None


def _directories(model: Model, target: Target) -> list[_Directory]:
    found = []
    for broker in model.view.brokers:
        paths = (None,) if broker.log_dirs is None else broker.log_dirs
        found += [_Directory(broker.id, path) for path in paths]
    return found


LOG_DIRS = View(
    "Log dirs",
    (
        Column("Broker", lambda model, item: Cell(str(item.broker), item.broker)),
        Column("Directory", lambda model, item: c.text("not reported" if item.path is None else item.path.path),
               is_number=False),
        Column("State", lambda model, item: c.text(
            UNKNOWN if item.path is None else "ok" if item.path.error is None else str(item.path.error)),
            is_number=False),
        Column("Reps", lambda model, item: c.number(None if item.path is None else len(item.path.replicas)),
               "replicas"),
        Column("Size", lambda model, item: c.size(
            None if item.path is None else sum(replica.size_bytes for replica in item.path.replicas)),
            "bytes of its logs"),
        Column("Free", lambda model, item: c.size(None if item.path is None else item.path.usable_bytes),
               "bytes free on its volume"),
    ),
    _directories,
    key=lambda item: (item.broker, None if item.path is None else item.path.path),
    opens=lambda model, item: Place(places.BROKER, (item.broker,)),
    subject=lambda item: Subject(BROKER, str(item.broker)),
    mood=lambda item: WARNING if item.path is None else BAD if item.path.error is not None else GOOD,
    when_empty=lambda model, target: "no broker",
)  # fmt: skip


# -- findings and events --


class Line(NamedTuple):
    """A line of the events: a present fault, missing data, an alert, or an event. `key` stays the same while the
    fault lasts."""

    time_ms: int
    kind: str
    message: str
    mood: str
    key: tuple[object, ...]
    event: Event | None = None
    broker: int = NO_BROKER


def _lines(model: Model, target: Target) -> list[Line]:
    now = model.view.time_ms
    found = [Line(now, "now", text, BAD, ("now", text)) for text in what_is_wrong(model.view)]
    found += [
        Line(now, "no data", problem.message, WARNING, ("no data", problem.broker, problem.what), None, problem.broker)
        for problem in model.view.problems
    ]
    for alert in model.view.alerts:
        subject = Event(now, alert.state, alert.message, alert.topic, alert.partition, alert.broker, alert.group)
        mood = BAD if alert.state == "firing" else WARNING
        at = (alert.alert, alert.group, alert.broker, alert.directory)
        found.append(Line(alert.since_ms, alert.state, alert.message, mood, at, subject))
    seen: dict[tuple[object, ...], int] = {}
    for event in model.events:
        key = (event.time_ms, event.kind, event.message)
        seen[key] = seen.get(key, 0) + 1
        mood = EVENT_MOODS.get(event.kind, GOOD)
        found.append(Line(event.time_ms, event.kind, event.message, mood, (*key, seen[key]), event))
    return found


def _place_of(model: Model, line: Line) -> Place | None:
    subject = _subject_of(line)
    if subject.kind == PARTITION:
        return Place(places.PARTITION, (subject.name, subject.partition))
    if subject.kind == BROKER:
        return Place(places.BROKER, (int(subject.name),))
    return Place(subject.kind, (subject.name,)) if subject.kind in (TOPIC, GROUP) else None


def _subject_of(line: Line) -> Subject:
    event = line.event
    if event is None:
        return Subject(BROKER, str(line.broker)) if line.broker >= 0 else Subject(CLUSTER)
    if event.group is not None:
        return Subject(GROUP, event.group)
    if event.topic is not None:
        return Subject(TOPIC, event.topic) if event.partition is None else Subject(PARTITION, event.topic,
                                                                                   event.partition)  # fmt: skip
    return Subject(BROKER, str(event.broker)) if event.broker is not None else Subject(CLUSTER)


EVENTS = View(
    "Events",
    (
        Column("Time", lambda model, line: c.text(local_time(line.time_ms), line.time_ms), is_number=False),
        Column("Event", lambda model, line: c.text(line.kind),
               "now: what is wrong; no data: what is unknown; firing: an alert", is_number=False),
        Column("What", lambda model, line: c.text(line.message), is_number=False),
    ),
    _lines,
    key=lambda line: line.key,
    opens=_place_of,
    subject=_subject_of,
    mood=lambda line: line.mood,
    when_empty=lambda model, target: "healthy, and no event since the start",
)  # fmt: skip
