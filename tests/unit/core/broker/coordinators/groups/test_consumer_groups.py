"""Consumer groups (KIP-848) on a manual clock: timers, the assignment interval, patterns, moves between the protocols,
and what is read back. What members are answered step by step is held against recordings in
tests/scenarios/test_group_traces.py."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from support.manual_groups import ManualGroups

from kafkatools.core.broker.coordinators.groups.modern.consumer_heartbeats import HeartbeatRequest
from kafkatools.core.broker.coordinators.groups.requests import Client, MemberIdentity
from kafkatools.core.broker.coordinators.groups.topic_regex import compiled
from kafkatools.core.broker.metadata.image import GROUP_RESOURCE
from kafkatools.core.errors import (
    FencedInstanceId,
    FencedMemberEpoch,
    GroupIdNotFound,
    GroupMaxSizeReached,
    IllegalGeneration,
    InvalidRegularExpression,
    InvalidRequest,
    KafkaError,
    NotEnoughReplicas,
    StaleMemberEpoch,
    UnknownMemberId,
    UnreleasedInstanceId,
    UnsupportedAssignor,
)
from kafkatools.core.protocol.schemas import offsets as schemas

T, U = uuid.UUID(int=100), uuid.UUID(int=200)
SUBSCRIPTION = b"\0\1\0\0\0\1\0\1t\xff\xff\xff\xff\0\0\0\0"  # version 1, topic t, no user data, owns nothing
ASSIGNMENT = b"\0\1\0\0\0\1\0\1t\0\0\0\2\0\0\0\0\0\0\0\1\xff\xff\xff\xff"  # version 1, t: 0, 1


class Groups(ManualGroups):
    """Drives consumer groups over the classic harness."""

    def __init__(self, harness: Any, settings: dict[str, object] | None = None) -> None:
        super().__init__(harness, settings or {})
        self.add_topic("t", T, 2)
        self.open()

    def note(self, name: str) -> None:
        self.harness.groups.consumer.note_topics({name}, has_new=True)

    def beat(self, member_id: str, epoch: int, **changes: Any) -> dict[str, Any]:
        request = HeartbeatRequest("g", member_id, epoch, Client("client", "/127.0.0.1"), **changes)
        fields: dict[str, Any] = self.harness.groups.consumer_heartbeat(request)
        return fields

    def join(self, member_id: str, *names: str, **changes: Any) -> dict[str, Any]:
        fields: dict[str, Any] = {"rebalance_timeout_ms": 60_000, "owned": {}}
        if "subscribed_topic_regex" not in changes:
            fields["subscribed_topic_names"] = frozenset(names or ("t",))
        return self.beat(member_id, 0, **{**fields, **changes})


@pytest.fixture
def groups(harness: Any) -> Groups:
    """No time lies between assignments."""
    return Groups(harness, {"group.consumer.assignment.interval.ms": 0})


def partitions_of(fields: dict[str, Any]) -> dict[uuid.UUID, list[int]]:
    return {each["topic_id"]: each["partitions"] for each in fields["assignment"]["topic_partitions"]}


def commit(groups: Groups, member_id: str, epoch: int, **changes: Any) -> Any:
    return groups.harness.groups.ensure_may_commit("g", MemberIdentity(member_id), epoch, changes.get("version", 9))


def test_a_member_that_is_silent_for_its_session_is_out(groups: Groups) -> None:
    groups.join("a")
    groups.harness.advance(44_999)
    assert groups.beat("a", 2)["member_epoch"] == 2
    groups.harness.advance(44_999)
    assert set(groups.group.members) == {"a"}
    groups.harness.advance(1)
    assert groups.group.members == {}
    assert groups.group.state_name == "Empty"
    with pytest.raises(UnknownMemberId):
        groups.beat("a", 2)


def test_a_silent_member_is_out_even_if_that_cannot_be_written_at_once(groups: Groups) -> None:
    groups.join("a")
    groups.harness.store.failure = NotEnoughReplicas()
    groups.harness.advance(45_000)
    groups.harness.advance(500)
    assert set(groups.group.members) == {"a"}
    groups.harness.store.failure = None
    groups.harness.advance(500)
    assert groups.group.members == {}
    assert [type(error) for error in groups.harness.store.noted] == [NotEnoughReplicas, NotEnoughReplicas]


def test_a_member_that_is_heard_of_before_it_could_be_put_out_stays(groups: Groups) -> None:
    groups.join("a")
    groups.harness.store.failure = NotEnoughReplicas()
    groups.harness.advance(45_000)
    groups.harness.store.failure = None
    assert groups.beat("a", 2)["member_epoch"] == 2
    groups.harness.advance(44_999)
    assert set(groups.group.members) == {"a"}


def test_a_member_that_does_not_give_back_within_its_rebalance_time_is_out(groups: Groups) -> None:
    groups.join("a", rebalance_timeout_ms=20_000)
    groups.join("b")
    assert partitions_of(groups.beat("a", 2)) == {T: [0]}
    assert groups.group.state_name == "Reconciling"
    for _ in range(2):
        groups.harness.advance(9_999)
        groups.beat("a", 2, owned={T: [0, 1]})
        groups.beat("b", 3)
    assert set(groups.group.members) == {"a", "b"}
    groups.harness.advance(2)
    assert set(groups.group.members) == {"b"}
    assert partitions_of(groups.beat("b", 3)) == {T: [0, 1]}


def test_the_target_is_computed_once_an_interval(harness: Any) -> None:
    groups = Groups(harness)
    assert groups.join("a")["member_epoch"] == 2
    assert groups.join("b")["member_epoch"] == 2, "the target of epoch 3 has to wait"
    assert groups.group.state_name == "Assigning"
    harness.advance(999)
    assert groups.beat("b", 2)["member_epoch"] == 2
    harness.advance(1)
    assert groups.beat("b", 2)["member_epoch"] == 3


def test_an_assignment_from_a_clock_that_was_ahead_delays_nothing(harness: Any) -> None:
    groups = Groups(harness)
    harness.clock.set_wall_ms(harness.clock.wall_ms() + 3_600_000)
    assert groups.join("a")["member_epoch"] == 2
    harness.clock.set_wall_ms(harness.clock.wall_ms() - 3_600_000)
    groups.open()
    assert groups.join("b")["member_epoch"] == 3
    assert partitions_of(groups.beat("a", 2, owned={T: [0, 1]})) == {T: [0]}


def test_a_group_has_settings_of_its_own_within_the_brokers_bounds(harness: Any) -> None:
    own = {"consumer.session.timeout.ms": "50000", "consumer.heartbeat.interval.ms": "99999999"}
    groups = Groups(harness)
    groups.image.configs[GROUP_RESOURCE, "g"] = own
    assert groups.join("a")["heartbeat_interval"] == 15_000
    harness.advance(49_999)
    assert set(groups.group.members) == {"a"}
    harness.advance(1)
    assert groups.group.members == {}


def test_a_full_group_takes_nobody_but_its_members(harness: Any) -> None:
    groups = Groups(harness, {"group.consumer.max.size": 1})
    groups.join("a")
    groups.join("a")
    with pytest.raises(GroupMaxSizeReached, match="maximum capacity of 1 members"):
        groups.join("b")


def test_a_changed_topic_raises_the_epoch_with_the_next_heartbeat(groups: Groups) -> None:
    groups.join("a")
    before = groups.group.metadata_hash
    groups.add_topic("t", T, 3)
    assert groups.beat("a", 2)["member_epoch"] == 2
    groups.note("t")
    assert partitions_of(groups.beat("a", 2)) == {T: [0, 1, 2]}
    assert groups.group.metadata_hash != before
    groups.note("t")
    assert groups.beat("a", 3)["member_epoch"] == 3


def test_a_pattern_is_resolved_after_the_answer_and_again_for_new_topics(groups: Groups) -> None:
    harness = groups.harness
    assert partitions_of(groups.join("a", subscribed_topic_regex="[tu]")) == {}
    harness.advance(2)
    assert partitions_of(groups.beat("a", 1)) == {T: [0, 1]}
    groups.add_topic("u", U, 1)
    groups.note("u")
    groups.beat("a", 2)
    harness.advance(2)
    assert groups.beat("a", 2)["assignment"] is None, "looked at again after ten seconds"
    harness.advance(10_000)
    groups.beat("a", 2)
    harness.advance(2)
    assert partitions_of(groups.beat("a", 2)) == {T: [0, 1], U: [0]}
    groups.beat("a", -1)
    assert groups.group.regexes == {}


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("(", "missing closing )"),
        ("a)", "regexp/syntax: internal error"),
        ("[a", "missing closing ]"),
        ("*a", "missing argument to repetition operator"),
        ("a(?=b)", "invalid or unsupported Perl syntax"),
        (r"(a)\1", "invalid escape sequence"),
        ("[b-a]", "invalid character class range"),
    ],
)
def test_patterns_that_re2_refuses(pattern: str, words: str) -> None:
    with pytest.raises(InvalidRegularExpression, match="is not a valid regular expression: ") as refused:
        compiled(pattern)
    assert str(refused.value).endswith(f"{words}.")


@pytest.mark.parametrize(("pattern", "name"), [("[[:alpha:]]+", "abc"), (r"(?P<n>a)\.b", "a.b"), ("(?i)T", "t")])
def test_patterns_that_re2_takes(pattern: str, name: str) -> None:
    assert compiled(pattern).fullmatch(name)


def test_a_group_is_read_back_with_its_sessions_and_revocations(groups: Groups) -> None:
    groups.join("a", instance_id="i", server_assignor="range", rack_id="r")
    groups.join("b", subscribed_topic_regex="t")
    groups.harness.advance(2)
    groups.beat("b", 2)
    groups.beat("a", 2, instance_id="i")
    before = groups.group
    groups.open()
    after = groups.group
    for name in ("group_epoch", "metadata_hash", "assignment_epoch", "assignment_timestamp_ms", "members", "target"):
        assert getattr(after, name) == getattr(before, name), name
    assert (after.static_members, after.regexes, after.state_name) == (
        before.static_members,
        before.regexes,
        before.state_name,
    )
    assert all(after.partition_epoch(T, i) == before.partition_epoch(T, i) for i in range(2))
    groups.harness.advance(45_000)
    assert after.members == {}


@pytest.mark.parametrize(
    ("member_id", "epoch", "changes", "message"),
    [
        ("", 0, {"version": 1}, "MemberId can't be empty"),
        ("", 1, {"version": 0}, "MemberId can't be empty"),
        (" ", -1, {"version": 0}, "MemberId can't be empty"),
        ("a", 1, {"instance_id": ""}, "InstanceId can't be empty"),
        ("a", 1, {"rack_id": " "}, "RackId can't be empty"),
        ("a", -2, {}, "InstanceId can't be null"),
        ("a", -3, {}, "MemberEpoch is invalid"),
        ("a", 0, {"rebalance_timeout_ms": -1}, "RebalanceTimeoutMs must be provided in first request"),
        ("a", 0, {"owned": None}, "TopicPartitions must be empty when"),
        ("a", 0, {"owned": {T: [0]}}, "TopicPartitions must be empty when"),
        ("a", 0, {"subscribed_topic_names": None}, "Either SubscribedTopicNames or SubscribedTopicRegex must be"),
    ],
)
def test_requests_that_no_group_accepts(
    groups: Groups, member_id: str, epoch: int, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(InvalidRequest, match=message):
        if epoch:
            groups.beat(member_id, epoch, **changes)
        else:
            groups.join(member_id, **changes)


def test_the_broker_draws_the_member_id_of_an_old_client(groups: Groups) -> None:
    member_id = groups.join("", version=0)["member_id"]
    assert set(groups.group.members) == {member_id}
    assert len(member_id) == 22


def test_an_unknown_assignor_is_refused_with_those_that_there_are(groups: Groups) -> None:
    with pytest.raises(UnsupportedAssignor, match=r"odd is not supported. Supported assignors: uniform, range\."):
        groups.join("a", server_assignor="odd")


def test_the_assignment_is_in_the_response_if_the_request_has_all_fields(groups: Groups) -> None:
    groups.join("a")
    full: dict[str, Any] = {
        "rebalance_timeout_ms": 60_000,
        "subscribed_topic_names": frozenset("t"),
        "owned": {T: [0, 1]},
    }
    assert partitions_of(groups.beat("a", 2, **full)) == {T: [0, 1]}
    for name in full:
        assert groups.beat("a", 2, **{key: value for key, value in full.items() if key != name})["assignment"] is None
    regex = {**full, "subscribed_topic_names": None, "subscribed_topic_regex": ""}
    assert partitions_of(groups.beat("a", 2, **regex)) == {T: [0, 1]}


def test_a_pattern_with_the_same_topics_does_not_raise_the_epoch(groups: Groups) -> None:
    harness = groups.harness
    groups.join("a", subscribed_topic_regex="t")
    harness.advance(2)
    groups.beat("a", 1)
    (before,) = groups.group.regexes.values()
    for _ in range(20):  # group.consumer.regex.refresh.interval.ms
        harness.advance(30_000)
        assert list(groups.group.regexes.values()) == [before]
        groups.beat("a", 2)
    harness.advance(1)
    assert list(groups.group.regexes.values()) == [before]
    groups.beat("a", 2)
    harness.advance(2)
    (after,) = groups.group.regexes.values()
    assert (after.topics, after.timestamp_ms > before.timestamp_ms) == (before.topics, True)
    assert groups.group.group_epoch == 2


@pytest.mark.parametrize("epochs", [None, (), (1,)])
def test_partitions_of_a_record_without_their_epochs_have_that_of_the_member(
    groups: Groups, epochs: tuple[int, ...] | None
) -> None:
    """Apache Kafka writes epochs of assignments since 4.3 (KIP-1251)."""
    groups.join("a")
    rows = [{"topic_id": T, "partitions": (0, 1), "assignment_epochs": epochs}]
    key = schemas.ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id="a")
    value = schemas.ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=2, previous_member_epoch=0, state=0, assigned_partitions=rows, partitions_pending_revocation=[]
    )
    groups.harness.store.append("g", [schemas.encode_record(key, value)])
    groups.open()
    assert groups.group.members["a"].assigned == {T: {0: 2, 1: 2}}


# -- static members -------------------------------------------------------------------------------------------------
def test_a_static_member_that_restarts_has_its_partitions_under_a_new_id(groups: Groups) -> None:
    groups.join("a", instance_id="i")
    with pytest.raises(UnreleasedInstanceId, match="the instance id is owned by a member"):
        groups.join("b", instance_id="i")
    left = groups.beat("a", -2, instance_id="i")
    assert (left["member_epoch"], groups.group.members["a"].member_epoch) == (-2, -2)
    with pytest.raises(FencedMemberEpoch):
        groups.beat("a", 2, instance_id="i")
    joined = groups.join("b", instance_id="i")
    assert (joined["member_epoch"], partitions_of(joined)) == (2, {T: [0, 1]}), "the epoch is not raised"
    assert set(groups.group.members) == {"b"}
    assert groups.group.members["b"].previous_member_epoch == 0
    assert groups.group.target == {"b": {T: frozenset([0, 1])}}
    for epoch in (2, -1, -2):
        with pytest.raises(FencedInstanceId, match="was fenced by member b"):
            groups.beat("a", epoch, instance_id="i")


def test_a_static_member_that_does_not_return_within_its_session_is_out(groups: Groups) -> None:
    groups.join("a", instance_id="i")
    groups.harness.advance(1_000)
    groups.beat("a", -2, instance_id="i")
    groups.harness.advance(43_999)
    assert set(groups.group.members) == {"a"}
    groups.harness.advance(1)
    assert groups.group.members == {}


def test_a_static_member_that_leaves_for_good_is_out_at_once(groups: Groups) -> None:
    groups.join("a", instance_id="i")
    with pytest.raises(UnknownMemberId):
        groups.beat("a", -1, instance_id="j")
    assert groups.beat("a", -1, instance_id="i")["member_epoch"] == -1
    assert (groups.group.members, groups.group.static_members) == ({}, {})
    assert groups.join("b", instance_id="i")["member_epoch"] == 4


def test_a_restart_ends_the_revocation_of_a_static_member(groups: Groups) -> None:
    groups.join("a", instance_id="i", rebalance_timeout_ms=20_000)
    groups.join("b")
    assert partitions_of(groups.beat("a", 2, instance_id="i")) == {T: [0]}
    groups.beat("a", -2, instance_id="i")
    assert groups.group.members["a"].pending_revocation == {}
    for _ in range(2):
        groups.harness.advance(10_001)
        groups.beat("b", 3)
    assert set(groups.group.members) == {"a", "b"}


def test_a_returning_static_member_may_commit_with_any_epoch(groups: Groups) -> None:
    """Apache Kafka resets the epochs of a leaving member's partitions to 0."""
    groups.join("b")
    groups.beat("b", -1)
    groups.join("a", instance_id="i")
    with pytest.raises(StaleMemberEpoch, match="older than assignment epoch 4"):
        commit(groups, "a", 3)("t", T, 0)
    groups.beat("a", -2, instance_id="i")
    for _ in range(2):
        assert groups.group.members["a"].assigned == {T: {0: 0, 1: 0}}
        groups.open()
    groups.join("c", instance_id="i")
    commit(groups, "c", 3)("t", T, 0)


def test_nothing_changes_when_the_log_cannot_be_written(groups: Groups) -> None:
    groups.join("a")
    groups.harness.store.failure = NotEnoughReplicas()
    with pytest.raises(NotEnoughReplicas):
        groups.join("b")
    groups.harness.store.failure = None
    assert set(groups.group.members) == {"a"}
    assert groups.group.group_epoch == 2
    assert groups.beat("a", 2)["member_epoch"] == 2


def test_a_group_whose_deletion_was_written_is_gone(groups: Groups) -> None:
    groups.join("a")
    groups.beat("a", -1)
    groups.harness.groups.delete_group("g")
    assert groups.harness.store.values == {}
    with pytest.raises(GroupIdNotFound):
        groups.beat("a", 2)


def test_commits_of_an_older_epoch_are_for_what_the_member_had_then(groups: Groups) -> None:
    groups.join("a")
    groups.join("b")
    groups.beat("a", 2)
    groups.beat("a", 2, owned={T: [0]})
    assert partitions_of(groups.beat("b", 3)) == {T: [1]}
    check = commit(groups, "a", 2)
    check("t", T, 0)
    with pytest.raises(StaleMemberEpoch, match="not assigned"):
        check("t", T, 1)
    with pytest.raises(StaleMemberEpoch, match="older than assignment epoch 3"):
        commit(groups, "b", 2)("t", T, 1)
    with pytest.raises(StaleMemberEpoch, match="newer"):
        commit(groups, "a", 4)
    with pytest.raises(IllegalGeneration):
        groups.harness.groups.ensure_may_commit_transactional("g", MemberIdentity("a"), 4)


def test_offsets_of_topics_that_members_read_are_kept(groups: Groups) -> None:
    from kafkatools.core.broker.coordinators.groups.offset_records import CommittedOffset

    coordinator = groups.harness.groups
    groups.join("a")
    now_ms = groups.harness.clock.wall_ms()
    coordinator.commit("g", [((name, 0), CommittedOffset(5, commit_ms=now_ms)) for name in ("t", "u")])
    for _ in range(4):
        groups.harness.advance(30_000)
        groups.beat("a", 2)
    coordinator.expiry.start(100_000)
    assert set(coordinator.offsets.of_group("g")) == {("t", 0)}
    groups.beat("a", -1)
    coordinator.expiry.start(100_000)
    assert coordinator.groups == {}


# -- both protocols -------------------------------------------------------------------------------------------------
def classic(groups: Groups, count: int = 1, *protocols: tuple[str, bytes]) -> list[dict[str, Any]]:
    """A stable classic group of consumers."""
    joined: list[dict[str, Any]] = groups.harness.stable(count, protocols=protocols or (("range", SUBSCRIPTION),))
    group = groups.group
    for member in group.members.values():
        member.assignment = ASSIGNMENT if member.member_id == joined[0]["member_id"] else b""
    return joined


def test_a_classic_group_becomes_a_consumer_group_and_back(groups: Groups) -> None:
    (member,) = classic(groups)
    member_id = member["member_id"]
    assert groups.join("b")["member_epoch"] == 2
    assert groups.group.group_type == "consumer"
    assert groups.group.members[member_id].uses_classic_protocol
    assert groups.harness.beat(member) == 27
    assert groups.harness.join(member_id, protocols=(("range", SUBSCRIPTION),))[0]["generation_id"] == 2
    groups.beat("b", -1)
    group = groups.group
    assert (group.group_type, group.state_name, set(group.members)) == ("classic", "PreparingRebalance", {member_id})
    groups.open()
    assert groups.group.group_type == "classic"


def test_a_classic_member_syncs_while_it_revokes_and_joins_again_otherwise(groups: Groups) -> None:
    """GroupMetadataManager.throwIfRebalanceInProgress."""
    owned = b"\0\1\0\0\0\1\0\1t\xff\xff\xff\xff\0\0\0\1\0\1t\0\0\0\2\0\0\0\0\0\0\0\1"  # t: 0, 1
    harness = groups.harness
    (member,) = classic(groups)
    groups.join("b")
    present = {"generation_id": 1, "member_id": member["member_id"]}
    assert harness.sync(present).last_code == 27, "it has to join first"
    joined = harness.join(member["member_id"], protocols=(("range", owned),))[0]
    assert joined["generation_id"] == 1, "until it has revoked"
    assert harness.sync(joined)[0]["assignment"] == ASSIGNMENT[:9] + b"\0\0\0\1\0\0\0\0\xff\xff\xff\xff"
    assert harness.beat(joined) == 27
    joined = harness.join(member["member_id"], protocols=(("range", SUBSCRIPTION),))[0]
    assert (joined["generation_id"], harness.sync(joined).last_code, harness.beat(joined)) == (2, 0, 0)
    for changes in ({"protocol_type": "connect"}, {"protocol_name": "other"}):
        assert harness.sync(joined, **changes).last_code == 23
    assert harness.sync(joined, generation_id=1).last_code == harness.beat(joined, generation_id=1) == 22
    assert harness.sync(joined, member_id="b", generation_id=2).last_code == 25, "not with the classic protocol"


def test_a_classic_member_that_does_not_join_again_in_time_is_out(groups: Groups) -> None:
    (member,) = classic(groups)
    groups.join("b")
    for _ in range(11):
        groups.harness.beat(member)
        groups.beat("b", 2)
        groups.harness.advance(5_000)
    assert len(groups.group.members) == 2
    groups.harness.beat(member)
    groups.beat("b", 2)
    groups.harness.advance(5_001)
    assert set(groups.group.members) == {"b"}


def test_a_waiting_rebalance_is_called_off_by_an_upgrade(groups: Groups) -> None:
    (member,) = classic(groups)
    waiting = groups.harness.join(protocols=(("range", SUBSCRIPTION),))
    assert waiting == []
    groups.join("c")
    assert waiting.last_code == 27
    assert groups.harness.beat(member) == 27


def test_an_upgrade_while_members_change_their_protocol(groups: Groups) -> None:
    """One member has joined again without the protocol of the last generation, the other has not joined again yet."""
    harness, roundrobin = groups.harness, ("roundrobin", SUBSCRIPTION)
    first, second = (member["member_id"] for member in classic(groups, 2, ("range", SUBSCRIPTION), roundrobin))
    assert harness.join(first, protocols=(roundrobin,)) == []
    assert groups.join("c")["member_epoch"] == 2
    members = groups.group.members
    assert {key: member.subscribed_topic_names for key, member in members.items()} == dict.fromkeys(
        (first, second, "c"), {"t"}
    )


@pytest.mark.parametrize(
    ("policy", "protocol", "message"),
    [
        ("downgrade", (("range", SUBSCRIPTION),), "online upgrade is disabled"),
        ("bidirectional", (("range", b"\0"),), "malformed"),
    ],
)
def test_upgrades_that_are_refused(harness: Any, policy: str, protocol: Any, message: str) -> None:
    groups = Groups(harness, {"group.consumer.migration.policy": policy})
    harness.stable(protocols=protocol)
    groups.group.members[next(iter(groups.group.members))].assignment = b""
    with pytest.raises(GroupIdNotFound, match=message):
        groups.join("b")
    assert groups.group.group_type == "classic"


def test_without_a_policy_the_group_stays_what_it_is(harness: Any) -> None:
    groups = Groups(harness, {"group.consumer.migration.policy": "disabled"})
    groups.join("b")
    assert harness.join(protocols=(("range", SUBSCRIPTION),)).last_code == 23
    assert groups.group.group_type == "consumer"


def test_a_member_in_an_unknown_state_must_start_anew(groups: Groups) -> None:
    from dataclasses import replace

    from kafkatools.core.broker.coordinators.groups.modern.consumer_member import MemberState

    groups.join("a")
    member = groups.group.members["a"]
    groups.group.members["a"] = replace(member, state=MemberState.of_value(9))
    with pytest.raises(FencedMemberEpoch):
        groups.beat("a", 2)
    assert groups.beat("a", 2, owned={})["member_epoch"] == 2


def test_errors_are_kafkas(groups: Groups) -> None:
    with pytest.raises(KafkaError) as refused:
        groups.beat("a", 1)
    assert (refused.value.code, str(refused.value)) == (69, "Consumer group g not found.")
