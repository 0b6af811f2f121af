"""The simple assignor of share groups: everybody reads, everything is read, evenly, and nothing moves without need.

tests/golden/groups/share_assignments.json was recorded from Apache Kafka 4.3.1's SimpleAssignor
(tests/support/ShareAssignments.java): groups whose members and topics change from round to round, each round starting
from the result of the one before. Topic ids were chosen so that no two of a group share a bucket of a HashMap.
"""

from __future__ import annotations

import json
import pathlib
import uuid
from collections.abc import Mapping
from typing import Any

import pytest

from kafkatools.core.broker.coordinators.groups.modern.consumer_member import Assignment
from kafkatools.core.broker.coordinators.groups.share.assignor import assign
from kafkatools.core.protocol.uuids import uuid_from_text, uuid_text

A, B = uuid.UUID(int=1), uuid.UUID(int=2)
CASES = json.loads((pathlib.Path(__file__).parents[5] / "golden" / "groups" / "share_assignments.json").read_text())


def topic_id(text: str) -> uuid.UUID:
    found = uuid_from_text(text)
    assert found is not None
    return found


def test_assignments_are_kafkas_round_after_round() -> None:
    for case in CASES:
        target: dict[str, Assignment] = {}
        for step in case["rounds"]:
            subscriptions = {name: frozenset(map(topic_id, topics)) for name, topics in step["members"].items()}
            partitions = {topic_id(text): initialized(recorded) for text, recorded in step["topics"].items()}
            target = assign(subscriptions, partitions, {name: target.get(name, {}) for name in subscriptions})
            assert {name: shown(assignment) for name, assignment in target.items()} == step["result"]


def initialized(recorded: int | list[int]) -> frozenset[int]:
    """The partitions of a topic: a number of them, or those whose share state is initialized."""
    return frozenset(range(recorded) if isinstance(recorded, int) else recorded)


def shown(assignment: Assignment) -> dict[str, Any]:
    return {uuid_text(topic): sorted(numbers) for topic, numbers in assignment.items()}


def counts(target: Mapping[str, Mapping[uuid.UUID, frozenset[int]]]) -> list[int]:
    return [sum(map(len, target[member].values())) for member in sorted(target)]


@pytest.mark.parametrize(
    ("members", "partitions", "expected"),
    [(1, 3, [3]), (2, 3, [2, 1]), (3, 3, [1, 1, 1]), (4, 2, [1, 1, 1, 1]), (3, 2, [2, 1, 1]), (2, 0, [0, 0])],
)
def test_members_share_evenly_and_every_partition_is_read(members: int, partitions: int, expected: list[int]) -> None:
    subscriptions = {f"m{i}": frozenset([A]) for i in range(members)}
    target = assign(subscriptions, {A: frozenset(range(partitions))}, {})
    assert counts(target) == expected
    assert {p for chosen in target.values() for p in chosen.get(A, ())} == set(range(partitions))


def test_what_a_member_has_it_keeps() -> None:
    subscriptions = {"m0": frozenset([A]), "m1": frozenset([A])}
    present = {"m0": {A: frozenset([2, 3])}, "m1": {A: frozenset([0, 1])}}
    assert assign(subscriptions, {A: frozenset(range(4))}, present) == present
    alone = assign({"m0": frozenset([A])}, {A: frozenset(range(4))}, present)
    assert alone == {"m0": {A: frozenset(range(4))}}


def test_members_get_only_what_they_are_subscribed_to() -> None:
    subscriptions = {"m0": frozenset([A]), "m1": frozenset([A, B]), "m2": frozenset([B])}
    target = assign(subscriptions, {A: frozenset([0, 1]), B: frozenset([0])}, {})
    assert set(target["m0"]) == {A}
    assert set(target["m2"]) == {B}
    assert {p for member in ("m0", "m1") for p in target[member].get(A, ())} == {0, 1}
