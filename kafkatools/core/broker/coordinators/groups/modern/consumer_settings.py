"""Settings of consumer groups: the broker's, and each group's own configs (GroupConfig, KIP-848)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from kafkatools.core.config import BROKER

INT_MAX = 2**31 - 1


class MigrationPolicy(Enum):
    """The allowed conversions between classic and consumer groups (ConsumerGroupMigrationPolicy)."""

    DISABLED = "disabled"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    BIDIRECTIONAL = "bidirectional"

    @property
    def allows_upgrade(self) -> bool:
        """Return whether classic groups may become consumer groups."""
        return self in (MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL)

    @property
    def allows_downgrade(self) -> bool:
        """Return whether consumer groups may become classic groups."""
        return self in (MigrationPolicy.DOWNGRADE, MigrationPolicy.BIDIRECTIONAL)


@dataclass(frozen=True, slots=True)
class IntervalSetting:
    """A group config that is limited to the broker's minimum and maximum: a time in ms, or a count in some share group
    configs."""

    name: str
    default_ms: int
    least_ms: int = 0
    greatest_ms: int = INT_MAX

    def of(self, own: Mapping[str, str]) -> int:
        """The value in `own`, a group's configs, limited to the present minimum and maximum; the broker's default
        without one."""
        own_value = own.get(self.name)
        return self.default_ms if own_value is None else min(max(int(own_value), self.least_ms), self.greatest_ms)


def interval(name: str) -> IntervalSetting:
    """A group config with the default of the broker setting `group.<name>`, without broker limits."""
    return IntervalSetting(name, BROKER.default_number(f"group.{name}"))


class MemberTimes:
    """Session timeout and heartbeat interval of the groups of one type."""

    __slots__ = ()
    session_timeout: IntervalSetting
    heartbeat_interval: IntervalSetting
    own: Callable[[str], Mapping[str, str]]

    def session_timeout_ms(self, group_id: str) -> int:
        """The session timeout of a group's members in ms."""
        return self.session_timeout.of(self.own(group_id))

    def heartbeat_interval_ms(self, group_id: str) -> int:
        """The heartbeat interval of a group's members in ms."""
        return self.heartbeat_interval.of(self.own(group_id))


@dataclass(frozen=True, slots=True)
class ConsumerGroupSettings(MemberTimes):
    """The broker's settings of consumer groups. `own` returns a group's own configs by name."""

    session_timeout: IntervalSetting = interval("consumer.session.timeout.ms")
    heartbeat_interval: IntervalSetting = interval("consumer.heartbeat.interval.ms")
    assignment_interval: IntervalSetting = interval("consumer.assignment.interval.ms")
    max_size: int = INT_MAX
    assignors: tuple[str, ...] = ("uniform", "range")
    migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    regex_refresh_interval_ms: int = BROKER.default_number("group.consumer.regex.refresh.interval.ms")
    own: Callable[[str], Mapping[str, str]] = field(default=lambda group_id: {})

    def assignment_interval_ms(self, group_id: str) -> int:
        """The minimum time between two target assignments of a group in ms."""
        return self.assignment_interval.of(self.own(group_id))
