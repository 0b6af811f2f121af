"""Common parts of groups of all types. One registry holds them all, so a group id names one group of one type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from kafkatools.core.broker.coordinators.groups.group_topics import GroupTopics
from kafkatools.core.broker.coordinators.groups.keyed_timer import KeyedTimer
from kafkatools.core.broker.coordinators.groups.offset_records import Record
from kafkatools.core.broker.coordinators.groups.offsets_topic import OffsetsTopic
from kafkatools.core.clock import Clock


class AnyGroup(Protocol):
    """The methods that the coordinator calls on a classic, consumer or share group."""

    group_id: str

    @property
    def group_type(self) -> str:
        """The group type: `classic`, `consumer` or `share`."""

    @property
    def state_name(self) -> str:
        """The group state as clients see it, such as `Stable`."""

    @property
    def protocol_name_of_type(self) -> str:
        """The protocol type, such as `consumer`; "" for a group without one."""

    @property
    def is_empty(self) -> bool:
        """Return whether the group has no members; for a classic group, whether its state is Empty."""

    def ensure_may_delete(self) -> None:
        """Check that the group may be deleted. Raises NonEmptyGroup or GroupIdNotFound."""

    def ensure_may_delete_offsets(self) -> None:
        """Check that committed offsets of the group may be deleted. Raises NonEmptyGroup or GroupIdNotFound."""

    def is_subscribed_to(self, topic: str) -> bool:
        """Return whether a member of the group is subscribed to the topic. True for a classic consumer group whose
        subscriptions cannot be decoded."""

    def expiration_base_ms(self, topic: str, commit_ms: int) -> int | None:
        """Return the start of the retention of an offset committed at `commit_ms`, in ms since 1970. None: it does not
        expire."""

    def tombstones(self) -> list[Record]:
        """The records that delete the group from `__consumer_offsets`."""


Settings = TypeVar("Settings")


@dataclass(eq=False, repr=False)
class GroupParts(Generic[Settings]):
    """The registry, settings, topics, log and timers that consumer groups or share groups work with. `groups` holds
    groups of all types, `settings` those of one type."""

    groups: dict[str, AnyGroup]
    settings: Settings
    topics: GroupTopics
    store: OffsetsTopic
    timer: KeyedTimer
    clock: Clock
