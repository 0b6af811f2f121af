"""The hash codes of Java objects that Kafka uses to choose partitions or that decide the order of a hash map.

Each is the 32 bits of `hashCode()` as an unsigned number; `signed` gives Java's int. Sources: java.lang.String,
java.lang.Long, org.apache.kafka.common.Uuid, org.apache.kafka.common.TopicPartition.
"""

from __future__ import annotations

import uuid
from struct import unpack

WORD = 0xFFFFFFFF


def utf16_order(text: str) -> bytes:
    """The UTF-16 units of a text, a sort key for the order of String.compareTo."""
    return text.encode("utf-16-be", "surrogatepass")


def string_hash(text: str) -> int:
    """String.hashCode."""
    code = 0
    units = utf16_order(text)
    for unit in unpack(f">{len(units) // 2}H", units):
        code = (31 * code + unit) & WORD
    return code


def int_hash(value: int) -> int:
    """Integer.hashCode."""
    return value & WORD


def long_hash(value: int) -> int:
    """Long.hashCode, of a signed or an unsigned number."""
    return (value ^ value >> 32) & WORD


def uuid_hash(value: uuid.UUID) -> int:
    """Uuid.hashCode."""
    return long_hash((value.int >> 64) ^ (value.int & 0xFFFFFFFFFFFFFFFF))


def partition_hash(partition: tuple[str, int]) -> int:
    """TopicPartition.hashCode."""
    topic, index = partition
    return (31 * (31 + index) + string_hash(topic)) & WORD


def signed(code: int) -> int:
    """A hash code as a Java int."""
    return code - (1 << 32) if code >= 1 << 31 else code
