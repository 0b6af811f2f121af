"""Bounds on topic, partition, offset and timestamp that restrict which records a source reads.

Starts are inclusive, ends exclusive. Offset and timestamp bounds are exact for rows, so Spark need not apply such a
filter again. Rows have whole milliseconds, so a comparison with microseconds is rounded to the millisecond that selects
the same rows. A filter that bounds express only in part narrows the bounds, and Spark applies it as well.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime, timedelta
from typing import TypeVar

MIN_LONG = -(1 << 63)
MAX_LONG = (1 << 63) - 1
MAX_INT = (1 << 31) - 1
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_NEVER_NULL = frozenset({"topic", "partition", "offset", "timestamp"})
_FilterT = TypeVar("_FilterT")

Partitions = frozenset[int] | range


@dataclass(frozen=True, slots=True)
class RecordBounds:
    """Topics and partitions (None: all), an offset range and a timestamp range in epoch ms. An end of MAX_LONG means no
    end."""

    topics: frozenset[str] | None = None
    partitions: Partitions | None = None
    start_offset: int = 0
    end_offset: int = MAX_LONG
    start_timestamp_ms: int = MIN_LONG
    end_timestamp_ms: int = MAX_LONG

    @property
    def is_empty(self) -> bool:
        """Return whether no record can be within the bounds."""
        return (
            self.topics == frozenset()
            or (self.partitions is not None and not self.partitions)
            or self.start_offset >= self.end_offset
            or self.start_timestamp_ms >= self.end_timestamp_ms
        )

    @property
    def has_timestamps(self) -> bool:
        """Return whether the timestamp range is restricted."""
        return self.start_timestamp_ms > MIN_LONG or self.end_timestamp_ms < MAX_LONG

    def takes(self, topic: str, partition: int) -> bool:
        """Return whether the bounds include this topic and partition."""
        if self.topics is not None and topic not in self.topics:
            return False
        return self.partitions is None or partition in self.partitions

    def within(self, other: RecordBounds) -> RecordBounds:
        """Return the intersection with other bounds."""
        topics = other.topics if self.topics is None else self.topics
        if self.topics is not None and other.topics is not None:
            topics = self.topics & other.topics
        return RecordBounds(
            topics,
            _common_partitions(self.partitions, other.partitions),
            max(self.start_offset, other.start_offset),
            min(self.end_offset, other.end_offset),
            max(self.start_timestamp_ms, other.start_timestamp_ms),
            min(self.end_timestamp_ms, other.end_timestamp_ms),
        )

    def to_text(self) -> str:
        """Serialize the restricted fields as JSON, for the option `bounds`."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return json.dumps(
            {name: _plain(value) for name, value in values.items() if value != getattr(_EVERYTHING, name)}
        )

    @classmethod
    def from_text(cls, text: str) -> RecordBounds:
        """Parse the JSON of `to_text`. Raises ValueError, KeyError, TypeError or AttributeError for other text."""
        values = json.loads(text)
        if (topics := values.get("topics")) is not None:
            values["topics"] = frozenset(topics)
        if (partitions := values.get("partitions")) is not None:
            is_range = isinstance(partitions, dict)
            values["partitions"] = range(partitions["start"], partitions["stop"]) if is_range else frozenset(partitions)
        return cls(**values)


_EVERYTHING = RecordBounds()


def _plain(value: object) -> object:
    if isinstance(value, range):
        return {"start": value.start, "stop": value.stop}
    return sorted(value) if isinstance(value, frozenset) else value


NOTHING = RecordBounds(end_offset=0)


def from_filters(filters: Iterable[_FilterT]) -> tuple[RecordBounds, list[_FilterT]]:
    """Convert PySpark's pushed filters (PySpark 4.1 and later), of which all must hold, to bounds. Also return the
    filters that Spark must still apply."""
    bounds, remaining = RecordBounds(), []
    for pushed_filter in filters:
        filter_bounds, is_exact = _bounds_of_filter(pushed_filter) or (RecordBounds(), False)
        bounds = bounds.within(filter_bounds)
        if not is_exact:
            remaining.append(pushed_filter)
    return bounds, remaining


_Narrowed = tuple[RecordBounds, bool]


def _bounds_of_filter(pushed: object) -> _Narrowed | None:
    """Return the bounds of one filter and whether they express it completely; None if bounds cannot express it."""
    column = getattr(pushed, "attribute", None)
    if not isinstance(column, tuple) or len(column) != 1:
        return None
    operator = type(pushed).__name__
    if operator == "IsNotNull":
        return (RecordBounds(), True) if column[0] in _NEVER_NULL else None
    return compare(column[0], operator, getattr(pushed, "value", None))


def compare(column: str, operator: str, value: object) -> _Narrowed | None:
    """Return the bounds of one comparison and whether they express it completely; None if bounds cannot express it.
    `operator` is EqualTo, EqualNullSafe, In, GreaterThan, GreaterThanOrEqual, LessThan or LessThanOrEqual. `value` has
    Spark's type for the column (a timestamp is a datetime with time zone); for In it is a sequence."""
    values: Sequence[object] = (value,)
    if operator == "In":
        if not isinstance(value, Sequence) or isinstance(value, str | bytes):
            return None
        values, operator = [item for item in value if item is not None], "EqualTo"
    elif operator == "EqualNullSafe":
        operator = "EqualTo"
    narrow = _COLUMNS.get(column)
    return narrow(operator, values) if narrow is not None else None


def _topic(operator: str, values: Sequence[object]) -> _Narrowed | None:
    if operator != "EqualTo" or not all(isinstance(value, str) for value in values):
        return None
    return RecordBounds(topics=frozenset(str(value) for value in values)), True


def _partition(operator: str, values: Sequence[object]) -> _Narrowed | None:
    numbers = _whole(values)
    if numbers is None:
        return None
    if operator == "EqualTo":
        return RecordBounds(partitions=frozenset(numbers)), True
    limits = _range(operator, numbers[0], numbers[0])
    if limits is None:
        return None
    start, end = max(limits[0], 0), min(limits[1], MAX_INT + 1)
    return RecordBounds(partitions=range(start, max(start, end))), True


def _offset(operator: str, values: Sequence[object]) -> _Narrowed | None:
    numbers = _whole(values)
    if numbers is None:
        return None
    if not numbers:
        return NOTHING, True
    limits = _range(operator, min(numbers), max(numbers))
    if limits is None:
        return None
    start, end = max(limits[0], 0), max(limits[1], 0)
    if start > MAX_LONG - 1 or end == 0:
        return NOTHING, True
    return RecordBounds(start_offset=start, end_offset=min(end, MAX_LONG)), len(set(numbers)) == 1


def _timestamp(operator: str, values: Sequence[object]) -> _Narrowed | None:
    times = [_microseconds(value) for value in values]
    numbers = [time for time in times if time is not None]
    if len(numbers) < len(times):
        return None
    if operator == "EqualTo":
        numbers = [number for number in numbers if number % 1000 == 0]
    if not numbers:
        return NOTHING, True
    first, last = min(numbers), max(numbers)
    limits = _range(operator, first // 1000, last // 1000)
    if limits is None:
        return None
    start, end = limits
    if first % 1000 and operator == "GreaterThanOrEqual":
        start += 1
    if last % 1000 and operator == "LessThan":
        end += 1
    return RecordBounds(start_timestamp_ms=start, end_timestamp_ms=end), len(set(numbers)) == 1


_COLUMNS: dict[str, Callable[[str, Sequence[object]], _Narrowed | None]] = {
    "topic": _topic,
    "partition": _partition,
    "offset": _offset,
    "timestamp": _timestamp,
}


def _range(operator: str, first: int, last: int) -> tuple[int, int] | None:
    """Return the integer range [start, end) of a comparison; None for an unknown operator."""
    if operator == "EqualTo":
        return first, last + 1
    if operator in ("GreaterThan", "GreaterThanOrEqual"):
        return first + (operator == "GreaterThan"), MAX_LONG
    if operator in ("LessThan", "LessThanOrEqual"):
        return MIN_LONG, last + (operator == "LessThanOrEqual")
    return None


def _whole(values: Sequence[object]) -> list[int] | None:
    numbers = [value for value in values if isinstance(value, int) and not isinstance(value, bool)]
    return numbers if len(numbers) == len(values) else None


def _microseconds(value: object) -> int | None:
    """Return the epoch microseconds of a datetime with time zone; None for any other value."""
    if not isinstance(value, datetime) or value.tzinfo is None:
        return None
    return (value - EPOCH) // _MICROSECOND


def _common_partitions(one: Partitions | None, other: Partitions | None) -> Partitions | None:
    if one is None or other is None:
        return other if one is None else one
    if isinstance(one, range) and isinstance(other, range):
        start = max(one.start, other.start)
        return range(start, max(start, min(one.stop, other.stop)))
    return frozenset(
        partition
        for partition in (one if isinstance(one, frozenset) else other)
        if partition in one and partition in other
    )
