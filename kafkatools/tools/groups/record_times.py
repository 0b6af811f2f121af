"""Look up the timestamps of records by offset with Fetch, for the time lag of groups.

ListOffsets only finds offsets by time; the reverse requires reading the batch. Many partitions share a request with a
small limit each. A partition whose next batch exceeds the limit comes back empty and is fetched alone, since a
request's first partition always gets one batch (KIP-74). Control records are skipped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kafkatools.core.admin.client import AdminClient, error_in
from kafkatools.core.admin.leaders import LeaderRequest, TopicPartition, send_to_leaders
from kafkatools.core.admin.offsets import EARLIEST, list_offsets
from kafkatools.core.admin.results import by_partition
from kafkatools.core.errors import KafkaError, OffsetOutOfRange, Timeout
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.entities import Entity
from kafkatools.core.records.batch import read_batches
from kafkatools.core.topic_partition import topic_fields

Place = tuple[str, int, int]
"""Topic, partition and offset."""

_OLDEST_FETCH = 4
_NEWEST_FETCH = 12
_PARTITIONS_A_REQUEST = 200
_BYTES_A_PARTITION = 16 << 10
_BYTES_A_REQUEST = 32 << 20


class RecordTime(NamedTuple):
    """The first record at or after an offset (-1 when none) and its timestamp in ms (-1 when it has none)."""

    offset: int
    timestamp: int


NO_RECORD = RecordTime(-1, -1)


class _Fetched(NamedTuple):
    """One partition of a Fetch response."""

    records: memoryview | bytes | None
    high_watermark: int


class _Search:
    """The search for the records at several offsets of one partition, and the offset to fetch from next."""

    def __init__(self, offsets: Iterable[int]) -> None:
        self.pending = sorted(set(offsets))
        self.position = self.pending[0]
        self.times: dict[int, RecordTime] = {}

    def take(self, fetched: _Fetched) -> bool:
        """Search fetched batches for the remaining offsets. Returns False when the response had no complete batch.
        Raises KafkaError for a damaged batch."""
        if self.position >= fetched.high_watermark:
            self._end()
            return True
        next_offset = self.position
        for batch in read_batches(fetched.records or b""):
            next_offset = batch.next_offset
            if not batch.is_control:
                columns = batch.columns()
                self._match(columns.offsets, columns.timestamps)
            if not self.pending:
                return True
        if next_offset <= self.position:
            return False
        self.position = max(next_offset, self.pending[0])
        return True

    def _match(self, offsets: Sequence[int], timestamps: Sequence[int]) -> None:
        """Note the times of records from the position on: the first batch may have earlier ones, which are deleted if
        the log starts within the batch."""
        for offset, timestamp in zip(offsets, timestamps, strict=True):
            while offset >= self.position and self.pending and self.pending[0] <= offset:
                self.times[self.pending.pop(0)] = RecordTime(offset, timestamp)

    def move_into_range(self, log_start_offset: int) -> None:
        """After OffsetOutOfRange, move a position before the log start to it. Any other position is beyond the end, so
        its offsets have no record."""
        if self.position < log_start_offset:
            self.position = log_start_offset
        else:
            self._end()

    def _end(self) -> None:
        self.times.update(dict.fromkeys(self.pending, NO_RECORD))
        self.pending = []


def record_times(admin: AdminClient, places: Iterable[Place]) -> dict[Place, RecordTime | KafkaError]:
    """Return the first record at or after each offset, or the error of its partition: Timeout after
    default.api.timeout.ms in which its leader returned no complete batch."""
    offsets_of: dict[TopicPartition, list[int]] = {}
    for topic, partition, offset in places:
        offsets_of.setdefault((topic, partition), []).append(offset)
    searches = {key: _Search(offsets) for key, offsets in offsets_of.items()}
    results: dict[Place, RecordTime | KafkaError] = {}
    pending, chunk = list(searches), _PARTITIONS_A_REQUEST
    deadline_ms, attempts = admin.deadline_ms(), 0
    while pending:
        positions = [searches[key].position for key in pending]
        remaining: list[TopicPartition] = []
        for start in range(0, len(pending), chunk):
            remaining += _round(admin, pending[start : start + chunk], searches, offsets_of, results)
        if remaining != pending or positions != [searches[key].position for key in remaining]:
            deadline_ms, attempts = admin.deadline_ms(), 0
        elif admin.wait_before_retry(attempts, deadline_ms):
            attempts += 1
        else:
            results.update(_timeouts(remaining, searches))
            break
        # Partitions that remain after a round of small limits are fetched alone: then each gets a whole batch.
        pending, chunk = remaining, 1
    for key, search in searches.items():
        results.update({(*key, offset): time for offset, time in search.times.items()})
    return results


def _timeouts(
    keys: Iterable[TopicPartition], searches: Mapping[TopicPartition, _Search]
) -> dict[Place, RecordTime | KafkaError]:
    errors = {
        key: Timeout(f"{key[0]}-{key[1]}: no records came from offset {searches[key].position} on") for key in keys
    }
    return {(*key, offset): error for key, error in errors.items() for offset in searches[key].pending}


def _round(
    admin: AdminClient,
    keys: Sequence[TopicPartition],
    searches: Mapping[TopicPartition, _Search],
    offsets_of: Mapping[TopicPartition, list[int]],
    results: dict[Place, RecordTime | KafkaError],
) -> list[TopicPartition]:
    """Send one Fetch to each leader; return the partitions that need another one."""
    remaining = []
    responses = _fetch(admin, {key: searches[key].position for key in keys})
    outside = [key for key, fetched in responses.items() if isinstance(fetched, OffsetOutOfRange)]
    starts = list_offsets(admin, dict.fromkeys(outside, EARLIEST)) if outside else {}
    for key, fetched in responses.items():
        search = searches[key]
        if key in starts:
            error = starts[key].error
            search.move_into_range(starts[key].offset)
        else:
            error = fetched if isinstance(fetched, KafkaError) else _search_in(search, fetched)
        if error is not None:
            results.update({(*key, offset): error for offset in offsets_of[key] if offset not in search.times})
        elif search.pending:
            remaining.append(key)
    return remaining


def _search_in(search: _Search, fetched: _Fetched) -> KafkaError | None:
    try:
        search.take(fetched)
    except KafkaError as damaged:
        return damaged
    return None


def _fetch(admin: AdminClient, positions: Mapping[TopicPartition, int]) -> dict[TopicPartition, _Fetched | KafkaError]:
    def build(partitions: list[TopicPartition], remaining_ms: int) -> dict[str, object]:
        size = {"partition_max_bytes": _BYTES_A_PARTITION}
        entries = ((key, {"partition": key[1], "fetch_offset": positions[key], **size}) for key in partitions)
        limits = {"max_wait": 0, "min_bytes": 0, "max_bytes": _BYTES_A_REQUEST}
        return {"replica_id": -1, **limits, "topics": topic_fields(entries, "topic")}

    def read(entity: Entity) -> dict[TopicPartition, _Fetched | KafkaError]:
        return by_partition(
            entity.responses, lambda part: error_in(part) or _Fetched(part.records, part.high_watermark), "topic"
        )

    return send_to_leaders(admin, positions, LeaderRequest(ApiKey.FETCH, build, read, _OLDEST_FETCH, _NEWEST_FETCH))
