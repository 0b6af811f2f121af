"""Kafka's messages by kio, an independent implementation: its classes, and random values for their fields."""

import dataclasses
import datetime
import importlib
import io
import pathlib
import random
import uuid
from types import UnionType
from typing import Any, Union, get_args, get_origin

import kio.schema
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer

# kio reads times into datetime, which ends with the year 9999
_TIMES = {"timedelta_i32": 31, "timedelta_i64": 45, "datetime_i64": 43}
_BITS = {"int8": 7, "int16": 15, "int32": 31, "int64": 63}
_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def kio_modules() -> list[tuple[int, str]]:
    """Version and module of every message, but for the headers. Imports none of them: together they take seconds."""
    root = pathlib.Path(kio.schema.__path__[0])
    paths = sorted(path.relative_to(root) for path in root.glob("*/v*/*.py") if path.name != "__init__.py")
    return [
        (int(path.parts[1][1:]), ".".join(("kio.schema", *path.with_suffix("").parts)))
        for path in paths
        if not path.parts[0].endswith("_header")
    ]


def kio_type(name: str) -> Any:
    """The class of the message that a module defines: the last one, behind the structures of its fields."""
    module = importlib.import_module(name)
    classes = [item for item in vars(module).values() if dataclasses.is_dataclass(item)]
    return [item for item in classes if item.__module__ == name][-1]


def random_fields(kio_type: Any, chance: random.Random) -> dict[str, Any]:
    """A value for each field: times as integers of ms, structures as mappings; now and then a null or nothing."""
    return {item.name: _random_value(item, chance) for item in dataclasses.fields(kio_type)}


def _random_value(item: Any, chance: random.Random) -> Any:
    nullable, inner = without_none(item.type)
    kind = item.metadata.get("kafka_type", "")
    # kio writes a tagged field that is null as it writes a plain one
    if nullable and kind not in ("uuid", *_TIMES) and item.metadata.get("tag") is None and chance.random() < 0.2:
        return None
    if get_origin(inner) is tuple:
        element = without_none(get_args(inner)[0])[1]
        return tuple(_random_element(element, kind, chance) for _ in range(chance.choice((0, 1, 2, 3))))
    return _random_element(inner, kind, chance)


def _random_element(kio_type: Any, kind: str, chance: random.Random) -> Any:
    if dataclasses.is_dataclass(kio_type):
        return random_fields(kio_type, chance)
    if kind == "bool":
        return chance.random() < 0.5
    if kind == "error_code":
        return int(chance.choice(list(ErrorCode)))
    if kind in _TIMES:
        return chance.getrandbits(_TIMES[kind])
    if kind in _BITS:
        return chance.getrandbits(_BITS[kind]) - chance.choice((0, 1 << _BITS[kind]))
    if kind in ("uint16", "uint32"):
        return chance.getrandbits(int(kind[4:]))
    if kind == "uuid":
        return uuid.UUID(int=chance.getrandbits(128)) if chance.random() < 0.8 else None
    if kind == "float64":
        return chance.random()
    if kind == "string":
        return "".join(chance.choice("aé0€🙂.") for _ in range(chance.choice((0, 1, 5, 200))))
    return chance.randbytes(chance.choice((0, 1, 7, 300)))


def without_none(annotation: Any) -> tuple[bool, Any]:
    """Whether an annotation has None in it, and the other type."""
    if get_origin(annotation) not in (UnionType, Union):
        return False, annotation
    return True, next(each for each in get_args(annotation) if each is not type(None))


def read(kio_type: Any, data: bytes) -> Any:
    """kio's entity of these bytes, all of them."""
    entity, size = entity_reader(kio_type)(data, 0)
    assert size == len(data)
    return entity


def written(entity: Any) -> bytes:
    """The bytes of kio's entity."""
    buffer = io.BytesIO()
    entity_writer(type(entity))(buffer, entity)
    return buffer.getvalue()


def plain(value: Any) -> Any:
    """A value of kio's entity as mappings, integers and tuples; a time that is None is -1."""
    if dataclasses.is_dataclass(value):
        return {item.name: _plain_field(item, getattr(value, item.name)) for item in dataclasses.fields(value)}
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    if isinstance(value, datetime.datetime):
        value = value - _EPOCH
    if isinstance(value, datetime.timedelta):
        # kio goes through floats of seconds
        return (value + datetime.timedelta(microseconds=500)) // datetime.timedelta(milliseconds=1)
    return value


def _plain_field(item: Any, value: Any) -> Any:
    if value is None and item.metadata.get("kafka_type") in _TIMES:
        return -1
    return plain(value)
