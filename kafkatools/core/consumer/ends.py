"""Detect that a consumer has read each partition up to an end offset: the one that its log had at the start
(--exit-at-end, Consumer.read_to_end), or an earlier one.

Rules: the ends of logs are looked up once. A partition is complete when its position has reached its end offset,
control records and compaction holes included. It is also complete when the broker reports no records between the
position and that end. Time never completes a partition. An end that can no longer be reached is an error: a deleted or
recreated topic, a truncated log, unreachable brokers.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Protocol

from kafkatools.core.errors import KafkaError, UnknownTopicOrPartition

if TYPE_CHECKING:
    from kafkatools.core.consumer.subscription import TopicPartition


class EndUnreachable(KafkaError, name="END_UNREACHABLE"):
    """A partition cannot be read up to the end offset it had at the start: its topic was deleted or recreated, or its
    log was truncated."""


class Known(Protocol):
    """The methods of a consumer that Ends calls and that do not wait: assignment, positions, topic ids and connection
    errors."""

    def assignment(self) -> list[TopicPartition]:
        """Return the partitions assigned to the consumer."""

    def has_read_to(self, partition: tuple[str, int], end: int) -> bool:
        """Return whether the position has reached `end`, or the broker reported no records up to `end`."""

    def known_partitions(self) -> dict[str, list[int]]:
        """Return the partition numbers of each topic in the cached cluster metadata."""

    def topic_id(self, topic: str) -> uuid.UUID | None:
        """Return the topic's id from the cached cluster metadata, None when it has none."""

    def connection_problem(self) -> KafkaError | None:
        """Return the connection error of the first unreachable leader of an assigned partition, else None."""


class Positioned(Known, Protocol):
    """The methods of Consumer that Ends calls, with the look-up of end offsets."""

    def end_offsets(self, partitions: Iterable[tuple[str, int]]) -> dict[TopicPartition, int]:
        """Return the offset after the last record of each partition. Raises KafkaError."""


class KnownEnds:
    """The end offsets of partitions, which the caller has looked up. Raises EndUnreachable when one is unknown."""

    def __init__(
        self, consumer: Known, partitions: Iterable[TopicPartition], offsets: Mapping[TopicPartition, int]
    ) -> None:
        self._consumer = consumer
        requested = list(partitions)
        self._ends = offsets
        unknown = [part for part in requested if part not in self._ends]
        if unknown:
            raise EndUnreachable(f"The end offset of {unknown[0]} is unknown: no broker reported it")
        topics = {part.topic for part in self._ends}
        self._ids: dict[str, uuid.UUID | None] = {topic: consumer.topic_id(topic) for topic in topics}
        self._suspects: set[str] = set()

    def end_of(self, part: TopicPartition) -> int:
        """Return a partition's end offset at the start; 0 for a partition that was not looked up then, such as a new
        one."""
        return self._ends.get(part, 0)

    def undone(self) -> list[TopicPartition]:
        """Return the assigned partitions that are not yet read up to their end offsets."""
        return [part for part in self._consumer.assignment() if not self._consumer.has_read_to(part, self.end_of(part))]

    def unread(self) -> list[TopicPartition]:
        """Return the partitions that are not yet read up to their ends and whose topics exist. Raises EndUnreachable
        when a topic was deleted or recreated, and the connection error when a leader cannot be reached."""
        undone = self.undone()
        for topic in sorted({part.topic for part in undone}):
            self._ensure_same_topic(topic)
        unread = [part for part in undone if part.topic not in self._suspects]
        problem = self._consumer.connection_problem() if unread else None
        if problem is not None:
            raise problem
        return unread

    def ensure_same_topics(self) -> None:
        """Raise EndUnreachable when a topic was recreated. A position may also be within the new log: what was read
        from it came after the consumer learned of the new topic's id."""
        for topic, first_id in self._ids.items():
            present_id = self._consumer.topic_id(topic)
            if None not in (first_id, present_id) and first_id != present_id:
                raise self._recreated(topic)

    @staticmethod
    def _recreated(topic: str) -> EndUnreachable:
        return EndUnreachable(f"Topic {topic} was deleted and recreated while it was read")

    def ensure_not_truncated(self, present_ends: Mapping[TopicPartition, int]) -> None:
        """Raise EndUnreachable when a log now ends before the end offset of its partition."""
        for part, end in present_ends.items():
            if end < self.end_of(part):
                raise EndUnreachable(
                    f"{part} ends at offset {end} now, before offset {self.end_of(part)} where reading is to end: "
                    "its log was truncated"
                )

    @staticmethod
    def deleted(error: UnknownTopicOrPartition) -> EndUnreachable:
        """Return the error of a topic that was deleted before it was read to its end."""
        return EndUnreachable(f"{error} any more: it was deleted before it was read to the end")

    def _ensure_same_topic(self, topic: str) -> None:
        """Raise EndUnreachable when the topic was deleted or recreated. A topic missing from metadata in one call is
        only suspect, since metadata may be changing; missing in the next call too, it is deleted."""
        exists = topic in self._consumer.known_partitions()
        if exists and self._consumer.topic_id(topic) == self._ids.get(topic):
            self._suspects.discard(topic)
        elif exists:
            raise self._recreated(topic)
        elif topic in self._suspects:
            raise EndUnreachable(f"Topic {topic} was deleted before it was read to the end")
        else:
            self._suspects.add(topic)


class Ends(KnownEnds):
    """The end offsets of partitions: `offsets`, or without it the ends of their logs, looked up on creation. Raises
    EndUnreachable when one of them is unknown, and the errors of Consumer.end_offsets."""

    def __init__(
        self,
        consumer: Positioned,
        partitions: Iterable[TopicPartition],
        offsets: Mapping[TopicPartition, int] | None = None,
    ) -> None:
        requested = list(partitions)
        super().__init__(consumer, requested, consumer.end_offsets(requested) if offsets is None else offsets)
        self._look_up = consumer.end_offsets

    @classmethod
    def at(cls, consumer: Positioned, offsets: Mapping[TopicPartition, int]) -> Ends:
        """Return the ends at these offsets, which must not be beyond the ends of the logs."""
        return cls(consumer, offsets, offsets)

    def ensure_reachable(self) -> None:
        """Check whether the unread partitions can still be read to their ends; called when polls return nothing. Raises
        the errors of `unread` and `ensure_not_truncated`, EndUnreachable for a deleted topic, and the errors of
        Consumer.end_offsets."""
        unread = self.unread()
        if not unread:
            return
        try:
            present_ends = self._look_up(unread)
        except UnknownTopicOrPartition as error:
            raise self.deleted(error) from None
        self.ensure_not_truncated(present_ends)
