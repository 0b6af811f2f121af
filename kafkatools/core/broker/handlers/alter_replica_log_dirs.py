"""AlterReplicaLogDirs (key 34), versions 1-2: moving replicas between the directories of this broker.

There is one directory: a replica that is to lie there does so already, another directory is LOG_DIR_NOT_FOUND.
Not done: several log directories.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from kafkatools.core.broker.controller.acls import ALTER, CLUSTER, CLUSTER_NAME
from kafkatools.core.broker.requests import Request, Response
from kafkatools.core.errors import ClusterAuthorizationFailed, LogDirNotFound, UnknownTopicOrPartition

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node

VERSIONS = (1, 2)


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
                    codes[index] = _move(node, directory.path, topic.name, index)
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


def _move(node: Node, path: str, topic: str, index: int) -> int:
    if not os.path.isabs(path) or os.path.abspath(path) != os.path.abspath(node.log_directory):
        return LogDirNotFound.code
    return 0 if index in node.replicas.partitions.get(topic, {}) else UnknownTopicOrPartition.code
