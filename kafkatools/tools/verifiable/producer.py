"""A run of `kt verifiable-producer`: sends increasing numbers as columns and writes an event for the outcome of each.

A record counts as sent when it is passed to the producer, and as acked when the broker has acknowledged it. The sender
thread only queues outcomes. The thread of `run` writes the events, also while it waits.
"""

from __future__ import annotations

import queue
import threading
from array import array
from collections.abc import Callable, Iterator
from typing import NamedTuple

from kafkatools.core.clock import Clock
from kafkatools.core.config import Config
from kafkatools.core.producer.first_contact import reason_not_to_start
from kafkatools.core.producer.futures import RowsRun
from kafkatools.core.producer.producer import Producer
from kafkatools.core.records.columns import RowColumns
from kafkatools.exit_status import ExitStatus
from kafkatools.stop_signals import StopSignals
from kafkatools.tools.perf.throughput_throttler import ThroughputThrottler
from kafkatools.tools.verifiable.events import EventSink, event, java_exception, json_text

_CHUNK = 500
_TURN_MS = 100
_CLOSE_MS = 5_000


class NumbersToSend(NamedTuple):
    """The records of a verifiable producer. `limit` and `records_per_second` are -1 without a limit. A `prefix` is put
    before each number. `keys` is the number of different keys, None without keys; with 0 each key is the record's
    number. `create_ms` is the timestamp of the first record, None for the producer's clock."""

    topic: str
    limit: int
    records_per_second: int
    prefix: int | None
    keys: int | None
    create_ms: int | None


class _Outcome(NamedTuple):
    """The outcome of consecutive records. `first` is the number of the first record in their chunk."""

    first: int
    run: RowsRun
    wall_ms: int


class VerifiableProducer:
    """One run of the verifiable producer."""

    def __init__(self, options: NumbersToSend, config: Config, clock: Clock, events: EventSink) -> None:
        self._config = config
        self._clock = clock
        self._events = events
        self._topic = options.topic
        self._limit = options.limit
        self._throughput = options.records_per_second
        self._prefix = "" if options.prefix is None else f"{options.prefix}."
        self._keys = options.keys
        self._create_ms = options.create_ms
        self._outcomes: queue.SimpleQueue[_Outcome] = queue.SimpleQueue()
        self._sent_count = self._acked = 0
        self._problem: Exception | None = None

    def run(self) -> ExitStatus:
        """Send all records, write an event for each outcome, then a summary. Returns INTERRUPTED after a signal, FAILED
        if a record was not acknowledged, else OK. Raises the error that kept the producer from starting."""
        start_ms = self._clock.now_ms()
        producer = Producer(self._config, self._clock)
        try:
            with StopSignals() as signals:
                self._write_event("startup_complete")
                self._send_all(producer, signals)
                self._write_until_done(lambda: producer.close(_CLOSE_MS if signals.has_signal else None))
                self._write_event("shutdown_complete")
                self._sum_up(start_ms)
        finally:
            producer.close(0)
        if self._problem is not None:
            raise self._problem
        if signals.has_signal:
            return ExitStatus.INTERRUPTED
        return ExitStatus.OK if self._acked == self._sent_count else ExitStatus.FAILED

    # -- sending --

    def _send_all(self, producer: Producer, signals: StopSignals) -> None:
        if self._limit:
            self._problem = reason_not_to_start(producer.sender, producer.clock, producer.config.max_block_ms)
        clock = self._clock
        start_ms = clock.now_ms()
        throttler = ThroughputThrottler(self._throughput, start_ms)
        while not (signals.has_signal or self._problem) and (self._limit < 0 or self._sent_count < self._limit):
            now_ms = clock.now_ms()
            allowed = throttler.allowance(self._sent_count, now_ms)
            if not allowed:
                pause_ms = throttler.pause_ms(self._sent_count, now_ms)
                self._write_for(_TURN_MS if pause_ms is None else min(pause_ms, _TURN_MS))
                continue
            count = min(allowed, _CHUNK, _CHUNK if self._limit < 0 else self._limit - self._sent_count)
            rows = self._rows(self._sent_count, count, now_ms - start_ms)
            first = self._sent_count
            self._sent_count += count
            producer.send_columns(self._topic, rows, callback=self._callback(first))
            self._write_queued()

    def _rows(self, first: int, count: int, elapsed_ms: int) -> RowColumns:
        numbers = range(first, first + count)
        keys = None if self._keys is None else [self._key(number).encode() for number in numbers]
        rows = RowColumns.of_values([f"{self._prefix}{number}".encode() for number in numbers], keys)
        if self._create_ms is not None:
            rows.timestamps = array("q", [self._create_ms + elapsed_ms]) * count
        return rows

    def _key(self, number: int) -> str:
        assert self._keys is not None
        return str(number % self._keys if self._keys > 0 else number)

    def _callback(self, first: int) -> Callable[[RowsRun], None]:
        outcomes, clock = self._outcomes, self._clock
        return lambda run: outcomes.put(_Outcome(first, run, clock.wall_ms()))

    # -- events --

    def _write_event(self, name: str, **fields: object) -> None:
        self._events.print(event(name, self._clock.wall_ms(), **fields))
        self._events.flush()

    def _write_queued(self) -> None:
        """Write the events of all queued outcomes without waiting."""
        while not self._outcomes.empty():
            self._write(self._outcomes.get())
        self._events.flush()

    def _write_for(self, duration_ms: int) -> None:
        """Write events of outcomes as they come, for `duration_ms` at most."""
        deadline_ms = self._clock.now_ms() + duration_ms
        while (left_ms := deadline_ms - self._clock.now_ms()) > 0:
            try:
                self._write(self._outcomes.get(timeout=left_ms / 1000))
            except queue.Empty:
                return
            self._write_queued()

    def _write_until_done(self, work: Callable[[], None]) -> None:
        """Run `work` in a thread, and write events meanwhile and after it."""
        worker = threading.Thread(target=work, name="close", daemon=True)
        worker.start()
        while worker.is_alive():
            self._write_for(_TURN_MS // 10)
        self._write_queued()

    def _write(self, outcome: _Outcome) -> None:
        run = outcome.run
        count = len(run.rows)
        if run.error is None:
            self._acked += count
            lines = self._successes(outcome)
        else:
            lines = self._failures(outcome, run.error)
        self._events.write("".join(lines).encode())

    def _successes(self, outcome: _Outcome) -> Iterator[str]:
        run, topic = outcome.run, json_text(outcome.run.topic)
        head = f'{{"timestamp":{outcome.wall_ms},"name":"producer_send_success","key":'
        tail = f',"topic":{topic},"partition":{run.partition}}}\n'
        offset, step = (run.base_offset, 1) if run.base_offset >= 0 else (-1, 0)
        for row in run.rows:
            number = outcome.first + row
            key = "null" if self._keys is None else f'"{self._key(number)}"'
            yield f'{head}{key},"value":"{self._prefix}{number}","offset":{offset}{tail}'
            offset += step

    def _failures(self, outcome: _Outcome, error: Exception) -> Iterator[str]:
        for row in outcome.run.rows:
            number = outcome.first + row
            fields = {
                "topic": self._topic,
                "key": None if self._keys is None else self._key(number),
                "value": f"{self._prefix}{number}",
                "exception": java_exception(error),
                "message": str(error),
            }
            yield event("producer_send_error", outcome.wall_ms, **fields) + "\n"

    def _sum_up(self, start_ms: int) -> None:
        elapsed_ms = self._clock.now_ms() - start_ms
        average = 1000 * (self._acked / elapsed_ms) if elapsed_ms else 0.0
        self._write_event(
            "tool_data",
            sent=self._sent_count,
            acked=self._acked,
            target_throughput=self._throughput,
            avg_throughput=average,
        )
