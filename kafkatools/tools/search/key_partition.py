"""Find the partition of a key by its hash, if the records of the topic prove the partitioner.

Rules: the first and the last records of each partition are read, at least SAMPLE_RECORDS of each. A partitioner is
proven if it puts each of these keys where it is, and if each partition that is not empty has ENOUGH_KEYS different keys
in the sample. A null key is no evidence, since such records go anywhere. Keys from before a change of the number of
partitions are at the start of their partitions, where half of them or more contradict the present number.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping
from typing import NamedTuple, Protocol

from kafkatools.core.consumer.completed_fetch import FetchedColumns
from kafkatools.core.consumer.ends import Positioned
from kafkatools.core.records.kernel import murmur2
from kafkatools.core.topic_partition import TopicPartition

SAMPLE_RECORDS = 200
ENOUGH_KEYS = 20
_POLL_MS = 1000
_MOST_EMPTY_POLLS = 5


class SampledReader(Positioned, Protocol):
    """The methods of Consumer that a sample uses."""

    def partitions_for(self, topic: str, timeout_ms: int | None = None) -> list[int]:
        """Return the partition numbers of a topic."""

    def assign(self, partitions: list[tuple[str, int]]) -> None:
        """Replace the assigned partitions with these."""

    def seek(self, partition: tuple[str, int], offset: int, leader_epoch: int = -1) -> None:
        """Make the next poll read from `offset`."""

    def pause(self, partitions: list[tuple[str, int]]) -> None:
        """Return no records of these partitions until `resume`."""

    def resume(self, partitions: list[tuple[str, int]]) -> None:
        """Return records of these paused partitions again."""

    def poll_columns(self, timeout_ms: int) -> list[FetchedColumns]:
        """Return the next records."""

    def beginning_offsets(self, partitions: list[tuple[str, int]]) -> dict[TopicPartition, int]:
        """Return the log start offset of each partition."""


class Partitioner(NamedTuple):
    """A partitioner by hash of the key. `places_empty_keys`: an empty key is hashed as others."""

    name: str
    hash_of: Callable[[bytes], int]
    places_empty_keys: bool = True

    def partition(self, key: bytes, count: int) -> int | None:
        """Return the partition of a key among `count`; None for an empty key that may be anywhere."""
        return self.hash_of(key) % count if key or self.places_empty_keys else None


PARTITIONERS = (
    Partitioner("murmur2 (Kafka's default partitioner)", lambda key: murmur2(key) & 0x7FFFFFFF),
    Partitioner("CRC-32 (librdkafka's consistent_random)", zlib.crc32, False),
)


class KeyPlace(NamedTuple):
    """The only partition that can contain a key, None if that is not proven; and the reason as a sentence."""

    partition: int | None
    reason: str


class _Evidence:
    """The sampled keys of a topic with `count` partitions, and the partitioners that they allow."""

    def __init__(self, count: int) -> None:
        self.partitioners = list(PARTITIONERS)
        self.keys: dict[TopicPartition, set[bytes]] = {}
        self.contradiction: tuple[TopicPartition, int] | None = None
        self._count = count

    def add(self, part: TopicPartition, key: bytes, offset: int) -> None:
        """Add the key of a record."""
        keys = self.keys.setdefault(part, set())
        if key in keys:
            return
        keys.add(key)
        allowed = [item for item in self.partitioners if item.partition(key, self._count) in (None, part.partition)]
        if not allowed and self.contradiction is None:
            self.contradiction = part, offset
        self.partitioners = allowed


def place_of_key(reader: SampledReader, topic: str, key: bytes) -> KeyPlace:
    """Sample the topic and find the partition of a key. Assigns all partitions to the reader. Raises the errors of
    Consumer.end_offsets."""
    parts = [TopicPartition(topic, number) for number in reader.partitions_for(topic)]
    count = len(parts)
    if count < 2:
        return KeyPlace(None, "")
    everything = f"Reading all {count} partitions of {topic}: "
    if [part.partition for part in parts] != list(range(count)):
        return KeyPlace(None, f"{everything}their numbers have gaps, so the number of partitions is unknown")
    evidence = _Evidence(count)
    sampled = _Sample(reader, parts, evidence).read()
    if evidence.contradiction is not None:
        part, offset = evidence.contradiction
        names = " nor ".join(item.name for item in PARTITIONERS)
        reason = f"the key at offset {offset} of {part} fits neither {names}"
        return KeyPlace(None, f"{everything}{reason}")
    for part in sampled:
        if len(evidence.keys.get(part, ())) < ENOUGH_KEYS:
            reason = f"a sample of {part} has too few different keys to tell how keys are assigned to partitions"
            return KeyPlace(None, f"{everything}{reason}")
    if not evidence.keys:
        return KeyPlace(None, f"{everything}there are no keys yet that tell how keys are assigned to partitions")
    partitioner = evidence.partitioners[0]
    place = partitioner.partition(key, count)
    if place is None:
        return KeyPlace(None, f"{everything}an empty key may be in any of them")
    total = sum(map(len, evidence.keys.values()))
    return KeyPlace(
        place,
        f"Reading only {topic}-{place}: {partitioner.name} puts this key there, as all {total:,} sampled keys of "
        f"{count} partitions are where it puts them",
    )


class _Sample:
    """Reads the first and the last records of partitions."""

    def __init__(self, reader: SampledReader, parts: list[TopicPartition], evidence: _Evidence) -> None:
        self._reader = reader
        self._parts = parts
        self._evidence = evidence

    def read(self) -> list[TopicPartition]:
        """Read the samples, or until no partitioner fits the keys. Returns the partitions with records."""
        reader = self._reader
        reader.assign([*self._parts])
        ends = reader.end_offsets(self._parts)
        starts = reader.beginning_offsets([*self._parts])
        reached = self._read_from({part: start for part, start in starts.items() if start < ends[part]}, ends)
        last = {
            part: max(offset, ends[part] - SAMPLE_RECORDS) for part, offset in reached.items() if offset < ends[part]
        }
        if last and self._evidence.partitioners:
            self._read_from(last, ends)
        reader.assign([])
        return list(reached)

    def _read_from(
        self, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """Read at least SAMPLE_RECORDS records of each partition, or up to its end. Returns the next offsets."""
        reader = self._reader
        positions, counts, empty_polls = dict(starts), dict.fromkeys(starts, 0), 0
        reader.assign([*starts])
        for part, offset in starts.items():
            reader.seek(part, offset)
        open_parts = set(starts)
        while open_parts and empty_polls < _MOST_EMPTY_POLLS and self._evidence.partitioners:
            fetched = reader.poll_columns(_POLL_MS)
            empty_polls = 0 if fetched else empty_polls + 1
            for item in fetched:
                part = item.topic_partition
                if part in open_parts:
                    self._add(item)
                    positions[part] = item.columns.offsets[-1] + 1
                    counts[part] += item.columns.count
            for part in list(open_parts):
                if reader.has_read_to(part, ends[part]):
                    positions[part] = max(positions[part], ends[part])
                if counts[part] >= SAMPLE_RECORDS or positions[part] >= ends[part]:
                    open_parts.remove(part)
                    reader.pause([part])
        reader.resume([*starts])
        return positions

    def _add(self, item: FetchedColumns) -> None:
        columns = item.columns
        for row in range(columns.count):
            key = columns.key(row)
            if key is not None:
                self._evidence.add(item.topic_partition, key, columns.offsets[row])
