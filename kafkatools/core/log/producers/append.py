"""The log's state of one producer, and the checks on its next batch (ProducerStateEntry, ProducerAppendInfo).

A `ProducerAppendInfo` checks batches one by one and raises at the first wrong one. The producer's state changes when
the state manager applies it, after the write. Each producer keeps its last five batches. A retry of one of them is a
duplicate, and is answered with the offsets of the first append.
"""

from collections import deque
from dataclasses import dataclass, field
from enum import Enum, unique
from typing import NamedTuple

from kafkatools.core.errors import (
    InvalidProducerEpoch,
    InvalidTxnState,
    OutOfOrderSequenceNumber,
    TransactionCoordinatorFenced,
)
from kafkatools.core.records.header import NO_PRODUCER_EPOCH, NO_SEQUENCE, NO_TIMESTAMP, BatchHeader

BATCHES_TO_RETAIN = 5
NO_OFFSET = -1
MAX_SEQUENCE = 0x7FFFFFFF
NO_TRANSACTION_VERSION = -1


@unique
class AppendOrigin(Enum):
    """The source of an append, which decides what is checked (Kafka's AppendOrigin)."""

    CLIENT = "client"
    COORDINATOR = "coordinator"
    REPLICATION = "replication"


class BatchMetadata(NamedTuple):
    """Sequence, offset and timestamp (ms) of a batch that an idempotent producer has appended."""

    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_sequence(self) -> int:
        """The sequence of the first record. Sequences wrap to 0 after 2^31 - 1."""
        sequence = self.last_sequence - self.offset_delta
        return sequence if sequence >= 0 else sequence + MAX_SEQUENCE + 1

    @property
    def first_offset(self) -> int:
        """The offset of the batch's first record."""
        return self.last_offset - self.offset_delta


class CompletedTransaction(NamedTuple):
    """A transaction that was ended by a commit or abort marker, at offset `last_offset`."""

    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


@dataclass(slots=True, eq=False, repr=False)
class ProducerEntry:
    """The log's state of one producer: its epoch, its last five batches and its open transaction."""

    producer_id: int
    producer_epoch: int = field(default=NO_PRODUCER_EPOCH, init=False)
    coordinator_epoch: int = field(default=-1, init=False)
    last_timestamp: int = field(default=NO_TIMESTAMP, init=False)
    current_txn_first_offset: int = field(default=NO_OFFSET, init=False)
    batches: deque[BatchMetadata] = field(default_factory=lambda: deque(maxlen=BATCHES_TO_RETAIN), init=False)

    @property
    def last_sequence(self) -> int:
        """The last sequence of the newest batch, -1 without a batch."""
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_data_offset(self) -> int:
        """The last offset of the newest data batch, -1 without a batch."""
        return self.batches[-1].last_offset if self.batches else NO_OFFSET

    @property
    def last_offset_delta(self) -> int:
        """The last offset of the newest batch minus its first offset, 0 without a batch."""
        return self.batches[-1].offset_delta if self.batches else 0

    def find_duplicate(self, header: BatchHeader) -> BatchMetadata | None:
        """Return the one of the last five batches with the epoch and sequences of `header`, None when there is none."""
        if header.producer_epoch != self.producer_epoch:
            return None
        first, last = header.base_sequence, header.last_sequence
        for batch in self.batches:
            if batch.last_sequence == last and batch.first_sequence == first:
                return batch
        return None

    def add_batch(self, header: BatchHeader, last_offset: int, timestamp: int) -> None:
        """Add a batch that continues the producer's sequence. `timestamp` in ms."""
        delta = header.last_offset_delta
        self.batches.append(BatchMetadata(header.last_sequence, last_offset, delta, timestamp))
        self.last_timestamp = timestamp

    def continues(self, producer_epoch: int, first_sequence: int) -> bool:
        """Return whether a batch has the producer's current epoch and its next sequence. False without an earlier
        batch, and when sequences wrap to 0: then the full checks decide."""
        return (
            self.producer_epoch == producer_epoch
            and bool(self.batches)
            and self.batches[-1].last_sequence + 1 == first_sequence
        )

    def set_epoch(self, producer_epoch: int) -> None:
        """Set the producer's epoch. If it differs from the current one, the batches are forgotten."""
        if producer_epoch != self.producer_epoch:
            self.batches.clear()
            self.producer_epoch = producer_epoch


class ProducerAppendInfo:
    """The changes that one append makes to a producer's state, checked batch by batch and applied after the write."""

    __slots__ = (
        "_batches",
        "_coordinator_epoch",
        "_current",
        "_epoch",
        "_label",
        "_origin",
        "_timestamp",
        "_txn_first_offset",
        "started_transactions",
    )

    def __init__(self, current: ProducerEntry, origin: AppendOrigin, label: object) -> None:
        """`label` names the partition in error messages."""
        self._current = current
        self._origin = origin
        self._label = label
        self._epoch = current.producer_epoch
        self._coordinator_epoch = current.coordinator_epoch
        self._timestamp = current.last_timestamp
        self._txn_first_offset = current.current_txn_first_offset
        self._batches: list[BatchMetadata] = []
        self.started_transactions: list[int] = []

    @property
    def producer_id(self) -> int:
        """The id of the producer whose changes these are."""
        return self._current.producer_id

    def append_data(self, header: BatchHeader, base_offset: int, max_timestamp: int) -> None:
        """Check and add a data batch that is about to be appended at `base_offset`. Raises InvalidProducerEpoch for an
        older epoch (not on a follower), and OutOfOrderSequenceNumber for a client's batch. Raises InvalidTxnState for a
        non-transactional batch inside a transaction."""
        epoch = header.producer_epoch
        self._check_epoch(epoch, base_offset, NO_TRANSACTION_VERSION)
        if self._origin is AppendOrigin.CLIENT:
            self._check_sequence(epoch, header.base_sequence, base_offset)
        if epoch != self._epoch:
            self._epoch = epoch
            self._batches.clear()
        delta = header.last_offset_delta
        last_offset = base_offset + delta
        self._batches.append(BatchMetadata(header.last_sequence, last_offset, delta, max_timestamp))
        self._timestamp = max_timestamp
        if header.is_transactional:
            if self._txn_first_offset < 0:
                self._txn_first_offset = base_offset
                self.started_transactions.append(base_offset)
        elif self._txn_first_offset >= 0:
            raise InvalidTxnState(
                f"Expected transactional write from producer {self.producer_id} at offset {base_offset} in partition "
                f"{self._label}"
            )

    def append_marker(
        self,
        header: BatchHeader,
        offset: int,
        *,
        is_abort: bool,
        coordinator_epoch: int,
        timestamp: int,
        transaction_version: int = NO_TRANSACTION_VERSION,
    ) -> CompletedTransaction | None:
        """Check and add a transaction marker. Return the ended transaction, None when no transaction was open.

        Raises InvalidProducerEpoch for an older epoch; from transaction version 2 on also for the current epoch, if a
        transaction is open. Raises TransactionCoordinatorFenced for an older coordinator epoch. A follower accepts any
        epoch.
        """
        epoch = header.producer_epoch
        self._check_epoch(epoch, offset, transaction_version)
        self._check_coordinator_epoch(coordinator_epoch, offset)
        first_offset = self._txn_first_offset
        completed = None
        if first_offset >= 0:
            completed = CompletedTransaction(self.producer_id, first_offset, offset, is_abort)
        if epoch != self._epoch:
            self._epoch = epoch
            self._batches.clear()
        self._txn_first_offset = NO_OFFSET
        self._coordinator_epoch = coordinator_epoch
        self._timestamp = timestamp
        return completed

    def _check_epoch(self, epoch: int, offset: int, transaction_version: int) -> None:
        current = self._epoch
        strict = transaction_version >= 2
        if epoch > current or (epoch == current and not strict):
            return
        if strict and epoch == current and self._txn_first_offset < 0:
            return  # a repeated marker of a transaction that has ended
        if self._origin is AppendOrigin.REPLICATION:
            return
        raise InvalidProducerEpoch(
            f"Epoch of producer {self.producer_id} at offset {offset} in {self._label} is {epoch}, which is "
            f"{'<=' if strict else '<'} the last seen epoch {current} (TV{transaction_version})"
        )

    def _check_sequence(self, epoch: int, first_sequence: int, offset: int) -> None:
        current = self._current
        if epoch != self._epoch:
            if first_sequence != 0 and self._epoch != NO_PRODUCER_EPOCH:
                raise OutOfOrderSequenceNumber(
                    f"Invalid sequence number for new epoch of producer {self.producer_id} at offset {offset} in "
                    f"partition {self._label}: {epoch} (request epoch), {first_sequence} (seq. number), {self._epoch} "
                    f"(current producer epoch)"
                )
            return
        if self._batches:
            last = self._batches[-1].last_sequence
        else:
            last = current.last_sequence if epoch == current.producer_epoch else NO_SEQUENCE
        if current.producer_epoch == NO_PRODUCER_EPOCH or first_sequence == last + 1:
            return
        if not (first_sequence == 0 and last == MAX_SEQUENCE):
            raise OutOfOrderSequenceNumber(
                f"Out of order sequence number for producer {self.producer_id} at offset {offset} in partition "
                f"{self._label}: {first_sequence} (incoming seq. number), {last} (current end sequence number)"
            )

    def _check_coordinator_epoch(self, coordinator_epoch: int, offset: int) -> None:
        if self._coordinator_epoch > coordinator_epoch and self._origin is not AppendOrigin.REPLICATION:
            raise TransactionCoordinatorFenced(
                f"Invalid coordinator epoch for producerId {self.producer_id} at offset {offset} in partition "
                f"{self._label}: {coordinator_epoch} (zombie), {self._coordinator_epoch} (current)"
            )

    def apply(self) -> ProducerEntry:
        """Write the changes into the producer's state, and return that state."""
        entry = self._current
        entry.set_epoch(self._epoch)
        entry.batches.extend(self._batches)
        entry.coordinator_epoch = self._coordinator_epoch
        entry.current_txn_first_offset = self._txn_first_offset
        entry.last_timestamp = self._timestamp
        return entry
