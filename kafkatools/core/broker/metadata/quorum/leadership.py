"""State transitions from what a member reads on its disk at the start, and from the leaders that messages name."""

from __future__ import annotations

from kafkatools.core.broker.metadata.quorum.election_store import ElectionState
from kafkatools.core.broker.metadata.quorum.member import Member
from kafkatools.core.broker.metadata.quorum.quorum_states import (
    NEVER,
    Candidate,
    Follower,
    Leader,
    Resigned,
    State,
    Unattached,
    Votes,
)


def initial_state(raft: Member, stored: ElectionState) -> State:
    """Return a member's state at the start. A former leader is Resigned: it may have lost records of its epoch."""
    epoch, leader_id, voted_id, directory_id = stored
    fetch_deadline_ms = raft.now_ms + raft.settings.fetch_timeout_ms
    if not raft.may_stand and leader_id == raft.node_id:  # it led until its removal: no further vote in that epoch
        leader_id, voted_id, directory_id = None, raft.node_id, raft.settings.directory_id
    if leader_id is not None and leader_id not in (raft.node_id, *raft.voters):
        leader_id = None
    if not raft.may_stand:
        if leader_id is not None:
            return Follower(epoch, leader_id, voted_id, fetch_deadline_ms, voted_directory_id=directory_id)
        return Unattached(epoch, None, voted_id, NEVER, directory_id)
    deadline_ms = raft.now_ms + raft.random_election_timeout()
    if leader_id == raft.node_id:
        return Resigned(epoch, deadline_ms, set(raft.other_voters), ())
    if leader_id is not None:
        return Follower(epoch, leader_id, voted_id, fetch_deadline_ms, voted_directory_id=directory_id)
    if voted_id == raft.node_id and directory_id in (None, raft.settings.directory_id):
        votes = Votes(raft.voter_set.by_id, raft.node_id)
        return Candidate(epoch, raft.node_id, deadline_ms, votes, 1, voted_directory_id=directory_id)
    return Unattached(epoch, None, voted_id, deadline_ms, directory_id)


def note_leader(raft: Member, epoch: int, leader_id: int | None) -> bool:
    """Apply a message's epoch and leader (maybeTransition): a newer epoch or a new leader changes the state, an older
    epoch is ignored. Returns False if they contradict this member's state."""
    state = raft.state
    if epoch < state.epoch:
        return True
    if leader_id is None:
        if epoch > state.epoch:
            raft.become_unattached(epoch)
        return True
    if raft.addresses.of(leader_id) is None and leader_id != raft.node_id:
        return False
    if leader_id == raft.node_id:
        return _note_own(raft, epoch)
    if epoch > state.epoch or (state.leader_id in (None, leader_id) and not isinstance(state, Follower | Resigned)):
        raft.become_follower(epoch, leader_id)
        return True
    return state.leader_id == leader_id


def _note_own(raft: Member, epoch: int) -> bool:
    """Apply a message that names this node as the leader. Returns False if it knows another leader of that epoch. An
    epoch that it does not remember leading makes it Resigned."""
    state = raft.state
    if epoch == state.epoch and isinstance(state, Leader | Resigned):
        return True
    if epoch == state.epoch and state.leader_id is not None:
        return False
    raft.become_again_resigned(epoch)  # the disk of this node was replaced
    return True
