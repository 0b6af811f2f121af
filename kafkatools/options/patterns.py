"""Java's regular expressions and hashes, where a tool's behaviour depends on them.

Patterns that both languages read alike go through as they are; `\\Q...\\E`, `(?<name>...)` and `\\k<name>` are
translated. Sources: org.apache.kafka.server.util.TopicFilter.IncludeList, java.util.HashMap.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable
from typing import TypeVar

_Key = TypeVar("_Key")

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})
"""Topics of the brokers themselves (org.apache.kafka.common.internals.Topic)."""

_JAVA_ONLY = re.compile(r"\\Q(.*?)(?:\\E|$)|\(\?<([A-Za-z][A-Za-z0-9]*)>|\\k<([A-Za-z][A-Za-z0-9]*)>", re.DOTALL)


def java_pattern(text: str) -> re.Pattern[str]:
    """A Java regular expression as a Python one; re.error when it is none."""

    def translate(match: re.Match[str]) -> str:
        quoted, group, reference = match.groups()
        if quoted is not None:
            return re.escape(quoted)
        return f"(?P<{group}>" if group else f"(?P={reference})"

    return re.compile(_JAVA_ONLY.sub(translate, text))


class TopicFilter:
    """Which topics a regular expression of Kafka's tools takes in: commas mean `or`, blanks and outer quotes go."""

    def __init__(self, text: str) -> None:
        cleaned = text.strip().replace(",", "|").replace(" ", "").lstrip("\"'").rstrip("\"'")
        try:
            self._pattern = java_pattern(cleaned)
        except re.error:
            raise ValueError(f"{cleaned} is an invalid regex.") from None

    def takes(self, topic: str, *, exclude_internal: bool = False) -> bool:
        """Does the whole name match? Internal topics can be left out."""
        if exclude_internal and topic in INTERNAL_TOPICS:
            return False
        return self._pattern.fullmatch(topic) is not None


def java_hash(text: str) -> int:
    """String.hashCode, as an unsigned 32-bit number."""
    units = text.encode("utf-16-be", "surrogatepass")
    code = 0
    for unit in struct.unpack(f">{len(units) // 2}H", units):
        code = 31 * code + unit
    return code & 0xFFFFFFFF


def partition_hash(partition: tuple[str, int]) -> int:
    """TopicPartition.hashCode, as an unsigned 32-bit number."""
    topic, index = partition
    return (31 * (31 + index) + java_hash(topic)) & 0xFFFFFFFF


def java_map_order(
    keys: Iterable[_Key],
    capacity: int = 16,
    hash_of: Callable[[_Key], int] = java_hash,  # type: ignore[assignment]
) -> list[_Key]:
    """The keys in the order in which a java.util.HashMap of that initial capacity, filled in this order, lists them."""
    filled = list(keys)
    size = 1
    while size < capacity:
        size *= 2
    while len(filled) > size * 0.75:
        size *= 2

    def bucket(key: _Key) -> int:
        code = hash_of(key)
        return (code ^ code >> 16) & (size - 1)

    return sorted(filled, key=bucket)
