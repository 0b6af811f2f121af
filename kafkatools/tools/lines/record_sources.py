"""The partitions that console-consumer reads: one partition, whole topics, or a group member's assignment.

Rules: a source assigns or subscribes before the first poll. After each empty poll it may assign new partitions. The
consumer waits for missing topics, unless it stops at the end of the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from kafkatools.core.consumer.consumer import Consumer
from kafkatools.core.consumer.group_subscription import RebalanceListener
from kafkatools.core.consumer.subscription import TopicPartition
from kafkatools.exit_status import CommandError
from kafkatools.tools.lines.topic_follower import TopicFollower


class RequestedTopics(NamedTuple):
    """The requested topics: one topic, all that the predicate `takes` accepts, or one partition. The partition is read
    from `start`: `earliest`, `latest` or an offset. `include` is the pattern behind `takes`."""

    topic: str | None
    include: str | None
    takes: Callable[[str], bool] | None
    partition: int | None
    start: str | int

    @property
    def missing(self) -> str:
        """The message for a topic that does not exist."""
        return f"Topic {self.topic} does not exist" if self.topic else f"No topic matches {self.include}"


class Source:
    """The partitions that a consumer reads; some may be created later. By default all are assigned directly."""

    def __init__(self, note: Callable[[str], None], consumer: Consumer, requested: RequestedTopics) -> None:
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

    def has_topics(self) -> bool:
        """Return whether a matching topic or partition exists."""
        return any(self.partitions())

    def _report_missing(self, to_end: bool) -> None:
        if to_end:
            raise CommandError(self._requested.missing)
        self._note(f"{self._requested.missing} yet: waiting for {'it' if self._requested.topic else 'one'}")


def source_of(note: Callable[[str], None], consumer: Consumer, requested: RequestedTopics, is_member: bool) -> Source:
    """Return the source for the requested topics: a group's if `is_member`, else directly assigned partitions."""
    if requested.partition is not None:
        return OnePartition(note, consumer, requested)
    return GroupTopics(note, consumer, requested) if is_member else FollowedTopics(note, consumer, requested)


class OnePartition(Source):
    """One partition of a topic, read from `--offset` on."""

    def start(self, *, to_end: bool) -> None:
        """Assign the partition and seek to the start offset. Raises CommandError if topic or partition does not exist,
        or for an offset outside of the log."""
        topic, partition, start = self._requested.topic or "", self._requested.partition or 0, self._requested.start
        consumer = self._consumer
        known = consumer.partitions_for(topic)
        if not known:
            raise CommandError(self._requested.missing)
        if partition not in known:
            held = f"0 to {len(known) - 1}" if len(known) > 1 else "partition 0"
            raise CommandError(f"Topic {topic} has no partition {partition}, only {held}")
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
        where = [(topic, partition)]
        [low], [high] = self._consumer.beginning_offsets(where).values(), self._consumer.end_offsets(where).values()
        if not low <= offset <= high:
            raise CommandError(f"Offset {offset} is out of range: {topic}-{partition} holds offsets {low} to {high}")


class FollowedTopics(Source):
    """All partitions of the matching topics, including those created later."""

    def __init__(self, note: Callable[[str], None], consumer: Consumer, requested: RequestedTopics) -> None:
        super().__init__(note, consumer, requested)
        self._follower = TopicFollower(consumer, requested.topic, requested.takes)

    def start(self, *, to_end: bool) -> None:
        """Assign all existing partitions. Raises CommandError without any if `to_end`, else prints that it waits."""
        if not self._follower.start():
            self._report_missing(to_end)

    def follow(self) -> None:
        """Assign partitions created since the last call."""
        self._follower.maybe_assign_new()


class GroupTopics(Source, RebalanceListener):
    """The partitions that a group assigns to this member."""

    _is_assigned = False

    def start(self, *, to_end: bool) -> None:
        """Subscribe. Raises CommandError for missing topics if `to_end`, else prints that it waits."""
        takes = self._requested.takes
        if takes is None:
            is_there = bool(self._consumer.partitions_for(self._requested.topic or ""))
        else:
            is_there = any(takes(topic) for topic in self._consumer.list_topics())
        if not is_there:
            self._report_missing(to_end)
        self._consumer.subscribe([self._requested.topic or ""] if takes is None else takes, self)

    def on_partitions_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        """Record that a rebalance is complete, even with an empty assignment."""
        self._is_assigned = True

    def is_assigned(self) -> bool:
        """Return whether a rebalance has completed."""
        return self._is_assigned

    def partitions(self) -> Iterable[TopicPartition]:
        """Return all partitions of the subscribed topics, any of which may be assigned to this member."""
        known = self._consumer.known_partitions()
        return [
            TopicPartition(topic, index) for topic in self._consumer.subscription() for index in known.get(topic, ())
        ]
