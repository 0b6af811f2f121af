"""Encode and decode Kafka's requests and responses, and look up their entity classes by API key and version.

A class is built from the message's definition when it is first used. Times in entities are integers in ms. On a thread
that works in slices (slices.py), decoding, counting and encoding may pause.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from kafkatools.core.errors import UnsupportedVersion
from kafkatools.core.protocol.api_versions import ApiKey, versions_of
from kafkatools.core.protocol.codec import NO_LIMIT, Reader, Writer
from kafkatools.core.protocol.codec import Shared as Shared
from kafkatools.core.protocol.definitions import NEWEST, Field
from kafkatools.core.protocol.entities import Entity, entity_of, entity_type, is_mapping
from kafkatools.core.protocol.slices import current_pause

Buffer = bytes | bytearray | memoryview


@cache
def request_type(api_key: int, version: int) -> type[Entity]:
    """Return the entity class of a request. Raises UnsupportedVersion."""
    return _message_type(api_key, version, "Request")


@cache
def response_type(api_key: int, version: int) -> type[Entity]:
    """Return the entity class of a response. Raises UnsupportedVersion."""
    return _message_type(api_key, version, "Response")


def _message_type(api_key: int, version: int, kind: str) -> type[Entity]:
    try:
        api = ApiKey(api_key)
    except ValueError:
        raise UnsupportedVersion(f"There is no API with key {api_key}") from None
    if version not in versions_of(api):
        raise UnsupportedVersion(f"{api.label} has no version {version} here")
    return entity_type(api.label + kind, version)


def encode(entity: Entity) -> bytes:
    """Encode an entity. Raises ValueError for a value that its field cannot hold."""
    return encode_fields(type(entity), entity)


def encode_fields(message_type: type[Entity], fields: Mapping[str, object] | Entity) -> bytes:
    """Encode a message from a mapping of field names to values, or from an entity. Missing fields get their defaults,
    and fields that this version lacks are ignored. Raises ValueError for a value that its field cannot hold."""
    writer = Writer(current_pause())
    writer.structure(message_type.__layout__, fields)
    return writer.result()


def decode(
    message_type: type[Entity], buffer: Buffer, offset: int = 0, most_elements: int = NO_LIMIT
) -> tuple[Entity, int]:
    """Decode the message at `offset`. Return its entity and its size in bytes. Raises DecodeError, and TooManyElements
    when its arrays and tagged fields have more than `most_elements`."""
    reader = Reader(buffer, offset, current_pause(), most_elements)
    return reader.entity(message_type.__layout__), reader.position - offset


def count_elements(message_type: type[Entity], buffer: Buffer, offset: int, most_elements: int) -> None:
    """Check the number of elements in a message without creating values. Raises TooManyElements when its arrays and
    tagged fields together have more than `most_elements`, DecodeError for malformed bytes."""
    Reader(buffer, offset, current_pause(), most_elements).skip(message_type.__layout__)


def build(message_type: type[Entity], fields: Mapping[str, object]) -> Entity:
    """Build an entity from plain fields: nested mappings become entities, sequences tuples, missing fields defaults.
    Raises UnsupportedVersion for a field that this version lacks, unless its value is empty or the default (see
    check_fields)."""
    check_fields(message_type, fields)
    return entity_of(message_type.__layout__, fields)


def check_fields(message_type: type[Entity], fields: Mapping[str, Any]) -> None:
    """Raise UnsupportedVersion for a field that the version lacks, at any depth. Allowed are empty values, None, 0, -1
    and the field's default."""
    layout = message_type.__layout__
    for name, value in fields.items():
        if name not in layout.names:
            if not _is_empty_or_unset(value) and value != _default_of(message_type.__schema__.fields, name):
                version = message_type.__version__
                raise UnsupportedVersion(f"{message_type.__name__} v{version} cannot carry {name}={value!r}")
            continue
        nested = layout.layouts[layout.names.index(name)]
        if nested is not None and value is not None:
            for structure in (value,) if is_mapping(value) else value:
                if is_mapping(structure):
                    check_fields(nested.type, structure)


def _is_empty_or_unset(value: object) -> bool:
    is_empty = isinstance(value, (str, bytes, Sequence, Mapping)) and not value
    return value is None or is_empty or (value in (0, -1) and value is not False)


def _default_of(fields: Sequence[Field], name: str) -> object:
    """Return a field's default in the newest version, None when no structure has the field."""
    for field in fields:
        if field.name == name:
            return field.default(NEWEST)
    for field in fields:
        default = _default_of(field.fields, name)
        if default is not None:
            return default
    return None
