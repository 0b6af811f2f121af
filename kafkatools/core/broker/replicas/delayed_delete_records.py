"""The progress of a DeleteRecords request that waits until every live replica has deleted the records (Kafka's
DelayedDeleteRecords); it waits as a `DelayedProduce`."""

from __future__ import annotations

from dataclasses import dataclass

from kafkatools.core.broker.replicas.partition import Partition
from kafkatools.core.errors import KafkaStorageError, NotLeaderOrFollower, RequestTimedOut

NONE = 0


@dataclass(slots=True)
class DeleteRecordsStatus:
    """One partition of a DeleteRecords request: the required log start offset, error code and low watermark."""

    partition: Partition
    required_offset: int
    error_code: int = RequestTimedOut.code
    low_watermark: int = -1

    def update(self) -> bool:
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
