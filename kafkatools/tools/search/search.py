"""The step that keeps the records which all filters select, and counts how far it looked.

Rules: a filter sees only the records that the filters before it selected. Counts include the records of a run that was
searched when --max-messages was reached.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from kafkatools.core.consumer.completed_fetch import FetchedColumns
from kafkatools.core.topic_partition import TopicPartition

_MOST_NAMED = 3


class Filter(Protocol):
    """A condition on records."""

    def rows(self, fetched: FetchedColumns) -> array[int] | None:
        """Return the ascending numbers of the selected rows as array('i'), None for all rows."""

    def failures(self) -> Sequence[str]:
        """Return a line for each kind of failure so far; with any the exit status is 1."""

    def notes(self) -> Sequence[str]:
        """Return a line for each kind of record that could not be compared."""


class Searched(NamedTuple):
    """The searched records of a partition: their number, and the first and the last offset."""

    record_count: int
    first: int
    last: int


class Search:
    """The step of --key, --grep and --where."""

    def __init__(self, filters: Sequence[Filter]) -> None:
        self._filters = filters
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

    def _count(self, fetched: FetchedColumns) -> None:
        offsets = fetched.columns.offsets
        if not offsets:
            return
        self.count += len(offsets)
        part = fetched.topic_partition
        earlier = self.searched.get(part)
        if earlier is None:
            self.searched[part] = Searched(len(offsets), offsets[0], offsets[-1])
        else:
            first, last = min(earlier.first, offsets[0]), max(earlier.last, offsets[-1])
            self.searched[part] = Searched(earlier.record_count + len(offsets), first, last)

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


def _number(count: int, noun: str) -> str:
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"
