"""Read partitions from the segment files of log directories, with the methods of a consumer.

Rules: the partitions are read one after another, each in its order, in chunks of at most 1 MiB. The log end offset is
that of the first lookup; under read_committed it is the last stable offset. Damage is reported after the sound records
of all partitions that are being read: damage behind the end of a slice must not end the run.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from kafkatools.core.consumer.completed_fetch import READ_COMMITTED, CompletedFetch, FetchedColumns, FetchOptions
from kafkatools.core.consumer.errors import CorruptBatch
from kafkatools.core.consumer.fetch_messages import ZERO_UUID, AbortedTransaction, FetchedPartition
from kafkatools.core.consumer.offset_fetcher import OffsetAndTimestamp
from kafkatools.core.errors import KafkaError
from kafkatools.core.log.reading.directories import PartitionDirectory
from kafkatools.core.log.reading.header_columns import BASE_OFFSET, LAST_DELTA, POSITION
from kafkatools.core.log.reading.partition_files import PartitionFiles, Place
from kafkatools.core.log.reading.segment_reader import CHUNK_BYTES, Damage, Run, SegmentReader
from kafkatools.core.log.reading.transactions import PartitionTransactions
from kafkatools.core.topic_partition import TopicPartition, as_partition
from kafkatools.tools.lines.open_ends import open_end

_FIRST_CHUNK_BYTES = 64 << 10
_ALL_CHUNKS_BYTES = 64 << 20
_ALL_RECORDS = 1 << 62


class DamagedFile(CorruptBatch):
    """Bytes of a segment file are no valid batch, or its records cannot be decoded."""

    def __init__(self, part: TopicPartition, offsets: tuple[int, int], position: int, cause: str) -> None:
        super().__init__(*part, offsets, position, cause)
        self.message = (
            f"{cause}. Offsets {self.first_offset} to {self.next_offset - 1} of {part} cannot be read; "
            f"--skip-corrupt goes on at offset {self.next_offset}"
        )


class LogFilesReader:
    """Reads the partitions of `directories`. `note` prints a line about what is missing in the files."""

    def __init__(
        self, directories: Iterable[PartitionDirectory], options: FetchOptions, note: Callable[[str], None]
    ) -> None:
        self._directories = {directory.topic_partition: directory for directory in directories}
        self._options = options
        self._note = note
        self._logs: dict[TopicPartition, _OpenLog] = {}
        self._assigned: list[TopicPartition] = []
        self._paused: set[TopicPartition] = set()

    # --- the topics in the directories

    @property
    def metadata_version(self) -> int:
        """Always 0: partitions that are created later are not read."""
        return 0

    def known_partitions(self) -> dict[str, list[int]]:
        """Return the partition numbers of all topics in the directories."""
        topics: dict[str, list[int]] = {}
        for part in sorted(self._directories):
            topics.setdefault(part.topic, []).append(part.partition)
        return topics

    def list_topics(self, timeout_ms: int | None = None) -> dict[str, list[int]]:
        """Return the partition numbers of all topics in the directories."""
        return self.known_partitions()

    def partitions_for(self, topic: str, timeout_ms: int | None = None) -> list[int]:
        """Return the partition numbers of a topic, none if it has no directory."""
        return self.known_partitions().get(topic, [])

    def topic_id(self, topic: str) -> uuid.UUID | None:
        """Return None: files need no topic id."""
        return None

    def connection_problem(self) -> KafkaError | None:
        """Return None: there is no connection."""
        return None

    def missing_leader(self) -> KafkaError | None:
        """Return None: files have no leader."""
        return None

    def has_broker(self) -> bool:
        """Return True: nothing waits for a broker."""
        return True

    # --- assignment and positions

    def assignment(self) -> list[TopicPartition]:
        """Return the assigned partitions."""
        return self._assigned

    def assign(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Replace the assigned partitions with these. Raises UnreadableLog, OSError."""
        self._assigned = [as_partition(part) for part in partitions]
        for part in self._assigned:
            if part not in self._logs:
                self._logs[part] = _OpenLog(self._directories[part], self._options, self._note)

    def seek(self, partition: tuple[str, int], offset: int, leader_epoch: int = -1) -> None:
        """Make the next poll read from `offset`."""
        self._log(partition).seek(offset)

    def seek_to_beginning(self, partitions: Iterable[tuple[str, int]] = ()) -> None:
        """Move partitions (default: all assigned) to their log start offsets."""
        for part in list(partitions) or self._assigned:
            self._log(part).seek(self._log(part).files.log_start_offset)

    def seek_to_end(self, partitions: Iterable[tuple[str, int]] = ()) -> None:
        """Move partitions (default: all assigned) to their end offsets."""
        for part in list(partitions) or self._assigned:
            self._log(part).seek(self._log(part).end)

    def pause(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Return no records of these partitions until `resume`."""
        self._paused.update(as_partition(part) for part in partitions)

    def resume(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Return records of these paused partitions again."""
        self._paused.difference_update(as_partition(part) for part in partitions)

    def known_position(self, partition: tuple[str, int]) -> int | None:
        """Return the offset of the next record."""
        return self._log(partition).position

    def has_read_to(self, partition: tuple[str, int], end: int) -> bool:
        """Return whether the position has reached offset `end` or the end of the files."""
        log = self._log(partition)
        return log.position >= end or log.is_finished

    def _log(self, partition: tuple[str, int]) -> _OpenLog:
        return self._logs[as_partition(partition)]

    # --- offsets

    def beginning_offsets(self, partitions: Iterable[tuple[str, int]]) -> dict[TopicPartition, int]:
        """Return the log start offset of each partition."""
        return {as_partition(part): self._log(part).files.log_start_offset for part in partitions}

    def end_offsets(self, partitions: Iterable[tuple[str, int]]) -> dict[TopicPartition, int]:
        """Return the log end offset of each partition; the last stable offset under read_committed."""
        return {as_partition(part): self._log(part).end for part in partitions}

    def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first record of each partition at or after its timestamp (ms), None without one."""
        found = {part: self._log(part).files.first_at(timestamp) for part, timestamp in timestamps.items()}
        return {part: None if at is None else OffsetAndTimestamp(at.offset, at.timestamp) for part, at in found.items()}

    def ends_before_times(self, timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return the offset of each partition after its last record that is older than the timestamp (ms)."""
        return {part: self._log(part).files.end_before(timestamp) for part, timestamp in timestamps.items()}

    def segments_of(self, partition: tuple[str, int]) -> list[SegmentReader]:
        """Return the segments of an assigned partition by ascending base offset."""
        return self._log(partition).files.segments

    # --- records

    def poll_columns(self, timeout_ms: int) -> list[FetchedColumns]:
        """Return the next records of one partition; none when all are read or paused. Never waits. Raises DamagedFile
        when only damaged partitions are left, UnreadableLog, OSError."""
        while True:
            damaged: _OpenLog | None = None
            for part in self._assigned:
                log = self._logs[part]
                if log.is_finished or part in self._paused:
                    continue
                fetched = log.read(self._chunk_bytes)
                if fetched:
                    return fetched
                if log.damage is not None and damaged is None:
                    damaged = log
            if damaged is None:
                return []
            damaged.pass_damage()

    @property
    def _chunk_bytes(self) -> int:
        return max(_FIRST_CHUNK_BYTES, min(CHUNK_BYTES, _ALL_CHUNKS_BYTES // max(1, len(self._assigned))))

    def close(self) -> None:
        """Close all files."""
        for log in self._logs.values():
            log.close()

    def __enter__(self) -> LogFilesReader:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


class _Chunk(NamedTuple):
    """A run of batches that is being decoded, and the file that it was read from."""

    fetch: CompletedFetch
    run: Run
    path: str


class _OpenLog:
    """The files of an assigned partition and the position in them. `damage`: the position is before damage."""

    def __init__(self, directory: PartitionDirectory, options: FetchOptions, note: Callable[[str], None]) -> None:
        self._part = directory.topic_partition
        self.files = PartitionFiles(directory, note)
        self.position = self.files.log_start_offset
        self.is_finished = False
        self.damage: DamagedFile | None = None
        self._note = note
        self._skip_corrupt = options.skip_corrupt
        self._options = options._replace(check_crcs=False, skip_corrupt=None)
        self._transactions = PartitionTransactions(self.files) if options.isolation_level == READ_COMMITTED else None
        self._end: int | None = None
        self._place: Place | None = None
        self._chunk: _Chunk | None = None
        self._chunk_bytes = _FIRST_CHUNK_BYTES

    @property
    def end(self) -> int:
        """The offset up to which records are returned."""
        if self._end is None:
            self._end = self.files.log_end_offset
            if self._transactions is not None:
                stable = self._transactions.stable_end()
                self._end = stable.offset
                if stable.producer_id is not None:
                    self._note(open_end(self._part, stable.offset, stable.producer_id))
        return self._end

    def seek(self, offset: int) -> None:
        """Make the next `read` begin at `offset`."""
        self.position = offset
        self.is_finished = False
        self.damage = self._place = self._chunk = None
        self._chunk_bytes = _FIRST_CHUNK_BYTES

    def read(self, most_bytes: int) -> list[FetchedColumns]:
        """Return the next records. None at the end, which sets `is_finished`, and before damage, which sets
        `damage`."""
        while self.damage is None and not self.is_finished:
            if self._chunk is None:
                self._chunk = self._next_chunk(most_bytes)
                continue
            fetch = self._chunk.fetch
            try:
                runs = fetch.fetch_columns(_ALL_RECORDS)
            except CorruptBatch as error:
                self.damage = self._located(error, self._chunk)
                return []
            self.position = max(self.position, fetch.next_fetch_offset)
            if fetch.is_consumed:
                self.position = max(self.position, self._chunk.run.next_offset)
                self._chunk = None
            if runs:
                return [FetchedColumns(*self._part, columns) for columns in runs]
        return []

    def pass_damage(self) -> None:
        """Report the damage and move behind it with `skip_corrupt`, else raise DamagedFile."""
        damage = self.damage
        if damage is None:
            return
        if self._skip_corrupt is None:
            raise damage
        self._skip_corrupt(damage)
        self.damage = None
        self.position = max(self.position, damage.next_offset)
        if self._chunk is not None:  # its batches were read; the place is behind all of them
            self.seek(damage.next_offset)

    def _next_chunk(self, most_bytes: int) -> _Chunk | None:
        if self._place is None:
            self._place = self.files.place_of(self.position)
        found, place = self.files.run(self._place, min(self._chunk_bytes, most_bytes))
        self._chunk_bytes *= 4
        if found is None:
            self.is_finished = True
            self.position = max(self.position, place.offset)
            return None
        path = self.files.segments[place.segment].path
        self._place = place
        if isinstance(found, Damage):
            last = max(found.next_offset - 1, self.position)
            cause = f"{found.cause} at byte {found.position} of {path}"
            self.damage = DamagedFile(self._part, (self.position, last), self.position, cause)
            return None
        aborted: list[tuple[int, int]] = []
        if self._transactions is not None:
            aborted, rows = self._transactions.aborted_in(found, place._replace(position=found.position))
            if rows < found.rows:
                found = found.first(rows)
                self._place = Place(place.segment, found.end, found.next_offset)
        return _Chunk(self._fetch(found, aborted), found, path)

    def _fetch(self, run: Run, aborted: Iterable[tuple[int, int]]) -> CompletedFetch:
        data = FetchedPartition(self._part.topic, ZERO_UUID, self._part.partition)
        data.high_watermark = self.files.log_end_offset
        data.records = run.data
        data.aborted_transactions = tuple(AbortedTransaction(*transaction) for transaction in aborted)
        return CompletedFetch(self._part, data, self.position, self._options)

    def _located(self, error: CorruptBatch, chunk: _Chunk) -> DamagedFile:
        """Return the error of a batch that cannot be decoded, with the file and the position of the batch."""
        position = chunk.run.position
        for header in chunk.run.headers():
            if header[BASE_OFFSET] + header[LAST_DELTA] >= error.first_offset:
                position += header[POSITION]
                break
        cause = f"{error.cause} at byte {position} of {chunk.path}"
        return DamagedFile(self._part, (error.first_offset, error.last_offset), error.position, cause)

    def close(self) -> None:
        if self._transactions is not None:
            self._transactions.close()
