"""Who leads, as far as a member knows: from its disk when it starts, from what others say later."""

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
    """What a member was when it stopped; a leader must not lead the same epoch again, it may have lost records."""
    epoch, leader_id, voted_id = stored
    fetch_deadline_ms = raft.now_ms + raft.settings.fetch_timeout_ms
    if leader_id is not None and leader_id not in raft.voters:
        leader_id = None
    if not raft.is_voter:
        if leader_id is not None:
            return Follower(epoch, leader_id, None, fetch_deadline_ms)
        return Unattached(epoch, None, None, NEVER)
    deadline_ms = raft.now_ms + raft.random_election_timeout()
    if leader_id == raft.node_id:
        return Resigned(epoch, deadline_ms, set(raft.other_voters), ())
    if leader_id is not None:
        return Follower(epoch, leader_id, voted_id, fetch_deadline_ms)
    if voted_id == raft.node_id:
        return Candidate(epoch, raft.node_id, deadline_ms, Votes(raft.voters, raft.node_id), 1)
    return Unattached(epoch, None, voted_id, deadline_ms)


def note_leader(raft: Member, epoch: int, leader_id: int | None) -> bool:
    """What a message says about epoch and leader; False when it contradicts what is known, or cannot be
    (maybeTransition)."""
    known = raft.state
    if epoch < known.epoch:
        return True
    if leader_id is None:
        if epoch > known.epoch:
            raft.become_unattached(epoch)
        return True
    if leader_id not in raft.voters:
        return False
    if leader_id == raft.node_id:
        return _note_own(raft, epoch)
    if epoch > known.epoch or (known.leader_id in (None, leader_id) and not isinstance(known, Follower | Resigned)):
        raft.become_follower(epoch, leader_id)
        return True
    return known.leader_id == leader_id


def _note_own(raft: Member, epoch: int) -> bool:
    """Others say that this node leads."""
    known = raft.state
    if epoch == known.epoch and isinstance(known, Leader | Resigned):
        return True
    if epoch == known.epoch and known.leader_id is not None:
        return False
    raft.become_again_resigned(epoch)  # its disk was replaced
    return True
