"""ShareGroupDescribe (key 77), version 1: share groups with members and assignments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.apis.described_groups import (
    Description,
    describe_each,
    ensure_may_see,
    refusal,
    topics_of,
)
from kafkatools.core.broker.apis.share_group_heartbeat import ensure_enabled
from kafkatools.core.broker.coordinators.groups.share.member import ShareMember
from kafkatools.core.broker.metadata.controller.acls import DESCRIBE, GROUP
from kafkatools.core.broker.server.requests import Request, Response
from kafkatools.core.errors import GroupAuthorizationFailed, InvalidGroupId, KafkaError
from kafkatools.core.protocol.slices import paced

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node

ASSIGNOR = "simple"


def handle(node: Node, request: Request) -> Response:
    """One answer for each group."""
    return describe_each(node, request, _answer)


def _answer(node: Node, request: Request, group_id: str) -> Description:
    try:
        ensure_enabled(node)
        node.authorize_or_raise(request, DESCRIBE, GROUP, group_id)
        if not group_id:
            raise InvalidGroupId()
        node.groups.ensure_active(group_id)
        return _describe(node, request, group_id)
    except KafkaError as error:
        is_plain = isinstance(error, GroupAuthorizationFailed | InvalidGroupId) or not str(error)
        return refusal(group_id, error.code, None if is_plain else str(error))


def _describe(node: Node, request: Request, group_id: str) -> Description:
    group = node.groups.share.find(group_id)
    ensure_may_see(node, request, group.topics_of(group.members.values()))
    return {
        **refusal(group_id, 0),
        "group_state": group.state_name,
        "group_epoch": group.group_epoch,
        "assignment_epoch": group.assignment_epoch,
        "assignor_name": ASSIGNOR,
        "members": [_member(node, member) for member in paced(list(group.members.values()))],
    }


def _member(node: Node, member: ShareMember) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "rack_id": member.rack_id,
        "member_epoch": member.member_epoch,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "subscribed_topic_names": sorted(member.subscribed_topic_names),
        "assignment": topics_of(node.groups.share.topics, member.assigned),
    }
