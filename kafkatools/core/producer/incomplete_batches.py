"""IncompleteBatches: all batches that are queued or in flight, for flush and close (Kafka's class of that name)."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkatools.core.producer.producer_batch import ProducerBatch


class IncompleteBatches:
    """A thread-safe, ordered set of batches. Its lock is taken last, inside any other."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._batches: dict[int, ProducerBatch] = {}

    def add(self, batch: ProducerBatch) -> None:
        with self._lock:
            self._batches[id(batch)] = batch

    def remove(self, batch: ProducerBatch) -> None:
        with self._lock:
            self._batches.pop(id(batch), None)

    def copy(self) -> list[ProducerBatch]:
        with self._lock:
            return list(self._batches.values())

    def __bool__(self) -> bool:
        return bool(self._batches)
