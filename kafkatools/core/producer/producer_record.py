"""ProducerRecord: what a caller sends."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Headers = Sequence[tuple[str, "bytes | None"]]


class ProducerRecord:
    """A record for `topic`: partition None lets the partitioner choose, timestamp (ms) None means now, key or value
    None is null.

    Raises ValueError for a negative partition or timestamp (as Kafka's ProducerRecord).
    """

    __slots__ = ("topic", "partition", "timestamp", "key", "value", "headers")

    def __init__(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int | None = None,
        timestamp: int | None = None,
        headers: Headers = (),
    ) -> None:
        if timestamp is not None and timestamp < 0:
            raise ValueError(f"Invalid timestamp: {timestamp}. Timestamp should always be non-negative or null.")
        if partition is not None and partition < 0:
            raise ValueError(f"Invalid partition: {partition}. Partition number should always be non-negative or null.")
        self.topic = topic
        self.partition = partition
        self.timestamp = timestamp
        self.key = key
        self.value = value
        self.headers = headers

    def __repr__(self) -> str:
        return (
            f"ProducerRecord(topic={self.topic!r}, partition={self.partition}, headers={list(self.headers)!r}, "
            f"key={self.key!r}, value={self.value!r}, timestamp={self.timestamp})"
        )
