"""Joining, syncing, living and leaving: Kafka's states, timers and error codes, on a manual clock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kafkatools.core.broker.coordinators.groups.classic.states import GroupState, may_follow
from kafkatools.core.broker.coordinators.groups.requests import Client, MemberIdentity
from kafkatools.core.errors import KafkaStorageError, NotEnoughReplicas

INCONSISTENT_PROTOCOL, INVALID_GROUP, UNKNOWN_MEMBER, INVALID_SESSION, REBALANCE = 23, 24, 25, 26, 27
INVALID_REQUEST = 42
ILLEGAL_GENERATION, MEMBER_ID_REQUIRED, MAX_SIZE, FENCED, NOT_COORDINATOR, NOT_AVAILABLE = 22, 79, 81, 82, 16, 15


def test_the_transition_table_is_kafkas() -> None:
    """ClassicGroupState: EMPTY from PREPARING; PREPARING from EMPTY, STABLE, COMPLETING; DEAD from everywhere."""
    found = {(a.value, b.value) for b in GroupState for a in GroupState if may_follow(b, a)}
    names = ["Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"]
    assert found == {
        ("PreparingRebalance", "Empty"),
        ("Stable", "PreparingRebalance"),
        ("CompletingRebalance", "PreparingRebalance"),
        ("Empty", "PreparingRebalance"),
        ("PreparingRebalance", "CompletingRebalance"),
        ("CompletingRebalance", "Stable"),
        *((name, "Dead") for name in names),
    }


def test_the_first_members_wait_for_others_and_each_prolongs_it(harness: Any) -> None:
    first = harness.join()
    harness.advance(2999)
    assert first == []
    second = harness.join()
    harness.advance(1)
    assert first == [], "a second member came: three seconds more"
    harness.advance(3000)
    assert first[0]["generation_id"] == second[0]["generation_id"] == 1
    assert first[0]["leader"] == second[0]["leader"] == first[0]["member_id"]
    assert [each["member_id"] for each in first[0]["members"]] == [first[0]["member_id"], second[0]["member_id"]]
    assert second[0]["members"] == []
    assert harness.state == "CompletingRebalance"


@pytest.mark.parametrize("name", ["a" * 32_730, "\u00e9" * 16_366])
def test_a_name_that_makes_no_member_id_is_refused_before_anything_is_kept(harness: Any, name: str) -> None:
    """A member id is the name, a dash and a UUID, and a string has at most 32,767 bytes."""
    assert harness.join(instance_id=name + "a").last_code == INVALID_REQUEST
    assert harness.join(client=Client(name + "a", "/127.0.0.1")).last_code == INVALID_REQUEST
    assert harness.groups.groups == {}
    joined = harness.join(instance_id=name[:-2])
    harness.advance(3000)
    assert len(joined[0]["member_id"].encode()) <= 32_767


def test_the_initial_wait_ends_with_the_rebalance_timeout(harness: Any) -> None:
    first = harness.join(rebalance_timeout_ms=7000)
    for _ in range(7):
        assert first == []
        harness.join(rebalance_timeout_ms=7000)
        harness.advance(1000)
    assert first[0]["error_code"] == 0


def test_a_member_id_is_required_and_the_pending_one_is_forgotten_after_the_session(harness: Any) -> None:
    first = harness.join(needs_member_id=True)
    assert first.last_code == MEMBER_ID_REQUIRED
    member_id = first[0]["member_id"]
    assert member_id.startswith("client-")
    harness.advance(10_000)
    assert harness.join(member_id, needs_member_id=True).last_code == UNKNOWN_MEMBER
    again = harness.join(needs_member_id=True)[0]["member_id"]
    joined = harness.join(again, needs_member_id=True)
    harness.advance(3000)
    assert (joined.last_code, joined[0]["member_id"]) == (0, again)


def test_a_pending_member_holds_up_the_rebalance_until_its_session_ends(harness: Any) -> None:
    (leader,) = harness.stable()
    pending = harness.join(needs_member_id=True, session_timeout_ms=8000)
    assert pending.last_code == MEMBER_ID_REQUIRED
    rejoined = harness.join(leader["member_id"])
    assert rejoined == []
    harness.advance(8000)
    assert rejoined[0]["generation_id"] == 2


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"group_id": ""}, INVALID_GROUP),
        ({"session_timeout_ms": 5999}, INVALID_SESSION),
        ({"session_timeout_ms": 1_800_001}, INVALID_SESSION),
        ({"member_id": "nobody"}, UNKNOWN_MEMBER),
        ({"protocol_type": ""}, INCONSISTENT_PROTOCOL),
        ({"protocols": ()}, INCONSISTENT_PROTOCOL),
    ],
)
def test_joins_that_are_refused(harness: Any, changes: dict[str, Any], code: int) -> None:
    assert harness.join(**changes).last_code == code


def test_a_member_must_share_a_protocol_with_everybody(harness: Any) -> None:
    harness.join(protocols=(("range", b""), ("roundrobin", b"")))
    assert harness.join(protocol_type="connect").last_code == INCONSISTENT_PROTOCOL
    assert harness.join(protocols=(("sticky", b""),)).last_code == INCONSISTENT_PROTOCOL
    harness.join(protocols=(("roundrobin", b""),))
    assert harness.join(protocols=(("range", b""),)).last_code == INCONSISTENT_PROTOCOL


def test_whoever_comes_after_everybody_left_during_the_initial_wait_may_join(harness: Any) -> None:
    harness.join()
    known = harness.groups.groups["g"]
    harness.groups.leave("g", [MemberIdentity(next(iter(known.members)))])
    assert (harness.state, known.members) == ("PreparingRebalance", {})
    assert harness.join(protocols=()).last_code == INCONSISTENT_PROTOCOL
    assert harness.join(protocol_type="connect").last_code == INCONSISTENT_PROTOCOL
    second = harness.join(protocols=(("other", b""),))
    harness.advance(3000)
    harness.advance(3000)
    assert (second.last_code, second[0]["protocol_name"]) == (0, "other")


def test_the_protocol_is_the_common_one_with_most_votes(harness: Any) -> None:
    a, b = (("range", b"r"), ("roundrobin", b"rr")), (("roundrobin", b"rr"), ("range", b"r"))
    waiting = [harness.join(protocols=p) for p in (a, b, b, (("sticky", b""), *a))]
    harness.advance(6000)
    harness.advance(3000)
    assert {answers[0]["protocol_name"] for answers in waiting} in ({"range"}, {"roundrobin"})
    only = [harness.join(answers[0]["member_id"], protocols=b) for answers in waiting]
    assert {answers[0]["protocol_name"] for answers in only} == {"roundrobin"}
    leader = next(answers[0] for answers in only if answers[0]["members"])
    assert [member["metadata"] for member in leader["members"]] == [b"rr"] * 4


def test_followers_wait_for_the_leaders_assignment(harness: Any) -> None:
    first, second = harness.join(), harness.join()
    harness.advance(3000)
    harness.advance(3000)
    leader, follower = first[0], second[0]
    waiting = harness.sync(follower)
    assert waiting == []
    mine = harness.sync(leader, [(leader["member_id"], b"a"), ("nobody", b"x")], protocol_type="consumer")
    assert mine[0] == {"error_code": 0, "protocol_type": "consumer", "protocol_name": "range", "assignment": b"a"}
    assert waiting[0]["assignment"] == b"", "who is not named gets nothing"
    assert harness.state == "Stable"
    assert harness.sync(leader)[0]["assignment"] == b"a", "asked again in a stable group"


def test_syncs_that_are_refused(harness: Any) -> None:
    (joined,) = harness.stable()
    assert harness.sync(joined, group_id="").last_code == INVALID_GROUP
    assert harness.sync(joined, group_id="other").last_code == UNKNOWN_MEMBER
    assert harness.sync(joined, member_id="nobody").last_code == UNKNOWN_MEMBER
    assert harness.sync(joined, instance_id="static").last_code == UNKNOWN_MEMBER
    assert harness.sync(joined, generation_id=7).last_code == ILLEGAL_GENERATION
    assert harness.sync(joined, protocol_type="connect").last_code == INCONSISTENT_PROTOCOL
    assert harness.sync(joined, protocol_name="sticky").last_code == INCONSISTENT_PROTOCOL
    harness.join()
    assert harness.sync(joined).last_code == REBALANCE


def test_who_does_not_sync_within_the_rebalance_timeout_is_out(harness: Any) -> None:
    first, second = harness.join(session_timeout_ms=100_000), harness.join(session_timeout_ms=100_000)
    harness.advance(3000)
    harness.advance(3000)
    waiting = harness.sync(second[0])
    harness.advance(59_999)
    assert waiting == []
    harness.advance(1)
    assert waiting.last_code == REBALANCE
    assert list(harness.groups.groups["g"].members) == [second[0]["member_id"]]
    assert harness.beat(first[0]) == UNKNOWN_MEMBER
    again = harness.join(second[0]["member_id"])
    assert (again[0]["generation_id"], again[0]["leader"]) == (2, second[0]["member_id"])


def test_heartbeats_keep_a_member_and_silence_ends_it(harness: Any) -> None:
    (joined,) = harness.stable()
    for _ in range(5):
        harness.advance(9999)
        assert harness.beat(joined) == 0
    harness.advance(10_000)
    assert harness.beat(joined) == UNKNOWN_MEMBER
    assert harness.state == "Empty"
    assert harness.groups.groups["g"].generation_id == 2


def test_heartbeats_that_are_refused(harness: Any) -> None:
    (joined,) = harness.stable()
    assert harness.beat(joined, group_id="") == INVALID_GROUP
    assert harness.beat(joined, group_id="other") == UNKNOWN_MEMBER
    assert harness.beat(joined, member_id="nobody") == UNKNOWN_MEMBER
    assert harness.beat(joined, generation_id=2) == ILLEGAL_GENERATION
    harness.join()
    assert harness.beat(joined) == REBALANCE


def test_who_does_not_join_again_within_the_rebalance_timeout_is_out(harness: Any) -> None:
    old = harness.stable(session_timeout_ms=100_000)[0]
    new = harness.join(rebalance_timeout_ms=30_000)
    harness.advance(59_999)
    assert new == []
    harness.advance(1)
    assert (new[0]["generation_id"], new[0]["leader"]) == (2, new[0]["member_id"])
    assert harness.beat(old) == UNKNOWN_MEMBER


def test_a_new_member_that_waits_is_given_up_after_five_minutes(harness: Any) -> None:
    harness.stable(session_timeout_ms=1_000_000, rebalance_timeout_ms=900_000)
    new = harness.join(rebalance_timeout_ms=900_000)
    harness.advance(299_999)
    assert new == []
    harness.advance(1)
    assert (new.last_code, new[0]["member_id"]) == (UNKNOWN_MEMBER, "")


def test_leader_and_followers_that_join_a_stable_group_again(harness: Any) -> None:
    leader, follower = harness.stable(2)
    same = harness.join(follower["member_id"])
    assert (same.last_code, same[0]["generation_id"], same[0]["members"]) == (0, 1, [])
    assert harness.state == "Stable"
    changed = harness.join(follower["member_id"], protocols=(("range", b"other topics"),))
    assert changed == []
    assert harness.state == "PreparingRebalance"
    harness.join(leader["member_id"])
    assert changed[0]["generation_id"] == 2
    harness.sync(harness.join(leader["member_id"])[0], [])
    assert harness.state == "Stable"
    assert harness.join(leader["member_id"]) == [], "the leader always begins a rebalance"


def test_members_that_leave(harness: Any) -> None:
    first, second = harness.stable(2)
    leave = harness.groups.leave
    assert leave("", []) == (INVALID_GROUP, [])
    assert leave("other", [MemberIdentity("x")]) == (0, [UNKNOWN_MEMBER])
    assert leave("g", [MemberIdentity(first["member_id"]), MemberIdentity("x")]) == (0, [0, UNKNOWN_MEMBER])
    assert harness.beat(second) == REBALANCE
    again = harness.join(second["member_id"])
    assert again[0]["leader"] == second["member_id"]
    pending = harness.join(needs_member_id=True)[0]["member_id"]
    assert leave("g", [MemberIdentity(pending), MemberIdentity(second["member_id"])]) == (0, [0, 0])
    assert harness.state == "Empty"


def test_a_full_group_takes_nobody(make_harness: Callable[..., Any]) -> None:
    harness = make_harness(max_size=2)
    joined = harness.stable(2)
    refused = harness.join()
    assert (refused.last_code, refused[0]["member_id"]) == (MAX_SIZE, "")
    assert harness.join(joined[1]["member_id"]).last_code == 0


def test_a_static_member_comes_back_to_its_place_without_a_rebalance(harness: Any) -> None:
    first = harness.join(instance_id="one")
    second = harness.join(instance_id="two")
    harness.advance(3000)
    harness.advance(3000)
    harness.sync(second[0])
    harness.sync(first[0], [(first[0]["member_id"], b"a"), (second[0]["member_id"], b"b")])
    back = harness.join(instance_id="one", may_skip_assignment=True)
    assert back[0]["member_id"].startswith("one-")
    assert back[0]["member_id"] != first[0]["member_id"]
    assert (back[0]["skip_assignment"], back[0]["generation_id"], len(back[0]["members"])) == (True, 1, 2)
    assert harness.sync(back[0])[0]["assignment"] == b"a"
    assert harness.beat(first[0], instance_id="one") == FENCED
    assert harness.sync(first[0], instance_id="one").last_code == FENCED
    assert harness.join(first[0]["member_id"], instance_id="one").last_code == FENCED
    assert harness.beat(back[0], instance_id="one") == 0
    old_client = harness.join(instance_id="one")
    assert (old_client[0]["skip_assignment"], old_client[0]["members"]) == (False, [])
    assert old_client[0]["leader"] == back[0]["member_id"], "an old client must not believe that it leads"
    harness.restart()
    assert harness.beat(old_client[0], instance_id="one") == 0
    assert harness.groups.leave("g", [MemberIdentity("", "one"), MemberIdentity("", "three")]) == (
        0,
        [0, UNKNOWN_MEMBER],
    )


def test_a_static_member_that_comes_back_while_it_waits_fences_the_first(harness: Any) -> None:
    first = harness.join(instance_id="one")
    second = harness.join(instance_id="one")
    assert first.last_code == FENCED
    harness.advance(3000)
    harness.advance(3000)
    assert second.last_code == 0
    waiting = harness.join(instance_id="one")
    assert waiting[0]["generation_id"] == 2, "during the sync phase it begins another rebalance"


def test_static_members_stay_while_others_rebalance(harness: Any) -> None:
    static = harness.join(instance_id="one", session_timeout_ms=200_000)
    harness.advance(3000)
    harness.sync(static[0], [])
    new = harness.join()
    harness.advance(60_000)
    assert new[0]["generation_id"] == 2
    assert len(harness.groups.groups["g"].members) == 2
    assert new[0]["leader"] == new[0]["member_id"]


def test_a_static_member_whose_return_cannot_be_written_keeps_its_member_id(harness: Any) -> None:
    """updateStaticMemberThenRebalanceOrCompleteJoin: a failed append reverts the member."""
    first = harness.join(instance_id="one")
    harness.advance(3000)
    harness.sync(first[0], [(first[0]["member_id"], b"a")])
    harness.store.failure = KafkaStorageError()
    back = harness.join(instance_id="one")
    assert (back.last_code, back[0]["member_id"]) == (NOT_COORDINATOR, "")
    harness.store.failure = None
    assert harness.beat(first[0], instance_id="one") == 0
    assert harness.sync(first[0], instance_id="one")[0]["assignment"] == b"a"
    harness.advance(10_000)
    assert harness.state == "Empty", "the session timer is that of the earlier member id"


def test_a_static_member_that_comes_back_with_another_protocol_starts_a_rebalance(harness: Any) -> None:
    both = [("range", b""), ("other", b"")]
    first = harness.join(instance_id="one", protocols=both)
    harness.advance(3000)
    assert first[0]["protocol_name"] == "range"
    harness.sync(first[0], [(first[0]["member_id"], b"a")])
    back = harness.join(instance_id="one", protocols=[("other", b"")])
    assert (back[0]["generation_id"], back[0]["protocol_name"]) == (2, "other")
    assert harness.state == "CompletingRebalance"


def test_a_rebalance_that_no_static_member_joins_waits_for_another_timeout(harness: Any) -> None:
    """completeClassicGroupJoin: without a joined leader the phase is postponed until the session timeout."""
    static = harness.join(instance_id="one", session_timeout_ms=200_000)
    harness.advance(3000)
    harness.sync(static[0], [])
    new = harness.join()
    assert new == [] and harness.state == "PreparingRebalance"
    harness.advance(10_000)
    (gone,) = (key for key in harness.groups.groups["g"].members if key != static[0]["member_id"])
    assert harness.groups.leave("g", [MemberIdentity(gone, None)]) == (0, [0])
    harness.advance(120_000)
    assert harness.state == "PreparingRebalance" and len(harness.groups.groups["g"].members) == 1
    again = harness.join(static[0]["member_id"], instance_id="one")
    assert (again[0]["generation_id"], harness.state) == (2, "CompletingRebalance")


def test_an_assignment_that_cannot_be_written_holds_for_nobody(harness: Any) -> None:
    first, second = harness.join(), harness.join()
    harness.advance(3000)
    harness.advance(3000)
    waiting = harness.sync(second[0])
    harness.store.failure = KafkaStorageError()
    assert harness.sync(first[0], []).last_code == NOT_COORDINATOR
    assert waiting.last_code == NOT_COORDINATOR
    assert harness.state == "PreparingRebalance"


def test_a_group_that_cannot_be_written_is_not_made(harness: Any) -> None:
    harness.store.failure = NotEnoughReplicas()
    assert harness.join().last_code == NOT_AVAILABLE
    assert harness.groups.groups == {}


def test_sessions_start_again_with_the_assignment_that_members_wait_for(harness: Any) -> None:
    """A member that waits for the leader sends no heartbeats (rescheduleClassicGroupMemberHeartbeat)."""
    leader, follower = harness.join(), harness.join()
    harness.advance(3000)
    harness.advance(3000)
    waiting = harness.sync(follower[0])
    harness.advance(9_000)
    harness.beat(leader[0])
    harness.advance(9_000)
    assert harness.sync(leader[0], []).last_code == waiting.last_code == 0
    harness.advance(9_999)
    assert harness.state == "Stable"
    assert harness.beat(leader[0]) == 0
    harness.advance(1)
    assert harness.beat(follower[0]) == UNKNOWN_MEMBER
    assert harness.beat(leader[0]) == REBALANCE


def test_a_stable_group_is_read_back_with_its_sessions(harness: Any) -> None:
    first, second = harness.stable(2)
    harness.restart()
    assert harness.state == "Stable"
    assert harness.sync(second)[0]["assignment"] == b"1"
    harness.advance(9000)
    assert harness.beat(first) == 0
    harness.advance(1000)
    assert harness.beat(second) == UNKNOWN_MEMBER
    assert harness.beat(first) == REBALANCE
