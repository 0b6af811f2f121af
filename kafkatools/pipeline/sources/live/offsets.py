"""Offsets of a live topic as numbers: ranges, how they are split over tasks, what a trigger takes, and Spark's JSON.

Rules: nothing here asks a cluster or the clock. A range is [start, end); what lies in it may be fewer records than
offsets (compaction, markers of transactions). The JSON is Spark's: topic -> partition -> next offset. Only the end of a
stream's first batch carries more, under a key that no topic can have: where the stream began. Spark's checkpoint does
not keep that, and a first batch that is run again must not begin anywhere else.
Sources: org.apache.spark.sql.kafka010 KafkaOffsetRangeCalculator, KafkaMicroBatchStream.rateLimit, JsonUtils.
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
"""Offsets below which a range is not split by itself: a task costs more than they do."""

_BEGAN = "$start"


class OffsetRange(NamedTuple):
    """What is to be read of a partition: start <= offset < end. `topic_id`: the topic that the offsets are of."""

    partition: TopicPartition
    start: int
    end: int
    topic_id: uuid.UUID | None = None

    @property
    def size(self) -> int:
        """How many offsets; no more records than that."""
        return self.end - self.start


# --- ranges over tasks


def split_ranges(
    ranges: Iterable[OffsetRange], parallelism: int, min_partitions: int | None, max_records: int | None
) -> list[OffsetRange]:
    """Ranges for tasks; empty ones are dropped. With `min_partitions` about so many, by their share of the offsets;
    without it large ranges are split until there is work for `parallelism` tasks. No task has more than `max_records`
    offsets.
    """
    whole = [one for one in ranges if one.size > 0]
    if max_records is not None:
        whole = [part for one in whole for part in _parts(one, math.ceil(one.size / max_records))]
    wanted = min_partitions if min_partitions is not None else parallelism
    if len(whole) >= wanted:
        return whole
    smallest = 1 if min_partitions is not None else SMALLEST_PART
    total = sum(one.size for one in whole)
    small = [one for one in whole if _share(one.size, total, wanted) == 1]
    left, parts = total - sum(one.size for one in small), max(wanted - len(small), 1)
    split: list[OffsetRange] = []
    for one in whole:
        count = 1 if _share(one.size, total, wanted) == 1 else _share(one.size, left, parts)
        split += _parts(one, min(count, max(one.size // smallest, 1)))
    return split


def _share(size: int, total: int, parts: int) -> int:
    return max(round(size / total * parts), 1)


def _parts(one: OffsetRange, count: int) -> list[OffsetRange]:
    """A range in `count` parts of nearly the same size."""
    edges = [one.start + one.size * n // count for n in range(count + 1)]
    return [one._replace(start=start, end=end) for start, end in zip(edges, edges[1:], strict=False) if end > start]


# --- what a trigger takes


def rate_limited(limit: int, start: Offsets, latest: Offsets) -> dict[TopicPartition, int]:
    """Where a trigger ends that takes about `limit` offsets: each partition in proportion to what it has, at least one.
    Every partition of `latest` is in `start` too."""
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
    """How many offsets a stream is behind."""
    return sum(max(end - start.get(part, 0), 0) for part, end in latest.items())


# --- Spark's JSON


JsonOffsets = Mapping[str, Mapping[str, Any]]
"""Offsets by partition, by topic, as JSON has them: partitions are text. One key holds the offsets of a beginning."""


def to_json(offsets: Offsets) -> dict[str, dict[str, int]]:
    """Offsets as a stream gives them to Spark; equal offsets give equal text."""
    found: dict[str, dict[str, int]] = {}
    for topic, partition in sorted(offsets):
        found.setdefault(topic, {})[str(partition)] = offsets[TopicPartition(topic, partition)]
    return found


def from_json(value: JsonOffsets) -> dict[TopicPartition, int]:
    """Offsets as Spark gives them back."""
    try:
        return {
            TopicPartition(topic, int(partition)): int(offset)
            for topic, partitions in value.items()
            if topic != _BEGAN
            for partition, offset in partitions.items()
        }
    except (AttributeError, ValueError, TypeError):
        raise PipelineError(f"The checkpoint is not one of this source: {value!r} are no offsets of topics") from None


def with_beginning(end: JsonOffsets, began: JsonOffsets) -> dict[str, Mapping[str, Any]]:
    """The end of a stream's first batch, which tells where that began."""
    return {**end, _BEGAN: dict(began)}


def beginning_of(end: JsonOffsets) -> dict[str, Mapping[str, int]] | None:
    """Where the stream began, if this is the end of its first batch."""
    began = end.get(_BEGAN)
    return None if began is None else dict(began)
