"""A run of `kt producer-perf-test`: sends values as columns and measures their latency.

The latency of a record is the time from `send_columns` to its acknowledgement. Records count when they are
acknowledged. Only the thread of `run` calls the report.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from kafkatools.core.clock import Clock
from kafkatools.core.config import Config
from kafkatools.core.errors import KafkaError
from kafkatools.core.metrics.registry import MetricName
from kafkatools.core.producer.first_contact import reason_not_to_start
from kafkatools.core.producer.futures import RowsRun
from kafkatools.core.producer.producer import Producer
from kafkatools.core.records.columns import RowColumns
from kafkatools.tools.lines.tally import is_hopeless_cause
from kafkatools.tools.perf.latency_stats import Figures, LatencyStats
from kafkatools.tools.perf.payloads import Payloads
from kafkatools.tools.perf.throughput_throttler import ThroughputThrottler

_CLOSE_MS = 5_000
_TURN_MS = 100


class ProducerLoad(NamedTuple):
    """The load of the producer performance test. `warmup` is the number of records before the steady state.
    `records_per_second` is -1 without a limit. `transaction_ms` is the duration of a transaction, for a producer with a
    transactional id."""

    topic: str
    records: int
    warmup: int
    records_per_second: float
    reporting_interval_ms: int
    transaction_ms: int


class ProducerEnd(NamedTuple):
    """The result of the producer performance test: figures of all records and of the steady state, producer metrics,
    the error that ended it, and the number of failed records by error message."""

    totals: Sequence[Figures]
    metrics: Mapping[MetricName, float]
    stopped: Exception | None
    failures: Mapping[str, int]
    sent_count: int
    is_interrupted: bool


class ProducerReport(Protocol):
    """Receives the progress of the producer performance test."""

    def started(self) -> None:
        """Called once the producer is created, before the first record."""

    def window(self, figures: Figures) -> None:
        """Called with the figures of a finished reporting interval."""

    def error(self, line: str) -> None:
        """Called with an error message that no record has, such as a failed abort."""


@dataclass(eq=False, repr=False)
class ProducerRun:
    """One run of the producer performance test."""

    load: ProducerLoad
    config: Config
    clock: Clock
    payloads: Payloads
    report: ProducerReport
    _sent_count: int = field(default=0, init=False)
    _stats: LatencyStats = field(init=False)
    _steady: LatencyStats | None = field(default=None, init=False)
    _failures: dict[str, int] = field(default_factory=dict, init=False)
    _stopped: Exception | None = field(default=None, init=False)
    _transaction_ms: int | None = field(init=False)
    _transaction_start_ms: int | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._stats = LatencyStats(self.clock.now_ms(), self.load.reporting_interval_ms)
        self._transaction_ms = None if self.config.transactional_id is None else self.load.transaction_ms

    def run(self) -> ProducerEnd:
        """Send all records and wait for their acknowledgements. A KafkaError ends the run and is in `stopped` of the
        result. Ctrl-C ends the run with the figures so far. Raises ConfigError for invalid settings."""
        producer = Producer(self.config, self.clock)
        is_interrupted = False
        metrics: Mapping[MetricName, float] = {}
        self.report.started()
        self._stats = LatencyStats(self.clock.now_ms(), self.load.reporting_interval_ms)
        try:
            try:
                self._stopped = reason_not_to_start(producer.sender, producer.clock, producer.config.max_block_ms)
                if self._stopped is None:
                    self._measure(producer)
                metrics = producer.metrics()
            except KafkaError as error:
                self._stopped = error
                self._abort(producer)
            producer.close(_CLOSE_MS if self._stopped else None)
        except KeyboardInterrupt:
            is_interrupted = True
            self._abort(producer)
            producer.close(_CLOSE_MS)
        finally:
            producer.close(0)
        self._show_progress()
        now_ms = self.clock.now_ms()
        totals = [stats.total(now_ms) for stats in (self._stats, self._steady) if stats is not None]
        return ProducerEnd(totals, metrics, self._stopped, self._failures, self._sent_count, is_interrupted)

    # -- sending --

    def _measure(self, producer: Producer) -> None:
        if self._transaction_ms is not None:
            producer.init_transactions()
        clock = self.clock
        start_ms = clock.now_ms()
        self._stats = LatencyStats(start_ms, self.load.reporting_interval_ms)
        throttler = ThroughputThrottler(self.load.records_per_second, start_ms)
        while self._sent_count < self.load.records and self._stopped is None:
            now_ms = clock.now_ms()
            allowed = throttler.allowance(self._sent_count, now_ms)
            if not allowed:
                self._pause(throttler.pause_ms(self._sent_count, now_ms))
                continue
            self._send(producer, min(allowed, self._remaining()), now_ms)
            self._show_progress()
        if self._transaction_start_ms is not None and self._stopped is None:
            producer.commit_transaction()
        self._flush(producer)

    def _remaining(self) -> int:
        """The number of records until the end of the warm-up or of the run."""
        return (self.load.warmup if self._sent_count < self.load.warmup else self.load.records) - self._sent_count

    def _send(self, producer: Producer, max_rows: int, now_ms: int) -> None:
        if self._transaction_ms is not None and self._transaction_start_ms is None:
            producer.begin_transaction()
            self._transaction_start_ms = now_ms
        if self.load.warmup and self._sent_count == self.load.warmup and self._steady is None:
            self._steady = LatencyStats(now_ms, self.load.reporting_interval_ms, is_steady_state=True)
            self._stats.is_silent = True
        rows = self.payloads.rows(self._sent_count, max_rows)
        producer.send_columns(self.load.topic, rows, callback=self._callback(rows, now_ms))
        self._sent_count += rows.count
        start_ms = self._transaction_start_ms
        if self._transaction_ms is not None and start_ms is not None and now_ms - start_ms >= self._transaction_ms:
            producer.commit_transaction()
            self._transaction_start_ms = None

    def _callback(self, rows: RowColumns, sent_ms: int) -> Callable[[RowsRun], None]:
        """A callback that counts acknowledged records, for the sender thread or for rows that cannot be queued."""
        stats, steady, clock, lengths = self._stats, self._steady, self.clock, rows.value_lengths

        def on_run_done(run: RowsRun) -> None:
            if run.error is not None:
                self._note_failure(run)
                return
            numbers = run.rows
            count = len(numbers)
            if numbers[-1] - numbers[0] < count:
                size = sum(lengths[numbers[0] : numbers[-1] + 1])
            else:  # a partitioner has spread the rows of the call
                size = sum(map(lengths.__getitem__, numbers))
            now_ms = clock.now_ms()
            stats.record(count, size, now_ms - sent_ms, now_ms)
            if steady is not None:
                steady.record(count, size, now_ms - sent_ms, now_ms)

        return on_run_done

    def _note_failure(self, run: RowsRun) -> None:
        """Count failed records by message. An error of a record without a partition that affects all records (no topic,
        no brokers, a timeout) ends the run."""
        assert run.error is not None
        message = str(run.error) or type(run.error).__name__
        self._failures[message] = self._failures.get(message, 0) + len(run.rows)
        if run.partition < 0 and is_hopeless_cause(run.error):
            self._stopped = run.error

    def _pause(self, duration_ms: int | None) -> None:
        """Sleep and report progress meanwhile. A duration of None never ends."""
        end_ms = None if duration_ms is None else self.clock.now_ms() + duration_ms
        while True:
            left_ms = _TURN_MS if end_ms is None else min(_TURN_MS, end_ms - self.clock.now_ms())
            if left_ms <= 0:
                return
            self.clock.sleep_ms(left_ms)
            self._show_progress()

    def _flush(self, producer: Producer) -> None:
        """Wait for all acknowledgements and report progress meanwhile."""
        flushing = threading.Thread(target=producer.flush, name="flush", daemon=True)
        flushing.start()
        while flushing.is_alive():
            flushing.join(_TURN_MS / 1000)
            self._show_progress()

    def _abort(self, producer: Producer) -> None:
        """Abort the open transaction, if any, within 5 s. An error goes to the report. Does nothing after a fatal error
        of the producer."""
        if self._transaction_start_ms is None or producer.has_fatal_error:
            return
        try:
            producer.abort_transaction(_CLOSE_MS)
        except KafkaError as error:
            self.report.error(f"The open transaction could not be aborted: {error}")

    def _show_progress(self) -> None:
        for stats in (self._stats, self._steady):
            while stats is not None and stats.windows:
                self.report.window(stats.windows.popleft())
