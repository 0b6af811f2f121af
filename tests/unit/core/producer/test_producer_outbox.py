"""The outbox of records that were sent one by one: its appends, when it is empty, and records that it cannot take."""

from __future__ import annotations

from collections.abc import Generator

import pytest
from support.manual_clock import ManualClock

from kafkatools.core.errors import KafkaError, UnknownServerError
from kafkatools.core.net.metadata import ClusterView
from kafkatools.core.producer.buffer_pool import BufferPool
from kafkatools.core.producer.futures import ColumnsFuture, RecordMetadata
from kafkatools.core.producer.producer_batch import RowsSink
from kafkatools.core.producer.unbatched.outbox import Outbox, Outgoing, Sent
from kafkatools.core.producer.unbatched.send_queue import QueuedFuture, QueuedRecords, SendQueue
from kafkatools.core.records.columns import RowColumns

OPENED_MS, APPENDED_MS = 1000, 6000
CLUSTER = ClusterView({})


class Records(Outgoing):
    """Records of one topic with one future. `was_empty`: the state of the outbox in `take_rows`; `was_open`: whether
    `send` could add a record when the sink was made."""

    __slots__ = ("outbox", "future", "was_empty", "was_open")

    def __init__(self, outbox: Outbox[Records]) -> None:
        super().__init__("t", None)
        self.outbox = outbox
        self.future = ColumnsFuture(2)
        self.was_empty: list[bool] = []
        self.was_open: list[bool] = []
        self.add(None, b"a", 5)
        self.add(b"k", b"b", 6)

    def take_rows(self) -> RowColumns:
        self.was_empty.append(not self.outbox)
        return super().take_rows()

    def sink(self) -> RowsSink:
        self.was_open.append(self.topic in self.outbox.collected)
        return RowsSink(self.future, None, range(self.count))


class Appends:
    """An outbox whose appends end at once."""

    def __init__(self) -> None:
        self.cells: list[bytes | None] = []
        self.sent: list[Sent | None] = []
        self.was_empty: list[bool] = []
        self.outbox: Outbox[Records] = Outbox(BufferPool(64, 16, ManualClock()), self._append, 100)
        self.records = Records(self.outbox)
        self.outbox.open(self.records, OPENED_MS, CLUSTER)

    def _append(
        self, topic: str, rows: RowColumns, partition: int | None, sink: RowsSink, sent: Sent | None
    ) -> Generator[int, bytearray, None]:
        self.was_empty.append(not self.outbox)
        self.sent.append(sent)
        self.cells += [rows.value(row) for row in range(rows.count)]
        yield from ()


def test_the_outbox_is_not_empty_before_its_records_are_in_batches() -> None:
    """Otherwise a flush that asks without the lock would return, and another record would overtake these."""
    appends = Appends()
    appends.outbox.append_topic("t", APPENDED_MS)
    assert (appends.records.was_empty, appends.was_empty) == ([False], [False])
    assert appends.cells == [b"a", b"b"]
    assert not appends.outbox
    appends.outbox.append_topic("t", APPENDED_MS)
    assert appends.cells == [b"a", b"b"]


def test_an_append_has_time_and_metadata_of_when_the_collection_was_opened() -> None:
    appends = Appends()
    appends.outbox.append_all(APPENDED_MS)
    assert appends.sent == [Sent(OPENED_MS, CLUSTER)]


def test_records_that_cannot_be_taken_fail() -> None:
    appends = Appends()
    appends.records.value_lengths.append(3)
    appends.outbox.append_all(APPENDED_MS)
    (run,) = appends.records.future.get(0)
    assert (run.topic, run.partition, list(run.rows)) == ("t", -1, [0, 1])
    assert isinstance(run.error, ValueError)
    assert (appends.cells, bool(appends.outbox)) == ([], False)


def test_no_record_is_added_to_a_collection_that_fails() -> None:
    """Compiled, `send` adds records without the lock, and a record after the count of the rows would never complete."""
    appends = Appends()
    error: KafkaError = UnknownServerError()
    appends.outbox.fail(error)
    assert appends.records.was_open == [False]
    assert appends.records.future.get(0)[0].error is error
    assert not appends.outbox


def test_ctrl_c_in_a_callback_keeps_no_other_record_from_its_result() -> None:
    def interrupt(metadata: RecordMetadata, error: Exception | None) -> None:
        raise KeyboardInterrupt

    clock = ManualClock()
    outbox: Outbox[QueuedRecords] = Outbox(BufferPool(64, 16, clock), Appends()._append, 100)
    queue = SendQueue(outbox, clock, 1000)
    futures = []
    for topic in ("a", "b"):
        records = QueuedRecords(topic, None, 1000, queue._complete)
        outbox.open(records, OPENED_MS, CLUSTER)
        futures += [QueuedFuture(records, records.add(None, b"x", 5)) for _ in range(2)]
        records.callbacks[0] = interrupt
    with pytest.raises(KeyboardInterrupt):
        queue.fail(UnknownServerError())
    assert [future.done() for future in futures] == [True] * 4
