"""Placement of replicas against what Apache Kafka 4.3.1's StripedReplicaPlacer decided with the same seeds.

tests/golden/replica-placement/placements.jsonl was recorded with tests/support/Placements.java.
"""

from __future__ import annotations

import json
import pathlib

import pytest

from kafkatools.core.errors import InvalidReplicationFactor
from kafkatools.core.java.random import JavaRandom
from kafkatools.core.replica_placement import UsableBroker, place

_RECORDED = pathlib.Path(__file__).parents[2] / "golden" / "replica-placement" / "placements.jsonl"
_CASES = [json.loads(line) for line in _RECORDED.read_text(encoding="utf-8").splitlines()]


@pytest.mark.parametrize("case", _CASES, ids=[f"{case['name']} {case['seed']}" for case in _CASES])
def test_a_seed_places_replicas_as_in_apache_kafka(case: dict) -> None:  # type: ignore[type-arg]
    brokers = [UsableBroker(*broker) for broker in case["brokers"]]
    placed = place(brokers, len(case["replicas"]), case["factor"], JavaRandom(case["seed"]))
    assert placed == case["replicas"]


@pytest.mark.parametrize(
    ("brokers", "factor", "message"),
    [
        ([UsableBroker(1)], 0, "Invalid replication factor 0: the replication factor must be positive."),
        ([], 1, "All brokers are currently fenced, or have all their log directories cordoned."),
        (
            [UsableBroker(1)],
            2,
            "The target replication factor of 2 cannot be reached because only 1 broker(s) are registered or some "
            "brokers have all their log directories cordoned.",
        ),
    ],
)
def test_impossible_placement_is_refused_in_kafkas_words(
    brokers: list[UsableBroker], factor: int, message: str
) -> None:
    with pytest.raises(InvalidReplicationFactor) as refused:
        place(brokers, 1, factor, JavaRandom(0))
    assert str(refused.value) == message


def test_without_a_seed_the_lots_differ() -> None:
    brokers = [UsableBroker(number) for number in range(20)]
    assert len({tuple(place(brokers, 1, 3, JavaRandom())[0]) for _ in range(50)}) > 1
