"""A tool of the server and its arguments, from which the JSON schemas and the documentation are derived."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

STRING, INTEGER, BOOLEAN, ARRAY, OBJECT = "string", "integer", "boolean", "array", "object"
MAX_TEXT = 8192
"""Characters of a text argument, unless the argument has another limit."""
MAX_ITEMS = 100
"""Items of an array or object."""
MAX_ROWS = 200
"""Rows of an answer."""

Values = Mapping[str, object]
"""The checked arguments of a call, by name."""


class Argument(NamedTuple):
    """An argument of a tool. `option`: the option of the command that gets the value, empty for an operand of the
    command or a value that the tool's `words` use. `joined`: an array is one value with commas, else the option is
    repeated. `max_text`: the longest text, also of an item."""

    name: str
    about: str
    kind: str = STRING
    option: str = ""
    required: bool = False
    choices: tuple[str, ...] = ()
    minimum: int | None = None
    maximum: int | None = None
    joined: bool = False
    is_operand: bool = False
    max_text: int = MAX_TEXT

    def schema(self) -> dict[str, object]:
        """Return the JSON schema of the argument."""
        schema: dict[str, object] = {"type": self.kind, "description": self.about}
        text: dict[str, object] = {"type": STRING, "maxLength": self.max_text}
        if self.choices:
            text = {"type": STRING, "enum": list(self.choices)}
        if self.kind == STRING:
            schema |= text
        if self.kind == ARRAY:
            schema |= {"items": text, "minItems": 1, "maxItems": MAX_ITEMS}
        if self.kind == OBJECT:
            schema |= {"additionalProperties": text, "maxProperties": MAX_ITEMS}
        for key, bound in (("minimum", self.minimum), ("maximum", self.maximum)):
            if bound is not None:
                schema[key] = bound
        return schema


def max_rows(default: int) -> Argument:
    """Return the argument that limits the rows of an answer."""
    about = f"Maximum number of rows in the answer. Default: {default}."
    return Argument("max_rows", about, INTEGER, minimum=1, maximum=MAX_ROWS)


CURSOR = Argument("cursor", "`next_cursor` of a truncated answer to the same call, for the rows behind it.")


def no_words(values: Values) -> list[str]:
    """The further words of a tool whose arguments all belong to options."""
    return []


class Tool(NamedTuple):
    """A tool that reads.

    `command`: the words of the command that it runs; `words` returns further ones for the checked arguments and raises
    ArgumentError. `is_local`: the command connects to nothing. `shows_records`: rows contain contents of records.
    `searches`: it selects records by their contents. `reads_registry`: it takes a schema registry instead of a cluster.
    `packages`: those that the command needs beyond kt's own. `default_rows`: the rows of an answer without `max_rows`.
    """

    name: str
    about: str
    command: tuple[str, ...]
    arguments: tuple[Argument, ...] = ()
    words: Callable[[Values], list[str]] = no_words
    is_local: bool = False
    shows_records: bool = False
    searches: bool = False
    reads_registry: bool = False
    packages: tuple[str, ...] = ()
    default_rows: int = MAX_ROWS

    @property
    def all_arguments(self) -> tuple[Argument, ...]:
        """The arguments of the tool and those of every tool."""
        return (*self.arguments, max_rows(self.default_rows), CURSOR)


def input_schema(arguments: tuple[Argument, ...]) -> dict[str, object]:
    """Return the JSON schema of the arguments of a call."""
    return {
        "type": "object",
        "properties": {argument.name: argument.schema() for argument in arguments},
        "required": [argument.name for argument in arguments if argument.required],
        "additionalProperties": False,
    }
