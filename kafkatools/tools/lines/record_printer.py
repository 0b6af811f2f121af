"""Printing of fetched records: steps that decode or select them, the formatter, the limit on their number, failures.

Rules: a printer appends to a bytearray and writes nowhere. After a failure it prints nothing more. Without a search the
steps see only records within the limit, so no failure of another record is reported. A search sees every record of the
slice, also those beyond the limit when these were fetched together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from kafkatools.core.consumer.completed_fetch import FetchedColumns
from kafkatools.core.errors import KafkaError
from kafkatools.core.topic_partition import TopicPartition
from kafkatools.tools.lines.formatters import MessageFormatter

if TYPE_CHECKING:
    from kafkatools.tools.search.counting import RecordCounter
    from kafkatools.tools.search.search import Search


class Step(Protocol):
    """A step between reading and printing."""

    def apply(self, fetched: FetchedColumns) -> FetchedColumns:
        """Return the records to pass on, in the order of their offsets; their count may be 0."""

    def failures(self) -> Sequence[str]:
        """Return a line for each kind of failure so far; with any the exit status is 1."""


@runtime_checkable
class RemarkingStep(Step, Protocol):
    """A step with something to tell that is no failure."""

    def remarks(self) -> Sequence[str]:
        """Return the lines to print at the end of the run."""


@runtime_checkable
class EndedFormatter(MessageFormatter, Protocol):
    """A formatter whose output has an end, such as the footer of a Parquet file."""

    def finish(self, out: bytearray) -> None:
        """Append what ends the output. Nothing is written afterwards."""


def finish(formatter: MessageFormatter, out: bytearray) -> None:
    """Append what ends the formatter's output, if anything does."""
    if isinstance(formatter, EndedFormatter):
        formatter.finish(out)


class RecordPrinter:
    """Formats the records of one run. `limit` is the most records to print. A record that cannot be printed is skipped
    with a line to `report_skipped`; without it the record ends the run with `error`."""

    def __init__(
        self,
        formatter: MessageFormatter,
        steps: Sequence[Step] = (),
        limit: int | None = None,
        report_skipped: Callable[[str], None] | None = None,
    ) -> None:
        self.formatter = formatter
        self._steps = steps
        self.limit = limit
        self._report_skipped = report_skipped
        self.search: Search | None = None  # the one of the steps that searches
        self.counter: RecordCounter | None = None  # the formatter, if it counts
        self.count = 0
        self.has_skipped = False
        self.error: KafkaError | None = None
        self.cut: set[TopicPartition] = set()  # partitions with fetched records beyond the limit

    @property
    def is_search_first(self) -> bool:
        """Whether the search gets the records as they were fetched."""
        return bool(self._steps) and self._steps[0] is self.search

    def is_limit_reached(self) -> bool:
        """Return whether as many records were printed as the limit allows."""
        return self.limit is not None and self.count >= self.limit

    def finish(self, out: bytearray) -> None:
        """Append what ends the formatter's output."""
        finish(self.formatter, out)

    def failures(self) -> list[str]:
        """Return the lines of failures of all steps."""
        return [line for step in self._steps for line in step.failures()]

    def remarks(self) -> list[str]:
        """Return the remarks of all steps."""
        return [line for step in self._steps if isinstance(step, RemarkingStep) for line in step.remarks()]

    def format(self, out: bytearray, fetched: FetchedColumns) -> int | None:
        """Append the records that the steps pass on, within the limit, to `out`. Returns the offset of the first record
        that was neither printed nor skipped, None when there is none."""
        if self.error is not None:
            return fetched.columns.offsets[0]
        if self.is_limit_reached():
            self.cut.add(fetched.topic_partition)
            return fetched.columns.offsets[0]
        passed = self._within_limit(fetched) if self.search is None else fetched
        next_offset = fetched.columns.offsets[passed.columns.count] if passed is not fetched else None
        for step in self._steps:
            passed = step.apply(passed)
            if not passed.columns.count:
                return None
        unprinted = self._print(out, passed)
        return next_offset if unprinted is None else unprinted

    def _within_limit(self, fetched: FetchedColumns) -> FetchedColumns:
        """Return the records up to the limit, the same object if that is all of them."""
        room = fetched.columns.count if self.limit is None else self.limit - self.count
        if room >= fetched.columns.count:
            return fetched
        self.cut.add(fetched.topic_partition)
        return fetched._replace(columns=fetched.columns.slice(0, room))

    def _print(self, out: bytearray, passed: FetchedColumns) -> int | None:
        within = self._within_limit(passed)
        count = self.formatter.write(out, within, self._on_error)
        self.count += count
        if self.error is not None:
            offset = within.columns.offsets[count - 1]
            self.error = type(self.error)(f"{self.error} ({passed.topic}-{passed.partition} offset {offset})")
            return offset
        return passed.columns.offsets[count] if count < passed.columns.count else None

    def _on_error(self, error: KafkaError) -> bool:
        """Handle a record that cannot be printed. Returns True to skip it, False to end the run."""
        if self._report_skipped is None:
            self.error = error
            return False
        self.has_skipped = True
        self._report_skipped(f"Error processing message, skipping this message: {error}")
        return True
