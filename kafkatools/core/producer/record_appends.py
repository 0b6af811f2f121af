"""Appends to a producer batch: of one record, or of as many rows as fit."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

from kafkatools.core.producer.futures import RecordFuture
from kafkatools.core.producer.producer_batch import (
    Callback,
    Payload,
    ProducerBatch,
    RowsSink,
    batch_size_upper_bound,
    rows_size_upper_bound,
)
from kafkatools.core.records.columns import RowColumns


class AppendResult(NamedTuple):
    """The result of an append: the record's future (None for rows), the number of records or rows, and the partition.
    The sender must be woken if `batch_is_full` or `new_batch`."""

    future: RecordFuture | None
    rows: int
    batch_is_full: bool
    new_batch: bool
    partition: int


class RecordAppend:
    """One record to append to a batch of its partition, with its callback. `future` is set by a successful append, else
    None."""

    __slots__ = ("payload", "callback", "future")
    row_count: ClassVar[int] = 1
    sent_ms: ClassVar[None] = None

    def __init__(self, payload: Payload, callback: Callback | None) -> None:
        self.payload = payload
        self.callback = callback
        self.future: RecordFuture | None = None

    def size_upper_bound(self) -> int:
        return batch_size_upper_bound(self.payload)

    def try_append(self, batch: ProducerBatch, now_ms: int) -> bool:
        self.future = batch.try_append(self.payload, self.callback, now_ms)
        return self.future is not None


class RowsAppend:
    """A span of rows to append to a batch, as many as fit; `row_count` is the number of rows that were appended.
    `sent_ms`: the time from which a new batch counts delivery.timeout.ms and linger.ms, None for that of the append."""

    __slots__ = ("columns", "span", "sink", "wall_ms", "sent_ms", "row_count")
    future: ClassVar[None] = None

    def __init__(
        self, columns: RowColumns, span: tuple[int, int], sink: RowsSink, wall_ms: int, sent_ms: int | None
    ) -> None:
        self.columns = columns
        self.span = span
        self.sink = sink
        self.wall_ms = wall_ms
        self.sent_ms = sent_ms
        self.row_count = 0

    def size_upper_bound(self) -> int:
        return rows_size_upper_bound(self.columns, self.span[0])

    def try_append(self, batch: ProducerBatch, now_ms: int) -> bool:
        self.row_count = batch.try_append_rows(self.columns, self.span, self.sink, now_ms, self.wall_ms)
        return self.row_count > 0


Append = RecordAppend | RowsAppend
