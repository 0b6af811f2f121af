"""What an entity type of kio is made of, worked out once per type, for reading, writing and building."""

from __future__ import annotations

import uuid
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from types import UnionType
from typing import Any, NamedTuple, Union, get_args, get_origin

UUID_ZERO = uuid.UUID(int=0)

# how `struct` reads and writes the types of fixed size; times are integers of ms on the wire
NUMBER_LAYOUTS = {
    "bool": ">?",
    "int8": ">b",
    "int16": ">h",
    "int32": ">i",
    "int64": ">q",
    "uint8": ">B",
    "uint16": ">H",
    "uint32": ">I",
    "uint64": ">Q",
    "float64": ">d",
    "error_code": ">h",
}
MILLISECOND_LAYOUTS = {"timedelta_i32": ">i", "timedelta_i64": ">q", "datetime_i64": ">q"}

# The longest string in any version: Kafka neither writes nor reads a longer one
# (MessageDataGenerator).
MAX_STRING_BYTES = 32767

_ZEROES: dict[str, Any] = {"string": "", "bytes": b"", "records": b"", "bool": False, "uuid": None, "float64": 0.0}


class FieldPlan(NamedTuple):
    """One field: `type` is Kafka's type name, or None for a nested entity of type `entity`."""

    name: str
    type: str | None
    entity: Any
    is_array: bool
    is_nullable: bool
    tag: int | None
    declared_default: Any

    def default(self) -> Any:
        """The declared default, else the implicit one: null where allowed, zero, empty, an entity of defaults."""
        if self.declared_default is not MISSING:
            return self.declared_default
        if self.is_nullable:
            return None
        if self.is_array:
            return ()
        if self.type is None:
            return default_entity(self.entity)
        return to_kio(self.type, _ZEROES.get(self.type, 0))


class EntityPlan(NamedTuple):
    """The fields of an entity type in wire order, then the tagged ones by tag."""

    type: Any
    is_flexible: bool
    fields: tuple[FieldPlan, ...]
    tagged: tuple[FieldPlan, ...]

    def all_fields(self) -> tuple[FieldPlan, ...]:
        """Fields and tagged fields."""
        return self.fields + self.tagged


@cache
def plan_of(entity_type: Any) -> EntityPlan:
    """The plan of a type."""
    plans = [_field_plan(item) for item in fields(entity_type)]
    tagged = sorted((plan for plan in plans if plan.tag is not None), key=lambda plan: plan.tag or 0)
    plain = tuple(plan for plan in plans if plan.tag is None)
    return EntityPlan(entity_type, bool(entity_type.__flexible__), plain, tuple(tagged))


@cache
def has_datetimes(entity_type: Any) -> bool:
    """Whether a field of the type, or of an entity in it, is a point in time."""
    return any(
        has_datetimes(field.entity) if field.type is None else field.type.startswith("datetime")
        for field in plan_of(entity_type).all_fields()
    )


def _field_plan(item: Any) -> FieldPlan:
    nullable, inner = _strip_null(item.type)
    is_array = get_origin(inner) is tuple
    if is_array:
        _, inner = _strip_null(get_args(inner)[0])
    nested = is_dataclass(inner)
    return FieldPlan(
        item.name,
        None if nested else item.metadata["kafka_type"],
        inner if nested else None,
        is_array,
        nullable,
        item.metadata.get("tag"),
        item.default,
    )


def _strip_null(annotation: Any) -> tuple[bool, Any]:
    if get_origin(annotation) not in (UnionType, Union):
        return False, annotation
    others = [arg for arg in get_args(annotation) if arg is not type(None)]
    return True, others[0]


@cache
def default_entity(entity_type: Any) -> Any:
    """An entity with every field at its default."""
    return entity_type(**{plan.name: plan.default() for plan in plan_of(entity_type).all_fields()})


def to_kio(type_name: str, value: Any) -> Any:
    """kio's form of a number: timedelta or datetime for ms, ErrorCode for a code; others stay numbers."""
    if type_name == "error_code":
        from kio.schema.errors import ErrorCode

        return ErrorCode._value2member_map_.get(value, value)
    if type(value) is not int or not type_name.startswith(("timedelta", "datetime")):
        return value
    import datetime

    try:
        duration = datetime.timedelta(milliseconds=value)
        if type_name.startswith("timedelta"):
            return duration
        return datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC) + duration
    except OverflowError:
        return value


def to_ms(value: Any) -> int:
    """The number of ms in a timedelta, a datetime, a number, or -1 for None."""
    if value is None:
        return -1
    if isinstance(value, int):
        return value
    import datetime

    if isinstance(value, datetime.datetime):
        value = value - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    milliseconds: int = value // datetime.timedelta(milliseconds=1)
    return milliseconds
