"""The order in which Java's hash maps and hash sets list their keys.

Kafka's assignors, tools and files iterate over hash maps. The order is visible: it decides which member gets an extra
partition, and the order of lines and bytes. Rules of java.util.HashMap: a table starts with 16 buckets unless it has an
initial capacity. It doubles when it is more than three quarters full and never shrinks. Keys of one bucket keep the
order in which they were added.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable
from typing import TypeVar, overload

from kafkatools.core.java.hashes import WORD, partition_hash, string_hash, uuid_hash
from kafkatools.core.topic_partition import TopicPartition

Key = TypeVar("Key")
_BUCKETS = 16


@overload
def hash_order(keys: Iterable[str], *, capacity: int = ...) -> list[str]: ...
@overload
def hash_order(keys: Iterable[Key], hash_of: Callable[[Key], int], capacity: int = ...) -> list[Key]: ...
def hash_order(
    keys: Iterable[Key],
    hash_of: Callable[[Key], int] = string_hash,  # type: ignore[assignment]
    capacity: int = _BUCKETS,
) -> list[Key]:
    """The iteration order of these keys in a HashMap with this initial capacity, if they are added one by one. Repeated
    keys count once."""
    filled = list(dict.fromkeys(keys))
    last_bucket = _buckets_for(len(filled), _power_of_two(capacity)) - 1
    return sorted(filled, key=lambda key: _bucket(hash_of(key), last_bucket))


def copied_capacity(keys: Collection[object]) -> int:
    """The initial capacity of a HashSet that is made with `new HashSet(collection)`."""
    return max(int(len(keys) / 0.75) + 1, _BUCKETS)


def topic_order(topic_ids: Iterable[uuid.UUID]) -> list[uuid.UUID]:
    """The iteration order of topic ids in a HashMap. Ids that share a bucket are sorted, as if added in that order."""
    return hash_order(sorted(topic_ids), uuid_hash)


def copied_topic_order(topic_ids: Collection[uuid.UUID]) -> list[uuid.UUID]:
    """The iteration order of topic ids in a HashSet that is made from a collection."""
    return hash_order(sorted(topic_ids), uuid_hash, copied_capacity(topic_ids))


def copied_partition_order(partitions: Collection[int]) -> list[int]:
    """The iteration order of partition numbers in a HashSet that is made from a collection. Partitions above the number
    of buckets come between lower ones."""
    return hash_order(sorted(partitions), int, copied_capacity(partitions))


class PartitionSet:
    """A HashSet of partitions of which only the first in iteration order can be read."""

    def __init__(self) -> None:
        self._partitions: dict[TopicPartition, None] = {}
        self._buckets = _BUCKETS

    def __bool__(self) -> bool:
        return bool(self._partitions)

    def add(self, partition: TopicPartition) -> None:
        self._partitions.setdefault(partition)
        self._buckets = _buckets_for(len(self._partitions), self._buckets)

    def remove(self, partition: TopicPartition) -> None:
        self._partitions.pop(partition, None)

    def first(self) -> TopicPartition:
        """The partition that an iterator of the HashSet would return first. Raises ValueError when the set is empty."""
        return min(self._partitions, key=lambda part: _bucket(partition_hash(part), self._buckets - 1))


def _power_of_two(capacity: int) -> int:
    """The number of buckets of an empty map with an initial capacity (HashMap.tableSizeFor)."""
    return 1 << max(capacity - 1, 0).bit_length()


def _buckets_for(count: int, buckets: int) -> int:
    while count > buckets * 3 // 4:
        buckets *= 2
    return buckets


def _bucket(code: int, last_bucket: int) -> int:
    return (code ^ (code & WORD) >> 16) & last_bucket
