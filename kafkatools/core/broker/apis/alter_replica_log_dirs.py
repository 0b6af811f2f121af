"""AlterReplicaLogDirs (key 34), versions 1-2: moving replicas between the directories of this broker.

A replica that lies where it is to be stays there; on its way elsewhere it is called back. One that is not here yet will
be begun in that directory, and is answered REPLICA_NOT_AVAILABLE or UNKNOWN_TOPIC_OR_PARTITION.
Not done: nothing.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kafkatools.core.broker.metadata.controller.acls import ALTER, CLUSTER, CLUSTER_NAME
from kafkatools.core.broker.server.requests import Request, Response
from kafkatools.core.errors import (
    ClusterAuthorizationFailed,
    KafkaError,
    LogDirNotFound,
)
from kafkatools.core.topic_partition import TopicPartition

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node


def handle(node: Node, request: Request) -> Response:
    """One answer per partition."""
    entity = request.decode()
    is_allowed = node.authorize(request, ALTER, CLUSTER, CLUSTER_NAME)
    results: dict[str, dict[int, int]] = {}
    for directory in entity.dirs:
        for topic in directory.topics:
            codes = results.setdefault(topic.name, {})
            for index in topic.partitions:
                if not is_allowed:
                    codes[index] = ClusterAuthorizationFailed.code
                else:
                    codes[index] = _move(node, directory.path, TopicPartition(topic.name, index))
    return request.respond(
        {
            "results": [
                {
                    "topic_name": name,
                    "partitions": [{"partition_index": index, "error_code": code} for index, code in codes.items()],
                }
                for name, codes in results.items()
            ]
        }
    )


def _move(node: Node, path: str, name: TopicPartition) -> int:
    try:
        if node.keeper is not None:
            node.keeper.moves.alter(name, path)
        elif not os.path.isabs(path) or node.logs.find_directory(path) is None:
            raise LogDirNotFound
        elif name.partition not in node.replicas.partitions.get(name.topic, {}):
            raise node.replicas.absence(*name)
    except KafkaError as error:
        node.note_failure(error)
        return error.code
    return 0
