"""Common parts of groups of all types. One registry holds them all, so a group id names one group of one type."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from kafkatools.core.broker.coordinators.groups.classic.group import Group
from kafkatools.core.broker.coordinators.groups.group_topics import GroupTopics
from kafkatools.core.broker.coordinators.groups.keyed_timer import KeyedTimer
from kafkatools.core.broker.coordinators.groups.modern.consumer_group import ConsumerGroup
from kafkatools.core.broker.coordinators.groups.modern.consumer_settings import MemberTimes
from kafkatools.core.broker.coordinators.groups.offsets_topic import OffsetsTopic
from kafkatools.core.broker.coordinators.groups.share.group import ShareGroup
from kafkatools.core.broker.coordinators.groups.streams.group import StreamsGroup
from kafkatools.core.clock import Clock

AnyGroup = Group | ConsumerGroup | ShareGroup | StreamsGroup
Settings = TypeVar("Settings", bound=MemberTimes)


@dataclass(eq=False, repr=False)
class GroupParts(Generic[Settings]):
    """The registry, settings, topics, log and timers that groups of one type work with. `groups` holds
    groups of all types, `settings` those of one type."""

    groups: dict[str, AnyGroup]
    settings: Settings
    topics: GroupTopics
    store: OffsetsTopic
    timer: KeyedTimer
    clock: Clock

    def may_assign(self, group: ConsumerGroup | ShareGroup | StreamsGroup) -> bool:
        """Return whether the assignment interval has passed since the last target assignment.

        A timestamp in the future comes from a coordinator whose clock was ahead. It does not count: waiting for it
        would leave the group without a new assignment for as long as that clock was ahead.
        """
        last_ms = group.assignment_timestamp_ms
        return not last_ms <= self.clock.wall_ms() < last_ms + self.settings.assignment_interval_ms(group.group_id)
