"""What a group of every kind can be asked; one registry holds them all, so an id names one group."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from kafkatools.core.broker.coordinators.groups.group_topics import GroupTopics
from kafkatools.core.broker.coordinators.groups.keyed_timer import KeyedTimer
from kafkatools.core.broker.coordinators.groups.offset_records import Record
from kafkatools.core.broker.coordinators.groups.offsets_topic import Store
from kafkatools.core.clock import Clock


class AnyGroup(Protocol):
    """A classic, consumer or share group."""

    group_id: str

    @property
    def group_type(self) -> str:
        """`classic`, `consumer` or `share`."""

    @property
    def state_name(self) -> str:
        """The state as clients see it."""

    @property
    def protocol_name_of_type(self) -> str:
        """Its protocol type, "" when it has none."""

    @property
    def is_empty(self) -> bool:
        """Whether it has no members."""

    def ensure_may_delete(self) -> None:
        """NonEmptyGroup and others."""

    def ensure_may_delete_offsets(self) -> None:
        """NonEmptyGroup and others."""

    def is_subscribed_to(self, topic: str) -> bool:
        """Whether a member reads the topic."""

    def expiration_base_ms(self, topic: str, commit_ms: int) -> int | None:
        """From when the retention of an offset counts; None: it is kept."""

    def tombstones(self) -> list[Record]:
        """What deletes the group from the log."""


Settings = TypeVar("Settings")


@dataclass(eq=False, repr=False)
class GroupParts(Generic[Settings]):
    """What the consumer groups and the share groups of a broker work with: the registry of the groups of all kinds, the
    settings of one kind, and the topics, log and timers of groups."""

    groups: dict[str, AnyGroup]
    settings: Settings
    topics: GroupTopics
    store: Store
    timer: KeyedTimer
    clock: Clock
