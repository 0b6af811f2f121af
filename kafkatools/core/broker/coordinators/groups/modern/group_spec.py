"""What an assignor of the broker gets, and what it returns (KIP-848)."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field

from kafkatools.core.broker.coordinators.groups.modern.consumer_member import Assignment
from kafkatools.core.java.hashes import utf16_order

Result = dict[str, Assignment]


class PartitionAssignorError(Exception):
    """No assignment can be made (Kafka's PartitionAssignorException)."""


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """What an assignor is told. `members`: member id -> topic ids it is subscribed to, in the order of Kafka's map;
    `partition_counts` of all those topics; `target`: the assignment until now; `instance_ids` of static members."""

    members: Mapping[str, frozenset[uuid.UUID]]
    partition_counts: Mapping[uuid.UUID, int]
    target: Mapping[str, Assignment]
    is_homogeneous: bool
    instance_ids: Mapping[str, str] = field(default_factory=dict)

    def range_key(self, member_id: str) -> tuple[bool, bytes]:
        """What members are sorted by for ranges; Java compares strings by their UTF-16 units."""
        instance_id = self.instance_ids.get(member_id)
        name = member_id if instance_id is None else instance_id
        return instance_id is None, utf16_order(name)

    def assignment_of(self, member_id: str) -> Assignment:
        """What a member was to have until now."""
        return self.target.get(member_id, {})

    def topics_of_first(self) -> frozenset[uuid.UUID]:
        """Everybody's topics in a homogeneous group."""
        return next(iter(self.members.values()), frozenset())
