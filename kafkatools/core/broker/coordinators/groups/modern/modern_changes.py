"""Changes that consumer and share groups have in common (Kafka's ModernGroup): epochs and the target assignment.

Each kind of group has records of its own for them: a subclass names the schemas of key and value.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from kafkatools.core.broker.coordinators.groups.modern.consumer_member import Assignment
from kafkatools.core.broker.coordinators.groups.offset_records import Record
from kafkatools.core.java.hash_order import topic_order
from kafkatools.core.protocol.entities import Fields
from kafkatools.core.protocol.schemas.offsets import encode_record
from kafkatools.core.protocol.schemas.schema import Schema

Member = TypeVar("Member")


def heartbeat_fields(member_id: str, member_epoch: int, interval_ms: int) -> Fields:
    """The answer to a heartbeat that succeeded and brings no new assignment."""
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
    """A record of one member; None: the member is gone, or about to go. A subclass names the schema of the key and
    makes the value."""

    key: ClassVar[Schema]
    member_id: str
    member: Member | None

    def value_of(self, member: Member) -> Any:
        """The value of the record."""
        raise NotImplementedError

    def record(self, group_id: str) -> Record:
        """Key and value."""
        value = None if self.member is None else self.value_of(self.member)
        return encode_record(self.key(group_id=group_id, member_id=self.member_id), value)


@dataclass(frozen=True, slots=True)
class ModernGroupEpochChange:
    """The group's epoch and the hash of its topics; None: the group is gone."""

    key: ClassVar[Schema]
    value: ClassVar[Schema]
    epoch: int | None
    metadata_hash: int = 0

    def record(self, group_id: str) -> Record:
        """Key and value."""
        value = None if self.epoch is None else self.value(epoch=self.epoch, metadata_hash=self.metadata_hash)
        return encode_record(self.key(group_id=group_id), value)


@dataclass(frozen=True, slots=True)
class ModernTargetEpochChange:
    """The epoch of the target assignment and when it was computed; None: there is none."""

    key: ClassVar[Schema]
    value: ClassVar[Schema]
    epoch: int | None
    timestamp_ms: int = 0

    def record(self, group_id: str) -> Record:
        """Key and value."""
        value = None
        if self.epoch is not None:
            value = self.value(assignment_epoch=self.epoch, assignment_timestamp=self.timestamp_ms)
        return encode_record(self.key(group_id=group_id), value)


@dataclass(frozen=True, slots=True)
class ModernTargetMemberChange:
    """What a member is to have; None: it is gone."""

    key: ClassVar[Schema]
    value: ClassVar[Schema]
    member_id: str
    assignment: Assignment | None

    def record(self, group_id: str) -> Record:
        """Key and value."""
        value = None if self.assignment is None else self.value(topic_partitions=partitions_of(self.assignment))
        return encode_record(self.key(group_id=group_id, member_id=self.member_id), value)


def partitions_of(assignment: Assignment) -> list[Fields]:
    """An assignment as a record has it."""
    return [
        {"topic_id": topic_id, "partitions": tuple(sorted(assignment[topic_id]))}
        for topic_id in topic_order(assignment)
    ]


def assignment_of(topics: Iterable[Any]) -> Assignment:
    """An assignment as a record had it."""
    return {topic.topic_id: frozenset(topic.partitions) for topic in topics}
