"""What the descriptions of consumer and share groups have in common (KIP-848, KIP-932): the answer's fields, who may
see them, and topics by id and name."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.apis.describe_groups import operations_of
from kafkatools.core.broker.coordinators.groups.group_topics import GroupTopics
from kafkatools.core.broker.metadata.controller.acls import DESCRIBE, TOPIC
from kafkatools.core.broker.server.requests import Request, Response
from kafkatools.core.errors import TopicAuthorizationFailed
from kafkatools.core.java.hash_order import topic_order
from kafkatools.core.protocol.slices import paced

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node

Description = dict[str, Any]
HIDDEN = "The group has described topic(s) that the client is not authorized to describe."


def describe_each(node: Node, request: Request, describe: Callable[[Node, Request, str], Description]) -> Response:
    """One answer for each group, with what the client may do with it."""
    entity = request.decode()
    is_asked = entity.include_authorized_operations
    groups = [
        {**describe(node, request, group_id), "authorized_operations": operations_of(node, request, group_id, is_asked)}
        for group_id in paced(dict.fromkeys(entity.group_ids))
    ]
    return request.respond({"groups": groups})


def ensure_may_see(node: Node, request: Request, topics: Iterable[str]) -> None:
    """TopicAuthorizationFailed when a topic of the group is not the client's to know of."""
    if node.authorizer is not None and not all(node.authorize(request, DESCRIBE, TOPIC, name) for name in topics):
        raise TopicAuthorizationFailed(HIDDEN)


def refusal(group_id: str, error_code: int, message: str | None = None) -> Description:
    """A group that is not described."""
    return {
        "error_code": error_code,
        "error_message": message,
        "group_id": group_id,
        "group_state": "",
        "group_epoch": 0,
        "assignment_epoch": 0,
        "assignor_name": "",
        "members": [],
    }


def topics_of(topics: GroupTopics, assignment: Mapping[uuid.UUID, Collection[int]]) -> Description:
    """An assignment by id and name; topics that are gone are left out."""
    found = [(topic_id, topics.by_id(topic_id)) for topic_id in topic_order(assignment)]
    return {
        "topic_partitions": [
            {"topic_id": topic_id, "topic_name": topic.name, "partitions": sorted(assignment[topic_id])}
            for topic_id, topic in found
            if topic is not None
        ]
    }
