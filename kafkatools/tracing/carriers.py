"""Trace contexts in record headers, by the global propagator.

Rules: the context of a span replaces the context that a record brings along, as when a received record is sent on. A
propagator that writes nothing leaves the headers unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence

from opentelemetry import propagate
from opentelemetry.context import Context
from opentelemetry.propagators.textmap import Getter
from opentelemetry.trace import Span, set_span_in_context

from kafkatools.core.producer.producer_record import AnyHeaders, Headers, ProducerRecord

ReadHeaders = Sequence[tuple[str, bytes | None]]


class _HeaderGetter(Getter[ReadHeaders]):
    def get(self, carrier: ReadHeaders, key: str) -> list[str] | None:
        values = [value.decode("utf-8", "replace") for name, value in carrier if name == key and value is not None]
        return values or None

    def keys(self, carrier: ReadHeaders) -> list[str]:
        return [name for name, _ in carrier]


_GETTER = _HeaderGetter()


def context_headers(span: Span) -> Headers:
    """Return the headers that carry the context of a span, none without an active propagator or SDK."""
    fields: dict[str, str] = {}
    propagate.inject(fields, set_span_in_context(span))
    return tuple((name, value.encode()) for name, value in fields.items())


def with_context(headers: AnyHeaders, context: Headers) -> Headers:
    """Return headers with those of a context, in place of earlier ones of the same names. Raises TypeError for invalid
    headers."""
    names = {name for name, _ in context}
    checked = ProducerRecord("", headers=headers).headers
    return (*(header for header in checked if _text(header[0]) not in names), *context)


def extracted_context(headers: ReadHeaders, default: Context) -> Context:
    """Return `default` with the context that the producer of a record wrote into its headers, if it did."""
    return propagate.extract(headers, default, _GETTER)


def _text(name: str | bytes) -> str:
    return name.decode("utf-8", "replace") if isinstance(name, bytes) else name
