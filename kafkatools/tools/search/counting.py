"""Count the records of each partition instead of printing them (--count)."""

from __future__ import annotations

from collections import Counter

from kafkatools.core.consumer.completed_fetch import FetchedColumns
from kafkatools.core.topic_partition import TopicPartition
from kafkatools.tools.lines.formatters import OnError


class RecordCounter:
    """A formatter that prints nothing and counts the records of each partition."""

    def __init__(self) -> None:
        self.counts: Counter[TopicPartition] = Counter()

    def write(self, out: bytearray, fetched: FetchedColumns, on_error: OnError) -> int:
        """Count the records; returns their number."""
        self.counts[fetched.topic_partition] += fetched.columns.count
        return fetched.columns.count
