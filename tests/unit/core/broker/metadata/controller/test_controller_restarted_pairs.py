"""Three brokers are killed and two come back: the controller's decisions in the order of events of Apache Kafka 4.3.1.

tests/golden/controller/restarted-pairs.json was recorded with tests/support/restarted_pairs.py: each pair of three real
nodes twice in both orders, all with min.insync.replicas=1. Which session Apache Kafka ends first depends on the hashes
of broker epochs: in 5 of the 12 courses the broker that stayed away was fenced last, and no partition had a leader.
"""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest
from support.quorum_controller import Cluster

from kafkatools.core.errors import DuplicateBrokerRegistration

_RECORDED = json.loads((pathlib.Path(__file__).parents[5] / "golden/controller/restarted-pairs.json").read_text())
_COURSES: list[dict[str, Any]] = _RECORDED["courses"]
_NAMES = [f"{course['pair']}-{number}" for number, course in enumerate(_COURSES)]
SESSION_MS, GAP_MS = 9000, 100


def _cluster(settings: dict[str, object] | None = None) -> Cluster:
    cluster = Cluster((1, 2, 3), {"min.insync.replicas": "1", **(settings or {})})
    cluster.create("t", *_RECORDED["places"])
    return cluster


def _changes(cluster: Cluster, since: int) -> list[dict[str, Any]]:
    """The partition changes written from an offset on, in the form of the recording."""
    names = {
        "isr": "isr",
        "leader_recovery_state": "leaderRecoveryState",
        "eligible_leader_replicas": "eligibleLeaderReplicas",
        "last_known_elr": "lastKnownElr",
    }
    changes = []
    for record in cluster.log.records[since:]:
        if type(record).__schema__.name != "PartitionChangeRecord":
            continue
        change: dict[str, Any] = {"partitionId": record.partition_id}
        if record.leader != -2:
            change["leader"] = record.leader
        for attribute, name in names.items():
            value = getattr(record, attribute)
            if value not in (None, -1):
                change[name] = list(value) if isinstance(value, tuple) else value
        changes.append(change)
    return sorted(changes, key=lambda each: int(each["partitionId"]))


def _fence_next(cluster: Cluster, broker_id: int) -> None:
    """The session of a broker is over before those of the others that are not fenced."""
    others = [each for each, state in cluster.image.brokers.items() if not state.is_fenced and each != broker_id]
    cluster.clock.advance_ms(GAP_MS)
    for other in others:
        cluster.heartbeat(other)
    cluster.clock.advance_ms(SESSION_MS - GAP_MS)
    cluster.controller.tick(cluster.now_ms)
    assert [each for each, state in cluster.image.brokers.items() if not state.is_fenced] == others


@pytest.mark.parametrize("course", _COURSES, ids=_NAMES)
def test_the_same_order_of_events_has_the_same_records(course: dict[str, Any]) -> None:
    cluster = _cluster()
    for what, broker_id, recorded in course["events"]:
        since = cluster.log.end_offset
        if what == "fence":
            _fence_next(cluster, broker_id)
        elif what == "register":
            cluster.register(broker_id, 1)
        else:
            cluster.unfence(broker_id)
        expected = sorted(recorded, key=lambda each: int(each["partitionId"]))
        assert _changes(cluster, since) == expected, (what, broker_id)
        _recover(cluster)


def _recover(cluster: Cluster) -> None:
    """Leaders that were elected uncleanly say that they are ready, as the recording's did."""
    for index, partition in cluster.image.topics["t"].partitions.items():
        if partition.leader_recovery_state and not cluster.image.brokers[partition.leader].is_fenced:
            cluster.alter_isr("t", partition.isr, index, leader_recovery_state=0)


@pytest.mark.parametrize("course", _COURSES, ids=_NAMES)
def test_the_pair_leads_whenever_apache_kafkas_did_and_also_when_it_did_not(course: dict[str, Any]) -> None:
    cluster = _cluster()
    pair = course["pair"]
    cluster.clock.advance_ms(1000)
    for broker_id in pair:
        with pytest.raises(DuplicateBrokerRegistration):
            cluster.register(broker_id, 1)
    cluster.pass_time(SESSION_MS)
    for broker_id in pair:
        cluster.register(broker_id, 1)
    for broker_id in pair:
        cluster.unfence(broker_id)
    leaders = {each.leader for each in cluster.image.topics["t"].partitions.values()}
    assert leaders.issubset(pair)
    last_changes = [changes for *_, changes in course["events"] if changes][-1]
    kafkas_leaders = {change["leader"] for change in last_changes if "leader" in change}
    assert kafkas_leaders == {-1} or kafkas_leaders.issubset(pair)


@pytest.mark.parametrize("pair", [(1, 2), (1, 3), (2, 3)], ids=str)
def test_registrations_before_the_tick_do_not_leave_the_absent_broker_in_charge(pair: tuple[int, int]) -> None:
    cluster = _cluster()
    cluster.clock.advance_ms(SESSION_MS)
    for broker_id in pair:
        cluster.register(broker_id, 1)
    cluster.controller.tick(cluster.now_ms)
    for broker_id in pair:
        cluster.unfence(broker_id)
    assert {each.leader for each in cluster.image.topics["t"].partitions.values()} <= set(pair)
