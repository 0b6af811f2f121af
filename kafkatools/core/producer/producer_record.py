"""ProducerRecord: a record to send, before serialization (Kafka's ProducerRecord)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kafkatools.core.records.columns import name_bytes

Headers = Sequence[tuple[str, "bytes | None"]]
EncodableHeaders = Sequence[tuple[str | bytes, "bytes | None"]]
AnyHeaders = Headers | Mapping[str, "bytes | None"]
_LAST_TIMESTAMP = (1 << 63) - 1


class ProducerRecord:
    """A record to send. Partition None lets the partitioner choose. The timestamp is in ms since 1970; None is the time
    of the send. Raises ValueError for a negative partition, a timestamp below 0 or above 64 bits, and a header name
    with a lone surrogate other than those of `surrogateescape`, which stand for bytes; TypeError for an argument of the
    wrong type."""

    __slots__ = ("topic", "partition", "timestamp", "key", "value", "headers")

    def __init__(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int | None = None,
        timestamp: int | None = None,
        headers: AnyHeaders = (),
    ) -> None:
        if not isinstance(topic, str):
            raise TypeError(f"The topic is a str, not {type(topic).__name__}")
        if not isinstance(timestamp, int | None):
            raise TypeError(f"The timestamp (ms) is an int or None, not {type(timestamp).__name__}")
        if timestamp is not None and timestamp < 0:
            raise ValueError(f"Invalid timestamp: {timestamp}. Timestamp should always be non-negative or null.")
        if timestamp is not None and timestamp > _LAST_TIMESTAMP:
            raise ValueError(f"Invalid timestamp: {timestamp} ms has more than 64 bits.")
        ensure_valid_partition(partition)
        self.topic = topic
        self.partition = partition
        self.timestamp = timestamp
        self.key = key
        self.value = value
        self.headers: Headers = _pairs(headers) if headers else ()

    def __repr__(self) -> str:
        return (
            f"ProducerRecord(topic={self.topic!r}, partition={self.partition}, headers={list(self.headers)!r}, "
            f"key={self.key!r}, value={self.value!r}, timestamp={self.timestamp})"
        )


def ensure_valid_partition(partition: int | None) -> None:
    """Raise ValueError for a negative partition, TypeError for one that is neither an int nor None."""
    if not isinstance(partition, int | None):
        raise TypeError(f"The partition is an int or None, not {type(partition).__name__}")
    if partition is not None and partition < 0:
        raise ValueError(f"Invalid partition: {partition}. Partition number should always be non-negative or null.")


def _pairs(headers: AnyHeaders) -> Headers:
    """Return headers as (name, value) pairs after a check. Raises TypeError and ValueError here, because the append to
    a batch must not fail halfway, nor fail other records."""
    pairs = tuple(headers.items()) if isinstance(headers, Mapping) else headers
    for name, value in pairs:
        if not isinstance(name, str | bytes) or not isinstance(value, bytes | bytearray | memoryview | None):
            raise TypeError(f"A header is a name and bytes or None, not {name!r}: {value!r}")
        try:
            name_bytes(name)
        except UnicodeEncodeError:
            raise ValueError(f"The header name {name!r} has a lone surrogate, which is not valid UTF-8") from None
    return pairs
