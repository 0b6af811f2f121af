"""TransactionalManager: the transactional half of Kafka's TransactionManager.

A call of the application changes the state and queues requests. The sender's thread takes them by priority
(`next_request`), one at a time, and processes the responses (`transaction_driver.py`). Rules:

- A batch is sent only if its partition is in the transaction: after AddPartitionsToTxn in transaction version 1, at
  once in version 2 (KIP-890), where the partition leader adds it.
- EndTxn is sent when every batch is acknowledged or failed, so no late write can fall into the next transaction or keep
  this one open.
- A failed record makes the transaction abortable, so that it is not committed without the record. An error that an
  abort cannot repair is fatal.
- After an error the epoch is bumped: by the coordinator at the end of every transaction (version 2), else with
  InitProducerId after EndTxn (KIP-360), as part of the same result.
- A transaction without partitions and offsets ends without EndTxn.
- An init, commit or abort whose wait timed out continues; the same call waits for the same result, other calls raise.
- The transaction version comes from the finalized features of the coordinator and changes only between transactions;
  on the upgrade to version 2 the epoch is bumped once.

`lock` guards state, queue, partitions of the transaction and pending result. It may be taken while holding the
accumulator's lock (an append joins the transaction in one step with the check of the state), never the other way round.
Sequences belong to the sender's thread.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
from collections.abc import Callable, Collection, Generator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from kafkatools.core.errors import (
    IllegalState,
    InvalidProducerEpoch,
    InvalidTxnState,
    KafkaError,
    ProducerFenced,
    RetriableError,
    TransactionAbortable,
    UnknownProducerId,
)
from kafkatools.core.group.coordinator import CoordinatorKind, CoordinatorLookup
from kafkatools.core.prepared_transaction import PreparedTransaction
from kafkatools.core.producer.transaction_manager import (
    FATAL_ERRORS,
    LEGAL_SOURCES,
    ProduceOutcome,
    ProducerIdAndEpoch,
    State,
    TransactionManager,
)
from kafkatools.core.producer.transaction_requests import (
    AddOffsetsToTxn,
    AddPartitionsToTxn,
    EndTxn,
    InitProducerId,
    TransactionalResult,
    TxnOffsetCommit,
    TxnRequest,
)

if TYPE_CHECKING:
    from kafkatools.core.group.metadata import ConsumerGroupMetadata, OffsetAndMetadata
    from kafkatools.core.net.connection_states import ExponentialBackoff
    from kafkatools.core.producer.futures import TopicPartition
    from kafkatools.core.producer.producer_batch import ProducerBatch

TRANSACTION_VERSION = "transaction.version"

_COMPLETING = (State.COMMITTING_TRANSACTION, State.ABORTING_TRANSACTION)
_ERRORS = (State.ABORTABLE_ERROR, State.FATAL_ERROR)
_UNACKNOWLEDGED = (
    "The client hasn't received acknowledgment for some previously sent messages and can no longer retry them. "
)


class PendingTransition(NamedTuple):
    """An init, commit or abort whose result no caller has received so far."""

    result: TransactionalResult
    state: State
    operation: str


class TransactionalManager(TransactionManager):
    """The transactions of one producer: their state, partitions and queued requests."""

    is_transactional = True

    def __init__(
        self,
        transactional_id: str,
        transaction_timeout_ms: int,
        retry_backoff_ms: int,
        lookup_backoff: ExponentialBackoff | None = None,
        is_two_phase: bool = False,
        log_prefix: str = "",
    ) -> None:
        super().__init__(log_prefix)
        self.lock = threading.RLock()
        self.transactional_id = transactional_id
        self.transaction_timeout_ms = transaction_timeout_ms
        self.is_two_phase = is_two_phase
        self.retry_backoff_ms = retry_backoff_ms
        self.transaction_started = False
        self.is_v2 = False
        self.coordinator_bumps_epochs = False
        self.partitions_in_transaction: set[TopicPartition] = set()
        self._new_partitions: set[TopicPartition] = set()
        self._pending_partitions: set[TopicPartition] = set()
        self.in_flight: TxnRequest | None = None
        self._queue: list[tuple[int, int, TxnRequest]] = []
        self._order = itertools.count()
        self._pending: PendingTransition | None = None
        self._features_epoch = -1
        self._latest_features: tuple[int, int] = (-1, 0)
        self._lookup_backoff = lookup_backoff
        self._lookups: dict[tuple[CoordinatorKind, str], CoordinatorLookup] = {}

    # -- calls of the application --

    def initialize_transactions(self) -> TransactionalResult:
        """Request the producer id and return the result to wait for; the coordinator aborts open transactions of
        earlier producers with this transactional id. Raises IllegalState when initialized before."""

        def start() -> TransactionalResult:
            self._move(State.INITIALIZING)
            request = InitProducerId(self)
            self.enqueue(request)
            return request.result

        return self._cached(start, State.INITIALIZING, "initTransactions")

    def begin_transaction(self) -> None:
        """Begin a transaction. Raises IllegalState, or the producer's error."""
        with self.lock:
            self._throw_if_pending("beginTransaction")
            self._raise_error()
            self._move(State.IN_TRANSACTION)

    def begin_commit(self) -> TransactionalResult:
        """Start to commit the transaction and return the result to wait for. EndTxn is sent after all records are
        acknowledged, and not for an empty transaction. Raises IllegalState without a transaction, or the transaction's
        error."""

        def start() -> TransactionalResult:
            self._raise_error()
            self._move(State.COMMITTING_TRANSACTION)
            return self._begin_completing(is_commit=True)

        return self._cached(start, State.COMMITTING_TRANSACTION, "commitTransaction")

    def begin_abort(self) -> TransactionalResult:
        """Start to abort the transaction and return the result to wait for; records that were not sent fail. Raises
        IllegalState without a transaction, or the producer's fatal error."""

        def start() -> TransactionalResult:
            if self.state is not State.ABORTABLE_ERROR:
                self._raise_error()
            self._move(State.ABORTING_TRANSACTION)
            self._new_partitions.clear()
            return self._begin_completing(is_commit=False)

        return self._cached(start, State.ABORTING_TRANSACTION, "abortTransaction")

    def prepare(
        self, has_incomplete: Callable[[], bool]
    ) -> Generator[TransactionalResult | None, None, PreparedTransaction]:
        """Wait until all records and offsets are acknowledged, then allow only a commit or abort (prepareTransaction,
        KIP-939).

        Any holder of the returned object may end the transaction, and a close no longer aborts it. Records and offsets
        that other threads add during the wait are awaited too. Yields None to wait for a flush, else the result to wait
        for. Raises IllegalState without a transaction, and the transaction's error.
        """
        while True:
            self.ensure_ready_to_send()
            yield None
            for request in self._unanswered():
                yield request.result
            with self.lock:
                self._throw_if_pending("prepareTransaction")
                self._raise_error()
                if has_incomplete() or self._unanswered():
                    continue
                self._move(State.PREPARED_TRANSACTION)
                version = 2 if self.is_v2 else 1
                return PreparedTransaction(self.transactional_id, *self.identity, version, not self.transaction_started)

    def _unanswered(self) -> list[TxnRequest]:
        """The transactional requests that are queued or in flight."""
        with self.lock:
            waiting = [request for _, _, request in self._queue]
            return waiting if self.in_flight is None else [self.in_flight, *waiting]

    def abort_for_close(self) -> None:
        """Start to abort the transaction of a closing producer, also after a time-out, unless its end has begun."""
        with self.lock:
            if not self.has_ongoing_transaction or self.is_completing:
                return
            self._pending = None
            if self.last_error is not None:  # a queued commit must not go out before the abort: its batches have failed
                for _, _, request in self._queue:
                    request.fail(self.last_error)
            self.begin_abort()

    def _begin_completing(self, is_commit: bool) -> TransactionalResult:
        """Queue EndTxn in the version in which the transaction began; a newer version applies to the next one."""
        self._enqueue_new_partitions()
        request = EndTxn(self, is_commit, self.is_v2)
        self._maybe_update_transaction_version(is_initialization=False)
        self.enqueue(request)
        return request.result

    def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: ConsumerGroupMetadata
    ) -> TransactionalResult:
        """Queue the commit of a group's offsets as part of the transaction and return the result to wait for. Raises
        IllegalState without a transaction, or the transaction's error."""
        with self.lock:
            self._throw_if_pending("sendOffsetsToTransaction")
            self._raise_error()
            if self.state is not State.IN_TRANSACTION:
                raise IllegalState(
                    f"Cannot send offsets if a transaction is not in progress (currentState= {self.state.name})"
                )
            request: TxnRequest
            if self.is_v2:
                self.transaction_started = True
                request = TxnOffsetCommit(self, offsets, group, is_v2=True)
            else:
                request = AddOffsetsToTxn(self, offsets, group)
            self.enqueue(request)
            return request.result

    def ensure_ready_to_send(self) -> None:
        """Raise IllegalState or the producer's error unless a record can be added to a transaction now."""
        if self.state is State.IN_TRANSACTION:
            return
        with self.lock:
            self._raise_error()
            self._throw_if_pending("send")
            if not self.has_producer_id:
                raise IllegalState(
                    "Cannot perform a 'send' before completing a call to init_transactions when transactions are "
                    "enabled."
                )
            raise IllegalState(f"Cannot call send in state {self.state.name}")

    def add_partition(self, partition: TopicPartition) -> None:
        """Add the partition of an appended record to the transaction: at once in transaction version 2, else with the
        next AddPartitionsToTxn. Call it under `lock`, after `ensure_ready_to_send`."""
        if partition in self.partitions_in_transaction:
            return
        if self.is_v2:
            self.partitions_in_transaction.add(partition)
            self.transaction_started = True
        elif partition not in self._pending_partitions:
            self._new_partitions.add(partition)

    def handle_failed_send(self, error: Exception) -> None:
        """Make the open transaction abortable after a record failed before it was appended to a batch; an error in
        FATAL_ERRORS fails the producer. No effect outside a transaction."""
        with self.lock:
            if self.state in (State.IN_TRANSACTION, State.COMMITTING_TRANSACTION):
                self._maybe_transition_to_error(error)

    def _cached(self, start: Callable[[], TransactionalResult], state: State, operation: str) -> TransactionalResult:
        """Start an init, commit or abort and return its result, or the result of the same call that timed out before.
        Raises IllegalState while another such call is pending."""
        with self.lock:
            if self._pending is not None and not self._pending.result.is_acked:
                if self._pending.state is state:
                    return self._pending.result
                self._throw_if_pending(operation)
            result = start()
            self._pending = PendingTransition(result, state, operation)
            return result

    def _throw_if_pending(self, operation: str) -> None:
        pending = self._pending
        if pending is None:
            return
        if not pending.result.is_acked:
            raise IllegalState(
                f"Cannot attempt operation `{operation}` because the previous call to `{pending.operation}` "
                "timed out and must be retried"
            )
        self._pending = None

    # -- state --

    @property
    def is_completing(self) -> bool:
        """Return whether a commit or abort of the transaction is in progress."""
        return self.state in _COMPLETING

    @property
    def is_aborting(self) -> bool:
        return self.state is State.ABORTING_TRANSACTION

    @property
    def has_abortable_error(self) -> bool:
        return self.state is State.ABORTABLE_ERROR

    @property
    def has_error(self) -> bool:
        """Return whether the producer is in the state ABORTABLE_ERROR or FATAL_ERROR."""
        return self.state in _ERRORS

    @property
    def has_ongoing_transaction(self) -> bool:
        """Return whether a transaction has begun and neither ended, failed fatally, nor was prepared for another
        process."""
        return self.state is State.IN_TRANSACTION or self.is_completing or self.has_abortable_error

    def _move(self, target: State) -> None:
        """Change the state for a call of the application. Raises IllegalState, without effect, for an illegal
        transition."""
        if self.state not in LEGAL_SOURCES[target]:
            raise IllegalState(self._illegal(target))
        self.transition_to(target)

    def transition_to(self, target: State, error: Exception | None = None) -> None:
        """Change the state on the sender's side. An illegal transition raises IllegalState and is fatal for the
        producer. A retriable error or InvalidTxnState becomes TransactionAbortable: its retries are exhausted, so the
        application must abort."""
        with self.lock:
            if self.state not in LEGAL_SOURCES[target]:
                problem = IllegalState(self._illegal(target))
                self.fail(problem)
                raise problem
            if isinstance(error, (RetriableError, InvalidTxnState)):
                # The retries are exhausted, so the application must not repeat the call in the same transaction.
                cause, error = (
                    error,
                    TransactionAbortable(f"Transaction Request was aborted after exhausting retries: {error}"),
                )
                error.__cause__ = cause
            self.log.debug("Transition from state %s to %s %s", self.state.name, target.name, error or "")
            self.last_error = error if target in _ERRORS else None
            self.state = target

    def _illegal(self, target: State) -> str:
        return (
            f"TransactionalId {self.transactional_id}: Invalid transition attempted from state {self.state.name} "
            f"to state {target.name}"
        )

    def transition_to_abortable_error(self, error: Exception) -> None:
        """Set an error after which the transaction can only be aborted; no effect during an abort or after a fatal
        error."""
        with self.lock:
            if self.is_aborting or self.has_fatal_error:
                return
            self.log.info("Transiting to abortable error state due to %s", error)
            self.transition_to(State.ABORTABLE_ERROR, error)

    def transition_to_abortable_or_fatal_error(self, abortable: Exception, fatal: Exception) -> None:
        """Set the abortable error if the epoch can be bumped, else the fatal one. A first abortable error stays,
        because it is the cause of later ones."""
        with self.lock:
            if not self.coordinator_bumps_epochs and not self.is_v2:
                self.fail(fatal)
                return
            self._epoch_bump_required = self._epoch_bump_required or self._must_bump
            if not self.has_abortable_error:  # the first error is the cause of later ones
                self.transition_to_abortable_error(abortable)

    def transition_to_uninitialized(self, error: Exception) -> None:
        """Fail all waiting calls after a refused initialization; the state becomes UNINITIALIZED, so that
        `initialize_transactions` can be called again."""
        with self.lock:
            self.transition_to(State.ABORTABLE_ERROR, error)
            self._fail_waiting(error)
            self.transition_to(State.UNINITIALIZED)

    def fail(self, error: Exception) -> None:
        """Set a fatal error and fail all waiting calls with it."""
        with self.lock:
            self.log.info("Transiting to fatal error state due to %s", error)
            self.last_error, self.state = error, State.FATAL_ERROR
            self._fail_waiting(error)

    def _fail_waiting(self, error: Exception) -> None:
        if self._pending is not None:
            self._pending.result.fail(error)
        if self.in_flight is not None:
            self.in_flight.fail(error)
        for _, _, request in self._queue:
            request.fail(error)
        self._queue.clear()

    def close(self) -> None:
        """Fail all waiting calls with IllegalState, because the producer closes."""
        with self.lock:
            self._fail_waiting(IllegalState("The producer closed forcefully"))

    def _raise_error(self) -> None:
        error = self.last_error
        if not self.has_error or error is None:
            return
        producer = (
            f"Producer with transactionalId '{self.transactional_id}' and producerId {self.identity.producer_id} "
            f"epoch {self.identity.epoch}"
        )
        if isinstance(error, ProducerFenced):
            raise ProducerFenced(f"{producer} has been fenced by another producer with the same transactionalId")
        if isinstance(error, InvalidProducerEpoch):
            raise InvalidProducerEpoch(f"{producer} attempted to produce with an old epoch")
        if isinstance(error, IllegalState):
            raise IllegalState(
                f"{producer} cannot execute transactional method because of previous invalid state transition attempt"
            ) from error
        kind = TransactionAbortable if self.has_abortable_error else KafkaError
        raise kind(f"Cannot execute transactional method because we are in an error state: {error}") from error

    def _maybe_transition_to_error(self, error: Exception) -> None:
        if isinstance(error, FATAL_ERRORS):
            self.fail(error)
            return
        if self._must_bump and not self.is_completing:
            self._epoch_bump_required = True
        self.transition_to_abortable_error(error)

    # -- version and epoch --

    @property
    def _must_bump(self) -> bool:
        """Return whether the producer itself must request an epoch bump after an error (transaction version 1,
        KIP-360)."""
        return self.coordinator_bumps_epochs and not self.is_v2

    def note_coordinator(self, bumps_epochs: bool, features_epoch: int, transaction_version: int) -> None:
        """Record whether the coordinator supports epoch bumps, and its finalized transaction version if
        `features_epoch` is newer than the last one."""
        with self.lock:
            self.coordinator_bumps_epochs = bumps_epochs
            if features_epoch > self._latest_features[0]:
                self._latest_features = (features_epoch, transaction_version)

    def _maybe_update_transaction_version(self, is_initialization: bool) -> None:
        epoch, version = self._latest_features
        if epoch <= self._features_epoch:
            return
        self._features_epoch = epoch
        was_v2, self.is_v2 = self.is_v2, version >= 2
        if self.is_v2 and not was_v2 and not is_initialization:
            self._epoch_bump_required = True

    def initialized(self, producer_id: int, epoch: int) -> None:
        """Apply the producer id and epoch of InitProducerId, and become READY."""
        self._maybe_update_transaction_version(is_initialization=True)
        self.take_bumped_epoch(producer_id, epoch)
        self.transition_to(State.READY)

    def take_bumped_epoch(self, producer_id: int, epoch: int) -> None:
        """Apply another producer id or epoch and restart all sequences at 0; no batch may be in flight."""
        level = logging.INFO if producer_id != self.identity.producer_id else logging.DEBUG
        self.log.log(level, "ProducerId set to %d with epoch %d", producer_id, epoch)
        self.identity = ProducerIdAndEpoch(producer_id, epoch)
        self._partitions.clear()
        self._unresolved.clear()
        self._partitions_to_rewrite.clear()

    def bump_epoch_and_reset_id_if_needed(self) -> bool:
        """Return False: a transactional producer gets its id and epoch from its queued InitProducerId and EndTxn
        requests."""
        return False

    def complete_transaction(self, result: TransactionalResult) -> None:
        """End the transaction: become READY and complete `result`, or request a required epoch bump, which completes it
        later."""
        is_bump_required = self._epoch_bump_required
        self.transition_to(State.INITIALIZING if is_bump_required else State.READY)
        self._epoch_bump_required = False
        self.transaction_started = False
        self._new_partitions.clear()
        self._pending_partitions.clear()
        self.partitions_in_transaction.clear()
        if is_bump_required:
            self.enqueue(InitProducerId(self, result, is_epoch_bump=True))
        else:
            result.done()

    # -- requests, taken by the sender's thread --

    def enqueue(self, request: TxnRequest) -> None:
        """Queue a request by priority; a retried request keeps its place."""
        with self.lock:
            if request.order < 0:
                request.order = next(self._order)
            heapq.heappush(self._queue, (request.priority, request.order, request))

    @property
    def has_pending_requests(self) -> bool:
        """Return whether transactional requests are queued; one in flight does not count."""
        return bool(self._queue)

    def next_request(self, is_flushed: Callable[[], bool]) -> TxnRequest | None:
        """Remove and return the next request; None when there is none or EndTxn must wait for batches. An EndTxn of an
        empty transaction completes here without a request; in an error state the queued requests fail here.

        `is_flushed` returns whether no batch is queued or in flight. It is called under the lock, so that no record can
        be added between its result and EndTxn.
        """
        with self.lock:
            self._enqueue_new_partitions()
            while self._queue:
                request = self._queue[0][2]
                is_end = isinstance(request, EndTxn)
                if is_end and not is_flushed():
                    return None
                heapq.heappop(self._queue)
                if request.result.is_completed:
                    continue
                if self.last_error is not None and self.has_error:
                    request.fail(self.last_error)
                elif is_end and not self.transaction_started:
                    self.log.debug("Not sending EndTxn since nothing was added to the transaction")
                    self.complete_transaction(request.result)
                else:
                    return request
            return None

    def _enqueue_new_partitions(self) -> None:
        if self._new_partitions:
            self._pending_partitions |= self._new_partitions
            self.enqueue(AddPartitionsToTxn(self, frozenset(self._new_partitions)))
            self._new_partitions.clear()

    def partitions_added(self, partitions: Collection[TopicPartition], is_success: bool) -> None:
        """Apply an AddPartitionsToTxn response: the partitions are no longer pending and, on success, in the
        transaction."""
        self._pending_partitions.difference_update(partitions)
        if is_success:
            self.partitions_in_transaction.update(partitions)
            self.transaction_started = True

    def lookup(self, request: TxnRequest) -> CoordinatorLookup:
        """The coordinator lookup for a request, shared by all requests to that coordinator."""
        key = (request.coordinator, request.coordinator_key)
        lookup = self._lookups.get(key)
        if lookup is None:
            lookup = self._lookups[key] = CoordinatorLookup(*key, self._lookup_backoff)
        return lookup

    # -- batches --

    def should_stop_drain(self, first: ProducerBatch) -> bool:
        """Return whether the first batch of a partition must wait, also because the partition is not in the
        transaction."""
        if first.topic_partition not in self.partitions_in_transaction:
            return True
        return super().should_stop_drain(first)

    def handle_failed_batch(self, batch: ProducerBatch, error: Exception, adjust_sequences: bool) -> None:
        """Make the transaction abortable after a failed batch, or fail the producer, and correct the partition's
        sequences."""
        with self.lock:
            self._maybe_transition_to_error(error)
        self.remove_inflight_batch(batch)
        if self.has_fatal_error or not batch.has_sequence:
            return
        if isinstance(error, UnknownProducerId):
            self._partitions.pop(batch.topic_partition, None)
            self._unresolved.pop(batch.topic_partition, None)
        elif adjust_sequences:
            self._entry(batch.topic_partition).close_gap(batch)

    def handle_unresolved(self, partition: TopicPartition) -> None:
        """Set an abortable or fatal error after sent batches expired and it is unknown whether they were written."""
        self.log.info("Sent batches of %s expired; whether they were written is unknown", partition)
        self.transition_to_abortable_or_fatal_error(
            KafkaError(_UNACKNOWLEDGED + "It is safe to abort the transaction and continue."),
            KafkaError(_UNACKNOWLEDGED + "It isn't safe to continue."),
        )

    def _retry_unknown_producer_id(self, outcome: ProduceOutcome, batch: ProducerBatch) -> bool:
        """Return whether to retry a batch after UNKNOWN_PRODUCER_ID. If retention deleted the producer's records, the
        sequences restart at 0 and the batch is retried; if the broker lost them otherwise, it fails.

        It is also retried when the response has no log start offset, or the batch has a new sequence already.
        """
        if outcome.log_start_offset == -1 or batch.sequence_has_been_reset:
            return True
        entry = self._entry(batch.topic_partition)
        if entry.last_acked_offset < outcome.log_start_offset:
            entry.start_at_beginning(self.identity)
            return True
        return False

    def _retry_out_of_order(self, batch: ProducerBatch) -> bool:
        """Return whether to retry a batch after OUT_OF_ORDER_SEQUENCE_NUMBER: its sequence was reset, or an earlier
        batch is not acknowledged yet. False while the partition has unresolved sequences."""
        partition = batch.topic_partition
        if partition in self._unresolved:
            return False
        return batch.sequence_has_been_reset or not self._is_next_sequence(partition, batch.base_sequence)
