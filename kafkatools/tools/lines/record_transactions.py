"""Divide a stream of produced records into transactions of a fixed size, or keep all of them in one.

Rules: a transaction begins with its first record, so empty input begins none. After a failed record nothing more is
committed. A commit in progress may have succeeded, so only a refused one is followed by an abort. Records are numbered
from 1: `committed_records` are committed, the following `open_records` belong to the current transaction. Counts are
kept in the tally.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from kafkatools.core.errors import KafkaError, Timeout
from kafkatools.core.producer.producer import Producer
from kafkatools.core.records.columns import RowColumns
from kafkatools.tools.lines.tally import Tally

_log = logging.getLogger(__name__)


class RecordTransactions:
    """The transactions of one run, of `size` records each; 0 means one for all records. Methods raise KafkaError."""

    def __init__(self, producer: Producer, size: int, tally: Tally) -> None:
        self._producer = producer
        self._size = size
        self._tally = tally
        self.committed_records = 0
        self.committed_transactions = 0
        self.open_records = 0
        self.is_open = False
        self.is_committing = False

    def start(self) -> None:
        """Initialize the transactional producer (InitProducerId)."""
        self._producer.init_transactions()

    # -- records --

    def send_rows(self, rows: RowColumns, send: Callable[[RowColumns], object]) -> None:
        """Send rows, committing whenever a transaction is full."""
        start = 0
        while start < rows.count:
            room = self._size - self.open_records if self._size else rows.count
            part = rows_slice(rows, start, start + room)
            with self.sending(part.count):
                send(part)
            self.commit_if_full()
            start += part.count

    @contextmanager
    def sending(self, count: int = 1) -> Iterator[None]:
        """Context for sending `count` records of the current transaction, which begins if none is open. After a
        KafkaError, counts these and the open records as aborted and raises it."""
        if not self.is_open:
            self._producer.begin_transaction()
            self.is_open = True
        self.open_records += count
        try:
            yield
        except KafkaError:
            self._tally.abort(count)
            raise

    # -- ends --

    def commit_if_full(self) -> None:
        """Commit when the current transaction has `size` records. Does nothing if all records are in one
        transaction."""
        if self._size and self.open_records >= self._size:
            self.commit()

    def commit(self, timeout_ms: int | None = None) -> None:
        """Commit the open transaction, if any. Raises the first failure of any record of the run, Timeout, or another
        KafkaError. After a Timeout the commit counts as still in progress."""
        if self._tally.first_failure is not None:
            raise self._tally.first_failure
        if not self.is_open:
            return
        self.is_committing = True
        try:
            self._producer.commit_transaction(timeout_ms)
        except Timeout:
            raise
        except KafkaError:
            self.is_committing = False
            raise
        self._tally.committed()
        self.committed_records += self.open_records
        self.committed_transactions += 1
        self.open_records = 0
        self.is_open = self.is_committing = False

    def break_off(self, timeout_ms: int) -> None:
        """Abort the open transaction, if any. A commit in progress is completed first, and aborted only if it is
        refused. Raises KafkaError. After a Timeout of the commit its records count as failed."""
        if self.is_committing:
            try:
                self.commit(timeout_ms)
            except Timeout:
                self._tally.lose()
                raise
            except KafkaError as error:
                _log.debug("The commit under way was refused: %s", error)
        if self.is_open:
            self._producer.abort_transaction(timeout_ms)
            self.is_open = False

    def outcome(self) -> tuple[str, str] | None:
        """Return a kind (UNKNOWN or ABORTED) and a message about uncommitted records; None when all are committed."""
        first, count = self.committed_records + 1, self.open_records
        if not count:
            return None
        which = f"record {first} is" if count == 1 else f"records {first} to {first + count - 1} are"
        before = f"; the {first - 1} before are committed" if first > 1 else ""
        if self.is_committing:
            return "UNKNOWN", f"Whether {which} committed is not known: the commit was not answered{before}"
        return "ABORTED", f"Transaction aborted: {which} not committed{before}"


def rows_slice(rows: RowColumns, start: int, stop: int) -> RowColumns:
    """Return rows `start` to `stop` over the same buffer."""
    if start == 0 and stop >= rows.count:
        return rows
    part = slice(start, stop)
    return RowColumns(
        rows.buffer,
        rows.value_positions[part],
        rows.value_lengths[part],
        None if rows.key_positions is None else rows.key_positions[part],
        None if rows.key_lengths is None else rows.key_lengths[part],
        None if rows.timestamps is None else rows.timestamps[part],
    )
