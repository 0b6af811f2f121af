"""The records that a poll returns, one by one or in columns (Kafka's ConsumerRecord and ConsumerRecords)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple, cast

from kafkatools.core.consumer.completed_fetch import FetchedColumns
from kafkatools.core.consumer.subscription import TopicPartition
from kafkatools.core.group.metadata import OffsetAndMetadata
from kafkatools.core.records._record_kernel import make_records
from kafkatools.core.records.columns import TimestampType

_ROWS_AT_ONCE = 1000


class ConsumerRecord(NamedTuple):
    """One record; `timestamp` in ms, key and value as bytes, deserialized objects or None for a null. `delivery_count`
    is set by a ShareConsumer: how often the record was delivered, this time included."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: TimestampType
    key: Any
    value: Any
    headers: tuple[tuple[str, bytes | None], ...]
    delivery_count: int | None = None


class ConsumerRecords:
    """The result of a poll: iterate over its records partition by partition, or take its columns. `records` holds the
    records that deserializers or interceptors have already made; the columns stay as fetched."""

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
            return iter(self._records)
        return chain.from_iterable(portion for item in self._fetched for portion in _portions(item))

    def partitions(self) -> list[TopicPartition]:
        """Return the partitions that have records, each once."""
        sources = self._fetched if self._records is None else self._records
        return list(dict.fromkeys(TopicPartition(item.topic, item.partition) for item in sources))

    def next_offsets(self) -> dict[TopicPartition, OffsetAndMetadata]:
        """Return the offset after the last fetched record of each partition, to commit after processing (KIP-1094).
        Records that an interceptor dropped count; control batches and aborted records after the last record do not. In
        a partition that only an interceptor added, the offset after its last record."""
        record_ends: dict[TopicPartition, int] = {}
        for record in self._records or ():
            part = TopicPartition(record.topic, record.partition)
            record_ends[part] = max(record.offset + 1, record_ends.get(part, 0))
        fetched_ends = {
            item.topic_partition: item.columns.offsets[-1] + 1 for item in self._fetched if item.columns.count
        }
        return {part: OffsetAndMetadata(offset) for part, offset in {**record_ends, **fetched_ends}.items()}

    def columns(self) -> Sequence[FetchedColumns]:
        """Return the fetched records as columns, in reading order, before deserializers and interceptors."""
        return self._fetched


def records_of(item: FetchedColumns) -> Iterator[ConsumerRecord]:
    """Return an iterator over the records of one partition's columns as ConsumerRecord objects."""
    return chain.from_iterable(_portions(item))


def _portions(item: FetchedColumns) -> Iterator[list[ConsumerRecord]]:
    """Yield the records of columns in lists, since the objects take several times the memory of their bytes."""
    columns = item.columns
    longs = columns.offsets, columns.timestamps
    places = columns.places[:4]
    constants = ConsumerRecord, item.topic, item.partition, columns.timestamp_type, item.delivery_count
    for start in range(0, columns.count, _ROWS_AT_ONCE):
        stop = min(columns.count, start + _ROWS_AT_ONCE)
        headers = columns.headers_of(start, stop)
        yield cast(
            "list[ConsumerRecord]",
            make_records(columns.buffer, longs, places, headers, (start, stop), constants),
        )
