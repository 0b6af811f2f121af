"""ConsumerGroupDescribe (key 69), versions 0-1: groups of the consumer protocol with members and assignments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.apis.consumer_group_heartbeat import ensure_enabled
from kafkatools.core.broker.apis.described_groups import (
    Description,
    describe_each,
    ensure_may_see,
    refusal,
    topics_of,
)
from kafkatools.core.broker.coordinators.groups.modern.consumer_group import NOTHING, ConsumerGroup
from kafkatools.core.broker.coordinators.groups.modern.consumer_member import ConsumerMember
from kafkatools.core.broker.metadata.controller.acls import DESCRIBE, GROUP
from kafkatools.core.broker.server.requests import Request, Response
from kafkatools.core.errors import (
    GroupIdNotFound,
    InvalidGroupId,
    KafkaError,
    TopicAuthorizationFailed,
)
from kafkatools.core.protocol.slices import paced

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node

CLASSIC_MEMBER, CONSUMER_MEMBER, UNKNOWN_MEMBER_TYPE = 0, 1, -1


def handle(node: Node, request: Request) -> Response:
    """One answer for each group."""
    return describe_each(node, request, _answer)


def _answer(node: Node, request: Request, group_id: str) -> Description:
    try:
        ensure_enabled(node)
        node.authorize_or_raise(request, DESCRIBE, GROUP, group_id)
        return _describe(node, request, group_id)
    except (GroupIdNotFound, TopicAuthorizationFailed) as error:
        return refusal(group_id, error.code, str(error))
    except KafkaError as error:
        return refusal(group_id, error.code)


def _describe(node: Node, request: Request, group_id: str) -> Description:
    if not group_id:
        raise InvalidGroupId()
    node.groups.ensure_active(group_id)
    group = node.groups.groups.get(group_id)
    if not isinstance(group, ConsumerGroup):
        raise GroupIdNotFound(f"Group {group_id} {'not found' if group is None else 'is not a consumer group'}.")
    ensure_may_see(node, request, group.topics_of(group.members.values()))
    return {
        **refusal(group_id, 0),
        "group_state": group.state_name,
        "group_epoch": group.group_epoch,
        "assignment_epoch": group.assignment_epoch,
        "assignor_name": group.preferred_assignor(group.members.values(), node.groups.consumer.settings.assignors[0]),
        "members": [_member(node, group, member) for member in paced(list(group.members.values()))],
    }


def _member(node: Node, group: ConsumerGroup, member: ConsumerMember) -> dict[str, Any]:
    topics = node.groups.consumer.topics
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
        "assignment": topics_of(topics, has),
        "target_assignment": topics_of(topics, group.target.get(member.member_id, NOTHING)),
        "member_type": CLASSIC_MEMBER if member.uses_classic_protocol else CONSUMER_MEMBER,
    }
