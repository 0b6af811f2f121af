"""One run of kt console-consumer: poll, print, commit, and decide when to end.

`_unprinted` holds, by partition, the first offset that was polled and not printed. The consumer seeks back to these
offsets before it commits. So a group commits printed records only, however the run ends.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from kafkatools.commands.console_consumer.outputs import Output
from kafkatools.console import Console
from kafkatools.core.config import Config
from kafkatools.core.consumer.completed_fetch import FetchedColumns, SkipCorrupt
from kafkatools.core.consumer.consumer import Consumer
from kafkatools.core.consumer.ends import Ends
from kafkatools.core.consumer.errors import CorruptBatch, WakeupError
from kafkatools.core.consumer.subscription import TopicPartition
from kafkatools.core.errors import KafkaError, RequestTimedOut
from kafkatools.exit_status import CommandError, ExitStatus
from kafkatools.options import Args
from kafkatools.tools.lines.interruption import Interruption
from kafkatools.tools.lines.partition_reader import PartitionReader
from kafkatools.tools.lines.record_sources import RequestedTopics, Source, source_of
from kafkatools.tools.lines.silence import Silence
from kafkatools.tools.lines.slices import cut

if TYPE_CHECKING:
    from kafkatools.commands.console_consumer.finding import Finding
    from kafkatools.tools.lines.time_order import TimeOrder

_FOREVER_MS = 1 << 60
_POLL_MS = 1000
_POLL_FOR_POSITIONS_MS = 20
_EMPTY_ASSIGNMENT_MS = 10_000
_COMMIT_MS = 30_000
_WRITE_BYTES = 1 << 20
_INTERRUPTED_COMMIT_MS = 5000


class ConsoleConsumer:
    """One run of kt console-consumer, for the topics that `requested` selects. `report_ends` is called at the end with
    the offset at which each partition ends."""

    def __init__(
        self,
        console: Console,
        args: Args,
        output: Output,
        requested: RequestedTopics,
        report_ends: Callable[[dict[TopicPartition, int]], None] | None = None,
    ) -> None:
        self._console = console
        self._args = args
        self._printer = printer = output.printer
        self._requested = requested
        self._output = output
        self._is_member = False
        self._is_whole = True
        self._idle_ms = args.timeout_ms if args.timeout_ms is not None and args.timeout_ms >= 0 else _FOREVER_MS
        self._skipped: set[str] = set()
        self._ends: Ends | None = None
        self._report_ends = report_ends
        self._order: TimeOrder | None = None
        self._unprinted: dict[TopicPartition, int] = {}
        self._silence = Silence(console.error)
        self._commits = False
        self._stops = bool(args.exit_at_end or args.count) or requested.ends_at_once
        self._finding: Finding | None = None
        if printer.search is not None or printer.counter is not None:
            from kafkatools.commands.console_consumer.finding import Finding

            self._finding = Finding(console, args, printer)

    def run(self, config: Config) -> ExitStatus:
        """Print records until the run ends, then the total on stderr.

        Returns INTERRUPTED after Ctrl-C, FAILED when records were skipped, not committed, or missing at --exit-at-end.
        Raises the KafkaError or CommandError that ended the run, and BrokenPipeError.
        """
        self._commits = bool(config.group_id) and config.enable_auto_commit
        skip = self._skip_corrupt if self._args.skip_corrupt else None
        status = ExitStatus.OK
        self._output.open()
        try:
            with self._open(config, skip) as consumer:
                status = self._run(consumer, bool(config.group_id))
        except KeyboardInterrupt:
            status = ExitStatus.INTERRUPTED
        except BrokenPipeError:
            self._output.abandon()
            raise
        except Exception:  # cli.main prints the error, after the number of records printed so far
            self._report_total()
            self._output.abandon()
            raise
        if self._finding is not None:
            self._finding.print_counts()
        if self._args.enable_systest_events:
            self._console.print("shutdown_complete")
        self._report_total()
        self._end_output(status)
        if self._printer.error is not None:
            raise self._printer.error
        return status

    def _open(self, config: Config, skip_corrupt: SkipCorrupt | None) -> AbstractContextManager[PartitionReader]:
        return Consumer(config, self._console.clock, skip_corrupt)

    def _end_output(self, status: ExitStatus) -> None:
        """Complete the output if the run reached its end. Ctrl-C is the end of a run that has no other."""
        has_other_end = self._stops or self._printer.limit is not None or self._idle_ms < _FOREVER_MS
        is_early = status == ExitStatus.INTERRUPTED and has_other_end
        if is_early or not self._is_whole or self._printer.error is not None:
            self._output.abandon()
        else:
            self._output.complete()

    def _run(self, consumer: PartitionReader, has_group: bool) -> ExitStatus:
        if not has_group or not isinstance(consumer, Consumer):
            # signals are deferred where half of a batch must not be left in a file
            wakeup = consumer.wakeup if isinstance(consumer, Consumer) else _do_nothing
            deferred = Interruption(wakeup) if self._output.has_end else nullcontext()
            with self._finding.progress() if self._finding is not None else nullcontext(), deferred as interruption:
                self._consume(consumer, interruption)
            return self._status(consumer)
        self._is_member = True
        try:
            with Interruption(consumer.wakeup) as interruption:
                self._consume(consumer, interruption)
            status = self._status(consumer)
        except KeyboardInterrupt:
            self._commit(consumer, _INTERRUPTED_COMMIT_MS)
            raise
        except Exception:  # also a closed pipe: printed records are committed however the run ends
            self._commit(consumer)
            raise
        return status if self._commit(consumer) else ExitStatus.FAILED

    def _consume(self, consumer: PartitionReader, interruption: Interruption | None) -> None:
        if self._printer.is_limit_reached():
            return
        source = self._start(consumer, interruption)
        now = self._console.clock.now_ms
        started = now()
        deadline = started + self._idle_ms
        while self._printer.error is None and not self._is_enough(consumer, now() - started):
            remaining_ms = deadline - now()
            if remaining_ms <= 0:
                self._check_idle(consumer, source)
                return
            fetched = self._poll(consumer, source, remaining_ms, interruption)
            problem = None if fetched else _problem(consumer)
            self._silence.update(now(), problem, has_broker=problem is not None and consumer.has_broker())
            if self._order is not None:
                self._write_in_order(self._order, source, fetched)
            elif fetched:
                self._write(consumer, source, fetched, interruption)
            if fetched:
                deadline = now() + self._idle_ms
                continue
            self._output.ensure_reader()
            if self._ends is None:
                source.follow()
            elif now() - started >= _POLL_MS:
                self._ends.ensure_reachable()

    def _start(self, consumer: PartitionReader, interruption: Interruption | None) -> Source:
        """Assign or subscribe, and look up where to stop. Raises the errors of Source.start and of Ends, and that of an
        unreachable leader instead of a time-out."""
        requested = self._requested
        if self._finding is not None:
            requested = self._finding.narrowed(consumer, requested, has_end=self._stops, is_member=self._is_member)
        source = source_of(self._console.note, consumer, requested, self._is_member)
        try:
            source.start(to_end=self._stops)
            self._maybe_take_ends(source)  # before the first fetch, or the request would wait behind it
        except RequestTimedOut as error:
            raise _problem(consumer) or error from None
        except WakeupError:
            if interruption is not None:
                interruption.check()
            raise
        if self._finding is not None:
            self._finding.start(requested, consumer.assignment(), self._ends)
        if self._ends is not None and (self._args.order == "time" or self._requested.of_all):
            from kafkatools.tools.lines.time_order import TimeOrder

            self._order = TimeOrder(consumer, self._ends)
        return source

    def _poll(
        self, consumer: PartitionReader, source: Source, left_ms: int, interruption: Interruption | None
    ) -> list[FetchedColumns]:
        wait_ms = min(left_ms, _POLL_MS)
        if self._stops and (self._ends is None or None in map(consumer.known_position, consumer.assignment())):
            wait_ms = min(wait_ms, _POLL_FOR_POSITIONS_MS)
        try:
            fetched = consumer.poll_columns(wait_ms)
            for item in fetched:
                self._unprinted.setdefault(item.topic_partition, item.columns.offsets[0])
            self._maybe_take_ends(source)
        except WakeupError:
            fetched = []
        if interruption is not None:
            interruption.check()
        return fetched

    def _maybe_take_ends(self, source: Source) -> None:
        if self._stops and self._ends is None and source.is_assigned():
            self._ends = source.ends()

    def _check_idle(self, consumer: PartitionReader, source: Source) -> None:
        """End a run of --timeout-ms: raise CommandError if the topics do not exist, KafkaError if no broker or leader
        answers. Else it returns."""
        if not source.has_topics():
            raise CommandError(self._requested.missing)
        problem = _problem(consumer)
        if problem is not None:
            raise problem

    # --- printing

    def _write(
        self,
        consumer: PartitionReader,
        source: Source,
        fetched: Iterable[FetchedColumns],
        interruption: Interruption | None,
    ) -> None:
        out = bytearray()
        next_offsets: dict[TopicPartition, int] = {}
        for item in fetched:
            part = item.topic_partition
            if part in next_offsets:
                continue
            unprinted = self._format(out, source, item)
            if unprinted is not None:
                next_offsets[part] = unprinted
        self._send_out(out, interruption)
        self._unprinted = next_offsets
        if interruption is not None:
            interruption.check()
        if self._ends is not None:
            self._stop_at_ends(consumer, self._ends)

    def _write_in_order(self, order: TimeOrder, source: Source, fetched: Iterable[FetchedColumns]) -> None:
        """Buffer the selected records, and print those before which no other can come."""
        for item in fetched:
            order.add(source.select(self._before_end(item)))
        out = bytearray()
        for run in order.merged():
            if self._printer.format(out, run) is not None:
                break
            if len(out) > _WRITE_BYTES:
                self._send_out(out, None)
                out.clear()
        self._send_out(out, None)

    def _before_end(self, item: FetchedColumns) -> FetchedColumns:
        return item if self._ends is None else cut(item, self._ends.end_of(item.topic_partition))

    def _format(self, out: bytearray, source: Source, item: FetchedColumns) -> int | None:
        """Append the selected records before the partition's end offset and within --max-messages to `out`. Returns the
        offset of the first one that was not printed or skipped, None when all were."""
        fetched = self._before_end(item)
        for run in source.select(fetched) if fetched.columns.count else ():
            unprinted = self._printer.format(out, run)
            if unprinted is not None:
                return unprinted
        return item.columns.offsets[fetched.columns.count] if fetched.columns.count < item.columns.count else None

    def _send_out(self, out: bytearray, interruption: Interruption | None) -> None:
        if not out:
            return
        if interruption is not None:
            interruption.is_writing = True
        try:
            self._console.write(out)
            self._console.flush()
        finally:
            if interruption is not None:
                interruption.is_writing = False

    def _stop_at_ends(self, consumer: PartitionReader, ends: Ends) -> None:
        """Pause the partitions that were read beyond their end offset, at that offset."""
        for part, offset in list(self._unprinted.items()):
            if offset >= ends.end_of(part) and part not in self._printer.cut:
                consumer.seek(part, offset)
                consumer.pause([part])
                del self._unprinted[part]

    def _skip_corrupt(self, damage: CorruptBatch) -> None:
        partition = f"{damage.topic}-{damage.partition}"
        last = damage.next_offset - 1
        line = f"Skipped offsets {damage.first_offset} to {last} of {partition}: {damage.cause}"
        if line not in self._skipped:  # --last reads the end of a partition twice
            self._skipped.add(line)
            self._console.error(line)

    # --- the end of the run

    def _is_enough(self, consumer: PartitionReader, elapsed_ms: int) -> bool:
        if self._printer.is_limit_reached():
            return True
        if self._ends is None:
            return False
        if not consumer.assignment():
            # In a rebalance other members have to revoke partitions before they are assigned here.
            return elapsed_ms >= _EMPTY_ASSIGNMENT_MS
        return not self._ends.undone() and not (self._order is not None and self._order.unprinted())

    def _status(self, consumer: PartitionReader) -> ExitStatus:
        for line in self._printer.remarks():
            self._console.note(line)
        failures = self._printer.failures()
        for line in failures:
            self._console.error(line)
        status = ExitStatus.FAILED if self._skipped or self._printer.has_skipped or failures else ExitStatus.OK
        if self._ends is not None and self._printer.error is None:
            assigned = consumer.assignment()
            if self._report_ends is not None:
                self._report_ends({part: self._ends.end_of(part) for part in assigned})
            unprinted = self._order.unprinted() if self._order is not None else ()
            undone = self._printer.cut.union(self._ends.undone(), unprinted)
            complete = sum(1 for part in assigned if part not in undone)
            self._console.note(f"complete: {complete}/{len(assigned)} partitions")
            self._is_whole = complete == len(assigned) or self._printer.is_limit_reached()
            if complete < len(assigned) and (self._args.exit_at_end or not self._printer.is_limit_reached()):
                status = ExitStatus.FAILED
        return status

    def _commit(self, consumer: Consumer, timeout_ms: int = _COMMIT_MS) -> bool:
        """Seek back to unprinted offsets, commit and leave the group. Returns False, with an error on stderr, when the
        commit failed. Without automatic commits it does nothing and returns True."""
        if not self._commits:
            return True
        assigned = set(consumer.assignment())
        for part, offset in self._unprinted.items():
            if part in assigned:
                consumer.seek(part, offset)
        try:
            consumer.commit_sync(timeout_ms=timeout_ms)
        except KafkaError as error:
            self._console.error(f"The offsets of the printed records were not committed: {error}")
            return False
        finally:
            consumer.unsubscribe()  # else close would commit again
        return True

    def _report_total(self) -> None:
        if self._finding is not None:
            self._finding.report()
        self._console.note(f"Processed a total of {self._printer.count} messages")


def _do_nothing() -> None:
    """Wake up a reader that never waits."""


def _problem(consumer: PartitionReader) -> KafkaError | None:
    return consumer.connection_problem() or consumer.missing_leader()
