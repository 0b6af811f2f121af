"""What a leader answers to AddRaftVoter, RemoveRaftVoter and UpdateRaftVoter, and which candidates a voter grants."""

from __future__ import annotations

import uuid
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from support.quorum_simulation import NEWEST
from support.raft_member import CLUSTER, Member

from kafkatools.core.broker.metadata.quorum import raft_messages as wire
from kafkatools.core.broker.metadata.quorum.raft_settings import RaftSettings
from kafkatools.core.broker.metadata.quorum.voter_set import EndPoint, Voter, VoterSet, epoch_start_records
from kafkatools.core.broker.metadata.snapshot import SnapshotId, encode_snapshot
from kafkatools.core.errors import (
    FencedLeaderEpoch,
    InconsistentClusterId,
    InvalidRequest,
    NotLeaderOrFollower,
    RequestTimedOut,
    UnknownLeaderEpoch,
    VoterNotFound,
)
from kafkatools.core.protocol.uuids import uuid_text
from kafkatools.core.records.batch import RecordBatch, read_batches
from kafkatools.core.records.control import parse_control_type

NEWEST.update({18: 4, 80: 1, 81: 0, 82: 0})
IDS = {node_id: uuid.UUID(int=node_id << 64 | 7) for node_id in range(1, 6)}


def _voter(node_id: int) -> Voter:
    return Voter(node_id, IDS[node_id], (EndPoint("CONTROLLER", "localhost", 9000 + node_id),))


def _member(*voters: int) -> Member:
    """Node 1 of a dynamic quorum with these voters, which were formatted."""
    member = Member(voters={}, settings=RaftSettings(CLUSTER, directory_id=IDS[1], end_points=_voter(1).end_points))
    first = VoterSet(1, tuple(map(_voter, voters)))
    records = [first.version_record, first.voters_record]
    data = encode_snapshot((), 0, last_contained_timestamp=0, wall_ms=0, quorum_records=records)
    member.raft.log.snapshots.write(SnapshotId(0, 0), data)
    member.files.fsync_directory("/node")
    member.files.fsync_directory("/")
    member.restart()
    return member


@pytest.fixture
def leader() -> Member:
    """Node 1, the only voter, with observer 2, which has caught up."""
    member = _member(1)
    member.tick()
    assert member.raft.is_leader
    member.fetch(2, (member.raft.end_offset, 1), directory_id=IDS[2])
    return member


def _add(member: Member, node_id: int = 2, **changes: Any) -> list[wire.Fields]:
    fields: dict[str, Any] = {
        "cluster_id": CLUSTER,
        "voter_id": node_id,
        "voter_directory_id": IDS[node_id],
        "listeners": [SimpleNamespace(**point._asdict()) for point in _voter(node_id).end_points],
        "ack_when_committed": True,
    }
    answers: list[wire.Fields] = []
    entity: Any = SimpleNamespace(**{**fields, **changes})
    member.raft.handle_add_voter(entity, member.now_ms, answers.append)
    member.tick()
    return answers


def _answer_versions(member: Member, lowest: int = 0, highest: int = 1) -> None:
    [sent] = member.take(18)
    row = {"name": "kraft.version", "min_version": lowest, "max_version": highest}
    member.answer(sent, {"error_code": 0, "api_keys": [], "supported_features": [row], "throttle_time": 0})


def test_a_voter_is_added_after_its_versions_are_known_and_acknowledged_when_committed(leader: Member) -> None:
    answers = _add(leader)
    assert sorted(leader.raft.voters) == [1]
    _answer_versions(leader)
    assert sorted(leader.raft.voters) == [1, 2]
    assert answers == []
    leader.fetch(2, (leader.raft.end_offset, 1), directory_id=IDS[2])
    assert answers == [{"error_code": 0, "error_message": None}]


def test_a_voter_is_acknowledged_after_the_append_if_the_request_says_so(leader: Member) -> None:
    answers = _add(leader, ack_when_committed=False)
    _answer_versions(leader)
    assert answers == [{"error_code": 0, "error_message": None}]


def test_only_an_observer_with_this_directory_id_has_caught_up(leader: Member) -> None:
    answers = _add(leader, voter_directory_id=IDS[5])
    _answer_versions(leader)
    key = f"ReplicaKey(id=2, directoryId={uuid_text(IDS[5])})"
    words = f"Aborted add voter operation for {key} since it is lagging behind"
    assert answers == [{"error_code": RequestTimedOut.code, "error_message": words}]


def test_a_node_that_does_not_support_the_version_is_not_added(leader: Member) -> None:
    answers = _add(leader)
    _answer_versions(leader, 0, 0)
    assert answers[0]["error_code"] == InvalidRequest.code
    assert answers[0]["error_message"].endswith(
        "since the kraft.version range (min: 0, max: 0 doesn't support the finalized version 1"
    )


def test_a_change_that_is_not_committed_in_time_is_given_up_and_blocks_the_next_one_until_it_is(leader: Member) -> None:
    answers = _add(leader)
    _answer_versions(leader)
    leader.tick(leader.settings.request_timeout_ms)
    assert answers == [{"error_code": RequestTimedOut.code, "error_message": None}]
    [refused] = _add(leader, 3)
    assert refused["error_code"] == RequestTimedOut.code
    assert refused["error_message"].startswith("Request timed out waiting for voters to commit the latest voter change")


@pytest.mark.parametrize(
    ("changes", "code", "words"),
    [
        (
            {"cluster_id": "x"},
            InconsistentClusterId.code,
            f'The given id "x" doesn\'t match the cluster id "{CLUSTER}"',
        ),
        ({"voter_directory_id": None}, InvalidRequest.code, "Add voter request didn't include a valid voter"),
        ({"voter_id": -1}, InvalidRequest.code, "Add voter request didn't include a valid voter"),
    ],
)
def test_a_malformed_request_is_refused(leader: Member, changes: dict[str, Any], code: int, words: str) -> None:
    assert _add(leader, **changes) == [{"error_code": code, "error_message": words}]


def test_a_voter_needs_an_address_on_the_listener_of_the_quorum(leader: Member) -> None:
    [refused] = _add(leader, listeners=[SimpleNamespace(name="OTHER", host="h", port=1)])
    assert refused["error_code"] == InvalidRequest.code
    assert refused["error_message"].endswith("for the default listener CONTROLLER")


def test_another_member_refuses_changes_of_the_voters() -> None:
    follower = _member(1, 2)
    assert _add(follower, 3) == [{"error_code": NotLeaderOrFollower.code, "error_message": None}]


def _update(member: Member, node_id: int, epoch: int, port: int = 9999, versions: tuple[int, int] = (0, 1)) -> int:
    entity: Any = SimpleNamespace(
        cluster_id=CLUSTER,
        current_leader_epoch=epoch,
        voter_id=node_id,
        voter_directory_id=IDS[node_id],
        listeners=[SimpleNamespace(name="CONTROLLER", host="localhost", port=port)],
        k_raft_version_feature=SimpleNamespace(min_supported_version=versions[0], max_supported_version=versions[1]),
    )
    code: int = member.raft.handle_update_voter(entity, member.now_ms)["error_code"]
    member.tick()
    return code


def test_a_voter_reports_another_address(leader: Member) -> None:
    assert _update(leader, 1, leader.raft.epoch) == 0
    assert leader.raft.voters == {1: ("localhost", 9999)}


@pytest.mark.parametrize(
    ("node_id", "leap", "versions", "code"),
    [
        (2, 0, (0, 1), VoterNotFound.code),
        (1, 1, (0, 1), UnknownLeaderEpoch.code),
        (1, -1, (0, 1), FencedLeaderEpoch.code),
        (1, 0, (0, 0), InvalidRequest.code),
        (1, 0, (1, 0), InvalidRequest.code),
    ],
)
def test_an_update_that_cannot_be_made(
    leader: Member, node_id: int, leap: int, versions: tuple[int, int], code: int
) -> None:
    assert _update(leader, node_id, leader.raft.epoch + leap, versions=versions) == code
    assert leader.raft.voters == {1: ("localhost", 9001)}


def _vote(member: Member, node_id: int, directory_id: uuid.UUID) -> bool:
    candidate = {
        "replica_epoch": 5,
        "replica_id": node_id,
        "replica_directory_id": directory_id,
        "last_offset_epoch": 4,
        "last_offset": 100,
        "pre_vote": False,
    }
    fields = wire.vote_request(CLUSTER, member.node_id, candidate)
    return bool(member._ask(wire.VOTE, fields, member.raft.handle_vote).vote_granted)


def test_a_vote_is_for_one_directory_and_survives_a_restart() -> None:
    voter = _member(1, 2, 3)
    assert _vote(voter, 2, IDS[2])
    assert not _vote(voter, 2, IDS[5])
    voter.restart()
    assert _vote(voter, 2, IDS[2])
    assert not _vote(voter, 2, IDS[5])


def test_a_voter_votes_also_for_a_candidate_that_its_log_does_not_have() -> None:
    assert _vote(_member(1, 2), 4, IDS[4])


def test_the_first_leader_writes_the_formatted_voters_into_the_log(leader: Member) -> None:
    assert leader.raft.log.voters.last_offset == 2  # after LeaderChange and KRaftVersion
    assert leader.raft.voter_set.voters == (_voter(1),)


def _epoch_start(member: Member) -> list[int]:
    """The kinds of the records with which the present epoch begins."""
    data = member.raft.log.read(0, 1 << 20)
    *_, last = [batch for batch in read_batches(data) if isinstance(batch, RecordBatch)]
    return [int(parse_control_type(record.key)) for record in last.records() if record.key is not None]


def _restarted_with(member: Member, end_points: tuple[EndPoint, ...]) -> Member:
    member.settings = replace(member.settings, end_points=end_points)
    member.restart()
    member.tick()
    assert member.raft.is_leader
    return member


def test_a_leader_with_another_listener_begins_its_epoch_with_it(leader: Member) -> None:
    points = (EndPoint("OTHER", "localhost", 7), EndPoint("CONTROLLER", "elsewhere", 9009))
    _restarted_with(leader, points)
    assert _epoch_start(leader) == [2, 5, 6]  # LeaderChange, KRaftVersion, KRaftVoters
    assert leader.raft.voter_set.voters == (_voter(1)._replace(end_points=points),)
    assert leader.raft.voters == {1: ("elsewhere", 9009)}
    _restarted_with(leader, points[::-1])  # the same listeners
    assert _epoch_start(leader) == [2]


def test_a_leader_with_another_range_of_versions_begins_its_epoch_with_it(leader: Member) -> None:
    assert _update(leader, 1, leader.raft.epoch, port=9001, versions=(1, 1)) == 0
    _restarted_with(leader, _voter(1).end_points)
    assert _epoch_start(leader) == [2, 5, 6]
    assert leader.raft.voter_set.voters == (_voter(1),)


def test_no_voter_is_changed_by_the_epoch_of_another_directory_or_of_a_static_quorum() -> None:
    own = _voter(1)._replace(end_points=(EndPoint("CONTROLLER", "elsewhere", 9009),))
    voters = VoterSet(1, (_voter(1)._replace(directory_id=IDS[5]),))
    assert epoch_start_records(voters, own, is_first=False) == ()
    assert epoch_start_records(VoterSet(0, (_voter(1),)), own, is_first=False) == ()
    assert epoch_start_records(VoterSet(1, (_voter(1),)), own._replace(end_points=()), is_first=False) == ()


def test_changes_of_the_voters_wait_for_the_record_of_the_epochs_start(leader: Member) -> None:
    _restarted_with(leader, (EndPoint("CONTROLLER", "elsewhere", 9009),))
    assert leader.raft.log.voters.last_offset is not None
    assert leader.raft.log.voters.last_offset < leader.raft.high_watermark  # committed: a quorum of one
    leader.fetch(2, (leader.raft.end_offset, leader.raft.epoch), directory_id=IDS[2])
    _add(leader)
    _answer_versions(leader)
    assert leader.raft.voter_set.by_id[1].end_points == (EndPoint("CONTROLLER", "elsewhere", 9009),)
    assert sorted(leader.raft.voters) == [1, 2]
