"""ShareGroupDescribe (key 77), version 1: share groups with members and assignments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.controller.acls import DESCRIBE, GROUP, TOPIC
from kafkatools.core.broker.group_coordinator.java_order import topic_order
from kafkatools.core.broker.group_coordinator.share_member import ShareMember
from kafkatools.core.broker.handlers.describe_groups import operations_of
from kafkatools.core.broker.handlers.share_group_heartbeat import ensure_enabled
from kafkatools.core.broker.requests import Request, Response
from kafkatools.core.errors import GroupAuthorizationFailed, InvalidGroupId, KafkaError, TopicAuthorizationFailed

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node

VERSIONS = (1, 1)
ASSIGNOR = "simple"
HIDDEN = "The group has described topic(s) that the client is not authorized to describe."


def handle(node: Node, request: Request) -> Response:
    """One answer for each group."""
    entity = request.decode()
    is_asked = entity.include_authorized_operations
    groups = [
        {**_answer(node, request, group_id), "authorized_operations": operations_of(node, request, group_id, is_asked)}
        for group_id in entity.group_ids
    ]
    return request.respond({"groups": groups})


def _answer(node: Node, request: Request, group_id: str) -> dict[str, Any]:
    try:
        ensure_enabled(node)
        node.authorize_or_raise(request, DESCRIBE, GROUP, group_id)
        if not group_id:
            raise InvalidGroupId()
        return _describe(node, request, group_id)
    except KafkaError as error:
        is_plain = isinstance(error, GroupAuthorizationFailed | InvalidGroupId) or not str(error)
        return _refusal(group_id, error.code, None if is_plain else str(error))


def _describe(node: Node, request: Request, group_id: str) -> dict[str, Any]:
    group = node.groups.share.find(group_id)
    names = group.topics_of(group.members.values())
    if node.authorizer is not None and not all(node.authorize(request, DESCRIBE, TOPIC, name) for name in names):
        raise TopicAuthorizationFailed(HIDDEN)
    return {
        **_refusal(group_id, 0, None),
        "group_state": group.state_name,
        "group_epoch": group.group_epoch,
        "assignment_epoch": group.assignment_epoch,
        "assignor_name": ASSIGNOR,
        "members": [_member(node, member) for member in group.members.values()],
    }


def _refusal(group_id: str, error_code: int, message: str | None) -> dict[str, Any]:
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


def _member(node: Node, member: ShareMember) -> dict[str, Any]:
    topics = node.groups.share.topics
    found = [(topic_id, topics.by_id(topic_id)) for topic_id in topic_order(member.assigned)]
    return {
        "member_id": member.member_id,
        "rack_id": member.rack_id,
        "member_epoch": member.member_epoch,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "subscribed_topic_names": sorted(member.subscribed_topic_names),
        "assignment": {
            "topic_partitions": [
                {"topic_id": topic_id, "topic_name": topic.name, "partitions": sorted(member.assigned[topic_id])}
                for topic_id, topic in found
                if topic is not None
            ]
        },
    }
