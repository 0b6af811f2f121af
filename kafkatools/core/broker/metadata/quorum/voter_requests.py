"""The requests of a quorum member to the voters: Vote, BeginQuorumEpoch, EndQuorumEpoch, UpdateRaftVoter, and to join
them AddRaftVoter and RemoveRaftVoter (KIP-853).

Each function builds the fields of one request. In a dynamic quorum a request names the directory id of the voter that
it is for.
"""

from __future__ import annotations

from kafkatools.core.broker.metadata.quorum import raft_messages as wire
from kafkatools.core.broker.metadata.quorum.member import Member
from kafkatools.core.broker.metadata.quorum.quorum_states import Leader, Resigned
from kafkatools.core.broker.metadata.quorum.voter_set import SUPPORTED_VERSIONS, ReplicaKey

AUTO_JOIN_TIMEOUT_MS = 30_000


def vote(raft: Member, voter_id: int, *, is_pre_vote: bool) -> wire.Fields:
    """Build a Vote request for the candidacy of this member."""
    end = raft.log.end
    candidate = {
        "replica_epoch": raft.epoch,
        "replica_id": raft.node_id,
        "replica_directory_id": raft.settings.directory_id,
        "voter_directory_id": raft.voter_set.by_id[voter_id].directory_id,
        "last_offset_epoch": end.epoch,
        "last_offset": end.offset,
        "pre_vote": is_pre_vote,
    }
    return wire.vote_request(raft.settings.cluster_id, voter_id, candidate)


def begin_epoch(raft: Member, voter_id: int, state: Leader) -> wire.Fields:
    """Build a BeginQuorumEpoch request of this leader."""
    voter = raft.voter_set.by_id[voter_id].key
    return wire.begin_request(raft.settings.cluster_id, voter, raft.node_id, state.epoch, _end_points(raft))


def end_epoch(raft: Member, state: Resigned) -> wire.Fields:
    """Build an EndQuorumEpoch request of a leader that resigned."""
    voters = raft.voter_set.by_id
    successors = [voters[i].key if i in voters else ReplicaKey(i) for i in state.successors]
    return wire.end_request(raft.settings.cluster_id, raft.node_id, state.epoch, successors, _end_points(raft))


def _end_points(raft: Member) -> list[wire.Fields]:
    """The listeners of this member's controller; without settings those that the voter set has."""
    voter = raft.voter_set.by_id.get(raft.node_id)
    points = raft.settings.end_points or (voter.end_points if voter is not None else ())
    return [point._asdict() for point in points]


def update_voter(raft: Member) -> wire.Fields:
    """Build an UpdateRaftVoter request with the listeners and versions of this voter."""
    lowest, highest = SUPPORTED_VERSIONS
    return {
        "cluster_id": raft.settings.cluster_id,
        "current_leader_epoch": raft.epoch,
        "voter_id": raft.node_id,
        "voter_directory_id": raft.settings.directory_id,
        "listeners": _end_points(raft),
        "k_raft_version_feature": {"min_supported_version": lowest, "max_supported_version": highest},
    }


def add_voter(raft: Member) -> wire.Fields:
    """Build the AddRaftVoter request by which this observer joins the voters."""
    return {
        "cluster_id": raft.settings.cluster_id,
        "timeout": AUTO_JOIN_TIMEOUT_MS,
        "voter_id": raft.node_id,
        "voter_directory_id": raft.settings.directory_id,
        "listeners": _end_points(raft),
        "ack_when_committed": False,
    }


def remove_voter(raft: Member, voter: ReplicaKey) -> wire.Fields:
    """Build the RemoveRaftVoter request for this node's voter of an earlier directory."""
    return {
        "cluster_id": raft.settings.cluster_id,
        "voter_id": voter.node_id,
        "voter_directory_id": voter.directory_id,
    }
