"""DescribeQuorum (key 55), versions 0-2: the quorum of one behind `__cluster_metadata`.

Not done: directories of voters (a dynamic quorum is not served); there are no observers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.controller.acls import CLUSTER, CLUSTER_NAME, DESCRIBE
from kafkatools.core.broker.controller.topics import METADATA_TOPIC
from kafkatools.core.broker.requests import Request, Response
from kafkatools.core.errors import KafkaError, UnknownTopicOrPartition

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node

VERSIONS = (0, 2)


def handle(node: Node, request: Request) -> Response:
    """The one voter, which is the leader and has everything."""
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
    listeners = [{"name": "CONTROLLER", "host": node.advertised_host, "port": node.advertised_port}]
    nodes = [{"node_id": node.node_id, "listeners": listeners}] if is_right else []
    return request.respond({"error_code": 0, "error_message": "", "topics": topics, "nodes": nodes})


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
