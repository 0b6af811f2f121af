"""The log reads of one consumer fetch (the partition loop of ReplicaManager.readFromLog).

Rules:
- Partitions are read in the order of the request. The first one with records returns at least one batch, whatever the
  limits; later partitions share what is left of the limits.
- The slow lane pauses between two partitions. In a pause a log may be truncated, a segment deleted or compacted, a
  replica lost. So small records are copied when they are read. Larger ones stay in the file as a region of a segment,
  and `stale` names the regions that have changed. `stale` is called last, with no pause before the response.
- A partition that is read again because its region was stale is copied, whatever its size. So each pass leaves fewer
  regions, and the reads come to an end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from kafkatools.core.broker.replicas.fetch_partition import (
    INLINE_BYTES,
    CopiedRecords,
    FetchedPartition,
    FetchPartition,
    Reader,
)
from kafkatools.core.broker.replicas.replica_manager import ReplicaManager
from kafkatools.core.errors import KafkaError, TopicAuthorizationFailed
from kafkatools.core.log.partition.log_results import LogSlice
from kafkatools.core.log.partition.partition_log import PartitionLog
from kafkatools.core.protocol.slices import current_pause, paced


class _Region(NamedTuple):
    """Records in a segment's file, and the state of the log when they were read."""

    records: LogSlice
    log: PartitionLog
    truncations: int


@dataclass(slots=True, eq=False, repr=False)
class FetchReads:
    """The partitions of a fetch and their results: `results[n]` belongs to `partitions[n]`. `may_read(topic)` says
    whether the client may read; None allows every topic. `has_verdict` means that the fetch must not wait, because of
    an error, a diverging epoch or a preferred replica."""

    replicas: ReplicaManager
    partitions: Sequence[FetchPartition]
    max_bytes: int
    reader: Reader
    may_read: Callable[[str], bool] | None = None
    results: list[FetchedPartition] = field(default_factory=list, init=False)
    has_verdict: bool = field(default=False, init=False)
    _regions: dict[int, _Region] = field(default_factory=dict, init=False)

    def read(self) -> int:
        """Read every partition into `results`. Returns the total size of the records in bytes."""
        total, is_sliced, results = 0, current_pause() is not None, self.results
        read_one = self._read_one()
        for number, partition in enumerate(paced(self.partitions)):
            result = read_one(partition, total)
            size = result.size_bytes
            if size:
                total += size
                if is_sliced:
                    result = self._protected(number, result)
            if result.error_code or result.diverging is not None or result.preferred_read_replica >= 0:
                self.has_verdict = True
            results.append(result)
        return total

    def read_again(self, numbers: Iterable[int], *, copies: bool = False) -> None:
        """Read the partitions with these indexes again, within the byte limit that the other partitions leave. In the
        slow lane, `copies` has their records copied into memory, whatever their size."""
        is_sliced = current_pause() is not None
        total = sum(result.size_bytes for result in paced(self.results))
        read_one = self._read_one()
        for number in paced(sorted(numbers)):
            total -= self.results[number].size_bytes
            self._regions.pop(number, None)
            result = read_one(self.partitions[number], total)
            if is_sliced and result.size_bytes:
                result = self._protected(number, result, copies=copies)
            total += result.size_bytes
            self.results[number] = result

    def _read_one(self) -> Callable[[FetchPartition, int], FetchedPartition]:
        """Return the function that reads a partition, given the bytes of other partitions; authorizes each topic
        once."""
        read_one, reader, max_bytes = self.replicas.read_one, self.reader, self.max_bytes

        def read(requested: FetchPartition, other_bytes: int) -> FetchedPartition:
            return read_one(
                requested, min(max(0, max_bytes - other_bytes), requested.max_bytes), reader, not other_bytes
            )

        if self.may_read is None:
            return read
        may_read = cache(self.may_read)

        def read_if_allowed(requested: FetchPartition, other_bytes: int) -> FetchedPartition:
            if self._is_readable(requested, may_read):
                return read(requested, other_bytes)
            return FetchedPartition(error_code=TopicAuthorizationFailed.code, aborted=())

        return read_if_allowed

    def stale(self) -> list[int]:
        """Return the indexes of partitions whose file region has changed since it was read, or which this broker may no
        longer serve."""
        return [number for number, region in self._regions.items() if not self._holds(number, region)]

    def _protected(self, number: int, result: FetchedPartition, *, copies: bool = False) -> FetchedPartition:
        """Copy small records into the result, or note the file region of larger ones. Returns a result with an error
        code if the copy fails."""
        records = result.records
        partition = self.replicas.find(self.partitions[number])
        assert records is not None
        assert partition is not None
        if not copies and records.size_bytes > INLINE_BYTES:
            assert not isinstance(records, CopiedRecords)
            self._regions[number] = _Region(records, partition.log, partition.log.truncations)
            return result
        try:
            result.records = CopiedRecords(records.read())
        except OSError as error:
            return FetchedPartition(error_code=type(partition.log.storage_error("while reading", error)).code)
        return result

    def _holds(self, number: int, region: _Region) -> bool:
        requested = self.partitions[number]
        partition = self.replicas.find(requested)
        if partition is None or partition.log is not region.log or region.log.failure is not None:
            return False
        try:
            if self.reader.is_leader_only:
                partition.ensure_leader()
            partition.check_leader_epoch(requested.current_leader_epoch)
        except KafkaError:
            return False
        segment = region.records.segment
        return region.log.truncations == region.truncations and (
            region.log.segments.floor(segment.base_offset) is segment
        )

    def _is_readable(self, requested: FetchPartition, may_read: Callable[[str], bool]) -> bool:
        """Return whether the client may read the topic; a topic id without a topic is allowed and fails later as
        unknown."""
        name = requested.topic if requested.topic is not None else self.replicas.topic_name(requested.topic_id)
        return name is None or may_read(name)
