"""The events of Kafka's verifiable producer and consumer: one JSON object a line, written as Jackson writes it."""

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
    """Takes the events of a run, a line each, and what its user has to know besides."""

    def print(self, line: str) -> None:
        """Take one event."""

    def write(self, data: bytes) -> None:
        """Take events, each with a newline behind it."""

    def flush(self) -> None:
        """Hand the events on."""

    def note(self, line: str) -> None:
        """Take a remark that is no event."""


def json_text(value: object) -> str:
    """Encode a value as JSON. Control characters are escaped with capital hexadecimal digits, as Jackson does it; those
    that Jackson leaves unescaped are escaped too."""
    text = json_safe(_dumps(value))
    return _ESCAPE.sub(lambda match: f"{match[1]}\\u{match[2].upper()}", text) if "\\u" in text else text


def event(name: str, wall_ms: int, **fields: object) -> str:
    """One event; fields in the order given."""
    return json_text({"timestamp": wall_ms, "name": name, **fields})


def java_exception(error: Exception) -> str:
    """The class of an error as Java prints it."""
    if not isinstance(error, KafkaError):
        return "class java.lang.RuntimeException"
    if type(error).__name__ == "IllegalState":
        return "class java.lang.IllegalStateException"
    if type(error).__name__ == "BufferExhausted":
        return "class org.apache.kafka.clients.producer.BufferExhaustedException"
    return f"class {exception_class(error)}"
