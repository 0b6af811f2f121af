"""A run of `kt share-consumer-perf-test`: members of one share group, each on a thread of its own, that read and count
records as columns.

Whole polls count, as in Kafka's tool: each record that was delivered is accepted. Figures of one member are counted by
its thread, those of the group by all threads under a lock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import NamedTuple

from kafkatools.core.clock import Clock
from kafkatools.core.config import Config
from kafkatools.core.consumer.completed_fetch import FetchedColumns
from kafkatools.core.consumer.errors import WakeupError
from kafkatools.core.consumer.share.share_consumer import ShareConsumer
from kafkatools.core.errors import KafkaError, UnknownTopicOrPartition
from kafkatools.core.metrics.registry import MetricValues
from kafkatools.tools.perf.consumer_run import Figures, Reading, figures_between

_POLL_MS = 100
_CLOSE_MS = 500


class ShareLoad(NamedTuple):
    """The load of the share consumer performance test. `reporting_interval_ms` is None without interval reports."""

    topic: str
    records: int
    threads: int
    timeout_ms: int
    reporting_interval_ms: int | None


class ShareInterval(NamedTuple):
    """A reporting interval of one member, numbered from 1, from `last` to `now`; its figures count from its start."""

    member: int
    start: Reading
    last: Reading
    now: Reading


class ShareEnd(NamedTuple):
    """The result: figures of the group and of each member over the same time, and the metrics of each member. `problem`
    is why too few records came."""

    start: Reading
    end: Reading
    members: list[Reading]
    metrics: list[MetricValues]
    problem: Exception | None
    is_interrupted: bool

    def figures(self, reading: Reading) -> Figures:
        """Return the figures of the group's or a member's reading."""
        return figures_between(self.start, reading)


class _Member:
    """One share consumer and its counts."""

    def __init__(self, number: int, config: Config, clock: Clock) -> None:
        self.number = number
        self.consumer = ShareConsumer(config, clock)
        self.records = self.size_bytes = 0
        self.error: Exception | None = None

    def take(self, fetched: list[FetchedColumns]) -> tuple[int, int]:
        """Count records; return their number and the bytes of keys and values."""
        records = sum(item.columns.count for item in fetched)
        size = 0
        for item in fetched:
            for lengths in (item.columns.key_lengths, item.columns.value_lengths):
                size += sum(lengths) + lengths.count(-1)
        self.records += records
        self.size_bytes += size
        return records, size


class ShareRun:
    """One run of the share consumer performance test. `on_interval` is called by the members' threads."""

    def __init__(
        self, load: ShareLoad, config: Config, clock: Clock, on_interval: Callable[[ShareInterval], None]
    ) -> None:
        self._load = load
        self._config = config
        self._clock = clock
        self._on_interval = on_interval
        self._lock = threading.Lock()
        self._records = self._size_bytes = 0
        self._stops = False

    def run(self) -> ShareEnd:
        """Read until the requested number of records, `timeout_ms` without a record, or Ctrl-C; return the result in
        each case. Raises KafkaError."""
        load, clock = self._load, self._clock
        members = [_Member(number, self._config, clock) for number in range(1, load.threads + 1)]
        start = Reading(0, 0, clock.wall_ms(), 0)
        threads = [threading.Thread(target=self._read, args=(member, start), daemon=True) for member in members]
        is_interrupted = False
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        except KeyboardInterrupt:
            is_interrupted = True
            self._stop(members, threads)
        wall_ms = clock.wall_ms()
        end = Reading(self._records, self._size_bytes, wall_ms, 0)
        readings = [Reading(member.records, member.size_bytes, wall_ms, 0) for member in members]
        problem = None if self._records >= load.records else _problem(members, load.topic)
        metrics = []
        for member in members:
            self._close(member)
            metrics.append(member.consumer.metrics())
        failure = next((member.error for member in members if member.error is not None), None)
        if failure is not None:
            raise failure
        return ShareEnd(start, end, readings, metrics, problem, is_interrupted)

    def _stop(self, members: list[_Member], threads: list[threading.Thread]) -> None:
        self._stops = True
        for member in members:
            member.consumer.wakeup()
        for thread in threads:
            thread.join()

    def _close(self, member: _Member) -> None:
        try:
            if member.error is None:
                member.consumer.commit_sync(_CLOSE_MS)
        except WakeupError:
            pass  # Ctrl-C, after its poll had ended
        finally:
            member.consumer.close(_CLOSE_MS)

    def _read(self, member: _Member, start: Reading) -> None:
        try:
            self._consume(member, start)
        except WakeupError:
            pass
        except Exception as error:  # noqa: BLE001 - the end of the thread: `run` raises it
            member.error = error
            self._stops = True

    def _consume(self, member: _Member, start: Reading) -> None:
        load, now = self._load, self._clock.now_ms
        member.consumer.subscribe([load.topic])
        last = start
        now_ms = last_arrival_ms = last_report_ms = now()
        while not self._stops and self._records < load.records and now_ms - last_arrival_ms <= load.timeout_ms:
            fetched = self._poll(member.consumer)
            now_ms = now()
            if not fetched:
                continue
            last_arrival_ms = now_ms
            records, size = member.take(fetched)
            with self._lock:
                self._records += records
                self._size_bytes += size
            interval_ms = load.reporting_interval_ms
            if interval_ms is not None and now_ms - last_report_ms >= interval_ms:
                reading = Reading(member.records, member.size_bytes, self._clock.wall_ms(), 0)
                with self._lock:
                    self._on_interval(ShareInterval(member.number, start, last, reading))
                last, last_report_ms = reading, now_ms

    def _poll(self, consumer: ShareConsumer) -> list[FetchedColumns]:
        """Poll records. While brokers cannot be reached, a retriable error counts as no records: `timeout_ms` ends the
        run. Other errors are raised."""
        try:
            return consumer.poll_columns(_POLL_MS)
        except KafkaError as error:
            if consumer.connection_problem() is None or not error.retriable:
                raise
            return []


def _problem(members: list[_Member], topic: str) -> KafkaError | None:
    for member in members:
        if member.consumer.missing_topics():
            return UnknownTopicOrPartition(f"Topic {topic} does not exist")
        problem = member.consumer.connection_problem()
        if problem is not None:
            return problem
    return None
