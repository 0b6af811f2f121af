"""Read JSON files named on the command line, with the checks and messages of Kafka's tools (Json and JsonValue).

The hint of an error for invalid JSON has line and column.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from kafkatools.exit_status import CommandError

if TYPE_CHECKING:
    from kafkatools.core.json_values import JsonObject, JsonValue

T = TypeVar("T")

_INT_BITS = 31
_LONG_BITS = 63


def read_json(path: str, not_json: str, unreadable: str = "Unable to read file {path}") -> JsonValue:
    """Read the JSON value in a file. Raises CommandError with the tool's message if it is unreadable or invalid."""
    import json

    from kafkatools.core.json_texts import parse_json

    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror or "" if isinstance(error, OSError) else "it is not UTF-8"
        raise CommandError(unreadable.format(path=path), hint=reason) from None
    try:
        value: JsonValue = parse_json(text)
        return value
    except json.JSONDecodeError as error:
        raise CommandError(not_json, hint=f"{path}, line {error.lineno}, column {error.colno}: {error.msg}") from None
    except ValueError as error:
        raise CommandError(not_json, hint=f"{path}: {error}") from None


def json_in_file(path: str, convert: Callable[[JsonValue], T], value: JsonValue) -> T:
    """Convert a JSON value with a `json_*` function. Raises CommandError with the file's path as hint."""
    try:
        return convert(value)
    except CommandError as error:
        raise CommandError(str(error), hint=path) from None


def json_entries(path: str, field: str, items: JsonValue, convert: Callable[[JsonValue], T]) -> list[T]:
    """Convert each entry of a JSON list. Raises CommandError; its hint has file, field and entry number (from 1)."""
    entries = []
    for number, item in enumerate(json_in_file(path, json_array, items), 1):
        try:
            entries.append(convert(item))
        except CommandError as error:
            raise CommandError(str(error), hint=f'{path}: entry {number} of "{field}"') from None
    return entries


def json_object(value: JsonValue) -> JsonObject:
    """Return the value if it is a JSON object. Raises CommandError with Kafka's message otherwise."""
    if not isinstance(value, dict):
        raise CommandError(f"Expected JSON object, received {_json_text(value)}")
    return value


def json_array(value: JsonValue) -> Sequence[JsonValue]:
    """Return the value if it is a JSON array. Raises CommandError with Kafka's message otherwise."""
    if not isinstance(value, list):
        raise CommandError(f"Expected JSON array, received {_json_text(value)}")
    return value


def json_field(value: JsonValue, name: str, convert: Callable[[JsonValue], T]) -> T:
    """A required field of a JSON object, converted with a `json_*` function. Raises CommandError if it is missing."""
    fields = json_object(value)
    if name not in fields:
        raise CommandError(f"No such field exists: `{name}`")
    return convert(fields[name])


def json_string(value: JsonValue) -> str:
    """Return the value if it is a string. Raises CommandError with Kafka's message otherwise."""
    if not isinstance(value, str):
        raise _unexpected("String", value)
    return value


def json_int(value: JsonValue) -> int:
    """Return the value if it is a signed 32-bit integer. Raises CommandError with Kafka's message otherwise."""
    return _number(value, "Integer", _INT_BITS)


def json_long(value: JsonValue) -> int:
    """Return the value if it is a signed 64-bit integer. Raises CommandError with Kafka's message otherwise."""
    return _number(value, "Long", _LONG_BITS)


def _number(value: JsonValue, name: str, bits: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not -(1 << bits) <= value < 1 << bits:
        raise _unexpected(name, value)
    return value


def _unexpected(name: str, value: JsonValue) -> CommandError:
    return CommandError(f"Expected `{name}` value, received {_json_text(value)}")


def _json_text(value: JsonValue) -> str:
    import json

    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
