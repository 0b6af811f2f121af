"""DeleteTopics (key 20), versions 1-6: by name, and by id from version 6 on.

Needs DELETE on the cluster or the topic; a topic that the client may not describe either is answered as if only its id
or name were known (ControllerApis.deleteTopics). A deleted topic's files go after file.delete.delay.ms.
delete.topic.enable=false gives TOPIC_DELETION_DISABLED.
Not done: controller mutation quotas.
"""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.metadata.controller.acls import CLUSTER, CLUSTER_NAME, DELETE, DESCRIBE, TOPIC
from kafkatools.core.broker.metadata.controller.configs import error_fields
from kafkatools.core.broker.server.requests import Request, Response
from kafkatools.core.errors import (
    InvalidRequest,
    KafkaError,
    TopicAuthorizationFailed,
    TopicDeletionDisabled,
    UnknownTopicId,
    UnknownTopicOrPartition,
)

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node

Wanted = tuple[str | None, uuid.UUID | None]


def handle(node: Node, request: Request) -> Response:
    """Delete each; one answer per topic that was named, however often."""
    entity = request.decode()
    if request.version >= 6:
        wanted: list[Wanted] = [(topic.name, topic.topic_id) for topic in entity.topics]
    else:
        wanted = [(name, None) for name in entity.topic_names]
    ids = {topic_id for name, topic_id in wanted if name is None and topic_id is not None}
    counts = Counter(wanted)
    answers: dict[Wanted, dict[str, Any]] = {}
    for each in sorted(wanted, key=lambda each: each[0] is None):
        if each not in answers:
            answer = _delete(node, request, each, counts, ids)
            if not (each[0] is None and _is_named_too(node, each[1], counts)):
                answers[each] = answer
    return request.respond({"responses": list(answers.values())})


def _is_named_too(node: Node, topic_id: uuid.UUID | None, wanted: Mapping[Wanted, int]) -> bool:
    """Whether an id belongs to a topic that the request also names: the answer to the name stands for both."""
    topic = None if topic_id is None else node.controller.image.topics_by_id.get(topic_id)
    return topic is not None and (topic.name, None) in wanted


def _delete(
    node: Node, request: Request, each: Wanted, wanted: Mapping[Wanted, int], ids: set[uuid.UUID]
) -> dict[str, Any]:
    name, topic_id = each
    try:
        if not node.controller.effective_config.delete_topic_enable:
            raise TopicDeletionDisabled()
        if name is not None and topic_id is not None:
            raise InvalidRequest("You may not specify both topic name and topic id.")
        if wanted[each] > 1:
            raise InvalidRequest("Duplicate topic name." if name is not None else "Duplicate topic id.")
        name, topic_id = _permitted(node, request, name, topic_id)
        if each[0] is not None and topic_id in ids:
            raise InvalidRequest("The provided topic name maps to an ID that was already supplied.")
        if each[0] is None and _is_named_too(node, topic_id, wanted):
            return {}
        node.controller.delete_topic(*each)
    except _Denied as denied:
        return {"name": denied.name, "topic_id": denied.topic_id, **error_fields(TopicAuthorizationFailed())}
    except KafkaError as error:
        return {"name": name, "topic_id": topic_id, **error_fields(error)}
    return {"name": name, "topic_id": topic_id, "error_code": 0, "error_message": None}


class _Denied(Exception):
    """The client may not delete a topic; what of it may be named."""

    def __init__(self, name: str | None, topic_id: uuid.UUID | None) -> None:
        super().__init__()
        self.name, self.topic_id = name, topic_id


def _permitted(
    node: Node, request: Request, name: str | None, topic_id: uuid.UUID | None
) -> tuple[str | None, uuid.UUID | None]:
    """Name and id of the topic when the client may delete it; raises a KafkaError or _Denied."""
    image = node.controller.image
    if name is None and topic_id is None:
        raise InvalidRequest("Neither topic name nor id were specified.")
    topic = image.topics.get(name) if name is not None else image.topics_by_id.get(topic_id)  # type: ignore[arg-type]
    if topic is None and name is None:
        raise UnknownTopicId()
    known = name if topic is None else topic.name
    assert known is not None
    if not node.authorize(request, DELETE, CLUSTER, CLUSTER_NAME):
        if not node.authorize(request, DESCRIBE, TOPIC, known):
            raise _Denied(name, topic_id)
        if not node.authorize(request, DELETE, TOPIC, known):
            raise _Denied(known, None if topic is None else topic.topic_id)
    if topic is None:
        raise UnknownTopicOrPartition()
    return topic.name, topic.topic_id
