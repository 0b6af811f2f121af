"""A broker's part in replication, as a leader and as a follower: what ties partitions to the other brokers.

`ReplicaManager` has it made for a broker of a cluster. `tick` goes with every turn of the crank, after requests and
answers: it sends fetches and ISR changes that are due, and looks at the ISR of every partition twice in
replica.lag.time.max.ms.
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
from kafkatools.core.broker.replicas.replica import Replica
from kafkatools.core.broker.replicas.replica_fetcher import ReplicaFetcher
from kafkatools.core.broker.replicas.replica_manager import ReplicaManager
from kafkatools.core.broker.replicas.throttles import ReplicationThrottles

NO_BROKER_EPOCH = -2
EXPIRY_CHECK_MS = 500


NO_LEADER = -1


@dataclass(eq=False, repr=False)
class ReplicaFetchers:
    """Who follows whom: one `ReplicaFetcher` for each leader (Kafka's ReplicaFetcherManager). `open_fetcher` makes the
    one for a leader."""

    open_fetcher: Callable[[int], ReplicaFetcher]
    _fetchers: dict[int, ReplicaFetcher] = field(default_factory=dict, init=False)
    _leaders: dict[object, int] = field(default_factory=dict, init=False)

    def follow(self, partition: Partition) -> None:
        """Fetch from the partition's leader from now on; nobody has none."""
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
        """Fetch a partition no longer."""
        leader_id = self._leaders.pop(partition.key, None)
        if leader_id is not None:
            self._fetchers[leader_id].remove(partition.key)

    def leader_of(self, partition: Partition) -> int | None:
        """Whom a partition is fetched from, None when from nobody."""
        return self._leaders.get(partition.key)

    @property
    def next_deadline_ms(self) -> int | None:
        """When `tick` has something to do."""
        due = [fetcher.next_deadline_ms for fetcher in self._fetchers.values()]
        return min((each for each in due if each is not None), default=None)

    def tick(self, now_ms: int) -> None:
        """Send the fetches that are due."""
        for fetcher in self._fetchers.values():
            fetcher.tick(now_ms)


class Replication:
    """See the module."""

    def __init__(self, replicas: ReplicaManager, cluster: Cluster, settings: ReplicationSettings) -> None:
        self._replicas = replicas
        self._image = cluster.image
        self.node_id = cluster.node_id
        self.clock = cluster.clock
        self.schedule = cluster.schedule
        self.settings = settings
        self.max_lag_ms = settings.max_lag_ms
        self.throttles = ReplicationThrottles(cluster.node_id, cluster.clock, cluster.limit_of, settings.quota_windows)
        self.isr_changes = IsrChanges(
            cluster.node_id, cluster.broker_epoch, cluster.controller, replicas.note_high_watermark
        )
        self.sessions = FollowerSessions(replicas, cluster, self.throttles, self.note_fetch)
        self.fetchers = ReplicaFetchers(
            lambda leader: ReplicaFetcher(leader, cluster, settings, self.throttles, replicas.note_high_watermark)
        )
        self._next_shrink_ms = self._next_expiry_ms = 0

    # -- turns -----------------------------------------------------------------------------------------------------
    def tick(self, now_ms: int) -> None:
        """Do what is due."""
        if now_ms >= self._next_shrink_ms:
            self._next_shrink_ms = now_ms + max(1, self.max_lag_ms // 2)
            self.shrink_isrs(now_ms)
        if now_ms >= self._next_expiry_ms:
            self._next_expiry_ms = now_ms + EXPIRY_CHECK_MS
            self._replicas.expire_waiting(now_ms)
        self.fetchers.tick(now_ms)
        self.isr_changes.tick(now_ms)

    @property
    def next_deadline_ms(self) -> int:
        """When `tick` is needed at the latest; at once when somebody was not answered yet."""
        if self._replicas.has_delayed:
            return 0
        due = [
            self._next_shrink_ms,
            self._next_expiry_ms,
            self.fetchers.next_deadline_ms,
            self.isr_changes.next_deadline_ms,
        ]
        return min(each for each in due if each is not None)

    def shrink_isrs(self, now_ms: int) -> None:
        """Ask for smaller ISRs where somebody fell behind (maybeShrinkIsr)."""
        for partitions in self._replicas.partitions.values():
            for partition in partitions.values():
                partition.maybe_shrink_isr(now_ms)

    # -- what partitions ask ---------------------------------------------------------------------------------------
    def is_alive(self, broker_id: int) -> bool:
        """Whether a broker is registered and not fenced."""
        broker = self._image.brokers.get(broker_id)
        return broker is not None and not broker.is_fenced

    def is_eligible(self, replica: Replica) -> bool:
        """Whether a follower's broker may be in an ISR: alive, staying, and the one that fetched (KIP-903)."""
        broker = self._image.brokers.get(replica.broker_id)
        if broker is None or not broker.is_active or replica.broker_epoch == NO_BROKER_EPOCH:
            return False
        return replica.broker_epoch in (-1, broker.epoch)

    def is_joining(self, partition: Partition, replica: Replica) -> bool:
        """Whether a follower outside of the ISR is caught up and may join it: the high watermark waits for it."""
        end = partition.log.log_end_offset
        is_caught_up = replica.is_caught_up(end, self.clock.now_ms(), self.max_lag_ms)
        return is_caught_up and self.is_eligible(replica) and self._has_directory(partition, replica.broker_id)

    def _has_directory(self, partition: Partition, broker_id: int) -> bool:
        """Whether the log directory of a follower is online. One that has failed fetches nothing more, and the high
        watermark would wait for it until replica.lag.time.max.ms is over (as Kafka's does)."""
        topic, broker = self._image.topics_by_id.get(partition.topic_id), self._image.brokers.get(broker_id)
        state = None if topic is None else topic.partitions.get(partition.index)
        if state is None or broker is None or broker_id not in state.replicas:
            return True
        return is_online(state.directory(broker_id), broker.log_dirs)

    def preferred_replica(self, partition: Partition, fetch_offset: int, rack: str) -> int | None:
        """The follower a consumer in a rack should read from, None when the leader (KIP-392)."""
        if not self.settings.selects_by_rack or not partition.is_leader:
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
        """A follower's fetch tells how far it is; raises NotLeaderOrFollower for an earlier life of its broker."""
        is_new_start = offsets[1] != replica.log_start_offset
        if partition.update_follower(replica, offsets, leader_end, broker_epoch, now_ms):
            self._replicas.note_high_watermark(partition)
        if is_new_start:
            self._replicas.note_low_watermark(partition)


def replica_in_rack(image: MetadataImage, partition: Partition, fetch_offset: int, rack: str) -> int | None:
    """Which replica a consumer reads from (KIP-392, RackAwareReplicaSelector): a follower in the client's rack that is
    in sync and has the offset, the one that is furthest; None: the leader serves, because it is in that rack itself or
    nobody is."""
    if _rack(image, partition.node_id) == rack:
        return None
    able = [
        replica
        for replica in partition.followers.values()
        if replica.broker_id in partition.isr
        and replica.log_start_offset <= fetch_offset <= replica.log_end_offset
        and _rack(image, replica.broker_id) == rack
    ]
    best = max(able, key=lambda each: (each.log_end_offset, each.last_caught_up_ms, -each.broker_id), default=None)
    return None if best is None else best.broker_id


def _rack(image: MetadataImage, broker_id: int) -> str | None:
    broker = image.brokers.get(broker_id)
    return None if broker is None or broker.is_fenced else broker.rack
