"""TopicPartition (Kafka's class of that name), and grouping of partitions by topic for requests."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import NamedTuple, TypeVar

V = TypeVar("V")


class TopicPartition(NamedTuple):
    """A topic's name and a partition number; `str` gives `topic-0`. Equal to the plain tuple of both."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


def as_partition(pair: tuple[str, int]) -> TopicPartition:
    """Convert a (topic, partition) tuple to a TopicPartition. Raises TypeError for anything else, such as a topic's
    name, and ValueError for an empty topic name."""
    if not isinstance(pair, tuple) or len(pair) != 2 or not isinstance(pair[0], str) or type(pair[1]) is not int:
        raise TypeError(f'A partition is a pair such as ("topic", 0), not {pair!r}')
    if not pair[0]:
        raise ValueError("Topic partitions to assign to cannot have null or empty topic")
    return TopicPartition(*pair)


def by_topic(entries: Iterable[tuple[tuple[str, int], V]]) -> dict[str, list[V]]:
    """Group values by topic, in order of appearance: ((topic, partition), value) pairs become {topic: [value, ...]}."""
    topics: dict[str, list[V]] = {}
    for (topic, _), entry in entries:
        topics.setdefault(topic, []).append(entry)
    return topics


def numbers_by_topic(partitions: Iterable[tuple[str, int]]) -> dict[str, list[int]]:
    """Group partitions by topic: {topic: [partition number, ...]}."""
    return by_topic((partition, partition[1]) for partition in partitions)


def topic_fields(
    entries: Iterable[tuple[tuple[str, int], V]], name: str = "name", partitions: str = "partitions"
) -> list[dict[str, object]]:
    """The `topics` field of a request: one entry for each topic with its name and the values of its partitions. `name`
    and `partitions` are the names that the request's schema has for these two fields."""
    return [{name: topic, partitions: tuple(values)} for topic, values in by_topic(entries).items()]


def partitions_text(numbers: Collection[int]) -> str:
    """Return which partitions a topic has, for errors: "its partitions are 0 to 3"."""
    rising = sorted(numbers)
    if not rising:
        return "it has no partitions"
    if len(rising) == 1:
        return f"its only partition is {rising[0]}"
    is_gapless = rising[-1] - rising[0] == len(rising) - 1
    return f"its partitions are {f'{rising[0]} to {rising[-1]}' if is_gapless else ', '.join(map(str, rising))}"
