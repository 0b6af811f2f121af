"""What a record of Kafka's internal topics is made of, and how it is read and written.

A `Schema` is the table form of one of Kafka's message definitions (`*Record.json`, `*Key.json`, `*Value.json`), with
every version in one place. `Schema.entity(version)`
builds, once, the frozen dataclass of that version in the entity form of kio, so kio's readers and writers serve it.
Rules:

- Attribute names are Kafka's in snake_case; times stay integers of ms; a zero uuid is None; arrays are tuples.
- Every field has Kafka's default (0, "", empty), so an entity can be made by naming only what differs.
- A field exists in the entity of a version only when the definition says so.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, make_dataclass
from functools import cache
from typing import Any

from kafkatools.core.protocol.schemas.errors import RecordFormatError

NO_DEFAULT: Any = object()
_NEWEST = 32767

_PRIMITIVES: dict[str, tuple[Any, Any]] = {
    "bool": (bool, False),
    "int8": (int, 0),
    "int16": (int, 0),
    "uint16": (int, 0),
    "int32": (int, 0),
    "uint32": (int, 0),
    "int64": (int, 0),
    "float64": (float, 0.0),
    "string": (str, ""),
    "bytes": (bytes, b""),
    "uuid": (uuid.UUID | None, None),
}


@cache
def snake_case(name: str) -> str:
    """Kafka's field name as a Python attribute: `leaderEpoch` -> `leader_epoch`."""
    return re.sub(r"(?<=[a-z0-9])([A-Z])", r"_\1", name).lower()


def version_range(text: str) -> range:
    """`0-4`, `2+`, `3`, and `none` or the empty string for no version at all."""
    if text in ("", "none"):
        return range(0)
    if text.endswith("+"):
        return range(int(text[:-1]), _NEWEST + 1)
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


@dataclass(frozen=True)
class Field:
    """One field of a definition: Kafka's camelCase name, its type (`[]X` for arrays), and the versions of each
    property."""

    name: str
    type: str
    versions: str = "0+"
    nullable: str = ""
    tag: int | None = None
    tagged: str = ""
    default: Any = NO_DEFAULT
    fields: tuple[Field, ...] = ()

    @property
    def attribute(self) -> str:
        return snake_case(self.name)

    @property
    def is_array(self) -> bool:
        return self.type.startswith("[]")

    @property
    def element_type(self) -> str:
        return self.type.removeprefix("[]")

    def is_in(self, version: int) -> bool:
        return version in version_range(self.versions)

    def is_nullable(self, version: int) -> bool:
        return version in version_range(self.nullable)

    def is_tagged(self, version: int) -> bool:
        return self.tag is not None and version in version_range(self.tagged or self.versions)

    def is_nullable_tagged_structure(self, version: int) -> bool:
        return bool(self.fields) and not self.is_array and self.is_tagged(version) and self.is_nullable(version)

    def default_value(self, version: int) -> Any:
        """Kafka's default for the field: the declared one, else zero, empty, or a structure of defaults."""
        if self.default is not NO_DEFAULT:
            return self.default
        if self.is_array:
            return ()
        if self.type in _PRIMITIVES:
            return _PRIMITIVES[self.type][1]
        return _NESTED


_NESTED: Any = object()


@dataclass(frozen=True)
class Schema:
    """One message definition: `api_key` is the record's type id (-1 where Kafka gives none)."""

    name: str
    api_key: int
    versions: str
    flexible: str
    fields: tuple[Field, ...] = ()

    @property
    def valid_versions(self) -> range:
        return version_range(self.versions)

    @property
    def highest_version(self) -> int:
        return self.valid_versions[-1]

    def entity(self, version: int | None = None) -> Any:
        """The dataclass of one version (the highest when not given); raises RecordFormatError for a version Kafka does
        not know."""
        chosen = self.highest_version if version is None else version
        if chosen not in self.valid_versions:
            raise RecordFormatError(f"{self.name} has no version {chosen}")
        return _entity_type(self, chosen)

    def __call__(self, *, version: int | None = None, **values: Any) -> Any:
        """Make an entity of a version; fields that are not named have Kafka's defaults; mappings become entities.

        Control records carry their version as a field too: it is set to the same number. Where a field of that name
        is something else (the version of an image, an int64), `version` is its value and the schema's is the highest.
        """
        own = next((item for item in self.fields if item.attribute == "version"), None)
        if own is not None and own.type == "int64":
            return build_entity(self.entity(), {**values, "version": version or 0})
        entity_type = self.entity(version)
        if own is not None:
            values["version"] = entity_type.__version__
        return build_entity(entity_type, values)

    def __hash__(self) -> int:
        return hash((self.name, self.api_key))

    def read(self, version: int, buffer: bytes | memoryview, offset: int = 0) -> tuple[Any, int]:
        """Read one entity at `offset`; returns it and the number of bytes it took. Raises RecordFormatError."""
        from kafkatools.core.protocol.schemas import entity_bytes

        return entity_bytes.read(self.entity(version), memoryview(buffer).toreadonly(), offset)


def build_entity(entity_type: Any, values: Mapping[str, Any]) -> Any:
    """An entity from its attributes; nested structures may be given as mappings, arrays as any sequence."""
    by_name = {item.attribute: item for item in entity_type.__fields_table__}
    return entity_type(**{name: _built(entity_type, by_name[name], value) for name, value in values.items()})


def _built(owner: Any, item: Field, value: Any) -> Any:
    if item.is_array and value is not None:
        return tuple(_built_structure(owner, item, each) for each in value)
    return _built_structure(owner, item, value)


def _built_structure(owner: Any, item: Field, value: Any) -> Any:
    return build_entity(structure_type(owner, item), value) if isinstance(value, Mapping) else value


def structure_type(owner: Any, item: Field) -> Any:
    """The dataclass of a field that holds structures (one, an array of them, or null)."""
    found = owner.__dataclass_fields__[item.attribute].type
    while not hasattr(found, "__fields_table__"):
        found = found.__args__[0]
    return found


def write_entity(entity: Any) -> bytes:
    """The body of an entity made from a Schema, without any framing."""
    from kafkatools.core.protocol.schemas import entity_bytes

    return entity_bytes.write(entity)


@cache
def _entity_type(schema: Schema, version: int) -> Any:
    from kio.static.constants import EntityType

    flexible = version in version_range(schema.flexible)
    common = {"__version__": version, "__flexible__": flexible, "__api_key__": schema.api_key}
    nested = {**common, "__type__": EntityType.nested, "__wire_type__": None}
    own = {**common, "__type__": EntityType.data, "__schema__": schema, "__wire_type__": None}
    plain_fields = tuple(item for item in schema.fields if not item.is_nullable_tagged_structure(version))
    if plain_fields != schema.fields:
        own["__wire_type__"] = _make(schema.name, plain_fields, own, nested)
    return _make(schema.name, schema.fields, own, nested)


def _make(name: str, fields: tuple[Field, ...], namespace: dict[str, Any], nested: dict[str, Any]) -> Any:
    version = namespace["__version__"]
    members = [_member(name, item, version, nested) for item in fields if item.is_in(version)]
    return make_dataclass(
        name, members, namespace={**namespace, "__fields_table__": fields}, frozen=True, slots=True, kw_only=True
    )


def _array_of(element: Any) -> Any:
    return tuple.__class_getitem__((element, ...))


def _member(owner: str, item: Field, version: int, nested: dict[str, Any]) -> tuple[str, Any, Any]:
    metadata: dict[str, Any] = {}
    element = item.element_type
    python_type: Any
    if element in _PRIMITIVES:
        python_type = _PRIMITIVES[element][0]
        metadata["kafka_type"] = element
    else:
        python_type = _make(owner + element, item.fields, nested, nested)
    default = item.default_value(version)
    if default is _NESTED:
        default = python_type()
    if item.is_array:
        python_type = _array_of(python_type)
    if item.is_nullable(version) and (item.is_array or element != "uuid"):
        python_type = python_type | None
    if item.is_tagged(version):
        metadata["tag"] = item.tag
    return (item.attribute, python_type, field(metadata=metadata, default=default))
