"""Handlers for offsets of a log: ListOffsets, OffsetForLeaderEpoch."""

from __future__ import annotations

from collections import Counter
from typing import Any

from kafkatools.core.broker.apis.contexts import ReplicaContext
from kafkatools.core.broker.metadata.controller.acls import CLUSTER, CLUSTER_ACTION, CLUSTER_NAME, DESCRIBE, TOPIC
from kafkatools.core.broker.replicas.partition import READ_ALL
from kafkatools.core.broker.replicas.replica_manager import error_code_of
from kafkatools.core.broker.server.requests import Request, Response
from kafkatools.core.errors import (
    InvalidRequest,
    LeaderNotAvailable,
    OffsetNotAvailable,
    TopicAuthorizationFailed,
    UnsupportedVersion,
)
from kafkatools.core.protocol.entities import Fields
from kafkatools.core.protocol.slices import paced

FIRST_WITH_NOT_AVAILABLE = 5
NEEDED_VERSION = {-3: 7, -4: 8, -5: 9, -6: 11}


def handle_list_offsets(node: ReplicaContext, request: Request) -> Response:
    """Answer ListOffsets: the offset for a timestamp in each partition.

    Special timestamps: -1 latest, -2 earliest, -3 newest record (from version 7 on), -4 earliest local (8), -5 latest
    tiered (9), -6 earliest pending upload (11). Without tiered storage -4 is the log start offset; -5 and -6 have no
    offset. A broker with CLUSTER_ACTION gets the log end offset as the latest, a client the high watermark or the last
    stable offset. Each partition has an error code of its own; one that is named twice has INVALID_REQUEST.
    """
    entity = request.decode()
    isolation_level = entity.isolation_level
    if entity.replica_id >= 0 and node.authorize(request, CLUSTER_ACTION, CLUSTER, CLUSTER_NAME):
        isolation_level = READ_ALL
    topics = []
    for topic in paced(entity.topics):
        is_allowed = node.authorize(request, DESCRIBE, TOPIC, topic.name)
        counts = Counter(partition.partition_index for partition in topic.partitions)
        results: dict[int, Fields] = {}
        for partition in paced(topic.partitions):
            index = partition.partition_index
            if not is_allowed:
                results[index] = {"partition_index": index, "error_code": TopicAuthorizationFailed.code}
            elif counts[index] > 1:
                results[index] = {"partition_index": index, "error_code": InvalidRequest.code}
            else:
                results[index] = _listed_offset(node, request, topic.name, partition, isolation_level)
        topics.append({"name": topic.name, "partitions": list(results.values())})
    return request.respond({"topics": topics})


def _listed_offset(node: ReplicaContext, request: Request, topic: str, requested: Any, isolation_level: int) -> Fields:
    index, timestamp = requested.partition_index, requested.timestamp
    try:
        if timestamp < -6 or request.version < NEEDED_VERSION.get(timestamp, 0):
            raise UnsupportedVersion()
        partition = node.replicas.get(topic, index)
        partition.check_leader_epoch(requested.current_leader_epoch)
        record = partition.offset_for_timestamp(timestamp, isolation_level)
    except Exception as error:  # noqa: BLE001 - boundary: one partition's failure is its own answer
        node.note_failure(error)
        code = error_code_of(error)
        if code == OffsetNotAvailable.code and request.version < FIRST_WITH_NOT_AVAILABLE:
            code = LeaderNotAvailable.code
        return {"partition_index": index, "error_code": code}
    return {
        "partition_index": index,
        "timestamp": record.timestamp,
        "offset": record.offset,
        "leader_epoch": record.leader_epoch,
    }


def handle_offset_for_leader_epoch(node: ReplicaContext, request: Request) -> Response:
    """Answer OffsetForLeaderEpoch: the end offset of a leader epoch, to check for truncation (KIP-320, KIP-101). Each
    partition has an error code of its own. Needs CLUSTER_ACTION on the cluster or DESCRIBE on the topic."""
    entity = request.decode()
    topics = [
        {
            "topic": topic.topic,
            "partitions": [_epoch_end(node, request, topic.topic, partition) for partition in paced(topic.partitions)],
        }
        for topic in paced(entity.topics)
    ]
    return request.respond({"topics": topics})


def _epoch_end(node: ReplicaContext, request: Request, topic: str, requested: Any) -> Fields:
    try:
        if not node.authorize(request, CLUSTER_ACTION, CLUSTER, CLUSTER_NAME):
            node.authorize_or_raise(request, DESCRIBE, TOPIC, topic)
        partition = node.replicas.get(topic, requested.partition)
        partition.check_leader_epoch(requested.current_leader_epoch)
        end = partition.epoch_end(requested.leader_epoch)
    except Exception as error:  # noqa: BLE001 - boundary: one partition's failure is its own answer
        node.note_failure(error)
        return {"partition": requested.partition, "error_code": error_code_of(error)}
    return {"partition": requested.partition, "leader_epoch": end.leader_epoch, "end_offset": end.end_offset}
