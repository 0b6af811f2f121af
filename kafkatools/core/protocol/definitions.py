"""Definitions of Kafka's messages, and the notation that they are written in: one definition covers all versions.

`kafka_messages.txt` holds requests and responses (made by docs/generate_messages.py). `kafka_records.txt` holds the
records of internal topics, and the messages that group members send each other. A message begins in the first column:

    MetadataRequest key=3 versions=0-13 flexible=9+
      topics []MetadataRequestTopic null=1+ default=null
        topic_id uuid versions=10+
        name string null=10+
      allow_auto_topic_creation bool versions=4+ default=true

Its fields follow in wire order. The fields of a structure are indented by two more columns.

| Word | Meaning | Without it |
|---|---|---|
| `versions` | versions of the message that have the field | all |
| `null` | versions in which null is allowed | none |
| `tag` | tag number of a tagged field (KIP-482) | the field has a fixed place |
| `tagged` | versions in which the field is tagged; in others it has a fixed place | all, if it has a `tag` |
| `default` | default; null applies only in versions that allow null | zero, empty, or a structure of defaults |

A definition is parsed when it is first used.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from kafkatools.core.package_files import package_text

NEWEST = 32767
# The longest string in any version: Kafka neither writes nor reads a longer one (MessageDataGenerator).
MAX_STRING_BYTES = 32767
FILES = ("kafka_messages.txt", "kafka_records.txt")
_ZEROES: dict[str, object] = {"string": "", "bytes": b"", "records": b"", "bool": False, "uuid": None, "float64": 0.0}
_NUMBERS = frozenset(("int8", "int16", "int32", "int64", "uint16", "uint32"))
_NO_DEFAULT = object()


class Field(NamedTuple):
    """A field of a message. `type` is Kafka's name of a primitive type, or the name of a structure with `fields`."""

    name: str
    type: str
    is_array: bool
    versions: range
    null: range
    tag: int | None
    tagged: range
    declared_default: object
    fields: tuple[Field, ...]

    @property
    def is_structure(self) -> bool:
        """Return whether the field, or each element of an array field, is a structure."""
        return self.type not in _ZEROES and self.type not in _NUMBERS

    def is_tagged(self, version: int) -> bool:
        """Return whether the field is tagged in a version."""
        return self.tag is not None and version in self.tagged

    def default(self, version: int) -> object:
        """Return the default in a version. Not for a single structure, whose default is built from its fields."""
        declared = self.declared_default
        if declared is not _NO_DEFAULT and not (declared is None and version not in self.null):
            return declared
        return () if self.is_array else _ZEROES.get(self.type, 0)

    def has_null_default(self, version: int) -> bool:
        """Return whether null is the field's default in a version."""
        return self.declared_default is None and version in self.null


class Definition(NamedTuple):
    """A message in all versions. `api_key` is the API key or the record's type id; -1 where Kafka defines none."""

    name: str
    api_key: int
    versions: range
    flexible: range
    is_record: bool
    fields: tuple[Field, ...]


def snake_case(name: str) -> str:
    """Convert Kafka's field name to Python's form: `leaderEpoch` -> `leader_epoch`."""
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()


def camel_case(name: str) -> str:
    """Convert a Python field name to Kafka's form: `leader_epoch` -> `leaderEpoch`."""
    first, *parts = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in parts)


def version_range(text: str) -> range:
    """Parse a range of versions: `0-4`, `2+`, `3`, or `none`, which is empty. Raises ValueError for other text."""
    if text == "none":
        return range(0)
    if text.endswith("+"):
        return range(int(text[:-1]), NEWEST + 1)
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


@cache
def _text(file: str) -> str:
    return "\n" + package_text(__name__, file)


@cache
def definition_of(name: str) -> Definition:
    """Return the definition of a message by its name. Raises KeyError for an unknown name."""
    text, begin = _place_of(name)
    end = text.find("\n\n", begin)
    lines = text[begin : None if end < 0 else end].splitlines()
    name, *words = lines[0].split(" ")
    values = dict(word.split("=", 1) for word in words)
    fields, _ = _fields(lines, 1, 2)
    return Definition(
        name,
        api_key_of(name),
        version_range(values["versions"]),
        version_range(values["flexible"]),
        not _is_message(name),
        fields,
    )


@cache
def api_key_of(name: str) -> int:
    """Return a message's API key or a record's type id, -1 if Kafka defines none. Raises KeyError."""
    text, begin = _place_of(name)
    word = text[begin + len(name) + 1 : begin + len(name) + 20].split(" ", 1)[0]
    return int(word[4:]) if word.startswith("key=") else -1


def _is_message(name: str) -> bool:
    return name.endswith(("Request", "Response"))


def _place_of(name: str) -> tuple[str, int]:
    """Return the text of the file that contains a definition, and the position of the definition in it."""
    text = _text(FILES[0] if _is_message(name) else FILES[1])
    begin = text.find(f"\n{name} ") + 1
    if not begin:
        raise KeyError(name)
    return text, begin


def _fields(lines: list[str], number: int, indent: int) -> tuple[tuple[Field, ...], int]:
    """Parse the fields of one structure. Return them and the number of the line after them."""
    fields = []
    while number < len(lines) and _indent_of(lines[number]) == indent:
        line = lines[number]
        nested: tuple[Field, ...] = ()
        number += 1
        if number < len(lines) and _indent_of(lines[number]) > indent:
            nested, number = _fields(lines, number, indent + 2)
        fields.append(_field(line[indent:], nested))
    return tuple(fields), number


def _indent_of(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _field(line: str, nested: tuple[Field, ...]) -> Field:
    name, kind, *words = line.split(" ")
    values = dict(word.split("=", 1) for word in words)
    versions = version_range(values.get("versions", "0+"))
    tag = values.get("tag")
    return Field(
        name,
        kind.removeprefix("[]"),
        kind.startswith("[]"),
        versions,
        version_range(values.get("null", "none")),
        None if tag is None else int(tag),
        version_range(values["tagged"]) if "tagged" in values else versions,
        _default(values["default"]) if "default" in values else _NO_DEFAULT,
        nested,
    )


_WORDS = {"null": None, "true": True, "false": False}


def _default(text: str) -> int | None:
    return _WORDS[text] if text in _WORDS else int(text)
