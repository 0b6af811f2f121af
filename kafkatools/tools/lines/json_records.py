"""Parse records from JSON lines, the format of `kt console-consumer --json`.

One object per line: {"partition", "timestamp", "key", "value", "headers": [[name, value], ...]}. Only "value" must be
there; null makes a tombstone. "topic", "offset", "timestamp_type" and "delivery_count" are ignored. Bytes are a UTF-8
string or {"b64": "..."}; null is null.
"""

from __future__ import annotations

import json
from typing import Any

from kafkatools.core.json_texts import parse_json
from kafkatools.core.json_values import JsonValue
from kafkatools.core.producer.producer_record import ProducerRecord
from kafkatools.tools.lines.line_reader import MalformedLine

_KEYS = ("topic", "partition", "offset", "timestamp", "timestamp_type", "key", "value", "headers", "delivery_count")
_KNOWN_KEYS = frozenset(_KEYS)
_MAX_EXAMPLE_LENGTH = 60


def read_json_record(topic: str, line: bytes, number: int) -> ProducerRecord:
    """Parse the record of one line for `topic`. Raises MalformedLine with the line number."""
    try:
        row = parse_json(line)
    except json.JSONDecodeError as error:
        raise MalformedLine(f"Line {number} is not JSON: {error.msg} at column {error.colno}") from None
    except ValueError as error:
        raise MalformedLine(f"Line {number} is not JSON: {error}") from None
    if not isinstance(row, dict):
        raise MalformedLine(f"Line {number} is not a JSON object")
    unknown = row.keys() - _KNOWN_KEYS
    if unknown:
        key = _printable(sorted(unknown)[0])
        raise MalformedLine(f"Line {number} has an unknown key: {key}; the keys are {', '.join(_KEYS)}")
    if "value" not in row:
        raise MalformedLine(f'Line {number} has no "value"; write null for a tombstone')
    try:
        return ProducerRecord(
            topic,
            bytes_of_json(row["value"]),
            bytes_of_json(row.get("key")),
            _integer("partition", row.get("partition")),
            _integer("timestamp", row.get("timestamp")),
            headers_of_json(row.get("headers")),
        )
    except ValueError as error:
        raise MalformedLine(f"Line {number}: {error}") from None


def bytes_of_json(value: JsonValue) -> bytes | None:
    """Convert a JSON string, null or {"b64": "..."} to bytes or None. Raises ValueError for anything else."""
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    if isinstance(value, dict) and value.keys() == {"b64"} and isinstance(value["b64"], str):
        import base64

        return base64.b64decode(value["b64"], validate=True)
    raise ValueError(f'a key, value or header must be a string, null or {{"b64": "..."}}{_quoting_advice(value)}')


def _quoting_advice(value: JsonValue) -> str:
    """Return the advice to write a JSON object, list, number or Boolean as a string, with a short one as an example."""
    text = json.dumps(json.dumps(value))
    return "; write JSON as a string" + (f", such as {text}" if len(text) <= _MAX_EXAMPLE_LENGTH else "")


def _printable(text: str) -> str:
    """Escape lone surrogates, which JSON allows and UTF-8 does not."""
    return text.encode("utf-8", "backslashreplace").decode()


def _integer(name: str, value: JsonValue) -> int | None:
    """Return an integer field; None for null and -1. Raises ValueError for anything else."""
    if value is None or value == -1:
        return None
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise ValueError(f"{name}: {value!r} is not a whole number")


def headers_of_json(value: JsonValue) -> tuple[tuple[Any, bytes | None], ...]:
    """Convert a JSON list of [name, value] to headers, null to none. Raises ValueError for anything else."""
    if value is None:
        return ()
    if not isinstance(value, list):
        raise ValueError("headers must be a list of [name, value]")
    return tuple(_header(pair) for pair in value)


def _header(pair: JsonValue) -> tuple[Any, bytes | None]:
    if not isinstance(pair, list) or len(pair) != 2:
        raise ValueError("a header must be [name, value]")
    name = pair[0] if isinstance(pair[0], str) else bytes_of_json(pair[0])
    if name is None:
        raise ValueError("a header must have a name")
    if isinstance(name, str) and _printable(name) != name:
        raise ValueError(f"the header name {_printable(name)} has a lone surrogate, which is not valid UTF-8")
    return name, bytes_of_json(pair[1])
