"""--key, --grep, --where and --count of kt console-consumer: the partition of a key, and what is reported."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kafkatools.console import Console
from kafkatools.core.consumer.ends import Ends
from kafkatools.core.topic_partition import TopicPartition
from kafkatools.options import Args
from kafkatools.options.search_options import option_bytes
from kafkatools.tools.lines.record_printer import RecordPrinter
from kafkatools.tools.lines.record_sources import RequestedTopics

if TYPE_CHECKING:
    from kafkatools.tools.search.key_partition import SampledReader

_ONLY_NEW_RECORDS = (
    "Searching only records that arrive from now on; add --from-beginning --exit-at-end to search those of the topic"
)
_NO_END = (
    "Reading all partitions: without an end, such as --exit-at-end, a partition that is added later may take the key"
)


class Finding:
    """The search and the count of one run of kt console-consumer."""

    def __init__(self, console: Console, args: Args, printer: RecordPrinter) -> None:
        self._console = console
        self._args = args
        self._printer = printer
        self._search = printer.search
        self._partitions: Sequence[TopicPartition] = ()

    def narrowed(
        self, reader: SampledReader, requested: RequestedTopics, *, has_end: bool, is_member: bool
    ) -> RequestedTopics:
        """Return the requested partitions, with --key those that can contain the key. Says which are read."""
        args = self._args
        if self._search is not None and not has_end and requested.bounds is None and requested.start == "latest":
            self._console.note(_ONLY_NEW_RECORDS)
        if args.key is None or requested.topic is None or requested.partition is not None or is_member:
            return requested
        if not has_end:
            self._console.note(_NO_END)
            return requested
        from kafkatools.tools.search.key_partition import place_of_key

        place = place_of_key(reader, requested.topic, option_bytes(args.key))
        if place.reason:
            self._console.note(place.reason)
        return requested._replace(partition=place.partition)

    def start(self, requested: RequestedTopics, partitions: Sequence[TopicPartition], ends: Ends | None) -> None:
        """Take the partitions that are read. From now on batches may be ruled out by their bytes, unless the search
        needs records: for times, for the last ones, or to merge partitions."""
        self._partitions = partitions
        bounds = requested.bounds
        is_by_offsets = bounds is None or (bounds.last is None and bounds.times == (None, None))
        if self._search is None or ends is None or not is_by_offsets or self._args.order is not None:
            return
        if self._printer.is_search_first:
            self._search.pass_over_from_now(ends.end_of)

    @contextmanager
    def progress(self) -> Iterator[None]:
        """Show on a terminal how many records were searched, or counted, so far."""
        search, printer = self._search, self._printer

        def measure() -> int:
            progress.label = f"Searched {search.count:,} records" if search else f"Counted {printer.count:,} records"
            return 0

        with self._console.progress("Searching", measure=measure) as progress:
            yield

    def print_counts(self) -> None:
        """Print the number of records to stdout; with --json that of each partition."""
        counter = self._printer.counter
        if counter is None:
            return
        if not self._console.is_json:
            self._console.print(str(sum(counter.counts.values())))
            return
        for part in sorted({*self._partitions, *counter.counts}):
            row = {"topic": part.topic, "partition": part.partition, "count": counter.counts.get(part, 0)}
            self._console.print_json(row)

    def report(self) -> None:
        """Print to stderr how far the search looked, and what could not be compared."""
        if self._search is not None and (self._partitions or self._search.count):
            for line in self._search.notes():
                self._console.note(line)
            found = self._printer.count
            self._console.note(self._search.summary(found, len(self._partitions)), self._search.summary_row(found))
