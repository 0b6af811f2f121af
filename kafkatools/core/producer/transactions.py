"""TransactionalManager: the transactional half of Kafka's TransactionManager, on top of the sequences.

Strategy: a call of the application changes the state and queues requests; the sender's thread takes them by priority
(`next_request`), one at a time, and brings the answers back (`transaction_driver.py`). Rules:

- a batch goes out only when its partition is in the transaction: in transaction version 1 after AddPartitionsToTxn, in
  version 2 (KIP-890) at once, since the leader adds it;
- EndTxn goes out when every batch has its fate and no request that holds one is in flight: a late write can neither
  fall into the next transaction nor leave this one hanging;
- a record that failed makes the transaction abortable, so that it cannot be committed without it; what cannot be mended
  by an abort is fatal;
- after an error the epoch is bumped: by the coordinator at the end of every transaction (version 2), else with
  InitProducerId right after EndTxn (KIP-360), under the same result;
- a transaction to which nothing was added ends without EndTxn;
- init, commit and abort whose wait timed out go on; the same call waits for the same result, any other is refused;
- which version counts is read from the finalized features that the coordinator's connection told, and changes between
  transactions only; on the way up to version 2 the epoch is bumped once.

`lock` guards state, queue, partitions of the transaction and pending result. It is taken while holding the
accumulator's lock (an append joins the transaction in one step with the check of the state), never the other way
round. Sequences belong to the sender's thread.
"""

from __future__ import annotations

import heapq
import itertools
import logging
import threading
from collections.abc import Callable, Collection, Mapping
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

_log = logging.getLogger(__name__)

TRANSACTION_VERSION = "transaction.version"

_COMPLETING = (State.COMMITTING_TRANSACTION, State.ABORTING_TRANSACTION)
_ERRORS = (State.ABORTABLE_ERROR, State.FATAL_ERROR)
_UNACKNOWLEDGED = (
    "The client hasn't received acknowledgment for some previously sent messages and can no longer retry them. "
)


class PendingTransition(NamedTuple):
    """A call whose outcome its caller has not seen yet."""

    result: TransactionalResult
    state: State
    operation: str


class TransactionalManager(TransactionManager):
    """The transactions of one producer."""

    is_transactional = True

    def __init__(
        self,
        transactional_id: str,
        transaction_timeout_ms: int,
        retry_backoff_ms: int,
        lookup_backoff: ExponentialBackoff | None = None,
    ) -> None:
        super().__init__()
        self.lock = threading.RLock()
        self.transactional_id = transactional_id
        self.transaction_timeout_ms = transaction_timeout_ms
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
        """Asks for the producer id; aborts what an earlier producer of this name left open."""

        def start() -> TransactionalResult:
            self._move(State.INITIALIZING)
            request = InitProducerId(self)
            self.enqueue(request)
            return request.result

        return self._cached(start, State.INITIALIZING, "initTransactions")

    def begin_transaction(self) -> None:
        """From now on records belong to a transaction."""
        with self.lock:
            self._throw_if_pending("beginTransaction")
            self._raise_error()
            self._move(State.IN_TRANSACTION)

    def begin_commit(self) -> TransactionalResult:
        """Ends the transaction once all its records are acknowledged."""

        def start() -> TransactionalResult:
            self._raise_error()
            self._move(State.COMMITTING_TRANSACTION)
            return self._begin_completing(is_commit=True)

        return self._cached(start, State.COMMITTING_TRANSACTION, "commitTransaction")

    def begin_abort(self) -> TransactionalResult:
        """Ends the transaction; records that were not sent yet fail."""

        def start() -> TransactionalResult:
            if self.state is not State.ABORTABLE_ERROR:
                self._raise_error()
            self._move(State.ABORTING_TRANSACTION)
            self._new_partitions.clear()
            return self._begin_completing(is_commit=False)

        return self._cached(start, State.ABORTING_TRANSACTION, "abortTransaction")

    def prepare(
        self, flush: Callable[[], None], has_incomplete: Callable[[], bool], max_block_ms: int
    ) -> PreparedTransaction:
        """Waits until all that was added is acknowledged, then takes nothing more: what is left is to commit or to
        abort, by anybody who has what this gives, and a close aborts no longer (prepareTransaction of KIP-939).

        A record or offsets of another thread that come in while it waits are waited for too.
        """
        while True:
            self.ensure_ready_to_send()
            flush()
            for request in self._unanswered():
                request.result.wait(max_block_ms)
            with self.lock:
                self._throw_if_pending("prepareTransaction")
                self._raise_error()
                if has_incomplete() or self._unanswered():
                    continue
                self._move(State.PREPARED_TRANSACTION)
                version = 2 if self.is_v2 else 1
                return PreparedTransaction(self.transactional_id, *self.identity, version, not self.transaction_started)

    def _unanswered(self) -> list[TxnRequest]:
        """Requests that are queued or under way."""
        with self.lock:
            waiting = [request for _, _, request in self._queue]
            return waiting if self.in_flight is None else [self.in_flight, *waiting]

    def abort_for_close(self) -> None:
        """The producer is being closed: whatever call is still to be repeated, nobody will."""
        with self.lock:
            self._pending = None
            self.begin_abort()

    def _begin_completing(self, is_commit: bool) -> TransactionalResult:
        """The transaction ends in the version it began with; a newer one counts from the next on."""
        self._enqueue_new_partitions()
        request = EndTxn(self, is_commit, self.is_v2)
        self._maybe_update_transaction_version(is_initialization=False)
        self.enqueue(request)
        return request.result

    def send_offsets(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], group: ConsumerGroupMetadata
    ) -> TransactionalResult:
        """Makes offsets of a group part of the transaction."""
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
        """Raises what keeps a record from becoming part of a transaction."""
        if self._is_in_transaction:
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

    @property
    def _is_in_transaction(self) -> bool:
        return self.state is State.IN_TRANSACTION

    def add_partition(self, partition: TopicPartition) -> None:
        """A record for the partition is in the accumulator; under `lock`, together with `ensure_ready_to_send`."""
        if partition in self.partitions_in_transaction:
            return
        if self.is_v2:
            self.partitions_in_transaction.add(partition)
            self.transaction_started = True
        elif partition not in self._pending_partitions:
            self._new_partitions.add(partition)

    def handle_failed_send(self, error: Exception) -> None:
        """A record never got into the accumulator: the transaction cannot be committed without it."""
        with self.lock:
            if self.state in (State.IN_TRANSACTION, State.COMMITTING_TRANSACTION):
                self._maybe_transition_to_error(error)

    def _cached(self, start: Callable[[], TransactionalResult], state: State, operation: str) -> TransactionalResult:
        """Begins an operation, or finds the one that is under way since its caller's time was over."""
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
        """Whether a commit or an abort is under way."""
        return self.state in _COMPLETING

    @property
    def is_aborting(self) -> bool:
        return self.state is State.ABORTING_TRANSACTION

    @property
    def has_abortable_error(self) -> bool:
        return self.state is State.ABORTABLE_ERROR

    @property
    def has_error(self) -> bool:
        return self.state in _ERRORS

    @property
    def has_ongoing_transaction(self) -> bool:
        """Begun and neither ended nor lost to a fatal error."""
        return self.state is State.IN_TRANSACTION or self.is_completing or self.has_abortable_error

    def _move(self, target: State) -> None:
        """A transition that the application asked for: when it is illegal, nothing has happened."""
        if self.state not in LEGAL_SOURCES[target]:
            raise IllegalState(self._illegal(target))
        self.transition_to(target)

    def transition_to(self, target: State, error: Exception | None = None) -> None:
        """Moves on. An illegal transition on the sender's side means that the state can no longer be trusted: fatal."""
        with self.lock:
            if self.state not in LEGAL_SOURCES[target]:
                problem = IllegalState(self._illegal(target))
                self.fail(problem)
                raise problem
            if isinstance(error, (RetriableError, InvalidTxnState)):
                # What can be retried was retried until its time was over: the application must not try once more
                # inside the same transaction.
                cause, error = (
                    error,
                    TransactionAbortable(f"Transaction Request was aborted after exhausting retries: {error}"),
                )
                error.__cause__ = cause
            _log.debug("Transition from state %s to %s %s", self.state.name, target.name, error or "")
            self.last_error = error if target in _ERRORS else None
            self.state = target

    def _illegal(self, target: State) -> str:
        return (
            f"TransactionalId {self.transactional_id}: Invalid transition attempted from state {self.state.name} "
            f"to state {target.name}"
        )

    def transition_to_abortable_error(self, error: Exception) -> None:
        """Nothing but an abort is left; a transaction that is being aborted already needs nothing more."""
        with self.lock:
            if self.is_aborting or self.has_fatal_error:
                return
            _log.info("Transiting to abortable error state due to %s", error)
            self.transition_to(State.ABORTABLE_ERROR, error)

    def transition_to_abortable_or_fatal_error(self, abortable: Exception, fatal: Exception) -> None:
        """Abortable where somebody can bump the epoch."""
        with self.lock:
            if not self.coordinator_bumps_epochs and not self.is_v2:
                self.fail(fatal)
                return
            self._epoch_bump_required = self._epoch_bump_required or self._must_bump
            if not self.has_abortable_error:  # the first error says more than what follows from it
                self.transition_to_abortable_error(abortable)

    def transition_to_uninitialized(self, error: Exception) -> None:
        """An initialization was refused (not authorized): everything that waits fails, and it may be tried again."""
        with self.lock:
            self.transition_to(State.ABORTABLE_ERROR, error)
            self._fail_waiting(error)
            self.transition_to(State.UNINITIALIZED)

    def fail(self, error: Exception) -> None:
        """Ends the producer; everybody who waits hears of it."""
        with self.lock:
            _log.info("Transiting to fatal error state due to %s", error)
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
        """The producer ends without waiting any longer."""
        with self.lock:
            self._fail_waiting(IllegalState("The producer closed forcefully"))

    def _raise_error(self) -> None:
        """Raises the error that the producer is in, if any."""
        error = self.last_error
        if not self.has_error or error is None:
            return
        who = (
            f"Producer with transactionalId '{self.transactional_id}' and producerId {self.identity.producer_id} "
            f"epoch {self.identity.epoch}"
        )
        if isinstance(error, ProducerFenced):
            raise ProducerFenced(f"{who} has been fenced by another producer with the same transactionalId")
        if isinstance(error, InvalidProducerEpoch):
            raise InvalidProducerEpoch(f"{who} attempted to produce with an old epoch")
        if isinstance(error, IllegalState):
            raise IllegalState(
                f"{who} cannot execute transactional method because of previous invalid state transition attempt"
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
        """Whether a bump after an error is ours to ask for."""
        return self.coordinator_bumps_epochs and not self.is_v2

    def note_coordinator(self, bumps_epochs: bool, features_epoch: int, transaction_version: int) -> None:
        """What the connection to the coordinator told of it."""
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
        """InitProducerId gave an identity of our own."""
        self._maybe_update_transaction_version(is_initialization=True)
        self.take_bumped_epoch(producer_id, epoch)
        self.transition_to(State.READY)

    def take_bumped_epoch(self, producer_id: int, epoch: int) -> None:
        """Sequences begin at 0 under another epoch; nothing is in flight now."""
        level = logging.INFO if producer_id != self.identity.producer_id else logging.DEBUG
        _log.log(level, "ProducerId set to %d with epoch %d", producer_id, epoch)
        self.identity = ProducerIdAndEpoch(producer_id, epoch)
        self._partitions.clear()
        self._unresolved.clear()
        self._partitions_to_rewrite.clear()

    def bump_epoch_and_reset_id_if_needed(self) -> bool:
        """Ids come by `initialize_transactions` only."""
        return False

    def complete_transaction(self, result: TransactionalResult) -> None:
        """The transaction has ended. `result` is done now, or when the epoch has been bumped too."""
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
        """Puts a request into the queue; one that comes back keeps its place."""
        with self.lock:
            if request.order < 0:
                request.order = next(self._order)
            heapq.heappush(self._queue, (request.priority, request.order, request))

    @property
    def has_pending_requests(self) -> bool:
        return bool(self._queue)

    def next_request(self, is_flushed: Callable[[], bool]) -> TxnRequest | None:
        """The request whose turn it is. `is_flushed` tells whether every batch has its fate; it is asked here, under
        the lock, so that no record can slip in between its answer and EndTxn."""
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
                    _log.debug("Not sending EndTxn since nothing was added to the transaction")
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
        """The coordinator answered AddPartitionsToTxn."""
        self._pending_partitions.difference_update(partitions)
        if is_success:
            self.partitions_in_transaction.update(partitions)
            self.transaction_started = True

    def lookup(self, request: TxnRequest) -> CoordinatorLookup:
        """The search for the coordinator that a request goes to."""
        key = (request.coordinator, request.coordinator_key)
        found = self._lookups.get(key)
        if found is None:
            found = self._lookups[key] = CoordinatorLookup(*key, self._lookup_backoff)
        return found

    # -- batches --

    def should_stop_drain(self, first: ProducerBatch) -> bool:
        """Also when the partition is not in the transaction yet."""
        if first.topic_partition not in self.partitions_in_transaction:
            return True
        return super().should_stop_drain(first)

    def handle_failed_batch(self, batch: ProducerBatch, error: Exception, adjust_sequences: bool) -> None:
        """A batch was given up: the transaction cannot be committed."""
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
        """Batches were given up after they had been sent, and nobody knows whether they were written."""
        _log.info("The fate of batches of %s will never be known", partition)
        self.transition_to_abortable_or_fatal_error(
            KafkaError(_UNACKNOWLEDGED + "It is safe to abort the transaction and continue."),
            KafkaError(_UNACKNOWLEDGED + "It isn't safe to continue."),
        )

    def _retry_unknown_producer_id(self, outcome: ProduceOutcome, batch: ProducerBatch) -> bool:
        """Retention took the producer's records: start again at 0. Else the broker lost them: the transaction fails."""
        if outcome.log_start_offset == -1 or batch.sequence_has_been_reset:
            return True
        entry = self._entry(batch.topic_partition)
        if entry.last_acked_offset < outcome.log_start_offset:
            entry.start_at_beginning(self.identity)
            return True
        return False

    def _retry_out_of_order(self, batch: ProducerBatch) -> bool:
        """Waits for an earlier batch that is being retried; a gap is never closed by sending on: the transaction
        fails."""
        partition = batch.topic_partition
        if partition in self._unresolved:
            return False
        return batch.sequence_has_been_reset or not self._is_next_sequence(partition, batch.base_sequence)
