"""DescribeQuorum (key 55), versions 0-2: the quorum behind `__cluster_metadata`, as its leader sees it.

In a cluster the leader of the quorum answers; another node says NOT_LEADER_OR_FOLLOWER, and who leads or why nobody
does.
Not done: directories of voters (a dynamic quorum is not served).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from kafkatools.core.broker.metadata.controller.acls import CLUSTER, CLUSTER_NAME, DESCRIBE
from kafkatools.core.broker.metadata.controller.topics import METADATA_TOPIC
from kafkatools.core.broker.server.requests import Request, Response
from kafkatools.core.errors import KafkaError, NotController, NotLeaderOrFollower, UnknownTopicOrPartition

if TYPE_CHECKING:
    from kafkatools.core.broker.cluster_node import ClusterNode
    from kafkatools.core.broker.metadata.quorum.quorum_description import ReplicaDescription
    from kafkatools.core.broker.metadata.quorum.raft import Raft
    from kafkatools.core.broker.node import Node


def handle(node: Node, request: Request) -> Response:
    """The voters and observers with what they have; a quorum of one is its leader and has everything."""
    entity = request.decode()
    try:
        node.authorize_or_raise(request, DESCRIBE, CLUSTER, CLUSTER_NAME)
    except KafkaError as error:
        return request.respond({"error_code": error.code, "error_message": str(error), "topics": [], "nodes": []})
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
    return request.respond({"error_code": 0, "error_message": "", "topics": topics, "nodes": nodes})


def _nodes(node: Node) -> list[dict[str, Any]]:
    raft: Raft | None = getattr(node, "raft", None)
    addresses = {node.node_id: (node.advertised_host, node.advertised_port)} if raft is None else raft.voters
    name = "CONTROLLER" if raft is None else raft.settings.listener_name
    return [
        {"node_id": node_id, "listeners": [{"name": name, "host": host, "port": port}]}
        for node_id, (host, port) in sorted(addresses.items())
    ]


def _described(node: ClusterNode) -> dict[str, Any]:
    raft = node.raft
    try:
        found = raft.describe(node.clock.now_ms())
    except NotController:
        leads = f"node {raft.leader_id} leads it" if raft.leader_id is not None else node.why_no_controller()
        message = f"Node {raft.node_id} does not lead the quorum: {leads}"
        return {"error_code": NotLeaderOrFollower.code, "error_message": message}
    return {
        "leader_id": found.leader_id,
        "leader_epoch": found.leader_epoch,
        "high_watermark": found.high_watermark,
        "current_voters": [_replica(each) for each in found.voters],
        "observers": [_replica(each) for each in found.observers],
    }


def _replica(found: ReplicaDescription) -> dict[str, Any]:
    return {"replica_directory_id": None, **found._asdict()}


def _partition(node: Node, index: int, is_right: bool) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "partition_index": index,
        "error_code": 0,
        "error_message": "",
        "leader_id": 0,
        "leader_epoch": 0,
        "high_watermark": 0,
        "current_voters": [],
        "observers": [],
    }
    if not is_right:
        missing = UnknownTopicOrPartition()
        return {**fields, "error_code": missing.code, "error_message": str(missing)}
    if getattr(node, "raft", None) is not None:
        return {**fields, **_described(cast("ClusterNode", node))}
    epoch, end_offset = node.controller.quorum_position
    now_ms = node.clock.wall_ms()
    voter = {
        "replica_id": node.node_id,
        "replica_directory_id": None,
        "log_end_offset": end_offset,
        "last_fetch_timestamp": now_ms,
        "last_caught_up_timestamp": now_ms,
    }
    return {
        **fields,
        "leader_id": node.node_id,
        "leader_epoch": epoch,
        "high_watermark": end_offset,
        "current_voters": [voter],
    }
