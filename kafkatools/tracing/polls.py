"""Wrappers of the calls that poll: a span for each poll that returned records or raised an error.

Rules: a poll without records has no span, since a consumer that waits polls endlessly. The span is written after the
poll, because its links are known then. Links are read from the fetched columns, so that records are not made twice.
"""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Sequence

from opentelemetry.instrumentation.utils import is_instrumentation_enabled

from kafkatools.aio.consumer import Consumer as AioConsumer
from kafkatools.aio.share_consumer import ShareConsumer as AioShareConsumer
from kafkatools.core.consumer.completed_fetch import FetchedColumns
from kafkatools.core.consumer.consumer import Consumer
from kafkatools.core.consumer.consumer_records import ConsumerRecords
from kafkatools.core.consumer.share.share_consumer import ShareConsumer
from kafkatools.core.errors import WakeupError
from kafkatools.tracing.spans import Client, Spans

Polled = ConsumerRecords | list[FetchedColumns]
SyncConsumer = Consumer | ShareConsumer
AsyncConsumer = AioConsumer | AioShareConsumer


def poll(spans: Spans, original: Callable[..., Polled]) -> Callable[..., Polled]:
    """Wrap a poll of Consumer or ShareConsumer, of records or of columns."""

    @functools.wraps(original)
    def traced(self: SyncConsumer, timeout_ms: int) -> Polled:
        if not is_instrumentation_enabled():
            return original(self, timeout_ms)
        start_ms = self.clock.wall_ms()
        try:
            polled = original(self, timeout_ms)
        except Exception as error:
            _write_failure(spans, self, start_ms, error)
            raise
        _write(spans, self, start_ms, polled)
        return polled

    return traced


def poll_async(spans: Spans, original: Callable[..., Awaitable[Polled]]) -> Callable[..., Awaitable[Polled]]:
    """Wrap a poll of their twins in kafkatools.aio, of records or of columns."""

    @functools.wraps(original)
    async def traced(self: AsyncConsumer, timeout_ms: int) -> Polled:
        if not is_instrumentation_enabled():
            return await original(self, timeout_ms)
        start_ms = self.clock.wall_ms()
        try:
            polled = await original(self, timeout_ms)
        except Exception as error:
            _write_failure(spans, self, start_ms, error)
            raise
        _write(spans, self, start_ms, polled)
        return polled

    return traced


def _write_failure(spans: Spans, consumer: SyncConsumer | AsyncConsumer, start_ms: int, error: Exception) -> None:
    if not isinstance(error, WakeupError):
        spans.failed_poll(Client.of(consumer.config, is_consumer=True), start_ms, error)


def _write(spans: Spans, consumer: SyncConsumer | AsyncConsumer, start_ms: int, polled: Polled) -> None:
    fetched: Sequence[FetchedColumns] = polled.columns() if isinstance(polled, ConsumerRecords) else polled
    if fetched:
        spans.poll(Client.of(consumer.config, is_consumer=True), start_ms, fetched)
