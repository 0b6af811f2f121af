"""Transaction state during log compaction: which batches are aborted, which markers can go
(CleanedTransactionMetadata).

A transaction marker is kept as long as any batch of its transaction is in the log. The transaction index entry of an
aborted transaction is kept with its marker.
"""

import heapq
from collections.abc import Iterable

from kafkatools.core.errors import CorruptRecord
from kafkatools.core.log.format.transaction_index import AbortedTransaction, TransactionIndex
from kafkatools.core.log.producers.updates import read_end_marker
from kafkatools.core.records.header import BatchHeader


class CleanedTransactions:
    """The aborted and committed transactions that are open at the offset which the cleaner has reached."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        """`aborted`: the transaction index entries of the segments that are cleaned."""
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
        """Record a data batch. Return whether its transaction was aborted, so that its records can be dropped."""
        self._advance_to(header.last_offset)
        if not header.is_transactional:
            return False
        if header.producer_id in self._ongoing_aborted:
            self._has_batches.add(header.producer_id)
            return True
        self._ongoing_committed.add(header.producer_id)
        return False

    def on_control_batch(self, header: BatchHeader, batch: memoryview) -> bool:
        """Record a control batch. Return whether it may be dropped: a marker whose transaction has no batches left, or
        a batch without a record. Other control records give False. The index entry of an abort marker that stays is
        appended to `cleaned_index`."""
        self._advance_to(header.last_offset)
        try:
            marker = read_end_marker(batch)
        except CorruptRecord:  # not a transaction marker
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
