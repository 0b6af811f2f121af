"""What the consumer groups and the share groups of a broker work with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from kafkatools.core.broker.coordinators.groups.any_group import AnyGroup
from kafkatools.core.broker.coordinators.groups.group_topics import GroupTopics
from kafkatools.core.broker.coordinators.groups.keyed_timer import KeyedTimer
from kafkatools.core.broker.coordinators.groups.offsets_topic import Store
from kafkatools.core.clock import Clock

Settings = TypeVar("Settings")


@dataclass(eq=False, repr=False)
class GroupParts(Generic[Settings]):
    """The registry of the groups of all kinds, the settings of one kind, and the topics, log and timers of groups."""

    groups: dict[str, AnyGroup]
    settings: Settings
    topics: GroupTopics
    store: Store
    timer: KeyedTimer
    clock: Clock
