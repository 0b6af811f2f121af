"""Handlers for the metadata quorum: Fetch, FetchSnapshot, Vote, BeginQuorumEpoch, EndQuorumEpoch, DescribeQuorum, and
for the voters of a dynamic quorum (KIP-853) AddRaftVoter, RemoveRaftVoter, UpdateRaftVoter.

A Vote or BeginQuorumEpoch for this voter with another directory id gets INVALID_VOTER_KEY. Vote, Fetch and
FetchSnapshot carry the directory id of this node. Observers and the voters of a dynamic quorum differ by node and
directory id, static voters by node id only, as in Kafka with kraft.version 0.

The leader of the quorum changes the voters, any other member answers NOT_LEADER_OR_FOLLOWER. Add and remove respond
when the change is committed; version 1 of AddRaftVoter may ask for the response after the append.
"""

from __future__ import annotations

from kafkatools.core.broker.apis.contexts import QuorumContext, RaftContext
from kafkatools.core.broker.metadata.controller.topics import METADATA_TOPIC
from kafkatools.core.broker.server.apis import decode_permitted
from kafkatools.core.broker.server.deferred import Deferred
from kafkatools.core.broker.server.requests import Request, Response, error_fields
from kafkatools.core.errors import NotController, NotLeaderOrFollower, UnknownTopicOrPartition
from kafkatools.core.protocol.entities import Fields


def handle_raft_fetch(node: RaftContext, request: Request) -> Response:
    """Answer Fetch on a controller's listener: records of the metadata log for voters and observers (KIP-595).

    Waits for new records, at most the request's maximum wait. Versions before 12 are not served: they lack the last
    fetched epoch, by which the leader finds where a replica's log diverges. Raises ClusterAuthorizationFailed.
    """
    entity = decode_permitted(node, request)
    response = Deferred(request)
    node.raft.handle_fetch(entity, node.clock.now_ms(), response.respond)
    return response.result()


def handle_vote(node: RaftContext, request: Request) -> Response:
    """Answer Vote: grant or deny a candidate this voter's vote or pre-vote (KIP-595, KIP-996). Raises
    ClusterAuthorizationFailed."""
    entity = decode_permitted(node, request)
    return request.respond(node.raft.handle_vote(entity, node.clock.now_ms()))


def handle_begin_quorum_epoch(node: RaftContext, request: Request) -> Response:
    """Answer BeginQuorumEpoch: an elected leader announces its epoch to this voter (KIP-595). Raises
    ClusterAuthorizationFailed."""
    entity = decode_permitted(node, request)
    return request.respond(node.raft.handle_begin_quorum_epoch(entity, node.clock.now_ms()))


def handle_end_quorum_epoch(node: RaftContext, request: Request) -> Response:
    """Answer EndQuorumEpoch: a leader resigns and names its preferred successors (KIP-595). Raises
    ClusterAuthorizationFailed."""
    entity = decode_permitted(node, request)
    return request.respond(node.raft.handle_end_quorum_epoch(entity, node.clock.now_ms()))


def handle_fetch_snapshot(node: RaftContext, request: Request) -> Response:
    """Answer FetchSnapshot: a range of bytes of a metadata snapshot (KIP-630). Raises ClusterAuthorizationFailed."""
    entity = decode_permitted(node, request)
    return request.respond(node.raft.handle_fetch_snapshot(entity, node.clock.now_ms()))


def handle_describe_quorum(node: QuorumContext, request: Request) -> Response:
    """Answer DescribeQuorum: leader, epoch, high watermark, and the log end offsets of voters and observers.

    Only the leader of the quorum knows them. Another node responds NOT_LEADER_OR_FOLLOWER, with the leader or the
    reason why there is none. A quorum of one node is its own leader. A request for anything but partition 0 of
    `__cluster_metadata` gets UNKNOWN_TOPIC_OR_PARTITION. Raises ClusterAuthorizationFailed.
    """
    entity = decode_permitted(node, request)
    names = [(topic.topic_name, part.partition_index) for topic in entity.topics for part in topic.partitions]
    nodes: list[Fields] = []
    quorum = error_fields(UnknownTopicOrPartition())
    if names == [(METADATA_TOPIC, 0)]:
        quorum = _described(node)
        listener = node.quorum.settings.listener_name
        nodes = [
            {"node_id": node_id, "listeners": [{"name": listener, "host": host, "port": port}]}
            for node_id, (host, port) in sorted(node.quorum.voters.items())
        ]
    topics = [
        {
            "topic_name": topic.topic_name,
            "partitions": [
                {"partition_index": part.partition_index, "error_message": "", **quorum} for part in topic.partitions
            ],
        }
        for topic in entity.topics
    ]
    return request.respond({"error_message": "", "topics": topics, "nodes": nodes})


def _described(node: QuorumContext) -> Fields:
    try:
        quorum = node.quorum.describe(node.clock.now_ms())
    except NotController:
        leader_id = node.quorum.leader_id
        reason = f"node {leader_id} leads it" if leader_id is not None else node.no_controller_reason()
        message = f"Node {node.quorum.node_id} does not lead the quorum: {reason}"
        return {"error_code": NotLeaderOrFollower.code, "error_message": message}
    return {
        "leader_id": quorum.leader_id,
        "leader_epoch": quorum.leader_epoch,
        "high_watermark": quorum.high_watermark,
        "current_voters": [voter._asdict() for voter in quorum.voters],
        "observers": [observer._asdict() for observer in quorum.observers],
    }


def handle_add_raft_voter(node: QuorumContext, request: Request) -> Response:
    """Answer AddRaftVoter: make an observer a voter. Raises ClusterAuthorizationFailed."""
    entity = decode_permitted(node, request)
    later = Deferred(request)
    node.quorum.handle_add_voter(entity, node.clock.now_ms(), later.respond)
    return later.result()


def handle_remove_raft_voter(node: QuorumContext, request: Request) -> Response:
    """Answer RemoveRaftVoter: make a voter an observer. Raises ClusterAuthorizationFailed."""
    entity = decode_permitted(node, request)
    later = Deferred(request)
    node.quorum.handle_remove_voter(entity, node.clock.now_ms(), later.respond)
    return later.result()


def handle_update_raft_voter(node: RaftContext, request: Request) -> Response:
    """Answer UpdateRaftVoter: a voter reports its listeners and the versions that it supports. Raises
    ClusterAuthorizationFailed."""
    entity = decode_permitted(node, request)
    return request.respond(node.raft.handle_update_voter(entity, node.clock.now_ms()))
