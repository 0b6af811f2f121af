"""Handlers for groups of the consumer protocol (KIP-848): ConsumerGroupHeartbeat, ConsumerGroupDescribe."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from typing import Any

from kafkatools.core.broker.apis.contexts import GroupContext
from kafkatools.core.broker.apis.groups import (
    client_of,
    committed_response,
    describe_each,
    ensure_may_see,
    refusal,
    topics_of,
)
from kafkatools.core.broker.coordinators.groups.errors import coordinator_error_code
from kafkatools.core.broker.coordinators.groups.modern.consumer_group import CONSUMER, ConsumerGroup
from kafkatools.core.broker.coordinators.groups.modern.consumer_heartbeats import HeartbeatRequest
from kafkatools.core.broker.coordinators.groups.modern.consumer_member import ConsumerMember
from kafkatools.core.broker.coordinators.groups.modern.modern_group import NOTHING
from kafkatools.core.broker.coordinators.groups.requests import Fields
from kafkatools.core.broker.coordinators.groups.topic_regex import everything
from kafkatools.core.broker.metadata.controller.acls import DESCRIBE, GROUP, READ, TOPIC
from kafkatools.core.broker.server.requests import Request, Response
from kafkatools.core.errors import (
    GroupIdNotFound,
    InvalidGroupId,
    KafkaError,
    TopicAuthorizationFailed,
    UnsupportedVersion,
)
from kafkatools.core.protocol.slices import paced

FEATURE = "group.version"
CLASSIC_MEMBER, CONSUMER_MEMBER = 0, 1


def handle_consumer_group_heartbeat(node: GroupContext, request: Request) -> Response:
    """Answer ConsumerGroupHeartbeat: a member of a consumer group joins, stays or leaves (KIP-848).

    The response has the member's epoch, and its assignment when that changed, once the group's records are committed. A
    KafkaError is its error code, at once.
    """
    entity = request.decode()
    names = entity.subscribed_topic_names
    heartbeat = HeartbeatRequest(
        group_id=entity.group_id,
        member_id=entity.member_id,
        member_epoch=entity.member_epoch,
        client=client_of(request),
        version=request.version,
        instance_id=entity.instance_id,
        rack_id=entity.rack_id,
        rebalance_timeout_ms=entity.rebalance_timeout,
        subscribed_topic_names=None if names is None else frozenset(names),
        subscribed_topic_regex=entity.subscribed_topic_regex,
        server_assignor=entity.server_assignor,
        owned=_owned(entity.topic_partitions),
        may_describe=everything if node.authorizer is None else _describable(node, request),
    )
    try:
        ensure_enabled(node)
        ensure_may_subscribe(node, request, entity.group_id, names or ())
        fields = node.groups.consumer_heartbeat(heartbeat)
    except KafkaError as error:
        fields = heartbeat_refusal(coordinator_error_code(error), message_of(error))
    return committed_response(node, request, entity.group_id, fields, heartbeat_refusal)


def heartbeat_refusal(code: int, message: str | None = None) -> Fields:
    """The fields of a ConsumerGroupHeartbeat or ShareGroupHeartbeat response with an error."""
    return {"error_code": code, "error_message": message}


def ensure_enabled(node: GroupContext) -> None:
    """Raise UnsupportedVersion if group.version or group.coordinator.rebalance.protocols rules consumer groups out."""
    is_offered = CONSUMER in node.config.group_coordinator_rebalance_protocols
    if not is_offered or node.image.features.get(FEATURE, 0) < 1:
        raise UnsupportedVersion()


def _describable(node: GroupContext, request: Request) -> Callable[[str], bool]:
    """A function that says whether the client of a request may describe a topic; it outlives the request."""
    authorizer, principal, host = node.authorizer, request.principal, request.connection.client_host
    return lambda topic: authorizer is None or authorizer.authorize(principal, host, DESCRIBE, TOPIC, topic)


def ensure_may_subscribe(node: GroupContext, request: Request, group_id: str, topics: Iterable[str]) -> None:
    """Raise GroupAuthorizationFailed or TopicAuthorizationFailed unless the client may read the group and describe the
    topics that it subscribes to by name."""
    node.authorize_or_raise(request, READ, GROUP, group_id)
    for name in topics:
        node.authorize_or_raise(request, DESCRIBE, TOPIC, name)


def _owned(topics: Any) -> dict[uuid.UUID, list[int]] | None:
    if topics is None:
        return None
    owned: dict[uuid.UUID, list[int]] = {}
    for topic in topics:
        owned.setdefault(topic.topic_id, []).extend(topic.partitions)
    return owned


def message_of(error: KafkaError) -> str | None:
    """The message of an error; None when it is only the standard text of the error code, as in Kafka's ApiError."""
    text = str(error)
    return text if text and text != str(type(error)()) else None


def handle_consumer_group_describe(node: GroupContext, request: Request) -> Response:
    """Answer ConsumerGroupDescribe: state, members and assignments of consumer groups (KIP-848), one result per
    distinct group. A group that is unknown or of another type has GROUP_ID_NOT_FOUND."""
    entity = request.decode()
    return describe_each(node, request, entity, entity.group_ids, _description)


def _description(node: GroupContext, request: Request, group_id: str) -> Fields:
    try:
        ensure_enabled(node)
        node.authorize_or_raise(request, DESCRIBE, GROUP, group_id)
        return _describe(node, request, group_id)
    except (GroupIdNotFound, TopicAuthorizationFailed) as error:
        return refusal(group_id, error.code, str(error))
    except KafkaError as error:
        return refusal(group_id, error.code)


def _describe(node: GroupContext, request: Request, group_id: str) -> Fields:
    if not group_id:
        raise InvalidGroupId()
    node.groups.ensure_active(group_id)
    group = node.groups.replicated.of(group_id)
    if not isinstance(group, ConsumerGroup):
        raise GroupIdNotFound(f"Group {group_id} {'not found' if group is None else 'is not a consumer group'}.")
    ensure_may_see(node, request, group.topics_of(group.members.values()))
    return {
        "group_id": group_id,
        "group_state": group.state_name,
        "group_epoch": group.group_epoch,
        "assignment_epoch": group.assignment_epoch,
        "assignor_name": group.preferred_assignor(group.members.values(), node.groups.consumer.settings.assignors[0]),
        "members": [_member(node, group, member) for member in paced(list(group.members.values()))],
    }


def _member(node: GroupContext, group: ConsumerGroup, member: ConsumerMember) -> Fields:
    topics = node.groups.consumer.topics
    owned = {topic_id: set(partitions) for topic_id, partitions in member.assigned.items()}
    for topic_id, partitions in member.pending_revocation.items():
        owned.setdefault(topic_id, set()).update(partitions)
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "rack_id": member.rack_id,
        "member_epoch": member.member_epoch,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "subscribed_topic_names": sorted(member.subscribed_topic_names),
        "subscribed_topic_regex": member.subscribed_topic_regex,
        "assignment": topics_of(topics, owned),
        "target_assignment": topics_of(topics, group.target.get(member.member_id, NOTHING)),
        "member_type": CLASSIC_MEMBER if member.uses_classic_protocol else CONSUMER_MEMBER,
    }
