"""The parts of `profile` that both engines share: intervals, histograms, group lags, stored sizes of a topic."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, NamedTuple

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.group_offsets import fetch_offsets
from kafkatools.core.admin.groups import list_groups
from kafkatools.core.admin.log_dirs import LogDir, describe_log_dirs
from kafkatools.core.admin.topics import describe_topics
from kafkatools.core.errors import KafkaError
from kafkatools.core.topic_partition import TopicPartition
from kafkatools.pipeline.charts.profile_data import (
    SIZE_OF_RECORDS,
    CodecFigures,
    GroupLag,
    KeyFigures,
    KeySkew,
    PartitionFigures,
    Profile,
    SizeBucket,
)
from kafkatools.pipeline.jobs.offsets import Ranges
from kafkatools.pipeline.jobs.skew import Skew

UNKNOWN_CODEC = "unknown"
_MOST_SPANS = 120
_SECOND, _MINUTE, _HOUR, _DAY = 1000, 60_000, 3_600_000, 86_400_000
_WIDTHS = (
    *(_SECOND * n for n in (1, 2, 5, 10, 20, 30)), *(_MINUTE * n for n in (1, 2, 5, 10, 20, 30)),
    *(_HOUR * n for n in (1, 2, 3, 6, 12)), *(_DAY * n for n in (1, 2, 5, 10, 30, 100, 365)),
)  # fmt: skip


class Shape(NamedTuple):
    """The sums of the data batches of one codec whose size and number of records have these powers of two; a power is
    None if the number is unknown or 0."""

    codec: str
    size_power: int | None
    count_power: int | None
    batches: int
    records: int
    size_bytes: int


class Shapes(NamedTuple):
    """The known codecs, and histograms of batches by size and by number of records."""

    codecs: list[CodecFigures]
    sizes: list[SizeBucket]
    counts: list[SizeBucket]


def shapes_of(rows: Iterable[Shape]) -> Shapes:
    """Sum up the shapes of batches; unknown codecs are left out of the codecs."""
    codecs: dict[str, list[int]] = {}
    sizes: dict[int, int] = {}
    counts: dict[int, int] = {}
    for shape in rows:
        figures = codecs.setdefault(shape.codec, [0, 0, 0])
        for number, value in enumerate((shape.batches, shape.records, shape.size_bytes)):
            figures[number] += value
        for buckets, power in ((sizes, shape.size_power), (counts, shape.count_power)):
            if power is not None:
                buckets[power] = buckets.get(power, 0) + shape.batches
    known_codecs = [
        CodecFigures(codec, *figures) for codec, figures in sorted(codecs.items()) if codec != UNKNOWN_CODEC
    ]
    return Shapes(known_codecs, _buckets(sizes), _buckets(counts))


def _buckets(by_power: Mapping[int, int]) -> list[SizeBucket]:
    """Return a bucket for each power of two from the smallest to the largest, those without batches included; empty
    without any batch."""
    if not by_power:
        return []
    powers = range(min(by_power), max(by_power) + 1)
    return [SizeBucket(1 << n, 2 << n, by_power.get(n, 0)) for n in powers]


def rate_width(partitions: Sequence[PartitionFigures]) -> int:
    """Return the length in ms of an interval of the rates; 0 if no batch has a timestamp."""
    oldest = [figures.first_timestamp for figures in partitions if figures.first_timestamp is not None]
    newest = [figures.last_timestamp for figures in partitions if figures.last_timestamp is not None]
    return span_width(min(oldest), max(newest)) if oldest else 0


def span_width(first_ms: int, last_ms: int) -> int:
    """Return the smallest round interval in ms, at least one second, that is at least a 120th of the time range."""
    least = (last_ms - first_ms) / _MOST_SPANS
    return next((width for width in _WIDTHS if width >= least), _WIDTHS[-1] * int(least // _WIDTHS[-1] + 1))


def key_skew_of(rows: Iterable[tuple[str, bytes, int, int]], skew: Skew, without_key: int) -> KeySkew:
    """Return the figures of keys from the most frequent ones (topic, key, records, bytes), the skew of all keys, and
    the number of records without a key."""
    keys = list(rows)
    is_one_topic = len({topic for topic, *_ in keys}) <= 1
    top = [KeyFigures(bytes(key), records, size, "" if is_one_topic else topic) for topic, key, records, size in keys]
    return KeySkew(top, skew.members, skew.total + without_key, without_key, skew.gini, skew.median, skew.p99)


def rows_of_profile(profile: Profile) -> Iterable[tuple[str, dict[str, Any]]]:
    """Yield the rows of --json: the kind of each, and its values by column."""
    kinds: dict[str, Sequence[Any]] = {
        "partition": profile.partitions,
        "rate": profile.rates,
        "codec": profile.codecs,
        "batch_size": profile.batch_sizes,
        "batch_count": profile.batch_counts,
        "lag": profile.lags or (),
    }
    for kind, rows in kinds.items():
        for row in rows:
            yield kind, asdict(row)
    for key in profile.keys.top if profile.keys is not None else ():
        yield "key", {"topic": key.topic or None, "key": key.key, "records": key.records, "bytes": key.size_bytes}


# -- Live topics --


def with_stored_bytes(profile: Profile, stored: Mapping[TopicPartition, int]) -> Profile:
    """Return the profile of a live topic, whose sizes are those of keys and values, with the stored bytes of each
    partition where they are known."""
    partitions = [
        replace(part, size_basis=SIZE_OF_RECORDS, stored_bytes=stored.get(TopicPartition(part.topic, part.partition)))
        for part in profile.partitions
    ]
    return replace(profile, partitions=partitions)


def stored_bytes(admin: AdminClient, topics: Iterable[str]) -> dict[TopicPartition, int]:
    """Return the bytes of each partition's log on its leader (DescribeLogDirs). Partitions without a leader, and those
    of brokers that do not report them (no permission, offline directory), are left out."""
    leaders = {
        TopicPartition(topic, part.partition): part.leader
        for topic, description in describe_topics(admin, sorted(topics)).items()
        for part in description.partitions
        if part.leader >= 0
    }
    try:
        reports = describe_log_dirs(admin, sorted(set(leaders.values())))
    except KafkaError:
        return {}
    sizes: dict[TopicPartition, int] = {}
    for broker, directories in reports.items():
        for replica in _replicas(() if isinstance(directories, KafkaError) else directories):
            partition = TopicPartition(replica[0], replica[1])
            if leaders.get(partition) == broker:
                sizes[partition] = replica[2]
    return sizes


def _replicas(directories: Iterable[LogDir]) -> list[tuple[str, int, int]]:
    return [
        (replica.topic, replica.partition, replica.size_bytes)
        for directory in directories
        for replica in directory.replicas
        if directory.error is None and not replica.is_future
    ]


def group_lags(admin: AdminClient, ends: Ranges) -> list[GroupLag]:
    """Return a consumer group's lag in each partition of the topics for which it has committed offsets, for all groups
    but share groups. The lag is None in a partition without a committed offset. Raises KafkaError."""
    names = sorted(listing.group_id for listing in list_groups(admin).groups if listing.type != "Share")
    if not names:
        return []
    lags = []
    for group, fetched in sorted(fetch_offsets(admin, names).items()):
        committed = {
            TopicPartition(*partition): entry.offset
            for partition, entry in fetched.offsets.items()
            if partition in ends
        }
        topics = {topic for topic, _ in committed}
        for partition in sorted(partition for partition in ends if partition.topic in topics):
            offset = committed.get(partition)
            lags.append(GroupLag(group, *partition, None if offset is None else max(ends[partition][1] - offset, 0)))
    return lags
