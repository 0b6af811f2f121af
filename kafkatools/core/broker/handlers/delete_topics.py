"""DeleteTopics (key 20), versions 1-6: by name, and by id from version 6 on.

A deleted topic's files go after file.delete.delay.ms. delete.topic.enable=false gives TOPIC_DELETION_DISABLED.
Not done: controller mutation quotas.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.controller.configs import error_fields
from kafkatools.core.broker.requests import Request, Response
from kafkatools.core.errors import InvalidRequest, KafkaError, TopicDeletionDisabled

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node

VERSIONS = (1, 6)


def handle(node: Node, request: Request) -> Response:
    """Delete each."""
    entity = request.decode()
    if request.version >= 6:
        wanted = [(topic.name, topic.topic_id) for topic in entity.topics]
    else:
        wanted = [(name, None) for name in entity.topic_names]
    return request.respond({"responses": [_delete(node, name, topic_id, wanted) for name, topic_id in wanted]})


def _delete(node: Node, name: str | None, topic_id: uuid.UUID | None, wanted: list[Any]) -> dict[str, Any]:
    try:
        if not node.controller.effective_config.delete_topic_enable:
            raise TopicDeletionDisabled()
        if wanted.count((name, topic_id)) > 1:
            raise InvalidRequest("Duplicate topic name." if name is not None else "Duplicate topic id.")
        topic = node.controller.delete_topic(name, topic_id)
    except KafkaError as error:
        return {"name": name, "topic_id": topic_id, **error_fields(error)}
    return {"name": topic.name, "topic_id": topic.topic_id, "error_code": 0, "error_message": None}
