"""Kafka's requests and responses: their types by API key and version, their bytes, and entities made from plain fields.

The classes are kio's, generated from Kafka's own message definitions; a type costs one small import when it is first
asked for. Entities hold times as kio does (timedelta, aware datetime); `build` also takes ints of ms.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from kafkatools.core.errors import DecodeError, UnsupportedVersion
from kafkatools.core.protocol import kio_import
from kafkatools.core.protocol.api_versions import ApiKey, versions_of
from kafkatools.core.protocol.entity_bounds import is_sound
from kafkatools.core.protocol.plans import FieldPlan, has_datetimes, plan_of, to_kio
from kafkatools.core.protocol.slices import is_paced

Buffer = bytes | bytearray | memoryview

# kio's native reader is worth its load time after so many entities of one type. It never reads a type with a datetime:
# it gets there through a float, which is off by some microseconds in far years, so that the ms would change.
NATIVE_AFTER = 8
# A larger one is read by our own reader where work is done in slices: the native reader cannot be interrupted.
MOST_UNSLICED_BYTES = 32 * 1024

_decoded: Counter[Any] = Counter()


@cache
def request_type(api_key: int, version: int) -> Any:
    """The class of a request. Raises UnsupportedVersion."""
    return _entity_type(api_key, version, "Request")


@cache
def response_type(api_key: int, version: int) -> Any:
    """The class of a response. Raises UnsupportedVersion."""
    return _entity_type(api_key, version, "Response")


def _entity_type(api_key: int, version: int, kind: str) -> Any:
    try:
        api = ApiKey(api_key)
    except ValueError:
        raise UnsupportedVersion(f"There is no API with key {api_key}") from None
    if version not in versions_of(api):
        raise UnsupportedVersion(f"{api.label} has no version {version} here")
    module = kio_import.load(f"kio.schema.{api.name.lower()}.v{version}.{kind.lower()}")
    return getattr(module, api.label + kind)


def encode(entity: Any) -> bytes:
    """The bytes of an entity."""
    from kafkatools.core.protocol.entity_writer import writer_of

    entity_type: Any = type(entity)
    out = bytearray()
    writer_of(entity_type)(out, entity)
    return bytes(out)


def encode_fields(entity_type: Any, fields: Mapping[str, Any]) -> bytes:
    """The bytes of an entity of plain fields as `build` takes them; fields that this version lacks are left out."""
    from kafkatools.core.protocol.entity_writer import fields_writer_of

    out = bytearray()
    fields_writer_of(entity_type)(out, fields)
    return bytes(out)


def _native_reader(entity_type: Any) -> Any:
    from kio.serial import entity_reader

    return entity_reader(entity_type)


def decode(entity_type: Any, buffer: Buffer, offset: int = 0) -> tuple[Any, int]:
    """The entity at `offset` and its size. Raises DecodeError for bytes that are none."""
    view = memoryview(buffer)
    is_native = _decoded[entity_type] >= NATIVE_AFTER and not (is_paced() and len(view) - offset > MOST_UNSLICED_BYTES)
    if is_native and is_sound(entity_type, view, offset):
        try:
            entity, size = _native_reader(entity_type)(view if view.readonly else view.toreadonly(), offset)
        except Exception:  # noqa: BLE001, S110  # kio's errors have no common base; the other reader says what is wrong
            pass
        else:
            return entity, size
    _decoded[entity_type] += not has_datetimes(entity_type)
    from kafkatools.core.protocol.entity_reader import read_entity

    return read_entity(entity_type, view, offset)


def decode_all(entity_type: Any, buffer: Buffer, offset: int = 0) -> Any:
    """The entity that fills the buffer from `offset` on; DecodeError when bytes are left over."""
    entity, size = decode(entity_type, buffer, offset)
    if offset + size != len(buffer):
        raise DecodeError(f"{len(buffer) - offset - size} bytes are left after {entity_type.__name__}")
    return entity


def build(entity_type: Any, fields: Mapping[str, Any]) -> Any:
    """An entity from plain fields: nested mappings and sequences become entities and tuples, missing fields defaults.

    A field that this version does not have is left out when it holds its default, else UnsupportedVersion.
    """
    plan = plan_of(entity_type)
    values = {}
    for field in plan.all_fields():
        values[field.name] = _value(field, fields[field.name]) if field.name in fields else field.default()
    if len(fields) > len(values) or not fields.keys() <= values.keys():
        _refuse_missing_fields(entity_type, {name: fields[name] for name in fields if name not in values})
    return entity_type(**values)


def _value(field: FieldPlan, given: Any) -> Any:
    if given is None:
        return None
    if field.type is not None:
        if field.is_array:
            return tuple(to_kio(field.type, item) for item in given)
        return to_kio(field.type, given)
    if field.is_array:
        return tuple(build(field.entity, item) if isinstance(item, Mapping) else item for item in given)
    return build(field.entity, given) if isinstance(given, Mapping) else given


def _refuse_missing_fields(entity_type: Any, fields: Mapping[str, Any]) -> None:
    for name, value in fields.items():
        is_empty = isinstance(value, (str, bytes, Sequence, Mapping)) and not value
        if value is None or is_empty or (value in (0, -1) and value is not False):
            continue
        if value != _default_in_newest(entity_type, name):
            raise UnsupportedVersion(f"{entity_type.__name__} v{entity_type.__version__} cannot carry {name}={value!r}")


def _default_in_newest(entity_type: Any, name: str) -> Any:
    """The default of a field in the newest version of the same top-level message; None when it has none there."""
    key = int(entity_type.__api_key__)
    if key not in ApiKey._value2member_map_:
        return None
    api = ApiKey(key)
    kind = entity_type.__name__.removeprefix(api.label)
    if kind not in ("Request", "Response"):
        return None
    newest: Any = _entity_type(key, versions_of(api)[-1], kind)
    for field in plan_of(newest).all_fields():
        if field.name == name:
            return field.default()
    return None
