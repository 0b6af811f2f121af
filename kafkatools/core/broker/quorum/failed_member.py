"""What a member of the quorum still does when its disk has failed: as the leader it resigns and asks the other voters
to elect one, and it learns who that is. Epochs and votes are kept in memory only, so it fetches, votes and answers
nothing any more; its node is about to end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.quorum import raft_messages as wire
from kafkatools.core.broker.quorum.quorum_states import NEVER, Follower, Leader, Resigned

if TYPE_CHECKING:
    from kafkatools.core.broker.quorum.peer_requests import PeerRequests
    from kafkatools.core.broker.quorum.raft import Raft


def resign(raft: Raft) -> Resigned | None:
    """The state of a leader that resigns because of its disk; None for any other member."""
    state = raft.state
    if not isinstance(state, Leader):
        return None
    return Resigned(state.epoch, NEVER, set(raft.other_voters), state.successors())


def take_answers(raft: Raft, requests: PeerRequests) -> None:
    """Note the voters that know that an election is wanted; the others are asked again."""
    for answer in requests.take_answers():
        requests.settle(answer, raft.now_ms, is_settled=answer.entity is not None)
        if answer.entity is not None and isinstance(raft.state, Resigned):
            raft.state.unacknowledged.discard(answer.node_id)


def has_resigned(raft: Raft) -> bool:
    """Whether every voter that can be reached was asked to elect a leader, or there is one."""
    return not isinstance(raft.state, Resigned) or not raft.state.unacknowledged


def elected(raft: Raft, entity: Any) -> Follower | None:
    """The state after a BeginQuorumEpoch request; None when it tells nothing new."""
    asked = wire.only_partition(entity.topics, "topic_name")
    is_of_cluster = entity.cluster_id is None or entity.cluster_id == raft.settings.cluster_id
    if asked is None or not is_of_cluster or asked.leader_id not in raft.voters or asked.leader_id == raft.node_id:
        return None
    if asked.leader_epoch < raft.epoch or raft.leader_id == asked.leader_id:
        return None
    return Follower(asked.leader_epoch, asked.leader_id, None, NEVER)
