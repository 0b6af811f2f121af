"""Who is elected, who may vote, who resigns: the rules of KIP-595 and KIP-996, one by one."""

from __future__ import annotations

import json
import uuid

import pytest
from support.faulty_files import Fault, FaultyFileSystem
from support.quorum_simulation import as_request, as_response
from support.raft_member import CLUSTER, VOTERS, Member

from kafkatools.core.broker.metadata.quorum import raft_messages as wire
from kafkatools.core.broker.metadata.quorum.election_store import ElectionState, ElectionStore
from kafkatools.core.broker.metadata.quorum.quorum_states import (
    Candidate,
    Follower,
    Leader,
    Prospective,
    Resigned,
    Unattached,
)
from kafkatools.core.broker.metadata.quorum.raft_settings import RaftSettings
from kafkatools.core.broker.metadata.quorum.voter_set import ReplicaKey
from kafkatools.core.errors import (
    FencedLeaderEpoch,
    InconsistentClusterId,
    InconsistentVoterSet,
    InvalidRequest,
    InvalidVoterKey,
    KafkaStorageError,
    NotController,
)
from kafkatools.core.protocol.schemas.metadata import TopicRecord

QUORUM_STATE = "/node/__cluster_metadata-0/quorum-state"


def _stored(member: Member) -> ElectionState | None:
    return ElectionStore(member.files, "/node/__cluster_metadata-0", VOTERS).read()


# -- voting --------------------------------------------------------------------------------------------------------
def test_one_vote_an_epoch() -> None:
    member = Member()
    assert member.vote(2, 1).vote_granted
    assert not member.vote(3, 1).vote_granted
    assert member.vote(2, 1).vote_granted  # the same again
    assert member.vote(3, 2).vote_granted


def test_a_vote_is_on_the_disk_before_it_is_answered() -> None:
    member = Member()
    assert member.vote(2, 4).vote_granted
    member.restart()
    assert _stored(member) == ElectionState(4, None, 2)
    assert not member.vote(3, 4).vote_granted
    assert member.vote(2, 4).vote_granted


def test_who_has_less_gets_no_vote() -> None:
    member = Member()
    member.be_elected()
    member.append("a", "b")
    assert member.raft.log.end == (3, 1)
    assert not member.vote(2, 5, (2, 1)).vote_granted
    assert member.raft.epoch == 5
    assert member.vote(3, 5, (3, 1)).vote_granted
    assert member.vote(2, 6, (1, 2)).vote_granted  # a newer epoch is more than a longer log


def test_a_pre_vote_changes_nothing() -> None:
    member = Member()
    assert member.vote(2, 0, is_pre_vote=True).vote_granted
    assert member.vote(3, 0, is_pre_vote=True).vote_granted
    assert member.raft.epoch == 0
    assert _stored(member) is None


def test_who_hears_its_leader_grants_no_pre_vote() -> None:
    member = Member()
    member.follow(2, 3)
    assert member.vote(3, 3, is_pre_vote=True).vote_granted  # it has not fetched yet
    [fetch] = member.take(wire.FETCH)
    member.answer(fetch, member.fetched(2, 3))
    answer = member.vote(3, 3, is_pre_vote=True)
    assert not answer.vote_granted
    assert (answer.leader_id, answer.leader_epoch) == (2, 3)
    assert not member.vote(3, 3).vote_granted  # nor a vote, in an epoch that has a leader


@pytest.mark.parametrize(
    ("epoch", "end", "error"),
    [(1, (0, 1), InvalidRequest), (1, (-1, 0), InvalidRequest), (0, (0, 0), InvalidRequest)],
)
def test_a_vote_request_that_cannot_be_is_refused(epoch: int, end: tuple[int, int], error: type[Exception]) -> None:
    assert Member().vote(2, epoch, end).error_code == error.code


def test_who_may_not_vote_is_refused() -> None:
    member = Member()
    assert member.vote(4, 1).error_code == InconsistentVoterSet.code
    assert member.vote(2, 5).vote_granted
    assert member.vote(3, 4).error_code == FencedLeaderEpoch.code
    assert member.vote(2, 9, cluster_id="cluster-b").error_code == InconsistentClusterId.code
    candidate = {
        "replica_epoch": 9,
        "replica_id": 2,
        "last_offset_epoch": 0,
        "last_offset": 0,
        "pre_vote": False,
    }
    to_another = wire.vote_request(CLUSTER, 3, candidate)
    response = as_response(wire.VOTE, member.raft.handle_vote(as_request(wire.VOTE, to_another), 0))
    assert response.topics[0].partitions[0].error_code == InvalidVoterKey.code
    assert member.raft.epoch == 5
    observer = Member(9)
    assert observer.vote(2, 1).error_code == InconsistentVoterSet.code


# -- elections -----------------------------------------------------------------------------------------------------
def test_an_election_begins_with_pre_votes_in_the_same_epoch() -> None:
    member = Member()
    member.tick(2000)
    assert isinstance(member.raft.state, Prospective)
    asked = member.take(wire.VOTE)
    assert [(each.node_id, each.partition["pre_vote"], each.partition["replica_epoch"]) for each in asked] == [
        (2, True, 0),
        (3, True, 0),
    ]
    assert _stored(member) is None
    extra = {"vote_granted": True}
    member.answer(asked[0], wire.election_response(member.position(), VOTERS, 0, extra))
    assert isinstance(member.raft.state, Candidate)
    assert _stored(member) == ElectionState(1, None, 1)
    asked = member.take(wire.VOTE)
    assert [(each.node_id, each.partition["pre_vote"], each.partition["replica_epoch"]) for each in asked] == [
        (2, False, 1),
        (3, False, 1),
    ]
    member.answer(asked[1], wire.election_response(member.position(), VOTERS, 0, extra))
    assert isinstance(member.raft.state, Leader)
    assert _stored(member) == ElectionState(1, 1, 1)
    assert member.raft.state.granting_voters == (1, 3)


def test_an_answer_to_a_pre_vote_is_no_vote() -> None:
    member = Member()
    member.tick(2000)
    first, second = member.take(wire.VOTE)
    granted = wire.election_response(member.position(), VOTERS, 0, {"vote_granted": True})
    member.answer(first, granted)
    assert isinstance(member.raft.state, Candidate)
    member.answer(second, wire.election_response(member.position(1), VOTERS, 0, {"vote_granted": True}))
    assert isinstance(member.raft.state, Candidate)


def test_who_loses_the_pre_vote_waits_and_its_epoch_stays() -> None:
    member = Member()
    for _ in range(5):
        member.tick(2000)
        member.answer_votes(is_granted=False)
        assert isinstance(member.raft.state, Unattached)
    assert member.raft.epoch == 0


def test_who_loses_the_pre_vote_follows_its_leader_again() -> None:
    member = Member()
    member.follow(2, 7)
    member.tick(2000)
    assert isinstance(member.raft.state, Prospective)
    for sent in member.take(wire.VOTE):
        member.answer(sent, wire.election_response(member.position(7, 2), VOTERS, 0, {"vote_granted": False}))
    assert isinstance(member.raft.state, Follower)
    assert member.raft.leader_id == 2


def test_who_loses_an_election_backs_off_and_asks_first_again() -> None:
    member = Member()
    member.tick(2000)
    member.answer_votes(is_granted=True, voters=(2,))
    member.answer_votes(is_granted=False)
    state = member.raft.state
    assert isinstance(state, Candidate)
    assert state.backoff_until_ms is not None
    assert state.backoff_until_ms - member.now_ms <= member.settings.election_backoff_max_ms
    member.tick(1000)
    assert isinstance(member.raft.state, Prospective)
    assert member.raft.epoch == 1


def test_a_lost_vote_request_is_sent_again() -> None:
    member = Member()
    member.tick(2000)
    for sent in member.take(wire.VOTE):
        member.answer(sent, None)
    assert member.take(wire.VOTE) == []
    member.tick(member.settings.retry_backoff_ms)
    assert [each.node_id for each in member.take(wire.VOTE)] == [2, 3]


def test_a_voter_that_knows_of_other_voters_is_told_of_and_asked_again_later() -> None:
    member = Member()
    member.tick(2000)
    member.answer_votes(is_granted=True, voters=(2,))
    assert member.raft.epoch == 1
    [first, _] = member.take(wire.VOTE)
    member.answer(first, wire.election_response(wire.Position(0, None), VOTERS, InconsistentVoterSet.code))
    assert isinstance(member.faults[0], InconsistentVoterSet)
    assert member.take(wire.VOTE) == []
    member.tick(member.settings.retry_backoff_ms)
    assert [each.node_id for each in member.take(wire.VOTE)] == [2]


def test_a_larger_epoch_in_an_answer_ends_the_candidacy() -> None:
    member = Member()
    member.tick(2000)
    member.answer_votes(is_granted=True, voters=(2,))
    [first, _] = member.take(wire.VOTE)
    member.answer(first, wire.election_response(wire.Position(9, 3), VOTERS, FencedLeaderEpoch.code))
    assert isinstance(member.raft.state, Follower)
    assert (member.raft.epoch, member.raft.leader_id) == (9, 3)


def test_a_leader_tells_the_others_until_they_fetch() -> None:
    member = Member()
    member.be_elected()
    begun = member.take(wire.BEGIN_QUORUM_EPOCH)
    assert [(each.node_id, each.partition["leader_id"], each.partition["leader_epoch"]) for each in begun] == [
        (2, 1, 1),
        (3, 1, 1),
    ]
    member.answer(begun[0], wire.election_response(wire.Position(1, 1), VOTERS, 0))
    member.answer(begun[1], None)
    member.tick(500)
    assert [each.node_id for each in member.take(wire.BEGIN_QUORUM_EPOCH)] == [3]
    member.fetch(2, (0, 0))
    member.tick(600)
    assert [each.node_id for each in member.take(wire.BEGIN_QUORUM_EPOCH)] == []  # 2 has fetched, 3 was asked


def test_a_quorum_of_one_leads_at_once() -> None:
    member = Member(voters={1: ("localhost", 9001)})
    member.tick()
    assert member.raft.is_leader
    assert member.append("a") == 1
    assert member.raft.high_watermark == 2
    assert member.names == ["a"]
    assert member.leaders[-1] == (1, 1)
    member.tick(100_000)
    assert member.raft.is_leader
    member.restart()
    member.tick()
    assert member.raft.is_shut_down is False
    member.tick(2000)
    assert member.raft.is_leader
    assert member.raft.epoch > 1
    assert member.names == ["a", "a"]  # told anew to who starts anew


# -- resigning -----------------------------------------------------------------------------------------------------
def test_a_leader_that_no_majority_fetches_from_resigns() -> None:
    member = Member()
    member.be_elected()
    for _ in range(10):
        member.tick(1000)
        member.fetch(2, (0, 0))
    assert member.raft.is_leader
    member.tick(2999)
    assert member.raft.is_leader
    member.tick(1)
    assert isinstance(member.raft.state, Resigned)
    assert member.raft.leader_id is None
    with pytest.raises(NotController):
        member.append("a")


def test_a_leader_that_leaves_names_its_successors() -> None:
    member = Member()
    member.be_elected()
    member.append("a")
    member.fetch(2, (0, 0))
    member.fetch(3, (2, 1))
    member.raft.shut_down(member.now_ms)
    member.tick()
    ended = member.take(wire.END_QUORUM_EPOCH)
    assert [each.node_id for each in ended] == [2, 3]
    assert ended[0].partition["preferred_candidates"] == [
        {"candidate_id": 3, "candidate_directory_id": None},
        {"candidate_id": 2, "candidate_directory_id": None},
    ]
    assert not member.raft.is_shut_down
    member.follow(3, 2)
    assert member.raft.is_shut_down


def test_a_voter_that_knows_of_the_end_is_told_of_it_once() -> None:
    member = Member()
    member.be_elected()
    member.raft.shut_down(member.now_ms)
    member.tick()
    for sent in member.take(wire.END_QUORUM_EPOCH):
        member.answer(sent, wire.election_response(wire.Position(1, 1), VOTERS, 0))
    member.tick(100)
    assert member.take(wire.END_QUORUM_EPOCH) == []


def test_the_first_successor_begins_at_once_the_second_later() -> None:
    first, second = Member(2), Member(3)
    for member in (first, second):
        member.follow(1, 4)
        member.end(1, 4, (2, 3))
    assert isinstance(first.raft.state, Prospective)
    assert isinstance(second.raft.state, Follower)
    assert second.vote(2, 4, is_pre_vote=True).vote_granted
    second.tick(RaftSettings().election_backoff_max_ms // 2)
    assert isinstance(second.raft.state, Prospective)


def test_the_end_of_an_older_epoch_is_nothing() -> None:
    member = Member()
    member.follow(2, 4)
    assert member.end(3, 3, (1, 2)).error_code == FencedLeaderEpoch.code
    assert isinstance(member.raft.state, Follower)


def test_a_leader_that_comes_back_never_leads_its_epoch_again() -> None:
    member = Member()
    member.be_elected()
    member.restart()
    assert isinstance(member.raft.state, Resigned)
    assert not member.vote(2, 1, (9, 0)).vote_granted
    member.tick(2000)
    assert member.raft.epoch == 2
    assert isinstance(member.raft.state, Prospective)


def test_a_leader_whose_disk_was_replaced_knows_that_it_must_not_lead_again() -> None:
    member = Member()
    member.tick()
    [sent] = member.take(wire.FETCH)
    refusal = wire.fetch_response(wire.Position(6, 1), VOTERS, {"error_code": FencedLeaderEpoch.code})
    member.answer(sent, refusal)
    assert isinstance(member.raft.state, Resigned)
    assert member.raft.epoch == 6
    assert not member.vote(3, 6).vote_granted
    assert [each.node_id for each in member.take(wire.END_QUORUM_EPOCH)] == [2, 3]
    assert member.faults == []
    member.restart()
    assert isinstance(member.raft.state, Resigned)


def test_two_leaders_of_one_epoch_are_a_fault() -> None:
    member = Member()
    member.follow(2, 4)
    fields = wire.begin_request(CLUSTER, ReplicaKey(1), 3, 4, [wire.endpoint("CONTROLLER", ("h", 1))])
    assert member.begin(fields).error_code == InvalidRequest.code
    assert "Node 3 claims to lead epoch 4" in str(member.faults[0])
    assert member.raft.leader_id == 2


# -- the disk ------------------------------------------------------------------------------------------------------
def test_quorum_state_is_written_as_kafka_does() -> None:
    member = Member()
    member.be_elected()
    assert json.loads(member.files.read_bytes(QUORUM_STATE)) == {
        "clusterId": "",
        "leaderId": 1,
        "leaderEpoch": 1,
        "votedId": 1,
        "appliedOffset": 0,
        "currentVoters": [{"voterId": 1}, {"voterId": 2}, {"voterId": 3}],
        "data_version": 0,
    }


def test_the_state_of_a_dynamic_quorum_is_read() -> None:
    files = FaultyFileSystem()
    files.make_directory("/node/__cluster_metadata-0")
    text = '{"leaderId":-1,"leaderEpoch":6,"votedId":2,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAQ","data_version":1}'
    files.write_bytes(QUORUM_STATE, text.encode(), sync=True)
    member = Member(files=files)
    deadline_ms = member.raft.state.deadline_ms  # type: ignore[union-attr]
    assert member.raft.state == Unattached(6, None, 2, deadline_ms, uuid.UUID(int=1))
    assert not member.vote(3, 6).vote_granted


@pytest.mark.parametrize("content", [b"", b"{}", b'{"leaderEpoch":"x","leaderId":1,"votedId":1}', b"\xff"])
def test_who_cannot_read_what_it_voted_does_not_start(content: bytes) -> None:
    files = FaultyFileSystem()
    files.make_directory("/node/__cluster_metadata-0")
    files.write_bytes(QUORUM_STATE, content, sync=True)
    with pytest.raises(KafkaStorageError, match="quorum-state"):
        Member(files=files)


def test_a_leader_whose_disk_fails_resigns_and_learns_who_is_elected() -> None:
    member = Member()
    member.be_elected()
    member.fetch(3, (1, 1))
    member.sent.clear()
    waiting = member.fetch(2, (1, 1), max_wait_ms=500, high_watermark=1)
    assert waiting == []
    member.files.fail_after(0, Fault(is_permanent=True))
    with pytest.raises(NotController):
        member.append("a")
    member.tick()
    assert isinstance(member.raft.state, Resigned)
    assert member.leaders[-1] == (None, 1)
    assert member.faults == [member.raft.failure]
    assert [each.error_code for each in waiting] == [KafkaStorageError.code]
    ended = member.take(wire.END_QUORUM_EPOCH)
    assert [each.node_id for each in ended] == [2, 3]
    member.answer(ended[0], wire.election_response(wire.Position(1, 1), VOTERS, 0))
    member.answer(ended[1], None)
    member.tick(1000)
    assert [each.node_id for each in member.take(wire.END_QUORUM_EPOCH)] == [3]  # the other one knows
    fields = wire.begin_request(CLUSTER, ReplicaKey(1), 3, 2, [wire.endpoint("CONTROLLER", ("h", 1))])
    with pytest.raises(KafkaStorageError):
        member.begin(fields)
    member.tick(1000)
    assert member.leaders[-1] == (3, 2)
    assert member.raft.leader_id == 3
    assert member.sent == []  # it follows nobody: its log is not known
    member.files.heal()
    member.restart()
    assert isinstance(member.raft.state, Resigned)  # on the disk nothing has changed
    assert member.raft.epoch == 1


def test_a_vote_that_cannot_be_kept_is_the_end_of_a_member() -> None:
    member = Member()
    member.files.fail_after(0, Fault(is_permanent=True))
    with pytest.raises(KafkaStorageError):
        member.vote(2, 9)
    assert member.faults == [member.raft.failure]


def test_what_cannot_be_forced_to_the_disk_never_counts() -> None:
    member = Member()
    member.be_elected()
    member.fetch(2, (1, 1))
    committed = member.raft.high_watermark
    member.raft.append([TopicRecord(name="a")], 0)
    member.files.fail_after(0, Fault(is_permanent=True))
    member.tick()
    assert member.raft.failure is not None
    assert member.faults == [member.raft.failure]
    assert member.raft.high_watermark == committed
    assert member.raft.is_shut_down
    with pytest.raises(NotController):
        member.raft.append([TopicRecord(name="b")], 0)
    with pytest.raises(KafkaStorageError):
        member.vote(2, 9, (9, 9))  # it does not know what it would promise


# -- forged epochs -------------------------------------------------------------------------------------------------
LAST_EPOCH = 2**31 - 1


@pytest.mark.parametrize("is_pre_vote", [False, True])
def test_a_vote_does_not_take_a_member_further_than_elections_can_have_led(is_pre_vote: bool) -> None:
    member = Member()
    assert member.vote(2, 5).vote_granted
    answer = member.vote(3, LAST_EPOCH, is_pre_vote=is_pre_vote)
    assert (answer.error_code, answer.leader_epoch, answer.vote_granted) == (InvalidRequest.code, 5, False)
    assert _stored(member) == ElectionState(5, None, 2)
    assert len(member.faults) == 1
    assert member.vote(3, 6).vote_granted


def test_a_claim_to_lead_a_far_epoch_is_refused() -> None:
    member = Member()
    member.follow(2, 4)
    fields = wire.begin_request(CLUSTER, ReplicaKey(1), 3, LAST_EPOCH, [wire.endpoint("CONTROLLER", ("h", 1))])
    assert member.begin(fields).error_code == InvalidRequest.code
    assert member.end(3, LAST_EPOCH, (1,)).error_code == InvalidRequest.code
    assert (member.raft.leader_id, member.raft.epoch) == (2, 4)


def test_forged_epochs_in_steps_get_no_further_than_time_allows() -> None:
    member = Member()
    for _ in range(2000):
        member.vote(3, member.raft.epoch + 10)
        member.now_ms += 1
    assert member.raft.epoch <= 1000 + 2000 * 10 // member.settings.election_timeout_ms + 10


@pytest.mark.slow
def test_elections_without_end_are_never_taken_for_a_leap() -> None:
    member = Member()
    for epoch in range(1, 5000):
        assert member.vote(2 + epoch % 2, epoch).vote_granted
        member.now_ms += member.settings.election_timeout_ms // 2


def test_a_member_that_was_away_catches_up_by_the_answers_of_the_voters() -> None:
    member = Member()
    assert member.vote(2, 5_000_000).error_code == InvalidRequest.code
    member.tick(5000)
    (sent, *_) = [each for each in member.take(wire.VOTE) if each.node_id == 2]
    refusal = wire.election_response(member.position(5_000_000, 2), VOTERS, FencedLeaderEpoch.code)
    member.answer(sent, {**refusal})
    assert (member.raft.epoch, member.raft.leader_id) == (5_000_000, 2)
    assert isinstance(member.raft.state, Follower)


def test_a_vote_for_this_id_with_another_directory_is_refused() -> None:
    own, other = uuid.uuid4(), uuid.uuid4()
    member = Member(settings=RaftSettings(CLUSTER, directory_id=own))
    codes = []
    for directory_id in (other, own, None):
        candidate = {
            "replica_epoch": 3,
            "replica_id": 2,
            "last_offset_epoch": 0,
            "last_offset": 0,
            "pre_vote": False,
            "voter_directory_id": directory_id,
        }
        request = as_request(wire.VOTE, wire.vote_request(CLUSTER, 1, candidate))
        response = as_response(wire.VOTE, member.raft.handle_vote(request, 0))
        codes.append(int(response.topics[0].partitions[0].error_code))
    assert codes == [InvalidVoterKey.code, 0, 0]
