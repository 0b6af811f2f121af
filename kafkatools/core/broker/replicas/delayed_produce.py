"""A request in purgatory until its writes are replicated, or until their partitions have failed (Kafka's
DelayedProduce)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from kafkatools.core.broker.replicas.partition import Partition
from kafkatools.core.broker.server.purgatory import DelayedOperation
from kafkatools.core.errors import RequestTimedOut


@dataclass(slots=True)
class ProduceStatus:
    """One partition of a produce request: the offset the high watermark must reach, and the error code."""

    partition: Partition
    required_offset: int
    error_code: int = RequestTimedOut.code

    def update(self) -> bool:
        """Update the error code, REQUEST_TIMED_OUT at first. Returns whether the write is replicated or has failed."""
        if self.error_code == RequestTimedOut.code:
            outcome = self.partition.replication_outcome(self.required_offset)
            self.error_code = self.error_code if outcome is None else outcome
        return self.error_code != RequestTimedOut.code


class Status(Protocol):
    """The progress of one partition of a waiting request."""

    def update(self) -> bool:
        """Update the status. Returns whether it is final."""


S = TypeVar("S", bound=Status)


class DelayedProduce(DelayedOperation, Generic[S]):
    """Completes when the status of every partition is final: for a write replicated up to its required offset, or
    failed. Partitions that are still pending at the time-out answer REQUEST_TIMED_OUT."""

    __slots__ = ("_on_complete", "statuses")

    def __init__(self, delay_ms: int, statuses: Sequence[S], on_complete: Callable[[Sequence[S]], None]) -> None:
        super().__init__(delay_ms)
        self.statuses = statuses
        self._on_complete = on_complete

    def try_complete(self) -> bool:
        """Complete if every status is final. Returns whether this call completed the operation."""
        return self.force_complete() if all([status.update() for status in self.statuses]) else False

    def on_complete(self) -> None:
        """Call the completion callback with the status of every partition."""
        self._on_complete(self.statuses)
