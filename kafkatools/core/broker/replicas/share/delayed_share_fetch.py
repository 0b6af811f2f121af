"""A share fetch in purgatory until records can be acquired (Kafka's DelayedShareFetch)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from kafkatools.core.broker.coordinators.share_state.share_state import ShareKey
from kafkatools.core.broker.server.purgatory import DelayedOperation
from kafkatools.core.errors import KafkaError

if TYPE_CHECKING:
    from kafkatools.core.broker.replicas.share.partition_manager import SharePartitionManager


class DelayedShareFetch(DelayedOperation):
    """Completes when `min_bytes`, at least 1, can be acquired from all partitions together, when one has an error, or
    at the time-out. The completion callback acquires the records."""

    __slots__ = ("_keys", "_manager", "_min_bytes", "_on_complete")

    def __init__(
        self,
        delay_ms: int,
        manager: SharePartitionManager,
        keys: Sequence[ShareKey],
        min_bytes: int,
        on_complete: Callable[[], None],
    ) -> None:
        super().__init__(delay_ms)
        self._manager = manager
        self._keys = keys
        self._min_bytes = min_bytes
        self._on_complete = on_complete

    def try_complete(self) -> bool:
        """Complete if `min_bytes` can be acquired or a partition failed. Returns whether this call completed the
        operation. May start loading the state of a share partition."""
        available = 0
        for key in self._keys:
            try:
                available += self._manager.available_bytes(key, self._min_bytes)
            except (KafkaError, OSError):
                return self.force_complete()
            if available >= max(self._min_bytes, 1):
                return self.force_complete()
        return False

    def on_complete(self) -> None:
        """Call the completion callback, which acquires the records and sends the response."""
        self._on_complete()
