"""The hash codes of Java objects with which Kafka chooses partitions, and which decide the order of a hash map.

Each `*_hash` function returns the 32 bits of `hashCode()` as an unsigned number; `signed` converts it to Java's int.
Sources: java.lang.String, java.lang.Long, org.apache.kafka.common.Uuid, org.apache.kafka.common.TopicPartition.
"""

from __future__ import annotations

import uuid
from struct import unpack

WORD = 0xFFFFFFFF


def utf16_order(text: str) -> bytes:
    """The UTF-16 code units of a text in big-endian order: a sort key for the order of String.compareTo."""
    return text.encode("utf-16-be", "surrogatepass")


def string_hash(text: str) -> int:
    """String.hashCode as an unsigned 32-bit number."""
    code = 0
    units = utf16_order(text)
    for unit in unpack(f">{len(units) // 2}H", units):
        code = (31 * code + unit) & WORD
    return code


def int_hash(value: int) -> int:
    """Integer.hashCode as an unsigned 32-bit number."""
    return value & WORD


def long_hash(value: int) -> int:
    """Long.hashCode as an unsigned 32-bit number, for a signed or unsigned 64-bit number."""
    return (value ^ value >> 32) & WORD


def uuid_hash(value: uuid.UUID) -> int:
    """The hashCode of org.apache.kafka.common.Uuid as an unsigned 32-bit number."""
    return long_hash((value.int >> 64) ^ (value.int & 0xFFFFFFFFFFFFFFFF))


def partition_hash(partition: tuple[str, int]) -> int:
    """The hashCode of org.apache.kafka.common.TopicPartition as an unsigned 32-bit number."""
    topic, index = partition
    return (31 * (31 + index) + string_hash(topic)) & WORD


def signed(code: int) -> int:
    """Convert an unsigned 32-bit hash code to a Java int."""
    return code - (1 << 32) if code >= 1 << 31 else code
