"""The end of a transaction that EndTxn may prepare, without time or disk (TransactionCoordinator.endTransaction).

With transaction version 2 a client's EndTxn raises the epoch or gives a new producer id at epoch 0. A retry is
recognised by the epoch or producer id before. By state, with "invalid" for InvalidTxnState and "fenced" for
ProducerFenced:

  | state          | retried abort | abort | retried commit | commit  |
  |----------------|---------------|-------|----------------|---------|
  | Empty          | fenced        | abort | fenced         | invalid |
  | CompleteAbort  | done          | abort | invalid        | invalid |
  | CompleteCommit | invalid       | abort | done           | invalid |

Before version 2 the epoch stays, so only the state shows a retry: an end that equals the completed state is done.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from kafkatools.core.broker.coordinators.transactions.states import TransactionState
from kafkatools.core.broker.coordinators.transactions.transaction import (
    EPOCH_BUMP_VERSION,
    LAST_USABLE_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    Transaction,
    TransactionValue,
)
from kafkatools.core.errors import ConcurrentTransactions, InvalidProducerIdMapping, InvalidTxnState, ProducerFenced

FENCE = TransactionState.PREPARE_EPOCH_FENCE
NO_EPOCH_BUMP = 0


class EndRequest(NamedTuple):
    """A request to end a transaction. `is_from_client` is False if the coordinator itself aborts the transaction, with
    an epoch that fences the producer."""

    producer_id: int
    producer_epoch: int
    is_commit: bool
    client_version: int
    is_from_client: bool = True

    @property
    def prepared(self) -> TransactionState:
        """The state before the markers: PrepareCommit or PrepareAbort."""
        return TransactionState.PREPARE_COMMIT if self.is_commit else TransactionState.PREPARE_ABORT

    @property
    def completed(self) -> TransactionState:
        """The state after the markers: CompleteCommit or CompleteAbort."""
        return TransactionState.COMPLETE_COMMIT if self.is_commit else TransactionState.COMPLETE_ABORT


def prepare_end(
    transaction: Transaction, request: EndRequest, new_producer_id: Callable[[], int], now_ms: int
) -> TransactionValue | None:
    """Prepare the PrepareCommit or PrepareAbort to write and mark it pending on `transaction`. None if the transaction
    has already ended so: with transaction version 2 only for a retry. Raises InvalidProducerIdMapping, ProducerFenced,
    ConcurrentTransactions, InvalidTxnState, or a KafkaError of `new_producer_id`."""
    if request.client_version < EPOCH_BUMP_VERSION:
        return _prepare_plain(transaction, request, now_ms)
    return _prepare_with_bump(transaction, request, new_producer_id, now_ms)


def _ensure_none_pending(transaction: Transaction) -> None:
    if transaction.pending not in (None, FENCE):
        raise ConcurrentTransactions()


def _prepare_plain(transaction: Transaction, request: EndRequest, now_ms: int) -> TransactionValue | None:
    value = transaction.value
    if value.producer_id != request.producer_id:
        raise InvalidProducerIdMapping()
    is_other = request.is_from_client and request.producer_epoch != value.producer_epoch
    if is_other or request.producer_epoch < value.producer_epoch:
        raise ProducerFenced()
    _ensure_none_pending(transaction)
    if value.state is TransactionState.ONGOING:
        if not request.is_commit and transaction.pending is FENCE:
            transaction.pending = None
            transaction.value = replace(
                value, producer_epoch=request.producer_epoch, last_producer_epoch=NO_PRODUCER_EPOCH
            )
        return transaction.prepare_end(request.prepared, NO_EPOCH_BUMP, NO_PRODUCER_ID, now_ms, is_empty=False)
    if value.state is request.completed:
        return None
    raise ConcurrentTransactions() if value.state is request.prepared else InvalidTxnState()


def _prepare_with_bump(
    transaction: Transaction, request: EndRequest, new_producer_id: Callable[[], int], now_ms: int
) -> TransactionValue | None:
    _ensure_none_pending(transaction)
    value = transaction.value
    is_fence = transaction.pending is FENCE
    is_retry_on_overflow = (
        not is_fence
        and value.previous_producer_id == request.producer_id
        and request.producer_epoch == LAST_USABLE_EPOCH
        and value.producer_epoch == 0
    )
    is_retry_on_bump = not is_fence and value.producer_epoch == request.producer_epoch + 1
    if value.producer_id != request.producer_id and not is_retry_on_overflow:
        raise InvalidProducerIdMapping()
    is_retry = is_retry_on_bump or is_retry_on_overflow
    if not _has_valid_epoch(transaction, request, is_retry_on_bump=is_retry_on_bump, is_retry=is_retry):
        raise ProducerFenced()
    if value.state.is_prepared:
        raise ConcurrentTransactions() if value.state is request.prepared else InvalidTxnState()
    if is_retry:
        if value.state is request.completed:
            return None
        raise InvalidTxnState()
    if value.state is not TransactionState.ONGOING and request.is_commit:
        raise InvalidTxnState()
    next_producer_id = new_producer_id() if transaction.is_epoch_exhausted else NO_PRODUCER_ID
    if is_fence:
        transaction.pending = None
    return transaction.prepare_end(
        request.prepared,
        request.client_version,
        next_producer_id,
        now_ms,
        is_empty=value.state is not TransactionState.ONGOING,
    )


def _has_valid_epoch(transaction: Transaction, request: EndRequest, *, is_retry_on_bump: bool, is_retry: bool) -> bool:
    value = transaction.value
    if transaction.pending is FENCE:
        if request.is_from_client:
            return request.producer_epoch == value.producer_epoch
        return request.producer_epoch >= value.producer_epoch
    if value.state.is_prepared:
        return is_retry_on_bump
    if value.state in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT):
        return is_retry or request.producer_epoch == value.producer_epoch
    return request.producer_epoch == value.producer_epoch
