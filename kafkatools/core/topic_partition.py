"""TopicPartition: the name of a partition, the same class everywhere."""

from __future__ import annotations

from typing import NamedTuple


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
