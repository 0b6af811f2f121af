"""KafkatoolsInstrumentor, which wraps the methods of all clients, and functions that wrap those of one client.

Rules: what is wrapped is one table. `uninstrument` puts the original functions back, so that nothing remains. While all
clients are instrumented, a single one needs nothing more, and would write each span twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import MethodType
from typing import cast

from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.instrumentation.instrumentor import BaseInstrumentor
from opentelemetry.trace import TracerProvider

from kafkatools import aio
from kafkatools.core.consumer.consumer import Consumer
from kafkatools.core.consumer.consumer_records import ConsumerRecord
from kafkatools.core.consumer.share.share_consumer import ShareConsumer
from kafkatools.core.producer.producer import Producer
from kafkatools.tracing import polls, sends
from kafkatools.tracing.spans import Client, Spans, fail
from kafkatools.version import __version__

AnyProducer = Producer | aio.Producer
AnyConsumer = Consumer | aio.Consumer | ShareConsumer | aio.ShareConsumer
Wrapper = Callable[[Spans, Callable[..., object]], Callable[..., object]]

_POLLS = ("poll", "poll_further", "poll_columns")
_SHARE_POLLS = ("poll", "poll_columns")
_WRAPPERS = cast(
    "dict[type, dict[str, Wrapper]]",
    {
        Producer: {"send": sends.send, "send_columns": sends.send_columns, "send_arrow": sends.send_arrow},
        aio.Producer: {"send": sends.send_async, "send_many": sends.send_many_async},
        Consumer: dict.fromkeys(_POLLS, polls.poll),
        aio.Consumer: dict.fromkeys(_POLLS, polls.poll_async),
        ShareConsumer: dict.fromkeys(_SHARE_POLLS, polls.poll),
        aio.ShareConsumer: dict.fromkeys(_SHARE_POLLS, polls.poll_async),
    },
)
"""The wrapped methods of each class. A wrapper takes the original method and returns one of the same signature."""

_NO_CLIENT = Client("", "")


class KafkatoolsInstrumentor(BaseInstrumentor):  # type: ignore[misc]  # its module has no types
    """Instruments every Producer, Consumer and ShareConsumer of kafkatools and kafkatools.aio, existing ones too.

    `instrument(tracer_provider=...)` begins, `uninstrument()` ends it; the default is the global tracer provider.
    """

    _spans: Spans | None = None
    _originals: dict[tuple[type, str], Callable[..., object]] = {}

    def instrumentation_dependencies(self) -> tuple[str, ...]:
        """Return no requirement: the clients are those of this package."""
        return ()

    def _instrument(self, **options: object) -> None:
        provider = options.get("tracer_provider")
        if not isinstance(provider, TracerProvider | None):
            raise TypeError(f"tracer_provider must be a TracerProvider, not {type(provider).__name__}")
        self._spans = spans = _spans_of(provider)
        for kind, wrappers in _WRAPPERS.items():
            for name, wrap in wrappers.items():
                original = vars(kind)[name]
                self._originals[kind, name] = original
                setattr(kind, name, wrap(spans, original))

    def _uninstrument(self, **options: object) -> None:
        for (kind, name), original in self._originals.items():
            setattr(kind, name, original)
        self._originals.clear()
        self._spans = None


def instrument_producer(producer: AnyProducer, tracer_provider: TracerProvider | None = None) -> None:
    """Write spans of one producer. Nothing changes if it, or every client, is instrumented."""
    _wrap_one(producer, tracer_provider)


def instrument_consumer(consumer: AnyConsumer, tracer_provider: TracerProvider | None = None) -> None:
    """Write spans of the polls of one consumer. Nothing changes if it, or every client, is instrumented."""
    _wrap_one(consumer, tracer_provider)


def uninstrument_producer(producer: AnyProducer) -> None:
    """Undo `instrument_producer`."""
    _unwrap_one(producer)


def uninstrument_consumer(consumer: AnyConsumer) -> None:
    """Undo `instrument_consumer`."""
    _unwrap_one(consumer)


@contextmanager
def process(
    record: ConsumerRecord,
    consumer: AnyConsumer | None = None,
    tracer_provider: TracerProvider | None = None,
) -> Iterator[trace.Span]:
    """Run a block, the processing of one record, in a span `process TOPIC` whose parent is the span that sent it.

    `consumer` adds its group and client id. The span is the current one in the block. An error of the block is recorded
    in the span and raised. Without `tracer_provider` the instrumentor's one or the global one is used.
    """
    spans = _spans_of(tracer_provider) if tracer_provider else KafkatoolsInstrumentor()._spans or _spans_of(None)
    client = _NO_CLIENT if consumer is None else Client.of(consumer.config, is_consumer=True)
    span, context = spans.process(record, client)
    token = contexts.attach(context)
    try:
        yield span
    except Exception as error:
        fail(span, error)
        raise
    finally:
        contexts.detach(token)
        span.end()


def _spans_of(provider: TracerProvider | None) -> Spans:
    return Spans(trace.get_tracer("kafkatools.tracing", __version__, provider))


def _wrappers_of(client: AnyProducer | AnyConsumer) -> dict[str, Wrapper]:
    for kind, wrappers in _WRAPPERS.items():
        if isinstance(client, kind):
            return wrappers
    raise TypeError(
        f"{type(client).__name__} is no Producer, Consumer or ShareConsumer of kafkatools or kafkatools.aio"
    )


def _wrap_one(client: AnyProducer | AnyConsumer, provider: TracerProvider | None) -> None:
    wrappers = _wrappers_of(client)
    if KafkatoolsInstrumentor().is_instrumented_by_opentelemetry or not wrappers.keys().isdisjoint(vars(client)):
        return
    spans = _spans_of(provider)
    for name, wrap in wrappers.items():
        setattr(client, name, MethodType(wrap(spans, getattr(type(client), name)), client))


def _unwrap_one(client: AnyProducer | AnyConsumer) -> None:
    for name in _wrappers_of(client):
        vars(client).pop(name, None)
