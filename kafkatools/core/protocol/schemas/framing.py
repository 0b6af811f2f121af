"""The framing of records in internal topics.

- Coordinators' topics: the key is the record type (int16) and its body, the value a version (int16) and its body
  (CoordinatorRecordSerde).
- Metadata topics: the value is a frame version, the record type and its version as unsigned varints, and the body
  (AbstractApiMessageSerde); there is no key.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafkatools.core.errors import DecodeError
from kafkatools.core.protocol.entities import Entity
from kafkatools.core.protocol.schemas.errors import RecordFormatError, UnknownRecordType
from kafkatools.core.protocol.schemas.schema import Schema, write_entity
from kafkatools.core.protocol.varints import read_unsigned_varint, unsigned_varint


def _read(schema: Schema, version: int, data: bytes | memoryview, source: str) -> Entity:
    try:
        return schema.read(version, data, 2)[0]
    except RecordFormatError as problem:
        raise RecordFormatError(f"Could not read record with {source}'s buffer due to: {problem}.") from problem


def _read_version(buffer: bytes | memoryview, source: str) -> int:
    if len(buffer) < 2:
        raise RecordFormatError(f"Could not read version from {source}'s buffer.")
    return int.from_bytes(buffer[:2], "big", signed=True)


FRAME_VERSION = 1
_LARGEST_SHORT = 32767


class FramedRecords:
    """The record types of a metadata topic, framed with type and version as varints (AbstractApiMessageSerde)."""

    def __init__(self, schemas: Iterable[Schema]) -> None:
        self.schemas = {schema.api_key: schema for schema in schemas}

    def decode(self, frame: bytes | memoryview) -> Entity:
        """Decode a record value. Raises RecordFormatError, also for bytes after it, and UnknownRecordType, with Kafka's
        message."""
        frame_version, position = _read_short(frame, 0, "frame version")
        if frame_version != FRAME_VERSION:
            raise RecordFormatError(_frame_version_message(frame_version))
        api_key, position = _read_short(frame, position, "type")
        version, position = _read_short(frame, position, "version")
        if api_key not in self.schemas:
            raise UnknownRecordType(
                api_key, f"org.apache.kafka.common.errors.UnsupportedVersionException: Unknown metadata id {api_key}"
            )
        try:
            entity, size = self.schemas[api_key].read(version, frame, position)
        except RecordFormatError as problem:
            raise RecordFormatError(f"Failed to deserialize record with type {api_key}") from problem
        garbage = len(frame) - position - size
        if garbage > 0:
            raise RecordFormatError(f"Found {garbage} byte(s) of garbage after {api_key}")
        return entity

    def encode(self, entity: Entity) -> bytes:
        """Encode an entity as a framed record value."""
        numbers = (FRAME_VERSION, entity.__api_key__, entity.__version__)
        return b"".join(map(unsigned_varint, numbers)) + write_entity(entity)


def _read_short(frame: bytes | memoryview, position: int, field: str) -> tuple[int, int]:
    try:
        number, position = read_unsigned_varint(frame, position)
    except DecodeError as problem:
        raise RecordFormatError(f"Error while reading {field}") from problem
    if number > _LARGEST_SHORT:
        raise RecordFormatError(f"Value for {field} was too large.")
    return number, position


def _frame_version_message(frame_version: int) -> str:
    start = "Could not deserialize metadata record "
    if frame_version == 0:
        return (
            f"{start}with frame version 0. "
            "Note that upgrades from the preview release of KRaft in 2.8 to newer versions are not supported."
        )
    return f"{start}due to unknown frame version {frame_version}(only frame version {FRAME_VERSION} is supported)"


class CoordinatorRecords:
    """The record types of one coordinator's topic, by the type id in their keys."""

    def __init__(self, keys: Iterable[Schema], values: Iterable[Schema]) -> None:
        self.keys = {schema.api_key: schema for schema in keys}
        self.values = {schema.api_key: schema for schema in values}

    def decode_key(self, key: bytes | memoryview) -> Entity:
        """Decode a record key; bytes after it are ignored. Raises UnknownRecordType, RecordFormatError."""
        type_id = _read_version(key, "key")
        if type_id not in self.keys:
            raise UnknownRecordType(type_id)
        return _read(self.keys[type_id], 0, key, f"version {type_id} from key")

    def decode(self, key: bytes | memoryview, value: bytes | memoryview | None) -> tuple[Entity, Entity | None]:
        """Decode key and value; the value is None for a tombstone. Bytes after them are ignored. Raises
        UnknownRecordType, RecordFormatError."""
        key_entity = self.decode_key(key)
        if value is None:
            return key_entity, None
        version = _read_version(value, "value")
        schema = self.values[key_entity.__api_key__]
        if version not in schema.valid_versions:
            raise RecordFormatError(f"Found an unknown record version {version} for {schema.api_key} type")
        return key_entity, _read(schema, version, value, f"version {version} from value")

    def encode(self, key: Entity, value: Entity | None) -> tuple[bytes, bytes | None]:
        """Encode a record's key and value; a value of None is a tombstone."""
        key_bytes = key.__api_key__.to_bytes(2, "big", signed=True) + write_entity(key)
        if value is None:
            return key_bytes, None
        return key_bytes, value.__version__.to_bytes(2, "big", signed=True) + write_entity(value)
