"""A partition of which this broker has a replica (Kafka's Partition): its log, who leads it, who follows, who is in
sync, and the rules for writing and reading.

Rules:
- AR: `replicas`; ISR: `isr` is what the controller has committed. While a change is asked for (`pending`) the larger
  of both sets holds (`maximal_isr`): whatever the controller says, no record counts as committed that could get lost.
- The high watermark is the least log end of the maximal ISR and of those who are about to join it, and stays where it
  is while the ISR is smaller than min.insync.replicas.
- A leader's log begins each leader epoch at its end; a follower's log end is worth what its fetch in this leader epoch
  says, not what an earlier leader knew.
- A broker without others around it (`replication` is None) leads alone: its high watermark is the log end, after every
  append; with `waits_for_disk` the group commit moves it on.
"""

from __future__ import annotations

import uuid
from typing import NamedTuple, Protocol

from kafkatools.core.broker.metadata.image import PartitionState
from kafkatools.core.broker.replicas.replica import NO_BROKER_EPOCH, Replica
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
    """An answer of ListOffsets; -1 where there is none."""

    timestamp: int
    offset: int
    leader_epoch: int


class EpochEnd(NamedTuple):
    """The end offset of a leader epoch, or of the largest one below it."""

    leader_epoch: int
    end_offset: int


class PendingIsr(NamedTuple):
    """An ISR that the controller is asked for."""

    isr: tuple[int, ...]
    leader_epoch: int


class SessionPlace(Protocol):
    """The partition in the fetch session of a follower (`SessionPartition`)."""

    def note(self) -> None:
        """Something of the partition has to be told: records, or that it is not what it was."""

    def note_news(self) -> None:
        """The high watermark moved: the next answer tells it, nobody is woken for it."""


class IsrRequests(Protocol):
    """Changes of ISRs on their way to the controller (`IsrChanges`)."""

    def submit(self, partition: Partition, pending: PendingIsr) -> None:
        """Ask for the ISR of a partition."""


class Followers(Protocol):
    """What the leader of a partition knows of its followers' brokers (`Replication`)."""

    @property
    def max_lag_ms(self) -> int:
        """replica.lag.time.max.ms."""

    @property
    def isr_changes(self) -> IsrRequests:
        """The way to the controller."""

    def is_alive(self, broker_id: int) -> bool:
        """Whether a broker is registered and not fenced."""

    def is_eligible(self, replica: Replica) -> bool:
        """Whether a follower's broker may be in an ISR."""

    def is_joining(self, partition: Partition, replica: Replica) -> bool:
        """Whether a follower outside of the ISR is caught up and may join it."""


class Partition:
    """One replica. Made as the leader of a partition without other replicas; `make_leader` and `make_follower` say what
    it really is."""

    __slots__ = (
        "durable_end",
        "epoch_start",
        "followers",
        "high_watermark_is_end",
        "index",
        "is_alone_in_isr",
        "is_deleted",
        "is_leader",
        "is_under_min_isr",
        "isr",
        "key",
        "leader_epoch",
        "leader_id",
        "log",
        "maximal_isr",
        "min_isr",
        "node_id",
        "partition_epoch",
        "pending",
        "recovery_state",
        "replicas",
        "replication",
        "sessions",
        "takes_plain",
        "topic",
        "topic_id",
        "waiting",
        "waits_for_disk",
    )

    def __init__(self, topic: str, topic_id: uuid.UUID, index: int, leader_epoch: int, log: PartitionLog) -> None:
        self.topic = topic
        self.topic_id = topic_id
        self.index = index
        self.leader_epoch = leader_epoch
        self.partition_epoch = -1
        self.log = log
        self.key = (topic_id, index)
        self.is_deleted = False
        self.waits_for_disk = False
        self.durable_end = 0
        self.node_id = self.leader_id = UNDEFINED
        self.is_leader = True
        self.replicas: tuple[int, ...] = (UNDEFINED,)
        self.isr: tuple[int, ...] = (UNDEFINED,)
        self.maximal_isr: frozenset[int] = frozenset(self.isr)
        self.pending: PendingIsr | None = None
        self.recovery_state = 0
        self.followers: dict[int, Replica] = {}
        self.epoch_start: int | None = None
        self.replication: Followers | None = None
        self.sessions: dict[SessionPlace, None] = {}
        self.waiting = WaitingResponses()
        self.min_isr = 1
        self.is_alone_in_isr = True
        self.is_under_min_isr = False
        self.high_watermark_is_end = True
        self.takes_plain = True

    def __str__(self) -> str:
        return f"{self.topic}-{self.index}"

    # -- roles -----------------------------------------------------------------------------------------------------
    def make_leader(self, state: PartitionState, node_id: int, now_ms: int) -> bool:
        """Lead as the controller says; whether a leader epoch begins. A state that is older than what is known
        (AlterPartition answered before the metadata came) changes nothing."""
        if state.partition_epoch < self.partition_epoch or state.leader_epoch < self.leader_epoch:
            return False
        is_new_epoch = state.leader_epoch > self.leader_epoch or self.epoch_start is None
        is_new_leader = self.node_id == UNDEFINED or not self.is_leader
        if state.partition_epoch == self.partition_epoch and not is_new_epoch and not is_new_leader:
            return False
        if is_new_epoch:
            self.log.assign_epoch_start_offset(state.leader_epoch)  # a disk that fails changes nothing
        self.node_id = self.leader_id = node_id
        self.is_leader = True
        self.partition_epoch = state.partition_epoch
        self.replicas, self.isr, self.pending = state.replicas, state.isr, None
        self.recovery_state = 0  # a leader's log is what the partition is: nothing to recover (KIP-704)
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
        for replica in self.followers.values():
            replica.reset(
                now_ms, log.log_end_offset, is_new_leader=is_new_leader, is_in_sync=replica.broker_id in self.isr
            )
        self.tell_sessions()

    def make_follower(self, state: PartitionState, node_id: int) -> bool:
        """Follow as the controller says; whether there is another leader, or another epoch of it, to follow."""
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
        self.tell_sessions()
        return is_new

    def mark_deleted(self) -> None:
        """The replica is taken away."""
        self.is_deleted = True
        self.is_leader = False
        self.settle()
        self.tell_sessions()

    def tell_sessions(self) -> None:
        """Followers that wait for this partition have to be told that it is not what it was."""
        for each in self.sessions:
            each.note()

    def settle(self) -> None:
        """Work out what every append asks: after a change of the replicas, the ISR or the settings."""
        wanted = self.log.config.min_insync_replicas
        self.min_isr = min(wanted, len(self.followers) + 1)
        pending = self.pending
        self.maximal_isr = frozenset(self.isr) if pending is None else frozenset((*self.isr, *pending.isr))
        self.is_alone_in_isr = self.is_leader and len(self.maximal_isr) <= 1
        self.is_under_min_isr = len(self.isr) < self.min_isr
        self.high_watermark_is_end = self.is_leader and not self.followers and not self.waits_for_disk
        self.takes_plain = self.is_leader and not self.is_under_min_isr

    # -- writing ---------------------------------------------------------------------------------------------------
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
        """Append as the leader; a full disk or a broken file is KafkaStorageError from the log. Raises
        NotLeaderOrFollower, NotEnoughReplicas."""
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
        """Append a client's ordinary batch; None, and nothing has happened, when `append` has to look at it."""
        log = self.log
        info = append_plain(log, records, self.leader_epoch, now_ms) if self.takes_plain else None
        if info is not None:
            if self.high_watermark_is_end:
                log.update_high_watermark(log.log_end_offset)
            else:
                self._note_end()
        return info

    def _note_end(self) -> None:
        """The log has a new end. With a follower in sync the high watermark waits for its fetch."""
        if self.high_watermark_is_end:
            self.log.update_high_watermark(self.log.log_end_offset)
        elif self.is_alone_in_isr and not self.waits_for_disk:
            self.maybe_increment_high_watermark()

    def append_replicated(self, records: memoryview, now_ms: int) -> LogAppendInfo:
        """Append what the leader sent."""
        return self.log.append_as_follower(records, now_ms)

    def note_durable(self, offset: int) -> bool:
        """The log is on the disk up to an offset (log.durability=fsync); whether the high watermark moved."""
        self.durable_end = offset
        if not self.followers and self.is_leader:
            return self.log.maybe_increment_high_watermark(offset)
        return self.maybe_increment_high_watermark()

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

    # -- replication -----------------------------------------------------------------------------------------------
    def maybe_increment_high_watermark(self) -> bool:
        """Move the high watermark to the least end of those who count; whether it moved (maybeIncrementLeaderHW). Who
        is caught up and may join the ISR counts too: it would never reach a high watermark that runs ahead of it."""
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
        """What is known of a follower; raises the error that makes it try again (followerReplicaOrThrow)."""
        replica = self.followers.get(broker_id)
        if replica is None:
            raise NotLeaderOrFollower() if current_leader_epoch == UNDEFINED else UnknownLeaderEpoch()
        return replica

    def update_follower(
        self, replica: Replica, offsets: tuple[int, int], leader_end: int, broker_epoch: int, now_ms: int
    ) -> bool:
        """A follower fetched: (fetch offset, log start offset). Its ISR and the high watermark may change; whether the
        high watermark did. Raises NotLeaderOrFollower for an earlier life of that broker (KIP-903)."""
        if replica.broker_epoch > broker_epoch >= 0:
            raise NotLeaderOrFollower(
                f"Received stale fetch state update. broker epoch={broker_epoch} vs expected={replica.broker_epoch}"
            )
        replica.broker_epoch = broker_epoch
        before = replica.log_end_offset
        replica.note_fetch(*offsets, leader_end, now_ms)
        if replica.broker_id not in self.maximal_isr:
            self.maybe_expand_isr(replica)
        return before != replica.log_end_offset and self.maybe_increment_high_watermark()

    def maybe_expand_isr(self, replica: Replica) -> bool:
        """Ask for a follower to be in the ISR when it has everything that is committed and has caught up with this
        leader's epoch, and its broker is alive and the one that fetched."""
        replication = self.replication
        if replication is None or self.pending is not None or replica.broker_id in self.isr:
            return False
        is_in_sync = self.epoch_start is not None and replica.log_end_offset >= max(
            self.log.high_watermark, self.epoch_start
        )
        if not is_in_sync or not replication.is_eligible(replica):
            return False
        self._ask_for((*self.isr, replica.broker_id))
        return True

    def out_of_sync(self, now_ms: int, max_lag_ms: int) -> set[int]:
        """The members of the ISR that did not catch up for too long (getOutOfSyncReplicas)."""
        end = self.log.log_end_offset
        return {
            broker_id
            for broker_id in self.isr
            if broker_id != self.node_id
            and (broker_id not in self.followers or not self.followers[broker_id].is_caught_up(end, now_ms, max_lag_ms))
        }

    def maybe_shrink_isr(self, now_ms: int) -> bool:
        """Ask for an ISR without those who fell behind; whether there are any."""
        replication = self.replication
        if replication is None or not self.is_leader or self.pending is not None or len(self.isr) <= 1:
            return False
        behind = self.out_of_sync(now_ms, replication.max_lag_ms)
        if not behind:
            return False
        self._ask_for(tuple(broker_id for broker_id in self.isr if broker_id not in behind))
        return True

    def _ask_for(self, isr: tuple[int, ...]) -> None:
        assert self.replication is not None
        self.pending = PendingIsr(isr, self.leader_epoch)
        self.settle()
        self.replication.isr_changes.submit(self, self.pending)

    def commit_isr(self, isr: tuple[int, ...], partition_epoch: int) -> bool:
        """The controller has agreed to a change of the ISR; whether the high watermark moved."""
        self.isr, self.pending, self.partition_epoch = isr, None, partition_epoch
        self.settle()
        return self.maybe_increment_high_watermark()

    def revert_isr(self) -> None:
        """The controller has refused a change of the ISR."""
        self.pending = None
        self.settle()

    def isr_with_epochs(self, isr: tuple[int, ...], own_epoch: int) -> list[tuple[int, int]]:
        """(broker, its epoch) of each member; -1 of one whose epoch is not known (KIP-903)."""
        found = []
        for broker_id in isr:
            replica = self.followers.get(broker_id)
            epoch = (
                own_epoch if broker_id == self.node_id else NO_BROKER_EPOCH if replica is None else replica.broker_epoch
            )
            found.append((broker_id, max(UNDEFINED, epoch)))
        return found

    def replication_outcome(self, required_offset: int) -> int | None:
        """How a write with acks=all stands: None when it waits, else its error code
        (checkEnoughReplicasReachOffset)."""
        if not self.is_leader:
            return NotLeaderOrFollower.code
        if self.log.failure is not None:
            return KafkaStorageError.code
        if self.log.high_watermark < required_offset:
            return None
        return NONE if self.min_isr <= len(self.maximal_isr) else NotEnoughReplicasAfterAppend.code

    def answer_waiting(self, now_ms: int | None = None) -> None:
        """Answer the writes that are replicated by now, or never will be; with a time, also those that waited too
        long."""
        self.waiting.complete(self.replication_outcome, now_ms)

    def is_replicated_to(self, required_offset: int) -> bool:
        """Whether the high watermark reached an offset."""
        return self.log.high_watermark >= required_offset

    @property
    def low_watermark(self) -> int:
        """The least log start of the replicas that are alive (lowWatermarkIfLeader)."""
        least = self.log.log_start_offset
        for replica in self.followers.values():
            if replica.log_start_offset < least and (
                self.replication is None or self.replication.is_alive(replica.broker_id)
            ):
                least = replica.log_start_offset
        return least

    # -- reading ---------------------------------------------------------------------------------------------------
    def check_leader_epoch(self, current_leader_epoch: int) -> None:
        """What the client believes against what is (checkCurrentLeaderEpoch); -1 is not checked."""
        if current_leader_epoch == UNDEFINED or current_leader_epoch == self.leader_epoch:
            return
        if current_leader_epoch < self.leader_epoch:
            raise FencedLeaderEpoch()
        raise UnknownLeaderEpoch()

    def ensure_leader(self) -> None:
        """Raises NotLeaderOrFollower."""
        if not self.is_leader:
            raise NotLeaderOrFollower()

    def fetch_end_offset(self, isolation_level: int) -> int:
        """How far a reader may read."""
        if isolation_level == READ_UNCOMMITTED:
            return self.log.high_watermark
        return self.log.last_stable_offset if isolation_level == READ_COMMITTED else self.log.log_end_offset

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
            if isolation_level != READ_ALL:
                self._ensure_epoch_is_committed()
            return OffsetAndTimestamp(UNDEFINED, self.fetch_end_offset(isolation_level), self.leader_epoch)
        if timestamp in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
            return OffsetAndTimestamp(UNDEFINED, log.log_start_offset, self._epoch_at(log.log_start_offset))
        if timestamp in (LATEST_TIERED_TIMESTAMP, EARLIEST_PENDING_UPLOAD_TIMESTAMP):
            return OffsetAndTimestamp(UNDEFINED, UNDEFINED, UNDEFINED)
        found = log.max_timestamp() if timestamp == MAX_TIMESTAMP else log.offset_for_timestamp(timestamp)
        if found is None or found.offset >= self.fetch_end_offset(isolation_level):
            if isolation_level != READ_ALL:
                self._ensure_epoch_is_committed()
            return OffsetAndTimestamp(UNDEFINED, UNDEFINED, UNDEFINED)
        return OffsetAndTimestamp(found.timestamp, found.offset, self._epoch_at(found.offset))

    def _ensure_epoch_is_committed(self) -> None:
        """Until the high watermark of a new leader has reached the start of its epoch, it may be behind what the last
        one told: nothing is said about the end (KIP-207)."""
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
