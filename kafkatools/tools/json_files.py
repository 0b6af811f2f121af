"""JSON files on the command line, read as Kafka's tools read them (Json and JsonValue of its server utilities,
messages included). What is no JSON is named with line and column in a hint.
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
    """The value in a file; CommandError in the tool's words when it cannot be read or is no JSON."""
    import json

    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror or "" if isinstance(error, OSError) else "it is not UTF-8"
        raise CommandError(unreadable.format(path=path), hint=reason) from None
    try:
        value: JsonValue = json.loads(text)
        return value
    except json.JSONDecodeError as error:
        raise CommandError(not_json, hint=f"{path}, line {error.lineno}, column {error.colno}: {error.msg}") from None


def json_in_file(path: str, convert: Callable[[JsonValue], T], value: JsonValue) -> T:
    """The value converted by one of the functions below; what is wrong with it is told with the file's name behind."""
    try:
        return convert(value)
    except CommandError as error:
        raise CommandError(str(error), hint=path) from None


def json_entries(path: str, field: str, items: JsonValue, convert: Callable[[JsonValue], T]) -> list[T]:
    """The entries of a file's list likewise; what is wrong with one is told with its place, counted from 1."""
    found = []
    for number, item in enumerate(json_in_file(path, json_array, items), 1):
        try:
            found.append(convert(item))
        except CommandError as error:
            raise CommandError(str(error), hint=f'{path}: entry {number} of "{field}"') from None
    return found


def json_object(value: JsonValue) -> JsonObject:
    """The value as an object."""
    if not isinstance(value, dict):
        raise CommandError(f"Expected JSON object, received {_shown(value)}")
    return value


def json_array(value: JsonValue) -> Sequence[JsonValue]:
    """The value as an array."""
    if not isinstance(value, list):
        raise CommandError(f"Expected JSON array, received {_shown(value)}")
    return value


def json_field(value: JsonValue, name: str, convert: Callable[[JsonValue], T]) -> T:
    """A field of an object that has to be there, converted by one of the functions below."""
    fields = json_object(value)
    if name not in fields:
        raise CommandError(f"No such field exists: `{name}`")
    return convert(fields[name])


def json_string(value: JsonValue) -> str:
    """A text."""
    if not isinstance(value, str):
        raise _unexpected("String", value)
    return value


def json_int(value: JsonValue) -> int:
    """A number of 32 bits."""
    return _number(value, "Integer", _INT_BITS)


def json_long(value: JsonValue) -> int:
    """A number of 64 bits."""
    return _number(value, "Long", _LONG_BITS)


def _number(value: JsonValue, name: str, bits: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not -(1 << bits) <= value < 1 << bits:
        raise _unexpected(name, value)
    return value


def _unexpected(name: str, value: JsonValue) -> CommandError:
    return CommandError(f"Expected `{name}` value, received {_shown(value)}")


def _shown(value: JsonValue) -> str:
    import json

    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
