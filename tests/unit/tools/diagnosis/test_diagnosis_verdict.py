"""Which of several findings is the verdict, which are consequences, and that many of them cost little."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterable

import pytest

from kafkatools.core.clock import SystemClock
from kafkatools.tools.diagnosis.causes import CAUSES
from kafkatools.tools.diagnosis.findings import Cause, Finding, Place
from kafkatools.tools.diagnosis.observations import (
    CLUSTER,
    GROUP,
    KINDS,
    PARTITION,
    TOPIC,
    NextBatch,
    Observations,
    Subject,
)
from kafkatools.tools.diagnosis.verdict import Verdict, verdicts
from kafkatools.tools.monitor.view import (
    BrokerView,
    ClusterView,
    GroupPartition,
    GroupView,
    PartitionView,
    TopicView,
)

TESTS = pathlib.Path(__file__).parents[3]


def cause(
    id: str, found: Iterable[Place], explains: tuple[str, ...] = (), kinds: tuple[str, ...] = (CLUSTER,)
) -> Cause:
    findings = [Finding(f"{id} at {place[1]}", (), ("doctor",), frozenset([place])) for place in found]
    return Cause(id, id, "", "", kinds, lambda obs: findings, explains)


def judged(*causes: Cause) -> list[Verdict]:
    view = ClusterView(0, 0, 0, None, 1, (), (), None, (), ())
    return verdicts(Observations(Subject(CLUSTER), view, 0), causes)


def test_a_consequence_at_the_same_place_is_evidence() -> None:
    (verdict,) = judged(cause("root", [("broker", 1)], ("effect",)), cause("effect", [("broker", 1)]))
    assert (verdict.cause.id, verdict.finding.evidence) == ("root", ("Consequence: effect at 1",))


def test_the_same_cause_elsewhere_stays() -> None:
    first, second = judged(cause("root", [("broker", 1)], ("effect",)), cause("effect", [("broker", 1), ("broker", 2)]))
    assert (first.cause.id, second.cause.id, second.finding.sentence) == ("root", "effect", "effect at 2")


def test_the_first_cause_of_the_catalogue_is_the_verdict() -> None:
    found = judged(cause("first", [("group", "a")]), cause("second", [("group", "a")]))
    assert [verdict.cause.id for verdict in found] == ["first", "second"]


def test_findings_of_one_cause_are_one_verdict() -> None:
    (verdict,) = judged(cause("many", [("group", name) for name in "abcdef"]))
    assert verdict.finding.sentence == "many at a"
    assert verdict.finding.evidence == (
        "Also: many at b", "Also: many at c", "Also: many at d", "Also: 2 more findings of this kind",
    )  # fmt: skip


def test_causes_of_other_subjects_are_not_examined() -> None:
    assert judged(cause("other", [("group", "a")], kinds=("group",))) == []


@pytest.mark.slow
def test_many_findings_cost_little() -> None:
    """With a comparison of each finding with each other, this would take an hour."""
    number = 50_000
    clock = SystemClock()
    started_ms = clock.now_ms()
    roots = cause("root", [("group", index) for index in range(number)], ("effect",))
    (verdict,) = judged(roots, cause("effect", [("group", index) for index in range(number)]))
    assert verdict.cause.id == "root" and clock.now_ms() - started_ms < 20_000


# -- share groups --


def shared(lag: int, timestamp: int = 0) -> Observations:
    """A share group with start offset 0, in a log from offset 10 up to 20; its settings delete after a second."""
    broker = BrokerView(1, "localhost", 9092, None, False, True, ())
    part = PartitionView("jobs", 0, 1, 0, (1,), (1,), None, (), end_offset=20, start_offset=10)
    group = GroupView("workers", "Share", "Stable", 1, 1, (GroupPartition("jobs", 0, 0, lag),))
    view = ClusterView(0, 0, 0, None, 1, (broker,), (TopicView("jobs", None, False, (part,)),), None, (group,), ())
    batches = {("workers", ("jobs", 0)): NextBatch(10, 11, 100, timestamp)} if timestamp else {}
    settings = {"jobs": {"cleanup.policy": "delete", "retention.ms": "1000"}}
    return Observations(Subject(CLUSTER), view, 900_000, batches=batches, settings=settings)


def test_acknowledged_records_of_a_share_group_may_be_deleted() -> None:
    """A share group stores a start offset before records that are acknowledged; its lag leaves them out."""
    assert verdicts(shared(0)) == [] and verdicts(shared(10)) == []
    (verdict,) = verdicts(shared(13))
    assert verdict.finding.sentence == "3 records of jobs-0 were deleted before group workers consumed them"
    assert verdict.finding.evidence[0] == "jobs-0: start offset 0, log start offset 10"


def test_the_record_at_the_start_offset_of_a_share_group_may_be_acknowledged() -> None:
    assert verdicts(shared(5, 1)) == []


# -- partitions without a leader although all brokers are alive --


def leaderless(subject: Subject, topic: str, unlisted: tuple[str, ...] = ()) -> Observations:
    broker = BrokerView(1, "localhost", 9092, None, False, True, ())
    part = PartitionView(topic, 0, -1, 3, (1,), (1,), None, ())
    view = ClusterView(0, 0, 0, None, 1, (broker,), (TopicView(topic, None, False, (part,)),), None, (), ())
    return Observations(subject, view._replace(unlisted=unlisted), 0)


def test_a_partition_without_leader_is_a_verdict_of_its_own() -> None:
    for subject in (Subject(CLUSTER), Subject(TOPIC, "orders"), Subject(PARTITION, "orders", 0)):
        (verdict,) = verdicts(leaderless(subject, "orders"))
        assert verdict.cause.id == "partition-offline"
        assert verdict.finding.sentence == "1 partition without a leader: orders-0 waits for broker 1"


def test_a_group_without_coordinator_is_a_verdict_of_its_own() -> None:
    reason = "1 partition of __consumer_offsets have no leader"
    (verdict,) = verdicts(leaderless(Subject(GROUP, "shop"), "__consumer_offsets", (reason,)))
    assert verdict.cause.id == "coordinator-unavailable"
    assert verdict.finding.sentence == f"Group shop has no coordinator: {reason}"


# -- the catalogue --


def test_a_reassignment_that_only_the_controller_knows_is_a_consequence_of_the_dead_broker() -> None:
    brokers = tuple(BrokerView(id, "localhost", 9092, None, id == 3, id != 3, ()) for id in (1, 3))
    part = PartitionView("moving", 0, 1, 0, (1,), (1,), None, (), adding_replicas=(3,))
    view = ClusterView(0, 0, 0, None, 1, brokers, (TopicView("moving", None, False, (part,)),), None, (), ())
    (verdict,) = verdicts(Observations(Subject(TOPIC, "moving"), view, 0))
    assert verdict.cause.id == "broker-offline"
    waits = "Consequence: The reassignment of moving-0 waits for broker 3, which is not alive"
    assert waits in verdict.finding.evidence


def test_the_catalogue_is_sound() -> None:
    ids = [each.id for each in CAUSES]
    assert len(set(ids)) == len(ids) >= 25
    for each in CAUSES:
        assert set(each.explains) <= set(ids) - {each.id}, each.id
        assert set(each.kinds) <= {*KINDS, CLUSTER}, each.id
        assert re.fullmatch(r"[a-z]+(-[a-z]+)+", each.id) and each.meaning.endswith(".") and each.remedy.endswith(".")


def test_a_cause_explains_none_that_explains_it() -> None:
    explains = {each.id: each.explains for each in CAUSES}
    assert [(a, b) for a in explains for b in explains[a] if a in explains[b]] == []


def test_each_cause_is_brought_about_in_a_test() -> None:
    text = "".join(path.read_text(encoding="utf-8") for path in TESTS.rglob("test_*why*.py"))
    assert {each.id for each in CAUSES} <= set(re.findall(r'"([a-z]+(?:-[a-z]+)+)"', text))
