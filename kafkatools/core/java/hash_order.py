"""The order in which Java's hash maps list topic ids and member ids.

Kafka's assignors walk over a HashMap of members and a HashSet of topics, and what they decide shows in the result: who
keeps one partition more. Source: java.util.HashMap, org.apache.kafka.common.Uuid.hashCode.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from typing import TypeVar

from kafkatools.core.java.map_order import java_hash

Key = TypeVar("Key")
LOAD_FACTOR = 0.75
LEAST_BUCKETS = 16
_WORD = 0xFFFFFFFF


def uuid_hash(value: uuid.UUID) -> int:
    """Uuid.hashCode, unsigned."""
    mixed = (value.int >> 64) ^ (value.int & 0xFFFFFFFFFFFFFFFF)
    return (mixed >> 32) ^ (mixed & _WORD)


def member_order(member_ids: Iterable[str]) -> list[str]:
    """Member ids that were put into a new HashMap one after the other."""
    keys = list(member_ids)
    return _listed(keys, java_hash, _grown(len(keys)))


def topic_order(topic_ids: Iterable[uuid.UUID]) -> list[uuid.UUID]:
    """Topic ids that were put into a new HashMap; those that share a bucket by value, as if put in in that order."""
    keys = sorted(topic_ids)
    return _listed(keys, uuid_hash, _grown(len(keys)))


def copied_topic_order(topic_ids: Iterable[uuid.UUID]) -> list[uuid.UUID]:
    """Topic ids of a HashSet made from a collection: its size is chosen once, for all of them."""
    keys = sorted(topic_ids)
    return _listed(keys, uuid_hash, _copied(len(keys)))


def partition_order(partitions: Iterable[int]) -> list[int]:
    """Partitions of a HashSet made from a collection: those above the number of buckets come in between."""
    keys = sorted(partitions)
    return _listed(keys, int, _copied(len(keys)))


def _copied(count: int) -> int:
    wanted, buckets = max(int(count / LOAD_FACTOR) + 1, LEAST_BUCKETS), 1
    while buckets < wanted:
        buckets *= 2
    return buckets


def _grown(count: int) -> int:
    buckets = LEAST_BUCKETS
    while count > buckets * LOAD_FACTOR:
        buckets *= 2
    return buckets


def _listed(keys: list[Key], hash_of: Callable[[Key], int], buckets: int) -> list[Key]:
    def bucket(key: Key) -> int:
        code = hash_of(key) & _WORD
        return (code ^ code >> 16) & (buckets - 1)

    return sorted(keys, key=bucket)
