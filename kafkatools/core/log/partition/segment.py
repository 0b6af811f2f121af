"""One segment of a partition's log: the `.log` file and its three indexes (Kafka's LogSegment).

An offset index entry is checked against the batch that it points to before it is used. A wrong entry costs a scan from
the start of the segment, but gives no wrong record. The position of the last batch is kept in memory, so that reads at
the end of the log need no index.
"""

import os
import random
from collections.abc import Iterable
from contextlib import suppress
from typing import NamedTuple

from kafkatools.core.errors import CorruptRecord, InvalidRecord, LogOffsetOverflow, RecordTooLarge
from kafkatools.core.log.files import Buffer, FileSystem
from kafkatools.core.log.format.batch_headers import walk_batches, walk_headers
from kafkatools.core.log.format.filenames import (
    INDEX_SUFFIX,
    LOG_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    offset_name,
)
from kafkatools.core.log.format.leader_epochs import LeaderEpochCache
from kafkatools.core.log.format.offset_index import OffsetIndex, OffsetPosition
from kafkatools.core.log.format.sparse_index import MAX_RELATIVE_OFFSET
from kafkatools.core.log.format.time_index import NO_TIMESTAMP, TimeIndex, TimestampOffset
from kafkatools.core.log.format.transaction_index import TransactionIndex
from kafkatools.core.log.partition.log_config import LEAST_DECOMPRESSED_BYTES, LogConfig
from kafkatools.core.log.producers.state import ProducerStateManager
from kafkatools.core.log.producers.updates import replay_batch
from kafkatools.core.records.header import BatchHeader, ensure_valid

NO_TAIL = 2**63


class Position(NamedTuple):
    """The header of a batch and its byte position in the segment."""

    position: int
    header: BatchHeader


class TimestampAndOffset(NamedTuple):
    """The result of a timestamp search: a record's timestamp (ms), offset and leader epoch (None if unknown)."""

    timestamp: int
    offset: int
    leader_epoch: int | None


class LogSegment:
    """A segment: the records from `base_offset` up to the next segment, in a `.log` file with three indexes."""

    def __init__(
        self, files: FileSystem, directory: str, base_offset: int, config: LogConfig, now_ms: int, *, suffix: str = ""
    ) -> None:
        """Open an existing segment (`create` makes a new one). Raises FileNotFoundError without a `.log` file."""
        self._files = files
        self._suffix = suffix
        self.base_offset = base_offset
        self.index_interval_bytes = config.index_interval_bytes
        jitter_ms = min(config.segment_jitter_ms, config.segment_ms)
        self.roll_jitter_ms = random.randrange(jitter_ms) if jitter_ms > 0 else 0
        self.created_ms = now_ms
        stem = os.path.join(directory, offset_name(base_offset))
        self._stem = stem
        self.log = files.open(stem + LOG_SUFFIX + suffix)
        self.offset_index = OffsetIndex(files, stem + INDEX_SUFFIX + suffix, base_offset, config.segment_index_bytes)
        self.time_index = TimeIndex(files, stem + TIME_INDEX_SUFFIX + suffix, base_offset, config.segment_index_bytes)
        self.txn_index = TransactionIndex(files, stem + TXN_INDEX_SUFFIX + suffix, base_offset)
        self._max_timestamp: TimestampOffset | None = None
        self._first_batch_timestamp: int | None = None
        self._bytes_since_last_index_entry = 0
        self._are_indexes_full: bool | None = None
        self._tail_offset = NO_TAIL
        self._tail_position = 0

    @classmethod
    def create(
        cls, files: FileSystem, directory: str, base_offset: int, config: LogConfig, now_ms: int, *, suffix: str = ""
    ) -> "LogSegment":
        """Create the files of a segment, or open existing ones. With `preallocate` an empty `.log` file is extended to
        segment.bytes. Raises OSError after removing a new `.log` file: if the segment before grew past its offset, the
        next start would take it for a hole."""
        path = os.path.join(directory, offset_name(base_offset)) + LOG_SUFFIX + suffix
        is_new = not files.exists(path)
        try:
            files.open(path, create=True)
            segment = cls(files, directory, base_offset, config, now_ms, suffix=suffix)
            if config.preallocate and segment.log.size_bytes == 0:
                segment.log.preallocate(config.segment_bytes)
            segment.offset_index.create()
            segment.time_index.create()
        except OSError:
            if is_new:
                files.remove(path)
            raise
        return segment

    @property
    def size_bytes(self) -> int:
        """The size of the `.log` file in bytes."""
        return self.log.size_bytes

    @property
    def paths(self) -> list[str]:
        """The paths of the `.log` file and the three indexes, whether they exist or not."""
        return [self.log.path, self.offset_index.path, self.time_index.path, self.txn_index.path]

    # timestamps

    @property
    def max_timestamp_so_far(self) -> TimestampOffset:
        """The newest timestamp (ms) and the last offset of its batch, (-1, base offset) without timestamps. For a
        segment of an earlier run they come from the time index."""
        if self._max_timestamp is None:
            self._max_timestamp = self.time_index.last_entry
        return self._max_timestamp

    @property
    def largest_timestamp(self) -> int:
        """The newest record timestamp in ms, or the file's modification time if no record has a timestamp."""
        newest = self.max_timestamp_so_far.timestamp
        return newest if newest >= 0 else self._files.modified_ms(self.log.path)

    @property
    def first_batch_timestamp(self) -> int:
        """The max timestamp of the first batch in ms, -1 in an empty segment (LogSegment.getFirstBatchTimestamp)."""
        first = self._first_timestamp()
        return NO_TIMESTAMP if first is None else first

    def _first_timestamp(self) -> int | None:
        if self._first_batch_timestamp is None and self.log.size_bytes:
            first = next(walk_headers(self.log), None)
            if first is not None:
                self._first_batch_timestamp = first[1].max_timestamp
        return self._first_batch_timestamp

    def time_waited_for_roll(self, now_ms: int, max_timestamp: int) -> int:
        """Return the segment's age in ms, for segment.ms: from its first batch's timestamp to `max_timestamp`, that of
        the next batch. Without a first timestamp the age is the time since the segment was created or opened."""
        first = self._first_timestamp()
        return max_timestamp - first if first is not None and first >= 0 else now_ms - self.created_ms

    # appends

    def should_roll(self, config: LogConfig, size: int, last_offset: int, max_timestamp: int, now_ms: int) -> bool:
        """Return whether an append of `size` bytes needs a new segment: by size, age, a full index, or an offset too
        far from the base offset. An empty segment does not roll by age."""
        current = self.log.size_bytes
        if current > config.segment_bytes - size or last_offset - self.base_offset > MAX_RELATIVE_OFFSET:
            return True
        is_full = self._are_indexes_full
        if is_full is None:
            is_full = self._are_indexes_full = self.offset_index.is_full or self.time_index.is_full
        if is_full or current == 0:
            return is_full
        first = self._first_batch_timestamp
        if first is None or first < 0:
            return self.time_waited_for_roll(now_ms, max_timestamp) > config.max_segment_ms - self.roll_jitter_ms
        return max_timestamp - first > config.max_segment_ms - self.roll_jitter_ms

    def append(self, data: Buffer, last_offset: int, max_timestamp: int, base_offset: int) -> None:
        """Append and index one batch with assigned offsets. Raises LogOffsetOverflow, OSError."""
        if last_offset - self.base_offset > MAX_RELATIVE_OFFSET:
            raise LogOffsetOverflow(
                f"Detected offset overflow at offset {last_offset} in segment {self.log.path}: more than 2^31 - 1 "
                f"above its base offset"
            )
        position = self.log.append(data)
        if position == 0:
            self._first_batch_timestamp = max_timestamp
        self._tail_offset = base_offset
        self._tail_position = position
        self._note_batch(position, len(data), last_offset, max_timestamp)

    def append_batches(self, data: Buffer, headers: Iterable[BatchHeader]) -> None:
        """Append and index several batches with assigned offsets, in one write. Raises LogOffsetOverflow, OSError."""
        headers = list(headers)
        if headers[-1].last_offset - self.base_offset > MAX_RELATIVE_OFFSET:
            raise LogOffsetOverflow(f"Detected offset overflow at {headers[-1].last_offset} in {self.log.path}")
        position = self.log.append(data)
        if position == 0:
            self._first_batch_timestamp = headers[0].max_timestamp
        for header in headers:
            self._tail_offset = header.base_offset
            self._tail_position = position
            self._note_batch(position, header.size_bytes, header.last_offset, header.max_timestamp)
            position += header.size_bytes

    def _note_batch(self, position: int, size: int, last_offset: int, max_timestamp: int) -> None:
        newest = self._max_timestamp
        if newest is None:
            newest = self.max_timestamp_so_far
        if max_timestamp > newest.timestamp:
            self._max_timestamp = newest = TimestampOffset(max_timestamp, last_offset)
        if self._bytes_since_last_index_entry > self.index_interval_bytes:
            self._index(last_offset, position, newest)
            self._bytes_since_last_index_entry = 0
        self._bytes_since_last_index_entry += size

    def _index(self, last_offset: int, position: int, newest: TimestampOffset) -> None:
        """Add index entries for a batch, or none in full indexes: several batches of one append, or of a recovery with
        a smaller segment.index.bytes, may need more entries than there is room for. The next append then rolls."""
        if not (self.offset_index.is_full or self.time_index.is_full):
            self.offset_index.append(last_offset, position)
            self.time_index.maybe_append(newest.timestamp, newest.offset)
        self._are_indexes_full = None

    # reads

    def translate_offset(self, offset: int, start_position: int = 0) -> Position | None:
        """Return the first batch whose last offset is at or above `offset`, None when the segment ends before it. The
        search skips the batches before `start_position`. Raises CorruptRecord, OSError."""
        if offset >= self._tail_offset:
            position = self._tail_position
        else:
            position = max(self._indexed_position(offset), start_position)
        for batch_position, header in walk_headers(self.log, position):
            if header.base_offset + header.last_offset_delta >= offset:
                return Position(batch_position, header)
        return None

    def first_newest_batch(self) -> BatchHeader | None:
        """Return the header of the first batch with the newest timestamp, None in a segment without timestamps. The
        search begins at the index entry for that batch; the whole segment is searched only if the index is wrong.
        Raises CorruptRecord, OSError."""
        newest = self.max_timestamp_so_far
        if newest.timestamp < 0:
            return None
        for position in dict.fromkeys((self._indexed_position(newest.offset), 0)):
            for _, header in walk_headers(self.log, position):
                if header.max_timestamp == newest.timestamp:
                    return header
        return None

    def fetch_upper_bound_offset(self, position: int) -> int | None:
        """Return an offset above all records before a file position, by the offset index. None when the index has no
        entry there, or a wrong one."""
        entry = self.offset_index.fetch_upper_bound(position)
        return entry.offset if entry is not None and self._is_believed(entry) else None

    def _indexed_position(self, offset: int) -> int:
        """Return the file position where a search for an offset may start, by the offset index; 0 without an entry or
        for a wrong one."""
        entry = self.offset_index.lookup(offset)
        return entry.position if entry.position and self._is_believed(entry) else 0

    def _is_believed(self, entry: OffsetPosition) -> bool:
        """Return whether an index entry points to the batch whose last offset it has."""
        try:
            batch = next(walk_headers(self.log, entry.position, min(self.log.size_bytes, entry.position + 2**31)), None)
        except CorruptRecord:
            return False
        return batch is not None and batch[1].last_offset == entry.offset

    def read_next_offset(self) -> int:
        """Return the offset after the last whole batch, the base offset in an empty segment. Walks from the last index
        entry. Raises CorruptRecord at damage."""
        position = self._indexed_position(self.offset_index.last_offset)
        next_offset = self.base_offset
        for _, header in walk_headers(self.log, position):
            next_offset = header.last_offset + 1
        return next_offset

    def ends_whole(self) -> bool:
        """Return whether the file ends with a whole batch (or is empty) and the last offset index entry is right.
        Raises CorruptRecord."""
        entry = self.offset_index.lookup(self.offset_index.last_offset)
        position = self._indexed_position(self.offset_index.last_offset)
        if position != entry.position:
            return False
        for batch_position, header in walk_headers(self.log, position):
            position = batch_position + header.size_bytes
        return position == self.log.size_bytes

    def find_offset_by_timestamp(
        self, timestamp: int, starting_offset: int, max_decompressed_bytes: int = LEAST_DECOMPRESSED_BYTES
    ) -> TimestampAndOffset | None:
        """Return the first record at or after a timestamp (ms) and at or above `starting_offset`, None when there is
        none. Raises InvalidRecord for a batch that decompresses to more than `max_decompressed_bytes`, CorruptRecord,
        OSError."""
        from kafkatools.core.records.batch import batch_at

        entry = self.time_index.lookup(timestamp)
        position = self._indexed_position(max(entry.offset, starting_offset))
        for batch_position, header in walk_headers(self.log, position):
            if header.max_timestamp < timestamp or header.last_offset < starting_offset:
                continue
            batch = batch_at(self.log.read_at(batch_position, header.size_bytes), 0)
            try:
                columns = batch.columns(max_decompressed_bytes)
            except RecordTooLarge as error:
                raise InvalidRecord(f"The batch at offset {header.base_offset} of {self.log.path}: {error}") from error
            for number in range(columns.count):
                if columns.timestamps[number] >= timestamp and columns.offsets[number] >= starting_offset:
                    epoch = header.partition_leader_epoch
                    record_timestamp, offset = columns.timestamps[number], columns.offsets[number]
                    return TimestampAndOffset(record_timestamp, offset, epoch if epoch >= 0 else None)
        return None

    # recovery and truncation

    def recover(
        self, producer_state: ProducerStateManager, epochs: LeaderEpochCache, *, may_have_holes: bool = True
    ) -> int:
        """Rebuild the indexes from the `.log` file, and truncate it after its last valid batch. Leader epochs and
        producer state are updated with each valid batch. Return the number of bytes cut off.

        A batch is valid if its size is possible, its checksum is right, and its offsets, which the checksum does not
        cover, follow those before it. Only a compacted log may have holes. Kafka accepts any rising offset, and drops a
        whole segment for an offset that goes back; here the batches before it are kept. Raises LogOffsetOverflow for a
        valid batch whose offset does not fit the indexes, OSError.
        """
        self.offset_index.reset()
        self.time_index.reset()
        self.txn_index.reset()
        self._max_timestamp = TimestampOffset(NO_TIMESTAMP, self.base_offset)
        self._tail_offset = NO_TAIL
        valid_bytes = 0
        last_index_entry = 0
        next_offset = self.base_offset
        try:
            for position, header, batch in walk_batches(self.log):
                is_next = may_have_holes or header.base_offset == next_offset
                self._ensure_recoverable(header, batch, next_offset, is_next=is_next or header.magic < 2)
                if header.max_timestamp > self._max_timestamp.timestamp:
                    self._max_timestamp = TimestampOffset(header.max_timestamp, header.last_offset)
                if position - last_index_entry > self.index_interval_bytes:
                    self._index(header.last_offset, position, self._max_timestamp)
                    last_index_entry = position
                if header.magic >= 2:
                    epochs.note_batch(header.partition_leader_epoch, header.base_offset)
                    replay_batch(producer_state, header, batch, self.txn_index)
                valid_bytes = position + header.size_bytes
                next_offset = header.last_offset + 1
        except CorruptRecord:
            pass
        return self._finish_recovery(valid_bytes)

    def _ensure_recoverable(self, header: BatchHeader, batch: memoryview, next_offset: int, *, is_next: bool) -> None:
        ensure_valid(batch, header)
        if header.magic not in (0, 1, 2):
            raise CorruptRecord(f"Invalid magic {header.magic}")
        is_back = header.magic == 2 and (header.base_offset < next_offset or header.last_offset_delta < 0)
        if is_back or not is_next:
            raise CorruptRecord(f"Offset {header.base_offset} does not follow offset {next_offset - 1}")
        if header.last_offset < next_offset:
            raise CorruptRecord(f"Offset {header.last_offset} does not follow offset {next_offset - 1}")
        if header.last_offset - self.base_offset > MAX_RELATIVE_OFFSET:
            raise LogOffsetOverflow(f"Detected offset overflow at offset {header.last_offset} in {self.log.path}")

    def _finish_recovery(self, valid_bytes: int) -> int:
        truncated = self.log.size_bytes - valid_bytes
        if truncated:
            self.log.truncate(valid_bytes)
        newest = self.max_timestamp_so_far
        self.offset_index.trim_to_valid_size()
        self.time_index.maybe_append(newest.timestamp, newest.offset, skip_full_check=True)
        self.time_index.trim_to_valid_size()
        self._first_batch_timestamp = None
        self._are_indexes_full = None
        return truncated

    def truncate_to(self, offset: int, now_ms: int) -> int:
        """Remove all batches with a record at or above an offset, and their index entries. Return the number of bytes
        cut off the `.log` file. Raises CorruptRecord, OSError."""
        self._tail_offset = NO_TAIL
        batch = self.translate_offset(offset)
        self.offset_index.truncate_to(offset)
        self.time_index.truncate_to(offset)
        self.txn_index.truncate_to(offset)
        truncated = 0
        if batch is not None:
            truncated = self.log.size_bytes - batch.position
            self.log.truncate(batch.position)
        if self.log.size_bytes == 0:
            self.created_ms = now_ms
            self._first_batch_timestamp = None
        self._bytes_since_last_index_entry = 0
        self._are_indexes_full = None
        if self.max_timestamp_so_far.timestamp >= 0:
            self._max_timestamp = self._read_largest_timestamp()
        return truncated

    def _read_largest_timestamp(self) -> TimestampOffset:
        newest = self.time_index.last_entry
        position = self._indexed_position(newest.offset)
        for _, header in walk_headers(self.log, position):
            if header.max_timestamp > newest.timestamp:
                newest = TimestampOffset(header.max_timestamp, header.last_offset)
        return newest

    # flush, close, rename

    def become_inactive(self) -> None:
        """Close the segment for appends: add the newest timestamp to the time index, write pending index entries, and
        trim preallocated space. The files stay open. Raises OSError."""
        newest = self.max_timestamp_so_far
        self.time_index.maybe_append(newest.timestamp, newest.offset, skip_full_check=True)
        self.offset_index.trim_to_valid_size()
        self.time_index.trim_to_valid_size()
        self.log.trim()

    def flush(self, *, with_indexes: bool = True) -> None:
        """Make the segment durable. Without `with_indexes` the indexes are written if there is room, but not synced:
        recovery rebuilds those of an active segment anyway. Raises OSError."""
        self.log.flush()
        if with_indexes:
            self.offset_index.flush()
            self.time_index.flush()
            self.txn_index.flush()
            return
        for index in (self.offset_index, self.time_index):
            with suppress(OSError):
                index.write_pending()

    def close(self) -> None:
        """Add the newest timestamp to the time index, write pending index entries, trim preallocated space, and close
        the files. No fsync. Raises OSError."""
        if self._max_timestamp is not None:
            newest = self._max_timestamp
            self.time_index.maybe_append(newest.timestamp, newest.offset, skip_full_check=True)
        self.offset_index.close()
        self.time_index.close()
        self.txn_index.close()
        self.log.trim()
        self.log.close()

    def release(self) -> None:
        """Close the files without writing."""
        self.offset_index.release()
        self.time_index.release()
        self.txn_index.close()
        self.log.close()

    def change_suffix(self, suffix: str) -> None:
        """Rename the `.log` file and those indexes that exist to another suffix: `.swap`, `.deleted` or none. Raises
        OSError."""
        self._files.rename(self.log.path, self._stem + LOG_SUFFIX + suffix)
        self.log.path = self._stem + LOG_SUFFIX + suffix
        self.offset_index.rename(self._stem + INDEX_SUFFIX + suffix)
        self.time_index.rename(self._stem + TIME_INDEX_SUFFIX + suffix)
        self.txn_index.rename(self._stem + TXN_INDEX_SUFFIX + suffix)
        self._suffix = suffix

    def move_to(self, directory: str) -> None:
        """Use new paths, after the partition's directory was renamed."""
        self._stem = os.path.join(directory, offset_name(self.base_offset))
        self.log.path = self._stem + LOG_SUFFIX + self._suffix
        self.offset_index.follow(self._stem + INDEX_SUFFIX + self._suffix)
        self.time_index.follow(self._stem + TIME_INDEX_SUFFIX + self._suffix)
        self.txn_index.follow(self._stem + TXN_INDEX_SUFFIX + self._suffix)

    def delete_files(self) -> None:
        """Close the segment's files, and remove those that exist. Raises OSError."""
        self.release()
        for path in self.paths:
            self._files.remove(path)
