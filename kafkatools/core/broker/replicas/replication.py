"""A broker's part in replication as leader and follower: it connects partitions with the other brokers.

`ReplicaManager` creates one on a broker of a cluster. `tick` runs in every turn of the node, after requests and
responses. It sends due fetches and ISR changes and checks every ISR twice in replica.lag.time.max.ms.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from kafkatools.core.broker.metadata.directory_ids import is_online
from kafkatools.core.broker.metadata.image import MetadataImage
from kafkatools.core.broker.replicas.cluster import Cluster, ReplicationSettings
from kafkatools.core.broker.replicas.follower_sessions import FollowerSessions
from kafkatools.core.broker.replicas.isr_changes import IsrChanges
from kafkatools.core.broker.replicas.partition import Partition
from kafkatools.core.broker.replicas.replica import NO_BROKER_EPOCH, Replica
from kafkatools.core.broker.replicas.replica_fetcher import ReplicaFetcher
from kafkatools.core.broker.replicas.replica_manager import ReplicaManager
from kafkatools.core.broker.replicas.throttles import ReplicationThrottles

EXPIRY_CHECK_MS = 500
NO_LEADER = -1


@dataclass(eq=False, repr=False)
class ReplicaFetchers:
    """The fetchers of this broker, one for each leader that it follows (Kafka's ReplicaFetcherManager)."""

    open_fetcher: Callable[[int], ReplicaFetcher]
    _fetchers: dict[int, ReplicaFetcher] = field(default_factory=dict, init=False)
    _leaders: dict[object, int] = field(default_factory=dict, init=False)

    def follow(self, partition: Partition) -> None:
        """Fetch a partition from its current leader instead of an earlier one. Without a leader or with an offline log,
        fetching only stops."""
        self.unfollow(partition)
        leader_id = partition.leader_id
        if leader_id == NO_LEADER or partition.log.failure is not None:
            return
        fetcher = self._fetchers.get(leader_id)
        if fetcher is None:
            fetcher = self._fetchers[leader_id] = self.open_fetcher(leader_id)
        self._leaders[partition.key] = leader_id
        fetcher.add(partition)

    def unfollow(self, partition: Partition) -> None:
        """Stop fetching a partition."""
        leader_id = self._leaders.pop(partition.key, None)
        if leader_id is not None:
            self._fetchers[leader_id].remove(partition.key)

    @property
    def next_deadline_ms(self) -> int | None:
        """Time in ms at which `tick` has a fetch to send, None if there is none."""
        deadlines = [fetcher.next_deadline_ms for fetcher in self._fetchers.values()]
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def tick(self, now_ms: int) -> None:
        """Send the fetches that are due."""
        for fetcher in self._fetchers.values():
            fetcher.tick(now_ms)


class Replication:
    """Leader and follower side of replication on one broker: fetchers, follower sessions, ISR changes and throttles."""

    def __init__(self, replicas: ReplicaManager, cluster: Cluster, settings: ReplicationSettings) -> None:
        self._replicas = replicas
        self._image = cluster.image
        self._clock = cluster.clock
        self._settings = settings
        self.has_contact = cluster.has_contact
        self.max_lag_ms = settings.lag_time_max_ms
        self.throttles = ReplicationThrottles(cluster.node_id, cluster.clock, cluster.limit_of, settings.quota_windows)
        self.isr_changes = IsrChanges(
            cluster.node_id, cluster.broker_epoch, cluster.controller, replicas.note_high_watermark
        )
        self.sessions = FollowerSessions(replicas, cluster, self.throttles, self.note_fetch)
        self.fetchers = ReplicaFetchers(
            lambda leader: ReplicaFetcher(leader, cluster, settings, self.throttles, replicas.note_high_watermark)
        )
        self._next_shrink_ms = self._next_expiry_ms = 0

    def tick(self, now_ms: int) -> None:
        """Shrink ISRs, expire waiting writes and send fetches and ISR changes, each when it is due."""
        if now_ms >= self._next_shrink_ms:
            self._next_shrink_ms = now_ms + max(1, self.max_lag_ms // 2)
            for partitions in self._replicas.partitions.values():
                for partition in partitions.values():
                    partition.maybe_shrink_isr(now_ms)
        if now_ms >= self._next_expiry_ms:
            self._next_expiry_ms = now_ms + EXPIRY_CHECK_MS
            self._replicas.expire_waiting(now_ms)
        self.fetchers.tick(now_ms)
        self.isr_changes.tick(now_ms)

    @property
    def next_deadline_ms(self) -> int:
        """Time in ms at which `tick` must run next; 0 while the replica manager has requests to complete."""
        if self._replicas.has_delayed:
            return 0
        deadlines = (self.fetchers.next_deadline_ms, self.isr_changes.next_deadline_ms)
        return min(self._next_shrink_ms, self._next_expiry_ms, *(at_ms for at_ms in deadlines if at_ms is not None))

    def is_alive(self, broker_id: int) -> bool:
        """Return whether a broker is registered and not fenced."""
        broker = self._image.brokers.get(broker_id)
        return broker is not None and not broker.is_fenced

    def is_eligible(self, replica: Replica) -> bool:
        """Return whether a follower may be in an ISR: its broker is active, and it fetched with the broker's current
        epoch or, in older versions, with none (KIP-903)."""
        broker = self._image.brokers.get(replica.broker_id)
        if broker is None or not broker.is_active or replica.broker_epoch == NO_BROKER_EPOCH:
            return False
        return replica.broker_epoch in (-1, broker.epoch)

    def is_joining(self, partition: Partition, replica: Replica) -> bool:
        """Return whether a follower is caught up, eligible for the ISR, and not in a failed log directory. The high
        watermark then waits for it, even before it is in the ISR."""
        end = partition.log.log_end_offset
        is_caught_up = replica.is_caught_up(end, self._clock.now_ms(), self.max_lag_ms)
        return is_caught_up and self.is_eligible(replica) and self._has_directory(partition, replica.broker_id)

    def _has_directory(self, partition: Partition, broker_id: int) -> bool:
        """Return whether the follower's log directory is online, as far as the metadata knows; True for an unknown
        replica. A replica in a failed directory fetches nothing more. If it counted, the high watermark would wait for
        it for replica.lag.time.max.ms, as in Apache Kafka."""
        topic, broker = self._image.topics_by_id.get(partition.topic_id), self._image.brokers.get(broker_id)
        state = None if topic is None else topic.partitions.get(partition.index)
        if state is None or broker is None or broker_id not in state.replicas:
            return True
        return is_online(state.directory(broker_id), broker.log_dirs)

    def preferred_replica(self, partition: Partition, fetch_offset: int, rack: str) -> int | None:
        """Return the follower that a consumer in `rack` should fetch from (KIP-392). None for the leader, which serves
        every rack unless replica.selector.class is RackAwareReplicaSelector."""
        if not self._settings.selects_by_rack or not partition.is_leader:
            return None
        return replica_in_rack(self._image, partition, fetch_offset, rack)

    def note_fetch(
        self,
        partition: Partition,
        replica: Replica,
        offsets: tuple[int, int],
        leader_end: int,
        broker_epoch: int,
        now_ms: int,
    ) -> None:
        """Apply a follower's fetch: `offsets` is (fetch offset, log start offset), `leader_end` the leader's log end
        offset. Completes requests that wait for the high or low watermark. Raises NotLeaderOrFollower for an earlier
        incarnation of the follower's broker."""
        is_new_start = offsets[1] != replica.log_start_offset
        if partition.update_follower(replica, offsets, leader_end, broker_epoch, now_ms):
            self._replicas.note_high_watermark(partition)
        if is_new_start:
            self._replicas.note_low_watermark(partition)


def replica_in_rack(image: MetadataImage, partition: Partition, fetch_offset: int, rack: str) -> int | None:
    """Return the in-sync follower in the client's rack that has the fetch offset and the largest log end offset. None
    means the leader: it is in that rack itself, or no follower qualifies (KIP-392, RackAwareReplicaSelector)."""
    if _rack(image, partition.node_id) == rack:
        return None
    candidates = [
        replica
        for replica in partition.followers.values()
        if replica.broker_id in partition.isr
        and replica.log_start_offset <= fetch_offset <= replica.log_end_offset
        and _rack(image, replica.broker_id) == rack
    ]
    best = max(
        candidates,
        key=lambda replica: (replica.log_end_offset, replica.last_caught_up_ms, -replica.broker_id),
        default=None,
    )
    return None if best is None else best.broker_id


def _rack(image: MetadataImage, broker_id: int) -> str | None:
    broker = image.brokers.get(broker_id)
    return None if broker is None or broker.is_fenced else broker.rack
