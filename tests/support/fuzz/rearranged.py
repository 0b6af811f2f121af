"""Responses that are well formed, but not about what was requested: elements come twice, are missing, or are others."""

from __future__ import annotations

from random import Random
from typing import Any
from uuid import UUID

from support.message_plans import plan_of

_NUMBERS = ("int32", "int64")


def rearranged(rng: Random, entity: Any, odds: float) -> Any:
    """A copy of an entity; each of its arrays of structures is changed with these odds."""
    values = {}
    for field in plan_of(type(entity)).all_fields():
        value = getattr(entity, field.name)
        if field.type is None and value is not None:
            items = [rearranged(rng, item, odds) for item in (value if field.is_array else (value,))]
            if field.is_array and items and rng.random() < odds:
                items = _changed(rng, items)
            values[field.name] = tuple(items) if field.is_array else items[0]
    return entity.replaced(**values)


def _changed(rng: Random, items: list[Any]) -> list[Any]:
    one, kind = rng.choice(items), rng.randrange(4)
    if kind == 0:
        return [item for item in items if item is not one]
    if kind == 1:
        return [*items, one]
    other = _other(rng, one)
    return [other if item is one else item for item in items] if kind == 2 else [other, *items]


def _other(rng: Random, item: Any) -> Any:
    """An element with another name, number or id."""
    changes: dict[str, object] = {}
    for field in plan_of(type(item)).all_fields():
        value = getattr(item, field.name)
        if field.is_array or value is None:
            continue
        if field.type == "string":
            changes[field.name] = f"other{value}"
        elif field.type in _NUMBERS and rng.random() < 0.5:
            changes[field.name] = max(value, 0) + 1
        elif field.type == "uuid":
            changes[field.name] = UUID(int=rng.getrandbits(128))
    return item.replaced(**changes)
