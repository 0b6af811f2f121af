"""DescribeLogDirs (key 35), versions 1-5: sizes of the partitions in the one log directory.

Not done: future replicas and cordoned directories (there are none).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.controller.acls import CLUSTER, CLUSTER_NAME, DESCRIBE
from kafkatools.core.broker.requests import Request, Response
from kafkatools.core.errors import ClusterAuthorizationFailed

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node

VERSIONS = (1, 5)


def handle(node: Node, request: Request) -> Response:
    """The directory and what lies in it."""
    entity = request.decode()
    if not node.authorize(request, DESCRIBE, CLUSTER, CLUSTER_NAME):
        return request.respond({"error_code": ClusterAuthorizationFailed.code, "results": []})
    wanted = None if entity.topics is None else {topic.topic: set(topic.partitions) for topic in entity.topics}
    topics = []
    for name, partitions in sorted(node.replicas.partitions.items()):
        chosen: list[dict[str, Any]] = [
            {
                "partition_index": index,
                "partition_size": partition.log.size_bytes,
                "offset_lag": 0,
                "is_future_key": False,
            }
            for index, partition in sorted(partitions.items())
            if wanted is None or index in wanted.get(name, ())
        ]
        if chosen:
            topics.append({"name": name, "partitions": chosen})
    space = os.statvfs(node.log_directory)
    result = {
        "error_code": 0,
        "log_dir": os.path.abspath(node.log_directory),
        "topics": topics,
        "total_bytes": space.f_frsize * space.f_blocks,
        "usable_bytes": space.f_frsize * space.f_bavail,
    }
    return request.respond({"error_code": 0, "results": [result]})
