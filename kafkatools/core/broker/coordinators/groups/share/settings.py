"""Settings of share groups: the broker's, and each group's own configs (GroupConfig, KIP-932)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kafkatools.core.broker.coordinators.groups.modern.consumer_settings import IntervalSetting, MemberTimes, interval
from kafkatools.core.config import BROKER

READ_COMMITTED = "read_committed"
NO_OWN: Mapping[str, str] = {}


@dataclass(frozen=True, slots=True)
class ShareGroupSettings(MemberTimes):
    """The broker's settings of share groups. `own` returns a group's own configs by name."""

    session_timeout: IntervalSetting = interval("share.session.timeout.ms")
    heartbeat_interval: IntervalSetting = interval("share.heartbeat.interval.ms")
    lock_duration: IntervalSetting = interval("share.record.lock.duration.ms")
    delivery_limit: IntervalSetting = interval("share.delivery.count.limit")
    max_locks: IntervalSetting = interval("share.partition.max.record.locks")
    max_size: int = BROKER.default_number("group.share.max.size")
    own: Callable[[str], Mapping[str, str]] = field(default=lambda group_id: NO_OWN)

    def lock_duration_ms(self, group_id: str) -> int:
        """The time that a record stays acquired, in ms."""
        return self.lock_duration.of(self.own(group_id))

    def delivery_count_limit(self, group_id: str) -> int:
        """The maximum number of deliveries of a record."""
        return self.delivery_limit.of(self.own(group_id))

    def max_record_locks(self, group_id: str) -> int:
        """The maximum number of records in flight per partition."""
        return self.max_locks.of(self.own(group_id))

    def auto_offset_reset(self, group_id: str) -> str:
        """The start offset of a share group: earliest, latest or by_duration:<ISO duration>."""
        return self.own(group_id).get("share.auto.offset.reset", "latest")

    def reads_committed(self, group_id: str) -> bool:
        """Return whether records of open and aborted transactions are hidden from the group."""
        return self.own(group_id).get("share.isolation.level", "").lower() == READ_COMMITTED

    def may_renew(self, group_id: str) -> bool:
        """Return whether members may renew the acquisition lock of a record."""
        return self.own(group_id).get("share.renew.acknowledge.enable", "true").lower() == "true"
