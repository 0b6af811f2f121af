"""A replica of a partition on this broker (Kafka's Partition): its log, role, followers and ISR, and the rules for
writing and reading.

Rules:
- `replicas` is the assigned set (AR), `isr` the ISR that the controller has committed. While an ISR change is pending,
  the union of both ISRs counts (`maximal_isr`), so that no record counts as committed that could still get lost.
- The high watermark is the least log end offset of the maximal ISR and of followers about to join it. It does not move
  while the ISR is smaller than min.insync.replicas.
- A leader epoch starts at the leader's log end offset. A follower's log end offset counts only as its fetches in this
  leader epoch report it, not as an earlier leader knew it.
- On a broker without a cluster (`replication` is None) the high watermark is the log end offset after every append.
  With `waits_for_disk` the group commit advances it.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from kafkatools.core.broker.metadata.image import PartitionState
from kafkatools.core.broker.replicas.replica import Replica
from kafkatools.core.broker.server.deferred import WaitingResponses
from kafkatools.core.errors import (
    FencedLeaderEpoch,
    KafkaStorageError,
    NotEnoughReplicas,
    NotEnoughReplicasAfterAppend,
    NotLeaderOrFollower,
    OffsetNotAvailable,
    OffsetOutOfRange,
    PolicyViolation,
    UnknownLeaderEpoch,
)
from kafkatools.core.log.partition.log_results import LogAppendInfo, LogSlice
from kafkatools.core.log.partition.partition_log import PartitionLog
from kafkatools.core.log.partition.plain_append import append_plain
from kafkatools.core.log.producers.append import NO_TRANSACTION_VERSION, AppendOrigin
from kafkatools.core.log.producers.transaction_verification import Attempt

READ_UNCOMMITTED, READ_COMMITTED = 0, 1
READ_ALL = 2
"""What followers read: up to the end of the log."""
LATEST_TIMESTAMP, EARLIEST_TIMESTAMP, MAX_TIMESTAMP = -1, -2, -3
EARLIEST_LOCAL_TIMESTAMP, LATEST_TIERED_TIMESTAMP, EARLIEST_PENDING_UPLOAD_TIMESTAMP = -4, -5, -6
UNDEFINED = -1
NONE = 0
ALL = -1
"""Required acks: all replicas in sync."""


class OffsetAndTimestamp(NamedTuple):
    """The ListOffsets result of a partition; a field is -1 when unknown. The timestamp is in ms."""

    timestamp: int
    offset: int
    leader_epoch: int


NO_OFFSET = OffsetAndTimestamp(UNDEFINED, UNDEFINED, UNDEFINED)


class EpochEnd(NamedTuple):
    """The end offset of a leader epoch, or of the largest epoch below it if that epoch is unknown; (-1, -1) without
    either."""

    leader_epoch: int
    end_offset: int


class PendingIsr(NamedTuple):
    """An ISR that AlterPartition requests from the controller."""

    isr: tuple[int, ...]
    leader_epoch: int


class SessionPlace(Protocol):
    """A partition in a follower's fetch session (`SessionPartition`)."""

    def note(self) -> None:
        """Mark the partition for the next fetch response and wake a waiting fetch."""

    def note_news(self) -> None:
        """Include the partition's high watermark in the next response, without waking a waiting fetch."""


class IsrRequests(Protocol):
    """The queue of ISR changes for the controller (`IsrChanges`)."""

    def submit(self, partition: Partition, pending: PendingIsr) -> None:
        """Queue an ISR change for the next AlterPartition request."""


class Followers(Protocol):
    """The parts of `Replication` that a leader's partition uses."""

    @property
    def max_lag_ms(self) -> int:
        """The setting replica.lag.time.max.ms."""

    @property
    def isr_changes(self) -> IsrRequests:
        """The queue of ISR changes for the controller."""

    def is_alive(self, broker_id: int) -> bool:
        """Return whether a broker is registered and not fenced."""

    def is_eligible(self, replica: Replica) -> bool:
        """Return whether the follower's broker may be in an ISR (KIP-903)."""

    def is_joining(self, partition: Partition, replica: Replica) -> bool:
        """Return whether a follower is caught up and may join the ISR, so that the high watermark waits for it."""


@dataclass(slots=True, eq=False, repr=False)
class Partition:
    """One replica on this broker and its role. A new object leads a partition without other replicas, until
    `make_leader` or `make_follower` applies the metadata. `replication` is None on a node alone. With `waits_for_disk`
    readers see the records below `durable_end`, which are on the disk."""

    topic: str
    topic_id: uuid.UUID
    index: int
    leader_epoch: int
    log: PartitionLog
    replication: Followers | None = None
    waits_for_disk: bool = False
    durable_end: int = 0
    key: tuple[uuid.UUID, int] = field(init=False)
    partition_epoch: int = field(default=-1, init=False)
    is_deleted: bool = field(default=False, init=False)
    node_id: int = field(default=UNDEFINED, init=False)
    leader_id: int = field(default=UNDEFINED, init=False)
    is_leader: bool = field(default=True, init=False)
    replicas: tuple[int, ...] = field(default=(UNDEFINED,), init=False)
    isr: tuple[int, ...] = field(default=(UNDEFINED,), init=False)
    maximal_isr: frozenset[int] = field(default=frozenset((UNDEFINED,)), init=False)
    pending: PendingIsr | None = field(default=None, init=False)
    recovery_state: int = field(default=0, init=False)
    followers: dict[int, Replica] = field(default_factory=dict, init=False)
    epoch_start: int | None = field(default=None, init=False)
    sessions: dict[SessionPlace, None] = field(default_factory=dict, init=False)
    waiting: WaitingResponses = field(default_factory=WaitingResponses, init=False)
    min_isr: int = field(default=1, init=False)
    is_alone_in_isr: bool = field(default=True, init=False)
    is_under_min_isr: bool = field(default=False, init=False)
    high_watermark_is_end: bool = field(default=True, init=False)
    takes_plain: bool = field(default=True, init=False)

    def __post_init__(self) -> None:
        self.key = (self.topic_id, self.index)

    def __str__(self) -> str:
        return f"{self.topic}-{self.index}"

    # -- roles ---------------------------------------------------------------------------------------------------------
    def make_leader(self, state: PartitionState, node_id: int, now_ms: int) -> bool:
        """Become or stay the leader as the metadata says. Returns whether a new leader epoch begins. Metadata that is
        older than the partition's own epochs changes nothing: an AlterPartition response may arrive before it. Raises
        KafkaStorageError when the start of the epoch cannot be written."""
        if state.partition_epoch < self.partition_epoch or state.leader_epoch < self.leader_epoch:
            return False
        is_new_epoch = state.leader_epoch > self.leader_epoch or self.epoch_start is None
        is_new_leader = self.node_id == UNDEFINED or not self.is_leader
        if state.partition_epoch == self.partition_epoch and not is_new_epoch and not is_new_leader:
            return False
        if is_new_epoch:
            self.log.assign_epoch_start_offset(state.leader_epoch)  # first, since a disk error must change nothing
        self.node_id = self.leader_id = node_id
        self.is_leader = True
        self.partition_epoch = state.partition_epoch
        self.replicas, self.isr, self.pending = state.replicas, state.isr, None
        self.recovery_state = 0  # a leader's log needs no recovery (KIP-704)
        self.followers = {
            broker_id: self.followers.get(broker_id) or Replica(broker_id)
            for broker_id in state.replicas
            if broker_id != node_id
        }
        if is_new_epoch:
            self._begin_epoch(state.leader_epoch, now_ms, is_new_leader=is_new_leader)
        self.settle()
        self.maybe_increment_high_watermark()
        return is_new_epoch

    def _begin_epoch(self, leader_epoch: int, now_ms: int, *, is_new_leader: bool) -> None:
        log = self.log
        self.leader_epoch, self.epoch_start = leader_epoch, log.log_end_offset
        if is_new_leader:
            # A follower syncs what it appends, and may have truncated what was durable when it led before.
            self.durable_end = log.recovery_point
        for replica in self.followers.values():
            replica.reset(
                now_ms, log.log_end_offset, is_new_leader=is_new_leader, is_in_sync=replica.broker_id in self.isr
            )
        self.notify_sessions()

    def make_follower(self, state: PartitionState, node_id: int) -> bool:
        """Become or stay a follower as the metadata says; metadata older than the partition's own epochs changes
        nothing. Returns whether the role, the leader or the leader epoch changed."""
        if state.partition_epoch < self.partition_epoch or state.leader_epoch < self.leader_epoch:
            return False
        is_new = self.is_leader or state.leader_epoch > self.leader_epoch or state.leader != self.leader_id
        self.node_id, self.leader_id = node_id, state.leader
        self.is_leader = False
        self.leader_epoch, self.partition_epoch = state.leader_epoch, state.partition_epoch
        self.replicas, self.isr, self.pending = state.replicas, state.isr, None
        self.recovery_state = state.leader_recovery_state
        self.followers, self.epoch_start = {}, None
        self.settle()
        self.notify_sessions()
        return is_new

    def mark_deleted(self) -> None:
        """Mark the replica as removed from this broker, which ends its leadership, and wake the followers that fetch
        it."""
        self.is_deleted = True
        self.is_leader = False
        self.settle()
        self.notify_sessions()

    def notify_sessions(self) -> None:
        """Mark the partition in all follower sessions, so that waiting fetches learn of its new role or epoch."""
        for place in self.sessions:
            place.note()

    def settle(self) -> None:
        """Recompute the fields that every append reads, after a change of replicas, ISR or topic settings."""
        self.min_isr = min(self.log.config.min_insync_replicas, len(self.followers) + 1)
        pending = self.pending
        self.maximal_isr = frozenset(self.isr) if pending is None else frozenset((*self.isr, *pending.isr))
        self.is_alone_in_isr = self.is_leader and len(self.maximal_isr) <= 1
        self.is_under_min_isr = len(self.isr) < self.min_isr
        self.high_watermark_is_end = self.is_leader and not self.followers and not self.waits_for_disk
        self.takes_plain = self.is_leader and not self.is_under_min_isr

    # -- writing -------------------------------------------------------------------------------------------------------
    def append(
        self,
        records: memoryview,
        now_ms: int,
        *,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        transaction_version: int = NO_TRANSACTION_VERSION,
        is_verified: bool = True,
        required_acks: int = ALL,
    ) -> LogAppendInfo:
        """Append record batches as the leader and return their offsets. May advance the high watermark. `is_verified`
        False means that the transaction coordinator has not confirmed the transaction. Raises NotLeaderOrFollower,
        NotEnoughReplicas when acks=all and the ISR is below min.insync.replicas, and the log's errors, such as
        KafkaStorageError for a full disk."""
        if not self.is_leader:
            raise NotLeaderOrFollower()
        if self.is_under_min_isr and required_acks == ALL:
            raise NotEnoughReplicas(
                f"The size of the current ISR {list(self.isr)} is insufficient to satisfy the min.isr requirement of "
                f"{self.min_isr} for partition {self}"
            )
        info = self.append_plain(records, now_ms) if origin is AppendOrigin.CLIENT else None
        if info is not None:
            return info
        info = self.log.append_as_leader(
            records,
            leader_epoch=self.leader_epoch,
            now_ms=now_ms,
            origin=origin,
            transaction_version=transaction_version,
            is_verified=is_verified,
        )
        self._note_end()
        return info

    def append_plain(self, records: memoryview, now_ms: int) -> LogAppendInfo | None:
        """Append an ordinary client batch on the fast path; None, with nothing appended, if `append` must do it. Raises
        KafkaStorageError."""
        log = self.log
        info = append_plain(log, records, self.leader_epoch, now_ms) if self.takes_plain else None
        if info is not None:
            if self.high_watermark_is_end:
                log.update_high_watermark(log.log_end_offset)
            else:
                self._note_end()
        return info

    def _note_end(self) -> None:
        """Advance the high watermark after an append, unless it must wait for a follower in the ISR or for the disk."""
        if self.high_watermark_is_end:
            self.log.update_high_watermark(self.log.log_end_offset)
        elif self.is_alone_in_isr and not self.waits_for_disk:
            self.maybe_increment_high_watermark()

    def note_durable(self, offset: int) -> bool:
        """Record that the log is synced up to `offset` (log.durability=fsync). Returns whether the high watermark
        moved."""
        self.durable_end = max(self.durable_end, offset)
        if not self.followers and self.is_leader:
            return self.log.maybe_increment_high_watermark(offset)
        return self.maybe_increment_high_watermark()

    def begin_verification(self, producer: tuple[int, int], sequence: int, *, bumps_epoch: bool) -> Attempt | None:
        """Record in the log that a transactional batch starts its transaction in this partition, and return the attempt
        that the coordinator must confirm (UnifiedLog.maybeStartTransactionVerification). None for an ongoing
        transaction, which needs no confirmation, and for an older epoch, which the log itself rejects."""
        entry = self.log.producer_state.producers.get(producer[0])
        if entry is not None:
            is_ongoing = entry.current_txn_first_offset >= 0 and entry.producer_epoch == producer[1]
            if is_ongoing or entry.producer_epoch > producer[1]:
                return None
        return self.log.attempts.note(*producer, sequence, bumps_epoch=bumps_epoch)

    # -- replication ---------------------------------------------------------------------------------------------------
    def maybe_increment_high_watermark(self) -> bool:
        """Advance the high watermark to the least log end offset of the maximal ISR. Returns whether it moved
        (maybeIncrementLeaderHW); it does not on a follower or below min.insync.replicas. A caught-up follower that may
        join the ISR counts too; otherwise the high watermark would keep running ahead of it. With log.durability=fsync
        this replica counts up to its synced offset."""
        if not self.is_leader or self.is_under_min_isr:
            return False
        log = self.log
        leader_end = log.log_end_offset
        least = min(self.durable_end, leader_end) if self.waits_for_disk else leader_end
        replication = self.replication
        for broker_id, replica in self.followers.items():
            if replica.log_end_offset < least and (
                broker_id in self.maximal_isr or (replication is not None and replication.is_joining(self, replica))
            ):
                least = replica.log_end_offset
        if least <= log.high_watermark:
            return False
        log.update_high_watermark(least)
        return True

    def follower(self, broker_id: int, current_leader_epoch: int) -> Replica:
        """Return the leader's state of a follower (followerReplicaOrThrow). For a broker that is no replica, so that it
        retries, raises NotLeaderOrFollower if the request has no leader epoch, else UnknownLeaderEpoch."""
        replica = self.followers.get(broker_id)
        if replica is None:
            raise NotLeaderOrFollower() if current_leader_epoch == UNDEFINED else UnknownLeaderEpoch()
        return replica

    def update_follower(
        self, replica: Replica, offsets: tuple[int, int], leader_end: int, broker_epoch: int, now_ms: int
    ) -> bool:
        """Record a follower's fetch; `offsets` is (fetch offset, log start offset). Returns whether the high watermark
        moved. May request a larger ISR. Raises NotLeaderOrFollower when an earlier incarnation of the broker fetches
        (KIP-903)."""
        if replica.broker_epoch > broker_epoch >= 0:
            raise NotLeaderOrFollower(
                f"Received stale fetch state update. broker epoch={broker_epoch} vs expected={replica.broker_epoch}"
            )
        replica.broker_epoch = broker_epoch
        previous_end = replica.log_end_offset
        replica.note_fetch(*offsets, leader_end, now_ms)
        if replica.broker_id not in self.maximal_isr:
            self.maybe_expand_isr(replica)
        return previous_end != replica.log_end_offset and self.maybe_increment_high_watermark()

    def maybe_expand_isr(self, replica: Replica) -> bool:
        """Request an ISR with this follower and return whether it was requested. The follower must have reached the
        high watermark and the start of this leader epoch, and be eligible; no other ISR change may be pending."""
        replication = self.replication
        if replication is None or self.pending is not None or replica.broker_id in self.isr:
            return False
        is_in_sync = self.epoch_start is not None and replica.log_end_offset >= max(
            self.log.high_watermark, self.epoch_start
        )
        if not is_in_sync or not replication.is_eligible(replica):
            return False
        self._request_isr((*self.isr, replica.broker_id))
        return True

    def out_of_sync(self, now_ms: int, max_lag_ms: int) -> set[int]:
        """Return the other ISR members that are not at the log end and have not been caught up for `max_lag_ms`
        (getOutOfSyncReplicas)."""
        end = self.log.log_end_offset
        return {
            broker_id
            for broker_id in self.isr
            if broker_id != self.node_id
            and (broker_id not in self.followers or not self.followers[broker_id].is_caught_up(end, now_ms, max_lag_ms))
        }

    def maybe_shrink_isr(self, now_ms: int) -> bool:
        """As the leader, request an ISR without the followers that fell behind. Returns whether a change was requested;
        False also while another one is pending."""
        replication = self.replication
        if replication is None or not self.is_leader or self.pending is not None or len(self.isr) <= 1:
            return False
        out_of_sync = self.out_of_sync(now_ms, replication.max_lag_ms)
        if not out_of_sync:
            return False
        self._request_isr(tuple(broker_id for broker_id in self.isr if broker_id not in out_of_sync))
        return True

    def _request_isr(self, isr: tuple[int, ...]) -> None:
        assert self.replication is not None
        self.pending = PendingIsr(isr, self.leader_epoch)
        self.settle()
        self.replication.isr_changes.submit(self, self.pending)

    def commit_isr(self, isr: tuple[int, ...], partition_epoch: int) -> bool:
        """Apply an ISR that the controller committed. Returns whether the high watermark moved."""
        self.isr, self.pending, self.partition_epoch = isr, None, partition_epoch
        self.settle()
        return self.maybe_increment_high_watermark()

    def revert_isr(self) -> None:
        """Drop the pending ISR change that the controller rejected."""
        self.pending = None
        self.settle()

    def isr_with_epochs(self, isr: tuple[int, ...], own_epoch: int) -> list[tuple[int, int]]:
        """Return (broker id, broker epoch) of each ISR member, with -1 for an unknown epoch (KIP-903)."""
        epochs = {broker_id: replica.broker_epoch for broker_id, replica in self.followers.items()}
        epochs[self.node_id] = own_epoch
        return [(broker_id, max(UNDEFINED, epochs.get(broker_id, UNDEFINED))) for broker_id in isr]

    def replication_outcome(self, required_offset: int) -> int | None:
        """Return the error code of an acks=all write, 0 when it is replicated, None while it waits
        (checkEnoughReplicasReachOffset)."""
        if not self.is_leader:
            return NotLeaderOrFollower.code
        if self.log.failure is not None:
            return KafkaStorageError.code
        if self.log.high_watermark < required_offset:
            return None
        return NONE if self.min_isr <= len(self.maximal_isr) else NotEnoughReplicasAfterAppend.code

    def answer_waiting(self, now_ms: int | None = None) -> None:
        """Answer the acks=all writes that are replicated or failed; with `now_ms`, also those that timed out."""
        self.waiting.complete(self.replication_outcome, now_ms)

    def is_replicated_to(self, required_offset: int) -> bool:
        """Return whether the high watermark has reached an offset."""
        return self.log.high_watermark >= required_offset

    @property
    def low_watermark(self) -> int:
        """The least log start offset of this replica and its live followers; -1 while a live follower has not fetched
        (lowWatermarkIfLeader)."""
        least = self.log.log_start_offset
        for replica in self.followers.values():
            if replica.log_start_offset < least and (
                self.replication is None or self.replication.is_alive(replica.broker_id)
            ):
                least = replica.log_start_offset
        return least

    # -- reading -------------------------------------------------------------------------------------------------------
    def check_leader_epoch(self, current_leader_epoch: int) -> None:
        """Compare a client's leader epoch with the partition's; -1 is not checked (checkCurrentLeaderEpoch). Raises
        FencedLeaderEpoch for an older epoch, UnknownLeaderEpoch for a newer one."""
        if current_leader_epoch == UNDEFINED or current_leader_epoch == self.leader_epoch:
            return
        if current_leader_epoch < self.leader_epoch:
            raise FencedLeaderEpoch()
        raise UnknownLeaderEpoch()

    def ensure_leader(self) -> None:
        """Raise NotLeaderOrFollower unless this broker leads the partition."""
        if not self.is_leader:
            raise NotLeaderOrFollower()

    def fetch_end_offset(self, isolation_level: int) -> int:
        """Return the end of what a reader may read: high watermark, last stable offset or log end offset."""
        if isolation_level == READ_UNCOMMITTED:
            return self.log.high_watermark
        return self.log.last_stable_offset if isolation_level == READ_COMMITTED else self.log.log_end_offset

    def read(self, offset: int, max_bytes: int, isolation_level: int, *, min_one_message: bool) -> LogSlice:
        """Read records from `offset` up to the isolation level's end. With `min_one_message` the first batch is
        returned even if it is larger than `max_bytes`. Raises OffsetOutOfRange outside of the log,
        KafkaStorageError."""
        log = self.log
        if not log.log_start_offset <= offset <= log.log_end_offset:
            raise OffsetOutOfRange(
                f"Received request for offset {offset} for partition {self}, but we only have log segments from offset "
                f"{log.log_start_offset} up to {log.log_end_offset}."
            )
        end = self.fetch_end_offset(isolation_level)
        return log.read(offset, max_bytes, min_one_message=min_one_message, max_offset=end)

    def diverging_epoch(self, last_fetched_epoch: int, fetch_offset: int) -> EpochEnd | None:
        """Return the epoch end at which the reader's log diverges from this one (KIP-595). None if it does not diverge
        or the reader sent no epoch (-1). Raises OffsetOutOfRange when the end offset of the reader's epoch is
        unknown."""
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
        """Return the end offset of a leader epoch, or of the largest epoch below it; (-1, -1) if unknown
        (lastOffsetForLeaderEpoch)."""
        if leader_epoch == self.leader_epoch:
            return EpochEnd(leader_epoch, self.log.log_end_offset)
        epoch, end = self.log.end_offset_for_epoch(leader_epoch)
        return EpochEnd(epoch, end)

    def offset_for_timestamp(self, timestamp: int, isolation_level: int) -> OffsetAndTimestamp:
        """Look up an offset by timestamp in ms or by one of ListOffsets' negative special timestamps. All fields are -1
        when no record matches; LATEST and EARLIEST return an offset without a timestamp (-1). Raises
        OffsetNotAvailable, KafkaStorageError."""
        log = self.log
        if timestamp == LATEST_TIMESTAMP:
            if isolation_level != READ_ALL:
                self._ensure_epoch_is_committed()
            return OffsetAndTimestamp(UNDEFINED, self.fetch_end_offset(isolation_level), self.leader_epoch)
        if timestamp in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
            return OffsetAndTimestamp(UNDEFINED, log.log_start_offset, self._epoch_at(log.log_start_offset))
        if timestamp in (LATEST_TIERED_TIMESTAMP, EARLIEST_PENDING_UPLOAD_TIMESTAMP):
            return NO_OFFSET
        record = log.max_timestamp() if timestamp == MAX_TIMESTAMP else log.offset_for_timestamp(timestamp)
        if record is None or record.offset >= self.fetch_end_offset(isolation_level):
            if isolation_level != READ_ALL:
                self._ensure_epoch_is_committed()
            return NO_OFFSET
        return OffsetAndTimestamp(record.timestamp, record.offset, self._epoch_at(record.offset))

    def _ensure_epoch_is_committed(self) -> None:
        """Raise OffsetNotAvailable while a new leader's high watermark is below the start of its epoch (KIP-207)."""
        if self.epoch_start is not None and self.epoch_start > self.log.high_watermark:
            raise OffsetNotAvailable(
                f"Failed to fetch offsets for partition {self} with leader epoch {self.leader_epoch} as this "
                f"partition's high watermark ({self.log.high_watermark}) is lagging behind the start offset from the "
                f"beginning of this epoch ({self.epoch_start})."
            )

    def _epoch_at(self, offset: int) -> int:
        epoch = self.log.epochs.epoch_for_offset(offset)
        return UNDEFINED if epoch is None else epoch

    def delete_records(self, before_offset: int) -> int:
        """Advance the log start offset to `before_offset` (-1: the high watermark) and return the log start offset; a
        smaller offset changes nothing. Raises PolicyViolation for a topic that is compacted only, OffsetOutOfRange
        above the high watermark, KafkaStorageError."""
        if not self.log.config.is_deleted and self.log.config.is_compacted:
            raise PolicyViolation(
                f"Records of partition {self} can not be deleted due to the configured cleanup.policy"
            )
        offset = self.log.high_watermark if before_offset == UNDEFINED else before_offset
        if offset < 0 or offset > self.log.high_watermark:
            raise OffsetOutOfRange(f"The offset {offset} for partition {self} is not valid")
        self.log.increment_log_start_offset(offset)
        return self.log.log_start_offset
