"""Check the arguments of a call and turn them into words of a command line.

Rules: a value is attached to its option (`--topic=VALUE`), so that no value becomes another option, and an operand must
not begin with `-`. Errors name the argument and its expected form, and repeat no value, since it may be long or secret.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence

from kafkatools.tools.mcp.tool import ARRAY, BOOLEAN, INTEGER, MAX_ITEMS, OBJECT, STRING, Argument, Values

_WORDS = {STRING: "a string", INTEGER: "an integer", BOOLEAN: "true or false", ARRAY: "an array", OBJECT: "an object"}


class ArgumentError(Exception):
    """An argument of a call is invalid; the text names it. Nothing was done."""


def check_arguments(arguments: Sequence[Argument], given: Mapping[str, object]) -> dict[str, object]:
    """Return the values of a call by name, without those that are null. Raises ArgumentError."""
    table = {argument.name: argument for argument in arguments}
    for name in given:
        if name not in table:
            similar = difflib.get_close_matches(name, table, 1)
            hint = f"did you mean '{similar[0]}'?" if similar else f"expected {', '.join(table) or 'no arguments'}"
            raise ArgumentError(f"There is no argument '{name[:80]}'; {hint}")
    values = {name: value for name, value in given.items() if value is not None}
    for argument in arguments:
        if argument.name in values:
            _check(argument, values[argument.name])
        elif argument.required:
            raise ArgumentError(f"The argument '{argument.name}' is missing: {_expected(argument)}")
    return values


def command_words(arguments: Sequence[Argument], values: Values) -> list[str]:
    """Return the options and then the operands that checked values stand for. Raises ArgumentError."""
    options: list[str] = []
    operands: list[str] = []
    for argument in arguments:
        value = values.get(argument.name)
        if value is None or value is False:
            continue
        if argument.is_operand:
            operands.append(_operand(argument, str(value)))
        elif argument.option:
            options += _option_words(argument, value)
    return options + operands


def integer(values: Values, name: str, default: int) -> int:
    """Return a checked integer argument, or the default."""
    value = values.get(name)
    return value if isinstance(value, int) else default


def _option_words(argument: Argument, value: object) -> list[str]:
    if argument.kind == BOOLEAN:
        return [argument.option]
    texts = [str(item) for item in value] if isinstance(value, list) else [str(value)]
    if argument.joined:
        for text in texts:
            if "," in text:
                raise ArgumentError(f"The argument '{argument.name}' must not contain a comma in an item")
        texts = [",".join(texts)]
    return [f"{argument.option}={text}" for text in texts]


def _operand(argument: Argument, text: str) -> str:
    if text.startswith("-"):
        raise ArgumentError(f"The argument '{argument.name}' must not begin with '-'")
    if not text.strip():
        raise ArgumentError(f"The argument '{argument.name}' is empty")
    return text


def _check(argument: Argument, value: object) -> None:
    if argument.kind == INTEGER:
        is_valid = isinstance(value, int) and not isinstance(value, bool)
    elif argument.kind == BOOLEAN:
        is_valid = isinstance(value, bool)
    else:
        is_valid = isinstance(value, {STRING: str, ARRAY: list, OBJECT: dict}[argument.kind])
    if not is_valid:
        raise _wrong(argument, f"not {_type_of(value)}")
    if isinstance(value, int) and not isinstance(value, bool):
        _check_bounds(argument, value)
    for text in _texts(value):
        _check_text(argument, text)
    if isinstance(value, (list, dict)) and not 1 <= len(value) <= MAX_ITEMS:
        raise _wrong(argument, f"not {len(value)} items")


def _check_bounds(argument: Argument, number: int) -> None:
    is_small = argument.minimum is not None and number < argument.minimum
    is_large = argument.maximum is not None and number > argument.maximum
    if is_small or is_large:
        raise _wrong(argument, f"not {number}" if abs(number) < 1 << 63 else "not such a large number")


def _texts(value: object) -> list[object]:
    """Return the texts of a value: itself, its items, or its keys and items."""
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return value
    return [*value, *value.values()] if isinstance(value, dict) else []


def _check_text(argument: Argument, text: object) -> None:
    if not isinstance(text, str):
        raise _wrong(argument, f"with {_type_of(text)} in it")
    if len(text) > argument.max_text:
        name, most = argument.name, argument.max_text
        raise ArgumentError(f"The argument '{name}' must have at most {most} characters, not {len(text)}")
    if "\0" in text or any("\ud800" <= character <= "\udfff" for character in text):
        raise _wrong(argument, "not a text with a null character or a surrogate")
    if argument.choices and text not in argument.choices:
        raise _wrong(argument, "not another text")


def _wrong(argument: Argument, problem: str) -> ArgumentError:
    return ArgumentError(f"The argument '{argument.name}' must be {_expected(argument)}, {problem}")


def _expected(argument: Argument) -> str:
    text = _WORDS[argument.kind]
    if argument.kind == INTEGER and argument.minimum is not None:
        most = f" to {argument.maximum}" if argument.maximum is not None else " on"
        return f"{text} from {argument.minimum}{most}"
    if argument.kind == ARRAY:
        text = f"an array of 1 to {MAX_ITEMS} strings"
    if argument.kind == OBJECT:
        text = f"an object of 1 to {MAX_ITEMS} names with strings"
    if argument.choices:
        return f"{text}: {', '.join(argument.choices)}"
    return text


def _type_of(value: object) -> str:
    if value is None:
        return "null"
    kinds = {bool: "a Boolean", int: "an integer", float: "a number", str: "a string", list: "an array"}
    return kinds.get(type(value), "an object")
