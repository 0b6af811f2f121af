"""Handlers for share groups (KIP-932): ShareGroupHeartbeat, ShareGroupDescribe."""

from __future__ import annotations

from kafkatools.core.broker.apis.consumer_groups import ensure_may_subscribe, heartbeat_refusal, message_of
from kafkatools.core.broker.apis.contexts import ShareContext
from kafkatools.core.broker.apis.groups import (
    client_of,
    committed_response,
    describe_each,
    ensure_may_see,
    refusal,
    topics_of,
)
from kafkatools.core.broker.coordinators.groups.errors import coordinator_error_code
from kafkatools.core.broker.coordinators.groups.share.groups import ShareHeartbeat
from kafkatools.core.broker.coordinators.groups.share.member import ShareMember
from kafkatools.core.broker.metadata.controller.acls import DESCRIBE, GROUP
from kafkatools.core.broker.server.requests import Request, Response
from kafkatools.core.errors import GroupAuthorizationFailed, InvalidGroupId, KafkaError, UnsupportedVersion
from kafkatools.core.protocol.entities import Fields
from kafkatools.core.protocol.slices import paced

FEATURE = "share.version"
ASSIGNOR = "simple"


def handle_share_group_heartbeat(node: ShareContext, request: Request) -> Response:
    """Answer ShareGroupHeartbeat: a member of a share group joins, stays or leaves (KIP-932).

    The response has the member's epoch, and its assignment when that changed, once the group's records are committed. A
    KafkaError is its error code, at once.
    """
    entity = request.decode()
    names = entity.subscribed_topic_names
    heartbeat = ShareHeartbeat(
        entity.group_id,
        entity.member_id,
        entity.member_epoch,
        client_of(request),
        entity.rack_id,
        None if names is None else frozenset(names),
    )
    try:
        ensure_enabled(node)
        ensure_may_subscribe(node, request, entity.group_id, names or ())
        fields = node.groups.share_heartbeat(heartbeat)
    except KafkaError as error:
        fields = heartbeat_refusal(coordinator_error_code(error), message_of(error))
    return committed_response(node, request, entity.group_id, fields, heartbeat_refusal)


def ensure_enabled(node: ShareContext) -> None:
    """Raise UnsupportedVersion unless the feature share.version of the cluster is at least 1."""
    if node.image.features.get(FEATURE, 0) < 1:
        raise UnsupportedVersion()


def handle_share_group_describe(node: ShareContext, request: Request) -> Response:
    """Answer ShareGroupDescribe: state, members and assignments of share groups, one result or error per distinct group
    (KIP-932)."""
    entity = request.decode()
    return describe_each(node, request, entity, entity.group_ids, _description)


def _description(node: ShareContext, request: Request, group_id: str) -> Fields:
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


def _describe(node: ShareContext, request: Request, group_id: str) -> Fields:
    group = node.groups.share.checked(group_id, node.groups.replicated.of(group_id))
    ensure_may_see(node, request, group.topics_of(group.members.values()))
    return {
        "group_id": group_id,
        "group_state": group.state_name,
        "group_epoch": group.group_epoch,
        "assignment_epoch": group.assignment_epoch,
        "assignor_name": ASSIGNOR,
        "members": [_member(node, member) for member in paced(list(group.members.values()))],
    }


def _member(node: ShareContext, member: ShareMember) -> Fields:
    return {
        "member_id": member.member_id,
        "rack_id": member.rack_id,
        "member_epoch": member.member_epoch,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "subscribed_topic_names": sorted(member.subscribed_topic_names),
        "assignment": topics_of(node.groups.share.topics, member.assigned),
    }
