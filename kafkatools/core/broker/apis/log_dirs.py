"""Handlers for log directories: DescribeLogDirs, AlterReplicaLogDirs."""

from __future__ import annotations

import os
from collections.abc import Mapping

from kafkatools.core.broker.apis.contexts import LogDirContext
from kafkatools.core.broker.server.apis import is_permitted
from kafkatools.core.broker.server.requests import Request, Response
from kafkatools.core.errors import ClusterAuthorizationFailed, KafkaError, KafkaStorageError, LogDirNotFound
from kafkatools.core.log.partition.log_directory import LogDirectory
from kafkatools.core.protocol.entities import Fields
from kafkatools.core.protocol.slices import paced
from kafkatools.core.topic_partition import TopicPartition


def handle_describe_log_dirs(node: LogDirContext, request: Request) -> Response:
    """Answer DescribeLogDirs: size and lag of the replicas in each log directory, and the bytes of its disk; all
    replicas, or those of the named partitions.

    An offline directory has KAFKA_STORAGE_ERROR; one whose disk cannot be read here is taken offline. Without DESCRIBE
    on the cluster the response has CLUSTER_AUTHORIZATION_FAILED and no directories.
    """
    entity = request.decode()
    if not is_permitted(node, request):
        # Versions before 3 have no error code: their clients get no directories.
        return request.respond({"error_code": ClusterAuthorizationFailed.code})
    requested = None if entity.topics is None else {topic.topic: set(topic.partitions) for topic in entity.topics}
    return request.respond({"results": [_result(node, directory, requested) for directory in node.logs.directories]})


def _result(node: LogDirContext, directory: LogDirectory, requested: Mapping[str, set[int]] | None) -> Fields:
    result: Fields = {"log_dir": os.path.abspath(directory.path), "is_cordoned": directory.is_cordoned}
    try:
        space = None if directory.failure is not None else os.statvfs(directory.path)
    except OSError as error:
        node.logs.note_failure(directory, error)
        space = None
    if space is None:
        return {**result, "error_code": KafkaStorageError.code}
    return {
        **result,
        "topics": _topics(node, directory, requested),
        "total_bytes": space.f_frsize * space.f_blocks,
        "usable_bytes": space.f_frsize * space.f_bavail,
    }


def _topics(node: LogDirContext, directory: LogDirectory, requested: Mapping[str, set[int]] | None) -> list[Fields]:
    topics: dict[str, list[Fields]] = {}
    for name, log in paced(sorted(directory.logs.items(), key=lambda item: item[0])):
        if requested is not None and name.partition not in requested.get(name.topic, ()):
            continue
        current = node.logs.logs.get(name)
        lag = 0 if current is None else max(0, current.log_end_offset - log.log_end_offset)
        topics.setdefault(name.topic, []).append(
            {
                "partition_index": name.partition,
                "partition_size": log.size_bytes,
                "offset_lag": lag,
                "is_future_key": log is not current,
            }
        )
    return [{"name": topic, "partitions": partitions} for topic, partitions in topics.items()]


def handle_alter_replica_log_dirs(node: LogDirContext, request: Request) -> Response:
    """Answer AlterReplicaLogDirs: move replicas to other log directories of this broker, one error code per partition.

    A replica that is in its target directory stays there, and a move of it to another directory is cancelled. For a
    partition without a replica here the directory is stored for a later replica. Its error code is
    REPLICA_NOT_AVAILABLE or UNKNOWN_TOPIC_OR_PARTITION. A node alone with one directory only checks the request.
    """
    entity = request.decode()
    is_allowed = is_permitted(node, request)
    results: dict[str, dict[int, int]] = {}
    for directory in entity.dirs:
        for topic in directory.topics:
            codes = results.setdefault(topic.name, {})
            for index in topic.partitions:
                codes[index] = ClusterAuthorizationFailed.code
                if is_allowed:
                    codes[index] = _move(node, directory.path, TopicPartition(topic.name, index))
    topics = [
        {
            "topic_name": name,
            "partitions": [{"partition_index": index, "error_code": code} for index, code in codes.items()],
        }
        for name, codes in results.items()
    ]
    return request.respond({"results": topics})


def _move(node: LogDirContext, path: str, name: TopicPartition) -> int:
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
