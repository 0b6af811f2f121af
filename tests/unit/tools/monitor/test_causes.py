"""Causes of events and unhealthy partitions."""

from __future__ import annotations

from kafkatools.tools.monitor.causes import INCIDENT_PAUSE_MS, Incidents, findings
from kafkatools.tools.monitor.changes import events_between
from kafkatools.tools.monitor.view import BrokerView, ClusterView, Event, PartitionView, TopicView


def view(*parts: PartitionView, fenced: tuple[int, ...] = (), registered: tuple[int, ...] = (1, 2, 3)) -> ClusterView:
    """A view of the topic `t` with these partitions."""
    brokers = tuple(BrokerView(id, "h", 9092, None, id in fenced, id not in fenced, ()) for id in registered)
    return ClusterView(1000, 1000, 1, "c", 1, brokers, (TopicView("t", "id", False, parts),), None, (), ())


def part(number: int, leader: int, isr: tuple[int, ...], replicas: tuple[int, ...] = (1, 2, 3)) -> PartitionView:
    """A partition of `t`."""
    return PartitionView("t", number, leader, 0, replicas, isr, (), (), min_isr=1)


def causes(before: ClusterView, after: ClusterView) -> list[tuple[str, str]]:
    """The kind and the cause of each event."""
    return [(event.kind, event.cause) for event in events_between(before, after)]


def test_what_a_broker_takes_with_it_has_its_cause() -> None:
    before = view(part(0, 3, (1, 2, 3)), part(1, 1, (1, 2, 3)))
    after = [part(0, 1, (1, 2)), part(1, 1, (1, 2))]
    kinds = ["broker-gone", "leader-changed", "isr-shrank", "isr-shrank"]
    assert causes(before, view(*after, fenced=(3,))) == [(kind, "broker 3 is fenced") for kind in kinds]
    gone = view(*after, registered=(1, 2))
    assert causes(before, gone) == [(kind, "broker 3 is not registered") for kind in kinds]
    assert [(one.cause, one.troubled) for one in findings(gone, gone.partitions)] == [("broker 3 is not registered", 2)]


def test_a_partition_without_a_leader_suffers_from_the_broker_that_could_lead_it() -> None:
    before = view(part(0, 3, (3,)), fenced=(2,))
    after = view(part(0, -1, (3,)), fenced=(2, 3))
    assert ("leader-lost", "broker 3 is fenced") in causes(before, after)
    assert [one.cause for one in findings(after, after.partitions)] == ["broker 3 is fenced", "broker 2 is fenced"]


def test_changes_without_a_broker_in_trouble() -> None:
    before = view(part(0, 2, (1, 2, 3)), part(1, 1, (1, 2)))
    after = view(part(0, 1, (1, 2)), part(1, 1, (1, 2, 3)))
    assert causes(before, after) == [
        ("leader-changed", "leaders moved to the preferred replica"),
        ("isr-shrank", "replicas of broker 3 fell behind"),
        ("isr-grew", "replicas of broker 3 caught up"),
    ]
    assert [one.cause for one in findings(after, [part(0, 1, (1, 2))])] == ["replicas of broker 3 are behind"]


def test_a_broker_that_returns_is_a_cause() -> None:
    before = view(part(0, -1, (3,)), fenced=(3,))
    after = view(part(0, 3, (3,)))
    assert causes(before, after) == [("broker-back", "broker 3 is back"), ("leader-changed", "broker 3 is back")]


def test_incidents_count_all_events_and_keep_the_first() -> None:
    kept = Incidents()
    kept.add(Event(n, "isr-shrank", f"m{n}", cause="c") for n in range(6000))
    kept.add([Event(7000, "isr-grew", "later", cause="d")])
    latest, first = kept.to_json()
    assert (latest["cause"], first["cause"]) == ("d", "c"), "the latest first"
    assert (first["count"], first["kinds"], first["first"], first["last"]) == (6000, {"isr-shrank": 6000}, 0, 5999)
    events = first["events"]
    assert isinstance(events, list) and events[0] == [0, "isr-shrank", "m0"] and len(events) == 50


def test_a_pause_begins_another_incident() -> None:
    kept = Incidents()
    for time_ms in (0, INCIDENT_PAUSE_MS, 2 * INCIDENT_PAUSE_MS + 1):
        kept.add([Event(time_ms, "isr-shrank", "m", cause="c")])
    assert [one["count"] for one in kept.to_json()] == [1, 2]


def test_incidents_are_bounded() -> None:
    kept = Incidents()
    kept.add(Event(n, "topic-created", "m", cause=str(n)) for n in range(250))
    kept.add([Event(300, "topic-created", "m", cause="0")])
    found = kept.to_json()
    assert len(found) == 100 and [one["cause"] for one in found[:2]] == ["0", "249"]
    assert found[0]["count"] == 1, "the earlier one was forgotten"
