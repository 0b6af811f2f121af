"""A member of the quorum whose disk has failed: a leader resigns, asks the other voters for an election and learns
which leader they elect. Epochs and votes are no longer written to disk, so the member neither fetches nor votes nor
answers other requests; its node is about to end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkatools.core.broker.metadata.quorum import raft_messages as wire
from kafkatools.core.broker.metadata.quorum.member import Member
from kafkatools.core.broker.metadata.quorum.quorum_states import NEVER, Follower, Leader, Resigned

if TYPE_CHECKING:
    from kafkatools.core.broker.metadata.quorum.peer_requests import PeerRequests
    from kafkatools.core.protocol.entities import Entity


def resign(raft: Member) -> Resigned | None:
    """The Resigned state of a leader whose disk failed; None for any other member."""
    state = raft.state
    if not isinstance(state, Leader):
        return None
    return Resigned(state.epoch, NEVER, set(raft.other_voters), state.successors())


def take_answers(raft: Member, requests: PeerRequests) -> None:
    """Note the voters that confirmed the request for an election (EndQuorumEpoch); the others are asked again."""
    for answer in requests.take_answers():
        requests.settle(answer, raft.now_ms, is_settled=answer.entity is not None)
        if answer.entity is not None and isinstance(raft.state, Resigned):
            raft.state.unacknowledged.discard(answer.node_id)


def has_resigned(raft: Member) -> bool:
    """Whether a new leader is known, or every other voter has confirmed the request for an election."""
    return not isinstance(raft.state, Resigned) or not raft.state.unacknowledged


def elected(raft: Member, entity: Entity) -> Follower | None:
    """The state after a BeginQuorumEpoch request; None when the request names no new leader."""
    asked = wire.only_partition(entity.topics, "topic_name")
    is_of_cluster = entity.cluster_id is None or entity.cluster_id == raft.settings.cluster_id
    if asked is None or not is_of_cluster or asked.leader_id not in raft.voters or asked.leader_id == raft.node_id:
        return None
    if asked.leader_epoch < raft.epoch or raft.leader_id == asked.leader_id:
        return None
    return Follower(asked.leader_epoch, asked.leader_id, None, NEVER)
