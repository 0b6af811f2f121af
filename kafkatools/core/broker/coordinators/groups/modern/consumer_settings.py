"""Settings of consumer groups: the broker's, and each group's own configs (GroupConfig, KIP-848)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum, unique
from typing import ClassVar

from kafkatools.core.config import Config


@unique
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


class MemberTimes:
    """The settings of the groups of one type: the broker's, and by `group_configs` each group's configs by name."""

    group_type: ClassVar[str]

    def __init__(self, config: Config, group_configs: Callable[[str], Mapping[str, str]]) -> None:
        self.config = config
        self.group_configs = group_configs
        self.max_size: int = config[f"group.{self.group_type}.max.size"]

    def number(self, group_id: str, name: str) -> int:
        """A group's own config, such as session.timeout.ms, limited to the broker's present minimum and
        maximum; the broker's default without one."""
        own_value = self.group_configs(group_id).get(f"{self.group_type}.{name}")
        if own_value is None:
            default: int = self.config[f"group.{self.group_type}.{name}"]
            return default
        least, greatest = (self.config[f"group.{self.group_type}.{bound}.{name}"] for bound in ("min", "max"))
        return int(min(max(int(own_value), least), greatest))

    def session_timeout_ms(self, group_id: str) -> int:
        """The session timeout of a group's members in ms."""
        return self.number(group_id, "session.timeout.ms")

    def heartbeat_interval_ms(self, group_id: str) -> int:
        """The heartbeat interval of a group's members in ms."""
        return self.number(group_id, "heartbeat.interval.ms")

    def assignment_interval_ms(self, group_id: str) -> int:
        """The minimum time between two target assignments of a group in ms."""
        return self.number(group_id, "assignment.interval.ms")


class ConsumerGroupSettings(MemberTimes):
    """The settings of consumer groups."""

    group_type = "consumer"

    def __init__(self, config: Config, group_configs: Callable[[str], Mapping[str, str]]) -> None:
        super().__init__(config, group_configs)
        self.assignors = tuple(config.group_consumer_assignors)
        self.migration_policy = MigrationPolicy(config.group_consumer_migration_policy.lower())
