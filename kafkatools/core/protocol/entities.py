"""Entities: immutable objects for decoded messages, one class for each structure in each version.

An entity is a tuple of its fields, tagged ones last, with an attribute for each field. Times are integers in ms, error
codes are integers, arrays are tuples, a zero uuid is None. The constructor takes fields by name and uses defaults for
the others; nested mappings and sequences become entities and tuples. A request also has the fields of other versions,
with their defaults (a structure is None), so that a handler can read them in every version.
"""

from __future__ import annotations

from _collections import _tuplegetter  # type: ignore[import-not-found]
from collections.abc import Iterable, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, TypeGuard

from kafkatools.core.protocol.codec import ARRAY, KINDS, NULLABLE, STRUCTURE, Layout
from kafkatools.core.protocol.definitions import NEWEST, Definition, Field, definition_of

Fields = dict[str, Any]
"""The fields of a message by name; nested structures are Fields and lists of them."""


class Entity(tuple[Any, ...]):
    """The base class of all entities. A subclass is one structure of a message in one version. The constructor raises
    TypeError for a field that the version lacks, but ignores such fields in nested mappings."""

    __slots__ = ()
    __layout__: ClassVar[Layout]
    __schema__: ClassVar[Definition]
    __version__: ClassVar[int]
    __api_key__: ClassVar[int]
    __flexible__: ClassVar[bool]
    __fields__: ClassVar[tuple[Field, ...]]

    def __new__(cls, **values: object) -> Entity:
        unknown = values.keys() - set(cls.__layout__.names)
        if unknown:
            raise TypeError(f"{cls.__name__} v{cls.__version__} has no field {', '.join(sorted(unknown))}")
        return entity_of(cls.__layout__, values)

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            """A field of the message; its type is in the message's definition."""

    def replaced(self, **values: object) -> Entity:
        """Return a copy with these fields replaced. Raises TypeError for a field that this version lacks."""
        return type(self)(**{**dict(zip(self.__layout__.names, self, strict=True)), **values})

    def __bool__(self) -> bool:
        return True

    def __repr__(self) -> str:
        pairs = zip(self.__layout__.names, self, strict=True)
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in pairs)})"

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and tuple.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = tuple.__hash__


def entity_of(layout: Layout, fields: Mapping[str, object]) -> Entity:
    """Build an entity from a mapping of field names to values. A key that is no field of this version is ignored."""
    values = [
        _value(layout, index, fields[name]) if name in fields else layout.defaults[index]
        for index, name in enumerate(layout.names)
    ]
    entity: Entity = tuple.__new__(layout.type, values)
    return entity


def _value(layout: Layout, index: int, value: Any) -> object:
    nested = layout.layouts[index]
    if value is None:
        return None
    if layout.codes[index] & ARRAY:
        if nested is None:
            return tuple(value)
        return tuple([entity_of(nested, element) if is_mapping(element) else element for element in value])
    return entity_of(nested, value) if nested is not None and is_mapping(value) else value


def is_mapping(value: object) -> TypeGuard[Mapping[str, Any]]:
    """Return whether a value is a mapping. The check against the abstract class takes ten times as long as the two that
    decide for dictionaries and entities."""
    return isinstance(value, dict) or (not isinstance(value, tuple) and isinstance(value, Mapping))


@cache
def entity_type(name: str, version: int) -> type[Entity]:
    """Return the entity class of a message in a version. Raises KeyError for an unknown message or version."""
    definition = definition_of(name)
    if version not in definition.versions:
        raise KeyError(version)
    entity_class: type[Entity] = _layout(definition, name, definition.fields, version).type
    return entity_class


def _layout(definition: Definition, name: str, fields: tuple[Field, ...], version: int) -> Layout:
    present = [field for field in fields if version in field.versions]
    plain = [field for field in present if not field.is_tagged(version)]
    tagged = sorted((field for field in present if field.is_tagged(version)), key=lambda field: field.tag or 0)
    is_flexible = version in definition.flexible
    members: dict[str, object] = {
        "__slots__": (),
        "__schema__": definition,
        "__version__": version,
        "__api_key__": definition.api_key,
        "__flexible__": is_flexible,
        "__fields__": tuple(present),
    }
    for index, field in enumerate(plain + tagged):
        members[field.name] = _tuplegetter(index, None)
    if definition.name.endswith("Request"):
        absent = [field for field in fields if version not in field.versions]
        members |= {field.name: _default_of_request(field) for field in absent}
    entity_class: Any = type(name, (Entity,), members)
    descriptions = [_described(definition, field, version) for field in plain + tagged]
    tags = [field.tag or 0 for field in tagged]
    entity_class.__layout__ = Layout(entity_class, descriptions, tags, is_flexible, definition.is_record)
    return entity_class.__layout__  # type: ignore[no-any-return]


def _default_of_request(field: Field) -> object:
    return None if field.is_structure and not field.is_array else field.default(NEWEST)


def _described(definition: Definition, field: Field, version: int) -> tuple[str, int, Layout | None, object]:
    """Return a field in the form that Layout takes: name, code, layout of its structure or None, default."""
    nested = _layout(definition, field.type, field.fields, version) if field.is_structure else None
    code = STRUCTURE if nested is not None else KINDS[field.type]
    if field.is_array:
        code += ARRAY
    if version in field.null:
        code += NULLABLE
    if nested is None or field.is_array or field.has_null_default(version):
        default = field.default(version)
    else:
        default = nested.type()
    return field.name, code, nested, default


def result_of(topics: Iterable[Entity], partition: tuple[str, int]) -> Entity | None:
    """Return the result of one partition in the `topics` of a response such as ListOffsets, None without one."""
    results = (result for topic in topics if topic.name == partition[0] for result in topic.partitions)
    return next((result for result in results if result.partition_index == partition[1]), None)
