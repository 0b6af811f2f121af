"""Read an offset range of a partition as undecoded record batches, for callers that decode many batches at once.

Rules: the range is [start, end), where `end` is an offset that a broker reported. The range is complete when the
position has reached `end`, or the broker reported no records before it (compaction holes, control batches). The first
and last batch may hold records outside of the range. CRCs are not checked. Under read_committed, batches come with
their aborted transactions, whose records the caller must drop. Fetches run ahead of the caller, but not beyond the
range. Unreadable offsets raise `RangeLost`: deleted by retention, truncated, or in a deleted or recreated topic.
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

_CHECK_INTERVAL_MS = 500

# Only the planned range may be read: no topic is created and no position is reset.
_FORCED = {"auto.offset.reset": "none", "allow.auto.create.topics": "false"}


class RangeLost(KafkaError, name="RANGE_LOST"):
    """Offsets [first, end) of a range that no broker has any more.

    `resume_at`: the first readable offset after the loss, None when nothing of the range remains.
    """

    def __init__(self, partition: TopicPartition, offsets: tuple[int, int], resume_at: int | None, reason: str) -> None:
        self.partition, self.offsets, self.resume_at = partition, offsets, resume_at
        super().__init__(f"Offsets {offsets[0]} to {offsets[1] - 1} of {partition} cannot be read: {reason}")


class RangeReader(Consumer):
    """Reads offset ranges, one after another. A context manager. Ignores group.id, and neither creates topics nor
    resets positions. `patience_ms`: the time limit in ms without any progress."""

    def __init__(self, config: Mapping[str, object], clock: Clock | None = None, patience_ms: int = 120_000) -> None:
        super().__init__({**{name: value for name, value in config.items() if name != "group.id"}, **_FORCED}, clock)
        self._patience_ms = patience_ms
        self._range = TopicPartition("", 0), 0

    def read_range(
        self, partition: tuple[str, int], start: int, end: int, topic_id: uuid.UUID | None = None
    ) -> Iterator[FetchedBatches]:
        """Yield the batches that hold offsets [start, end), in order. `topic_id`: the id the topic must have (None: its
        id at the first check). Raises RangeLost, RequestTimedOut after `patience_ms` without progress, and errors that
        a retry cannot cure."""
        part = TopicPartition(*partition)
        self._range = part, end
        self.assign([part])
        self.seek(part, start)
        watch = _Watch(self, part, end, topic_id)
        while start < end and not self.has_read_to(part, end):
            items: list[FetchedBatches] = []
            try:
                items = self._poll_batches(_CHECK_INTERVAL_MS)
            except FetchOffsetOutOfRange as error:
                watch.ensure_same_topic()
                self._explain_out_of_range(part, error.positions[0][2], end)
            for batches in items:
                watch.ensure_same_topic()
                yield batches
            now_ms = self._clock.now_ms()
            if items:
                watch.note_progress(now_ms)
            elif now_ms - watch.progress_ms >= self._patience_ms:
                self._raise_stuck(part, end)
            else:
                watch.check()

    @one_at_a_time
    def _poll_batches(self, timeout_ms: int) -> list[FetchedBatches]:
        return self._client.run(self._poll(whole_ms(timeout_ms), self._fetcher.collect_batches))

    def _send_fetches(self, now_ms: int) -> None:
        part, end = self._range
        buffered = self._fetcher.buffered_to(part) if self._subscriptions.is_assigned(part) else None
        if buffered is None or buffered < end:
            super()._send_fetches(now_ms)

    def _explain_out_of_range(self, part: TopicPartition, offset: int, end: int) -> None:
        """After OffsetOutOfRange, raise RangeLost if the log does not cover the offset. Otherwise seek to it again, as
        after a change of leader."""
        first, last = self.beginning_offsets([part])[part], self.end_offsets([part])[part]
        if offset < first:
            resume_at = first if first < end else None
            reason = f"the log starts at offset {first} now"
            raise RangeLost(part, (offset, min(first, end)), resume_at, reason)
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
    """Checks whether the rest of a range can still be read, while no batches arrive."""

    def __init__(self, reader: RangeReader, part: TopicPartition, end: int, topic_id: uuid.UUID | None) -> None:
        self._reader, self._part, self._end = reader, part, end
        self._topic_id = topic_id
        self._missing = 0
        self.progress_ms = reader.clock.now_ms()

    def note_progress(self, now_ms: int) -> None:
        """Restart the timeout, because batches arrived."""
        self.progress_ms, self._missing = now_ms, 0

    def ensure_same_topic(self) -> None:
        """Raise RangeLost when cached metadata has another topic id than expected. Without an expected id, remember the
        current one."""
        topic_id = self._reader.topic_id(self._part.topic)
        if self._topic_id is None:
            self._topic_id = topic_id
        elif topic_id is not None and topic_id != self._topic_id:
            raise self._range_lost(f"topic {self._part.topic} was deleted and recreated")

    def check(self) -> None:
        """Fetch metadata and the end offset, and raise RangeLost when the topic was deleted or recreated or the log
        ends before the range. A partition missing from metadata in one call may be changing; missing in the next call
        too, it is deleted."""
        topic, partition = self._part
        partitions = self._reader.partitions_for(topic, timeout_ms=_CHECK_INTERVAL_MS * 10)
        if partition not in partitions:
            self._missing += 1
            if self._missing > 1:
                resource = "partition" if partitions else "topic"
                raise self._range_lost(f"the {resource} no longer exists")
            return
        self.ensure_same_topic()
        last = self._reader.end_offsets([self._part])[self._part]
        if last < self._end:
            raise self._range_lost(f"the log ends at offset {last} now")

    def _range_lost(self, reason: str) -> RangeLost:
        position = self._reader.known_position(self._part)
        first = self._end - 1 if position is None else min(position, self._end - 1)
        return RangeLost(self._part, (first, self._end), None, reason)
