"""Kafka's requests and responses: their entity classes by API key and version, and their bytes.

A class is made from the notation when it is first asked for. Entities hold times as integers of ms. A thread that works
in slices (slices.py) pauses while it decodes, counts and encodes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from kafkatools.core.errors import DecodeError, UnsupportedVersion
from kafkatools.core.protocol.api_versions import ApiKey, versions_of
from kafkatools.core.protocol.codec import NO_LIMIT, Reader, Shared, Writer
from kafkatools.core.protocol.definitions import NEWEST, Field
from kafkatools.core.protocol.entities import entity_of, entity_type
from kafkatools.core.protocol.slices import current_pause

__all__ = [
    "Shared",
    "build",
    "check_fields",
    "count_elements",
    "decode",
    "decode_all",
    "encode",
    "encode_fields",
    "request_type",
    "response_type",
]

Buffer = bytes | bytearray | memoryview


@cache
def request_type(api_key: int, version: int) -> Any:
    """The class of a request. Raises UnsupportedVersion."""
    return _message_type(api_key, version, "Request")


@cache
def response_type(api_key: int, version: int) -> Any:
    """The class of a response. Raises UnsupportedVersion."""
    return _message_type(api_key, version, "Response")


def _message_type(api_key: int, version: int, kind: str) -> Any:
    try:
        api = ApiKey(api_key)
    except ValueError:
        raise UnsupportedVersion(f"There is no API with key {api_key}") from None
    if version not in versions_of(api):
        raise UnsupportedVersion(f"{api.label} has no version {version} here")
    return entity_type(api.label + kind, version)


def encode(entity: Any) -> bytes:
    """The bytes of an entity. Raises ValueError for a value that its field cannot hold."""
    return encode_fields(type(entity), entity)


def encode_fields(message_type: Any, fields: Any) -> bytes:
    """The bytes of a message from a mapping (or an entity) by the names of its fields; missing ones are defaults.

    Fields that this version lacks are left out. Raises ValueError for a value that its field cannot hold.
    """
    writer = Writer(current_pause())
    writer.structure(message_type.__layout__, fields)
    return writer.result()


def decode(message_type: Any, buffer: Buffer, offset: int = 0) -> tuple[Any, int]:
    """The entity at `offset` and its size. Raises DecodeError for bytes that are none."""
    reader = Reader(buffer, offset, current_pause(), NO_LIMIT)
    return reader.entity(message_type.__layout__), reader.position - offset


def decode_all(message_type: Any, buffer: Buffer, offset: int = 0) -> Any:
    """The entity that fills the buffer from `offset` on; DecodeError when bytes are left over."""
    entity, size = decode(message_type, buffer, offset)
    if offset + size != len(buffer):
        raise DecodeError(f"{len(buffer) - offset - size} bytes are left after {message_type.__name__}")
    return entity


def count_elements(message_type: Any, buffer: Buffer, offset: int, most_elements: int) -> None:
    """Walk through a message without making values of it.

    Raises TooManyElements when its arrays and tagged fields together have more elements, DecodeError for bytes that are
    no such message.
    """
    Reader(buffer, offset, current_pause(), most_elements).skip(message_type.__layout__)


def build(message_type: Any, fields: Mapping[str, Any]) -> Any:
    """An entity from plain fields: nested mappings and sequences become entities and tuples, missing fields defaults.

    A field that this version does not have is left out when it holds its default, else UnsupportedVersion.
    """
    check_fields(message_type, fields)
    return entity_of(message_type.__layout__, fields)


def check_fields(message_type: Any, fields: Mapping[str, Any]) -> None:
    """Raise UnsupportedVersion for a field that the version lacks, unless it holds its default or nothing."""
    layout = message_type.__layout__
    for name, value in fields.items():
        if name not in layout.names:
            if not _says_nothing(value) and value != _default_of(message_type.__schema__.fields, name):
                version = message_type.__version__
                raise UnsupportedVersion(f"{message_type.__name__} v{version} cannot carry {name}={value!r}")
            continue
        nested = layout.layouts[layout.names.index(name)]
        if nested is not None and value is not None:
            for each in (value,) if isinstance(value, Mapping) else value:
                if isinstance(each, Mapping):
                    check_fields(nested.type, each)


def _says_nothing(value: Any) -> bool:
    is_empty = isinstance(value, (str, bytes, Sequence, Mapping)) and not value
    return value is None or is_empty or (value in (0, -1) and value is not False)


def _default_of(fields: Sequence[Field], name: str) -> Any:
    """The default of a field of the newest version by its name; None when the message has none of that name."""
    for field in fields:
        if field.name == name:
            return field.default(NEWEST)
    for field in fields:
        found = _default_of(field.fields, name)
        if found is not None:
            return found
    return None
