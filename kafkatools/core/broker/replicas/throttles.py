"""Replication throttles (Kafka's ReplicationQuotaManager): {leader,follower}.replication.throttled.rate limit the
replicas that a topic's {leader,follower}.replication.throttled.replicas names.

Rules: the rate covers all throttled replicas of this broker together, and counts no others. A leader above its rate
sends no records to throttled followers outside of the ISR. A follower above its rate does not fetch its throttled
partitions. A rate that was never set is no limit.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkatools.core.broker.replicas.partition import Partition
from kafkatools.core.broker.server.quotas import Rate
from kafkatools.core.clock import Clock

LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
NO_LIMIT = 2**63 - 1


class ReplicationThrottles:
    """The leader's and the follower's replication quota of one broker. `limit_of(setting)` returns the current rate in
    bytes per second, None when it was never set."""

    def __init__(
        self, node_id: int, clock: Clock, limit_of: Callable[[str], int | None], windows: tuple[int, int] = (1000, 11)
    ) -> None:
        """`windows` is replication.quota.window.size.seconds in ms and replication.quota.window.num."""
        self._node_id = node_id
        self._clock = clock
        self._limit_of = limit_of
        self._sent_rate = Rate(*windows)
        self._received_rate = Rate(*windows)

    def is_sending_throttled(self, partition: Partition, follower_id: int) -> bool:
        """Return whether the leader must send no records to this follower now: it is out of the ISR, the topic
        throttles this replica, and the rate is above its limit (shouldLeaderThrottle)."""
        names = partition.log.config.leader_replication_throttled_replicas
        if follower_id in partition.isr or not self._is_named(partition, names):
            return False
        return self._is_above(self._sent_rate, LEADER_RATE)

    def note_sent(self, partition: Partition, size_bytes: int) -> None:
        """Count bytes sent to a follower if leader.replication.throttled.replicas names this replica."""
        if self._is_named(partition, partition.log.config.leader_replication_throttled_replicas):
            self._sent_rate.record(size_bytes, self._clock.now_ms())

    def is_receiving_throttled(self, partition: Partition) -> bool:
        """Return whether this follower must not fetch the partition now: it is out of the ISR, the topic throttles this
        replica, and the rate is above its limit (shouldFollowerThrottle)."""
        names = partition.log.config.follower_replication_throttled_replicas
        if self._node_id in partition.isr or not self._is_named(partition, names):
            return False
        return self._is_above(self._received_rate, FOLLOWER_RATE)

    def note_received(self, partition: Partition, size_bytes: int) -> None:
        """Count bytes fetched from a leader if follower.replication.throttled.replicas names this replica."""
        if self._is_named(partition, partition.log.config.follower_replication_throttled_replicas):
            self._received_rate.record(size_bytes, self._clock.now_ms())

    def _is_named(self, partition: Partition, names: frozenset[str]) -> bool:
        return bool(names) and ("*" in names or f"{partition.index}:{self._node_id}" in names)

    def _is_above(self, rate: Rate, name: str) -> bool:
        limit = self._limit_of(name)
        return limit is not None and limit < NO_LIMIT and rate.per_second(self._clock.now_ms()) > limit
