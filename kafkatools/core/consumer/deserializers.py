"""Kafka's built-in deserializers by class name: bytes to the text that Java's toString gives, or to Python objects.

Rules: a closed list; a name from outside is never imported. A null never reaches a deserializer. Errors carry Kafka's
wording. Two differ from Java on purpose: ByteArrayDeserializer and ByteBufferDeserializer give the bytes themselves,
where Java prints an object's identity. Source: org.apache.kafka.common.serialization.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from kafkatools.core.errors import ConfigError, SerializationError
from kafkatools.core.java.text import java_double, java_float

if TYPE_CHECKING:
    from uuid import UUID

Deserializer = Callable[[bytes], bytes]

_PACKAGE = "org.apache.kafka.common.serialization."


def _sized(layout: str, name: str, text: Callable[[float], str] = str) -> Deserializer:
    packed = struct.Struct(layout)

    def deserialize(data: bytes) -> bytes:
        if len(data) != packed.size:
            raise SerializationError(f"Size of data received by {name} is not {packed.size}")
        return text(packed.unpack(data)[0]).encode()

    return deserialize


def _string(data: bytes) -> bytes:
    return data.decode("utf-8", "replace").encode()


def _boolean(data: bytes) -> bytes:
    if len(data) != 1:
        raise SerializationError("Size of data received by BooleanDeserializer is not 1")
    if data not in (b"\x00", b"\x01"):
        raise SerializationError(f"Unexpected byte received by BooleanDeserializer: {data[0]}")
    return b"true" if data == b"\x01" else b"false"


def _uuid(data: bytes) -> bytes:
    import uuid

    try:
        return str(uuid.UUID(data.decode("utf-8", "replace"))).encode()
    except ValueError as error:
        raise SerializationError("Error parsing data into UUID") from error


def _bytes(data: bytes) -> bytes:
    return "".join(chr(b) if 32 <= b <= 126 and b != 92 else f"\\x{b:02X}" for b in data).encode()


def _void(data: bytes) -> bytes:
    raise SerializationError("Data should be null for a VoidDeserializer.")


_BUILT_IN: Final[dict[str, Deserializer]] = {
    "StringDeserializer": _string,
    "LongDeserializer": _sized(">q", "LongDeserializer"),
    "IntegerDeserializer": _sized(">i", "IntegerDeserializer"),
    "ShortDeserializer": _sized(">h", "ShortDeserializer"),
    "FloatDeserializer": _sized(">f", "Deserializer", java_float),
    "DoubleDeserializer": _sized(">d", "Deserializer", java_double),
    "BooleanDeserializer": _boolean,
    "UUIDDeserializer": _uuid,
    "BytesDeserializer": _bytes,
    "ByteArrayDeserializer": bytes,
    "ByteBufferDeserializer": bytes,
    "VoidDeserializer": _void,
}


def deserializer(name: str) -> Deserializer:
    """The deserializer of a class name, with Kafka's package or without; ConfigError for a name not on the list."""
    return _BUILT_IN[_simple_name(name)]


def object_deserializer(name: str) -> Callable[[bytes], object]:
    """The same list, giving str, int, float, bool, uuid.UUID or bytes. Raises ConfigError likewise."""
    simple = _simple_name(name)
    made = _OBJECTS.get(simple)
    return bytes if made is None else _checked(_BUILT_IN[simple], made)


def _simple_name(name: str) -> str:
    simple = name.strip().removeprefix(_PACKAGE)
    if simple not in _BUILT_IN:
        known = ", ".join(sorted(_BUILT_IN))
        raise ConfigError(f"Unknown deserializer {name}. Known ones, all of {_PACKAGE[:-1]}: {known}")
    return simple


def _checked(check: Deserializer, make: Callable[[bytes], object]) -> Callable[[bytes], object]:
    """Refuses what the deserializer of that name refuses, in its words."""

    def deserialize(data: bytes) -> object:
        text = check(data)
        return make(data) if make is not _from_text else text.decode()

    return deserialize


def _from_text(data: bytes) -> str:
    return data.decode()


def _unpacked(layout: str) -> Callable[[bytes], object]:
    packed = struct.Struct(layout)
    return lambda data: packed.unpack(data)[0]


def _uuid_object(data: bytes) -> UUID:
    import uuid

    return uuid.UUID(data.decode())


_OBJECTS: Final[dict[str, Callable[[bytes], object]]] = {
    "StringDeserializer": _from_text,
    "LongDeserializer": _unpacked(">q"),
    "IntegerDeserializer": _unpacked(">i"),
    "ShortDeserializer": _unpacked(">h"),
    "FloatDeserializer": _unpacked(">f"),
    "DoubleDeserializer": _unpacked(">d"),
    "BooleanDeserializer": lambda data: data == b"\x01",
    "UUIDDeserializer": _uuid_object,
    "VoidDeserializer": _from_text,
}
