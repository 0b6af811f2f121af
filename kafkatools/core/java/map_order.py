"""The order in which Java's hash tables list their keys.

Kafka's assignors walk over a HashMap of members, and what they decide shows in the result: who keeps an extra
partition, which one is moved. Rules: a table starts with 16 buckets and doubles when it is more than three quarters
full, it never shrinks, and keys of one bucket stay in the order they came.
Source: java.util.HashMap, String.hashCode, org.apache.kafka.common.TopicPartition.hashCode.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafkatools.core.topic_partition import TopicPartition

_WORD = 0xFFFFFFFF
_BUCKETS = 16


def utf16_order(text: str) -> bytes:
    """A sort key that orders as String.compareTo does."""
    return text.encode("utf-16-be", "surrogatepass")


def java_hash(text: str) -> int:
    """String.hashCode, as an unsigned 32-bit number."""
    code = 0
    units = utf16_order(text)
    for high, low in zip(units[::2], units[1::2], strict=True):
        code = (31 * code + (high << 8 | low)) & _WORD
    return code


def partition_hash(partition: TopicPartition) -> int:
    """TopicPartition.hashCode, as an unsigned 32-bit number."""
    return (31 * (31 + partition.partition) + java_hash(partition.topic)) & _WORD


def map_order(keys: Iterable[str]) -> list[str]:
    """The keys, put into a new HashMap one after the other, as it lists them."""
    filled = list(dict.fromkeys(keys))
    buckets = _buckets_for(len(filled), _BUCKETS)
    return sorted(filled, key=lambda key: _spread(java_hash(key)) & (buckets - 1))


class PartitionSet:
    """A HashSet of partitions, as far as the first one it lists."""

    def __init__(self) -> None:
        self._partitions: dict[TopicPartition, None] = {}
        self._buckets = _BUCKETS

    def __bool__(self) -> bool:
        return bool(self._partitions)

    def add(self, partition: TopicPartition) -> None:
        """Puts a partition in."""
        self._partitions.setdefault(partition)
        self._buckets = _buckets_for(len(self._partitions), self._buckets)

    def remove(self, partition: TopicPartition) -> None:
        """Takes a partition out."""
        self._partitions.pop(partition, None)

    def first(self) -> TopicPartition:
        """The partition that an iterator gives first."""
        return min(self._partitions, key=lambda part: _spread(partition_hash(part)) & (self._buckets - 1))


def _buckets_for(count: int, buckets: int) -> int:
    while count > buckets * 3 // 4:
        buckets *= 2
    return buckets


def _spread(code: int) -> int:
    return code ^ code >> 16
