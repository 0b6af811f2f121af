"""The events of Kafka's verifiable producer and consumer: one JSON object per line, formatted as Jackson does."""

from __future__ import annotations

import json
import re
from typing import Protocol

from kafkatools.core.control_characters import json_safe
from kafkatools.core.errors import KafkaError
from kafkatools.core.java.exceptions import exception_class

_dumps = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False).encode
_ESCAPE = re.compile(r"(?<!\\)((?:\\\\)*)\\u([0-9a-f]{4})")


class EventSink(Protocol):
    """Receives the events of a verifiable producer or consumer, and notes for its user."""

    def print(self, line: str) -> None:
        """Write one event."""

    def write(self, data: bytes) -> None:
        """Write encoded events, each with its newline."""

    def flush(self) -> None:
        """Flush the written events."""

    def note(self, line: str) -> None:
        """Write a message for the user that is not an event."""


def json_text(value: object) -> str:
    """Encode a value as JSON with control characters escaped in capital hexadecimal digits, as Jackson does. Control
    characters that Jackson leaves unescaped are escaped too."""
    text = json_safe(_dumps(value))
    return _ESCAPE.sub(lambda match: f"{match[1]}\\u{match[2].upper()}", text) if "\\u" in text else text


def event(name: str, wall_ms: int, **fields: object) -> str:
    """An event as a JSON object with timestamp (ms since 1970), name and fields in the given order."""
    return json_text({"timestamp": wall_ms, "name": name, **fields})


def java_exception(error: Exception) -> str:
    """The Java exception class of an error, as `class org.apache.kafka...`."""
    if not isinstance(error, KafkaError):
        return "class java.lang.RuntimeException"
    if type(error).__name__ == "IllegalState":
        return "class java.lang.IllegalStateException"
    if type(error).__name__ == "BufferExhausted":
        return "class org.apache.kafka.clients.producer.BufferExhaustedException"
    return f"class {exception_class(error)}"
