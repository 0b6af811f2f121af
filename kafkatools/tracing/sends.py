"""Wrappers of the calls that send: a span for each call, its context in the records' headers.

Rules: the wrapper of a method calls the original, so that serializers, partitioner and fast paths stay; interceptors,
which would turn the fast paths off, are not used. The acknowledgement ends the span, in the thread that reports it. A
record that the caller passes is never changed. The error of a future is not retrieved, so that asyncio logs one that
the application does not retrieve.
"""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Awaitable, Callable, Sequence
from typing import cast

from opentelemetry.instrumentation.utils import is_instrumentation_enabled
from opentelemetry.trace import Span

from kafkatools.aio.deliveries import Delivery as RecordDelivery
from kafkatools.aio.deliveries import RowsFuture
from kafkatools.aio.producer import Producer as AioProducer
from kafkatools.core.producer.futures import ColumnsFuture, RecordFuture, RecordMetadata, RowsRun
from kafkatools.core.producer.producer import Producer
from kafkatools.core.producer.producer_batch import Callback, RowsCallback
from kafkatools.core.producer.producer_record import AnyHeaders, Headers, ProducerRecord
from kafkatools.core.records.columns import RowColumns, decode_headers, encode_headers
from kafkatools.tracing.carriers import context_headers, with_context
from kafkatools.tracing.spans import (
    BATCH_MESSAGE_COUNT,
    PARTITION,
    Attributes,
    Client,
    Spans,
    delivered,
    fail,
    record_attributes,
)

Delivery = asyncio.Future[RecordMetadata]


def send(spans: Spans, original: Callable[..., RecordFuture]) -> Callable[..., RecordFuture]:
    """Wrap `Producer.send`."""

    @functools.wraps(original)
    def traced(
        self: Producer,
        record: ProducerRecord | str,
        value: object = None,
        key: object = None,
        *,
        partition: int | None = None,
        timestamp: int | None = None,
        headers: AnyHeaders = (),
        callback: Callback | None = None,
    ) -> RecordFuture:
        options = {"partition": partition, "timestamp": timestamp, "headers": headers, "callback": callback}
        if not is_instrumentation_enabled():
            return original(self, record, value, key, **options)
        if isinstance(record, ProducerRecord):
            callback = cast("Callback | None", value) if callback is None else callback
            sent = record
        else:
            sent = ProducerRecord(record, value, key, partition, timestamp, headers)
        span = _start(spans, self, sent)
        context = context_headers(span)
        if not span.is_recording():
            if not context:  # no SDK: the record keeps its fast path
                return original(self, record, value, key, **options)
            return original(self, _with_context(sent, context), callback)

        def on_completion(metadata: RecordMetadata, error: Exception | None) -> None:
            _end(span, metadata, error)
            if callback is not None:
                callback(metadata, error)

        try:
            return original(self, _with_context(sent, context), on_completion)
        except BaseException as error:
            _end(span, None, error)
            raise

    return traced


def send_async(spans: Spans, original: Callable[..., Awaitable[Delivery]]) -> Callable[..., Awaitable[Delivery]]:
    """Wrap `aio.Producer.send`, which `send_and_wait` calls too."""

    @functools.wraps(original)
    async def traced(
        self: AioProducer,
        record: ProducerRecord | str,
        value: object = None,
        key: object = None,
        *,
        partition: int | None = None,
        timestamp: int | None = None,
        headers: AnyHeaders = (),
    ) -> Delivery:
        if isinstance(record, str):
            record = ProducerRecord(record, value, key, partition, timestamp, headers)
        if not is_instrumentation_enabled():
            return await original(self, record)
        span = _start(spans, self, record)
        try:
            future = await original(self, _with_context(record, context_headers(span)))
        except BaseException as error:
            _end(span, None, error)
            raise
        future.add_done_callback(functools.partial(_end_delivery, span))
        return future

    return traced


def send_columns(spans: Spans, original: Callable[..., ColumnsFuture]) -> Callable[..., ColumnsFuture]:
    """Wrap `Producer.send_columns`, which `send_many` calls too."""

    @functools.wraps(original)
    def traced(
        self: Producer,
        topic: str,
        rows: RowColumns,
        partition: int | None = None,
        callback: RowsCallback | None = None,
    ) -> ColumnsFuture:
        if not is_instrumentation_enabled():
            return original(self, topic, rows, partition, callback)
        span = _start_rows(spans, self, topic, partition)
        sent = _rows_with_context(rows, context_headers(span))
        return _send_rows(span, callback, lambda report: original(self, topic, sent, partition, report))

    return traced


def send_arrow(spans: Spans, original: Callable[..., ColumnsFuture]) -> Callable[..., ColumnsFuture]:
    """Wrap `Producer.send_arrow`. Rows with a column of headers keep these headers, without a context."""

    @functools.wraps(original)
    def traced(
        self: Producer,
        data: object,
        topic: str,
        *,
        headers: str | Headers | None = "headers",
        partition: str | int | None = None,
        callback: RowsCallback | None = None,
        **names: object,
    ) -> ColumnsFuture:
        if not is_instrumentation_enabled():
            return original(self, data, topic, headers=headers, partition=partition, callback=callback, **names)
        from kafkatools.core.records.arrow_rows import table_of

        table = table_of(data)  # a stream names its columns nowhere else
        span = _start_rows(spans, self, topic, partition)
        if not isinstance(headers, str) or headers == "headers" and "headers" not in table.column_names:
            constant = () if headers is None or isinstance(headers, str) else headers
            headers = with_context(constant, context_headers(span))
        call = functools.partial(original, self, table, topic, headers=headers, partition=partition, **names)
        return _send_rows(span, callback, lambda report: call(callback=report))

    return traced


def send_many_async(
    spans: Spans, original: Callable[..., Awaitable[asyncio.Future[list[RowsRun]]]]
) -> Callable[..., Awaitable[asyncio.Future[list[RowsRun]]]]:
    """Wrap `aio.Producer.send_many`, whose records have no headers and so no context."""

    @functools.wraps(original)
    async def traced(
        self: AioProducer,
        topic: str,
        values: Sequence[object],
        keys: Sequence[object] | None = None,
        *,
        partition: int | None = None,
    ) -> asyncio.Future[list[RowsRun]]:
        if not is_instrumentation_enabled():
            return await original(self, topic, values, keys, partition=partition)
        span = _start_rows(spans, self, topic, partition)
        span.set_attribute(BATCH_MESSAGE_COUNT, len(values))
        try:
            future = await original(self, topic, values, keys, partition=partition)
        except BaseException as error:
            _end(span, None, error)
            raise
        future.add_done_callback(functools.partial(_end_rows, span))
        return future

    return traced


def _start(spans: Spans, producer: Producer | AioProducer, record: ProducerRecord) -> Span:
    attributes = record_attributes(record.key, record.value)
    if record.partition is not None:
        attributes[PARTITION] = str(record.partition)
    return spans.send(record.topic, Client.of(producer.config, is_consumer=False), attributes)


def _start_rows(spans: Spans, producer: Producer | AioProducer, topic: str, partition: str | int | None) -> Span:
    attributes: Attributes = {PARTITION: str(partition)} if isinstance(partition, int) else {}
    return spans.send(topic, Client.of(producer.config, is_consumer=False), attributes)


def _with_context(record: ProducerRecord, context: Headers) -> ProducerRecord:
    if not context:
        return record
    headers = with_context(record.headers, context)
    return ProducerRecord(record.topic, record.value, record.key, record.partition, record.timestamp, headers)


def _rows_with_context(rows: RowColumns, context: Headers) -> RowColumns:
    if not context:
        return rows
    if rows.headers is None:
        headers = [encode_headers(context)] * rows.count
    else:
        headers = [encode_headers(with_context(decode_headers(encoded), context)) for encoded in rows.headers]
    cells = rows.value_positions, rows.value_lengths, rows.key_positions, rows.key_lengths
    return RowColumns(rows.buffer, *cells, rows.timestamps, headers)


def _send_rows(
    span: Span, callback: RowsCallback | None, call: Callable[[RowsCallback], ColumnsFuture]
) -> ColumnsFuture:
    """Send rows, and end the span when the last of them is acknowledged or failed, which may be before `call`
    returns."""
    rows = _RowsSpan(span)

    def report(run: RowsRun) -> None:
        rows.add(run.row_count, run.error)
        if callback is not None:
            callback(run)

    try:
        future = call(report)
    except BaseException as error:
        _end(span, None, error)
        raise
    rows.expect(future.count)
    return future


class _RowsSpan:
    """The span of rows. The lock guards the numbers, of the rows that were sent and of those with a result."""

    def __init__(self, span: Span) -> None:
        self._span = span
        self._lock = threading.Lock()
        self._sent: int | None = None
        self._reported = 0
        self._has_failed = False

    def add(self, row_count: int, error: Exception | None) -> None:
        """Count rows with a result; the first error is the span's."""
        with self._lock:
            self._reported += row_count
            if error is not None and not self._has_failed:
                self._has_failed = True
                fail(self._span, error)
            self._maybe_end_locked()

    def expect(self, row_count: int) -> None:
        """Set how many rows were sent."""
        self._span.set_attribute(BATCH_MESSAGE_COUNT, row_count)
        with self._lock:
            self._sent = row_count
            self._maybe_end_locked()

    def _maybe_end_locked(self) -> None:
        if self._sent == self._reported:
            self._span.end()


def _end(span: Span, metadata: RecordMetadata | None, error: BaseException | None) -> None:
    if not span.is_recording():  # not sampled, or ended by a callback before the call raised
        return
    if error is not None:
        fail(span, error)
    if metadata is not None:
        delivered(span, metadata.partition, metadata.offset)
    span.end()


def _end_delivery(span: Span, future: Delivery) -> None:
    outcome = cast("RecordDelivery", future).outcome()
    if isinstance(outcome, Exception):
        _end(span, None, outcome)
    elif outcome is None:  # cancelled by the caller; the record is sent all the same, and its outcome unknown
        span.end()
    else:
        _end(span, outcome, None)


def _end_rows(span: Span, future: asyncio.Future[list[RowsRun]]) -> None:
    _end(span, None, cast("RowsFuture", future).error)
