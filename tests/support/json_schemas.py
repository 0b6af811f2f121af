"""The schemas of docs/json/schemas: what each line of --json may hold, and a check of lines against them.

How a schema is written stands in docs/json/README.md.
"""

from __future__ import annotations

import functools
import json
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

DIRECTORY = pathlib.Path(__file__).parents[2] / "docs" / "json" / "schemas"
COMMON = "_common"
_BYTES = {"b64": "string"}


def is_plain(name: str, value: Any) -> bool:
    """Whether a value has one of the plain types."""
    if name == "any":
        return True
    if name == "null":
        return value is None
    if name == "boolean":
        return isinstance(value, bool)
    if name == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    if name == "number":
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return isinstance(value, str)


PLAIN = ("any", "null", "boolean", "integer", "number", "string")


class Schema(NamedTuple):
    """One command's: the `page` that explains it, `lines` of stdout and of `stderr` by their names, the `types` they
    mention."""

    command: str
    page: str
    lines: Mapping[str, Any]
    stderr: Mapping[str, Any]
    types: Mapping[str, Any]

    def problems(self, wanted: Any, value: Any, place: str = "") -> Iterator[str]:
        """What is wrong with a value; `wanted` is a table, a list of a fixed length, or alternatives as text."""
        if isinstance(wanted, Mapping):
            yield from self._table_problems(wanted, value, place)
        elif isinstance(wanted, Sequence) and not isinstance(wanted, str):
            if not isinstance(value, list) or len(value) != len(wanted):
                yield f"{place or 'line'} is no list of {len(wanted)}"
                return
            for number, (each, item) in enumerate(zip(wanted, value, strict=True)):
                yield from self.problems(each, item, f"{place}[{number}]")
        else:
            found = [list(self._one(each, value, place)) for each in alternatives(wanted)]
            if all(found):
                yield from min(found, key=len) if len(found) == 1 else [f"{place or 'line'} is not {wanted}: {value!r}"]

    def _table_problems(self, table: Mapping[str, Any], value: Any, place: str) -> Iterator[str]:
        if not isinstance(value, dict):
            yield f"{place or 'line'} is no object: {value!r}"
            return
        keys = {key.removesuffix("?"): wanted for key, wanted in table.items()}
        for key in table:
            if not key.endswith("?") and key != "*" and key not in value:
                yield f"{place}.{key} is missing"
        for key, item in value.items():
            wanted = keys.get(key, keys.get("*"))
            if wanted is None:
                yield f"{place}.{key} is not documented"
            else:
                yield from self.problems(wanted, item, f"{place}.{key}")

    def _one(self, wanted: str, value: Any, place: str) -> Iterator[str]:
        if wanted.startswith("="):
            if value != wanted[1:]:
                yield f"{place} is not {wanted[1:]!r}: {value!r}"
        elif wanted[0] in "[{":
            kind = list if wanted[0] == "[" else dict
            if not isinstance(value, kind):
                yield f"{place} is not {wanted}: {value!r}"
                return
            items = value.items() if isinstance(value, dict) else enumerate(value)
            for key, item in items:
                yield from self.problems(wanted[1:-1], item, f"{place}[{key}]")
        elif wanted == "bytes":
            if value is not None and not isinstance(value, str):
                yield from self._table_problems(_BYTES, value, place)
        elif wanted in PLAIN:
            if not is_plain(wanted, value):
                yield f"{place} is no {wanted}: {value!r}"
        else:
            yield from self.problems(self.types[wanted], value, place)

    def kind_of(self, line: str, *, stderr: bool = False) -> str:
        """The name of the kind of line that this is. AssertionError when it is none."""
        row = json.loads(line)
        kinds = self.stderr if stderr else self.lines
        told = {}
        for kind, wanted in kinds.items():
            told[kind] = list(self.problems(wanted, row))
            if not told[kind]:
                return kind
        nearest = min(told, key=lambda kind: len(told[kind]), default=None)
        why = f"as {nearest}: {told[nearest][:5]}" if nearest is not None else "there is to be none"
        raise AssertionError(f"kt {self.command} --json: {line[:600]}\nis no line of {self.command}.json; {why}")


def alternatives(text: str) -> list[str]:
    """The parts between the bars that stand in no brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "[{") - (letter in "]}")
        if letter == "|" and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def _read(name: str) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((DIRECTORY / f"{name}.json").read_text(encoding="utf-8"))
    return read


@functools.cache
def schema_of(command: str) -> Schema:
    """The schema of a command; what all commands share on stderr included."""
    common, own = _read(COMMON), _read(command)
    unknown = own.keys() - {"page", "lines", "stderr", "types", "errors"}
    assert not unknown, f"{command}.json: {sorted(unknown)}"
    error = common["types"]["Error"] | own.get("errors", {})
    types = common["types"] | own.get("types", {}) | {"Error": error}
    return Schema(command, own.get("page", command), own["lines"], common["stderr"] | own.get("stderr", {}), types)


def keys_of(table: Any) -> Iterator[str]:
    """Every key that a schema's part names, without marks."""
    if isinstance(table, Mapping):
        for key, wanted in table.items():
            yield key.removesuffix("?")
            yield from keys_of(wanted)
    elif isinstance(table, list):
        for item in table:
            yield from keys_of(item)
