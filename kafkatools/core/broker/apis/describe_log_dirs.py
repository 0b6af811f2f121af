"""DescribeLogDirs (key 35), versions 1-5: what lies in each log directory, how full its disk is, whether it is offline
or cordoned.

Not done: nothing.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.metadata.controller.acls import CLUSTER, CLUSTER_NAME, DESCRIBE
from kafkatools.core.broker.server.requests import Request, Response
from kafkatools.core.errors import ClusterAuthorizationFailed, KafkaStorageError
from kafkatools.core.protocol.slices import paced

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node
    from kafkatools.core.log.partition.log_directory import LogDirectory


def handle(node: Node, request: Request) -> Response:
    """One result per directory."""
    entity = request.decode()
    if not node.authorize(request, DESCRIBE, CLUSTER, CLUSTER_NAME):
        return request.respond({"error_code": ClusterAuthorizationFailed.code, "results": []})
    wanted = None if entity.topics is None else {topic.topic: set(topic.partitions) for topic in entity.topics}
    results = [_result(node, directory, wanted) for directory in node.logs.directories]
    return request.respond({"error_code": 0, "results": results})


def _result(node: Node, directory: LogDirectory, wanted: Mapping[str, set[int]] | None) -> dict[str, Any]:
    result: dict[str, Any] = {
        "error_code": 0,
        "log_dir": os.path.abspath(directory.path),
        "topics": [],
        "is_cordoned": directory.is_cordoned,
    }
    try:
        space = None if directory.failure is not None else os.statvfs(directory.path)
    except OSError as error:
        node.logs.note_failure(directory, error)
        space = None
    if space is None:
        return {**result, "error_code": KafkaStorageError.code}
    return {
        **result,
        "topics": _topics(node, directory, wanted),
        "total_bytes": space.f_frsize * space.f_blocks,
        "usable_bytes": space.f_frsize * space.f_bavail,
    }


def _topics(node: Node, directory: LogDirectory, wanted: Mapping[str, set[int]] | None) -> list[dict[str, Any]]:
    topics: dict[str, list[dict[str, Any]]] = {}
    for name, log in paced(sorted(directory.logs.items(), key=lambda item: item[0])):
        if wanted is not None and name.partition not in wanted.get(name.topic, ()):
            continue
        current = node.logs.logs.get(name)
        is_future = log is not current
        lag = 0 if current is None else max(0, current.log_end_offset - log.log_end_offset)
        topics.setdefault(name.topic, []).append(
            {
                "partition_index": name.partition,
                "partition_size": log.size_bytes,
                "offset_lag": lag,
                "is_future_key": is_future,
            }
        )
    return [{"name": topic, "partitions": partitions} for topic, partitions in topics.items()]
