"""A quorum member whose disk has failed: a leader resigns, asks the other voters for an election and learns the new
leader. Epochs and votes are no longer written to disk, so the member does not fetch, vote or answer other requests. Its
node is about to end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkatools.core.broker.metadata.quorum import raft_messages as wire
from kafkatools.core.broker.metadata.quorum.member import Member
from kafkatools.core.broker.metadata.quorum.quorum_states import NEVER, Follower, Leader, Resigned

if TYPE_CHECKING:
    from kafkatools.core.broker.metadata.quorum.peer_requests import PeerRequests
    from kafkatools.core.protocol.entities import Entity


def resign(raft: Member) -> Resigned | None:
    """Return the Resigned state of a leader whose disk failed; None for any other member."""
    state = raft.state
    if not isinstance(state, Leader):
        return None
    return Resigned(state.epoch, NEVER, set(raft.other_voters), state.successors())


def take_responses(raft: Member, requests: PeerRequests) -> None:
    """Note the voters that responded to EndQuorumEpoch, with an error or not. Without a response the request is
    repeated after a back-off."""
    for response in requests.take_responses():
        requests.settle(response, raft.now_ms, is_settled=response.entity is not None)
        if response.entity is not None and isinstance(raft.state, Resigned):
            raft.state.unacknowledged.discard(response.node_id)


def has_resigned(raft: Member) -> bool:
    """Return whether nothing is left to do: the member is not Resigned, such as after it learned of a new leader, or
    every other voter has responded to EndQuorumEpoch."""
    return not isinstance(raft.state, Resigned) or not raft.state.unacknowledged


def elected(raft: Member, entity: Entity) -> Follower | None:
    """Return the Follower state after a BeginQuorumEpoch request. None unless the request names another voter as a new
    leader, in this or a later epoch."""
    partition = wire.only_partition(entity.topics, "topic_name")
    is_of_cluster = entity.cluster_id is None or entity.cluster_id == raft.settings.cluster_id
    if (
        partition is None
        or not is_of_cluster
        or raft.addresses.of(partition.leader_id) is None
        or partition.leader_id == raft.node_id
    ):
        return None
    if partition.leader_epoch < raft.epoch or raft.leader_id == partition.leader_id:
        return None
    return Follower(partition.leader_epoch, partition.leader_id, None, NEVER)
