"""The coordinator's state of one transactional id (Kafka's TransactionMetadata and TxnTransitMetadata).

Rules:
- A change takes two steps. `prepare_*` returns the next value and marks it pending, `complete` applies it after it is
  written. A second change cannot start while one is pending.
- This module reads no clock and no disk. Times are parameters, in ms since 1970.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from kafkatools.core.broker.coordinators.transactions.states import TransactionState
from kafkatools.core.errors import IllegalState, ProducerFenced

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
MAX_EPOCH = 0x7FFF
LAST_USABLE_EPOCH = MAX_EPOCH - 1
NO_TIMESTAMP = -1
NO_TIMEOUT_MS = 0x7FFFFFFF
EPOCH_BUMP_VERSION = 2

TopicPartition = tuple[str, int]
NOTHING: frozenset[TopicPartition] = frozenset()


def is_epoch_exhausted(epoch: int) -> bool:
    """Return whether a producer cannot get a higher epoch: 32766 is the last for producers, 32767 is reserved for
    fencing."""
    return epoch >= LAST_USABLE_EPOCH


@dataclass(frozen=True, slots=True)
class TransactionValue:
    """The persisted state of a transactional id, the fields of a TransactionLogValue. Times are in ms since 1970."""

    producer_id: int
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    producer_epoch: int = NO_PRODUCER_EPOCH
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    timeout_ms: int = 0
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = NOTHING
    start_ms: int = NO_TIMESTAMP
    last_update_ms: int = 0
    client_version: int = 0

    @property
    def bumps_epoch(self) -> bool:
        """Return whether each of the client's transactions has an epoch of its own (KIP-890)."""
        return self.client_version >= EPOCH_BUMP_VERSION


@dataclass(slots=True)
class Transaction:
    """A transactional id with its persisted value and a pending transition. `unmarked` are partitions without their
    marker yet; the functions in `when_settled` are called once, after the completed state is written.
    `has_failed_epoch_fence`: an abort with a fencing epoch was not written, so the next fence does not raise the epoch
    again."""

    transactional_id: str
    value: TransactionValue
    pending: TransactionState | None = None
    has_failed_epoch_fence: bool = False
    unmarked: set[TopicPartition] = field(default_factory=set)
    when_settled: list[Callable[[], None]] = field(default_factory=list)

    @classmethod
    def new(cls, transactional_id: str, producer_id: int, timeout_ms: int, now_ms: int) -> Transaction:
        """A new transactional id in state Empty with this producer id, without an epoch."""
        return cls(transactional_id, TransactionValue(producer_id, timeout_ms=timeout_ms, last_update_ms=now_ms))

    @property
    def state(self) -> TransactionState:
        """The present state, without a pending transition."""
        return self.value.state

    @property
    def is_epoch_exhausted(self) -> bool:
        """Return whether the producer needs a new producer id because its epochs have run out."""
        return is_epoch_exhausted(self.value.producer_epoch)

    @property
    def has_timeout(self) -> bool:
        """Return whether the transaction can time out: the highest timeout marks transactions of an external
        coordinator (KIP-939)."""
        return self.value.timeout_ms != NO_TIMEOUT_MS

    def is_timed_out(self, now_ms: int) -> bool:
        """Return whether the transaction is ongoing and older than its timeout. False while a change is pending."""
        value = self.value
        if self.pending is not None or value.state is not TransactionState.ONGOING or not self.has_timeout:
            return False
        return value.start_ms + value.timeout_ms < now_ms

    # -- preparing -------------------------------------------------------------------------------------------------
    def _prepare(self, state: TransactionState, **changes: Any) -> TransactionValue:
        """The next value in this state, marked pending. Keeps the present producer id as the previous one. Raises
        IllegalState if a change is pending, the transition is invalid, or the new producer id or epoch is negative."""
        value = replace(self.value, state=state, previous_producer_id=self.value.producer_id, **changes)
        if self.pending is not None:
            raise IllegalState(
                f"Preparing transaction state transition to {state.label} while {self.transactional_id} already has a "
                f"pending state {self.pending.label}"
            )
        if value.producer_id < 0 or (state is not TransactionState.DEAD and value.producer_epoch < 0):
            raise IllegalState(f"Illegal new producer id {value.producer_id} or epoch {value.producer_epoch}")
        if not state.may_follow(self.state):
            raise IllegalState(
                f"Transactional id {self.transactional_id} cannot change from {self.state.label} to {state.label}"
            )
        self.pending = state
        return value

    def prepare_fence(self) -> TransactionValue:
        """Prepare PrepareEpochFence: the next epoch fences an open transaction's producer, and no client gets that
        epoch. The epoch stays if it is the highest or an earlier fence failed. Raises IllegalState."""
        epoch = self.value.producer_epoch
        if not self.has_failed_epoch_fence and epoch != MAX_EPOCH:
            epoch += 1
        return self._prepare(TransactionState.PREPARE_EPOCH_FENCE, producer_epoch=epoch)

    def prepare_next_epoch(self, timeout_ms: int, expected_epoch: int | None, now_ms: int) -> TransactionValue:
        """Prepare Empty with the next epoch, for InitProducerId. `expected_epoch` is the epoch of a producer that
        recovers from an error (KIP-360), else None. If it is the last epoch, this is a retry and the present epoch
        stays. Raises ProducerFenced if it is neither the present nor the last epoch, IllegalState if no epoch is
        left."""
        if self.is_epoch_exhausted:
            raise IllegalState(f"No more producer epochs for producer id {self.value.producer_id}")
        epoch = self.value.producer_epoch
        if expected_epoch is None:
            epochs = (epoch + 1, NO_PRODUCER_EPOCH)
        elif expected_epoch == epoch or epoch == NO_PRODUCER_EPOCH:
            epochs = (epoch + 1, epoch)
        elif expected_epoch == self.value.last_producer_epoch:  # a retry: the response was lost
            epochs = (epoch, self.value.last_producer_epoch)
        else:
            raise ProducerFenced()
        return self._prepare_empty(self.value.producer_id, epochs, timeout_ms, now_ms)

    def prepare_rotation(
        self, producer_id: int, timeout_ms: int, now_ms: int, *, keeps_last_epoch: bool
    ) -> TransactionValue:
        """Prepare Empty with a new producer id and epoch 0, for a producer id whose epochs have run out.
        `keeps_last_epoch` stores the old epoch as the last one, for a producer that recovers from an error."""
        last_epoch = self.value.producer_epoch if keeps_last_epoch else NO_PRODUCER_EPOCH
        return self._prepare_empty(producer_id, (0, last_epoch), timeout_ms, now_ms)

    def _prepare_empty(
        self, producer_id: int, epochs: tuple[int, int], timeout_ms: int, now_ms: int
    ) -> TransactionValue:
        return self._prepare(
            TransactionState.EMPTY,
            producer_id=producer_id,
            producer_epoch=epochs[0],
            last_producer_epoch=epochs[1],
            timeout_ms=timeout_ms,
            partitions=NOTHING,
            start_ms=NO_TIMESTAMP,
            last_update_ms=now_ms,
        )

    def prepare_partitions(
        self, added: frozenset[TopicPartition], now_ms: int, client_version: int
    ) -> TransactionValue:
        """Prepare Ongoing with more partitions. The first partitions start the transaction."""
        value = self.value
        return self._prepare(
            TransactionState.ONGOING,
            partitions=value.partitions | added,
            start_ms=now_ms if value.state.is_at_rest else value.start_ms,
            last_update_ms=now_ms,
            client_version=client_version,
        )

    def prepare_end(
        self, state: TransactionState, client_version: int, next_producer_id: int, now_ms: int, *, is_empty: bool
    ) -> TransactionValue:
        """Prepare PrepareCommit or PrepareAbort. From transaction version 2 on the epoch rises, except for an abort at
        the highest epoch. `is_empty`: no partition was added, so the start time is now."""
        value = self.value
        epoch, last_epoch = value.producer_epoch, value.last_producer_epoch
        if client_version >= EPOCH_BUMP_VERSION:
            last_epoch = epoch
            if epoch != MAX_EPOCH or state is not TransactionState.PREPARE_ABORT:
                epoch += 1
        return self._prepare(
            state,
            producer_epoch=epoch,
            last_producer_epoch=last_epoch,
            start_ms=now_ms if is_empty else value.start_ms,
            next_producer_id=next_producer_id,
            last_update_ms=now_ms,
            client_version=client_version,
        )

    def prepare_complete(self, now_ms: int) -> TransactionValue:
        """Prepare CompleteCommit or CompleteAbort, after the markers. If PrepareCommit or PrepareAbort names a next
        producer id, that id takes over with epoch 0."""
        self.has_failed_epoch_fence = False
        value = self.value
        is_commit = value.state is TransactionState.PREPARE_COMMIT
        is_over = value.bumps_epoch and value.next_producer_id != NO_PRODUCER_ID
        return self._prepare(
            TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT,
            producer_id=value.next_producer_id if is_over else value.producer_id,
            producer_epoch=0 if is_over else value.producer_epoch,
            next_producer_id=NO_PRODUCER_ID,
            partitions=NOTHING,
            last_update_ms=now_ms,
        )

    def prepare_dead(self) -> TransactionValue:
        """Prepare Dead, before the transactional id is deleted."""
        return self._prepare(TransactionState.DEAD, partitions=NOTHING)

    # -- completing ------------------------------------------------------------------------------------------------
    def complete(self, value: TransactionValue) -> None:
        """Apply a prepared value after it is written. Raises IllegalState if this transition is not pending."""
        if self.pending is not value.state:
            raise IllegalState(
                f"Transactional id {self.transactional_id} has no pending transition to {value.state.label} to complete"
            )
        self.value = value
        self.pending = None
