"""Changes of a share group as records of `__consumer_offsets` (KIP-932).

A change encodes its record, and `ShareGroup.apply` applies it to the group. Live changes and loaded records take the
same way. A change whose value is None is a tombstone.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from kafkatools.core.broker.coordinators.groups.modern.modern_changes import (
    ModernGroupEpochChange,
    ModernMemberChange,
    ModernTargetEpochChange,
    ModernTargetMemberChange,
    assignment_of,
    partitions_of,
)
from kafkatools.core.broker.coordinators.groups.offset_records import Record
from kafkatools.core.broker.coordinators.groups.share.member import ShareMember
from kafkatools.core.protocol.entities import Fields
from kafkatools.core.protocol.schemas import offsets as schemas
from kafkatools.core.protocol.schemas.offsets import encode_record

STABLE = 0


class GroupEpochChange(ModernGroupEpochChange):
    """A share group's epoch (ShareGroupMetadata)."""

    __slots__ = ()
    key, value = schemas.ShareGroupMetadataKey, schemas.ShareGroupMetadataValue


class MemberChange(ModernMemberChange[ShareMember]):
    """A share group member's subscription and client (ShareGroupMemberMetadata); None deletes the member."""

    __slots__ = ()
    key = schemas.ShareGroupMemberMetadataKey

    def value_of(self, member: ShareMember) -> Any:
        """The ShareGroupMemberMetadataValue of a member."""
        return schemas.ShareGroupMemberMetadataValue(
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=sorted(member.subscribed_topic_names),
        )


class TargetEpochChange(ModernTargetEpochChange):
    """The epoch of a share group's target assignment (ShareGroupTargetAssignmentMetadata)."""

    __slots__ = ()
    key, value = schemas.ShareGroupTargetAssignmentMetadataKey, schemas.ShareGroupTargetAssignmentMetadataValue


class TargetMemberChange(ModernTargetMemberChange):
    """A share group member's target assignment (ShareGroupTargetAssignmentMember)."""

    __slots__ = ()
    key, value = schemas.ShareGroupTargetAssignmentMemberKey, schemas.ShareGroupTargetAssignmentMemberValue


class CurrentAssignmentChange(ModernMemberChange[ShareMember]):
    """A member's epoch and current assignment (ShareGroupCurrentMemberAssignment); None before its deletion."""

    __slots__ = ()
    key = schemas.ShareGroupCurrentMemberAssignmentKey

    def value_of(self, member: ShareMember) -> Any:
        """The ShareGroupCurrentMemberAssignmentValue of a member."""
        return schemas.ShareGroupCurrentMemberAssignmentValue(
            member_epoch=member.member_epoch,
            previous_member_epoch=member.previous_member_epoch,
            state=STABLE,
            assigned_partitions=partitions_of(member.assigned),
        )


TopicsInState = Mapping[uuid.UUID, tuple[str, frozenset[int]]]
"""Name and partitions by topic id."""


@dataclass(frozen=True, slots=True)
class StatePartitions:
    """Partitions whose share state is being initialized or is initialized, and topics whose states are being
    deleted."""

    initializing: TopicsInState = field(default_factory=dict)
    initialized: TopicsInState = field(default_factory=dict)
    deleting: Mapping[uuid.UUID, str] = field(default_factory=dict)

    def with_initialized(self, topic_id: uuid.UUID, name: str, partitions: Iterable[int]) -> StatePartitions:
        """A copy in which these partitions are initialized. Others of the topic may still be being initialized."""
        finished, present = frozenset(partitions), self.initialized.get(topic_id, (name, frozenset()))[1]
        unfinished = self.initializing.get(topic_id, (name, frozenset()))[1] - finished
        initializing = _without(self.initializing, topic_id)
        if unfinished:
            initializing = {**initializing, topic_id: (name, unfinished)}
        initialized = {**self.initialized, topic_id: (name, present | finished)}
        return replace(self, initialized=initialized, initializing=initializing)

    def with_initializing(self, topic_id: uuid.UUID, name: str, partitions: Iterable[int]) -> StatePartitions:
        """A copy in which these partitions are being initialized."""
        present = self.initializing.get(topic_id, (name, frozenset()))[1]
        initializing = {**self.initializing, topic_id: (name, present | frozenset(partitions))}
        return replace(self, initializing=initializing)

    def without_topic(self, topic_id: uuid.UUID) -> StatePartitions:
        """A copy without a topic in any of the three states."""
        deleting = {key: name for key, name in self.deleting.items() if key != topic_id}
        return StatePartitions(_without(self.initializing, topic_id), _without(self.initialized, topic_id), deleting)

    def partitions_of(self, topic_id: uuid.UUID) -> frozenset[int]:
        """The partitions of a topic whose state is initialized."""
        return self.initialized.get(topic_id, ("", frozenset()))[1]


def _without(topics: TopicsInState, topic_id: uuid.UUID) -> TopicsInState:
    return {key: value for key, value in topics.items() if key != topic_id}


@dataclass(frozen=True, slots=True)
class StatePartitionsChange:
    """A share group's initialized partitions (ShareGroupStatePartitionMetadata); a tombstone if `partitions` is
    None."""

    partitions: StatePartitions | None

    def record(self, group_id: str) -> Record:
        """Encode the change as a record: key and value bytes."""
        key = schemas.ShareGroupStatePartitionMetadataKey(group_id=group_id)
        if self.partitions is None:
            return encode_record(key, None)
        deleting = [{"topic_id": topic_id, "topic_name": name} for topic_id, name in self.partitions.deleting.items()]
        value = schemas.ShareGroupStatePartitionMetadataValue(
            initializing_topics=_infos(self.partitions.initializing),
            initialized_topics=_infos(self.partitions.initialized),
            deleting_topics=deleting,
        )
        return encode_record(key, value)


def _infos(topics: TopicsInState) -> list[Fields]:
    return [
        {"topic_id": topic_id, "topic_name": name, "partitions": tuple(sorted(partitions))}
        for topic_id, (name, partitions) in topics.items()
    ]


Change = (
    GroupEpochChange
    | MemberChange
    | TargetEpochChange
    | TargetMemberChange
    | CurrentAssignmentChange
    | StatePartitionsChange
)


def removal_of(member_id: str) -> list[Change]:
    """The tombstones of a share group member, in the order that loading needs."""
    return [
        CurrentAssignmentChange(member_id, None),
        TargetMemberChange(member_id, None),
        MemberChange(member_id, None),
    ]


# -- decoding ----------------------------------------------------------------------------------------------------------
def change_of(key: Any, value: Any) -> Change | None:
    """The share group change that a record stands for; None for other record types. The value is not a tombstone."""
    read = _READERS.get(type(key).__schema__.name)
    return read(key, value) if read is not None else None


def _read_member(key: Any, value: Any) -> Change:
    member = ShareMember(
        key.member_id,
        rack_id=value.rack_id,
        client_id=value.client_id,
        client_host=value.client_host,
        subscribed_topic_names=frozenset(value.subscribed_topic_names),
    )
    return MemberChange(key.member_id, member)


def _read_current(key: Any, value: Any) -> Change:
    member = ShareMember(
        key.member_id,
        member_epoch=value.member_epoch,
        previous_member_epoch=value.previous_member_epoch,
        assigned=assignment_of(value.assigned_partitions),
    )
    return CurrentAssignmentChange(key.member_id, member)


def _read_state_partitions(_key: Any, value: Any) -> Change:
    def topics_of(infos: Iterable[Any]) -> TopicsInState:
        return {info.topic_id: (info.topic_name, frozenset(info.partitions)) for info in infos}

    return StatePartitionsChange(
        StatePartitions(
            topics_of(value.initializing_topics),
            topics_of(value.initialized_topics),
            {info.topic_id: info.topic_name for info in value.deleting_topics},
        )
    )


_READERS: dict[str, Callable[[Any, Any], Change]] = {
    "ShareGroupMetadataKey": lambda key, value: GroupEpochChange(value.epoch, value.metadata_hash),
    "ShareGroupMemberMetadataKey": _read_member,
    "ShareGroupTargetAssignmentMetadataKey": lambda key, value: TargetEpochChange(
        value.assignment_epoch, value.assignment_timestamp
    ),
    "ShareGroupTargetAssignmentMemberKey": lambda key, value: TargetMemberChange(
        key.member_id, assignment_of(value.topic_partitions)
    ),
    "ShareGroupCurrentMemberAssignmentKey": _read_current,
    "ShareGroupStatePartitionMetadataKey": _read_state_partitions,
}
