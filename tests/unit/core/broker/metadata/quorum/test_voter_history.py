"""The voters that a log names: by offset, also uncommitted ones, truncated with the log and stored in snapshots."""

from __future__ import annotations

import uuid
from collections.abc import Iterable

import pytest
from support.raft_member import CLUSTER, Member

from kafkatools.core.broker.metadata.batches import encode_batch, encode_control_batch
from kafkatools.core.broker.metadata.quorum.quorum_states import Follower
from kafkatools.core.broker.metadata.quorum.raft_settings import RaftSettings
from kafkatools.core.broker.metadata.quorum.voter_set import (
    STATIC,
    EndPoint,
    ReplicaKey,
    Voter,
    VoterHistory,
    VoterSet,
)
from kafkatools.core.broker.metadata.snapshot import SnapshotId
from kafkatools.core.protocol.schemas.metadata import TopicRecord

DIRECTORIES = {node_id: uuid.UUID(int=node_id << 64) for node_id in range(1, 10)}


def voters_of(ids: Iterable[int], kraft_version: int = 1) -> VoterSet:
    """The voter set of some nodes."""
    voters = [Voter(i, DIRECTORIES[i], (EndPoint("CONTROLLER", "localhost", 9000 + i),)) for i in ids]
    return VoterSet(kraft_version, tuple(voters))


def _first_batch(voters: VoterSet) -> memoryview:
    return encode_control_batch([voters.version_record, voters.voters_record], 0, 1, 0)


@pytest.fixture
def history() -> VoterHistory:
    made = VoterHistory()
    made.feed(bytes(_first_batch(voters_of([1]))))
    made.feed(bytes(encode_batch([TopicRecord(name="t")], 2, 1, 0)))
    made.feed(bytes(encode_control_batch([voters_of([1, 2]).voters_record], 3, 1, 0)))
    return made


def test_a_log_without_voters_is_one_of_a_static_quorum() -> None:
    history = VoterHistory()
    history.feed(bytes(encode_batch([TopicRecord(name="t")], 0, 1, 0)))
    assert history.last == STATIC
    assert history.last_offset is None


def test_each_offset_has_the_voters_of_the_last_record_before_it(history: VoterHistory) -> None:
    assert (history.last, history.last_offset) == (voters_of([1, 2]), 3)
    assert history.at(4) == voters_of([1, 2])
    assert history.at(3) == voters_of([1])
    assert history.at(0) == STATIC


def test_voters_are_truncated_with_the_log(history: VoterHistory) -> None:
    history.truncate(4)
    assert history.last == voters_of([1, 2])
    history.truncate(3)
    assert (history.last, history.last_offset) == (voters_of([1]), 1)
    history.truncate(0)
    assert history.last == STATIC


def test_the_voters_of_a_snapshot_count_before_those_of_the_log(history: VoterHistory) -> None:
    voters = voters_of([1, 2, 3])
    history.restart([voters.version_record, voters.voters_record], 10)
    assert (history.last, history.last_offset) == (voters, 9)
    history.feed(bytes(encode_control_batch([voters_of([2, 3]).voters_record], 10, 2, 0)))
    assert history.last == voters_of([2, 3])
    history.truncate(10)
    assert history.last == voters


def test_a_voter_is_known_by_its_directory_and_a_static_one_by_its_node_id() -> None:
    assert voters_of([1]).has(ReplicaKey(1, DIRECTORIES[1]))
    assert not voters_of([1]).has(ReplicaKey(1, DIRECTORIES[2]))
    assert not voters_of([1]).has(ReplicaKey(1, None))
    assert VoterSet(0, (Voter(1, None),)).has(ReplicaKey(1, DIRECTORIES[1]))


def test_a_set_without_a_voter_needs_its_directory_id() -> None:
    assert voters_of([1, 2]).without(ReplicaKey(2, DIRECTORIES[2])) == voters_of([1])
    assert voters_of([1, 2]).without(ReplicaKey(2, DIRECTORIES[1])) is None
    assert voters_of([1, 2]).without(ReplicaKey(3, DIRECTORIES[3])) is None


# -- a member of a quorum whose log names voters -----------------------------------------------------------------------
def _follower(voters: VoterSet, node_id: int = 1) -> Member:
    """Node 1 with static voters 1, 2, 3, which follows node 2 and has the first batch of its log, uncommitted."""
    member = Member(node_id, settings=RaftSettings(CLUSTER, directory_id=DIRECTORIES[node_id]))
    member.follow(2, 1)
    sent = member.sent[-1]
    member.sent.clear()
    member.answer(sent, member.fetched(2, 1, high_watermark=0, records=bytes(_first_batch(voters))))
    assert member.raft.end_offset == 2
    return member


def test_uncommitted_voters_count_at_once() -> None:
    member = _follower(voters_of([1, 2, 4]))
    assert sorted(member.raft.voters) == [1, 2, 4]
    assert member.raft.is_voter
    member.tick(20_000)
    votes = member.take(52)
    assert sorted({sent.node_id for sent in votes}) == [2, 4]
    assert {sent.node_id: sent.partition["voter_directory_id"] for sent in votes} == {
        2: DIRECTORIES[2],
        4: DIRECTORIES[4],
    }


def test_the_log_decides_whether_a_static_voter_is_one() -> None:
    member = _follower(voters_of([2, 3, 4]))
    assert not member.raft.is_voter
    member.tick(20_000)
    assert isinstance(member.raft.state, Follower)  # an observer stands for no election
    assert {sent.api_key for sent in member.sent} == {1}


def test_truncated_voters_no_longer_count() -> None:
    member = _follower(voters_of([1, 2, 4]))
    sent = member.take(1)[-1]
    member.answer(sent, member.fetched(2, 1, high_watermark=0, diverging_epoch={"epoch": 0, "end_offset": 0}))
    assert member.raft.end_offset == 0
    assert sorted(member.raft.voters) == [1, 2, 3]


def test_voters_are_read_again_after_a_restart_and_from_a_snapshot() -> None:
    member = _follower(voters_of([1, 2, 4]))
    member.restart()
    assert sorted(member.raft.voters) == [1, 2, 4]
    member.follow(2, 1)
    sent = member.take(1)[-1]
    member.answer(sent, member.fetched(2, 1, high_watermark=2))
    assert member.raft.log.take_snapshot([], 0) == SnapshotId(2, 1)
    member.raft.log.metadata_log.clean(0)
    member.restart()
    assert sorted(member.raft.voters) == [1, 2, 4]
    assert member.raft.kraft_version == 1


def test_a_node_that_another_directory_was_voter_of_is_an_observer() -> None:
    voters = voters_of([1, 2, 3])
    member = _follower(VoterSet(1, (Voter(1, DIRECTORIES[9], voters.voters[0].end_points), *voters.voters[1:])))
    assert not member.raft.is_voter
