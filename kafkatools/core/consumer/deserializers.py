"""Kafka's built-in deserializers by class name, to Python objects or to the text of Java's toString.

Rules: no class is imported by name; plugins add deserializers (docs/plugins.md). A null never reaches a deserializer.
Errors have Kafka's wording.
ByteArrayDeserializer and ByteBufferDeserializer return the bytes, where Java prints an object identity. Source:
org.apache.kafka.common.serialization.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from kafkatools.core.errors import ConfigError, SerializationError
from kafkatools.core.java.text import java_boolean, java_double, java_float

if TYPE_CHECKING:
    from uuid import UUID

Deserializer = Callable[[bytes], bytes]
_Functions = tuple[Callable[[bytes], object], Callable[[Any], str] | None]

PLUGIN_GROUP = "kafkatools.deserializers"
_PACKAGE = "org.apache.kafka.common.serialization."


class DeserializerPlugin(NamedTuple):
    """A deserializer of another distribution: `deserialize` turns bytes into an object, `text` that object into the
    text that commands print."""

    deserialize: Callable[[bytes], object]
    text: Callable[[Any], str] = str


def _number(layout: str, name: str) -> Callable[[bytes], float]:
    packed = struct.Struct(layout)

    def deserialize(data: bytes) -> float:
        if len(data) != packed.size:
            raise SerializationError(f"Size of data received by {name} is not {packed.size}")
        value: float = packed.unpack(data)[0]
        return value

    return deserialize


def _string(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def _boolean(data: bytes) -> bool:
    if len(data) != 1:
        raise SerializationError("Size of data received by BooleanDeserializer is not 1")
    if data not in (b"\x00", b"\x01"):
        raise SerializationError(f"Unexpected byte received by BooleanDeserializer: {data[0]}")
    return data == b"\x01"


def _uuid(data: bytes) -> UUID:
    import uuid

    try:
        return uuid.UUID(_string(data))
    except ValueError as error:
        raise SerializationError("Error parsing data into UUID") from error


def _escaped(data: bytes) -> str:
    return "".join(chr(b) if 32 <= b <= 126 and b != 92 else f"\\x{b:02X}" for b in data)


def _void(data: bytes) -> str:
    raise SerializationError("Data should be null for a VoidDeserializer.")


_BUILT_IN: Final[dict[str, _Functions]] = {
    "StringDeserializer": (_string, str),
    "LongDeserializer": (_number(">q", "LongDeserializer"), str),
    "IntegerDeserializer": (_number(">i", "IntegerDeserializer"), str),
    "ShortDeserializer": (_number(">h", "ShortDeserializer"), str),
    "FloatDeserializer": (_number(">f", "Deserializer"), java_float),
    "DoubleDeserializer": (_number(">d", "Deserializer"), java_double),
    "BooleanDeserializer": (_boolean, java_boolean),
    "UUIDDeserializer": (_uuid, str),
    "BytesDeserializer": (bytes, _escaped),
    "ByteArrayDeserializer": (bytes, None),
    "ByteBufferDeserializer": (bytes, None),
    "VoidDeserializer": (_void, str),
}
"""By class name: bytes to the Python object, and the object to Java's text; None: shown as the bytes that it is."""


def deserializer(name: str) -> Deserializer:
    """Return a Kafka deserializer's function from bytes to the UTF-8 text that Java prints; the byte array classes
    return the bytes unchanged. Raises ConfigError for an unknown class. The function raises SerializationError for
    bytes that it cannot read."""
    make, text = _built_in(name)
    return bytes if text is None else lambda data: text(make(data)).encode()


def object_deserializer(name: str) -> Callable[[bytes], object]:
    """Return a Kafka deserializer's function from bytes to an object. Raises ConfigError for an unknown class. The
    function raises SerializationError for bytes that it cannot read."""
    return _built_in(name)[0]


def _built_in(name: str) -> _Functions:
    functions = _BUILT_IN.get(name.strip().removeprefix(_PACKAGE)) or _of_plugin(name.strip())
    if functions is None:
        names = ", ".join(sorted(_BUILT_IN))
        raise ConfigError(f"Unknown deserializer {name}. Known ones, all of {_PACKAGE[:-1]}: {names}")
    return functions


def _of_plugin(name: str) -> _Functions | None:
    """Return the functions of a plugin's deserializer, None without one. What they raise becomes SerializationError.
    Raises PluginError."""
    from kafkatools.core.entry_points import find_object
    from kafkatools.core.plugin_calls import PluginCalls

    found = find_object(PLUGIN_GROUP, name, DeserializerPlugin)
    if found is None:
        return None
    point, plugin = found
    calls = PluginCalls(point, SerializationError)
    return (
        lambda data: calls.call(plugin.deserialize, data),
        lambda value: calls.checked("text", calls.call(plugin.text, value), str),
    )
