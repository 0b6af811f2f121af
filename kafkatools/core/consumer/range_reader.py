"""Reads one range of offsets of a partition as the batches lie in the log, for those who decode many at once.

Rules: the range is [start, end), and end must have been a broker's answer: the reader is done when its position has
reached it, or when the broker has said that no record lies before it (holes of compaction, control batches). The first
and the last batch may hold records outside of the range; no checksum is looked at; under read_committed what is handed
out comes with the aborted transactions in it, and the caller drops their records. Fetches run ahead of what is handed
out, but not beyond the end. What can never be read is `RangeLost`, which names what is missing and where one could go
on: offsets that retention took away, a log that was cut, a topic that was deleted or made again under its name.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping

from kafkatools.core.clock import Clock
from kafkatools.core.consumer.consumer import Consumer
from kafkatools.core.consumer.errors import FetchOffsetOutOfRange
from kafkatools.core.consumer.fetcher import FetchedBatches
from kafkatools.core.consumer.record_iterator import whole_ms
from kafkatools.core.consumer.single_thread import one_at_a_time
from kafkatools.core.consumer.subscription import TopicPartition
from kafkatools.core.errors import KafkaError, RequestTimedOut

_LOOK_EVERY_MS = 500

# A range may only be read where it was planned: nothing is created or reset on the way.
_FORCED = {"auto.offset.reset": "none", "allow.auto.create.topics": "false"}


class RangeLost(KafkaError, name="RANGE_LOST"):
    """Offsets of a range that no broker has any more: [first, end). `resume_at`: the first offset behind the loss that
    can be read, None when nothing of the range is left.
    """

    def __init__(self, partition: TopicPartition, lost: tuple[int, int], resume_at: int | None, why: str) -> None:
        self.partition, self.lost, self.resume_at = partition, lost, resume_at
        super().__init__(f"Offsets {lost[0]} to {lost[1] - 1} of {partition} cannot be read: {why}")


class RangeReader(Consumer):
    """One range after another; a context manager. `patience_ms`: how long a range may go without an answer."""

    def __init__(self, config: Mapping[str, object], clock: Clock | None = None, patience_ms: int = 120_000) -> None:
        super().__init__({**{name: value for name, value in config.items() if name != "group.id"}, **_FORCED}, clock)
        self._patience_ms = patience_ms
        self._range = TopicPartition("", 0), 0

    def read_range(
        self, partition: tuple[str, int], start: int, end: int, topic_id: uuid.UUID | None = None
    ) -> Iterator[FetchedBatches]:
        """The batches that hold the range, in order. `topic_id`: the topic that was planned for.

        Raises RangeLost, RequestTimedOut after `patience_ms` without any progress, and errors that another try would
        not get over.
        """
        part = TopicPartition(*partition)
        self._range = part, end
        self.assign([part])
        self.seek(part, start)
        watch = _Watch(self, part, end, topic_id)
        while start < end and not self.has_read_to(part, end):
            try:
                fetched = self._poll_batches(_LOOK_EVERY_MS)
            except FetchOffsetOutOfRange as error:
                watch.ensure_same_topic()
                self._explain_out_of_range(part, error.positions[0][2], end)
                continue
            for batches in fetched:
                watch.ensure_same_topic()
                yield batches
            now = self._clock.now_ms()
            if fetched:
                watch.note_progress(now)
            elif now - watch.progress_ms >= self._patience_ms:
                self._raise_stuck(part, end)
            else:
                watch.look()

    @one_at_a_time
    def _poll_batches(self, timeout_ms: int) -> list[FetchedBatches]:
        return self._poll(whole_ms(timeout_ms), self._fetcher.collect_batches)

    def _send_fetches(self, now_ms: int) -> None:
        part, end = self._range
        buffered = self._fetcher.buffered_to(part) if self._subscriptions.is_assigned(part) else None
        if buffered is None or buffered < end:
            super()._send_fetches(now_ms)

    def _explain_out_of_range(self, part: TopicPartition, offset: int, end: int) -> None:
        """Raises RangeLost; returns when the log reaches there by now, which a new leader may need a moment for."""
        first, last = self.beginning_offsets([part])[part], self.end_offsets([part])[part]
        if offset < first:
            resume_at = first if first < end else None
            why = f"the log starts at offset {first} now"
            raise RangeLost(part, (offset, min(first, end)), resume_at, why)
        if offset > last:
            raise RangeLost(part, (offset, end), None, f"the log ends at offset {last} now")
        self.seek(part, offset)

    def _raise_stuck(self, part: TopicPartition, end: int) -> None:
        problem = self.connection_problem()
        at = self.known_position(part)
        raise RequestTimedOut(
            f"Nothing came of {part} from offset {at} on, where the range ends at {end}, in {self._patience_ms} ms"
            + ("" if problem is None else f": {problem}")
        )


class _Watch:
    """Whether a range can still be reached: looked at when nothing arrives."""

    def __init__(self, reader: RangeReader, part: TopicPartition, end: int, topic_id: uuid.UUID | None) -> None:
        self._reader, self._part, self._end = reader, part, end
        self._topic_id = topic_id
        self._missing = 0
        self.progress_ms = reader.clock.now_ms()

    def note_progress(self, now_ms: int) -> None:
        self.progress_ms, self._missing = now_ms, 0

    def ensure_same_topic(self) -> None:
        """Raises RangeLost when the topic is not the one that was planned for."""
        now = self._reader.topic_id(self._part.topic)
        if self._topic_id is None:
            self._topic_id = now
        elif now is not None and now != self._topic_id:
            raise self._lost(f"topic {self._part.topic} was deleted and made again under its name")

    def look(self) -> None:
        """Raises RangeLost when the topic is gone or the log ends before the range does. A topic may be missing for a
        moment while metadata changes: it is gone when it is missing twice.
        """
        topic, partition = self._part
        partitions = self._reader.partitions_for(topic, timeout_ms=_LOOK_EVERY_MS * 10)
        if partition not in partitions:
            self._missing += 1
            if self._missing > 1:
                what = "partition" if partitions else "topic"
                raise self._lost(f"the {what} does not exist any more")
            return
        self.ensure_same_topic()
        last = self._reader.end_offsets([self._part])[self._part]
        if last < self._end:
            raise self._lost(f"the log ends at offset {last} now")

    def _lost(self, why: str) -> RangeLost:
        at = self._reader.known_position(self._part)
        return RangeLost(self._part, (self._end - 1 if at is None else min(at, self._end - 1), self._end), None, why)
