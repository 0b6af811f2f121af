"""What a query wants, told by PySpark's filters: the bounds take the same rows as the filters."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from kafkatools.pipeline.sources.record_bounds import MAX_LONG, MIN_LONG, RecordBounds, compare, from_filters

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "EqualTo": operator.eq,
    "EqualNullSafe": operator.eq,
    "GreaterThan": operator.gt,
    "GreaterThanOrEqual": operator.ge,
    "LessThan": operator.lt,
    "LessThanOrEqual": operator.le,
    "In": lambda row, values: row in values,
}


@dataclass(frozen=True)
class Filter:
    attribute: tuple[str, ...]
    value: Any = None


CLASSES: dict[str, type[Filter]] = {
    name: type(name, (Filter,), {}) for name in [*OPERATORS, "IsNotNull", "IsNull", "Not", "StringStartsWith"]
}


def at(milliseconds: float) -> datetime:
    return EPOCH + timedelta(milliseconds=milliseconds)


def has(bounds: RecordBounds, topic: str, partition: int, offset: int, timestamp_ms: int) -> bool:
    return (
        bounds.takes(topic, partition)
        and bounds.start_offset <= offset < bounds.end_offset
        and bounds.start_timestamp_ms <= timestamp_ms < bounds.end_timestamp_ms
    )


def test_bounds_take_the_rows_that_the_filters_take() -> None:
    chance = random.Random(5)
    columns = {
        "topic": lambda: chance.choice("abc"),
        "partition": lambda: chance.randint(-1, 4),
        "offset": lambda: chance.randint(-2, 8),
        "timestamp": lambda: at(chance.choice([-1, 0, 1, 2, 0.5, 1.001, -0.5, 3])),
    }
    rows = [(t, p, o, m) for t in "abc" for p in range(4) for o in range(7) for m in range(-1, 4)]
    for _ in range(100):
        given = []
        for _ in range(chance.randint(1, 3)):
            name = chance.choice(list(OPERATORS))
            column = chance.choice(list(columns))
            value = tuple(columns[column]() for _ in range(3)) if name == "In" else columns[column]()
            given.append(CLASSES[name]((column,), value))
        bounds, left = from_filters(given)
        for topic, partition, offset, ms in rows:
            row = {"topic": topic, "partition": partition, "offset": offset, "timestamp": at(ms)}

            def holds(each: Filter, row: dict[str, Any] = row) -> bool:
                return OPERATORS[type(each).__name__](row[each.attribute[0]], each.value)

            wanted = all(holds(each) for each in given)
            taken = has(bounds, topic, partition, offset, ms)
            assert taken or not wanted
            assert wanted == (taken and all(holds(each) for each in left)), (given, row, bounds)


def test_what_bounds_can_say_is_not_left() -> None:
    given = [
        CLASSES["IsNotNull"](("offset",)),
        CLASSES["EqualTo"](("topic",), "a"),
        CLASSES["In"](("partition",), (1, None, 2)),
        CLASSES["GreaterThan"](("partition",), 1),
        CLASSES["LessThan"](("timestamp",), at(7)),
        CLASSES["GreaterThanOrEqual"](("offset",), 3),
    ]
    bounds, left = from_filters(given)
    assert not left
    assert bounds == RecordBounds(frozenset("a"), frozenset({2}), start_offset=3, end_timestamp_ms=7)


@pytest.mark.parametrize(
    "given",
    [
        CLASSES["IsNotNull"](("key",)),
        CLASSES["IsNull"](("offset",)),
        CLASSES["EqualTo"](("value",), b"x"),
        CLASSES["EqualTo"](("headers", "key"), "x"),
        CLASSES["EqualTo"](("offset",), None),
        CLASSES["EqualTo"](("offset",), True),
        CLASSES["GreaterThan"](("topic",), "a"),
        CLASSES["StringStartsWith"](("topic",), "a"),
        CLASSES["EqualTo"](("timestamp",), datetime(2020, 1, 1)),
        CLASSES["Not"](("offset",), 1),
        CLASSES["In"](("topic",), "abc"),
    ],
)
def test_anything_else_is_left_as_it_is(given: Filter) -> None:
    bounds, left = from_filters([given])
    assert left == [given]
    assert left[0] is given
    assert bounds == RecordBounds()


def test_several_offsets_narrow_and_are_left() -> None:
    given = CLASSES["In"](("offset",), (9, 4))
    assert from_filters([given]) == (RecordBounds(start_offset=4, end_offset=10), [given])


@pytest.mark.parametrize(
    ("column", "name", "value", "empty"),
    [
        ("offset", "GreaterThan", MAX_LONG, True),
        ("offset", "GreaterThanOrEqual", MIN_LONG, False),
        ("offset", "LessThanOrEqual", MAX_LONG, False),
        ("offset", "LessThan", MIN_LONG, True),
        ("offset", "EqualTo", -1, True),
        ("offset", "In", (), True),
        ("topic", "In", (), True),
        ("partition", "LessThan", 0, True),
        ("partition", "GreaterThan", 2**31 - 1, True),
        ("partition", "In", (None,), True),
        ("timestamp", "EqualTo", at(0.001), True),
        ("timestamp", "GreaterThan", datetime.max.replace(tzinfo=UTC), False),
        ("timestamp", "LessThan", datetime.min.replace(tzinfo=UTC), False),
    ],
)
def test_values_at_the_limits(column: str, name: str, value: object, empty: bool) -> None:
    taken = compare(column, name, value)
    assert taken is not None
    bounds, is_exact = taken
    assert is_exact
    assert bounds.is_empty == empty
    numbers = [bounds.start_offset, bounds.end_offset, bounds.start_timestamp_ms, bounds.end_timestamp_ms]
    assert all(MIN_LONG <= each <= MAX_LONG for each in numbers)


def test_bounds_travel_as_text() -> None:
    for bounds in (
        RecordBounds(),
        RecordBounds(frozenset({"a", "b"}), frozenset({3}), 1, 2, -3, 4),
        RecordBounds(frozenset(), range(2, 5)),
    ):
        assert RecordBounds.from_text(bounds.to_text()) == bounds
    assert RecordBounds().to_text() == "{}"


def test_a_time_of_another_zone_is_the_same_instant() -> None:
    there = at(0).astimezone(timezone(timedelta(hours=5, minutes=30)))
    assert compare("timestamp", "GreaterThan", there) == (RecordBounds(start_timestamp_ms=1), True)
