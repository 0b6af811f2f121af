"""A fetch that waits for bytes (Kafka's DelayedFetch)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kafkatools.core.broker.server.purgatory import DelayedOperation
from kafkatools.core.errors import KafkaError

if TYPE_CHECKING:
    from kafkatools.core.broker.replicas.fetch_partition import FetchPartition, Reader
    from kafkatools.core.broker.replicas.replica_manager import ReplicaManager


class DelayedFetch(DelayedOperation):
    """Complete when `min_bytes` are there over all partitions, or when any partition has an error, another leader or
    leader epoch, a diverging epoch, or an end below the fetch offset (truncated); else at the time-out. What is
    answered is read again on completion."""

    __slots__ = ("_min_bytes", "_on_complete", "_partitions", "_reader", "_replicas")

    def __init__(
        self,
        delay_ms: int,
        replicas: ReplicaManager,
        partitions: Sequence[FetchPartition],
        limits: tuple[int, Reader],
        on_complete: Callable[[], None],
    ) -> None:
        super().__init__(delay_ms)
        self._replicas = replicas
        self._partitions = partitions
        self._min_bytes, self._reader = limits
        self._on_complete = on_complete

    def try_complete(self) -> bool:
        available, isolation_level = 0, self._reader.isolation_level
        for wanted in self._partitions:
            partition = self._replicas.find(wanted)
            if partition is None:
                return self.force_complete()
            try:
                if self._reader.is_leader_only:
                    partition.ensure_leader()
                partition.check_leader_epoch(wanted.current_leader_epoch)
                if partition.diverging_epoch(wanted.last_fetched_epoch, wanted.fetch_offset) is not None:
                    return self.force_complete()
                end = partition.fetch_end_offset(isolation_level)
                if wanted.fetch_offset > end:
                    if wanted.fetch_offset > partition.log.log_end_offset:
                        return self.force_complete()
                    continue
                if wanted.fetch_offset == end:
                    continue
                if self._min_bytes <= 1:
                    return self.force_complete()
                found = partition.read(wanted.fetch_offset, wanted.max_bytes, isolation_level, min_one_message=True)
                available += min(found.size_bytes, wanted.max_bytes)
            except KafkaError:
                return self.force_complete()
        return self.force_complete() if available >= self._min_bytes else False

    def on_complete(self) -> None:
        self._on_complete()
