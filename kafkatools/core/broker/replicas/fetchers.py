"""Who follows whom: one `ReplicaFetcher` for each leader (Kafka's ReplicaFetcherManager)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from kafkatools.core.broker.replicas.partition import Partition
from kafkatools.core.broker.replicas.replica_fetcher import ReplicaFetcher

NO_LEADER = -1


@dataclass(eq=False, repr=False)
class ReplicaFetchers:
    """All fetchers of this broker. `open_fetcher` makes the one for a leader."""

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
