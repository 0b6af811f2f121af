"""A consumer fetch in purgatory that waits for records (Kafka's DelayedFetch).

Rules:
- The fetch completes when all its partitions together have `min_bytes`, or at its time-out. A partition also completes
  the fetch at once with an error, a new leader or leader epoch, a diverging epoch, or a log end below the fetch offset.
- The results of the first read are kept. An event on a partition checks that partition alone, and the response reads
  only the changed partitions again: a record for one of ten thousand partitions costs as much as for one of one.
- Every change that matters is an event: an append, a moved high watermark or last stable offset, a change of leader, a
  lost replica. A moved log start offset is no event; the client learns it from its next fetch.
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
    """A fetch that waits after its first read. `on_complete` gets the indexes of partitions to read again."""

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
        """Register the fetch in the purgatory under the key of every partition it reads. A fetch whose condition
        already holds completes in this call. In the slow lane a partition may change between its read and its
        registration, so each one is checked after it is registered."""
        is_sliced = current_pause() is not None
        for number, (requested, result) in enumerate(
            paced(zip(self._reads.partitions, self._reads.results, strict=True))
        ):
            if self.is_completed:
                return
            partition = self._replicas.find(requested)
            if partition is not None:
                self._numbers[partition.key] = number
                purgatory.watch(self, partition.key)
                if not is_sliced and result.records is None:
                    continue  # unchanged since its read
                offsets = (partition.log.high_watermark, partition.log.last_stable_offset)
                # The records may be deleted before the response is sent.
                if result.size_bytes or offsets != (result.high_watermark, result.last_stable_offset):
                    self._changed[number] = None
            if self._is_reached(number):
                self._changed[number] = None
                self.force_complete()

    def try_complete_for(self, key: Hashable) -> bool:
        """Complete if an event on this partition satisfies the fetch; the response will read the partition again.
        Returns whether this call completed the operation."""
        number = self._numbers[key]
        self._changed[number] = None
        return self.force_complete() if self._is_reached(number) else False

    def on_complete(self) -> None:
        """Call the completion callback with the indexes of changed partitions; drop the results of the first read."""
        self._on_complete(list(self._changed))
        del self._reads, self._numbers, self._changed, self._available  # the purgatory may hold this operation for long

    def _is_reached(self, number: int) -> bool:
        """Recount the readable bytes of a partition and return whether the fetch must complete now."""
        try:
            available = self._available_bytes(number)
        except KafkaError:
            return True
        if available is None:
            return True
        previous = self._available.get(number, 0)
        if available != previous:
            self._total += available - previous
            self._available[number] = available
        return self._total >= self._min_bytes

    def _available_bytes(self, number: int) -> int | None:
        """Return the bytes a partition can serve, at most its `max_bytes`. None if it alone completes the fetch: lost,
        diverging, truncated below the fetch offset, or with any record when `min_bytes` is at most 1. Raises
        KafkaError."""
        reader, requested = self._reads.reader, self._reads.partitions[number]
        partition = self._replicas.find(requested)
        if partition is None:
            return None
        if reader.is_leader_only:
            partition.ensure_leader()
        partition.check_leader_epoch(requested.current_leader_epoch)
        if partition.diverging_epoch(requested.last_fetched_epoch, requested.fetch_offset) is not None:
            return None
        end = partition.fetch_end_offset(reader.isolation_level)
        if requested.fetch_offset >= end:
            return None if requested.fetch_offset > partition.log.log_end_offset else 0
        if self._min_bytes <= 1:
            return None
        records = partition.read(
            requested.fetch_offset, requested.max_bytes, reader.isolation_level, min_one_message=True
        )
        return min(records.size_bytes, requested.max_bytes)
