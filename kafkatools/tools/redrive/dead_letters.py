"""What the headers of a dead-letter record say: where it came from, why it failed, and how often it was sent back.

Names and encodings are those of Spring Kafka 3.3 and 4.1 (KafkaHeaders, RetryTopicHeaders, SerializationUtils), of
Kafka Connect 4.3 (DeadLetterQueueReporter) and of Kafka Streams 4.3 (ExceptionHandlerUtils, KIP-1034). A header counts
by its last occurrence, as Kafka's `lastHeader`: a record that failed several times got its newest headers last. So does
the framework: that of the last header with a topic.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kafkatools.core.records.columns import encode_headers

RawHeaders = Sequence[tuple[bytes, bytes | None]]

ATTEMPTS_HEADER = b"kt-redrive-attempts"
"""How often kt redrive sent the record back, as decimal text."""

_INT_BYTES = 4
_LONG_BYTES = 8
_MAX_INT = (1 << 31) - 1


class _Framework(NamedTuple):
    """The names of a framework's headers. Numbers are big-endian (`is_binary`) or decimal text. The first of
    `exceptions` that a record has is the class of its failure."""

    topic: bytes
    partition: bytes
    offset: bytes
    timestamp: bytes
    exceptions: tuple[bytes, ...]
    messages: tuple[bytes, ...]
    is_binary: bool


def _spring(prefix: bytes) -> _Framework:
    exceptions = (b"exception-cause-fqcn", b"exception-fqcn", b"key-exception-fqcn")
    return _Framework(
        prefix + b"original-topic",
        prefix + b"original-partition",
        prefix + b"original-offset",
        prefix + b"original-timestamp",
        tuple(prefix + name for name in exceptions),
        (prefix + b"exception-message", prefix + b"key-exception-message"),
        is_binary=True,
    )


_CONNECT = b"__connect.errors."
_STREAMS = b"__streams.errors."
_FRAMEWORKS = (
    _spring(b"kafka_dlt-"),
    _spring(b"kafka_"),  # of retry topics
    _Framework(
        _CONNECT + b"topic",
        _CONNECT + b"partition",
        _CONNECT + b"offset",
        b"",
        (_CONNECT + b"exception.class.name",),
        (_CONNECT + b"exception.message",),
        is_binary=False,
    ),
    _Framework(
        _STREAMS + b"topic",
        _STREAMS + b"partition",
        _STREAMS + b"offset",
        b"",
        (_STREAMS + b"exception",),
        (_STREAMS + b"message",),
        is_binary=False,
    ),
)
_BY_TOPIC_HEADER = {framework.topic: framework for framework in _FRAMEWORKS}
_REASON_HEADERS = frozenset(name for framework in _FRAMEWORKS for name in (*framework.exceptions, *framework.messages))
_ERROR_HEADERS = (
    b"kafka_dlt-",
    b"kafka_original-",
    b"kafka_exception-",
    b"kafka_key-exception-",
    b"kafka_deliveryAttempt",
    b"retry_topic-",
    b"springDeserializerException",
    _CONNECT,
    _STREAMS,
)
"""How the names of the headers begin that a framework adds to a failed record. With `retry_topic-attempts` a record
that came back would have no retries left."""


class DeadLetter(NamedTuple):
    """The origin and the failure of a dead-letter record by its headers; None is unknown. `attempts`: how
    often it was sent back; None for a header that is no number."""

    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    timestamp_ms: int | None = None
    exception: str | None = None
    message: str | None = None
    attempts: int | None = 0


def read_dead_letter(headers: RawHeaders, origin_header: bytes | None = None) -> DeadLetter:
    """Return what the headers of a record say. `origin_header`: a header with the name of the topic, before those of
    the frameworks."""
    last = dict(headers)
    framework = next((_BY_TOPIC_HEADER[name] for name, _ in reversed(headers) if name in _BY_TOPIC_HEADER), None)
    attempts = _attempts(last)
    own_topic = None if origin_header is None else _text(last.get(origin_header))
    if framework is None:
        return DeadLetter(own_topic, attempts=attempts)
    return DeadLetter(
        own_topic or _text(last.get(framework.topic)),
        _number(last.get(framework.partition), _INT_BYTES, is_binary=framework.is_binary),
        _number(last.get(framework.offset), _LONG_BYTES, is_binary=framework.is_binary),
        _number(last.get(framework.timestamp), _LONG_BYTES, is_binary=framework.is_binary),
        _first_text(last, framework.exceptions),
        _first_text(last, framework.messages),
        attempts,
    )


def failure_texts(headers: RawHeaders) -> list[str]:
    """Return the classes and messages of exceptions in the headers of all frameworks."""
    return [value.decode("utf-8", "replace") for name, value in headers if value and name in _REASON_HEADERS]


def headers_to_send(headers: RawHeaders, attempts: int, *, keep_headers: bool) -> bytes:
    """Return the encoded headers of the record that is sent back: without those of failures unless `keep_headers`, with
    the number of this attempt."""
    kept = [
        (name, value)
        for name, value in headers
        if name != ATTEMPTS_HEADER and (keep_headers or not name.startswith(_ERROR_HEADERS))
    ]
    return encode_headers([*kept, (ATTEMPTS_HEADER, b"%d" % attempts)])


def _attempts(last: dict[bytes, bytes | None]) -> int | None:
    if ATTEMPTS_HEADER not in last:
        return 0
    value = last[ATTEMPTS_HEADER] or b""
    return int(value) if value.isdigit() and len(value) <= len(str(_MAX_INT)) else None


def _number(value: bytes | None, size: int, *, is_binary: bool) -> int | None:
    """Return a partition, offset or timestamp; None for a missing, negative or malformed one."""
    if value is None:
        return None
    if is_binary:
        number = int.from_bytes(value, "big", signed=True) if len(value) == size else -1
    else:
        number = int(value) if value.isdigit() and len(value) <= len(str(1 << 63)) else -1
    return number if 0 <= number < 1 << (8 * size - 1) else None


def _first_text(last: dict[bytes, bytes | None], names: Sequence[bytes]) -> str | None:
    return next((text for name in names if (text := _text(last.get(name))) is not None), None)


def _text(value: bytes | None) -> str | None:
    return value.decode("utf-8", "replace") if value else None
