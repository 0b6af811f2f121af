"""Changes of a consumer group as records of `__consumer_offsets` (KIP-848).

A change encodes its record, and `ConsumerGroup.apply` applies it to the group. Live changes and loaded records take the
same way. A change whose value is None is a tombstone.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any

from kafkatools.core.broker.coordinators.groups.modern.consumer_member import (
    AssignmentWithEpochs,
    ClassicMetadata,
    ConsumerMember,
    MemberState,
)
from kafkatools.core.broker.coordinators.groups.modern.modern_changes import (
    ModernGroupEpochChange,
    ModernMemberChange,
    ModernTargetEpochChange,
    ModernTargetMemberChange,
    assignment_of,
)
from kafkatools.core.broker.coordinators.groups.offset_records import Record
from kafkatools.core.java.hash_order import topic_order
from kafkatools.core.protocol.entities import Fields
from kafkatools.core.protocol.schemas import offsets as schemas
from kafkatools.core.protocol.schemas.offsets import encode_record


@dataclass(frozen=True, slots=True)
class ResolvedRegex:
    """The topics that match a pattern, with the metadata version and time (ms since 1970) of the match."""

    topics: frozenset[str]
    version: int
    timestamp_ms: int


class GroupEpochChange(ModernGroupEpochChange):
    """A consumer group's epoch (ConsumerGroupMetadata)."""

    __slots__ = ()
    key, value = schemas.ConsumerGroupMetadataKey, schemas.ConsumerGroupMetadataValue


@dataclass(frozen=True, slots=True)
class SubscriptionMetadataChange:
    """The ConsumerGroupPartitionMetadata record of Kafka before 4.1. It is read, and only its tombstone is written."""

    is_present: bool = False

    def record(self, group_id: str) -> Record:
        """Encode the tombstone: key bytes, with None as the value."""
        return encode_record(schemas.ConsumerGroupPartitionMetadataKey(group_id=group_id), None)


class MemberChange(ModernMemberChange[ConsumerMember]):
    """A consumer group member's subscription and client (ConsumerGroupMemberMetadata); None deletes the member."""

    __slots__ = ()
    key = schemas.ConsumerGroupMemberMetadataKey

    def value_of(self, member: ConsumerMember) -> Any:
        """The ConsumerGroupMemberMetadataValue of a member."""
        classic = None
        if member.classic is not None:
            protocols = [{"name": name, "metadata": metadata} for name, metadata in member.classic.protocols]
            classic = {"session_timeout_ms": member.classic.session_timeout_ms, "supported_protocols": protocols}
        return schemas.ConsumerGroupMemberMetadataValue(
            instance_id=member.instance_id,
            rack_id=member.rack_id,
            client_id=member.client_id,
            client_host=member.client_host,
            subscribed_topic_names=sorted(member.subscribed_topic_names),
            subscribed_topic_regex=member.subscribed_topic_regex,
            rebalance_timeout_ms=member.rebalance_timeout_ms,
            server_assignor=member.server_assignor,
            classic_member_metadata=classic,
        )


class TargetEpochChange(ModernTargetEpochChange):
    """The epoch of a consumer group's target assignment (ConsumerGroupTargetAssignmentMetadata)."""

    __slots__ = ()
    key, value = schemas.ConsumerGroupTargetAssignmentMetadataKey, schemas.ConsumerGroupTargetAssignmentMetadataValue


class TargetMemberChange(ModernTargetMemberChange):
    """A consumer group member's target assignment (ConsumerGroupTargetAssignmentMember)."""

    __slots__ = ()
    key, value = schemas.ConsumerGroupTargetAssignmentMemberKey, schemas.ConsumerGroupTargetAssignmentMemberValue


class CurrentAssignmentChange(ModernMemberChange[ConsumerMember]):
    """A member's epoch, state and partitions (ConsumerGroupCurrentMemberAssignment); None before its deletion."""

    __slots__ = ()
    key = schemas.ConsumerGroupCurrentMemberAssignmentKey

    def value_of(self, member: ConsumerMember) -> Any:
        """The ConsumerGroupCurrentMemberAssignmentValue of a member."""
        return schemas.ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=member.member_epoch,
            previous_member_epoch=member.previous_member_epoch,
            state=int(member.state),
            assigned_partitions=_partitions_of(member.assigned),
            partitions_pending_revocation=_partitions_of(member.pending_revocation),
        )


@dataclass(frozen=True, slots=True)
class RegexChange:
    """The topics that match a pattern (ConsumerGroupRegularExpression); a tombstone if `resolved` is None, because no
    member uses the pattern any more."""

    regex: str
    resolved: ResolvedRegex | None

    def record(self, group_id: str) -> Record:
        """Encode the change as a record: key and value bytes."""
        key = schemas.ConsumerGroupRegularExpressionKey(group_id=group_id, regular_expression=self.regex)
        if self.resolved is None:
            return encode_record(key, None)
        fields = {
            "topics": sorted(self.resolved.topics),
            "version": self.resolved.version,  # of the metadata: not the record's
            "timestamp": self.resolved.timestamp_ms,
        }
        return encode_record(key, schemas.ConsumerGroupRegularExpressionValue.entity()(**fields))


Change = (
    GroupEpochChange
    | SubscriptionMetadataChange
    | MemberChange
    | TargetEpochChange
    | TargetMemberChange
    | CurrentAssignmentChange
    | RegexChange
)


def removal_of(member_id: str) -> list[Change]:
    """The tombstones of a consumer group member, in the order that loading needs."""
    return [
        CurrentAssignmentChange(member_id, None),
        TargetMemberChange(member_id, None),
        MemberChange(member_id, None),
    ]


def _partitions_of(assignment: AssignmentWithEpochs) -> list[Fields]:
    return [
        {
            "topic_id": topic_id,
            "partitions": tuple(sorted(assignment[topic_id])),
            "assignment_epochs": tuple(assignment[topic_id][partition] for partition in sorted(assignment[topic_id])),
        }
        for topic_id in topic_order(assignment)
    ]


# -- decoding ----------------------------------------------------------------------------------------------------------
def change_of(key: Any, value: Any) -> Change | None:
    """The consumer group change that a record stands for; None for other record types. The value is not a tombstone."""
    read = _READERS.get(type(key).__schema__.name)
    return read(key, value) if read is not None else None


def _read_member(key: Any, value: Any) -> Change:
    classic = value.classic_member_metadata
    member = ConsumerMember(
        key.member_id,
        instance_id=value.instance_id,
        rack_id=value.rack_id,
        rebalance_timeout_ms=value.rebalance_timeout_ms,
        client_id=value.client_id,
        client_host=value.client_host,
        subscribed_topic_names=frozenset(value.subscribed_topic_names),
        subscribed_topic_regex=value.subscribed_topic_regex or "",
        server_assignor=value.server_assignor,
        classic=None
        if classic is None
        else ClassicMetadata(
            classic.session_timeout_ms,
            tuple((protocol.name, bytes(protocol.metadata)) for protocol in classic.supported_protocols),
        ),
    )
    return MemberChange(key.member_id, member)


def _read_current(key: Any, value: Any) -> Change:
    epoch = value.member_epoch
    member = ConsumerMember(
        key.member_id,
        member_epoch=epoch,
        previous_member_epoch=value.previous_member_epoch,
        state=MemberState.of_value(value.state),
        assigned=_with_epochs(value.assigned_partitions, epoch),
        pending_revocation=_with_epochs(value.partitions_pending_revocation, epoch),
    )
    return CurrentAssignmentChange(key.member_id, member)


def _with_epochs(topics: Iterable[Any], member_epoch: int) -> dict[uuid.UUID, dict[int, int]]:
    """Partitions with the epochs of their assignment. Records before Kafka 4.3 have none: the member epoch counts."""
    epochs_by_topic: dict[uuid.UUID, dict[int, int]] = {}
    for topic in topics:
        epochs = topic.assignment_epochs
        if epochs is None or len(epochs) != len(topic.partitions):
            epochs = [member_epoch] * len(topic.partitions)
        epochs_by_topic[topic.topic_id] = dict(zip(topic.partitions, epochs, strict=True))
    return epochs_by_topic


_READERS: dict[str, Callable[[Any, Any], Change]] = {
    "ConsumerGroupMetadataKey": lambda key, value: GroupEpochChange(value.epoch, value.metadata_hash),
    "ConsumerGroupPartitionMetadataKey": lambda key, value: SubscriptionMetadataChange(is_present=True),
    "ConsumerGroupMemberMetadataKey": _read_member,
    "ConsumerGroupTargetAssignmentMetadataKey": lambda key, value: TargetEpochChange(
        value.assignment_epoch, value.assignment_timestamp
    ),
    "ConsumerGroupTargetAssignmentMemberKey": lambda key, value: TargetMemberChange(
        key.member_id, assignment_of(value.topic_partitions)
    ),
    "ConsumerGroupCurrentMemberAssignmentKey": _read_current,
    "ConsumerGroupRegularExpressionKey": lambda key, value: RegexChange(
        key.regular_expression, ResolvedRegex(frozenset(value.topics), value.version, value.timestamp)
    ),
}


def with_assignment_of(member: ConsumerMember, holder: ConsumerMember) -> ConsumerMember:
    """A copy of `member` with the epochs, state and partitions of `holder`."""
    return replace(
        member,
        member_epoch=holder.member_epoch,
        previous_member_epoch=holder.previous_member_epoch,
        state=holder.state,
        assigned=holder.assigned,
        pending_revocation=holder.pending_revocation,
    )
