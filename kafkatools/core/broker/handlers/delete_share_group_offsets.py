"""DeleteShareGroupOffsets (key 92), version 0: an empty share group forgets topics (KIP-932)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.controller.acls import DELETE, GROUP, READ, TOPIC
from kafkatools.core.broker.group_coordinator.errors import coordinator_error_code
from kafkatools.core.broker.handlers.share_group_heartbeat import ensure_enabled
from kafkatools.core.broker.requests import Request, Response
from kafkatools.core.errors import KafkaError, TopicAuthorizationFailed, UnknownTopicOrPartition

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node

VERSIONS = (0, 0)
NOTHING_KEPT = "There is no offset information to delete."


def handle(node: Node, request: Request) -> Response:
    """One answer for each topic."""
    entity = request.decode()
    try:
        ensure_enabled(node)
        node.authorize_or_raise(request, DELETE, GROUP, entity.group_id)
        names = [topic.topic_name for topic in entity.topics]
        refused: dict[str, KafkaError] = {
            name: TopicAuthorizationFailed() for name in names if not node.authorize(request, READ, TOPIC, name)
        }
        refused |= {
            name: UnknownTopicOrPartition() for name in names if name not in refused and name not in node.image.topics
        }
        without = node.groups.share_offsets.delete(entity.group_id, [name for name in names if name not in refused])
        refused |= {name: UnknownTopicOrPartition(NOTHING_KEPT) for name in without}
    except KafkaError as error:
        fields = {"error_code": coordinator_error_code(error), "error_message": str(error), "responses": []}
        return request.respond(fields)
    responses = [_topic(node, name, refused.get(name)) for name in names]
    return request.respond({"error_code": 0, "error_message": None, "responses": responses})


def _topic(node: Node, name: str, error: KafkaError | None) -> dict[str, Any]:
    known = node.image.topics.get(name)
    return {
        "topic_name": name,
        "topic_id": None if known is None or error is not None else known.topic_id,
        "error_code": 0 if error is None else error.code,
        "error_message": None if error is None else str(error),
    }
