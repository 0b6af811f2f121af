"""The transaction coordinator (Kafka's TransactionCoordinator and TransactionStateManager).

Rules:
- Everything runs on the listener's thread. A change is written before it takes effect and is reported after it is
  durable. In between it is pending, and other changes of the id are refused, with CONCURRENT_TRANSACTIONS unless the
  producer id or epoch is wrong.
- PrepareCommit or PrepareAbort decides the end of a transaction. Then markers are written, and after all markers are
  durable the completed state. Nothing waits until the completed state is durable: later records follow it in the same
  partition, and if it is lost the next start writes the markers again.
- An `respond` is called exactly once, at once or later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from kafkatools.core import errors
from kafkatools.core.broker.coordinators.groups.errors import coordinator_error_code
from kafkatools.core.broker.coordinators.host import Host
from kafkatools.core.broker.coordinators.transactions.ending import EndRequest, prepare_end
from kafkatools.core.broker.coordinators.transactions.log_records import key_bytes, value_bytes, value_version
from kafkatools.core.broker.coordinators.transactions.marker_sender import MarkerSender
from kafkatools.core.broker.coordinators.transactions.markers import Marker
from kafkatools.core.broker.coordinators.transactions.states import TransactionState
from kafkatools.core.broker.coordinators.transactions.transaction import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_TIMEOUT_MS,
    TopicPartition,
    Transaction,
    TransactionValue,
    is_epoch_exhausted,
)
from kafkatools.core.broker.coordinators.transactions.transaction_log import TransactionLog
from kafkatools.core.broker.replicas.delayed_produce import ProduceStatus
from kafkatools.core.broker.server.timer import Timer
from kafkatools.core.clock import Clock
from kafkatools.core.config import Config

NONE = 0
MARKER_RETRY_MS = 100
FENCING = (errors.InvalidProducerEpoch.code, errors.TransactionCoordinatorFenced.code)


class ProducerIdentity(NamedTuple):
    """A producer id with its epoch; -1 and -1 for no producer."""

    producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH


NOBODY = ProducerIdentity()


class InitRequest(NamedTuple):
    """A transactional InitProducerId. `expected` is the identity of a producer that recovers from an error (KIP-360),
    else None. `is_two_phase`: an external coordinator decides, so transactions never time out (KIP-939)."""

    timeout_ms: int
    expected: ProducerIdentity | None = None
    is_two_phase: bool = False
    keeps_prepared: bool = False


IdentityCallback = Callable[[int, ProducerIdentity], None]
CodeCallback = Callable[[int], None]


@dataclass(eq=False, repr=False)
class TransactionCoordinator:
    """The transactional ids that this broker coordinates, and the requests about them."""

    config: Config
    log: TransactionLog
    markers: MarkerSender
    waiting: Host
    timer: Timer
    clock: Clock
    new_producer_id: Callable[[], int]
    transaction_version: Callable[[], int]
    transactions: dict[str, Transaction] = field(default_factory=dict, init=False)

    def find(self, transactional_id: str) -> Transaction:
        """The state of a transactional id. Raises InvalidProducerIdMapping if the id is unknown, NotCoordinator if this
        broker does not coordinate it, CoordinatorLoadInProgress while its partition is loading."""
        self.log.coordinator_epoch(transactional_id)
        transaction = self.transactions.get(transactional_id)
        if transaction is None:
            raise errors.InvalidProducerIdMapping()
        return transaction

    def _named(self, transactional_id: str) -> Transaction:
        """The state of the transactional id in a request. Raises InvalidRequest for an empty id, and as `find`."""
        if not transactional_id:
            raise errors.InvalidRequest()
        return self.find(transactional_id)

    # -- InitProducerId --------------------------------------------------------------------------------------------
    def init_producer_id(self, transactional_id: str, request: InitRequest, respond: IdentityCallback) -> None:
        """InitProducerId: give a transactional producer a producer id and the next epoch. Calls `respond` with an error
        code and the identity to use, -1 and -1 after an error. An open transaction is aborted instead, with the code of
        ConcurrentTransactions, after which the client tries again. Creates an unknown transactional id."""
        try:
            if not transactional_id:
                raise errors.InvalidRequest()
            timeout_ms = self._resolved_timeout_ms(request)
            self.log.coordinator_epoch(transactional_id)
            transaction = self.transactions.get(transactional_id)
            if transaction is None:
                producer_id = self.new_producer_id()
                transaction = Transaction.new(transactional_id, producer_id, timeout_ms, self.clock.wall_ms())
                self.transactions[transactional_id] = transaction
            value = self._prepare_init(transaction, timeout_ms, request.expected)
        except errors.KafkaError as error:
            respond(error.code, NOBODY)
            return
        if value.state is TransactionState.PREPARE_EPOCH_FENCE:
            self._fence(transaction, value, lambda code, _: respond(code or errors.ConcurrentTransactions.code, NOBODY))
            return
        identity = ProducerIdentity(value.producer_id, value.producer_epoch)
        self._write(transaction, value, lambda code: respond(code, NOBODY if code else identity))

    def _resolved_timeout_ms(self, request: InitRequest) -> int:
        """The time-out of a producer's transactions. Raises TransactionalIdAuthorizationFailed if two-phase commit is
        not enabled, UnsupportedVersion for a prepared transaction to keep, and InvalidTransactionTimeout."""
        if request.is_two_phase and not self.config.transaction_two_phase_commit_enable:
            raise errors.TransactionalIdAuthorizationFailed()
        if request.keeps_prepared:
            raise errors.UnsupportedVersion()
        if request.is_two_phase:
            return NO_TIMEOUT_MS
        if not 0 < request.timeout_ms <= self.config.transaction_max_timeout_ms:
            raise errors.InvalidTransactionTimeout()
        return request.timeout_ms

    def _prepare_init(
        self, transaction: Transaction, timeout_ms: int, expected: ProducerIdentity | None
    ) -> TransactionValue:
        """Prepare the next epoch, a new producer id, or a fence for an open transaction, as Kafka's
        prepareInitProducerIdTransit. Raises ConcurrentTransactions or ProducerFenced."""
        value = transaction.value
        if transaction.pending is not None:
            raise errors.ConcurrentTransactions()
        if expected is not None and not _may_go_on(value, expected):
            raise errors.ProducerFenced()
        if value.state.is_prepared:
            raise errors.ConcurrentTransactions()
        if value.state is TransactionState.ONGOING:
            return transaction.prepare_fence()
        if transaction.is_epoch_exhausted and (expected is None or expected.producer_epoch == value.producer_epoch):
            return transaction.prepare_rotation(
                self.new_producer_id(), timeout_ms, self.clock.wall_ms(), keeps_last_epoch=expected is not None
            )
        expected_epoch = None if expected is None else expected.producer_epoch
        return transaction.prepare_next_epoch(timeout_ms, expected_epoch, self.clock.wall_ms())

    def _fence(self, transaction: Transaction, fenced: TransactionValue, respond: IdentityCallback) -> None:
        """Abort an open transaction with an epoch that fences its producer. If the abort is refused, the transaction
        stays open."""
        version = self.transaction_version()
        request = EndRequest(fenced.producer_id, fenced.producer_epoch, False, version, is_from_client=False)
        self.end_transaction(transaction.transactional_id, request, respond)
        if transaction.pending is TransactionState.PREPARE_EPOCH_FENCE:
            # The abort was refused, such as without a new producer id. The next request fences again.
            transaction.pending = None

    # -- partitions ------------------------------------------------------------------------------------------------
    def add_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdentity,
        partitions: Iterable[TopicPartition],
        client_version: int,
        respond: CodeCallback,
    ) -> None:
        """AddPartitionsToTxn: add partitions; the first start the transaction. Calls `respond` with an error code.
        Writes nothing if all partitions are in the open transaction already."""
        added = frozenset(partitions)
        try:
            transaction = self._named(transactional_id)
            if transaction.pending is not None:
                raise errors.ConcurrentTransactions()
            value = transaction.value
            _ensure_accepts(value, producer)
        except errors.KafkaError as error:
            respond(error.code)
            return
        if value.state is TransactionState.ONGOING and added <= value.partitions:
            respond(NONE)
            return
        self._write(transaction, transaction.prepare_partitions(added, self.clock.wall_ms(), client_version), respond)

    def add_partitions_when_settled(
        self,
        transactional_id: str,
        producer: ProducerIdentity,
        partitions: Iterable[TopicPartition],
        client_version: int,
        respond: CodeCallback,
    ) -> None:
        """Add partitions as `add_partitions`, after the markers of the last transaction are written. Waits at most
        add.partitions.to.txn.retry.backoff.max.ms, then tries anyway. Clients of transaction version 2 do not wait for
        markers themselves."""
        transaction = self.transactions.get(transactional_id)
        if transaction is None or not transaction.state.is_prepared:
            self.add_partitions(transactional_id, producer, partitions, client_version, respond)
            return
        waiting = [(transactional_id, producer, frozenset(partitions), client_version, respond)]

        def go_on(_now_ms: int = 0) -> None:
            if waiting:
                self.add_partitions(*waiting.pop())

        transaction.when_settled.append(go_on)
        self.timer.schedule(self.config.add_partitions_to_txn_retry_backoff_max_ms, go_on, self.clock.now_ms())

    def verify_partitions(
        self, transactional_id: str, producer: ProducerIdentity, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, int]:
        """The error code of each partition: 0 if it belongs to the transaction, else TransactionAbortable (KIP-890). If
        the whole request fails, every partition has its code, such as ProducerFenced or ConcurrentTransactions."""
        requested = list(partitions)
        try:
            value = self._named(transactional_id).value
            _ensure_accepts(value, producer)
        except errors.KafkaError as error:
            return dict.fromkeys(requested, error.code)
        return {place: NONE if place in value.partitions else errors.TransactionAbortable.code for place in requested}

    # -- the end ---------------------------------------------------------------------------------------------------
    def end_transaction(self, transactional_id: str, request: EndRequest, respond: IdentityCallback) -> None:
        """EndTxn: commit or abort. Calls `respond` with an error code and the identity for the next transaction, -1 and
        -1 after an error. Answers when PrepareCommit or PrepareAbort is durable, before the markers are written. A
        repeated end of a transaction that already ended so gets 0 and writes nothing."""
        is_fence = False
        try:
            transaction = self._named(transactional_id)
            is_fence = transaction.pending is TransactionState.PREPARE_EPOCH_FENCE
            prepared = prepare_end(transaction, request, self.new_producer_id, self.clock.wall_ms())
        except errors.KafkaError as error:
            respond(error.code, NOBODY)
            return
        if prepared is None:
            respond(NONE, ProducerIdentity(transaction.value.producer_id, transaction.value.producer_epoch))
            return

        def write_markers(code: int) -> None:
            if code:
                transaction.has_failed_epoch_fence = is_fence and not prepared.bumps_epoch
                respond(code, NOBODY)
                return
            completed = transaction.prepare_complete(self.clock.wall_ms())
            transaction.unmarked = set(prepared.partitions)
            self._write_markers(transaction, completed)
            respond(NONE, ProducerIdentity(completed.producer_id, completed.producer_epoch))

        self._write(transaction, prepared, write_markers)

    def _write_markers(self, transaction: Transaction, completed: TransactionValue) -> None:
        """Write markers to all partitions without one, then the completed state. Retries failures after
        MARKER_RETRY_MS. Stops, with a reported failure, if a marker is fenced: another broker has become the
        coordinator."""
        value = transaction.value
        try:
            marker = Marker(
                value.producer_id,
                value.producer_epoch,
                self.log.coordinator_epoch(transaction.transactional_id),
                value.state is TransactionState.PREPARE_COMMIT,
                value.client_version,
            )
        except errors.KafkaError as error:
            self.markers.note_failure(error)
            self._retry_markers(transaction, completed)
            return
        pending_partitions = set(transaction.unmarked)
        fencing: list[int] = []

        def note(place: TopicPartition, code: int) -> None:
            pending_partitions.discard(place)
            if not code:
                transaction.unmarked.discard(place)
            elif code in FENCING:
                fencing.append(code)
            if pending_partitions:
                return
            if fencing:
                self.markers.note_failure(errors.error_for_code(fencing[0])())
            else:
                self._note_markers(transaction, completed)

        if pending_partitions:
            self.markers.send(frozenset(pending_partitions), marker, note)
        else:
            self._note_markers(transaction, completed)

    def _note_markers(self, transaction: Transaction, completed: TransactionValue) -> None:
        if self.transactions.get(transaction.transactional_id) is not transaction:
            return
        if transaction.unmarked:
            self._retry_markers(transaction, completed)
            return
        try:
            self._append(transaction, completed)
        except errors.KafkaError as error:
            self.markers.note_failure(error)
            self._retry_markers(transaction, completed)
            return
        transaction.complete(completed)
        waiting, transaction.when_settled = transaction.when_settled, []
        for go_on in waiting:
            go_on()

    def _retry_markers(self, transaction: Transaction, completed: TransactionValue) -> None:
        def write_again(_now_ms: int) -> None:
            if self.transactions.get(transaction.transactional_id) is transaction:
                self._write_markers(transaction, completed)

        self.timer.schedule(MARKER_RETRY_MS, write_again, self.clock.now_ms())

    # -- writing ---------------------------------------------------------------------------------------------------
    def _append(self, transaction: Transaction, value: TransactionValue) -> ProduceStatus | None:
        transactional_id = transaction.transactional_id
        version = value_version(self.transaction_version())
        record = (key_bytes(transactional_id), value_bytes(value, version))
        return self.log.append(transactional_id, [record])

    def _write(self, transaction: Transaction, value: TransactionValue, respond: CodeCallback) -> None:
        """Append a prepared value, apply it when it is durable, then answer 0. After a failure the change is dropped
        and `respond` gets an error code, NotCoordinator if this broker no longer coordinates the id."""
        try:
            status = self._append(transaction, value)
        except errors.KafkaError as error:
            transaction.pending = None
            respond(coordinator_error_code(error))
            return

        def durable(code: int) -> None:
            if self.transactions.get(transaction.transactional_id) is not transaction:
                respond(errors.NotCoordinator.code)
            elif code:
                transaction.pending = None
                respond(coordinator_error_code(errors.error_for_code(code)()))
            else:
                transaction.complete(value)
                respond(NONE)

        self.waiting.when_durable([status], durable)

    # -- periodic work ---------------------------------------------------------------------------------------------
    def abort_timed_out(self) -> None:
        """Begin to abort transactions that have been open longer than their producer's transaction.timeout.ms. Skips
        those with a pending change; a refused abort is tried again by the next call."""
        now_ms = self.clock.wall_ms()
        for transaction in list(self.transactions.values()):
            if transaction.is_timed_out(now_ms):
                self._fence(transaction, transaction.prepare_fence(), lambda code, _: None)

    def expire_ids(self) -> None:
        """Delete transactional ids without an open transaction or change for transactional.id.expiration.ms, with
        tombstones. Reports failed writes and keeps those ids."""
        before_ms = self.clock.wall_ms() - self.config.transactional_id_expiration_ms
        for transaction in list(self.transactions.values()):
            value = transaction.value
            if transaction.pending is not None or not value.state.is_at_rest or value.last_update_ms > before_ms:
                continue
            transaction.prepare_dead()
            try:
                self.log.append(transaction.transactional_id, [(key_bytes(transaction.transactional_id), None)])
            except errors.KafkaError as error:
                transaction.pending = None
                self.markers.note_failure(error)
                continue
            del self.transactions[transaction.transactional_id]

    def unload(self) -> None:
        """Forget all transactional ids because `__transaction_state` was deleted."""
        self.transactions.clear()

    # -- loading and unloading -------------------------------------------------------------------------------------
    def load(self, transactions: Iterable[Transaction]) -> None:
        """Take over transactions read from the log, and complete those in PrepareCommit or PrepareAbort."""
        loaded = list(transactions)
        self.take_over(loaded)
        self.complete_decided(loaded)

    def take_over(self, transactions: Iterable[Transaction]) -> None:
        """Start to coordinate these transactional ids."""
        for transaction in transactions:
            self.transactions[transaction.transactional_id] = transaction

    def release(self, is_released: Callable[[str], bool]) -> None:
        """Forget the transactional ids for which `is_released` is true. Another broker coordinates them. Their pending
        changes are answered with NOT_COORDINATOR, and markers in flight are not followed by a completed state."""
        for transactional_id in filter(is_released, list(self.transactions)):
            del self.transactions[transactional_id]

    def complete_decided(self, transactions: Iterable[Transaction]) -> None:
        """Write the markers of transactions that an earlier coordinator left in PrepareCommit or PrepareAbort. Skips
        those that this broker no longer coordinates."""
        for transaction in transactions:
            is_here = self.transactions.get(transaction.transactional_id) is transaction
            if is_here and transaction.state.is_prepared and transaction.pending is None:
                completed = transaction.prepare_complete(self.clock.wall_ms())
                transaction.unmarked = set(transaction.value.partitions)
                self._write_markers(transaction, completed)


def _ensure_accepts(value: TransactionValue, producer: ProducerIdentity) -> None:
    """Raise InvalidProducerIdMapping or ProducerFenced for another producer, and ConcurrentTransactions while the last
    transaction is being completed."""
    if value.producer_id != producer.producer_id:
        raise errors.InvalidProducerIdMapping()
    if value.producer_epoch != producer.producer_epoch:
        raise errors.ProducerFenced()
    if value.state.is_prepared:
        raise errors.ConcurrentTransactions()


def _may_go_on(value: TransactionValue, expected: ProducerIdentity) -> bool:
    """Return whether a recovering producer may continue: its producer id is the present one, or the previous one at an
    exhausted epoch. Also true if the transactional id has no epoch yet."""
    if value.producer_epoch == NO_PRODUCER_EPOCH or expected.producer_id == value.producer_id:
        return True
    return expected.producer_id == value.previous_producer_id and is_epoch_exhausted(expected.producer_epoch)
