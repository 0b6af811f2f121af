"""The assignors' rules that random groups do not show by themselves."""

import base64
import struct
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.assignor_cases import ASSIGNORS, ask_ours, make_case

from kafkatools.core.consumer.assignors.assignor import (
    MemberSubscription,
    PartitionInfo,
    RebalanceProtocol,
    partitions_of,
)
from kafkatools.core.consumer.assignors.by_name import assignor_for_name
from kafkatools.core.consumer.assignors.sticky import read_sticky_user_data, write_sticky_user_data
from kafkatools.core.consumer.subscription import TopicPartition
from kafkatools.core.errors import ConfigError
from kafkatools.core.java.hash_order import hash_order
from kafkatools.core.java.hashes import partition_hash, string_hash
from kafkatools.core.net.metadata import ClusterView, Node, PartitionView, TopicView


def _topic(name: str, count: int) -> list[PartitionInfo]:
    return [PartitionInfo(name, index) for index in range(count)]


@pytest.mark.parametrize(
    ("name", "protocol_name"),
    [
        ("org.apache.kafka.clients.consumer.RangeAssignor", "range"),
        ("RoundRobinAssignor", "roundrobin"),
        (" org.apache.kafka.clients.consumer.StickyAssignor", "sticky"),
        ("cooperative-sticky", "cooperative-sticky"),
    ],
)
def test_assignors_go_by_class_name_and_by_protocol_name(name: str, protocol_name: str) -> None:
    assert assignor_for_name(name).name == protocol_name


def test_unknown_assignor_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"Unknown assignor com\.example\.Mine"):
        assignor_for_name("com.example.Mine")


def test_only_cooperative_sticky_speaks_the_cooperative_protocol_and_still_the_eager_one() -> None:
    spoken = {name: assignor_for_name(name).supported_protocols for name in ASSIGNORS}
    assert spoken.pop("CooperativeStickyAssignor") == (RebalanceProtocol.COOPERATIVE, RebalanceProtocol.EAGER)
    assert set(spoken.values()) == {(RebalanceProtocol.EAGER,)}


def test_moving_partition_is_given_only_after_its_owner_has_let_go() -> None:
    assignor = assignor_for_name("cooperative-sticky")
    topics = {"t": _topic("t", 4)}
    every = [TopicPartition("t", index) for index in range(4)]
    old, new = MemberSubscription(["t"], every, None, 1), MemberSubscription(["t"])
    first = assignor.assign(topics, {"old": old, "new": new})
    assert first == {"old": every[:2], "new": []}
    again = {"old": old._replace(owned_partitions=every[:2], generation_id=2), "new": new._replace(generation_id=2)}
    assert assignor.assign(topics, again) == {"old": every[:2], "new": every[2:]}


def test_partition_that_a_topic_no_longer_has_belongs_to_nobody() -> None:
    assignor = assignor_for_name("cooperative-sticky")
    owned = [TopicPartition("t", index) for index in (0, 5, -1)]
    given = assignor.assign({"t": _topic("t", 2)}, {"a": MemberSubscription(["t"], owned, None, 3)})
    assert given == {"a": [TopicPartition("t", 0), TopicPartition("t", 1)]}


@pytest.mark.parametrize("name", ["sticky", "cooperative-sticky"])
def test_member_whose_pattern_matches_no_topic_is_given_nothing(name: str) -> None:
    subscriptions = {"a": MemberSubscription([]), "b": MemberSubscription(["t"]), "c": MemberSubscription(["t"])}
    given = assignor_for_name(name).assign({"t": _topic("t", 3)}, subscriptions)
    assert [len(given[member]) for member in "abc"] == [0, 2, 1]


def test_sticky_member_says_what_it_has_only_after_its_first_assignment() -> None:
    assignor = assignor_for_name("sticky")
    assert assignor.subscription_user_data(["t"]) is None
    assignor.on_assignment([TopicPartition("t", 1)], 9)
    # [topics: 1]["t"][partitions: 1][1][generation: 9] as STICKY_ASSIGNOR_USER_DATA_V1 has it
    assert assignor.subscription_user_data(["t"]) == bytes.fromhex("00000001 0001 74 00000001 00000001 00000009")


def test_assignors_without_a_memory_say_nothing() -> None:
    assignor = assignor_for_name("range")
    assignor.on_assignment([TopicPartition("t", 1)], 9)
    assert assignor.subscription_user_data(["t"]) is None


@pytest.mark.parametrize("size", range(18))
def test_user_data_cut_anywhere_means_nothing_owned(size: int) -> None:
    whole = write_sticky_user_data([TopicPartition("t", 1)], 9)
    assert read_sticky_user_data(whole) == ([("t", 1)], 9)
    data = read_sticky_user_data(whole[:size])
    # With all of the topics the generation alone is missing: that is version 0.
    assert data == (([("t", 1)], None) if size >= 15 else ((), -1))


@pytest.mark.parametrize("count", [-1, 1 << 30])
def test_array_length_beyond_the_bytes_means_nothing_owned(count: int) -> None:
    assert read_sticky_user_data(struct.pack(">i", count) + bytes(40)) == ((), -1)


def told_by(case: dict[str, Any], member_id: str) -> set[str]:
    """The topics of which a member of a sticky assignor tells that it owned partitions."""
    (member,) = (member for member in case["members"] if member["id"] == member_id)
    if case["assignor"] == "CooperativeStickyAssignor":
        return {topic for topic, _ in member["owned"]}
    if case["assignor"] != "StickyAssignor" or not member["user_data"]:
        return set()
    return {topic for topic, _ in read_sticky_user_data(base64.b64decode(member["user_data"]))[0]}


@example(52617263)
@example(3838030)
@settings(max_examples=60, deadline=None)
@given(st.integers(min_value=1 << 20, max_value=1 << 40))
def test_every_partition_has_one_owner_that_wants_it(seed: int) -> None:
    case = make_case(seed)
    wanted = {member["id"]: set(member["topics"]) for member in case["members"]}
    given_out: list[tuple[str, int]] = []
    for member, partitions in ask_ours(case).items():
        # Kafka's sticky assignors leave a member what it says it owned, also of a topic it no longer wants.
        assert {topic for topic, _ in partitions} <= wanted[member] | told_by(case, member)
        given_out += [(topic, index) for topic, index in partitions]
    assert len(given_out) == len(set(given_out))
    everything = {
        (topic, index)
        for topic, partitions in case["topics"].items()
        for index in range(len(partitions))
        if any(topic in topics for topics in wanted.values())
    }
    if case["assignor"] == "CooperativeStickyAssignor":
        # What is missing is on its way: another member said that it owns it.
        claimed = {(part[0], part[1]) for member in case["members"] for part in member["owned"]}
        assert everything - set(given_out) <= claimed
    else:
        assert set(given_out) == everything


def test_hash_codes_and_map_order_are_javas() -> None:
    # "orders".hashCode(), new TopicPartition("orders", 3).hashCode() and a HashMap's keys, from Java 17
    assert string_hash("orders") == -1008770331 & 0xFFFFFFFF
    assert partition_hash(TopicPartition("orders", 3)) == -1008769277 & 0xFFFFFFFF
    assert hash_order(["banana", "apple", "cherry", "date", "banana"]) == ["banana", "date", "apple", "cherry"]


def test_racks_come_from_the_nodes_of_the_replicas() -> None:
    nodes = {1: Node(1, "a", 9092, "east"), 2: Node(2, "b", 9092, None)}
    topic = TopicView("t", None, False, {0: PartitionView("t", 0, 1, 0, (1, 2, 7))})
    empty = TopicView("empty", None, False, {})
    view = ClusterView(nodes, {"t": topic, "empty": empty})
    assert partitions_of(view, ["t", "missing", "empty"]) == {"t": [PartitionInfo("t", 0, ("east", None, None))]}
