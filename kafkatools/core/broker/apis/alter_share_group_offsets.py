"""AlterShareGroupOffsets (key 91), version 0: where an empty share group is to begin (KIP-932)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.apis.share_group_heartbeat import ensure_enabled
from kafkatools.core.broker.coordinators.groups.errors import coordinator_error_code
from kafkatools.core.broker.metadata.controller.acls import GROUP, READ, TOPIC
from kafkatools.core.broker.server.later_response import LaterResponse
from kafkatools.core.broker.server.requests import Request, Response
from kafkatools.core.errors import KafkaError, TopicAuthorizationFailed, UnknownTopicOrPartition, error_for_code

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node


def handle(node: Node, request: Request) -> Response:
    """One answer for each partition."""
    entity = request.decode()
    later = LaterResponse(request)
    try:
        ensure_enabled(node)
        node.authorize_or_raise(request, READ, GROUP, entity.group_id)
        node.groups.ensure_active(entity.group_id)
        offsets, refused = _wanted(node, request, entity)

        def done(error: KafkaError | None) -> None:
            if error is not None:
                later.respond(failed(error))
                return
            responses = [_topic(node, topic, refused) for topic in entity.topics]
            tell_when_committed(node, entity.group_id, later, responses)

        node.groups.share_offsets.alter(entity.group_id, offsets, done)
    except KafkaError as error:
        later.respond(failed(error))
    return later.returned()


def failed(error: KafkaError) -> dict[str, Any]:
    """Nothing was done."""
    return {"error_code": coordinator_error_code(error), "error_message": str(error), "responses": []}


def tell_when_committed(node: Node, group_id: str, later: LaterResponse, responses: list[dict[str, Any]]) -> None:
    """Answer when what was written of the group is committed."""

    def committed(code: int) -> None:
        if code:
            later.respond(failed(error_for_code(code)()))
        else:
            later.respond({"error_code": 0, "error_message": None, "responses": responses})

    node.coordination.groups.when_committed(group_id, committed)


def _wanted(
    node: Node, request: Request, entity: Any
) -> tuple[dict[str, dict[int, int]], dict[tuple[str, int], KafkaError]]:
    """The offsets to set by topic and partition, and those that cannot be."""
    offsets: dict[str, dict[int, int]] = {}
    refused: dict[tuple[str, int], KafkaError] = {}
    for topic in entity.topics:
        known = node.image.topics.get(topic.topic_name)
        is_allowed = node.authorize(request, READ, TOPIC, topic.topic_name)
        for partition in topic.partitions:
            place = (topic.topic_name, partition.partition_index)
            if not is_allowed:
                refused[place] = TopicAuthorizationFailed()
            elif known is None or partition.partition_index not in known.partitions:
                refused[place] = UnknownTopicOrPartition()
            else:
                offsets.setdefault(topic.topic_name, {})[partition.partition_index] = partition.start_offset
    return offsets, refused


def _topic(node: Node, topic: Any, refused: dict[tuple[str, int], KafkaError]) -> dict[str, Any]:
    known = node.image.topics.get(topic.topic_name)
    partitions = []
    for partition in topic.partitions:
        error = refused.get((topic.topic_name, partition.partition_index))
        partitions.append(
            {
                "partition_index": partition.partition_index,
                "error_code": 0 if error is None else error.code,
                "error_message": None if error is None else str(error),
            }
        )
    return {
        "topic_name": topic.topic_name,
        "topic_id": None if known is None else known.topic_id,
        "partitions": partitions,
    }
