"""Settings of consumer groups: the broker's, and what a group has of its own (GroupConfig, KIP-848)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from kafkatools.core.config import BROKER

INT_MAX = 2**31 - 1


class MigrationPolicy(Enum):
    """Which moves between the protocols a group may make (ConsumerGroupMigrationPolicy)."""

    DISABLED = "disabled"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    BIDIRECTIONAL = "bidirectional"

    @property
    def allows_upgrade(self) -> bool:
        return self in (MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL)

    @property
    def allows_downgrade(self) -> bool:
        return self in (MigrationPolicy.DOWNGRADE, MigrationPolicy.BIDIRECTIONAL)


@dataclass(frozen=True, slots=True)
class IntervalSetting:
    """A time a group may set for itself, within the broker's bounds."""

    name: str
    default_ms: int
    least_ms: int = 0
    greatest_ms: int = INT_MAX

    def of(self, own: Mapping[str, str]) -> int:
        """The group's, kept within the bounds, which may have been moved since it was set; else the broker's."""
        given = own.get(self.name)
        return self.default_ms if given is None else min(max(int(given), self.least_ms), self.greatest_ms)


def interval(name: str) -> IntervalSetting:
    """The setting of a group, with the default that the broker's setting of that name has."""
    return IntervalSetting(name, BROKER.default_number(f"group.{name}"))


class MemberTimes:
    """How long members may be silent, and how often they are to be heard of, in the groups of one kind."""

    __slots__ = ()
    session_timeout: IntervalSetting
    heartbeat_interval: IntervalSetting
    own: Callable[[str], Mapping[str, str]]

    def session_timeout_ms(self, group_id: str) -> int:
        """How long a member may be silent."""
        return self.session_timeout.of(self.own(group_id))

    def heartbeat_interval_ms(self, group_id: str) -> int:
        """How often a member is to be heard of."""
        return self.heartbeat_interval.of(self.own(group_id))


@dataclass(frozen=True, slots=True)
class ConsumerGroupSettings(MemberTimes):
    """The settings; `own` gives those of a group by their names."""

    session_timeout: IntervalSetting = interval("consumer.session.timeout.ms")
    heartbeat_interval: IntervalSetting = interval("consumer.heartbeat.interval.ms")
    assignment_interval: IntervalSetting = interval("consumer.assignment.interval.ms")
    max_size: int = INT_MAX
    assignors: tuple[str, ...] = ("uniform", "range")
    migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    regex_refresh_interval_ms: int = BROKER.default_number("group.consumer.regex.refresh.interval.ms")
    own: Callable[[str], Mapping[str, str]] = field(default=lambda group_id: {})

    def assignment_interval_ms(self, group_id: str) -> int:
        """How long lies at least between two target assignments."""
        return self.assignment_interval.of(self.own(group_id))
