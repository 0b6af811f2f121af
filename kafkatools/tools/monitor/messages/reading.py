"""Read the records of one topic for a page: a slice of some partitions, or the matches of a search in it.

Rules: a read is limited by time and bytes, its response by records and characters. A read that stops before its end
returns the records found so far, and the offsets that it searched. Records are ordered by time: the newest first for
the newest records, else the oldest first. Partitions without a leader are left out and named.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence

from kafkatools.core.clock import Clock
from kafkatools.core.consumer.completed_fetch import FetchedColumns
from kafkatools.core.consumer.ends import Ends
from kafkatools.core.consumer.errors import CorruptBatch
from kafkatools.core.errors import (
    AuthenticationFailed,
    InvalidTopic,
    KafkaError,
    LeaderNotAvailable,
    RequestTimedOut,
    TopicAuthorizationFailed,
    UnknownTopicOrPartition,
)
from kafkatools.core.topic_partition import TopicPartition
from kafkatools.tools.lines.record_sources import RequestedTopics, SlicedPartitions
from kafkatools.tools.lines.slices import cut
from kafkatools.tools.lines.time_order import TimeOrder
from kafkatools.tools.monitor.messages.limited_consumer import LimitedConsumer, ReadLimit
from kafkatools.tools.monitor.messages.request import READ_BYTES, RESPONSE_BYTES, MessageRequest, Source
from kafkatools.tools.monitor.messages.steps import BadRequest, MessageSteps, Row

_POLL_MS = 500
_MOST_NAMED = 3
_MOST_NOTES = 20

_SPACES_NOTE = (
    "Spaces: JSON is shown with other spaces and lines than it is searched with. In the regular expression, write "
    r"\s* where spaces may differ"
)

Emit = Callable[[dict[str, object]], None]


def read_messages(source: Source, request: MessageRequest, clock: Clock, emit: Emit) -> dict[str, object]:
    """Read the requested records. `emit` regularly gets the progress of a search. Raises BadRequest, and
    KafkaError if nothing can be read."""
    notes: dict[str, None] = {}
    steps = MessageSteps(source, request, clock, lambda line: notes.setdefault(line))
    shown = _Shown(request)

    def skip(damage: CorruptBatch) -> None:
        partition = f"{damage.topic}-{damage.partition}"
        last = damage.next_offset - 1
        notes.setdefault(f"Damaged: offsets {damage.first_offset} to {last} of {partition}: {damage.cause}")

    stopped = None
    consumer = LimitedConsumer(source.settings, clock, skip, seconds=request.seconds, most_bytes=READ_BYTES)
    with consumer:
        reading = _Reading(consumer, request, steps, shown, lambda line: notes.setdefault(line))
        try:
            reading.run(lambda: emit(_searched(steps, shown, reading.partitions)))
        except ReadLimit as limit:
            stopped = str(limit)
        except RequestTimedOut as error:
            raise consumer.connection_problem() or consumer.missing_leader() or error from None
    notes |= dict.fromkeys(steps.remarks())
    if request.grep is not None and " " in request.grep and not shown.found:
        notes.setdefault(_SPACES_NOTE)
    rows, is_short = shown.ordered()
    return {
        "topic": request.topic,
        "records": rows,
        "is_complete": stopped is None and not is_short and not reading.is_full,
        "stopped": stopped,
        "is_full": reading.is_full or is_short,
        "not_decoded": steps.not_decoded_count,
        "notes": [*notes][:_MOST_NOTES],
        **_searched(steps, shown, reading.partitions),
    }


def _searched(steps: MessageSteps, shown: _Shown, partitions: Sequence[TopicPartition]) -> dict[str, object]:
    if steps.search is None:
        return {"search": None}
    summary = steps.search.summary(shown.found, len(partitions))
    return {"search": {"summary": summary, **steps.search.summary_row(shown.found)}}


class _Reading:
    """One run over the slice of each partition."""

    def __init__(
        self,
        consumer: LimitedConsumer,
        request: MessageRequest,
        steps: MessageSteps,
        shown: _Shown,
        note: Callable[[str], None],
    ) -> None:
        self._consumer = consumer
        self._request = request
        self._steps = steps
        self._shown = shown
        self._note = note
        self.partitions: list[TopicPartition] = []
        self.is_full = False

    def run(self, on_progress: Callable[[], None]) -> None:
        """Read until the end of the slice or until there are enough records. Raises ReadLimit."""
        consumer, request = self._consumer, self._request
        self.partitions = self._narrowed(_led_partitions(consumer, request, self._note))
        requested = RequestedTopics(request.topic, None, None, None, "earliest", request.slice, of_all=True)
        source = SlicedPartitions(self._note, consumer, requested, request.slice, self.partitions)
        source.start(to_end=True)
        ends = source.ends()
        is_merged = len(self.partitions) > 1 and not request.is_search and request.slice.last is None
        order = TimeOrder(consumer, ends) if is_merged else None
        while not self.is_full and (ends.undone() or (order is not None and order.unprinted())):
            fetched = consumer.poll_columns(_POLL_MS)
            runs: Iterable[FetchedColumns] = [
                run for item in fetched for run in source.select(cut(item, ends.end_of(item.topic_partition)))
            ]
            if order is not None:
                order.add(runs)
                runs = order.merged()
            else:
                consumer.pause([part for part in self.partitions if consumer.has_read_to(part, ends.end_of(part))])
            self._show(runs)
            on_progress()
            if not fetched:
                _ensure_reachable(consumer, ends)

    def _show(self, runs: Iterable[FetchedColumns]) -> None:
        for run in runs:
            if run.columns.count and self._shown.add(self._steps.rows(run)):
                self.is_full = True
                return

    def _narrowed(self, partitions: list[TopicPartition]) -> list[TopicPartition]:
        """Return the only partition that can have the requested key, if records prove it."""
        request = self._request
        if request.key is None or request.partitions or self._steps.masks_keys or len(partitions) < 2:
            return partitions
        from kafkatools.tools.search.key_partition import place_of_key

        place = place_of_key(self._consumer, request.topic, request.key.encode("utf-8", "surrogateescape"))
        if place.reason:
            self._note(place.reason)
        return [part for part in partitions if place.partition in (None, part.partition)]


def _led_partitions(
    consumer: LimitedConsumer, request: MessageRequest, note: Callable[[str], None]
) -> list[TopicPartition]:
    """Return the requested partitions that have a leader. Raises KafkaError for a missing topic or partition, and if
    none has a leader."""
    topic = request.topic
    existing = consumer.partitions_for(topic)
    if not existing:
        raise UnknownTopicOrPartition(f"Topic {topic} does not exist")
    for partition in request.partitions:
        if partition not in existing:
            numbers = f"0 to {len(existing) - 1}" if len(existing) > 1 else "partition 0"
            raise UnknownTopicOrPartition(f"Topic {topic} has no partition {partition}, only {numbers}")
    led: list[TopicPartition] = []
    offline: list[TopicPartition] = []
    for number in request.partitions or existing:
        consumer.assign([(topic, number)])
        (offline if consumer.missing_leader() else led).append(TopicPartition(topic, number))
    if offline:
        names = ", ".join(map(str, offline[:_MOST_NAMED])) + (", ..." if len(offline) > _MOST_NAMED else "")
        if not led:
            raise LeaderNotAvailable(f"No records can be read: no leader for {names}")
        note(f"Without the records of partitions that have no leader: {names}")
    return led


def _ensure_reachable(consumer: LimitedConsumer, ends: Ends) -> None:
    problem = consumer.missing_leader()
    if problem is not None:
        raise problem
    ends.ensure_reachable()


class _Shown:
    """The records to show. For the newest records these are the newest found ones, else the first found ones."""

    def __init__(self, request: MessageRequest) -> None:
        self._limit = request.limit
        self._is_newest = request.slice.last is not None
        self._heap: list[tuple[tuple[int, int, int], Row, int]] = []
        self._characters = 0
        self.found = 0

    def add(self, rows: Sequence[Row]) -> bool:
        """Add found records; return True if no more are needed."""
        for row in rows:
            if not self._is_newest and self._is_full():
                return True
            self.found += 1
            size = _characters(row)
            heapq.heappush(self._heap, (_place(row), row, size))
            self._characters += size
            while self._is_newest and len(self._heap) > 1 and self._is_over():
                self._characters -= heapq.heappop(self._heap)[2]
        return False

    def _is_full(self) -> bool:
        return len(self._heap) >= self._limit or self._characters >= RESPONSE_BYTES

    def _is_over(self) -> bool:
        return len(self._heap) > self._limit or self._characters > RESPONSE_BYTES

    def ordered(self) -> tuple[list[Row], bool]:
        """Return the records in their order, and True if older ones were found that are not among them."""
        rows = [row for _, row, _ in sorted(self._heap, key=lambda entry: entry[0], reverse=self._is_newest)]
        return rows, len(rows) < self.found


def _place(row: Row) -> tuple[int, int, int]:
    timestamp, partition, offset = row["timestamp"], row["partition"], row["offset"]
    assert isinstance(timestamp, int) and isinstance(partition, int) and isinstance(offset, int)
    return timestamp, partition, offset


def _characters(row: Row) -> int:
    headers = row["headers"]
    assert isinstance(headers, list)
    cells = [row["key"], row["value"], *(cell for pair in headers for cell in pair)]
    return sum(len(str(cell["text"])) for cell in cells if isinstance(cell, dict))


def status_of(error: Exception) -> tuple[int, str]:
    """Return the HTTP status for an error of a read, and the error as one line."""
    if isinstance(error, BadRequest):
        return 400, str(error)
    if isinstance(error, TopicAuthorizationFailed):
        return 403, f"kt monitor may not read this topic: {error}"
    if isinstance(error, (UnknownTopicOrPartition, InvalidTopic)):
        return 404, str(error)
    if isinstance(error, AuthenticationFailed):
        return 502, f"The cluster refused kt monitor: {error}"
    if isinstance(error, KafkaError):
        return 502, str(error)
    return 500, f"Internal error ({type(error).__name__})"
