"""The history of the monitor: points of 5 s, the hour, gaps, bounds, and what disappears. Time is passed in."""

from __future__ import annotations

import pytest

from kafkatools.tools.monitor import history
from kafkatools.tools.monitor.board import Board
from kafkatools.tools.monitor.history import History
from kafkatools.tools.monitor.view import BrokerView, ClusterView, GroupPartition, GroupView, PartitionView, TopicView

START_MS = 1_700_000_000_000
HOUR_S = 3600


def topic(name: str, *rates: float | None) -> TopicView:
    """A topic whose partitions are led by broker 1, with these messages per second."""
    parts = tuple(PartitionView(name, n, 1, 0, (1,), (1,), (), ()) for n in range(len(rates)))
    known = [rate for rate in rates if rate is not None]
    return TopicView(name, "id", False, parts, sum(known) if len(known) == len(rates) else None, 1.5, rates)


def group(name: str, lag: int | None) -> GroupView:
    """A group with this lag in one partition."""
    return GroupView(name, "Classic", "Stable", 1, 1, (GroupPartition("t", 0, 5, lag),), 2.0)


def view(at_s: float, *topics: TopicView, groups: tuple[GroupView, ...] = ()) -> ClusterView:
    """A view of two brokers at a number of seconds after the start."""
    brokers = tuple(BrokerView(id, "h", 9092, None, False, True, ()) for id in (1, 2))
    at_ms = round(at_s * 1000)
    return ClusterView(START_MS + at_ms, at_ms, 1, "c", 1, brokers, topics, None, groups, ())


def test_the_last_snapshot_of_five_seconds_counts() -> None:
    kept = History()
    for at_s, rate in ((0, 1.0), (2, 2.0), (4, 3.0), (6, 4.0)):
        kept.add(view(at_s, topic("t", rate)))
    found = kept.read("topic", "t")
    assert found.times_ms == [START_MS + 4000, START_MS + 6000]
    assert found.values == {"messages_per_second": [3.0, 4.0], "bytes_per_second": [1.5, 1.5]}


def test_an_hour_is_kept() -> None:
    kept = History()
    for at_s in range(0, 2 * HOUR_S, 5):
        kept.add(view(at_s, topic("t", float(at_s))))
    found = kept.read("topic", "t")
    assert found.values["messages_per_second"][0] == HOUR_S - 5 and len(found.times_ms) == HOUR_S // 5 + 1
    assert found.values["messages_per_second"][-1] == 2 * HOUR_S - 5
    assert len(kept.read("cluster").values["lag"]) == len(found.times_ms)


def test_a_wall_clock_that_is_set_back_loses_nothing() -> None:
    kept = History()
    kept.add(view(0))
    kept.add(view(60)._replace(time_ms=START_MS - 10))
    assert kept.read("cluster").times_ms == [START_MS, START_MS - 10]


def test_what_is_unknown_or_absent_is_none() -> None:
    kept = History()
    kept.add(view(0, topic("t", None), groups=(group("g", None),)))
    kept.add(view(5, topic("t", 2.0)))
    kept.add(view(10, topic("t", 3.0), groups=(group("g", 7),)))
    assert kept.read("topic", "t").values["messages_per_second"] == [None, 2.0, 3.0]
    assert kept.read("group", "g").values["lag"] == [None, None, 7.0]
    nothing = kept.read("topic", "other")
    assert (nothing.is_kept, nothing.values["bytes_per_second"]) == (False, [None] * 3)


def test_a_refresh_that_fails_is_a_gap() -> None:
    board = Board()
    board.fail("no broker")
    board.publish(view(0, topic("t", 1.0)))
    board.fail("no broker")
    board.fail("no broker")
    board.publish(view(2, topic("t", 2.0)))
    assert board.history("topic", "t").values["messages_per_second"] == [1.0, None, 2.0]


def test_brokers_get_the_messages_of_the_partitions_that_they_lead() -> None:
    kept = History()
    kept.add(view(0, topic("a", 1.0, 2.0), topic("b", 4.0)))
    kept.add(view(5, topic("a", 1.0, None), topic("b", 4.0)))
    assert kept.read("broker", "1").values["messages_per_second"] == [7.0, None]
    assert kept.read("broker", "1").values["leaders"] == [3.0, 3.0]
    assert kept.read("broker", "2").values["messages_per_second"] == [0.0, 0.0], "it leads nothing"


def test_the_number_of_series_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "MOST_GROUPS", 3)
    monkeypatch.setitem(history._MOST, "group", 3)
    kept = History()
    groups = tuple(group(f"g{n}", n) for n in range(5))
    kept.add(view(0, groups=groups))
    assert [kept.read("group", f"g{n}").is_kept for n in range(5)] == [False, False, True, True, True], (
        "the largest lags"
    )
    assert kept.not_kept["group"] == 2
    kept.add(view(5, groups=(groups[0], groups[3])))
    assert kept.read("group", "g0").is_kept and kept.read("group", "g3").values["lag"] == [3.0, 3.0]
    assert kept.not_kept["group"] == 0
    assert sum(kept.read("group", f"g{n}").is_kept for n in range(5)) == 3, "one that is gone makes room"


def test_what_is_gone_for_an_hour_is_forgotten() -> None:
    kept = History()
    kept.add(view(0, topic("gone", 1.0)))
    for at_s in range(5, HOUR_S + 15, 5):
        kept.add(view(at_s))
    assert not kept.read("topic", "gone").is_kept
