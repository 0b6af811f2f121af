"""How records of the coordinators' topics are framed: the key is the record type (int16) and its body, the value is a
version (int16) and its body (CoordinatorRecordSerde)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kafkatools.core.protocol.schemas.definition import Schema, write_entity
from kafkatools.core.protocol.schemas.errors import RecordFormatError, UnknownRecordType


def _read_version(buffer: bytes | memoryview, what: str) -> int:
    if len(buffer) < 2:
        raise RecordFormatError(f"Could not read version from {what}'s buffer due to: too few bytes.")
    return int.from_bytes(buffer[:2], "big", signed=True)


class CoordinatorRecords:
    """The record types of one coordinator's topic, by the type id of their keys."""

    def __init__(self, keys: Iterable[Schema], values: Iterable[Schema]) -> None:
        self.keys = {schema.api_key: schema for schema in keys}
        self.values = {schema.api_key: schema for schema in values}

    def decode_key(self, key: bytes | memoryview) -> Any:
        """The entity of a key; raises UnknownRecordType, RecordFormatError."""
        type_id = _read_version(key, "key")
        if type_id not in self.keys:
            raise UnknownRecordType(type_id)
        return self.keys[type_id].read(0, key, 2)[0]

    def decode(self, key: bytes | memoryview, value: bytes | memoryview | None) -> tuple[Any, Any | None]:
        """The entities of key and value; None for the value of a tombstone."""
        key_entity = self.decode_key(key)
        if value is None:
            return key_entity, None
        version = _read_version(value, "value")
        return key_entity, self.values[key_entity.__api_key__].read(version, value, 2)[0]

    def encode(self, key: Any, value: Any | None) -> tuple[bytes, bytes | None]:
        """The bytes of a pair of entities."""
        key_bytes = key.__api_key__.to_bytes(2, "big", signed=True) + write_entity(key)
        if value is None:
            return key_bytes, None
        return key_bytes, value.__version__.to_bytes(2, "big", signed=True) + write_entity(value)
