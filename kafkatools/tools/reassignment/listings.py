"""Texts that reassignment messages share: lists of brokers and partitions, and a hint."""

from __future__ import annotations

from collections.abc import Collection, Iterable

TopicPartition = tuple[str, int]
WAIT_HINT = "Wait until these moves are complete (kt reassign-partitions --list shows them), or cancel them."
_MAX_NAMES = 5


def ids(brokers: Iterable[int]) -> str:
    """Brokers as Kafka lists them: `1,2,3`."""
    return ",".join(map(str, brokers))


def plural(count: int) -> str:
    """The plural ending of a noun: "" for 1, else "s"."""
    return "" if count == 1 else "s"


def names(partitions: Iterable[TopicPartition]) -> str:
    """Partitions as Kafka lists them: `orders-0,orders-1`."""
    return ",".join(f"{topic}-{partition}" for topic, partition in partitions)


def partition_names(partitions: Collection[TopicPartition]) -> str:
    """Partitions by name, at most the first five: `orders-0, orders-1 and 7 more`."""
    first = ", ".join(f"{topic}-{partition}" for topic, partition in list(partitions)[:_MAX_NAMES])
    return first + (f" and {len(partitions) - _MAX_NAMES} more" if len(partitions) > _MAX_NAMES else "")


def count_text(partitions: int) -> str:
    """A number of partitions in words: `1 partition`, `2 partitions`."""
    return f"{partitions} partition{plural(partitions)}"
