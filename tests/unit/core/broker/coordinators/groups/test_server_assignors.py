"""Target assignments of the server-side assignors, held against those of Apache Kafka 4.3.1.

tests/golden/groups/server_assignments.json was recorded from its RangeAssignor and UniformAssignor: groups whose
members and topics change from round to round, each round starting from the result of the one before. Topic ids were
chosen so that no two share a bucket of a HashMap: their order is then Kafka's too.
"""

from __future__ import annotations

import json
import pathlib
import uuid
from typing import Any

import pytest

from kafkatools.core.broker.coordinators.groups.modern.group_spec import GroupSpec
from kafkatools.core.broker.coordinators.groups.modern.server_assignors import assign_range, assignor_of
from kafkatools.core.java.hash_order import copied_partition_order, hash_order
from kafkatools.core.java.xxh3 import xxh3_64
from kafkatools.core.protocol.uuids import uuid_from_text, uuid_text

CASES = json.loads((pathlib.Path(__file__).parents[5] / "golden" / "groups" / "server_assignments.json").read_text())
T = uuid.UUID(int=7)


def topic_id(text: str) -> uuid.UUID:
    found = uuid_from_text(text)
    assert found is not None
    return found


@pytest.mark.parametrize("case", CASES, ids=range(len(CASES)))
def test_assignments_are_kafkas_round_after_round(case: dict[str, Any]) -> None:
    target: dict[str, Any] = {}
    for step in case["rounds"]:
        members = {member: frozenset(map(topic_id, topics)) for member, topics in step["members"].items()}
        spec = GroupSpec(
            {member: members[member] for member in hash_order(members)},
            {topic_id(text): count for text, count in step["topics"].items()},
            {member: target.get(member, {}) for member in members},
            len(set(members.values())) == 1,
        )
        result = assignor_of(case["assignor"])(spec)
        target = {member: result.get(member, {}) for member in members}
        found = {
            member: {uuid_text(topic): sorted(partitions) for topic, partitions in topics.items() if partitions}
            for member, topics in target.items()
        }
        assert found == step["result"]


def test_ranges_go_to_static_members_first_by_instance_id() -> None:
    members = dict.fromkeys(("a", "b", "c"), frozenset([T]))
    spec = GroupSpec(members, {T: 4}, {}, True, {"c": "2", "b": "1"})
    assert assign_range(spec) == {
        "b": {T: frozenset([0, 1])},
        "c": {T: frozenset([2])},
        "a": {T: frozenset([3])},
    }


def test_more_members_than_partitions_leave_some_with_nothing() -> None:
    spec = GroupSpec(dict.fromkeys(("a", "b", "c"), frozenset([T])), {T: 2}, {}, True)
    for name in ("range", "uniform"):
        sizes = sorted(len(topics.get(T, ())) for topics in assignor_of(name)(spec).values())
        assert sizes == [0, 1, 1]


def test_java_lists_small_numbers_of_a_set_in_the_order_of_their_buckets() -> None:
    """`new HashSet<>(List.of(13, ..., 19))` of OpenJDK 17."""
    assert copied_partition_order(range(13, 20)) == [16, 17, 18, 19, 13, 14, 15]


@pytest.mark.parametrize(
    ("length", "expected"),
    [
        (0, 3244421341483603138),
        (3, 1582743943441612892),
        (8, -2394039629164210130),
        (16, 9099606716676871632),
        (100, -8316154546292524762),
        (240, -3690920546649497853),
        (1025, -4566685497618039422),
    ],
)
def test_hashes_of_xxh3_are_those_of_hash4j(length: int, expected: int) -> None:
    """Values of com.dynatrace.hash4j 0.22.0, the library Apache Kafka uses."""
    value = xxh3_64(bytes((i * 31 + 7) & 255 for i in range(length)))
    assert value == expected & 0xFFFFFFFFFFFFFFFF
