"""A member of a share group (Kafka's ShareGroupMember), as an immutable value."""

from __future__ import annotations

from dataclasses import dataclass, field

from kafkatools.core.broker.coordinators.groups.modern.consumer_member import Assignment


@dataclass(frozen=True, slots=True)
class ShareMember:
    """A member of a share group. It gets its target assignment with the next heartbeat, without revoking partitions
    first."""

    member_id: str
    member_epoch: int = 0
    previous_member_epoch: int = -1
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    subscribed_topic_names: frozenset[str] = frozenset()
    assigned: Assignment = field(default_factory=dict)
