"""Appends to a producer batch: of one record, or of as many rows as fit."""

from __future__ import annotations

from typing import NamedTuple

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
    """The result of an append: the record's future or the number of rows, and whether the sender must be woken."""

    future: RecordFuture | None
    rows: int
    batch_is_full: bool
    new_batch: bool
    partition: int


class RecordAppend:
    """An append of one record."""

    __slots__ = ("payload", "callback", "future")
    taken = 1

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
    """An append of as many rows of a span as fit into one batch; `taken` is their number."""

    __slots__ = ("columns", "span", "sink", "wall_ms", "taken")
    future = None

    def __init__(self, columns: RowColumns, span: tuple[int, int], sink: RowsSink, wall_ms: int) -> None:
        self.columns = columns
        self.span = span
        self.sink = sink
        self.wall_ms = wall_ms
        self.taken = 0

    def size_upper_bound(self) -> int:
        return rows_size_upper_bound(self.columns, self.span[0])

    def try_append(self, batch: ProducerBatch, now_ms: int) -> bool:
        self.taken = batch.try_append_rows(self.columns, self.span, self.sink, now_ms, self.wall_ms)
        return self.taken > 0


Append = RecordAppend | RowsAppend
