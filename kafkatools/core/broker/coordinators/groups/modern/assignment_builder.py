"""The next target assignment of a consumer group (Kafka's TargetAssignmentBuilder)."""

from __future__ import annotations

from collections.abc import Collection

from kafkatools.core.broker.coordinators.groups.group_topics import GroupTopics
from kafkatools.core.broker.coordinators.groups.modern.consumer_changes import (
    Change,
    TargetEpochChange,
    TargetMemberChange,
)
from kafkatools.core.broker.coordinators.groups.modern.consumer_group import NOTHING, ConsumerGroup
from kafkatools.core.broker.coordinators.groups.modern.consumer_member import Assignment, ConsumerMember
from kafkatools.core.broker.coordinators.groups.modern.group_spec import GroupSpec, PartitionAssignorError
from kafkatools.core.broker.coordinators.groups.modern.server_assignors import assignor_of
from kafkatools.core.errors import UnknownServerError
from kafkatools.core.java.hash_order import hash_order


def next_target(
    group: ConsumerGroup, members: Collection[ConsumerMember], topics: GroupTopics, assignor: str
) -> dict[str, Assignment]:
    """What each of these members is to have, by the assignor of that name. Raises UnknownServerError."""
    by_id = {member.member_id: member for member in members}
    ids = {member.member_id: topics.ids_of(group.topics_of_member(member)) for member in members}
    spec = GroupSpec(
        {member_id: ids[member_id] for member_id in hash_order(by_id)},
        {topic_id: topics.partition_count(topic_id) for topic_ids in ids.values() for topic_id in topic_ids},
        {member_id: _known(group, member) for member_id, member in by_id.items()},
        group.is_homogeneous(members),
        {member.member_id: member.instance_id for member in members if member.instance_id is not None},
    )
    try:
        return assignor_of(assignor)(spec)
    except PartitionAssignorError as error:
        raise UnknownServerError(
            f"Failed to compute a new target assignment for epoch {group.group_epoch}: {error}"
        ) from error


def _known(group: ConsumerGroup, member: ConsumerMember) -> Assignment:
    return group.target_of(member.member_id, member.instance_id)


def target_changes(
    group: ConsumerGroup,
    members: Collection[ConsumerMember],
    target: dict[str, Assignment],
    epoch: int,
    wall_ms: int,
) -> list[Change]:
    """What is written of a new target: the members whose assignment changed, then the epoch."""
    changes: list[Change] = [
        TargetMemberChange(member_id, target.get(member_id, NOTHING))
        for member_id in hash_order(member.member_id for member in members)
        if group.target.get(member_id) != target.get(member_id, NOTHING)
    ]
    return [*changes, TargetEpochChange(epoch, wall_ms)]
