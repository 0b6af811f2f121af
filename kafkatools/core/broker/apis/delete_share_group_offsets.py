"""DeleteShareGroupOffsets (key 92), version 0: an empty share group forgets topics (KIP-932)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.apis.alter_share_group_offsets import failed, tell_when_committed
from kafkatools.core.broker.apis.share_group_heartbeat import ensure_enabled
from kafkatools.core.broker.metadata.controller.acls import DELETE, GROUP, READ, TOPIC
from kafkatools.core.broker.server.later_response import LaterResponse
from kafkatools.core.broker.server.requests import Request, Response
from kafkatools.core.errors import KafkaError, TopicAuthorizationFailed, UnknownTopicOrPartition

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node

NOTHING_KEPT = "There is no offset information to delete."


def handle(node: Node, request: Request) -> Response:
    """One answer for each topic."""
    entity = request.decode()
    later = LaterResponse(request)
    try:
        ensure_enabled(node)
        node.authorize_or_raise(request, DELETE, GROUP, entity.group_id)
        node.groups.ensure_active(entity.group_id)
        names = [topic.topic_name for topic in entity.topics]
        refused: dict[str, KafkaError] = {
            name: TopicAuthorizationFailed() for name in names if not node.authorize(request, READ, TOPIC, name)
        }
        refused |= {
            name: UnknownTopicOrPartition() for name in names if name not in refused and name not in node.image.topics
        }
        wanted = [name for name in names if name not in refused]

        def done(error: KafkaError | None, without: list[str]) -> None:
            if error is not None:
                later.respond(failed(error))
                return
            refused.update({name: UnknownTopicOrPartition(NOTHING_KEPT) for name in without})
            responses = [_topic(node, name, refused.get(name)) for name in names]
            tell_when_committed(node, entity.group_id, later, responses)

        node.groups.share_offsets.delete(entity.group_id, wanted, done)
    except KafkaError as error:
        later.respond(failed(error))
    return later.returned()


def _topic(node: Node, name: str, error: KafkaError | None) -> dict[str, Any]:
    known = node.image.topics.get(name)
    return {
        "topic_name": name,
        "topic_id": None if known is None or error is not None else known.topic_id,
        "error_code": 0 if error is None else error.code,
        "error_message": None if error is None else str(error),
    }
