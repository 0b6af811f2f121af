"""The metadata quorum: Fetch of the metadata log, Vote, BeginQuorumEpoch, EndQuorumEpoch, FetchSnapshot,
DescribeQuorum.

Not done: directories of voters and replicas (newer versions carry them; the voters are fixed).
"""

from __future__ import annotations

from kafkatools.core.broker.apis.contexts import QuorumContext, RaftContext
from kafkatools.core.broker.metadata.controller.topics import METADATA_TOPIC
from kafkatools.core.broker.server.apis import ensure_permitted
from kafkatools.core.broker.server.deferred import Deferred
from kafkatools.core.broker.server.requests import Request, Response, error_fields
from kafkatools.core.errors import NotController, NotLeaderOrFollower, UnknownTopicOrPartition
from kafkatools.core.protocol.entities import Fields


def handle_raft_fetch(node: RaftContext, request: Request) -> Response:
    """Fetch on the controller's listener: the metadata log for voters and observers (KIP-595).

    The last fetched epoch, by which a leader sees where a replica's log parts from its own, came with version 12:
    older ones are refused as INVALID_REQUEST. Waits while there is nothing new. Answer now, or when there is
    something to tell.
    """
    ensure_permitted(node, request)
    response = Deferred(request)
    node.raft.handle_fetch(request.decode(), node.clock.now_ms(), response.respond)
    return response.result()


def handle_vote(node: RaftContext, request: Request) -> Response:
    """Vote: a member of the quorum asks for a vote, or whether it would get one (KIP-595, KIP-996)."""
    ensure_permitted(node, request)
    return request.respond(node.raft.handle_vote(request.decode(), node.clock.now_ms()))


def handle_begin_quorum_epoch(node: RaftContext, request: Request) -> Response:
    """BeginQuorumEpoch: a leader tells a voter that it was elected (KIP-595)."""
    ensure_permitted(node, request)
    return request.respond(node.raft.handle_begin_quorum_epoch(request.decode(), node.clock.now_ms()))


def handle_end_quorum_epoch(node: RaftContext, request: Request) -> Response:
    """EndQuorumEpoch: a leader resigns and names who should follow it (KIP-595)."""
    ensure_permitted(node, request)
    return request.respond(node.raft.handle_end_quorum_epoch(request.decode(), node.clock.now_ms()))


def handle_fetch_snapshot(node: RaftContext, request: Request) -> Response:
    """FetchSnapshot: a part of a metadata snapshot (KIP-630)."""
    ensure_permitted(node, request)
    return request.respond(node.raft.handle_fetch_snapshot(request.decode(), node.clock.now_ms()))


def handle_describe_quorum(node: QuorumContext, request: Request) -> Response:
    """DescribeQuorum: the quorum behind `__cluster_metadata`, as its leader sees it.

    In a cluster the leader of the quorum answers; another node says NOT_LEADER_OR_FOLLOWER, and who leads or why
    nobody does. The voters and observers with what they have; a quorum of one is its leader and has everything.
    """
    entity = request.decode()
    ensure_permitted(node, request)
    names = [(topic.topic_name, part.partition_index) for topic in entity.topics for part in topic.partitions]
    is_right = names == [(METADATA_TOPIC, 0)]
    topics = [
        {
            "topic_name": topic.topic_name,
            "partitions": [_partition(node, part.partition_index, is_right) for part in topic.partitions],
        }
        for topic in entity.topics
    ]
    nodes = _nodes(node) if is_right else []
    return request.respond({"error_message": "", "topics": topics, "nodes": nodes})


def _nodes(node: QuorumContext) -> list[Fields]:
    name = node.quorum.settings.listener_name
    return [
        {"node_id": node_id, "listeners": [{"name": name, "host": host, "port": port}]}
        for node_id, (host, port) in sorted(node.quorum.voters.items())
    ]


def _described(node: QuorumContext) -> Fields:
    try:
        found = node.quorum.describe(node.clock.now_ms())
    except NotController:
        leader_id = node.quorum.leader_id
        leads = f"node {leader_id} leads it" if leader_id is not None else node.why_no_controller()
        message = f"Node {node.quorum.node_id} does not lead the quorum: {leads}"
        return {"error_code": NotLeaderOrFollower.code, "error_message": message}
    return {
        "leader_id": found.leader_id,
        "leader_epoch": found.leader_epoch,
        "high_watermark": found.high_watermark,
        "current_voters": [each._asdict() for each in found.voters],
        "observers": [each._asdict() for each in found.observers],
    }


def _partition(node: QuorumContext, index: int, is_right: bool) -> Fields:
    found = _described(node) if is_right else error_fields(UnknownTopicOrPartition())
    return {"partition_index": index, "error_message": "", **found}
