"""A fetch that waits for records (Kafka's DelayedFetch).

Rules:
- It is complete when `min_bytes` are there over all partitions, or when any partition has an error, another leader or
  leader epoch, a diverging epoch, or an end below the fetch offset (truncated); else at the time-out.
- It keeps what was read. An event on a partition checks that partition alone, and the response reads again only what
  changed: a record for one of ten thousand partitions costs what it costs for one.
- Every change that matters is an event: records, a high watermark or last stable offset that moves, a leader, a
  replica that is lost. A moved log start is not one; the client hears of it in its next fetch.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING

from kafkatools.core.broker.server.purgatory import DelayedOperation, Purgatory
from kafkatools.core.errors import KafkaError
from kafkatools.core.protocol.slices import current_pause, paced

if TYPE_CHECKING:
    from kafkatools.core.broker.replicas.fetch_reads import FetchReads
    from kafkatools.core.broker.replicas.replica_manager import ReplicaManager


class DelayedFetch(DelayedOperation):
    """A fetch whose partitions were read and that has nothing to say yet. `on_complete` gets the partitions that have
    to be read again."""

    __slots__ = ("_available", "_changed", "_min_bytes", "_numbers", "_on_complete", "_reads", "_replicas", "_total")

    def __init__(
        self,
        delay_ms: int,
        replicas: ReplicaManager,
        reads: FetchReads,
        min_bytes: int,
        on_complete: Callable[[Sequence[int]], None],
    ) -> None:
        super().__init__(delay_ms)
        self._replicas = replicas
        self._reads = reads
        self._min_bytes = min_bytes
        self._on_complete = on_complete
        self._numbers: dict[Hashable, int] = {}
        self._changed: dict[int, None] = {}
        self._available: dict[int, int] = {}
        self._total = 0

    def watch(self, purgatory: Purgatory) -> None:
        """Wait for events on every partition; the operation may be complete by then.

        In slices, partitions may change between their read and their watch: each is checked after it is watched.
        """
        is_sliced = current_pause() is not None
        for number, (wanted, result) in enumerate(paced(zip(self._reads.wanted, self._reads.results, strict=True))):
            if self.is_completed:
                return
            partition = self._replicas.find(wanted)
            if partition is not None:
                self._numbers[partition.key] = number
                purgatory.watch(self, partition.key)
                if not is_sliced and result.records is None:
                    continue  # nothing has happened since it was read
                offsets = (partition.log.high_watermark, partition.log.last_stable_offset)
                # Records that were read may be gone when the response is sent.
                if result.size_bytes or offsets != (result.high_watermark, result.last_stable_offset):
                    self._changed[number] = None
            if self._is_reached(number):
                self._changed[number] = None
                self.force_complete()

    def try_complete_for(self, key: Hashable) -> bool:
        number = self._numbers[key]
        self._changed[number] = None
        return self.force_complete() if self._is_reached(number) else False

    def on_complete(self) -> None:
        self._on_complete(list(self._changed))
        del self._reads, self._numbers, self._changed, self._available  # it may stay under keys without events

    def _is_reached(self, number: int) -> bool:
        """Count what a partition has now; whether the fetch has to be answered."""
        try:
            available = self._available_bytes(number)
        except KafkaError:
            return True
        if available is None:
            return True
        before = self._available.get(number, 0)
        if available != before:
            self._total += available - before
            self._available[number] = available
        return self._total >= self._min_bytes

    def _available_bytes(self, number: int) -> int | None:
        """What a partition has to read; None when it has to be told what it is. Raises KafkaError."""
        reader, wanted = self._reads.reader, self._reads.wanted[number]
        partition = self._replicas.find(wanted)
        if partition is None:
            return None
        if reader.is_leader_only:
            partition.ensure_leader()
        partition.check_leader_epoch(wanted.current_leader_epoch)
        if partition.diverging_epoch(wanted.last_fetched_epoch, wanted.fetch_offset) is not None:
            return None
        end = partition.fetch_end_offset(reader.isolation_level)
        if wanted.fetch_offset >= end:
            return None if wanted.fetch_offset > partition.log.log_end_offset else 0
        if self._min_bytes <= 1:
            return None
        found = partition.read(wanted.fetch_offset, wanted.max_bytes, reader.isolation_level, min_one_message=True)
        return min(found.size_bytes, wanted.max_bytes)
