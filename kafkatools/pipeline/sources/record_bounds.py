"""What a query wants of the records, as far as it can be said of topic, partition, offset and timestamp.

Starts are included, ends are not. Offsets and timestamps are exact on rows: a filter that is taken up here needs no
second look. Rows have whole milliseconds, so a comparison with microseconds is rounded to the millisecond that gives
the same rows. A filter that can only be taken up in part narrows the bounds and is left to Spark as well.
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
    """The records that are wanted; None is every topic or partition. All numbers fit 64 bits; an end at MAX_LONG is no
    end."""

    topics: frozenset[str] | None = None
    partitions: Partitions | None = None
    start_offset: int = 0
    end_offset: int = MAX_LONG
    start_timestamp_ms: int = MIN_LONG
    end_timestamp_ms: int = MAX_LONG

    @property
    def is_empty(self) -> bool:
        """Whether no record can be within."""
        return (
            self.topics == frozenset()
            or (self.partitions is not None and not self.partitions)
            or self.start_offset >= self.end_offset
            or self.start_timestamp_ms >= self.end_timestamp_ms
        )

    @property
    def has_timestamps(self) -> bool:
        return self.start_timestamp_ms > MIN_LONG or self.end_timestamp_ms < MAX_LONG

    def takes(self, topic: str, partition: int) -> bool:
        """Whether records of a partition may be wanted."""
        if self.topics is not None and topic not in self.topics:
            return False
        return self.partitions is None or partition in self.partitions

    def within(self, other: RecordBounds) -> RecordBounds:
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
        """As JSON, what there is no limit of left out."""
        found = {each.name: getattr(self, each.name) for each in fields(self)}
        given = {name: value for name, value in found.items() if value != getattr(_EVERYTHING, name)}
        return json.dumps({name: _plain(value) for name, value in given.items()})

    @classmethod
    def from_text(cls, text: str) -> RecordBounds:
        """The reverse of to_text; raises ValueError, KeyError, TypeError."""
        given = json.loads(text)
        if (topics := given.get("topics")) is not None:
            given["topics"] = frozenset(topics)
        if (partitions := given.get("partitions")) is not None:
            is_range = isinstance(partitions, dict)
            given["partitions"] = range(partitions["start"], partitions["stop"]) if is_range else frozenset(partitions)
        return cls(**given)


_EVERYTHING = RecordBounds()


def _plain(value: object) -> object:
    if isinstance(value, range):
        return {"start": value.start, "stop": value.stop}
    return sorted(value) if isinstance(value, frozenset) else value


NOTHING = RecordBounds(end_offset=0)


def from_filters(filters: Iterable[_FilterT]) -> tuple[RecordBounds, list[_FilterT]]:
    """The bounds that PySpark's filters (pyspark.sql.datasource, 4.1 and later) say, and those of them that Spark still
    has to apply. All filters must hold for a row."""
    bounds, left = RecordBounds(), []
    for each in filters:
        taken = _taken(each)
        if taken is None:
            left.append(each)
            continue
        narrowed, is_exact = taken
        bounds = bounds.within(narrowed)
        if not is_exact:
            left.append(each)
    return bounds, left


_Taken = tuple[RecordBounds, bool]


def _taken(given: object) -> _Taken | None:
    """The bounds of one filter and whether they say all of it; None when they say nothing of it."""
    column = getattr(given, "attribute", None)
    if not isinstance(column, tuple) or len(column) != 1:
        return None
    operator = type(given).__name__
    if operator == "IsNotNull":
        return (RecordBounds(), True) if column[0] in _NEVER_NULL else None
    return compare(column[0], operator, getattr(given, "value", None))


def compare(column: str, operator: str, value: object) -> _Taken | None:
    """The bounds that one comparison says, and whether they say all of it; None when they say nothing of it.
    `operator`: EqualTo, EqualNullSafe, In, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual; `value` is that
    of Spark's type for the column (a datetime with its time zone for a timestamp), for In several."""
    values: Sequence[object] = (value,)
    if operator == "In":
        if not isinstance(value, Sequence) or isinstance(value, str | bytes):
            return None
        values, operator = [each for each in value if each is not None], "EqualTo"
    elif operator == "EqualNullSafe":
        operator = "EqualTo"
    take = _COLUMNS.get(column)
    return take(operator, values) if take is not None else None


def _topic(operator: str, values: Sequence[object]) -> _Taken | None:
    if operator != "EqualTo" or not all(isinstance(each, str) for each in values):
        return None
    return RecordBounds(topics=frozenset(str(each) for each in values)), True


def _partition(operator: str, values: Sequence[object]) -> _Taken | None:
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


def _offset(operator: str, values: Sequence[object]) -> _Taken | None:
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


def _timestamp(operator: str, values: Sequence[object]) -> _Taken | None:
    times = [_microseconds(each) for each in values]
    numbers = [each for each in times if each is not None]
    if len(numbers) < len(times):
        return None
    if operator == "EqualTo":
        numbers = [each for each in numbers if each % 1000 == 0]
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


_COLUMNS: dict[str, Callable[[str, Sequence[object]], _Taken | None]] = {
    "topic": _topic,
    "partition": _partition,
    "offset": _offset,
    "timestamp": _timestamp,
}


def _range(operator: str, first: int, last: int) -> tuple[int, int] | None:
    """The whole numbers from the start on and below the end."""
    if operator == "EqualTo":
        return first, last + 1
    if operator in ("GreaterThan", "GreaterThanOrEqual"):
        return first + (operator == "GreaterThan"), MAX_LONG
    if operator in ("LessThan", "LessThanOrEqual"):
        return MIN_LONG, last + (operator == "LessThanOrEqual")
    return None


def _whole(values: Sequence[object]) -> list[int] | None:
    numbers = [each for each in values if isinstance(each, int) and not isinstance(each, bool)]
    return numbers if len(numbers) == len(values) else None


def _microseconds(value: object) -> int | None:
    """Microseconds since 1970; None for anything but a time with its zone."""
    if not isinstance(value, datetime) or value.tzinfo is None:
        return None
    return (value - EPOCH) // _MICROSECOND


def _common_partitions(one: Partitions | None, other: Partitions | None) -> Partitions | None:
    if one is None or other is None:
        return other if one is None else one
    if isinstance(one, range) and isinstance(other, range):
        start = max(one.start, other.start)
        return range(start, max(start, min(one.stop, other.stop)))
    return frozenset(each for each in (one if isinstance(one, frozenset) else other) if each in one and each in other)
