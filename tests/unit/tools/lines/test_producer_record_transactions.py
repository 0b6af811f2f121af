"""A stream of records cut into transactions, the counts of what became of them, and the word when no broker answers."""

from __future__ import annotations

import pytest
from support.manual_clock import ManualClock

from kafkatools.core.config import PRODUCER, Config
from kafkatools.core.errors import (
    ConnectionFailed,
    InvalidRecord,
    KafkaError,
    Timeout,
    TransactionAbortable,
    TransactionAborted,
)
from kafkatools.core.producer.broker_watch import BrokerWatch
from kafkatools.core.producer.producer_metadata import ProducerMetadata
from kafkatools.core.records.columns import RowColumns
from kafkatools.tools.lines.record_transactions import RecordTransactions, rows_slice
from kafkatools.tools.lines.tally import MAX_REPORTED_FAILURES, LostLines, Tally


class Recorder:
    """A producer that writes down its calls; `failing` maps a call to the errors it raises in turn."""

    def __init__(self, tally: Tally) -> None:
        self.calls: list[str] = []
        self.failing: dict[str, list[KafkaError]] = {}
        self._tally = tally

    def _call(self, name: str) -> None:
        self.calls.append(name)
        if self.failing.get(name):
            raise self.failing[name].pop(0)

    def init_transactions(self) -> None:
        self._call("init")

    def begin_transaction(self) -> None:
        self._call("begin")

    def commit_transaction(self, timeout_ms: int | None = None) -> None:
        self._call("commit")

    def abort_transaction(self, timeout_ms: int | None = None) -> None:
        self._call("abort")

    def send(self, rows: RowColumns) -> None:
        self._call(f"send {rows.count}")
        self._tally.succeeded(rows.count)


def make(size: int) -> tuple[RecordTransactions, Recorder, Tally]:
    tally = Tally(is_transactional=True)
    producer = Recorder(tally)
    return RecordTransactions(producer, size, tally), producer, tally  # type: ignore[arg-type]


def rows_of(count: int) -> RowColumns:
    return RowColumns.of_values([b"%d" % number for number in range(count)])


def counts(tally: Tally) -> tuple[int, int, int]:
    return tally.sent_count, tally.failed_count, tally.aborted_count


def test_rows_are_cut_where_a_transaction_is_full() -> None:
    transactions, producer, tally = make(4)
    transactions.start()
    transactions.send_rows(rows_of(3), producer.send)
    transactions.send_rows(rows_of(6), producer.send)
    transactions.commit()
    assert producer.calls == [
        *("init", "begin", "send 3", "send 1", "commit"),
        *("begin", "send 4", "commit", "begin", "send 1", "commit"),
    ]
    assert counts(tally) == (9, 0, 0)
    assert (transactions.committed_records, transactions.committed_transactions) == (9, 3)
    assert transactions.outcome() is None


def test_size_0_is_one_transaction_and_no_record_none() -> None:
    transactions, producer, _ = make(0)
    transactions.commit()
    assert producer.calls == []
    transactions.send_rows(rows_of(3), producer.send)
    transactions.send_rows(rows_of(3), producer.send)
    transactions.commit()
    assert producer.calls == ["begin", "send 3", "send 3", "commit"]


def test_rows_that_are_refused_are_aborted_with_the_others() -> None:
    transactions, producer, tally = make(4)
    producer.failing["send 2"] = [TransactionAbortable("no")]
    transactions.send_rows(rows_of(4), producer.send)
    transactions.send_rows(rows_of(1), producer.send)
    with pytest.raises(TransactionAbortable):
        transactions.send_rows(rows_of(2), producer.send)
    transactions.break_off(5)
    tally.abort()
    assert producer.calls[-1] == "abort"
    assert counts(tally) == (4, 0, 3)
    assert transactions.outcome() == (
        "ABORTED",
        "Transaction aborted: records 5 to 7 are not committed; the 4 before are committed",
    )


def test_a_failed_record_keeps_its_transaction_from_being_committed() -> None:
    transactions, producer, tally = make(0)
    transactions.send_rows(rows_of(1), producer.send)
    tally.fail(1, InvalidRecord("bad"), str)
    with pytest.raises(InvalidRecord):
        transactions.commit()
    transactions.break_off(5)
    assert "commit" not in producer.calls
    assert transactions.outcome() == ("ABORTED", "Transaction aborted: record 1 is not committed")


def test_a_commit_under_way_is_brought_to_its_end() -> None:
    transactions, producer, tally = make(0)
    producer.failing["commit"] = [Timeout("slow")]
    transactions.send_rows(rows_of(2), producer.send)
    with pytest.raises(Timeout):
        transactions.commit()
    transactions.break_off(5)
    assert producer.calls[-2:] == ["commit", "commit"]
    assert counts(tally) == (2, 0, 0)
    assert transactions.outcome() is None


def test_a_commit_that_is_never_answered_is_neither_committed_nor_aborted() -> None:
    transactions, producer, tally = make(0)
    producer.failing["commit"] = [Timeout("slow"), Timeout("slow")]
    transactions.send_rows(rows_of(2), producer.send)
    with pytest.raises(Timeout):
        transactions.commit()
    with pytest.raises(Timeout):
        transactions.break_off(5)
    assert "abort" not in producer.calls
    assert counts(tally) == (0, 2, 0)
    assert tally.hidden == 0
    assert transactions.outcome() == (
        "UNKNOWN",
        "Whether records 1 to 2 are committed is not known: the commit was not answered",
    )


def test_a_commit_under_way_that_is_refused_is_aborted() -> None:
    transactions, producer, _ = make(0)
    producer.failing["commit"] = [Timeout("slow"), TransactionAbortable("no")]
    transactions.send_rows(rows_of(2), producer.send)
    with pytest.raises(Timeout):
        transactions.commit()
    transactions.break_off(5)
    assert producer.calls[-1] == "abort"


def test_a_slice_of_rows_shares_the_buffer() -> None:
    rows = RowColumns.of_values([b"a", b"bb", None], keys=[b"k", None, b"kk"])
    part = rows_slice(rows, 1, 3)
    assert part.buffer is rows.buffer
    assert (list(part.value_lengths), list(part.key_lengths or ())) == ([2, -1], [-1, 2])
    assert rows_slice(rows, 0, 3) is rows


def test_only_the_first_failures_are_told_one_by_one() -> None:
    tally = Tally()
    error = InvalidRecord("bad")
    tally.fail(MAX_REPORTED_FAILURES + 5, error, lambda index: f"record {index}")
    assert len(tally.take_messages()) == MAX_REPORTED_FAILURES
    assert (tally.hidden, tally.is_reported(error), tally.take_messages()) == (5, True, [])


def test_records_of_an_aborted_transaction_did_not_fail() -> None:
    tally = Tally(is_transactional=True)
    tally.succeeded(3)
    tally.fail(2, TransactionAborted(), str)
    tally.abort()
    assert counts(tally) == (0, 0, 5)
    assert tally.take_messages() == []


class Nodes:
    """The network client as far as the watch looks at it."""

    def __init__(self) -> None:
        self.is_ready = False
        self.connection_states = self

    def has_ready_nodes(self, now_ms: int) -> bool:
        return self.is_ready

    def connection_error(self, node: int) -> KafkaError | None:
        return ConnectionFailed("Connection to 127.0.0.1:1 failed: Connection refused")


def test_silence_is_told_once_and_so_is_its_end() -> None:
    clock = ManualClock()
    nodes, told = Nodes(), list[str]()
    metadata = ProducerMetadata(Config(PRODUCER, {"bootstrap.servers": "127.0.0.1:1"}), clock)
    watch = BrokerWatch(nodes, metadata, told.append)  # type: ignore[arg-type]
    assert watch.check(0, is_waiting=False) is None
    assert watch.check(100, is_waiting=True) == 3000
    assert watch.check(3099, is_waiting=True) == 1
    assert told == []
    watch.check(3100, is_waiting=True)
    watch.check(9000, is_waiting=True)
    assert told == ["No broker answers, still trying: Connection to 127.0.0.1:1 failed: Connection refused"]
    nodes.is_ready = True
    watch.check(9001, is_waiting=True)
    watch.check(9002, is_waiting=True)
    assert told[1:] == ["A broker answers again"]
    nodes.is_ready = False
    assert watch.check(9003, is_waiting=True) == 3000


def lost(first: int, last: int, count: int | None = None, key: str = "connection") -> LostLines:
    cause = "Connection to 127.0.0.1:1 failed: Connection refused"
    size = last - first + 1 if count is None else count
    return LostLines(key, "t", f"line {first}", ConnectionFailed(cause), cause, False, first, last, size)


def test_lines_lost_by_one_cause_are_one_range() -> None:
    tally = Tally()
    for lines in (lost(11, 20), lost(1, 10), lost(21, 25)):
        tally.fail_lines(lines)
    assert tally.take_messages(is_end=False) == []
    [(kind, message)] = tally.take_messages()
    assert (kind, tally.failed_count, tally.hidden, tally.take_messages()) == ("CONNECTION_FAILED", 25, 0, [])
    assert "lines 1-25 (25 records) were not acknowledged: Connection to 127.0.0.1:1 failed" in message


def test_a_range_with_acknowledged_lines_among_them_says_how_many_were_lost() -> None:
    tally = Tally()
    tally.fail_lines(lost(1, 30, count=7))
    assert "7 records of lines 1-30 were not acknowledged" in tally.take_messages()[0][1]


def test_a_range_is_told_when_records_are_acknowledged_again() -> None:
    tally = Tally()
    shown = 0
    for first in range(1, 100, 3):
        tally.fail_lines(lost(first, first + 1))
        tally.succeeded(1)
        shown += len(tally.take_messages(is_end=False))
    assert shown == MAX_REPORTED_FAILURES
    [(_, message)] = tally.take_messages()
    assert "records of lines 31-98 were not acknowledged" in message
    assert tally.failed_count == 66


def test_lines_of_an_aborted_transaction_did_not_fail() -> None:
    tally = Tally(is_transactional=True)
    lines = lost(1, 3)
    lines.error = TransactionAborted()
    tally.fail_lines(lines)
    assert (tally.failed_count, tally.aborted_count, tally.take_messages()) == (0, 3, [])
