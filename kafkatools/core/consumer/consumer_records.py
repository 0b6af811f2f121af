"""What a poll returns: records one by one, or in columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from kafkatools.core.consumer.completed_fetch import FetchedColumns
from kafkatools.core.consumer.subscription import TopicPartition
from kafkatools.core.group.metadata import OffsetAndMetadata
from kafkatools.core.records.columns import TimestampType


class ConsumerRecord(NamedTuple):
    """One record and where it came from. Key and value are bytes, or what the consumer's deserializers make of them."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: TimestampType
    key: Any
    value: Any
    headers: tuple[tuple[str, bytes | None], ...]


class ConsumerRecords:
    """What a poll returned: columns by partition; iteration makes the records, partition by partition.

    `records`: the records themselves, where deserializers or interceptors have made them already; the columns stay as
    they came.
    """

    def __init__(self, fetched: Sequence[FetchedColumns], records: Sequence[ConsumerRecord] | None = None) -> None:
        self._fetched = fetched
        self._records = records
        self.count = sum(item.columns.count for item in fetched) if records is None else len(records)

    def __len__(self) -> int:
        return self.count

    def __repr__(self) -> str:
        return f"ConsumerRecords({self.count} records of [{', '.join(map(str, self.partitions()))}])"

    def __bool__(self) -> bool:
        return self.count > 0

    def __iter__(self) -> Iterator[ConsumerRecord]:
        if self._records is not None:
            yield from self._records
            return
        for item in self._fetched:
            yield from records_of(item)

    def partitions(self) -> list[TopicPartition]:
        """The partitions that have records, each once."""
        sources = self._fetched if self._records is None else self._records
        return list(dict.fromkeys(TopicPartition(item.topic, item.partition) for item in sources))

    def next_offsets(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """The offset after the last record of each partition: what to commit, or to send to a transaction, once these
        records are processed (KIP-1094)."""
        found = {
            item.topic_partition: OffsetAndMetadata(item.columns.offsets[-1] + 1)
            for item in self._fetched
            if item.columns.count
        }
        for record in self._records or ():
            found.setdefault(TopicPartition(record.topic, record.partition), OffsetAndMetadata(record.offset + 1))
        return found

    def columns(self) -> Sequence[FetchedColumns]:
        """The records in columns, in the order they are to be read."""
        return self._fetched


def records_of(item: FetchedColumns) -> Iterator[ConsumerRecord]:
    """The records of one set of columns."""
    for record in item.columns.records():
        yield ConsumerRecord(item.topic, item.partition, *record)
