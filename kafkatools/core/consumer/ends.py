"""When everything that was there at the start has been read (--exit-at-end, Consumer.read_to_end).

Rules: the ends are taken once. A partition is done when its position has reached its end, over control records and the
holes that compaction left, or when the broker has nothing to give between the position and that end. Time never makes a
partition done. What can never be read to its end is an error: a topic that was deleted or made anew, a log that was cut
below its end, brokers that do not answer.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from kafkatools.core.errors import KafkaError

if TYPE_CHECKING:
    from kafkatools.core.consumer.subscription import TopicPartition


class EndUnreachable(KafkaError, name="END_UNREACHABLE"):
    """What was there at the start can never be read to its end: it was deleted, made anew or truncated."""


class Positioned(Protocol):
    """The part of Consumer that tells its positions and the ends of partitions."""

    def assignment(self) -> list[TopicPartition]:
        """The partitions that are read."""

    def end_offsets(self, partitions: Iterable[tuple[str, int]]) -> dict[TopicPartition, int]:
        """The offset after the last record of each partition. Raises KafkaError."""

    def has_read_to(self, partition: tuple[str, int], end: int) -> bool:
        """Whether the position has reached an offset, or the broker said that no record lies before it."""

    def known_partitions(self) -> dict[str, list[int]]:
        """Topics and their partitions as they are known now."""

    def topic_id(self, topic: str) -> uuid.UUID | None:
        """The id of a topic as it is known now, None without one."""

    def connection_problem(self) -> KafkaError | None:
        """Why a leader of what is read cannot be reached; None when all can be."""


class Ends:
    """The ends of partitions, as they were at the start."""

    def __init__(self, consumer: Positioned, partitions: Iterable[TopicPartition]) -> None:
        self._consumer = consumer
        asked = list(partitions)
        self._ends = consumer.end_offsets(asked)
        unknown = [part for part in asked if part not in self._ends]
        if unknown:
            raise EndUnreachable(f"{unknown[0]} has no end: no broker tells its offsets")
        topics = {part.topic for part in self._ends}
        self._ids: dict[str, uuid.UUID | None] = {topic: consumer.topic_id(topic) for topic in topics}
        self._suspects: set[str] = set()

    def end_of(self, part: TopicPartition) -> int:
        """Where a partition ended; one that was not there yet has nothing to read."""
        return self._ends.get(part, 0)

    def undone(self) -> list[TopicPartition]:
        """The assigned partitions that are not read to their ends."""
        return [part for part in self._consumer.assignment() if not self._consumer.has_read_to(part, self.end_of(part))]

    def ensure_reachable(self) -> None:
        """Raises EndUnreachable when an end cannot be reached any more. Called when nothing arrived for a while."""
        undone = self.undone()
        for topic in sorted({part.topic for part in undone}):
            self._ensure_same_topic(topic)
        left = [part for part in undone if part.topic not in self._suspects]
        if not left:
            return
        problem = self._consumer.connection_problem()
        if problem is not None:
            raise problem
        for part, now in self._consumer.end_offsets(left).items():
            if now < self.end_of(part):
                raise EndUnreachable(
                    f"{part} ends at offset {now} now, before offset {self.end_of(part)} where it ended at the start: "
                    "its log was truncated"
                )

    def _ensure_same_topic(self, topic: str) -> None:
        """A topic may be missing for a moment while metadata changes: it is gone when it is missing twice."""
        known = topic in self._consumer.known_partitions()
        if known and self._consumer.topic_id(topic) == self._ids.get(topic):
            self._suspects.discard(topic)
        elif known:
            raise EndUnreachable(f"Topic {topic} was deleted and made again while it was read")
        elif topic in self._suspects:
            raise EndUnreachable(f"Topic {topic} was deleted before it was read to the end")
        else:
            self._suspects.add(topic)
