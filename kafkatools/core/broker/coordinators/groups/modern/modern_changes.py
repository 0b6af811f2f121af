"""Changes that consumer and share groups have in common (Kafka's ModernGroup): epochs and target assignments.

Each group type has its own record types: a subclass sets the schemas of key and value.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from kafkatools.core.broker.coordinators.groups.modern.consumer_member import Assignment
from kafkatools.core.broker.coordinators.groups.offset_records import Record
from kafkatools.core.errors import FencedMemberEpoch
from kafkatools.core.java.hash_order import topic_order
from kafkatools.core.protocol.entities import Fields
from kafkatools.core.protocol.schemas.offsets import encode_record
from kafkatools.core.protocol.schemas.schema import Schema

JOINING_EPOCH = 0
Member = TypeVar("Member")


def ensure_valid_epoch(group_type: str, epoch: int, current: int, previous: int | None) -> None:
    """Raise FencedMemberEpoch unless the epoch of a heartbeat is 0 (joining), the member's current one, or the previous
    one after a lost response; with `previous` None the latter is not allowed."""
    if epoch in (JOINING_EPOCH, current) or (epoch < current and epoch == previous):
        return
    relation = "greater" if epoch > current else "smaller"
    raise FencedMemberEpoch(
        f"The {group_type} group member has a {relation} member epoch ({epoch}) than the one known by the group "
        f"coordinator ({current}). The member must abandon all its partitions and rejoin."
    )


def heartbeat_fields(member_id: str, member_epoch: int, interval_ms: int) -> Fields:
    """The fields of a successful heartbeat response without an assignment."""
    return {
        "error_code": 0,
        "error_message": None,
        "member_id": member_id,
        "member_epoch": member_epoch,
        "heartbeat_interval": interval_ms,
        "assignment": None,
    }


@dataclass(frozen=True, slots=True)
class ModernMemberChange(Generic[Member]):
    """A record of one member; a tombstone if `member` is None. A subclass sets the key schema and makes the value."""

    key: ClassVar[Schema]
    member_id: str
    member: Member | None

    def value_of(self, member: Member) -> Any:
        """The record's value entity."""
        raise NotImplementedError

    def record(self, group_id: str) -> Record:
        """Encode the change as a record: key and value bytes."""
        value = None if self.member is None else self.value_of(self.member)
        return encode_record(self.key(group_id=group_id, member_id=self.member_id), value)


@dataclass(frozen=True, slots=True)
class ModernGroupEpochChange:
    """The group epoch and the hash of the group's topics; None deletes the group."""

    key: ClassVar[Schema]
    value: ClassVar[Schema]
    epoch: int | None
    metadata_hash: int = 0

    def record(self, group_id: str) -> Record:
        """Encode the change as a record: key and value bytes."""
        value = None if self.epoch is None else self.value(epoch=self.epoch, metadata_hash=self.metadata_hash)
        return encode_record(self.key(group_id=group_id), value)


@dataclass(frozen=True, slots=True)
class ModernTargetEpochChange:
    """The epoch and time (ms since 1970) of the target assignment; None deletes them."""

    key: ClassVar[Schema]
    value: ClassVar[Schema]
    epoch: int | None
    timestamp_ms: int = 0

    def record(self, group_id: str) -> Record:
        """Encode the change as a record: key and value bytes."""
        value = None
        if self.epoch is not None:
            value = self.value(assignment_epoch=self.epoch, assignment_timestamp=self.timestamp_ms)
        return encode_record(self.key(group_id=group_id), value)


@dataclass(frozen=True, slots=True)
class ModernTargetMemberChange:
    """A member's target assignment; None deletes it."""

    key: ClassVar[Schema]
    value: ClassVar[Schema]
    member_id: str
    assignment: Assignment | None

    def record(self, group_id: str) -> Record:
        """Encode the change as a record: key and value bytes."""
        value = None if self.assignment is None else self.value(topic_partitions=partitions_of(self.assignment))
        return encode_record(self.key(group_id=group_id, member_id=self.member_id), value)


def partitions_of(assignment: Mapping[uuid.UUID, Collection[int]]) -> list[Fields]:
    """An assignment as a list of topic ids with sorted partitions, as records and responses hold it."""
    return [{"topic_id": topic_id, "partitions": sorted(assignment[topic_id])} for topic_id in topic_order(assignment)]


def assignment_of(topics: Iterable[Any]) -> Assignment:
    """The assignment that the topic entities of a record hold."""
    return {topic.topic_id: frozenset(topic.partitions) for topic in topics}
