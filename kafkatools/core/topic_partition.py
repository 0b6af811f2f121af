"""TopicPartition: the name of a partition, the same class everywhere."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple, TypeVar

V = TypeVar("V")


class TopicPartition(NamedTuple):
    """A topic's name and a partition's number; printed as topic-partition. A plain pair of both is equal to it."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def as_partition(given: tuple[str, int]) -> TopicPartition:
    """A pair as a TopicPartition. Raises TypeError for anything else, a topic's name for one."""
    if not isinstance(given, tuple) or len(given) != 2 or not isinstance(given[0], str) or type(given[1]) is not int:
        raise TypeError(f'A partition is a pair such as ("topic", 0), not {given!r}')
    return TopicPartition(*given)


def by_topic(entries: Iterable[tuple[tuple[str, int], V]]) -> dict[str, list[V]]:
    """What belongs to partitions, by topic."""
    topics: dict[str, list[V]] = {}
    for (topic, _), entry in entries:
        topics.setdefault(topic, []).append(entry)
    return topics


def numbers_by_topic(partitions: Iterable[tuple[str, int]]) -> dict[str, list[int]]:
    """The numbers of partitions by topic."""
    return by_topic((partition, partition[1]) for partition in partitions)


def topic_fields(
    entries: Iterable[tuple[tuple[str, int], V]], name: str = "name", partitions: str = "partitions"
) -> list[dict[str, object]]:
    """The field `topics` of a request: an entry for each partition, and the names that its message has for both."""
    return [{name: topic, partitions: tuple(found)} for topic, found in by_topic(entries).items()]
