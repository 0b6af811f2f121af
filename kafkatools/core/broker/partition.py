"""A partition this broker leads (Kafka's Partition): the log, the leader epoch, and the rules for reading and writing
as a leader.

With one replica the high watermark is the log end offset after every append; with `waits_for_disk` the group commit
moves it on.
"""

from __future__ import annotations

import uuid
from typing import NamedTuple

from kafkatools.core.errors import (
    FencedLeaderEpoch,
    NotLeaderOrFollower,
    OffsetOutOfRange,
    PolicyViolation,
    UnknownLeaderEpoch,
)
from kafkatools.core.log.log_results import LogAppendInfo, LogSlice
from kafkatools.core.log.partition_log import PartitionLog
from kafkatools.core.log.plain_append import append_plain
from kafkatools.core.log.producer_append import NO_TRANSACTION_VERSION, AppendOrigin

READ_UNCOMMITTED, READ_COMMITTED = 0, 1
LATEST_TIMESTAMP, EARLIEST_TIMESTAMP, MAX_TIMESTAMP = -1, -2, -3
EARLIEST_LOCAL_TIMESTAMP, LATEST_TIERED_TIMESTAMP, EARLIEST_PENDING_UPLOAD_TIMESTAMP = -4, -5, -6
UNDEFINED = -1


class OffsetAndTimestamp(NamedTuple):
    """An answer of ListOffsets; -1 where there is none."""

    timestamp: int
    offset: int
    leader_epoch: int


class EpochEnd(NamedTuple):
    """The end offset of a leader epoch, or of the largest one below it."""

    leader_epoch: int
    end_offset: int


class Partition:
    """One leader replica."""

    __slots__ = ("index", "is_deleted", "key", "leader_epoch", "log", "topic", "topic_id", "waits_for_disk")

    def __init__(self, topic: str, topic_id: uuid.UUID, index: int, leader_epoch: int, log: PartitionLog) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.leader_epoch = leader_epoch
        self.log = log
        self.key = (topic_id, index)
        self.is_deleted = False
        self.waits_for_disk = False

    def __str__(self) -> str:
        return f"{self.topic}-{self.index}"

    def append(
        self,
        records: memoryview,
        now_ms: int,
        *,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        transaction_version: int = NO_TRANSACTION_VERSION,
        is_verified: bool = True,
    ) -> LogAppendInfo:
        """Append as the leader; a full disk or a broken file is KafkaStorageError from the log."""
        if self.is_deleted:
            raise NotLeaderOrFollower()
        log = self.log
        info = self.append_plain(records, now_ms) if origin is AppendOrigin.CLIENT else None
        if info is not None:
            return info
        info = log.append_as_leader(
            records,
            leader_epoch=self.leader_epoch,
            now_ms=now_ms,
            origin=origin,
            transaction_version=transaction_version,
            is_verified=is_verified,
        )
        if not self.waits_for_disk:
            log.update_high_watermark(log.log_end_offset)
        return info

    def append_plain(self, records: memoryview, now_ms: int) -> LogAppendInfo | None:
        """Append a client's ordinary batch; None, and nothing has happened, when `append` has to look at it."""
        log = self.log
        info = None if self.is_deleted else append_plain(log, records, self.leader_epoch, now_ms)
        if info is not None and not self.waits_for_disk:
            log.update_high_watermark(log.log_end_offset)
        return info

    def needs_verification(self, producer: tuple[int, int], sequence: int, *, bumps_epoch: bool) -> bool:
        """Whether a batch of a transaction begins it here, so that the coordinator must know of it; the log refuses one
        of an epoch that is over (maybeStartTransactionVerification)."""
        entry = self.log.producer_state.producers.get(producer[0])
        if entry is not None:
            is_ongoing = entry.current_txn_first_offset >= 0 and entry.producer_epoch == producer[1]
            if is_ongoing or entry.producer_epoch > producer[1]:
                return False
        self.log.attempts.note(*producer, sequence, bumps_epoch=bumps_epoch)
        return True

    def is_replicated_to(self, required_offset: int) -> bool:
        """Whether the high watermark reached an offset (checkEnoughReplicasReachOffset)."""
        return self.log.high_watermark >= required_offset

    def check_leader_epoch(self, current_leader_epoch: int) -> None:
        """What the client believes against what is (checkCurrentLeaderEpoch); -1 is not checked."""
        if current_leader_epoch == UNDEFINED or current_leader_epoch == self.leader_epoch:
            return
        if current_leader_epoch < self.leader_epoch:
            raise FencedLeaderEpoch()
        raise UnknownLeaderEpoch()

    def fetch_end_offset(self, isolation_level: int) -> int:
        """How far a consumer may read."""
        return self.log.last_stable_offset if isolation_level == READ_COMMITTED else self.log.high_watermark

    def read(self, offset: int, max_bytes: int, isolation_level: int, *, min_one_message: bool) -> LogSlice:
        """Records from `offset` on; OffsetOutOfRange outside of the log."""
        log = self.log
        if not log.log_start_offset <= offset <= log.log_end_offset:
            raise OffsetOutOfRange(
                f"Received request for offset {offset} for partition {self}, but we only have log segments from offset "
                f"{log.log_start_offset} up to {log.log_end_offset}."
            )
        end = self.fetch_end_offset(isolation_level)
        return log.read(offset, max_bytes, min_one_message=min_one_message, max_offset=end)

    def diverging_epoch(self, last_fetched_epoch: int, fetch_offset: int) -> EpochEnd | None:
        """KIP-595: where the reader's log parts from this one; None when it does not."""
        if last_fetched_epoch == UNDEFINED:
            return None
        end = self.epoch_end(last_fetched_epoch)
        if end.end_offset == UNDEFINED or end.leader_epoch == UNDEFINED:
            raise OffsetOutOfRange(
                f"Could not determine the end offset of the last fetched epoch {last_fetched_epoch} from the request"
            )
        if end.leader_epoch < last_fetched_epoch or end.end_offset < fetch_offset:
            return end
        return None

    def epoch_end(self, leader_epoch: int) -> EpochEnd:
        """lastOffsetForLeaderEpoch: the end of that epoch or of the largest below."""
        if leader_epoch == self.leader_epoch:
            return EpochEnd(leader_epoch, self.log.log_end_offset)
        epoch, end = self.log.end_offset_for_epoch(leader_epoch)
        return EpochEnd(epoch, end)

    def offset_for_timestamp(self, timestamp: int, isolation_level: int) -> OffsetAndTimestamp:
        """ListOffsets over this partition; raises a KafkaError."""
        log = self.log
        if timestamp == LATEST_TIMESTAMP:
            return OffsetAndTimestamp(UNDEFINED, self.fetch_end_offset(isolation_level), self.leader_epoch)
        if timestamp in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
            return OffsetAndTimestamp(UNDEFINED, log.log_start_offset, self._epoch_at(log.log_start_offset))
        if timestamp in (LATEST_TIERED_TIMESTAMP, EARLIEST_PENDING_UPLOAD_TIMESTAMP):
            return OffsetAndTimestamp(UNDEFINED, UNDEFINED, UNDEFINED)
        found = log.max_timestamp() if timestamp == MAX_TIMESTAMP else log.offset_for_timestamp(timestamp)
        if found is None or found.offset >= self.fetch_end_offset(isolation_level):
            return OffsetAndTimestamp(UNDEFINED, UNDEFINED, UNDEFINED)
        return OffsetAndTimestamp(found.timestamp, found.offset, self._epoch_at(found.offset))

    def _epoch_at(self, offset: int) -> int:
        epoch = self.log.epochs.epoch_for_offset(offset)
        return UNDEFINED if epoch is None else epoch

    def delete_records(self, before_offset: int) -> int:
        """Advance the log start offset (DeleteRecords); -1 means the high watermark. Gives the new start."""
        if not self.log.config.is_deleted and self.log.config.is_compacted:
            raise PolicyViolation(
                f"Records of partition {self} can not be deleted due to the configured cleanup.policy"
            )
        offset = self.log.high_watermark if before_offset == UNDEFINED else before_offset
        if offset < 0 or offset > self.log.high_watermark:
            raise OffsetOutOfRange(f"The offset {offset} for partition {self} is not valid")
        self.log.increment_log_start_offset(offset)
        return self.log.log_start_offset

    def become_leader(self, leader_epoch: int) -> None:
        """A new leader epoch begins at the end of the log."""
        if leader_epoch > self.leader_epoch:
            self.log.assign_epoch_start_offset(leader_epoch)
            self.leader_epoch = leader_epoch
