"""The partitions that console-consumer reads: one partition, whole topics, or a group member's assignment.

Rules: a source assigns or subscribes before the first poll. After each empty poll it may assign new partitions. The
consumer waits for missing topics, unless it stops at the end of the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from kafkatools.core.consumer.completed_fetch import FetchedColumns
from kafkatools.core.consumer.consumer import Consumer
from kafkatools.core.consumer.ends import Ends
from kafkatools.core.consumer.group_subscription import RebalanceListener
from kafkatools.core.consumer.subscription import TopicPartition
from kafkatools.core.topic_partition import partitions_text
from kafkatools.exit_status import CommandError
from kafkatools.tools.lines.partition_reader import PartitionReader
from kafkatools.tools.lines.slice import Anchor, Slice
from kafkatools.tools.lines.slices import NewestRecords, Selection, SliceBounds, SliceFinder, cut_before
from kafkatools.tools.lines.topic_follower import TopicFollower


class RequestedTopics(NamedTuple):
    """The requested topics: one topic, all that the predicate `takes` accepts, or one partition. The partition is read
    from `start`: `earliest`, `latest` or an offset. `include` is the pattern behind `takes`. With `bounds` only that
    slice of each partition is read, and with `of_all` its `last` counts the records of all partitions together."""

    topic: str | None
    include: str | None
    takes: Callable[[str], bool] | None
    partition: int | None
    start: str | int
    bounds: Slice | None = None
    of_all: bool = False

    @property
    def ends_at_once(self) -> bool:
        """Whether the slice has an end, which is known at the start."""
        return self.bounds is not None and (self.bounds.end is not None or self.bounds.last is not None)

    @property
    def missing(self) -> str:
        """The message for a topic that does not exist."""
        return f"Topic {self.topic} does not exist" if self.topic else f"No topic matches {self.include}"


class Source:
    """The partitions that a consumer reads; some may be created later. By default all are assigned directly."""

    def __init__(self, note: Callable[[str], None], consumer: PartitionReader, requested: RequestedTopics) -> None:
        self._note = note
        self._consumer = consumer
        self._requested = requested

    def start(self, *, to_end: bool) -> None:
        """Assign or subscribe. Raises CommandError for a nonexistent partition, and for missing topics if `to_end`.
        Without `to_end` it prints that the consumer waits for missing topics."""
        raise NotImplementedError

    def follow(self) -> None:
        """Assign partitions created since the last call, if this source has to do that."""

    def is_assigned(self) -> bool:
        """Return whether the consumer has its assignment, which may be empty."""
        return True

    def partitions(self) -> Iterable[TopicPartition]:
        """Return all partitions that this consumer may have to read."""
        return self._consumer.assignment()

    def ends(self) -> Ends:
        """Look up where to stop. Raises the errors of Ends."""
        # Assigned partitions count even if the topic is missing from the metadata for a moment.
        return Ends(self._consumer, dict.fromkeys([*self._consumer.assignment(), *self.partitions()]))

    def select(self, fetched: FetchedColumns) -> Iterable[FetchedColumns]:
        """Return the records to print of those that were fetched."""
        return (fetched,)

    def has_topics(self) -> bool:
        """Return whether a matching topic or partition exists."""
        return any(self.partitions())

    def _report_missing(self, to_end: bool) -> None:
        if to_end:
            raise CommandError(self._requested.missing)
        self._note(f"{self._requested.missing} yet: waiting for {'it' if self._requested.topic else 'one'}")


def source_of(
    note: Callable[[str], None], consumer: PartitionReader, requested: RequestedTopics, is_member: bool
) -> Source:
    """Return the source for the requested topics: a group's if `is_member`, else directly assigned partitions."""
    if requested.bounds is not None:
        return SlicedTopics(note, consumer, requested, requested.bounds)
    if requested.partition is not None:
        return OnePartition(note, consumer, requested)
    if is_member and isinstance(consumer, Consumer):
        return GroupTopics(note, consumer, requested)
    return FollowedTopics(note, consumer, requested)


class OnePartition(Source):
    """One partition of a topic, read from `--offset` on."""

    def start(self, *, to_end: bool) -> None:
        """Assign the partition and seek to the start offset. Raises CommandError if topic or partition does not exist,
        or for an offset outside of the log."""
        start, consumer = self._requested.start, self._consumer
        topic, partition = existing_partition(consumer, self._requested)
        consumer.assign([(topic, partition)])
        if start == "earliest":
            consumer.seek_to_beginning()
        elif start == "latest":
            consumer.seek_to_end()
        else:
            self._check_range(topic, partition, int(start))
            consumer.seek((topic, partition), int(start))

    def _check_range(self, topic: str, partition: int, offset: int) -> None:
        """Raise CommandError for an offset outside of the log; Kafka's tool silently continues at the log end."""
        partitions = [(topic, partition)]
        [low], [high] = (
            self._consumer.beginning_offsets(partitions).values(),
            self._consumer.end_offsets(partitions).values(),
        )
        if not low <= offset <= high:
            raise CommandError(f"Offset {offset} is out of range: {topic}-{partition} holds offsets {low} to {high}")


def existing_partition(consumer: PartitionReader, requested: RequestedTopics) -> TopicPartition:
    """Return the requested partition. Raises CommandError if topic or partition does not exist."""
    topic, partition = requested.topic or "", requested.partition or 0
    existing = consumer.partitions_for(topic)
    if not existing:
        raise CommandError(requested.missing)
    if partition not in existing:
        raise CommandError(f"Topic {topic} has no partition {partition}: {partitions_text(existing)}")
    return TopicPartition(topic, partition)


class FollowedTopics(Source):
    """All partitions of the matching topics, including those created later."""

    def __init__(self, note: Callable[[str], None], consumer: PartitionReader, requested: RequestedTopics) -> None:
        super().__init__(note, consumer, requested)
        self._follower = TopicFollower(consumer, requested.topic, requested.takes)

    def start(self, *, to_end: bool) -> None:
        """Assign all existing partitions. Raises CommandError without any if `to_end`, else prints that it waits."""
        if not self._follower.start():
            self._report_missing(to_end)

    def follow(self) -> None:
        """Assign partitions created since the last call."""
        self._follower.maybe_assign_new()


class SlicedTopics(FollowedTopics):
    """A slice of each partition of the matching topics. A slice without an end goes on with new records and with the
    partitions created later."""

    def __init__(
        self, note: Callable[[str], None], consumer: PartitionReader, requested: RequestedTopics, bounds: Slice
    ) -> None:
        super().__init__(note, consumer, requested)
        self._slice = bounds
        self._selection = Selection(*bounds.times)
        self._ends: Mapping[TopicPartition, int] | None = None

    def start(self, *, to_end: bool) -> None:
        """Assign the existing partitions and seek to the slice. Raises CommandError for a missing partition, and for
        missing topics if `to_end`."""
        self._assign(to_end=to_end)
        partitions = self._consumer.assignment()
        bounds = SliceFinder(self._consumer, self._slice, self._note).bounds(partitions)
        if self._slice.last is not None:
            bounds = self._newest(bounds, self._slice.last)
        for part, offset in bounds.starts.items():
            self._consumer.seek(part, offset)
        self._ends = bounds.ends

    def _assign(self, *, to_end: bool) -> None:
        if self._requested.partition is not None:
            self._consumer.assign([existing_partition(self._consumer, self._requested)])
        else:
            super().start(to_end=to_end)

    def _newest(self, bounds: SliceBounds, count: int) -> SliceBounds:
        newest = NewestRecords(self._consumer, self._slice)
        if not self._requested.of_all:
            return newest.of_each(bounds, count)
        offsets_of, ends = newest.of_all(bounds, count), bounds.ends or {}
        self._selection = Selection(offsets=offsets_of)
        return bounds._replace(
            starts={part: offsets[0] if offsets else ends[part] for part, offsets in offsets_of.items()}
        )

    def follow(self) -> None:
        """Assign partitions created since the last call, unless one partition was requested."""
        if self._requested.partition is None:
            super().follow()

    def ends(self) -> Ends:
        """Return the ends of the slice; those of the logs if it has none."""
        return super().ends() if self._ends is None else Ends.at(self._consumer, self._ends)

    def select(self, fetched: FetchedColumns) -> Iterable[FetchedColumns]:
        """Return the records within the slice. A log that ended before the start offset is read from its end, so its
        next records may be before the slice."""
        if self._slice.start.anchor is Anchor.OFFSET:
            fetched = cut_before(fetched, self._slice.start.value)
        return self._selection.runs(fetched)


class SlicedPartitions(SlicedTopics):
    """A slice of each of some existing partitions of one topic."""

    def __init__(
        self,
        note: Callable[[str], None],
        consumer: PartitionReader,
        requested: RequestedTopics,
        bounds: Slice,
        partitions: Sequence[TopicPartition],
    ) -> None:
        super().__init__(note, consumer, requested, bounds)
        self._partitions = partitions

    def _assign(self, *, to_end: bool) -> None:
        self._consumer.assign(self._partitions)

    def partitions(self) -> Iterable[TopicPartition]:
        """Return the partitions."""
        return self._partitions


class GroupTopics(Source, RebalanceListener):
    """The partitions that a group assigns to this member."""

    def __init__(self, note: Callable[[str], None], consumer: Consumer, requested: RequestedTopics) -> None:
        super().__init__(note, consumer, requested)
        self._member = consumer
        self._is_assigned = False

    def start(self, *, to_end: bool) -> None:
        """Subscribe. Raises CommandError for missing topics if `to_end`, else prints that it waits."""
        takes = self._requested.takes
        if takes is None:
            is_there = bool(self._consumer.partitions_for(self._requested.topic or ""))
        else:
            is_there = any(takes(topic) for topic in self._consumer.list_topics())
        if not is_there:
            self._report_missing(to_end)
        self._member.subscribe([self._requested.topic or ""] if takes is None else takes, self)

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """Record that a rebalance is complete, even with an empty assignment."""
        self._is_assigned = True

    def is_assigned(self) -> bool:
        """Return whether a rebalance has completed."""
        return self._is_assigned

    def partitions(self) -> Iterable[TopicPartition]:
        """Return all partitions of the subscribed topics, any of which may be assigned to this member."""
        partitions = self._consumer.known_partitions()
        return [
            TopicPartition(topic, index) for topic in self._member.subscription() for index in partitions.get(topic, ())
        ]
