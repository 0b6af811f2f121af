"""Transactions as the cleaner meets them on its way through a log: which batches belong to aborted ones, which markers
have nothing left to end (Kafka's CleanedTransactionMetadata).

A marker is kept as long as any batch of its transaction is, and the entry of an aborted transaction with it.
"""

import heapq
from collections.abc import Iterable

from kafkatools.core.errors import CorruptRecord
from kafkatools.core.log.format.transaction_index import AbortedTransaction, TransactionIndex
from kafkatools.core.log.producers.updates import read_end_marker
from kafkatools.core.records.header import BatchHeader


class CleanedTransactions:
    """Aborted and committed transactions that are open at the cleaner's place in the log."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        """`aborted`: the index entries of the stretch of log that is walked."""
        self._aborted = [(entry.first_offset, entry) for entry in aborted]
        heapq.heapify(self._aborted)
        self._ongoing_aborted: dict[int, AbortedTransaction] = {}
        self._has_batches: set[int] = set()
        self._ongoing_committed: set[int] = set()
        self.cleaned_index: TransactionIndex | None = None

    def _advance_to(self, offset: int) -> None:
        while self._aborted and self._aborted[0][0] <= offset:
            entry = heapq.heappop(self._aborted)[1]
            self._ongoing_aborted.setdefault(entry.producer_id, entry)

    def on_batch(self, header: BatchHeader) -> bool:
        """A batch of data: whether it belongs to an aborted transaction."""
        self._advance_to(header.last_offset)
        if not header.is_transactional:
            return False
        if header.producer_id in self._ongoing_aborted:
            self._has_batches.add(header.producer_id)
            return True
        self._ongoing_committed.add(header.producer_id)
        return False

    def on_control_batch(self, header: BatchHeader, batch: memoryview) -> bool:
        """A marker: whether nothing of its transaction is left, so that it may go too. One that is kept and aborted
        a transaction is noted in the index of the cleaned segment."""
        self._advance_to(header.last_offset)
        try:
            marker = read_end_marker(batch)
        except CorruptRecord:  # a control record of another kind
            return False
        if marker is None:
            return True
        producer_id = header.producer_id
        if not marker.is_abort:
            was_open = producer_id in self._ongoing_committed
            self._ongoing_committed.discard(producer_id)
            return not was_open
        entry = self._ongoing_aborted.pop(producer_id, None)
        if entry is None or producer_id not in self._has_batches:
            return True
        self._has_batches.discard(producer_id)
        if self.cleaned_index is not None:
            self.cleaned_index.append(entry)
        return False
