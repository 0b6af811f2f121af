"""A run of `kt verifiable-consumer`: a group member that writes an event for everything that happens to it.

Events: assigned and revoked partitions, count and offsets of each poll's records, committed offsets. A signal ends the
run between two polls.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import NamedTuple

from kafkatools.core.clock import Clock
from kafkatools.core.config import Config
from kafkatools.core.consumer.completed_fetch import FetchedColumns
from kafkatools.core.consumer.consumer import Consumer
from kafkatools.core.consumer.consumer_records import ConsumerRecords
from kafkatools.core.consumer.errors import WakeupError
from kafkatools.core.consumer.group_subscription import RebalanceListener
from kafkatools.core.consumer.subscription import TopicPartition
from kafkatools.core.errors import FencedInstanceId, KafkaError
from kafkatools.exit_status import ExitStatus
from kafkatools.stop_signals import StopSignals
from kafkatools.tools.verifiable.events import EventSink, event

_FOREVER_MS = 1 << 40
_POLL_MS = 500
_UNREACHABLE_MS = 5_000


class TopicToRead(NamedTuple):
    """The topic and limits of a verifiable consumer. `limit` is the number of records, -1 for no limit. `commits`:
    commit after each poll. `is_verbose`: write an event for each record too."""

    topic: str
    limit: int
    commits: bool
    is_verbose: bool


@dataclass(eq=False, repr=False)
class VerifiableConsumer:
    """One run of the verifiable consumer."""

    options: TopicToRead
    config: Config
    clock: Clock
    events: EventSink
    _consumed: int = field(default=0, init=False)
    _failed_commits: int = field(default=0, init=False)
    _has_reported_missing: bool = field(default=False, init=False)

    def run(self) -> ExitStatus:
        """Read until the limit, a signal or an error, then leave the group. Returns INTERRUPTED after a signal, FAILED
        if a commit failed, else OK. Raises KafkaError."""
        consumer = Consumer(self.config, self.clock)
        with StopSignals(consumer.wakeup) as signals:
            self.write_event("startup_complete")
            try:
                self._read(consumer, signals)
            finally:
                if signals.has_signal:
                    self.write_event("shutdown_requested")
                consumer.close()
                self.write_event("shutdown_complete")
                if not signals.has_signal:
                    self.write_event("shutdown_requested")
        if signals.has_signal:
            return ExitStatus.INTERRUPTED
        return ExitStatus.FAILED if self._failed_commits else ExitStatus.OK

    def write_event(self, name: str, **fields: object) -> None:
        """Write an event and flush."""
        self._write_events([(name, fields)])

    def _write_events(self, events: Iterable[tuple[str, Mapping[str, object]]]) -> None:
        wall_ms = self.clock.wall_ms()
        for name, fields in events:
            self.events.print(event(name, wall_ms, **fields))
        self.events.flush()

    # -- reading --

    def _read(self, consumer: Consumer, signals: StopSignals) -> None:
        consumer.subscribe([self.options.topic], _Listener(self))
        try:
            while not signals.has_signal and not 0 <= self.options.limit <= self._consumed:
                records = consumer.poll(_FOREVER_MS) if consumer.assignment() else self._first_poll(consumer)
                offsets = self._take(records)
                if self.options.commits:
                    self._commit(consumer, offsets)
        except WakeupError:
            return

    def _first_poll(self, consumer: Consumer) -> ConsumerRecords:
        """Poll until there is an assignment or a record. Raises the connection error if brokers stay unreachable for
        _UNREACHABLE_MS, where Kafka's tool waits forever."""
        clock, failing_since = self.clock, None
        while True:
            records = consumer.poll(_POLL_MS)
            if records.count:
                return records
            if consumer.assignment():
                return consumer.poll(_FOREVER_MS)
            self._report_missing_topic(consumer)
            problem = consumer.connection_problem()
            if problem is None:
                failing_since = None
            elif failing_since is None:
                failing_since = clock.now_ms()
            elif clock.now_ms() - failing_since >= _UNREACHABLE_MS:
                raise problem

    def _report_missing_topic(self, consumer: Consumer) -> None:
        """Note once on stderr that the topic does not exist. The consumer keeps waiting."""
        is_answered = consumer.metadata_version > 0
        if is_answered and not self._has_reported_missing and self.options.topic not in consumer.known_partitions():
            self._has_reported_missing = True
            self.events.note(f"Topic {self.options.topic} does not exist yet: waiting for it")

    def _take(self, records: ConsumerRecords) -> dict[TopicPartition, int]:
        """Write events for polled records up to the limit. Returns the offsets to commit."""
        offsets: dict[TopicPartition, int] = {}
        summaries: list[dict[str, object]] = []
        for part, items in _by_partition(records.columns()).items():
            remaining = self.options.limit - self._consumed if self.options.limit >= 0 else records.count
            count = min(remaining, sum(item.columns.count for item in items))
            if count <= 0:
                continue
            self._consumed += count
            last = _offset_at(items, count - 1)
            offsets[part] = last + 1
            summary = {"count": count, "minOffset": items[0].columns.offsets[0], "maxOffset": last}
            summaries.append({**_place(part), **summary})
            if self.options.is_verbose:
                self._write_events(("record_data", fields) for fields in _record_fields(part, items, count))
        self.write_event("records_consumed", count=records.count, partitions=summaries)
        return offsets

    def _commit(self, consumer: Consumer, offsets: Mapping[TopicPartition, int]) -> None:
        """Commit offsets and write the event. A failed commit is counted and written; only FencedInstanceId is raised.
        After a wake-up the commit is repeated, then WakeupError is raised."""
        rows = [{**_place(part), "offset": offset} for part, offset in offsets.items()]
        try:
            consumer.commit_sync(offsets)
        except WakeupError:
            self._commit(consumer, offsets)
            raise
        except FencedInstanceId:
            raise
        except KafkaError as error:
            self._failed_commits += 1
            self.write_event("offsets_committed", offsets=rows, error=str(error), success=False)
        else:
            self.write_event("offsets_committed", offsets=rows, success=True)


def _place(part: TopicPartition) -> dict[str, object]:
    return {"topic": part.topic, "partition": part.partition}


def _by_partition(fetched: Sequence[FetchedColumns]) -> dict[TopicPartition, list[FetchedColumns]]:
    fetched_by_partition: dict[TopicPartition, list[FetchedColumns]] = {}
    for item in fetched:
        if item.columns.count:
            fetched_by_partition.setdefault(item.topic_partition, []).append(item)
    return fetched_by_partition


def _offset_at(items: Sequence[FetchedColumns], index: int) -> int:
    for item in items:
        if index < item.columns.count:
            return item.columns.offsets[index]
        index -= item.columns.count
    raise IndexError(index)


def _record_fields(part: TopicPartition, items: Sequence[FetchedColumns], count: int) -> Iterator[dict[str, object]]:
    for record in islice((record for item in items for record in item.columns.records()), count):
        yield {"key": _text(record.key), "value": _text(record.value), **_place(part), "offset": record.offset}


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "replace")


@dataclass(frozen=True)
class _Listener(RebalanceListener):
    """Writes an event for assigned and revoked partitions."""

    run: VerifiableConsumer

    def on_partitions_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self.run.write_event("partitions_revoked", partitions=[_place(part) for part in partitions])

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self.run.write_event("partitions_assigned", partitions=[_place(part) for part in partitions])
