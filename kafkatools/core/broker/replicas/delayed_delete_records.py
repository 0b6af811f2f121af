"""A DeleteRecords request in purgatory until every live replica has deleted the records (Kafka's
DelayedDeleteRecords)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kafkatools.core.broker.replicas.partition import Partition
from kafkatools.core.broker.server.purgatory import DelayedOperation
from kafkatools.core.errors import KafkaStorageError, NotLeaderOrFollower, RequestTimedOut

NONE = 0


@dataclass(slots=True)
class DeleteRecordsStatus:
    """One partition of a DeleteRecords request: the required log start offset, error code and low watermark."""

    partition: Partition
    required_offset: int
    error_code: int = RequestTimedOut.code
    low_watermark: int = -1

    def look(self) -> bool:
        """Update the low watermark and the error code, at first REQUEST_TIMED_OUT. Returns whether the code is
        final."""
        if self.error_code != RequestTimedOut.code:
            return True
        partition = self.partition
        if not partition.is_leader:
            self.error_code = NotLeaderOrFollower.code
        elif partition.log.failure is not None:
            self.error_code = KafkaStorageError.code
        else:
            self.low_watermark = partition.low_watermark
            if self.low_watermark >= self.required_offset:
                self.error_code = NONE
        return self.error_code != RequestTimedOut.code


class DelayedDeleteRecords(DelayedOperation):
    """Completes when every partition's low watermark has reached its required offset or the partition failed, or at the
    time-out."""

    __slots__ = ("_on_complete", "statuses")

    def __init__(self, delay_ms: int, statuses: Sequence[DeleteRecordsStatus], on_complete: Callable[[], None]) -> None:
        super().__init__(delay_ms)
        self.statuses = statuses
        self._on_complete = on_complete

    def try_complete(self) -> bool:
        """Complete if every partition is done or has failed. Returns whether this call completed the operation."""
        return self.force_complete() if all([status.look() for status in self.statuses]) else False

    def on_complete(self) -> None:
        """Call the completion callback, which sends the response."""
        self._on_complete()
