"""What an entity class is made of, for tests that write or walk messages field by field."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

NUMBER_LAYOUTS = {
    "bool": ">?",
    "int8": ">b",
    "int16": ">h",
    "int32": ">i",
    "int64": ">q",
    "uint16": ">H",
    "uint32": ">I",
    "float64": ">d",
    "error_code": ">h",
}


class FieldPlan(NamedTuple):
    """One field: `type` is Kafka's type name or error_code, or None for a structure of the class `entity`."""

    name: str
    type: str | None
    entity: Any
    is_array: bool
    is_nullable: bool
    tag: int | None


class EntityPlan(NamedTuple):
    """The fields of an entity class in wire order, then the tagged ones by tag."""

    is_flexible: bool
    fields: tuple[FieldPlan, ...]
    tagged: tuple[FieldPlan, ...]

    def all_fields(self) -> tuple[FieldPlan, ...]:
        """Fields and tagged fields."""
        return self.fields + self.tagged


@cache
def plan_of(entity_type: Any) -> EntityPlan:
    """The plan of a class."""
    version, layout = entity_type.__version__, entity_type.__layout__
    by_name = {field.name: field for field in entity_type.__fields__}
    plans = []
    for name, nested in zip(layout.names, layout.layouts, strict=True):
        field = by_name[name]
        is_error = field.type == "int16" and name.endswith("error_code")
        plans.append(
            FieldPlan(
                name,
                None if nested is not None else "error_code" if is_error else field.type,
                None if nested is None else nested.type,
                field.is_array,
                version in field.null,
                field.tag if field.is_tagged(version) else None,
            )
        )
    plain = tuple(plan for plan in plans if plan.tag is None)
    return EntityPlan(entity_type.__flexible__, plain, tuple(plan for plan in plans if plan.tag is not None))
