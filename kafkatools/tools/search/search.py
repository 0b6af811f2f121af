"""The step that keeps the records which all filters select, and counts how far it looked.

Rules: a filter sees only the records that the filters before it selected. Counts include the records of a run that was
searched when --max-messages was reached.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from kafkatools.core.consumer.completed_fetch import FetchedColumns
from kafkatools.core.records.kernel import HEADER_WIDTH
from kafkatools.core.topic_partition import TopicPartition

_MOST_NAMED = 3


class Filter(Protocol):
    """A condition on records."""

    def rows(self, fetched: FetchedColumns) -> array[int] | None:
        """Return the ascending numbers of the selected rows as array('i'), None for all rows."""

    def failures(self) -> Sequence[str]:
        """Return a line for each kind of failure so far. If there is one, the exit status is 1."""

    def notes(self) -> Sequence[str]:
        """Return a line for each kind of record that could not be compared."""


class Searched(NamedTuple):
    """The searched records of a partition: their number, and their first and last offset."""

    record_count: int
    first: int
    last: int


@runtime_checkable
class BatchFilter(Protocol):
    """A filter that rules out batches by their bytes."""

    def can_rule_out(self) -> bool:
        """Return whether this filter knows texts that every selected record contains."""

    def first_possible(self, data: memoryview, start: int, end: int) -> int:
        """Return the position in start..end of the first text that a selected record may contain, -1 without one."""


class Search:
    """The step of --key, --grep and --where."""

    def __init__(self, filters: Sequence[Filter]) -> None:
        self._filters = filters
        self._batch_filter = _batch_filter(filters)
        self._end_of: Callable[[TopicPartition], int] | None = None
        self.searched: dict[TopicPartition, Searched] = {}
        self.count = 0

    def apply(self, fetched: FetchedColumns) -> FetchedColumns:
        """Return the records that all filters select."""
        self._count(fetched)
        for condition in self._filters:
            rows = condition.rows(fetched)
            if rows is not None and len(rows) < fetched.columns.count:
                fetched = fetched._replace(columns=fetched.columns.take(rows))
                if not rows:
                    break
        return fetched

    def failures(self) -> list[str]:
        """Return the failures of all filters."""
        return [line for condition in self._filters for line in condition.failures()]

    def notes(self) -> list[str]:
        """Return the notes of all filters."""
        return [line for condition in self._filters for line in condition.notes()]

    def pass_over_from_now(self, end_of: Callable[[TopicPartition], int]) -> None:
        """Let `pass_over` rule out batches before the end offset of their partition. Only for a run that reads whole
        partitions and hands raw records to this step: the records of such batches are counted as searched."""
        self._end_of = end_of

    def pass_over(self, part: TopicPartition, data: memoryview, table: array[int], rows: int) -> int:
        """Return how many of the first batches cannot have a selected record (FetchOptions.pass_over)."""
        if self._batch_filter is None or self._end_of is None:
            return 0
        end_offset, width = self._end_of(part), HEADER_WIDTH
        slots = range(0, rows * width, width)
        rows = next((slot // width for slot in slots if table[slot + 1] + table[slot + 7] >= end_offset), rows)
        if not rows:
            return 0
        last = (rows - 1) * width
        place = self._batch_filter.first_possible(data, table[0], table[last] + table[last + 2])
        passed = rows if place < 0 else bisect_right(table[0 : rows * width : width], place) - 1
        if passed > 0:
            last = (passed - 1) * width
            self._add(part, sum(table[13 : last + 14 : width]), table[1], table[last + 1] + table[last + 7])
        return passed

    def _count(self, fetched: FetchedColumns) -> None:
        offsets = fetched.columns.offsets
        if offsets:
            self._add(fetched.topic_partition, len(offsets), offsets[0], offsets[-1])

    def _add(self, part: TopicPartition, count: int, first: int, last: int) -> None:
        self.count += count
        earlier = self.searched.get(part)
        if earlier is not None:
            count, first, last = count + earlier.record_count, min(earlier.first, first), max(earlier.last, last)
        self.searched[part] = Searched(count, first, last)

    def summary(self, found: int, partition_count: int) -> str:
        """Return the line that says how far the search looked and how many records were printed or counted.
        `partition_count`: the read partitions, also those without records."""
        parts = sorted(self.searched)
        count = max(partition_count, len(parts))
        line = f"Searched {_number(self.count, 'record')} of {_number(count, 'partition')}"
        if parts and len(parts) <= _MOST_NAMED:
            ranges = (f"{part} offsets {self.searched[part].first} to {self.searched[part].last}" for part in parts)
            line += f" ({', '.join(ranges)})"
        return f"{line}: {found:,} found"

    def summary_row(self, found: int) -> dict[str, object]:
        """Return the same as an object for --json, with all partitions."""
        partitions = [
            {
                "topic": part.topic,
                "partition": part.partition,
                "records": searched.record_count,
                "first_offset": searched.first,
                "last_offset": searched.last,
            }
            for part, searched in sorted(self.searched.items())
        ]
        return {"searched": self.count, "found": found, "partitions": partitions}


def _batch_filter(filters: Sequence[Filter]) -> BatchFilter | None:
    return next((item for item in filters if isinstance(item, BatchFilter) and item.can_rule_out()), None)


def _number(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
