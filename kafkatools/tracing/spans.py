"""Spans by OpenTelemetry's messaging conventions: names, kinds and attributes, and how a span ends.

Rule: an unknown value (no offset, no group, a key without a text form) has no attribute.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from opentelemetry import context as contexts
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, Tracer

from kafkatools.core.config import Config
from kafkatools.core.consumer.completed_fetch import FetchedColumns
from kafkatools.core.consumer.consumer_records import ConsumerRecord
from kafkatools.tracing.carriers import extracted_context

Attributes = dict[str, str | int | bool]

BATCH_MESSAGE_COUNT = "messaging.batch.message_count"
CLIENT_ID = "messaging.client.id"
CONSUMER_GROUP = "messaging.consumer.group.name"
DESTINATION = "messaging.destination.name"
ERROR_TYPE = "error.type"
KEY = "messaging.kafka.message.key"
OFFSET = "messaging.kafka.offset"
OPERATION_NAME = "messaging.operation.name"
OPERATION_TYPE = "messaging.operation.type"
PARTITION = "messaging.destination.partition.id"
SYSTEM = "messaging.system"
TOMBSTONE = "messaging.kafka.message.tombstone"

MAX_LINKS = 128
"""The links of a span that the SDK keeps by default (OTEL_SPAN_LINK_COUNT_LIMIT)."""


class Client(NamedTuple):
    """The client id and the group of a producer or consumer, empty for none."""

    client_id: str
    group_id: str

    @classmethod
    def of(cls, config: Config, is_consumer: bool) -> Client:
        """Return them from the settings of a client."""
        return cls(config.client_id or "", (config.group_id or "") if is_consumer else "")


def fail(span: Span, error: BaseException) -> None:
    """Record an error in a span; the caller ends it."""
    span.set_attribute(ERROR_TYPE, type(error).__name__)
    span.record_exception(error)
    span.set_status(Status(StatusCode.ERROR, str(error)))


def delivered(span: Span, partition: int, offset: int) -> None:
    """Set the partition and offset of an acknowledged record; -1 is unknown."""
    if partition >= 0:
        span.set_attribute(PARTITION, str(partition))
    if offset >= 0:
        span.set_attribute(OFFSET, offset)


def key_text(key: object) -> str | None:
    """Return a key as text; None for one without a canonical text form, such as bytes that are not UTF-8."""
    if isinstance(key, bytes):
        try:
            return key.decode()
        except UnicodeDecodeError:
            return None
    return str(key) if isinstance(key, str | int) else None


class Spans:
    """Starts the spans of one tracer."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def send(self, topic: str, client: Client, extra: Mapping[str, str | int | bool]) -> Span:
        """Start the span of a send; its acknowledgement ends it."""
        attributes = _attributes("send", "send", client) | {DESTINATION: topic} | dict(extra)
        return self._tracer.start_span(f"send {topic}", kind=SpanKind.PRODUCER, attributes=attributes)

    def poll(self, client: Client, start_ms: int, fetched: Sequence[FetchedColumns]) -> None:
        """Write the span of a poll that returned records, with links to the spans that sent them."""
        attributes = _attributes("poll", "receive", client)
        attributes[BATCH_MESSAGE_COUNT] = sum(item.columns.count for item in fetched)
        topics = {item.topic for item in fetched}
        name = "poll"
        if len(topics) == 1:
            attributes[DESTINATION] = topic = topics.pop()
            name = f"poll {topic}"
            if len({item.partition for item in fetched}) == 1:
                attributes[PARTITION] = str(fetched[0].partition)
        if attributes[BATCH_MESSAGE_COUNT] == 1:
            attributes[OFFSET] = next(item.columns.offsets[0] for item in fetched if item.columns.count)
        self._start(name, attributes, start_ms, _links(fetched)).end()

    def failed_poll(self, client: Client, start_ms: int, error: Exception) -> None:
        """Write the span of a poll that raised an error."""
        span = self._start("poll", _attributes("poll", "receive", client), start_ms, [])
        fail(span, error)
        span.end()

    def process(self, record: ConsumerRecord, client: Client) -> tuple[Span, Context]:
        """Start the span of the processing of a record, below the span that sent it, and return its context. The
        current span is linked, or the parent of a record without a context."""
        context = extracted_context(record.headers, contexts.get_current())
        current = trace.get_current_span().get_span_context()
        links = (
            [Link(current)]
            if current.is_valid and trace.get_current_span(context).get_span_context() != current
            else []
        )
        attributes = _attributes("process", "process", client) | {
            DESTINATION: record.topic,
            PARTITION: str(record.partition),
            OFFSET: record.offset,
        }
        attributes |= record_attributes(record.key, record.value)
        span = self._tracer.start_span(
            f"process {record.topic}", context, kind=SpanKind.CONSUMER, attributes=attributes, links=links
        )
        return span, trace.set_span_in_context(span, context)

    def _start(self, name: str, attributes: Attributes, start_ms: int, links: Sequence[Link]) -> Span:
        return self._tracer.start_span(
            name, kind=SpanKind.CONSUMER, attributes=attributes, links=links, start_time=start_ms * 1_000_000
        )


def record_attributes(key: object, value: object) -> Attributes:
    """Return the attributes of a record's key and of a null value."""
    attributes: Attributes = {}
    text = key_text(key)
    if text is not None:
        attributes[KEY] = text
    if value is None:
        attributes[TOMBSTONE] = True
    return attributes


def _attributes(operation: str, kind: str, client: Client) -> Attributes:
    attributes: Attributes = {SYSTEM: "kafka", OPERATION_NAME: operation, OPERATION_TYPE: kind}
    if client.client_id:
        attributes[CLIENT_ID] = client.client_id
    if client.group_id:
        attributes[CONSUMER_GROUP] = client.group_id
    return attributes


def _links(fetched: Sequence[FetchedColumns]) -> list[Link]:
    """Return one link for each span that sent some of the records, up to MAX_LINKS."""
    links: dict[tuple[int, int], Link] = {}
    for item in fetched:
        columns = item.columns
        for row in range(columns.count):
            if not columns.header_counts[row]:
                continue
            sender = trace.get_current_span(extracted_context(columns.headers(row), Context())).get_span_context()
            if sender.is_valid:
                links.setdefault((sender.trace_id, sender.span_id), Link(sender))
                if len(links) == MAX_LINKS:
                    return list(links.values())
    return list(links.values())
