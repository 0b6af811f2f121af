"""Send the selected records of a dead-letter topic back, each once.

Strategy: the partitions are read from the first offset that was not sent back up to their ends at the start, so a
record that fails again during the run waits for the next one. Offsets of sent records go into `done`, which is
committed with the records (tools/copying/transactions.py). Offsets of filtered and left records do not, so a later run
finds them.

Offsets without a record (transaction markers, aborted records, gaps of compaction) join the sent record behind them:
they would divide the ranges of `done`.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kafkatools.core.clock import Clock
from kafkatools.core.consumer.completed_fetch import FetchedColumns
from kafkatools.core.consumer.consumer import Consumer
from kafkatools.core.consumer.ends import Ends
from kafkatools.core.consumer.subscription import TopicPartition
from kafkatools.core.producer.producer import Producer
from kafkatools.tools.copying.transactions import ProgressTransactions
from kafkatools.tools.lines.slices import Selection, SliceBounds, cut, cut_before
from kafkatools.tools.perf.throughput_throttler import ThroughputThrottler
from kafkatools.tools.redrive.plan import LeftRecord, PlannedRecord, Planner, send_planned
from kafkatools.tools.redrive.progress import RedriveGroup, SentOffsets
from kafkatools.tools.redrive.tally import LeftPlace, Sample, Tally
from kafkatools.tools.rights import TOPIC, Right, needs
from kafkatools.tools.search.search import Search

_POLL_MS = 1000
_LONGEST_PAUSE_MS = 500
_UNLIMITED = -1


class RedriveLimits(NamedTuple):
    """The largest number of records to send (None: all), and records per second (-1: no limit)."""

    max_messages: int | None = None
    per_second: float = _UNLIMITED


class RedriveSource(NamedTuple):
    """The dead-letter records to look at: the reader, the bounds and times of each partition, and the filters."""

    consumer: Consumer
    bounds: SliceBounds
    selection: Selection
    search: Search


class Redriver:
    """One run. `producer` None: nothing is sent (--dry-run). `done`: the offsets that were sent back; it changes."""

    def __init__(
        self,
        source: RedriveSource,
        producer: Producer | None,
        planner: Planner,
        group: RedriveGroup,
        done: SentOffsets,
        limits: RedriveLimits,
    ) -> None:
        self._source = source
        self._producer = producer
        self._transactions = None if producer is None else ProgressTransactions(producer)
        self._planner = planner
        self._group = group
        self._done = done
        self._limits = limits
        self._next: dict[TopicPartition, int] = {}
        self._ends: Ends | None = None
        self.tally = Tally()
        self.committed_count = 0

    @property
    def read_offsets(self) -> int:
        """The number of offsets that this run has passed."""
        starts = self._source.bounds.starts
        return sum(offset - starts[part] for part, offset in self._next.items())

    def _is_enough(self) -> bool:
        limit = self._limits.max_messages
        return limit is not None and self.tally.sent_count >= limit

    def run(self, clock: Clock) -> None:
        """Send until every partition is read, or as many records as are allowed. Raises the KafkaError that ended the
        run: what was committed stays, and closing the producer aborts the rest."""
        ends = self._ends = self._start()
        throttle = ThroughputThrottler(self._limits.per_second, clock.now_ms())
        while not self._is_enough() and ends.undone():
            with needs(Right("READ", TOPIC, self._group.topic)):
                fetched = self._source.consumer.poll_columns(_POLL_MS)
            for item in fetched:
                self._take(item, throttle, clock)
                if self._is_enough():
                    break
            if not fetched:
                ends.ensure_reachable()
            self._maybe_commit(clock)
        if not self._is_enough():
            for part, end in (self._source.bounds.ends or {}).items():
                self._done[part.partition].add(self._next.get(part, end), end)
        self._commit(clock)

    def _start(self) -> Ends:
        consumer, bounds = self._source.consumer, self._source.bounds
        ends = bounds.ends or {}
        for part, start in bounds.starts.items():
            self._next[part] = min(self._done[part.partition].first_missing(start), ends[part])
        open_parts = [part for part, offset in self._next.items() if offset < ends[part]]
        consumer.assign(open_parts)
        for part in open_parts:
            consumer.seek(part, self._next[part])
        return Ends.at(consumer, {part: ends[part] for part in open_parts})

    def _take(self, fetched: FetchedColumns, throttle: ThroughputThrottler, clock: Clock) -> None:
        """Plan the selected records of one fetch, and send them at the allowed rate."""
        part = fetched.topic_partition
        bounds = self._source.bounds
        item = cut(cut_before(fetched, self._next[part]), (bounds.ends or {})[part])
        if item.columns.count:
            for run in self._selected(item):
                planned = self._planned(run)
                while planned:
                    count = min(len(planned), self._allowed(throttle, clock))
                    self._send(item, run, planned[:count])
                    planned = planned[count:]
            self._next[part] = item.columns.offsets[-1] + 1

    def _selected(self, item: FetchedColumns) -> Iterator[FetchedColumns]:
        for run in self._source.selection.runs(item):
            found = self._source.search.apply(run)
            if found.columns.count:
                yield found

    def _planned(self, run: FetchedColumns) -> list[PlannedRecord]:
        """Return the records of a run to send, and note those that stay."""
        done, columns = self._done[run.partition], run.columns
        limit = self._limits.max_messages
        planned: list[PlannedRecord] = []
        for row, offset in enumerate(columns.offsets):
            if limit is not None and self.tally.sent_count + len(planned) >= limit:
                break
            if offset in done:
                continue
            plan = self._planner.plan(columns, row)
            if isinstance(plan, LeftRecord):
                self.tally.add_left(LeftPlace(run.partition, plan.target, plan.reason), offset)
            else:
                planned.append(plan)
        return planned

    def _allowed(self, throttle: ThroughputThrottler, clock: Clock) -> int:
        """Wait until a record may be sent, committing meanwhile when a commit is due. Return how many may be sent."""
        while not (allowed := throttle.allowance(self.tally.sent_count, clock.now_ms())):
            self._maybe_commit(clock)
            pause_ms = throttle.pause_ms(self.tally.sent_count, clock.now_ms())
            clock.sleep_ms(min(pause_ms or _LONGEST_PAUSE_MS, _LONGEST_PAUSE_MS))
        return allowed

    def _send(self, item: FetchedColumns, run: FetchedColumns, planned: Sequence[PlannedRecord]) -> None:
        if self._transactions is not None and self._producer is not None:
            self._transactions.begin()
            send_planned(self._producer, run.columns, planned)
            self._transactions.count(len(planned))
        done, offsets, columns = self._done[run.partition], item.columns.offsets, run.columns
        first = self._next[item.topic_partition]
        for plan in planned:
            offset = columns.offsets[plan.row]
            place = bisect_left(offsets, offset)
            done.add(offsets[place - 1] + 1 if place else first, offset + 1)
            letter = plan.letter
            sample = Sample(
                run.partition, offset, letter.partition, letter.offset, columns.key(plan.row), letter.message
            )
            self.tally.add_sent(plan.target, letter.exception, sample)

    def _maybe_commit(self, clock: Clock) -> None:
        if self._transactions is not None and self._transactions.is_due(clock.now_ms()):
            self._commit(clock)

    def _commit(self, clock: Clock) -> None:
        """Commit the records sent so far together with the progress. Raises CommandError when the progress does not
        fit, EndUnreachable if the dead-letter topic was recreated: records may be those of another topic."""
        if self._ends is not None:
            self._ends.ensure_same_topics()
        if self._transactions is not None:
            self._transactions.commit(self._group.offsets(self._done), clock.now_ms())
            self.committed_count = self.tally.sent_count
