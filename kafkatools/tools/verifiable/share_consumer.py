"""Kafka's verifiable share consumer: reads a topic as a member of a share group and writes an event for each step.

Events and their fields are those of org.apache.kafka.tools.VerifiableShareConsumer. A signal ends the run between two
polls. --max-messages counts acknowledged records, so the last poll may exceed it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import chain

from kafkatools.core.admin.admin import Admin
from kafkatools.core.clock import Clock
from kafkatools.core.config import Config
from kafkatools.core.consumer.completed_fetch import FetchedColumns
from kafkatools.core.consumer.errors import WakeupError
from kafkatools.core.consumer.share.share_consumer import ShareConsumer
from kafkatools.core.errors import KafkaError
from kafkatools.core.topic_partition import TopicPartition
from kafkatools.exit_status import ExitStatus
from kafkatools.stop_signals import StopSignals
from kafkatools.tools.verifiable.events import EventSink, event

_POLL_MS = 1000
_UNREACHABLE_MS = 15_000


@dataclass
class VerifiableShareConsumer:
    """One run of the verifiable share consumer. `mode` is auto, sync or async; `limit` below 0 means none; `reset` is
    the group's share.auto.offset.reset to set first, empty to leave it, by an admin client with the settings
    `admin`."""

    topic: str
    mode: str
    limit: int
    reset: str
    is_verbose: bool
    config: Config
    admin: Config
    clock: Clock
    events: EventSink
    _acknowledged: int = field(default=0, init=False)
    _failed: int = field(default=0, init=False)

    def run(self) -> ExitStatus:
        """Read until the limit, a signal or an error. Returns INTERRUPTED after a signal, FAILED if an acknowledgement
        failed, else OK. Raises KafkaError."""
        consumer = ShareConsumer(self.config, self.clock)
        with StopSignals(consumer.wakeup) as signals:
            self._write("startup_complete")
            try:
                if self.reset:
                    self._set_reset()
                consumer.subscribe([self.topic])
                consumer.set_acknowledgement_commit_callback(self._note_acknowledged)
                failing_since_ms: int | None = None
                while not signals.has_signal and not 0 <= self.limit <= self._acknowledged:
                    problem = None if self._turn(consumer) else consumer.connection_problem()
                    now_ms = self.clock.now_ms()
                    failing_since_ms = None if problem is None else failing_since_ms or now_ms
                    if problem is not None and failing_since_ms and now_ms - failing_since_ms >= _UNREACHABLE_MS:
                        raise problem
            except WakeupError:
                pass
            finally:
                consumer.close()
                self._write("shutdown_complete")
        if signals.has_signal:
            return ExitStatus.INTERRUPTED
        return ExitStatus.FAILED if self._failed else ExitStatus.OK

    def _set_reset(self) -> None:
        with Admin(self.admin, clock=self.clock) as admin:
            admin.alter_configs({("group", self.config.group_id): {"share.auto.offset.reset": self.reset}})
        self._write("offset_reset_strategy_set", offsetResetStrategy=self.reset)

    def _turn(self, consumer: ShareConsumer) -> bool:
        """Poll once, write events and commit; return whether records came."""
        fetched = consumer.poll_columns(_POLL_MS)
        if not fetched:
            return False
        self._note_consumed(fetched)
        if self.mode == "async":
            consumer.commit_async()
        elif self.mode == "sync":
            consumer.commit_sync()
        return True

    def _note_consumed(self, fetched: list[FetchedColumns]) -> None:
        by_partition: dict[TopicPartition, list[FetchedColumns]] = {}
        for item in fetched:
            by_partition.setdefault(item.topic_partition, []).append(item)
        summaries = []
        for part, items in by_partition.items():
            if self.is_verbose:
                for record in chain.from_iterable(item.columns.records() for item in items):
                    content = {"key": _text(record.key), "value": _text(record.value)}
                    self._write("record_data", **content, **_place(part), offset=record.offset)
            summaries.append(_summary(part, {offset for item in items for offset in item.columns.offsets}))
        self._write("records_consumed", count=sum(item.columns.count for item in fetched), partitions=summaries)

    def _note_acknowledged(self, done: dict[TopicPartition, set[int]], error: KafkaError | None) -> None:
        count = sum(map(len, done.values()))
        fields: dict[str, object] = {"count": count, "partitions": [_summary(*item) for item in done.items()]}
        if error is None:
            self._acknowledged += count
        else:
            self._failed += 1
            fields["error"] = str(error)
        self._write("offsets_acknowledged", **fields, success=error is None)

    def _write(self, name: str, **fields: object) -> None:
        self.events.print(event(name, self.clock.wall_ms(), **fields))
        self.events.flush()


def _place(part: TopicPartition) -> dict[str, object]:
    return {"topic": part.topic, "partition": part.partition}


def _summary(part: TopicPartition, offsets: set[int]) -> dict[str, object]:
    return {**_place(part), "count": len(offsets), "offsets": sorted(offsets)}


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "replace")
