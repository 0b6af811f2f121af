"""ConsumerGroupDescribe (key 69), versions 0-1: groups of the consumer protocol with members and assignments."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.controller.acls import DESCRIBE, GROUP, TOPIC
from kafkatools.core.broker.group_coordinator.consumer_group import NOTHING, ConsumerGroup
from kafkatools.core.broker.group_coordinator.consumer_member import ConsumerMember
from kafkatools.core.broker.group_coordinator.java_order import topic_order
from kafkatools.core.broker.handlers.consumer_group_heartbeat import ensure_enabled
from kafkatools.core.broker.handlers.describe_groups import operations_of
from kafkatools.core.broker.requests import Request, Response
from kafkatools.core.errors import (
    GroupAuthorizationFailed,
    GroupIdNotFound,
    InvalidGroupId,
    KafkaError,
    TopicAuthorizationFailed,
)

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node

VERSIONS = (0, 1)
CLASSIC_MEMBER, CONSUMER_MEMBER, UNKNOWN_MEMBER_TYPE = 0, 1, -1


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
    except KafkaError as error:
        return _refusal(group_id, error.code, None)
    if not node.authorize(request, DESCRIBE, GROUP, group_id):
        return _refusal(group_id, GroupAuthorizationFailed.code, None)
    described = _describe(node, group_id)
    group = node.groups.groups.get(group_id)
    if isinstance(group, ConsumerGroup) and node.authorizer is not None:
        names = group.topics_of(group.members.values())
        if not all(node.authorize(request, DESCRIBE, TOPIC, name) for name in names):
            what = "The group has described topic(s) that the client is not authorized to describe."
            return _refusal(group_id, TopicAuthorizationFailed.code, what)
    return described


def _describe(node: Node, group_id: str) -> dict[str, Any]:
    group = node.groups.groups.get(group_id)
    if not isinstance(group, ConsumerGroup):
        if not group_id:
            return _refusal(group_id, InvalidGroupId.code, None)
        what = f"Group {group_id} not found." if group is None else f"Group {group_id} is not a consumer group."
        return _refusal(group_id, GroupIdNotFound.code, what)
    return {
        **_refusal(group_id, 0, None),
        "group_state": group.state_name,
        "group_epoch": group.group_epoch,
        "assignment_epoch": group.assignment_epoch,
        "assignor_name": group.preferred_assignor(group.members.values(), node.groups.consumer.settings.assignors[0]),
        "members": [_member(node, group, member) for member in group.members.values()],
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


def _member(node: Node, group: ConsumerGroup, member: ConsumerMember) -> dict[str, Any]:
    has = {topic_id: set(partitions) for topic_id, partitions in member.assigned.items()}
    for topic_id, partitions in member.pending_revocation.items():
        has.setdefault(topic_id, set()).update(partitions)
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "rack_id": member.rack_id,
        "member_epoch": member.member_epoch,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "subscribed_topic_names": sorted(member.subscribed_topic_names),
        "subscribed_topic_regex": member.subscribed_topic_regex,
        "assignment": {"topic_partitions": _topics(node, has)},
        "target_assignment": {"topic_partitions": _topics(node, group.target.get(member.member_id, NOTHING))},
        "member_type": CLASSIC_MEMBER if member.uses_classic_protocol else CONSUMER_MEMBER,
    }


def _topics(node: Node, assignment: Mapping[uuid.UUID, Collection[int]]) -> list[dict[str, Any]]:
    """By id and name; topics that are gone are left out."""
    topics = node.groups.consumer.topics
    found = [(topic_id, topics.by_id(topic_id)) for topic_id in topic_order(assignment)]
    return [
        {"topic_id": topic_id, "topic_name": topic.name, "partitions": sorted(assignment[topic_id])}
        for topic_id, topic in found
        if topic is not None
    ]
