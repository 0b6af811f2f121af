"""TransactionManager: producer id, epoch and sequence numbers of an idempotent producer (KIP-98, KIP-360, KIP-679).

Rules (Kafka's TransactionManager and TxnPartitionMap):
- A batch gets the partition's next sequence number when it is first drained, and keeps it for retries in that epoch.
- The in-flight batches of a partition are ordered by sequence; while one is in retry, no later one overtakes it.
- If a sequence was refused, or its outcome is unknown, an idempotent producer bumps the epoch locally instead of using
  the sequence again. The in-flight batches of that partition start again at 0; other partitions follow when nothing is
  in flight.
- A batch that expired after it got a sequence, or failed after its last retry, leaves its sequence unresolved: nothing
  new is drained for the partition until the batches in flight are done.

The idempotent producer uses the states UNINITIALIZED, INITIALIZING, READY and FATAL_ERROR; transactions.py uses the
others. Everything belongs to the sender's thread, except `last_error` and `has_fatal_error`, which any thread may read.
"""

from __future__ import annotations

import logging
from enum import Enum, unique
from typing import NamedTuple

from kafkatools.core.client_log import ClientLog
from kafkatools.core.errors import (
    ClusterAuthorizationFailed,
    DecodeError,
    IllegalState,
    InvalidProducerIdMapping,
    OutOfOrderSequenceNumber,
    ProducerFenced,
    TransactionalIdAuthorizationFailed,
    UnknownProducerId,
    UnsupportedVersion,
)
from kafkatools.core.producer.futures import TopicPartition
from kafkatools.core.producer.producer_batch import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, ProducerBatch

_log = logging.getLogger(__name__)

MAX_EPOCH = 32767
NO_LAST_ACKED_SEQUENCE = -1
NO_LAST_ACKED_OFFSET = -1


@unique
class State(Enum):
    """The states of an idempotent or transactional producer (TransactionManager.State)."""

    UNINITIALIZED = "uninitialized"
    INITIALIZING = "initializing"
    READY = "ready"
    IN_TRANSACTION = "in transaction"
    PREPARED_TRANSACTION = "prepared transaction"
    COMMITTING_TRANSACTION = "committing transaction"
    ABORTING_TRANSACTION = "aborting transaction"
    ABORTABLE_ERROR = "abortable error"
    FATAL_ERROR = "fatal error"


LEGAL_SOURCES: dict[State, frozenset[State]] = {
    State.UNINITIALIZED: frozenset({State.READY, State.ABORTABLE_ERROR}),
    State.INITIALIZING: frozenset({State.UNINITIALIZED, State.COMMITTING_TRANSACTION, State.ABORTING_TRANSACTION}),
    State.READY: frozenset({State.INITIALIZING, State.COMMITTING_TRANSACTION, State.ABORTING_TRANSACTION}),
    State.IN_TRANSACTION: frozenset({State.READY}),
    State.PREPARED_TRANSACTION: frozenset({State.IN_TRANSACTION, State.INITIALIZING}),
    State.COMMITTING_TRANSACTION: frozenset({State.IN_TRANSACTION, State.PREPARED_TRANSACTION}),
    State.ABORTING_TRANSACTION: frozenset({State.IN_TRANSACTION, State.PREPARED_TRANSACTION, State.ABORTABLE_ERROR}),
    State.ABORTABLE_ERROR: frozenset(
        {State.IN_TRANSACTION, State.COMMITTING_TRANSACTION, State.ABORTABLE_ERROR, State.INITIALIZING}
    ),
    State.FATAL_ERROR: frozenset(State),
}

FATAL_ERRORS = (
    ClusterAuthorizationFailed,
    TransactionalIdAuthorizationFailed,
    ProducerFenced,
    UnsupportedVersion,
    InvalidProducerIdMapping,
)
"""The errors of a batch after which the producer can only be closed (maybeTransitionToErrorState)."""


class ProducerIdAndEpoch(NamedTuple):
    """A producer id with its epoch; both are -1 before InitProducerId."""

    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_PRODUCER_EPOCH

    @property
    def is_valid(self) -> bool:
        return self.producer_id > NO_PRODUCER_ID


def identity_from_broker(producer_id: int, epoch: int) -> ProducerIdAndEpoch:
    """The producer id and epoch in a successful InitProducerId or EndTxn response. Raises DecodeError for a negative
    producer id or epoch. A producer that became READY without an id could neither send its batches nor request another
    id."""
    if producer_id < 0 or epoch < 0:
        raise DecodeError(f"a response without an error has producer id {producer_id} and epoch {epoch}")
    return ProducerIdAndEpoch(producer_id, epoch)


def sequence_before(left: int, right: int) -> bool:
    """Return whether a sequence number comes before another one; 0 follows 2147483647."""
    return left != right and ((right - left) & 0x7FFFFFFF) < 0x40000000


def increment_sequence(sequence: int, count: int) -> int:
    """The sequence number `count` records later (DefaultRecordBatch.incrementSequence)."""
    return (sequence + count) & 0x7FFFFFFF


class TxnPartitionEntry:
    """The sequence state of one partition: next and last acknowledged sequence, and the batches in flight
    (TxnPartitionEntry)."""

    def __init__(self, identity: ProducerIdAndEpoch) -> None:
        self.identity = identity
        self.next_sequence = 0
        self.last_acked_sequence = NO_LAST_ACKED_SEQUENCE
        self.last_acked_offset = NO_LAST_ACKED_OFFSET
        self.inflight: list[ProducerBatch] = []

    def add(self, batch: ProducerBatch) -> None:
        """Add an in-flight batch at its place in the order of sequences."""
        place = len(self.inflight)
        while place > 0 and sequence_before(batch.base_sequence, self.inflight[place - 1].base_sequence):
            place -= 1
        self.inflight.insert(place, batch)

    def remove(self, batch: ProducerBatch) -> None:
        """Remove a batch that is no longer in flight."""
        self.inflight = [item for item in self.inflight if item is not batch]

    @property
    def awaits_its_first(self) -> bool:
        """Return whether batches are in flight and none of this epoch was acknowledged.

        A broker accepts any first sequence from a producer it does not know (ProducerAppendInfo.checkSequence). Of
        several batches in flight to a new leader, a later one could be accepted and all earlier ones refused. So the
        first batch is sent alone; Kafka's producer does not wait for that.
        """
        return self.last_acked_sequence == NO_LAST_ACKED_SEQUENCE and bool(self.inflight)

    def was_overtaken(self, batch: ProducerBatch) -> bool:
        """Return whether a later batch of the same epoch was acknowledged before this one."""
        if (
            self.last_acked_sequence == NO_LAST_ACKED_SEQUENCE
            or (batch.producer_id, batch.producer_epoch) != self.identity
        ):
            return False
        return sequence_before(batch.base_sequence, self.last_acked_sequence)

    def start_at_beginning(self, identity: ProducerIdAndEpoch) -> None:
        """Restart the sequences at 0 with another producer id or epoch, batches in flight first."""
        sequence = 0
        for batch in self.inflight:
            batch.reset_producer_state(identity.producer_id, identity.epoch, sequence)
            sequence = increment_sequence(sequence, batch.record_count)
        self.identity = identity
        self.next_sequence = sequence
        self.last_acked_sequence = NO_LAST_ACKED_SEQUENCE

    def close_gap(self, refused: ProducerBatch) -> None:
        """Lower the sequences of the batches after a failed one, whose sequences were not used
        (adjustSequencesDueToFailedBatch). No effect if that batch has another producer id or epoch."""
        if refused.producer_id != self.identity.producer_id or refused.producer_epoch != self.identity.epoch:
            return
        self.next_sequence = increment_sequence(self.next_sequence, -refused.record_count)
        for batch in self.inflight:
            if sequence_before(refused.base_sequence, batch.base_sequence):
                sequence = increment_sequence(batch.base_sequence, -refused.record_count)
                batch.reset_producer_state(batch.producer_id, batch.producer_epoch, sequence)


class ProduceOutcome(NamedTuple):
    """The result for one partition in a Produce response; `error` is a KafkaError class, None for success. -1 stands
    for an unknown value; times in ms."""

    error: type[Exception] | None
    base_offset: int = -1
    log_append_time: int = -1
    log_start_offset: int = -1
    message: str | None = None
    record_errors: tuple[tuple[int, str | None], ...] = ()
    leader_id: int = -1
    leader_epoch: int = -1


class TransactionManager:
    """The producer id and the sequence numbers of one idempotent producer."""

    is_transactional = False

    def __init__(self, log_prefix: str = "") -> None:
        """`log_prefix`: of the log lines of the producer and its transactions."""
        self.log = ClientLog(_log, log_prefix)
        self.state = State.UNINITIALIZED
        self.identity = ProducerIdAndEpoch()
        self.last_error: Exception | None = None
        self._partitions: dict[TopicPartition, TxnPartitionEntry] = {}
        self._unresolved: dict[TopicPartition, int] = {}
        self._partitions_to_rewrite: set[TopicPartition] = set()
        self._epoch_bump_required = False

    # -- state --

    def transition_to(self, target: State, error: Exception | None = None) -> None:
        """Change the state. Raises IllegalState for a transition that LEGAL_SOURCES does not allow."""
        if self.state not in LEGAL_SOURCES[target]:
            raise IllegalState(f"Invalid transition attempted from state {self.state.name} to state {target.name}")
        if target in (State.FATAL_ERROR, State.ABORTABLE_ERROR):
            self.last_error = error
        self.state = target

    @property
    def has_fatal_error(self) -> bool:
        """Return whether the producer can only be closed."""
        return self.state is State.FATAL_ERROR

    @property
    def has_producer_id(self) -> bool:
        return self.identity.is_valid

    def bump_epoch_and_reset_id_if_needed(self) -> bool:
        """Bump the epoch if that was requested; return whether a producer id must be fetched. Without an id the state
        becomes INITIALIZING."""
        if self._epoch_bump_required:
            self._bump_idempotent_epoch()
        if self.state is not State.INITIALIZING and not self.has_producer_id:
            self.transition_to(State.INITIALIZING)
        return self.state is State.INITIALIZING

    def handle_init_producer_id(self, producer_id: int, epoch: int) -> None:
        """Apply the producer id of an InitProducerId response. A negative id or epoch fails the producer."""
        try:
            self.identity = identity_from_broker(producer_id, epoch)
        except DecodeError as error:
            self.fail(error)
            return
        self.transition_to(State.READY)
        self.log.debug("ProducerId set to %d with epoch %d", producer_id, epoch)
        self._rewrite_partitions()

    def fail(self, error: Exception) -> None:
        """Set a fatal error: no batch is drained any more, and the sender fails the queued ones with it."""
        self.transition_to(State.FATAL_ERROR, error)

    def _bump_idempotent_epoch(self) -> None:
        """Bump the epoch without a broker, since an idempotent producer is never fenced (bumpIdempotentProducerEpoch).
        After epoch 32767 drop the producer id, so that another one is requested."""
        self._epoch_bump_required = False
        if self.identity.epoch == MAX_EPOCH:
            self.identity = ProducerIdAndEpoch()
            if self.state is State.READY:
                self.transition_to(State.UNINITIALIZED)
            return
        self.identity = ProducerIdAndEpoch(self.identity.producer_id, self.identity.epoch + 1)
        self.log.info("Bumped the epoch of producer %d to %d", *self.identity)
        self._rewrite_partitions()

    def _rewrite_partitions(self) -> None:
        for partition in self._partitions_to_rewrite:
            self._entry(partition).start_at_beginning(self.identity)
            self._unresolved.pop(partition, None)
        self._partitions_to_rewrite.clear()

    def request_epoch_bump_for(self, partition: TopicPartition) -> None:
        """Request an epoch bump before the next drain; the partition's in-flight batches restart at sequence 0."""
        self._epoch_bump_required = True
        self._partitions_to_rewrite.add(partition)

    # -- sequences --

    def _entry(self, partition: TopicPartition) -> TxnPartitionEntry:
        entry = self._partitions.get(partition)
        if entry is None:
            entry = self._partitions[partition] = TxnPartitionEntry(self.identity)
        return entry

    def maybe_update_identity(self, partition: TopicPartition) -> None:
        """Move a partition with an older epoch to the current one, sequence 0, if it has no batches in flight."""
        entry = self._entry(partition)
        if entry.identity != self.identity and not entry.inflight:
            entry.start_at_beginning(self.identity)
            self._unresolved.pop(partition, None)

    def assign_sequence(self, batch: ProducerBatch) -> None:
        """Give a batch that is first drained the partition's next sequence, and track it as in flight."""
        entry = self._entry(batch.topic_partition)
        batch.set_producer_state(*entry.identity, entry.next_sequence, self.is_transactional)
        entry.next_sequence = increment_sequence(entry.next_sequence, batch.record_count)
        entry.add(batch)

    def add_inflight_batch(self, batch: ProducerBatch) -> None:
        """Track a batch from a split, which has its sequence already. Raises IllegalState for a batch without a
        sequence."""
        if not batch.has_sequence:
            raise IllegalState(f"Can't track batch for partition {batch.topic_partition} when sequence is not set.")
        self._entry(batch.topic_partition).add(batch)

    def remove_inflight_batch(self, batch: ProducerBatch) -> None:
        """Stop tracking a batch as in flight; does nothing for a batch without a sequence."""
        if batch.has_sequence:
            self._entry(batch.topic_partition).remove(batch)

    def should_stop_drain(self, first: ProducerBatch) -> bool:
        """Return whether the first batch of a partition must wait
        (RecordAccumulator.shouldStopDrainBatchesForPartition): without a producer id or after a fatal error. A new
        batch also waits for in-flight batches of an older epoch and unresolved sequences, a retry for earlier in-flight
        batches."""
        partition = first.topic_partition
        if not self.has_producer_id or self.has_fatal_error:
            return True
        entry = self._entry(partition)
        if not first.has_sequence:
            if entry.inflight and entry.identity != self.identity:
                # A batch of the new epoch with sequence 0 could be written before the earlier ones.
                return True
            return partition in self._unresolved
        # The batch is in retry: only the first in-flight batch may be sent.
        return bool(entry.inflight) and entry.inflight[0].base_sequence != first.base_sequence

    def awaits_first_response(self, batch: ProducerBatch) -> bool:
        """Return whether a new batch must wait for the first acknowledgement of its partition in this epoch."""
        return not batch.has_sequence and self._entry(batch.topic_partition).awaits_its_first

    def _is_next_sequence(self, partition: TopicPartition, sequence: int) -> bool:
        last = self._entry(partition).last_acked_sequence
        return sequence == (0 if last == NO_LAST_ACKED_SEQUENCE else increment_sequence(last, 1))

    # -- outcomes --

    def handle_completed_batch(self, batch: ProducerBatch, outcome: ProduceOutcome) -> None:
        """Remove an acknowledged batch from those in flight and record its last sequence and offset. No effect without
        a sequence."""
        if not batch.has_sequence:
            return
        entry = self._entry(batch.topic_partition)
        if batch.producer_epoch == entry.identity.epoch and batch.producer_id == entry.identity.producer_id:
            last = batch.last_sequence
            if entry.last_acked_sequence == NO_LAST_ACKED_SEQUENCE or sequence_before(entry.last_acked_sequence, last):
                entry.last_acked_sequence = last
        if outcome.base_offset >= 0:
            entry.last_acked_offset = max(entry.last_acked_offset, outcome.base_offset + batch.record_count - 1)
        entry.remove(batch)

    def handle_failed_batch(self, batch: ProducerBatch, error: Exception, adjust_sequences: bool) -> None:
        """Remove a failed batch from those in flight. Fail the producer if the error is in FATAL_ERRORS.

        Else request an epoch bump after OutOfOrderSequenceNumber, UnknownProducerId, or any error if `adjust_sequences`
        is set. Without it, because the retries or the time are exhausted, the sequence is unresolved: the broker would
        refuse the next batch, with the same few retries. No bump for a batch without a sequence.
        """
        if isinstance(error, FATAL_ERRORS):
            self.fail(error)
        self.remove_inflight_batch(batch)
        if self.has_fatal_error or not batch.has_sequence:
            return
        if isinstance(error, OutOfOrderSequenceNumber):
            self.log.error(
                "The broker returned %s for topic-partition %s with producerId %d, epoch %d, and sequence number %d",
                error, batch.topic_partition, batch.producer_id, batch.producer_epoch, batch.base_sequence,
            )  # fmt: skip
            self.request_epoch_bump_for(batch.topic_partition)
        elif isinstance(error, UnknownProducerId) or adjust_sequences:
            self.request_epoch_bump_for(batch.topic_partition)
        else:
            self.mark_sequence_unresolved(batch)

    def handle_unsent_batch(self, batch: ProducerBatch) -> None:
        """Remove a drained batch that is never sent; the next batch gets its sequence numbers."""
        self.remove_inflight_batch(batch)
        if batch.has_sequence:
            self._entry(batch.topic_partition).close_gap(batch)

    def mark_sequence_unresolved(self, batch: ProducerBatch) -> None:
        """Record that a batch failed and the use of its sequences is unknown: it expired, or had its last retry."""
        following = increment_sequence(batch.last_sequence, 1)
        unresolved = self._unresolved.get(batch.topic_partition)
        if unresolved is None or sequence_before(unresolved, following):
            self._unresolved[batch.topic_partition] = following

    def maybe_resolve_sequences(self) -> None:
        """For partitions with unresolved sequences and nothing in flight: resolve them if the partition's last sequence
        was acknowledged, else call `handle_unresolved`."""
        for partition in list(self._unresolved):
            entry = self._entry(partition)
            if entry.inflight:
                continue
            if not self._is_next_sequence(partition, entry.next_sequence):
                self.handle_unresolved(partition)
            self._unresolved.pop(partition, None)

    def handle_unresolved(self, partition: TopicPartition) -> None:
        """Request an epoch bump for a partition whose sequences cannot be resolved."""
        entry = self._entry(partition)
        self.log.info(
            "No inflight batches remaining for %s, last ack'd sequence for partition is %d, "
            "next sequence is %d. Going to bump epoch and reset sequence numbers.",
            partition,
            entry.last_acked_sequence,
            entry.next_sequence,
        )
        self.request_epoch_bump_for(partition)

    def can_retry(self, outcome: ProduceOutcome, batch: ProducerBatch) -> bool:
        """Return whether a failed batch may be retried (TransactionManager.canRetry). May request an epoch bump or
        restart sequences, so that the retry can succeed."""
        error = outcome.error
        if error is UnknownProducerId:
            return self._retry_unknown_producer_id(outcome, batch)
        if error is OutOfOrderSequenceNumber:
            return self._retry_out_of_order(batch)
        return bool(getattr(error, "retriable", False))

    def _retry_unknown_producer_id(self, outcome: ProduceOutcome, batch: ProducerBatch) -> bool:
        """Return True: retry after the broker lost the producer's state. Requests an epoch bump unless the response has
        no log start offset or the batch has a new sequence already."""
        if outcome.log_start_offset != -1 and not batch.sequence_has_been_reset:
            self.request_epoch_bump_for(batch.topic_partition)
        return True

    def _retry_out_of_order(self, batch: ProducerBatch) -> bool:
        """Return True: retry after OUT_OF_ORDER_SEQUENCE_NUMBER, without a bump while an earlier batch is not
        acknowledged, else with an epoch bump.

        The epoch is also bumped when the broker has accepted a later batch and so will never accept this one. Kafka's
        producer retries until delivery.timeout.ms instead.
        """
        partition = batch.topic_partition
        unresolved = self._unresolved.get(partition)
        if self._entry(partition).was_overtaken(batch):
            self.request_epoch_bump_for(partition)
            return True
        if unresolved is None and (
            batch.sequence_has_been_reset or not self._is_next_sequence(partition, batch.base_sequence)
        ):
            return True
        if unresolved is None or unresolved == batch.base_sequence:
            self.request_epoch_bump_for(partition)
        return True
