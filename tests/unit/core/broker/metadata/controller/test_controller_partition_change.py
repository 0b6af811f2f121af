"""Changes of partitions against what Apache Kafka 4.3.1's PartitionChangeBuilder made of the same ones.

tests/golden/controller/partition-changes.jsonl.gz was recorded with tests/support/PartitionChanges.java (3000 cases).
"""

from __future__ import annotations

import gzip
import json
import pathlib
import uuid
from typing import Any

import pytest

from kafkatools.core.broker.metadata.controller.partition_change import (
    ClusterRules,
    Election,
    PartitionChangeBuilder,
    completed,
)
from kafkatools.core.broker.metadata.image import PartitionState
from kafkatools.core.java.hash_order import hash_order
from kafkatools.core.java.hashes import int_hash

_RECORDED = pathlib.Path(__file__).parents[5] / "golden" / "controller" / "partition-changes.jsonl.gz"
_LISTS = ("isr", "replicas", "removing_replicas", "adding_replicas", "eligible_leader_replicas", "last_known_elr")


def _directory(number: int) -> uuid.UUID | None:
    if number < 3:
        return uuid.UUID(int=number) if number else None
    return uuid.UUID(int=number << 64 | 1)


def _builder(case: dict[str, Any]) -> PartitionChangeBuilder:
    given = case["partition"]
    partition = PartitionState(
        0,
        tuple(given["replicas"]),
        tuple(given["isr"]),
        given["leader"],
        5,
        9,
        tuple(map(_directory, given["directories"])),
        tuple(given["removing"]),
        tuple(given["adding"]),
        given["recovery"],
        tuple(given["elr"]),
        tuple(given["last_known_elr"]),
    )
    rules = ClusterRules(
        case["level"],
        case["min_isr"],
        case["elr"],
        lambda replica: replica in case["alive"],
        lambda replica: _directory(1000 + replica),
    )
    builder = PartitionChangeBuilder(uuid.UUID(int=1 << 64 | 1), partition, rules, Election(case["election"]))
    for target in ("isr", "replicas", "removing", "adding"):
        if f"target_{target}" in case:
            setattr(builder, f"target_{target}", tuple(case[f"target_{target}"]))
    if "target_recovery" in case:
        builder.target_recovery_state = case["target_recovery"]
    if "unclean" in case:
        builder.unclean_shutdown_replicas = case["unclean"]
    if "moved" in case:
        builder.directories[case["moved"]] = _directory(77)
    return builder


def _fields(record: Any) -> dict[str, Any] | None:
    """A record in the form of the recording."""
    if record is None:
        return None
    found: dict[str, Any] = {"version": record.__version__}
    for name in _LISTS:
        value = getattr(record, name, None)
        if value is not None:
            found[name] = list(value)
    if record.leader != -2:
        found["leader"] = record.leader
    if record.leader_recovery_state != -1:
        found["leader_recovery_state"] = record.leader_recovery_state
    directories = getattr(record, "directories", None)
    if directories is not None:
        found["directories"] = [0 if each is None else each.int >> 64 or each.int for each in directories]
    return found


def _without_former_replicas(case: dict[str, Any]) -> dict[str, Any] | None:
    """The recorded change, less eligible leader replicas that are no replicas any more: Apache Kafka keeps those."""
    record = case["record"]
    if record is None:
        return None
    before = case["partition"]["elr"]
    replicas = record.get("replicas", case["partition"]["replicas"])
    elr = [each for each in record.get("eligible_leader_replicas", before) if each in replicas]
    kept = {name: value for name, value in record.items() if name != "eligible_leader_replicas"}
    return kept if elr == before else {**kept, "eligible_leader_replicas": elr}


@pytest.mark.slow
def test_every_change_is_the_one_apache_kafka_makes() -> None:
    cases = [json.loads(line) for line in gzip.decompress(_RECORDED.read_bytes()).splitlines()]
    assert len(cases) == 3000
    different = 0
    for case in cases:
        expected = _without_former_replicas(case)
        different += expected != case["record"]
        assert _fields(_builder(case).build()) == expected, case
    assert 0 < different < 30


def test_an_election_of_somebody_outside_the_isr_is_told_as_unclean() -> None:
    partition = PartitionState(0, (1, 2), (1,), 1, 0, 0)
    rules = ClusterRules(30, 1, False, lambda replica: replica == 2, lambda replica: None)
    builder = PartitionChangeBuilder(uuid.UUID(int=7), partition, rules, Election.UNCLEAN)
    builder.target_isr = ()
    record = builder.build()
    assert builder.is_unclean
    assert (record.leader, record.isr, record.leader_recovery_state) == (2, (2,), 1)


@pytest.mark.parametrize(
    ("isr", "expected"),
    [((1, 2), None), ((1, 2, 3), None), ((1, 2, 3, 4), ((3, 4), (3, 4))), ((3, 4), ((3, 4), (3, 4)))],
)
def test_a_reassignment_is_done_when_all_that_were_added_are_in_the_isr(isr: tuple[int, ...], expected: Any) -> None:
    assert completed((3, 4, 1, 2), isr, removing=(1, 2), adding=(3, 4)) == expected


@pytest.mark.parametrize(("isr", "expected"), [((1, 3), None), ((1, 2, 3), ((1, 2), (1, 2))), ((3,), None)])
def test_a_smaller_replication_factor_waits_for_all_who_stay(isr: tuple[int, ...], expected: Any) -> None:
    assert completed((1, 2, 3), isr, removing=(3,), adding=()) == expected


def test_ids_are_in_the_order_of_a_java_hash_set() -> None:
    """What Java 17 prints for a HashSet of these numbers."""
    assert hash_order([14, 3, 100, 214, 21, 65536, 3], int_hash) == [65536, 3, 100, 21, 214, 14]
