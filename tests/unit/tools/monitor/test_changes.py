"""Rates and events between two snapshots of a cluster: values in, values out. The rules are Kafka's (TopicCommand,
Partition) where Kafka has one."""

from __future__ import annotations

from typing import Any

import pytest

from kafkatools.core.admin.log_dirs import LogDir, ReplicaInfo
from kafkatools.core.errors import KafkaStorageError
from kafkatools.tools.monitor.changes import KINDS, events_between, with_rates
from kafkatools.tools.monitor.view import (
    NOT_REPORTED,
    BrokerView,
    ClusterView,
    GroupPartition,
    GroupView,
    PartitionView,
    Problem,
    TopicView,
)


def broker(id: int, **more: Any) -> BrokerView:
    return BrokerView(**{
        "id": id, "host": "h", "port": 9092, "rack": None, "is_fenced": False, "is_responding": True, "log_dirs": (),
        **more,
    })  # fmt: skip


def part(number: int = 0, **more: Any) -> PartitionView:
    return PartitionView(**{
        "topic": "t", "partition": number, "leader": 1, "leader_epoch": 0, "replicas": (1, 2, 3), "isr": (1, 2, 3),
        "elr": (), "offline_replicas": (), "min_isr": 2, "end_offset": 10, "size_bytes": 100, **more,
    })  # fmt: skip


def topic(*parts: PartitionView, **more: Any) -> TopicView:
    return TopicView(**{"name": "t", "topic_id": "id", "is_internal": False, "partitions": parts, **more})


def group(state: str = "Stable", *offsets: GroupPartition, name: str = "g") -> GroupView:
    return GroupView(name, "Classic", state, 1, 1, offsets)


def view(seconds: float = 0, **more: Any) -> ClusterView:
    return ClusterView(**{
        "time_ms": round(1_700_000_000_000 + seconds * 1000), "clock_ms": round(seconds * 1000), "took_ms": 1,
        "cluster_id": "c", "controller": 1, "brokers": (broker(1), broker(2), broker(3)), "topics": (topic(part()),),
        "quorum": None, "groups": (), "problems": (), **more,
    })  # fmt: skip


def messages(before: ClusterView, after: ClusterView) -> list[tuple[str, str]]:
    return [(event.kind, event.message) for event in events_between(before, after)]


# -- what a partition is --


@pytest.mark.parametrize(
    ("fields", "under_replicated", "under_min_isr", "at_min_isr"),
    [
        ({}, False, False, False),
        ({"isr": (1, 2)}, True, False, True),
        ({"isr": (1,)}, True, True, False),
        ({"isr": (), "leader": -1}, True, True, False),
        ({"isr": (1, 2), "leader": -1}, True, True, False),
        ({"min_isr": None, "isr": (1,)}, True, False, False),
        # Partition.effectiveMinIsr: never more than there are replicas.
        ({"replicas": (1,), "isr": (1,)}, False, False, True),
        # TopicCommand: what a reassignment adds is not missing.
        ({"replicas": (1, 2, 3, 4), "adding_replicas": (4,)}, False, False, False),
        ({"replicas": (1, 2, 3, 4), "adding_replicas": (4,), "isr": (1, 2)}, True, False, True),
    ],
)
def test_what_a_partition_is(
    fields: dict[str, Any], under_replicated: bool, under_min_isr: bool, at_min_isr: bool
) -> None:
    one = part(**fields)
    found = (one.is_under_replicated, one.is_under_min_isr, one.is_at_min_isr)
    assert found == (under_replicated, under_min_isr, at_min_isr)
    assert one.is_offline == (one.leader < 0)


def test_totals_count_what_is_so() -> None:
    parts = (part(0), part(1, isr=(1,)), part(2, leader=-1, isr=(1,)), part(3, leader=2, adding_replicas=(3,)))
    brokers = (broker(1), broker(2, is_fenced=True, is_responding=False), broker(3, is_responding=False))
    found = view(topics=(topic(*parts),), brokers=brokers).totals
    assert (found.brokers, found.alive, found.answering) == (3, 2, 1)
    assert (found.offline, found.under_replicated, found.under_min_isr) == (1, 2, 2)
    assert (found.not_preferred, found.moving) == (2, 1)


# -- rates --


def test_rates_are_differences_over_the_time_between() -> None:
    before = view(0, topics=(topic(part(0), part(1)),), groups=(group("Stable", GroupPartition("t", 0, 4, 6)),))
    grown = topic(part(0, end_offset=110, size_bytes=1100), part(1, end_offset=60))
    after = view(2, topics=(grown,), groups=(group("Stable", GroupPartition("t", 0, 24, 86)),))
    found = with_rates(before, after)
    assert (found.topics[0].messages_in, found.topics[0].bytes_in) == (75.0, 500.0)
    assert (found.groups[0].consumed, found.groups[0].consumed_by_topic) == (10.0, {"t": 10.0})
    assert (found.totals.messages_in, found.totals.bytes_in) == (75.0, 500.0)


def test_what_became_smaller_counts_as_nothing() -> None:
    before = view(0, groups=(group("Stable", GroupPartition("t", 0, 9, 1)),))
    after = view(
        1,
        topics=(topic(part(end_offset=5, size_bytes=20)),),
        groups=(group("Stable", GroupPartition("t", 0, 2, 3)),),
    )
    found = with_rates(before, after)
    assert (found.topics[0].messages_in, found.topics[0].bytes_in, found.groups[0].consumed) == (0, 0, 0)


def test_no_rate_is_made_up() -> None:
    recreated = topic(part(end_offset=500), topic_id="another")
    assert with_rates(view(0), view(1, topics=(recreated,))).topics[0].messages_in is None
    assert with_rates(view(0), view(1, topics=(topic(part(end_offset=None)),))).topics[0].messages_in is None
    other_leader = topic(part(leader=2, size_bytes=9000))
    assert with_rates(view(0), view(1, topics=(other_leader,))).topics[0].bytes_in is None
    assert with_rates(view(1), view(1, topics=(topic(part(end_offset=50)),))).topics[0].messages_in is None
    assert (
        with_rates(view(0), view(1, groups=(group("Stable", GroupPartition("t", 0, 1, 1)),))).groups[0].consumed is None
    )


# -- events --


def test_nothing_happens_between_equal_looks() -> None:
    assert messages(view(0), view(1)) == []
    with_records = view(1, topics=(topic(part(end_offset=50, isr=(3, 1, 2))),))
    assert messages(view(0), with_records) == [], "records and the order of the ISR are no events"


def test_a_broker_goes_and_comes_back() -> None:
    silent = view(1, brokers=(broker(1), broker(2, is_responding=False), broker(3)))
    fenced = view(2, brokers=(broker(1), broker(2, is_fenced=True, is_responding=False), broker(3)))
    gone = view(3, brokers=(broker(1), broker(3)))
    assert messages(view(0), silent) == [("broker-silent", "broker 2 does not respond")]
    assert messages(silent, fenced) == [("broker-gone", "broker 2 is fenced")]
    assert messages(fenced, gone) == []
    assert messages(view(0), gone) == [("broker-gone", "broker 2 is not registered any more")]
    assert messages(fenced, view(4)) == [("broker-back", "broker 2 is back")]
    assert messages(silent, view(4)) == [("broker-answers", "broker 2 responds again")]
    assert messages(gone, view(4)) == [("broker-back", "broker 2 is registered")]


def test_leaders_and_isr() -> None:
    shrunk = view(1, topics=(topic(part(leader=2, isr=(2, 3))),))
    lost = view(2, topics=(topic(part(leader=-1, isr=(2,))),))
    assert messages(view(0), shrunk) == [
        ("leader-changed", "t-0: leader 2, it was 1"),
        ("isr-shrank", "t-0: 1 left the ISR, it is 2,3"),
    ]
    assert messages(shrunk, lost) == [
        ("leader-lost", "t-0: no leader, it was 2"),
        ("isr-shrank", "t-0: 3 left the ISR, it is 2"),
    ]
    assert messages(lost, shrunk) == [
        ("leader-changed", "t-0: leader 2, it was none"),
        ("isr-grew", "t-0: 3 joined the ISR, it is 2,3"),
    ]
    (event, _) = events_between(view(0), shrunk)
    assert (event.topic, event.partition, event.time_ms) == ("t", 0, shrunk.time_ms)


def test_topics_come_and_go_and_are_moved() -> None:
    other = topic(part(), name="u")._replace(partitions=())
    assert messages(view(0), view(1, topics=(topic(part()), other))) == [
        ("topic-created", "topic u is there with 0 partitions")
    ]
    assert messages(view(0), view(1, topics=())) == [("topic-deleted", "topic t is gone")]
    recreated = view(1, topics=(topic(part(leader=3), topic_id="another"),))
    assert messages(view(0), recreated) == [
        ("topic-deleted", "topic t is gone"),
        ("topic-created", "topic t is there with 1 partition"),
    ]
    moved = view(1, topics=(topic(part(replicas=(1, 2, 4), isr=(1, 2, 4))),))
    assert [kind for kind, _ in messages(view(0), moved)] == ["replicas-changed", "isr-shrank", "isr-grew"]


def test_groups_become_empty_and_active_and_go() -> None:
    stable, empty = view(0, groups=(group("Stable"),)), view(1, groups=(group("Empty"),))
    assert messages(stable, empty) == [("group-empty", "group g has no members any more")]
    assert messages(empty, stable) == [("group-active", "group g has members again")]
    assert messages(stable, view(1)) == [("group-gone", "group g is gone")]
    untold = view(1, problems=(Problem(1, "groups", "not authorized"),))
    assert messages(stable, untold) == [], "nobody told of it: that is not gone"


@pytest.mark.parametrize(
    "after",
    [
        {"problems": (Problem(1, "no response", "refused"),)},
        {"brokers": (broker(1, is_fenced=True), broker(2), broker(3))},
        {"topics": (topic(part(topic="__consumer_offsets", leader=2), name="__consumer_offsets"),)},
    ],
    ids=["silent", "fenced", "moved"],
)
def test_groups_whose_coordinator_may_be_missing_are_not_gone(after: dict[str, Any]) -> None:
    offsets = topic(part(topic="__consumer_offsets"), name="__consumer_offsets")
    before = view(0, groups=(group("Stable"),), topics=(offsets,))
    assert "group-gone" in [kind for kind, _ in messages(before, view(1, topics=(offsets,)))]
    assert "group-gone" not in [kind for kind, _ in messages(before, view(1, **{"topics": (offsets,), **after}))]


def test_the_controller_changes() -> None:
    assert messages(view(0), view(1, controller=3)) == [("controller-changed", "3 is the active controller, it was 1")]
    assert messages(view(0), view(1, controller=-1)) == [
        ("controller-changed", "no active controller is known, it was 1")
    ]
    assert (
        messages(view(0), view(1, controller=NOT_REPORTED)) == messages(view(0, controller=NOT_REPORTED), view(1)) == []
    )


def test_a_log_directory_goes_offline() -> None:
    replica = ReplicaInfo("t", 0, 5, 0, False)
    well = view(0, brokers=(broker(1, log_dirs=(LogDir("/a", (replica,)), LogDir("/b", ()))),))
    ill = view(1, brokers=(broker(1, log_dirs=(LogDir("/a", (), error=KafkaStorageError()), LogDir("/b", ()))),))
    assert messages(well, ill) == [("log-dir-offline", "broker 1 cannot use /a")]
    assert messages(ill, well) == [("log-dir-back", "broker 1 can use /a again")]
    assert (well.brokers[0].log_bytes, ill.totals.offline_log_dirs) == (5, 1)
    untold = view(1, brokers=(broker(1, log_dirs=None),))
    assert messages(well, untold) == []


def test_every_kind_is_in_the_table() -> None:
    stories = [
        (view(0), view(1, controller=2, brokers=(broker(1),), topics=(topic(part(leader=3, isr=(3,))),))),
        (view(0, groups=(group("Stable"),)), view(1, groups=(group("Empty"),), topics=())),
    ]
    kinds = {event.kind for before, after in stories for event in events_between(before, after)}
    assert len(kinds) > 5 and kinds <= KINDS.keys()
