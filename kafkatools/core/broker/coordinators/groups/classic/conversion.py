"""Conversion between classic and consumer groups while members go on (KIP-848).

As group.consumer.migration.policy allows, a classic group with members becomes a consumer group when the first member
with the new protocol joins. It becomes a classic one again when the last such member leaves. These functions have no
side effects. Source: ConsumerGroup.fromClassicGroup and ClassicGroup.fromConsumerGroup.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping
from typing import Any

from kafkatools.core.broker.coordinators.groups.classic.group import (
    CONSUMER_PROTOCOL_TYPE,
    Group,
    protocol_version,
    read_subscription,
)
from kafkatools.core.broker.coordinators.groups.classic.member import Member
from kafkatools.core.broker.coordinators.groups.classic.states import GroupState
from kafkatools.core.broker.coordinators.groups.group_topics import GroupTopics
from kafkatools.core.broker.coordinators.groups.modern.consumer_group import CONSUMER, ConsumerGroup
from kafkatools.core.broker.coordinators.groups.modern.consumer_member import (
    Assignment,
    ClassicMetadata,
    ConsumerMember,
    with_epoch,
)
from kafkatools.core.broker.coordinators.groups.requests import Client
from kafkatools.core.errors import GroupIdNotFound, UnknownServerError
from kafkatools.core.java.hash_order import topic_order
from kafkatools.core.protocol.schemas.errors import RecordFormatError


def consumer_group_of(classic: Group, topics: GroupTopics) -> ConsumerGroup:
    """The consumer group that a classic group becomes. Raises GroupIdNotFound if a subscription or assignment cannot be
    decoded, or comes from a custom assignor."""
    group = ConsumerGroup(classic.group_id)
    group.group_epoch = group.assignment_epoch = classic.generation_id
    try:
        members = [_consumer_member(classic, member, topics) for member in classic.members.values()]
    except RecordFormatError as error:
        raise GroupIdNotFound(
            f"Cannot upgrade classic group {classic.group_id} to consumer group because the embedded consumer protocol "
            "is malformed."
        ) from error
    for member, assignment in members:
        group.members[member.member_id] = member
        group.target[member.member_id] = assignment
        if member.instance_id is not None:
            group.static_members[member.instance_id] = member.member_id
    group.metadata_hash = topics.group_hash(group.topics_of(group.members.values()))
    return group


def _consumer_member(classic: Group, member: Member, topics: GroupTopics) -> tuple[ConsumerMember, Assignment]:
    assignment = _assigned(classic.group_id, member.assignment, topics) if member.assignment else {}
    protocols = dict(member.protocols)
    # During a rebalance a member may have joined again without the protocol of the last generation.
    subscription = read_subscription(protocols.get(classic.protocol_name or "", member.protocols[0][1]))
    epoch = classic.generation_id
    consumer = ConsumerMember(
        member.member_id,
        member_epoch=epoch,
        previous_member_epoch=epoch,
        instance_id=member.instance_id,
        rack_id=getattr(subscription, "rack_id", None) or None,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        client_id=member.client.client_id,
        client_host=member.client.host,
        subscribed_topic_names=frozenset(subscription.topics),
        assigned=with_epoch(assignment, epoch),
        classic=ClassicMetadata(member.session_timeout_ms, tuple(member.protocols)),
    )
    return consumer, assignment


def _assigned(group_id: str, data: bytes, topics: GroupTopics) -> Assignment:
    from kafkatools.core.protocol.schemas.consumer_protocol import ConsumerProtocolAssignment

    entity, _ = ConsumerProtocolAssignment.read(protocol_version(data), data, 2)
    if entity.user_data:
        raise GroupIdNotFound(
            f"Cannot upgrade classic group {group_id} to consumer group because an unsupported custom assignor is in "
            "use. Please refer to the documentation or switch to a default assignor before re-attempting the upgrade."
        )
    return {
        topic.topic_id: frozenset(assigned.partitions)
        for assigned in entity.assigned_partitions
        if (topic := topics.by_name(assigned.topic)) is not None
    }


def classic_group_of(
    group: ConsumerGroup, leaving: Collection[str], joining: ConsumerMember | None, topics: GroupTopics, wall_ms: int
) -> Group:
    """The classic group of the members that stay, with their target assignments encoded as ConsumerProtocolAssignment.
    `joining` is a static member that replaces a member with the same instance id."""
    classic = Group(group.group_id, wall_ms)
    remaining = [member for member_id, member in group.members.items() if member_id not in leaving]
    if joining is not None:
        remaining = [member for member in remaining if member.instance_id != joining.instance_id] + [joining]
    for member in remaining:
        classic.add(_classic_member(member))
    classic.state, classic.previous_state = GroupState.STABLE, GroupState.COMPLETING_REBALANCE
    classic.protocol_type = CONSUMER_PROTOCOL_TYPE
    classic.generation_id = group.group_epoch
    classic.protocol_name = classic.select_protocol()
    classic.recompute_subscriptions()
    for member in remaining:
        classic_member = classic.members[member.member_id]
        target = group.target_of(member.member_id, member.instance_id)
        version = protocol_version(classic_member.metadata(classic.protocol_name))
        classic_member.assignment = assignment_bytes(target, version, topics)
    return classic


def _classic_member(member: ConsumerMember) -> Member:
    assert member.classic is not None
    return Member(
        member.member_id,
        member.instance_id,
        Client(member.client_id, member.client_host),
        (member.classic.session_timeout_ms, member.rebalance_timeout_ms),
        CONSUMER,
        member.classic.protocols,
    )


def subscription_of_request(protocols: Collection[tuple[str, bytes]]) -> Any:
    """The subscription in a joining member's preferred protocol. Raises UnknownServerError if malformed, as in
    Kafka."""
    try:
        return read_subscription(next(iter(protocols))[1])
    except RecordFormatError as error:
        raise UnknownServerError("Malformed embedded consumer protocol in subscription deserialization.") from error


def owned_partitions(subscription: Any, topics: GroupTopics) -> dict[uuid.UUID, list[int]]:
    """The owned partitions in a classic member's subscription, by topic id, without deleted topics."""
    return {
        topic.topic_id: list(owned.partitions)
        for owned in getattr(subscription, "owned_partitions", ())
        if (topic := topics.by_name(owned.topic)) is not None
    }


def assignment_bytes(assignment: Mapping[uuid.UUID, Collection[int]], version: int, topics: GroupTopics) -> bytes:
    """Encode an assignment as ConsumerProtocolAssignment of this version, without deleted topics."""
    from kafkatools.core.protocol.schemas.consumer_protocol import ConsumerProtocolAssignment
    from kafkatools.core.protocol.schemas.schema import write_entity

    entity = ConsumerProtocolAssignment(
        version=version,
        assigned_partitions=[
            {"topic": topic.name, "partitions": tuple(sorted(assignment[topic_id]))}
            for topic_id in topic_order(assignment)
            if (topic := topics.by_id(topic_id)) is not None
        ],
    )
    return version.to_bytes(2, "big") + write_entity(entity)
