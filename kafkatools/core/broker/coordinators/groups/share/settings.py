"""Settings of share groups: the broker's, and each group's own configs (GroupConfig, KIP-932)."""

from __future__ import annotations

from kafkatools.core.broker.coordinators.groups.modern.consumer_settings import MemberTimes

READ_COMMITTED = "read_committed"


class ShareGroupSettings(MemberTimes):
    """The settings of share groups."""

    group_type = "share"

    def lock_duration_ms(self, group_id: str) -> int:
        """The time that a record stays acquired, in ms."""
        return self.number(group_id, "record.lock.duration.ms")

    def delivery_count_limit(self, group_id: str) -> int:
        """The maximum number of deliveries of a record."""
        return self.number(group_id, "delivery.count.limit")

    def max_record_locks(self, group_id: str) -> int:
        """The maximum number of records in flight per partition."""
        return self.number(group_id, "partition.max.record.locks")

    def auto_offset_reset(self, group_id: str) -> str:
        """The start offset of a share group: earliest, latest or by_duration:<ISO duration>."""
        return self.group_configs(group_id).get("share.auto.offset.reset", "latest")

    def reads_committed(self, group_id: str) -> bool:
        """Return whether records of open and aborted transactions are hidden from the group."""
        return self.group_configs(group_id).get("share.isolation.level", "").lower() == READ_COMMITTED

    def may_renew(self, group_id: str) -> bool:
        """Return whether members may renew the acquisition lock of a record."""
        return self.group_configs(group_id).get("share.renew.acknowledge.enable", "true").lower() == "true"
