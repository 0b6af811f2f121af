"""Streams groups (KIP-1071) on a manual clock: timers, delays, epochs, lost responses, tasks that move, and what is
read back. What members are answered step by step is held against a recording in test_streams_group_apis.py."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

import pytest
from support.manual_groups import ManualGroups

from kafkatools.core.broker.coordinators.groups.offsets_topic import decoded
from kafkatools.core.broker.coordinators.groups.requests import Client, MemberIdentity
from kafkatools.core.broker.coordinators.groups.streams.group import TaskOwners
from kafkatools.core.broker.coordinators.groups.streams.heartbeats import StreamsHeartbeat
from kafkatools.core.broker.coordinators.groups.streams.internal_topics import CreationFailures
from kafkatools.core.broker.coordinators.groups.streams.member import Endpoint, MemberState, StreamsMember
from kafkatools.core.broker.coordinators.groups.streams.reconciliation import Reconciliation
from kafkatools.core.broker.coordinators.groups.streams.tasks import OwnedTasks, Tasks
from kafkatools.core.broker.coordinators.groups.streams.topology import InternalTopic, Subtopology, Topology
from kafkatools.core.errors import (
    FencedMemberEpoch,
    GroupIdNotFound,
    GroupMaxSizeReached,
    IllegalGeneration,
    InvalidRequest,
    NotEnoughReplicas,
    StreamsInvalidTopology,
    UnknownMemberId,
)

LINES = uuid.UUID(int=100)
NO_DELAYS = {"group.streams.initial.rebalance.delay.ms": 0, "group.streams.assignment.interval.ms": 0}
OWNS_NOTHING: Mapping[str, Any] = {"active": {}, "standby": {}, "warmup": {}}
STALE_TOPOLOGY, MISSING_SOURCE_TOPICS, MISSING_INTERNAL_TOPICS, SHUTDOWN_APPLICATION, ASSIGNMENT_DELAYED = 0, 1, 3, 4, 5


def topology(epoch: int = 0, *topics: str) -> Topology:
    return Topology(epoch, {"0": Subtopology("0", source_topics=topics or ("lines",))})


class Streams(ManualGroups):
    """Drives a streams group of one subtopology with two tasks, without sockets."""

    def __init__(self, harness: Any, settings: Mapping[str, object] = NO_DELAYS) -> None:
        super().__init__(harness, settings)
        self.add_topic("lines", LINES, 2)
        self.open()

    def beat(self, member_id: str, epoch: int, *owned: int, **changes: Any) -> dict[str, Any]:
        """A heartbeat of a member that reports the active tasks `owned` of subtopology 0, if there are any."""
        fields = {**OWNS_NOTHING, "active": {"0": frozenset(owned)}} if owned else {}
        request = StreamsHeartbeat("g", member_id, epoch, Client("client", "/127.0.0.1"), **{**fields, **changes})
        return self.harness.groups.streams_heartbeat(request).fields

    def join(self, member_id: str, **changes: Any) -> dict[str, Any]:
        fields = {"rebalance_timeout_ms": 60_000, "topology": topology(), "process_id": f"process-{member_id}"}
        return self.beat(member_id, 0, **{**OWNS_NOTHING, **fields, **changes})

    def note(self, name: str) -> None:
        self.harness.groups.consumer.note_topics({name}, has_new=True)
        self.harness.groups.streams.note_topics({name})

    def two_members(self) -> None:
        """Members `a` and `b` with one task each, in epoch 3."""
        self.join("a")
        self.join("b")
        kept = tasks_of(self.beat("a", 2))[0]
        self.beat("a", 2, kept)
        self.beat("b", self.group.members["b"].member_epoch)


@pytest.fixture
def streams(harness: Any) -> Streams:
    """No delay before the first assignment, and no time between two."""
    return Streams(harness)


def tasks_of(fields: dict[str, Any]) -> list[int]:
    return [partition for row in fields["active_tasks"] for partition in row["partitions"]]


def statuses(fields: dict[str, Any]) -> list[int]:
    return [status["status_code"] for status in fields["status"]]


# -- timers ------------------------------------------------------------------------------------------------------------
def test_a_member_that_is_silent_for_its_session_is_out(streams: Streams) -> None:
    streams.join("a")
    streams.harness.advance(44_999)
    assert streams.beat("a", 2, 0, 1)["member_epoch"] == 2
    streams.harness.advance(44_999)
    assert set(streams.group.members) == {"a"}
    streams.harness.advance(1)
    assert (streams.group.members, streams.group.state_name) == ({}, "Empty")
    with pytest.raises(UnknownMemberId):
        streams.beat("a", 2)


def test_a_member_that_does_not_give_a_task_back_within_its_rebalance_time_is_out(streams: Streams) -> None:
    streams.join("a", rebalance_timeout_ms=20_000)
    streams.join("b")
    assert len(tasks_of(streams.beat("a", 2))) == 1
    assert streams.group.members["a"].state is MemberState.UNREVOKED_TASKS
    for _ in range(2):
        streams.harness.advance(9_999)
        streams.beat("a", 2, 0, 1)
        streams.beat("b", 3)
    assert set(streams.group.members) == {"a", "b"}
    streams.harness.advance(2)
    assert set(streams.group.members) == {"b"}
    assert tasks_of(streams.beat("b", 3)) == [0, 1]


def test_a_member_that_gave_its_task_back_stays_after_its_rebalance_time(streams: Streams) -> None:
    streams.join("a", rebalance_timeout_ms=20_000)
    streams.join("b")
    kept = tasks_of(streams.beat("a", 2))[0]
    streams.harness.advance(19_999)
    assert streams.beat("a", 2, kept)["member_epoch"] == 3
    streams.harness.advance(20_000)
    assert set(streams.group.members) == {"a", "b"}


def test_a_revocation_goes_on_after_a_restart(streams: Streams) -> None:
    streams.join("a", rebalance_timeout_ms=20_000)
    streams.join("b")
    streams.beat("a", 2)
    streams.open()
    streams.harness.advance(19_999)
    assert set(streams.group.members) == {"a", "b"}
    streams.harness.advance(1)
    assert set(streams.group.members) == {"b"}


# -- assignments -------------------------------------------------------------------------------------------------------
def test_tasks_are_assigned_once_an_interval(harness: Any) -> None:
    streams = Streams(harness, {**NO_DELAYS, "group.streams.assignment.interval.ms": 1_000})
    assert streams.join("a")["member_epoch"] == 2
    delayed = streams.join("b")
    assert (delayed["member_epoch"], statuses(delayed)) == (2, [ASSIGNMENT_DELAYED])
    assert delayed["status"][0]["status_detail"].endswith("the configured assignment interval.")
    assert streams.group.state_name == "Assigning"
    harness.advance(999)
    assert statuses(streams.beat("b", 2)) == [ASSIGNMENT_DELAYED]
    harness.advance(1)
    due = streams.beat("b", 2)
    assert (due["member_epoch"], due["status"]) == (3, [])


def test_an_assignment_from_a_clock_that_was_ahead_delays_nothing(harness: Any) -> None:
    streams = Streams(harness, {**NO_DELAYS, "group.streams.assignment.interval.ms": 1_000})
    harness.clock.set_wall_ms(harness.clock.wall_ms() + 3_600_000)
    assert streams.join("a")["member_epoch"] == 2
    harness.clock.set_wall_ms(harness.clock.wall_ms() - 3_600_000)
    streams.open()
    assert streams.join("b")["member_epoch"] == 3


def test_the_first_tasks_wait_for_the_initial_delay_and_come_when_it_ends(harness: Any) -> None:
    streams = Streams(harness, {**NO_DELAYS, "group.streams.initial.rebalance.delay.ms": 3_000})
    for member_id in ("a", "b"):
        joined = streams.join(member_id)
        assert (joined["active_tasks"], statuses(joined)) == ([], [ASSIGNMENT_DELAYED])
        harness.advance(1_499)
    assert statuses(streams.beat("a", 1)) == [ASSIGNMENT_DELAYED]
    harness.advance(2)
    assert streams.group.group_epoch == streams.group.assignment_epoch == 3
    assert [len(tasks_of(streams.beat(member_id, 1))) for member_id in ("a", "b")] == [1, 1]
    streams.join("c")
    assert streams.group.assignment_epoch == 4, "a group with members does not wait"


def test_the_initial_delay_counts_from_the_first_join_also_when_that_member_left(harness: Any) -> None:
    streams = Streams(harness, {**NO_DELAYS, "group.streams.initial.rebalance.delay.ms": 3_000})
    streams.join("a")
    harness.advance(1_000)
    streams.beat("a", -1)
    streams.join("b")
    harness.advance(2_000)
    assert streams.group.target["b"].active == {"0": frozenset([0, 1])}


def test_a_changed_topic_raises_the_epoch_with_the_next_heartbeat(streams: Streams) -> None:
    streams.join("a")
    streams.add_topic("lines", LINES, 3)
    assert streams.beat("a", 2, 0, 1)["member_epoch"] == 2
    streams.note("other")
    assert streams.beat("a", 2, 0, 1)["member_epoch"] == 2
    streams.note("lines")
    changed = streams.beat("a", 2, 0, 1)
    assert (changed["member_epoch"], tasks_of(changed)) == (3, [0, 1, 2])
    streams.note("lines")
    assert streams.beat("a", 3, 0, 1, 2)["member_epoch"] == 3


def test_without_the_source_topic_nobody_has_tasks(streams: Streams) -> None:
    joined = streams.join("a", topology=topology(0, "missing"))
    assert (joined["active_tasks"], statuses(joined)) == ([], [MISSING_SOURCE_TOPICS])
    assert streams.group.state_name == "NotReady"


# -- epochs ------------------------------------------------------------------------------------------------------------
def test_a_lost_response_is_made_up_for_with_the_previous_epoch_and_tasks_that_the_member_has(streams: Streams) -> None:
    streams.two_members()
    kept = next(iter(streams.group.members["a"].assigned.active["0"]))
    assert streams.group.members["a"].previous_member_epoch == 2
    assert streams.beat("a", 2, kept)["member_epoch"] == 3
    assert streams.beat("a", 2, **OWNS_NOTHING)["member_epoch"] == 3
    for owned in ((kept, 1 - kept), (1 - kept,)):
        with pytest.raises(FencedMemberEpoch, match=r"a smaller member epoch \(2\) than the one known by .*\(3\)"):
            streams.beat("a", 2, *owned)
    with pytest.raises(FencedMemberEpoch, match="smaller"):
        streams.beat("a", 2)
    with pytest.raises(FencedMemberEpoch, match="smaller"):
        streams.beat("a", 2, kept, standby={"0": frozenset([1 - kept])})
    with pytest.raises(FencedMemberEpoch, match="smaller"):
        streams.beat("a", 1, kept)
    with pytest.raises(FencedMemberEpoch, match=r"a greater member epoch \(4\)"):
        streams.beat("a", 4, kept)


@pytest.mark.parametrize(("partition", "subtopology"), [(2, "0"), (-1, "0"), (0, "1")])
def test_a_task_that_the_topology_does_not_have_is_refused(streams: Streams, partition: int, subtopology: str) -> None:
    streams.join("a")
    for kind in ("active", "standby"):
        with pytest.raises(InvalidRequest, match=f"[Ss]ubtopology {subtopology}"):
            streams.beat("a", 2, **{**OWNS_NOTHING, kind: {subtopology: frozenset([partition])}})


def test_a_stale_topology_is_told_and_a_changed_one_refused(streams: Streams) -> None:
    streams.join("a", topology=topology(1))
    assert statuses(streams.join("b", topology=topology(0, "other"))) == [STALE_TOPOLOGY]
    assert streams.join("c", topology=topology(1))["status"] == []
    for changed in (topology(1, "other"), topology(2)):
        with pytest.raises(InvalidRequest, match="Topology updates are not supported yet"):
            streams.join("d", topology=changed)
    assert set(streams.group.members) == {"a", "b", "c"}


@pytest.mark.parametrize("epoch", [3, 4])
def test_a_member_that_has_more_to_revoke_moves_to_the_next_epoch(epoch: int) -> None:
    member = StreamsMember(
        "a",
        epoch,
        state=MemberState.UNREVOKED_TASKS,
        process_id="p",
        assigned=OwnedTasks({"0": {1: 2}}),
        pending_revocation=OwnedTasks({"0": {0: 2}}),
    )
    stepped = Reconciliation(9, Tasks(), TaskOwners(), Tasks({"0": frozenset([1])})).step(member)
    assert (stepped.member_epoch, stepped.previous_member_epoch) == (epoch + 1, epoch)
    assert (stepped.state, stepped.pending_revocation) == (MemberState.UNREVOKED_TASKS, OwnedTasks({"0": {1: 2}}))


def test_a_member_in_an_unknown_state_must_start_anew(streams: Streams) -> None:
    from dataclasses import replace

    streams.join("a")
    streams.group.members["a"] = replace(streams.group.members["a"], state=MemberState.of_value(9))
    for owned in ((), (0,)):
        with pytest.raises(FencedMemberEpoch, match="unknown state"):
            streams.beat("a", 2, *owned)
    assert streams.beat("a", 2, **OWNS_NOTHING)["member_epoch"] == 2


# -- members -----------------------------------------------------------------------------------------------------------
def test_fields_that_a_heartbeat_leaves_out_stay(streams: Streams) -> None:
    first = {"rack_id": "r", "endpoint": Endpoint("host", 1), "client_tags": {"zone": "z"}}
    streams.join("a", **first)
    streams.beat("a", 2, 0, 1)
    member = streams.group.members["a"]
    assert (member.rack_id, member.endpoint, member.client_tags) == tuple(first.values())
    assert (member.process_id, member.rebalance_timeout_ms, member.topology_epoch) == ("process-a", 60_000, 0)
    second = {"rack_id": "s", "endpoint": Endpoint("host", 2), "client_tags": {}, "process_id": "q"}
    assert streams.beat("a", 2, 0, 1, rebalance_timeout_ms=5, **second)["member_epoch"] == 3, "a changed member"
    member = streams.group.members["a"]
    assert (member.rack_id, member.endpoint, member.client_tags, member.process_id) == tuple(second.values())
    assert member.rebalance_timeout_ms == 5


def test_a_full_group_takes_nobody(harness: Any) -> None:
    streams = Streams(harness, {**NO_DELAYS, "group.streams.max.size": 1})
    streams.join("a")
    for member_id in ("b", "a"):
        with pytest.raises(GroupMaxSizeReached, match="maximum capacity of 1 members"):
            streams.join(member_id)
    assert streams.beat("a", 2, 0, 1)["member_epoch"] == 2


def test_a_shutdown_is_told_to_all_until_the_group_is_empty(streams: Streams) -> None:
    streams.two_members()
    assert statuses(streams.beat("b", 3, is_shutdown=True)) == [SHUTDOWN_APPLICATION]
    for member_id in ("a", "b"):
        told = streams.beat(member_id, 3, is_shutdown=member_id == "a")
        assert statuses(told) == [SHUTDOWN_APPLICATION]
        assert told["status"][0]["status_detail"].startswith("Streams group member b encountered a fatal error")
    streams.beat("b", -1)
    assert statuses(streams.join("c")) == [SHUTDOWN_APPLICATION]
    for member_id in ("a", "c"):
        streams.beat(member_id, -1)
    assert streams.join("d")["status"] == []


def test_a_new_group_counts_from_its_second_heartbeat(streams: Streams) -> None:
    """Apache Kafka applies the first heartbeat to a group that it then creates anew from the records."""
    joined = streams.join("a", endpoint=Endpoint("host", 1), is_shutdown=True)
    assert (joined["endpoint_information_epoch"], statuses(joined)) == (0, [SHUTDOWN_APPLICATION])
    again = streams.join("a")
    assert (again["endpoint_information_epoch"], statuses(again)) == (1, [])


def test_the_last_words_of_a_member_may_be_a_shutdown(streams: Streams) -> None:
    streams.two_members()
    streams.beat("b", -1, is_shutdown=True)
    assert statuses(streams.beat("a", 3)) == [SHUTDOWN_APPLICATION]


def test_an_empty_classic_group_gives_way_to_a_streams_group(streams: Streams) -> None:
    harness = streams.harness
    (member,) = harness.stable()
    assert harness.groups.leave("g", [MemberIdentity(member["member_id"])]) == (0, [0])
    assert (streams.group.group_type, harness.state) == ("classic", "Empty")
    streams.join("a")
    for _ in range(2):
        assert streams.group.group_type == "streams"
        streams.open()
    assert {type(key).__schema__.name for key, _ in decoded(harness.store.values)} == {
        "StreamsGroupMetadataKey",
        "StreamsGroupTopologyKey",
        "StreamsGroupMemberMetadataKey",
        "StreamsGroupTargetAssignmentMetadataKey",
        "StreamsGroupTargetAssignmentMemberKey",
        "StreamsGroupCurrentMemberAssignmentKey",
    }


def test_a_group_of_another_type_stays(streams: Streams) -> None:
    with pytest.raises(GroupIdNotFound, match="Streams group g not found"):
        streams.beat("a", 1)
    streams.harness.stable()
    for epoch in (1, -1):
        with pytest.raises(GroupIdNotFound, match="Group g is not a streams group"):
            streams.beat("a", epoch)
    with pytest.raises(GroupIdNotFound, match="Group g is not a streams group"):
        streams.join("a")


def test_nothing_changes_when_the_log_cannot_be_written(streams: Streams) -> None:
    streams.join("a")
    streams.harness.store.failure = NotEnoughReplicas()
    for request in (lambda: streams.join("b"), lambda: streams.beat("a", -1)):
        with pytest.raises(NotEnoughReplicas):
            request()
    streams.harness.store.failure = None
    assert (set(streams.group.members), streams.group.group_epoch) == ({"a"}, 2)
    assert streams.beat("a", 2, 0, 1)["member_epoch"] == 2


def test_a_group_whose_deletion_was_written_is_gone(streams: Streams) -> None:
    streams.join("a")
    streams.beat("a", -1)
    streams.harness.groups.delete_group("g")
    assert streams.harness.store.values == {}
    with pytest.raises(GroupIdNotFound):
        streams.beat("a", 2)


@pytest.mark.parametrize(
    ("epoch", "changes", "message"),
    [
        (1, {"member_id": " "}, "MemberId can't be empty"),
        (1, {"rack_id": ""}, "RackId can't be empty"),
        (1, {"instance_id": "i"}, "Static membership is not yet supported"),
        (1, {"has_task_offsets": True}, "TaskOffsets are not supported yet"),
        (1, {"has_task_end_offsets": True}, "TaskEndOffsets are not supported yet"),
        (1, {"warmup": {"0": frozenset([0])}}, "WarmupTasks are not supported yet"),
        (1, {"active": {}}, "If one task-type is non-null, all must be non-null"),
        (1, {"active": {}, "standby": {}}, "If one task-type is non-null, all must be non-null"),
        (1, {"standby": {}, "warmup": {}}, "If one task-type is non-null, all must be non-null"),
        (1, {"topology": topology()}, "Topology can only be provided when"),
        (-1, {"topology": topology()}, "Topology can only be provided when"),
        (-2, {}, "InstanceId can't be null"),
        (-3, {}, "MemberEpoch is -3, but must be greater than or equal to -2"),
        (0, {"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided in first request"),
        (0, {"active": {"0": frozenset([0])}}, "ActiveTasks must be empty when"),
        (0, {"standby": {"0": frozenset([0])}}, "StandbyTasks must be empty when"),
        (0, {"warmup": None}, "WarmupTasks must be empty when"),
        (0, {"topology": None}, "Topology must be non-null when"),
        (0, {"topology": Topology(0, {"0": Subtopology("0", source_topic_regex=("l.*",))})}, "Regular expressions"),
    ],
)
def test_requests_that_no_group_accepts(streams: Streams, epoch: int, changes: dict[str, Any], message: str) -> None:
    changes = dict(changes)
    member_id = changes.pop("member_id", "a")
    with pytest.raises(InvalidRequest, match=message):
        if epoch:
            streams.beat(member_id, epoch, **changes)
        else:
            streams.join(member_id, **changes)


def test_a_changelog_topic_has_no_number_of_partitions_of_its_own(streams: Streams) -> None:
    for partitions in (1, 0):
        changelog = InternalTopic("store", partitions)
        part = Subtopology("0", source_topics=("lines",), changelog_topics=(changelog,))
        if partitions:
            with pytest.raises(StreamsInvalidTopology, match="store must have an undefined partition count, .* to 1"):
                streams.join("a", topology=Topology(0, {"0": part}))
    assert statuses(streams.join("a", topology=Topology(0, {"0": part}))) == [MISSING_INTERNAL_TOPICS]


def test_failures_of_internal_topics_hold_until_their_time_and_the_newest_thousand_are_kept() -> None:
    failures = CreationFailures()
    failures.note("a", "first", 10)
    failures.note("a", "second", 20)
    assert failures.of(["a", "b"], 19) == {"a": "second"}
    assert failures.of(["a", "b"], 20) == {}
    for number in range(998):
        failures.note(str(number), "", 30)
    failures.note("b", "third", 30)
    assert failures.of(["a"], 0) == {"a": "second"}
    failures.note("c", "fourth", 30)
    assert failures.of(["a", "b", "c"], 0) == {"b": "third", "c": "fourth"}


# -- tasks and offsets -------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("kind", ["standby", "warmup"])
def test_a_task_that_one_process_gives_up_stays_with_the_others(kind: str) -> None:
    owners, tasks = TaskOwners(), OwnedTasks(**{kind: {"0": frozenset([1])}})
    for process_id in ("p", "q"):
        owners.add(tasks, process_id)
    owners.remove(tasks, "p")
    assert not owners.has_inactive(("0", 1), "p")
    assert owners.has_inactive(("0", 1), "q")
    owners.remove(tasks, "q")
    assert not owners.has_inactive(("0", 1), "q")


def test_an_active_task_stays_with_the_process_that_got_it_last() -> None:
    owners, tasks = TaskOwners(), OwnedTasks({"0": {1: 2}})
    owners.add(tasks, "p")
    owners.add(tasks, "q")
    owners.remove(tasks, "p")
    assert owners.active(("0", 1)) == "q"
    owners.remove(tasks, "q")
    assert owners.active(("0", 1)) is None


def test_transactional_commits_of_an_older_epoch_are_for_tasks_that_the_member_had_then(streams: Streams) -> None:
    streams.two_members()
    kept = next(iter(streams.group.members["a"].assigned.active["0"]))

    def commit(member_id: str, epoch: int, topic: str, partition: int) -> None:
        identity = MemberIdentity(member_id)
        streams.harness.groups.ensure_may_commit_transactional("g", identity, epoch, [(topic, partition)])

    commit("a", 2, "lines", kept)
    commit("a", 3, "lines", 1 - kept)  # the present epoch is not checked by partition, as in Apache Kafka
    for member_id, epoch, topic, partition in (
        ("a", 2, "lines", 1 - kept),
        ("a", 4, "lines", kept),
        ("a", 2, "missing", kept),
        ("b", 2, "lines", 1 - kept),
    ):
        with pytest.raises(IllegalGeneration):
            commit(member_id, epoch, topic, partition)
