"""Offset ranges of live topics: their division into tasks, the offsets of a trigger, and Spark's JSON form.

Rules: nothing here queries a cluster or a clock. A range is [start, end) and may hold fewer records than offsets,
because of compaction and transaction markers. The JSON is Spark's: topic -> partition -> next offset. Only the end of a
stream's first batch has one more key, which no topic can have, for the offsets where the stream began. Spark's
checkpoint does not store them, and a repeated first batch must begin at the same offsets. With the option sourceName
another key has the name, since Spark's checkpoint and progress name no source; its value is empty, so that earlier
versions and Spark's Kafka source read it as a topic without partitions. Sources: org.apache.spark.sql.kafka010
KafkaOffsetRangeCalculator, KafkaMicroBatchStream.rateLimit, JsonUtils.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from kafkatools.core.topic_partition import TopicPartition
from kafkatools.pipeline.errors import PipelineError

Offsets = Mapping[TopicPartition, int]

SMALLEST_PART = 50_000
"""Ranges of fewer offsets are not split without minPartitions: another task would cost more than it saves."""

_BEGAN = "$start"
_SOURCE = "$source "


class OffsetRange(NamedTuple):
    """The offsets start <= offset < end of a partition; `topic_id` is the ID of the topic they were resolved for."""

    partition: TopicPartition
    start: int
    end: int
    topic_id: uuid.UUID | None = None

    @property
    def size(self) -> int:
        """Number of offsets, the upper limit of the number of records."""
        return self.end - self.start


# --- division into tasks


def split_ranges(
    ranges: Iterable[OffsetRange], parallelism: int, min_partitions: int | None, max_records: int | None
) -> list[OffsetRange]:
    """Split ranges into ranges for tasks; empty ones are dropped. `min_partitions` requests about that many tasks, in
    proportion to offsets. With None, large ranges are split to about `parallelism` tasks in all, in parts of at least
    50,000 offsets. No task has more than `max_records` offsets (None: no limit)."""
    whole = [offset_range for offset_range in ranges if offset_range.size > 0]
    if max_records is not None:
        whole = [
            part for offset_range in whole for part in _parts(offset_range, math.ceil(offset_range.size / max_records))
        ]
    tasks = min_partitions if min_partitions is not None else parallelism
    if len(whole) >= tasks:
        return whole
    smallest = 1 if min_partitions is not None else SMALLEST_PART
    total = sum(offset_range.size for offset_range in whole)
    small = [offset_range for offset_range in whole if _share(offset_range.size, total, tasks) == 1]
    remaining, parts = total - sum(offset_range.size for offset_range in small), max(tasks - len(small), 1)
    split: list[OffsetRange] = []
    for offset_range in whole:
        count = 1 if _share(offset_range.size, total, tasks) == 1 else _share(offset_range.size, remaining, parts)
        split += _parts(offset_range, min(count, max(offset_range.size // smallest, 1)))
    return split


def _share(size: int, total: int, parts: int) -> int:
    return max(round(size / total * parts), 1)


def _parts(offset_range: OffsetRange, count: int) -> list[OffsetRange]:
    edges = [offset_range.start + offset_range.size * n // count for n in range(count + 1)]
    return [
        offset_range._replace(start=start, end=end) for start, end in zip(edges, edges[1:], strict=False) if end > start
    ]


# --- limits of a trigger


def limit_rate(limit: int, start: Offsets, latest: Offsets) -> dict[TopicPartition, int]:
    """Return the ends of a trigger of about `limit` offsets: each partition in proportion to its backlog, at least one
    offset if it has a backlog. `latest` if the backlog is within the limit. `start` must contain all partitions of
    `latest`."""
    sizes = {part: end - start[part] for part, end in latest.items() if end > start[part]}
    total = sum(sizes.values())
    if total <= limit:
        return dict(latest)
    ends = dict(latest)
    for part, size in sizes.items():
        share = limit * size / total
        ends[part] = min(latest[part], start[part] + (math.ceil(share) if share < 1 else math.floor(share)))
    return ends


def new_records(start: Offsets, latest: Offsets) -> int:
    """Return the number of offsets between `start` and `latest` over all partitions; those missing in `start` count
    from 0."""
    return sum(max(end - start.get(part, 0), 0) for part, end in latest.items())


# --- Spark's JSON


JsonOffsets = Mapping[str, Mapping[str, Any]]
"""Offsets by topic and partition number (a text) in Spark's JSON; the key `$start` holds those of the beginning,
`$source NAME` nothing."""
JsonObject = dict[str, Mapping[str, Any]]
"""The same as Spark wants it from a reader."""


def to_json(offsets: Offsets) -> dict[str, dict[str, int]]:
    """Convert offsets to Spark's JSON form, sorted, so that equal offsets give equal text."""
    topics: dict[str, dict[str, int]] = {}
    for topic, partition in sorted(offsets):
        topics.setdefault(topic, {})[str(partition)] = offsets[TopicPartition(topic, partition)]
    return topics


def from_json(value: JsonOffsets) -> dict[TopicPartition, int]:
    """Convert Spark's JSON form to offsets, without the beginning of a first batch. Raises PipelineError for a
    checkpoint of another source."""
    try:
        return {
            TopicPartition(topic, int(partition)): int(offset)
            for topic, partitions in value.items()
            if topic != _BEGAN
            for partition, offset in partitions.items()
        }
    except (AttributeError, ValueError, TypeError):
        raise PipelineError(f"The checkpoint belongs to another source: {value!r} are not offsets of topics") from None


def with_beginning(end: JsonOffsets, began: JsonOffsets) -> JsonObject:
    """Return the end of a stream's first batch with the offsets where the stream began."""
    return {**end, _BEGAN: dict(began)}


def beginning_of(end: JsonOffsets) -> dict[str, Mapping[str, int]] | None:
    """Return the offsets where the stream began, from the end of its first batch; None for any other batch."""
    began = end.get(_BEGAN)
    return None if began is None else dict(began)


def with_source(offsets: JsonOffsets, name: str | None) -> JsonObject:
    """Return offsets with the name of their source; None adds no name."""
    return dict(offsets) if name is None else {**offsets, _SOURCE + name: {}}


def source_of(offsets: Iterable[str]) -> str | None:
    """Return the name of the source of offsets; None if they have no name."""
    return next((key.removeprefix(_SOURCE) for key in offsets if key.startswith(_SOURCE)), None)
