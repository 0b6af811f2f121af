"""Input and result of the server-side assignors of consumer groups (KIP-848)."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field

from kafkatools.core.broker.coordinators.groups.modern.consumer_member import Assignment
from kafkatools.core.java.hashes import utf16_order

Result = dict[str, Assignment]


class PartitionAssignorError(Exception):
    """An assignor cannot compute an assignment (Kafka's PartitionAssignorException)."""


@dataclass(frozen=True, slots=True)
class GroupSpec:
    """The input of an assignor. `members` are member ids with the ids of their subscribed topics, in the order of
    Kafka's map. `partition_counts` has those topics, `target` the present target assignment, `instance_ids` the static
    members."""

    members: Mapping[str, frozenset[uuid.UUID]]
    partition_counts: Mapping[uuid.UUID, int]
    target: Mapping[str, Assignment]
    is_homogeneous: bool
    instance_ids: Mapping[str, str] = field(default_factory=dict)

    def range_key(self, member_id: str) -> tuple[bool, bytes]:
        """A member's sort key in the range assignor: static members first, names by UTF-16 units as in Java."""
        instance_id = self.instance_ids.get(member_id)
        name = member_id if instance_id is None else instance_id
        return instance_id is None, utf16_order(name)

    def assignment_of(self, member_id: str) -> Assignment:
        """The present target assignment of a member."""
        return self.target.get(member_id, {})
