"""Settings of streams groups: the broker's, and each group's own configs (GroupConfig, KIP-1071)."""

from __future__ import annotations

from kafkatools.core.broker.coordinators.groups.modern.consumer_settings import MemberTimes


class StreamsGroupSettings(MemberTimes):
    """The settings of streams groups."""

    group_type = "streams"

    def initial_rebalance_delay_ms(self, group_id: str) -> int:
        """The time that an empty group waits for more members before its first assignment, in ms."""
        own_value = self.group_configs(group_id).get("streams.initial.rebalance.delay.ms")
        default: int = self.config.group_streams_initial_rebalance_delay_ms
        return default if own_value is None else int(own_value)

    def standby_count(self, group_id: str) -> int:
        """The number of standbys of each stateful task, at most group.streams.max.standby.replicas."""
        own_value = self.group_configs(group_id).get("streams.num.standby.replicas")
        default: int = self.config.group_streams_num_standby_replicas
        greatest: int = self.config.group_streams_max_standby_replicas
        return default if own_value is None else min(int(own_value), greatest)

    def assignment_configs(self, group_id: str) -> dict[str, str]:
        """The settings of the assignor, as the group's record holds them. A change of them causes a rebalance."""
        return {"num.standby.replicas": str(self.standby_count(group_id))}
