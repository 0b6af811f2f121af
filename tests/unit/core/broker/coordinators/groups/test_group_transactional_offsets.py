"""Offsets that groups commit in transactions: which one counts in the end, and what a start reads back of them."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
from support.broker_client import BrokerClient
from support.embedded import embedded_broker
from support.raw_client import RawClient
from support.transaction_teller import Teller

from kafkatools.core.broker.coordinators.groups.offset_records import CommittedOffset
from kafkatools.core.broker.coordinators.groups.offsets import Offsets
from kafkatools.core.protocol.api_versions import ApiKey

PLACE = ("t", 0)
A, B = 1, 2
SETTINGS = {"transaction_state_log_num_partitions": "2", "offsets_topic_num_partitions": "2"}


def every(_group: str) -> bool:
    return True


@pytest.fixture
def offsets() -> Offsets:
    return Offsets()


def pend(offsets: Offsets, producer: int, position: int, place: tuple[str, int] = PLACE, group: str = "g") -> None:
    offsets.pending.put(producer, group, place, CommittedOffset(position))


def found(offsets: Offsets, place: tuple[str, int] = PLACE) -> int | None:
    committed = offsets.get("g", place)
    return None if committed is None else committed.offset


def test_a_pending_offset_counts_when_its_transaction_is_committed(offsets: Offsets) -> None:
    pend(offsets, A, 5)
    assert offsets.pending.is_pending("g", PLACE)
    assert not offsets.pending.is_pending("g", ("t", 1))
    assert not offsets.pending.is_pending("h", PLACE)
    assert found(offsets) is None
    offsets.complete_transaction(A, every, is_commit=True)
    assert (found(offsets), bool(offsets.pending)) == (5, False)


def test_an_aborted_one_never_does(offsets: Offsets) -> None:
    pend(offsets, A, 5)
    offsets.complete_transaction(A, every, is_commit=False)
    assert (found(offsets), offsets.pending.is_pending("g", PLACE)) == (None, False)


def test_a_plain_commit_after_it_stays_and_the_place_is_unstable_until_the_marker(offsets: Offsets) -> None:
    pend(offsets, A, 5)
    offsets.put("g", PLACE, CommittedOffset(9))
    assert offsets.pending.is_pending("g", PLACE)
    offsets.complete_transaction(A, every, is_commit=True)
    assert (found(offsets), offsets.pending.is_pending("g", PLACE)) == (9, False)


def test_a_plain_commit_before_it_is_replaced(offsets: Offsets) -> None:
    offsets.put("g", PLACE, CommittedOffset(9))
    pend(offsets, A, 5)
    offsets.complete_transaction(A, every, is_commit=True)
    assert found(offsets) == 5


def test_of_two_transactions_the_later_commit_wins_whatever_the_order_of_their_ends(offsets: Offsets) -> None:
    pend(offsets, A, 5)
    pend(offsets, B, 6)
    offsets.complete_transaction(B, every, is_commit=True)
    offsets.complete_transaction(A, every, is_commit=True)
    assert found(offsets) == 6
    pend(offsets, B, 7)
    pend(offsets, A, 8)
    offsets.complete_transaction(B, every, is_commit=True)
    assert (found(offsets), offsets.pending.is_pending("g", PLACE)) == (7, True)
    offsets.complete_transaction(A, every, is_commit=True)
    assert found(offsets) == 8


def test_a_marker_decides_only_the_groups_of_its_partition(offsets: Offsets) -> None:
    pend(offsets, A, 5)
    pend(offsets, A, 6, group="h")
    offsets.complete_transaction(A, "h".__eq__, is_commit=True)
    assert (found(offsets), offsets.get("h", PLACE)) == (None, CommittedOffset(6))
    assert offsets.pending.has_group("g")
    assert not offsets.pending.has_group("h")


def test_deleted_offsets_and_groups_take_what_is_pending_with_them(offsets: Offsets) -> None:
    pend(offsets, A, 5)
    pend(offsets, A, 6, ("t", 1))
    offsets.remove("g", PLACE)
    assert not offsets.pending.is_pending("g", PLACE)
    offsets.remove_group("g")
    offsets.complete_transaction(A, every, is_commit=True)
    assert (found(offsets), found(offsets, ("t", 1)), bool(offsets.pending)) == (None, None, False)


@pytest.fixture
def directory(tmp_path: pathlib.Path) -> pathlib.Path:
    return tmp_path / "data"


def plain_commit(client: RawClient, topic: str, offset: int) -> None:
    partition = {
        "partition_index": 0,
        "committed_offset": offset,
        "committed_leader_epoch": -1,
        "committed_metadata": "",
    }
    fields = {
        "group_id": "g",
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "group_instance_id": None,
        "topics": [{"name": topic, "partitions": [partition]}],
    }
    assert int(client.call(ApiKey.OFFSET_COMMIT, 8, fields).topics[0].partitions[0].error_code) == 0


def tellers(directory: pathlib.Path) -> Iterator[Teller]:
    """The same broker, started again and again."""
    met: list[int] = []
    while True:
        with embedded_broker(directory, **SETTINGS) as bootstrap:
            s = Teller(bootstrap, "read-back")
            s.producers_met = met
            s.find_coordinator("x")
            with s.client:
                yield s


def test_a_start_reads_back_what_counts_and_what_is_open(directory: pathlib.Path) -> None:
    starts = tellers(directory)
    s = next(starts)
    topics = [s.topic(1, name) for name in ("a", "b", "c", "d", "e")]
    places = [(topic, 0) for topic in topics]
    ids = {name: s.init(name) for name in ("x", "y", "z")}
    for name, topic, offset in (
        ("x", topics[0], 1),
        ("y", topics[1], 2),
        ("z", topics[2], 3),
        ("x", topics[3], 4),
        ("z", topics[4], 5),
    ):
        s.commit_offset(name, ids[name], "g", (topic, 0, offset), version=5)
    plain_commit(s.client, topics[3], 40)
    plain_commit(s.client, topics[4], 50)  # it wins, but the partition is unstable until the marker
    s.end("x", ids["x"], commit=True, version=5)
    s.end("y", ids["y"], commit=False, version=5)
    for _ in range(2):
        s.answers.clear()
        for place in places:
            s.offset("g", place)
        assert s.answers == [
            ["offset", "OK", 1],
            ["offset", "OK", -1],
            ["offset", "UNSTABLE_OFFSET_COMMIT", -1],
            ["offset", "OK", 40],
            ["offset", "UNSTABLE_OFFSET_COMMIT", -1],
        ]
        s = next(starts)
    s.answers.clear()
    s.end("z", ids["z"], commit=True, version=5)
    s.offset("g", places[2])
    s.offset("g", places[4])
    assert s.answers == [["end", "OK", s.who(ids["z"][0]), 1], ["offset", "OK", 3], ["offset", "OK", 50]]
    s = next(starts)
    s.answers.clear()
    s.offset("g", places[2])
    s.offset("g", places[4])
    assert s.answers == [["offset", "OK", 3], ["offset", "OK", 50]]
    starts.close()  # type: ignore[attr-defined]


def test_groups_with_open_transactions_are_not_expired(run_node: Any) -> None:
    running = run_node({"offsets.retention.check.interval.ms": "3600000", **dotted(SETTINGS)})
    client: BrokerClient = running.connect()
    s = Teller(f"127.0.0.1:{running.node.listener.port}", "expiry")
    with s.client:
        s.find_coordinator("x")
        topic = s.topic()
        p = s.init("x")
        s.commit_offset("x", p, "g", (topic, 0, 5), version=5)
        running.node.groups.expiry.start(0)
        s.answers.clear()
        s.end("x", p, commit=True, version=5)
        s.offset("g", (topic, 0))
        assert s.answers[-1] == ["offset", "OK", 5]
    groups = client.call(16, 4, states_filter=[]).groups
    assert [group.group_id for group in groups] == ["g"]


def dotted(settings: dict[str, str]) -> dict[str, str]:
    return {name.replace("_", "."): value for name, value in settings.items()}
