"""Serializers: convert keys and values to bytes (org.apache.kafka.common.serialization).

A Serializer is `callable(topic, value) -> bytes | None`; None is a null and stays None. Names are those of Kafka's
classes, with or without the package, or of plugins (docs/plugins.md); no class is imported by name. A caller passes a
function of the value or an object with `serialize(topic, value)`, which is not called for None.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Protocol

from kafkatools.core.errors import ConfigError, SerializationError

Serializer = Callable[[str, object], "bytes | None"]


class SerializerObject(Protocol):
    """The interface of a serializer object, which gets the topic too."""

    def serialize(self, topic: str, value: Any) -> bytes | None:
        """Convert a value to bytes; None is a null."""


class SerializerPlugin(NamedTuple):
    """A serializer of another distribution: `serialize(topic, value)` returns bytes, or None for a null."""

    serialize: Callable[[str, Any], bytes | None]


AnySerializer = Callable[[Any], "bytes | None"] | SerializerObject

PLUGIN_GROUP = "kafkatools.deserializers"
_PACKAGE = "org.apache.kafka.common.serialization."


def serialize_bytes(topic: str, value: object) -> bytes | None:
    """Return bytes, bytearray or memoryview as bytes, None as None (ByteArraySerializer). Raises SerializationError for
    other types."""
    if value is None or type(value) is bytes:
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise SerializationError(f"Can't convert value of class {type(value).__name__} to bytes for topic {topic}")


def serialize_string(topic: str, value: object) -> bytes | None:
    """Encode a str as UTF-8, None as None (StringSerializer). Surrogates from `surrogateescape` become the original
    bytes. Raises SerializationError for other types, UnicodeEncodeError for other surrogates."""
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    raise SerializationError(f"Can't convert value of class {type(value).__name__} to a string for topic {topic}")


def _packer(name: str, layout: str) -> Serializer:
    pack = struct.Struct(layout).pack

    def serialize(topic: str, value: object) -> bytes | None:
        if value is None:
            return None
        try:
            return pack(value)
        except struct.error as error:
            raise SerializationError(f"Can't serialize {value!r} as {name} for topic {topic}: {error}") from None

    return serialize


def _serialize_void(topic: str, value: object) -> bytes | None:
    if value is not None:
        raise SerializationError(f"Data should be null for topic {topic} with the void serializer")
    return None


SERIALIZERS: dict[str, Serializer] = {
    "ByteArraySerializer": serialize_bytes,
    "BytesSerializer": serialize_bytes,
    "ByteBufferSerializer": serialize_bytes,
    "StringSerializer": serialize_string,
    "ShortSerializer": _packer("a 16-bit integer", ">h"),
    "IntegerSerializer": _packer("a 32-bit integer", ">i"),
    "LongSerializer": _packer("a 64-bit integer", ">q"),
    "FloatSerializer": _packer("a 32-bit float", ">f"),
    "DoubleSerializer": _packer("a 64-bit float", ">d"),
    "BooleanSerializer": lambda topic, value: None if value is None else bytes((bool(value),)),
    "UUIDSerializer": lambda topic, value: None if value is None else str(value).encode(),
    "VoidSerializer": _serialize_void,
}


def serializer_for(setting: str, serializer: str | AnySerializer | None) -> Serializer:
    """The serializer of a setting: by class name, by a caller's function or object, or for bytes when None or empty.
    Raises ConfigError for an unknown name and for an object that cannot serialize, PluginError for a plugin's."""
    if serializer is None or serializer == "":
        return serialize_bytes
    if not isinstance(serializer, str):
        return _uniform(serializer)
    by_name = SERIALIZERS.get(serializer.removeprefix(_PACKAGE))
    if by_name is not None:
        return by_name
    of_plugin = _of_plugin(serializer)
    if of_plugin is None:
        raise class_not_found(setting, serializer, SERIALIZERS)
    return of_plugin


def _of_plugin(name: str) -> Serializer | None:
    """Return a plugin's serializer, None without one. What it raises, and results other than bytes or None, become
    SerializationError. Raises PluginError."""
    from kafkatools.core.entry_points import find_object
    from kafkatools.core.plugin_calls import PluginCalls

    found = find_object(PLUGIN_GROUP, name, SerializerPlugin)
    if found is None:
        return None
    point, plugin = found
    calls = PluginCalls(point, SerializationError)

    def serialize(topic: str, value: object) -> bytes | None:
        if value is None:
            return None
        try:
            data: object = calls.call(plugin.serialize, topic, value)
        except SerializationError as error:
            raise SerializationError(f"Can't serialize {value!r} for topic {topic}: {error}") from error.__cause__
        if data is not None and not isinstance(data, bytes | bytearray | memoryview):
            raise calls.wrong("serialize", data, "bytes or None")
        return serialize_bytes(topic, data)

    return serialize


def class_not_found(setting: str, name: str, names: Iterable[str]) -> ConfigError:
    """The ConfigError for a class name of a serializer or partitioner that is not one of the known names."""
    return ConfigError(
        f"Invalid value {name} for configuration {setting}: Class {name} could not be found. "
        f"Known here: {', '.join(names)}"
    )


def _uniform(serializer: AnySerializer) -> Serializer:
    """Wrap a caller's serializer: its exceptions, and results other than bytes or None, become SerializationError.
    Raises ConfigError for an object that is neither callable nor has `serialize`."""
    method = getattr(serializer, "serialize", None)
    if method is None and not callable(serializer):
        raise ConfigError(
            f"{serializer!r} is not a serializer: pass a function or an object with serialize(topic, value)"
        )

    def serialize(topic: str, value: object) -> bytes | None:
        if value is None:
            return None
        try:
            data = method(topic, value) if method is not None else serializer(value)  # type: ignore[operator]
        except Exception as error:
            raise SerializationError(f"Can't serialize {value!r} for topic {topic}: {error}") from error
        return serialize_bytes(topic, data)

    return serialize
