"""Compact one log: keep the newest record of each key and drop the records it replaced (Kafka's Cleaner).

The first pass reads the dirty part of the log and stores the newest offset of each key in a map of bounded memory. When
the map is full, the rest waits for the next round. The second pass reads every segment up to that offset and copies the
surviving records into `.cleaned` segments. Neighbouring segments are merged as far as segment.bytes allows. Each
cleaned segment is made durable and handed to the `swap` callback, which puts it in the place of the old ones.

The cleaner has no access to the log object. It follows a plan (`LogToClean`) through its own `FileSystem`, so it can
run on another thread. The `turn` callback runs between batches with the bytes read since the last call. It may sleep
(throttle), and it ends the round by raising CleaningAborted or any other exception.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import NamedTuple

from kafkatools.core.errors import CorruptRecord, LogOffsetOverflow
from kafkatools.core.log.cleaner.batch_filter import BatchFilter, plain_records
from kafkatools.core.log.cleaner.cleaned_transactions import CleanedTransactions
from kafkatools.core.log.cleaner.log_to_clean import CleaningAborted, LogToClean, SegmentOverflowed, SegmentToClean
from kafkatools.core.log.cleaner.offset_map import DEFAULT_LOAD_FACTOR, OffsetMap
from kafkatools.core.log.files import Buffer, FileSystem
from kafkatools.core.log.format.batch_headers import walk_batches
from kafkatools.core.log.format.filenames import CLEANED_SUFFIX, INDEX_SUFFIXES, LOG_SUFFIX, offset_name
from kafkatools.core.log.format.sparse_index import MAX_RELATIVE_OFFSET
from kafkatools.core.log.partition.segment import LogSegment
from kafkatools.core.records.batch import batch_at
from kafkatools.core.records.header import BatchHeader, ensure_valid, read_header

WRITE_BYTES = 512 * 1024
DEFAULT_DEDUPE_BUFFER_BYTES = 128 * 1024 * 1024


class CleanedSegment(NamedTuple):
    """A compacted segment on disk, with suffix `.cleaned`, and the base offsets of the segments it replaces."""

    base_offset: int
    replaced: Sequence[int]


class CleanerStats(NamedTuple):
    """The result of one cleaning round: the log is clean below `end_offset`."""

    end_offset: int


Swap = Callable[[LogToClean, CleanedSegment], None]
Turn = Callable[[LogToClean, int], None]


def never_wait(plan: LogToClean, size_bytes: int) -> None:
    """The default `turn` callback, without a throttle: raise CleaningAborted if the plan was aborted."""
    if plan.is_aborted:
        raise CleaningAborted


@dataclass(eq=False, repr=False)
class Cleaner:
    """A log compactor with a bounded buffer for keys (log.cleaner.dedupe.buffer.size, bytes)."""

    files: FileSystem
    _: KW_ONLY
    dedupe_buffer_bytes: int = DEFAULT_DEDUPE_BUFFER_BYTES
    load_factor: float = DEFAULT_LOAD_FACTOR
    turn: Turn = never_wait

    def clean(self, plan: LogToClean, now_ms: int, swap: Swap) -> CleanerStats:
        """Run one cleaning round over one log. Return the end of the clean part.

        Raises CorruptRecord for a damaged batch, RecordTooLarge for a batch above max.decompressed.message.bytes,
        SegmentOverflowed for a segment that must be split first. Raises CleaningAborted, OSError, what `swap` and
        `turn` raise, and ValueError for too small a buffer. After an error in the cleaner's own work no `.cleaned` file
        remains, and the segments swapped in before are valid.
        """
        offset_map = OffsetMap(self.dedupe_buffer_bytes, self.load_factor)
        self.build_offset_map(plan, offset_map)
        end_offset = offset_map.latest_offset + 1
        upper_bound = plan.measure.first_uncleanable_offset
        transactions = CleanedTransactions(plan.aborted_transactions)
        batch_filter = BatchFilter(
            offset_map,
            transactions,
            plan.last_records,
            now_ms=now_ms,
            delete_retention_ms=plan.config.delete_retention_ms,
            upper_bound_offset=upper_bound,
            max_decompressed_bytes=plan.config.max_decompressed_bytes,
        )
        mapped_segments = [segment for segment in plan.segments if segment.base_offset < end_offset]
        for group in group_by_size(mapped_segments, plan.config.segment_bytes, plan.config.segment_index_bytes):
            swap(plan, self._clean_group(plan, group, batch_filter, transactions))
            self.files.fsync_directory(plan.directory)
        return CleanerStats(end_offset)

    # first pass: the offset map

    def build_offset_map(self, plan: LogToClean, offset_map: OffsetMap) -> None:
        """Store the newest offset of each key from the first dirty offset on; records of aborted transactions do not
        count. Stops when the map is full. Raises CorruptRecord, RecordTooLarge, CleaningAborted, OSError."""
        start = plan.measure.first_dirty_offset
        offset_map.begin_at(start)
        overlapping = [entry for entry in plan.aborted_transactions if entry.last_offset >= start]
        transactions = CleanedTransactions(overlapping)
        for segment in plan.segments:
            if segment.end_offset > start:
                self.turn(plan, 0)
                if not self._map_segment(plan, segment, offset_map, transactions):
                    return
                offset_map.update_latest_offset(segment.end_offset - 1)

    def _map_segment(
        self, plan: LogToClean, segment: SegmentToClean, offset_map: OffsetMap, transactions: CleanedTransactions
    ) -> bool:
        """Put one segment's keys into the offset map. Return False when the map is full."""
        start = plan.measure.first_dirty_offset
        position = plan.dirty_position if segment.base_offset <= start else 0
        for header, batch in self._batches(plan, segment, position):
            ensure_valid(batch, header)
            if header.is_control and header.magic >= 2:
                transactions.on_control_batch(header, batch)
            elif transactions.on_batch(header):
                pass
            elif header.last_offset >= start:
                limit = plan.config.max_decompressed_bytes
                if not _map_batch(header, batch, offset_map, start, limit):
                    return False
            if header.last_offset >= start:
                offset_map.update_latest_offset(header.last_offset)
        return True

    def _batches(
        self, plan: LogToClean, segment: SegmentToClean, position: int = 0
    ) -> Iterator[tuple[BatchHeader, memoryview]]:
        file = self.files.open(segment.path)
        try:
            if file.size_bytes < segment.size_bytes:
                raise CleaningAborted  # the segment was truncated meanwhile
            end, next_offset = position, segment.base_offset
            for batch_position, header, batch in walk_batches(file, position, segment.size_bytes):
                if not next_offset <= header.base_offset <= header.last_offset < segment.end_offset:
                    raise CorruptRecord(f"{segment.path} has the impossible offset {header.base_offset}")
                end, next_offset = batch_position + header.size_bytes, header.last_offset + 1
                yield header, batch
                self.turn(plan, header.size_bytes)
            if end != segment.size_bytes:
                raise CorruptRecord(f"{segment.path} ends with a partial batch at position {end}")
        finally:
            file.close()

    # second pass: the cleaned segments

    def _clean_group(
        self,
        plan: LogToClean,
        group: Sequence[SegmentToClean],
        batch_filter: BatchFilter,
        transactions: CleanedTransactions,
    ) -> CleanedSegment:
        base_offset = group[0].base_offset
        remove_cleaned(self.files, plan.directory, base_offset)
        cleaned = LogSegment.create(
            self.files, plan.directory, base_offset, plan.config, group[0].modified_ms, suffix=CLEANED_SUFFIX
        )
        transactions.cleaned_index = cleaned.txn_index
        try:
            for segment in group:
                batch_filter.retains_legacy_tombstones = segment.modified_ms > self._legacy_horizon_ms(plan)
                try:
                    self._copy(plan, segment, batch_filter, cleaned)
                except LogOffsetOverflow as error:
                    raise SegmentOverflowed(segment.base_offset) from error
            cleaned.become_inactive()
            cleaned.flush()
            self.files.set_modified_ms(cleaned.log.path, group[-1].modified_ms)
            cleaned.release()
        except Exception:
            cleaned.delete_files()
            raise
        return CleanedSegment(base_offset, [segment.base_offset for segment in group])

    @staticmethod
    def _legacy_horizon_ms(plan: LogToClean) -> int:
        """Return the segment modification time (ms since 1970) up to which tombstones of magic 0 and 1 are dropped. It
        is delete.retention.ms before the last change of the clean part, because these formats have no delete
        horizon."""
        clean = [segment for segment in plan.segments if segment.base_offset < plan.measure.first_dirty_offset]
        return clean[-1].modified_ms - plan.config.delete_retention_ms if clean else 0

    def _copy(self, plan: LogToClean, segment: SegmentToClean, batch_filter: BatchFilter, cleaned: LogSegment) -> None:
        """Append one segment's surviving batches to the cleaned segment, in writes of about 512 KiB."""
        batches: list[Buffer] = []
        headers: list[BatchHeader] = []
        size = 0
        for header, batch in self._batches(plan, segment):
            filtered_batch = batch_filter.apply(header, batch)
            if filtered_batch is None:
                continue
            headers.append(header if filtered_batch is batch else read_header(filtered_batch))
            batches.append(filtered_batch)
            size += len(filtered_batch)
            if size >= WRITE_BYTES:
                cleaned.append_batches(b"".join(batches), headers)
                batches, headers, size = [], [], 0
        if batches:
            cleaned.append_batches(b"".join(batches), headers)


def remove_cleaned(files: FileSystem, directory: str, base_offset: int) -> None:
    """Remove the `.cleaned` files of the segment at `base_offset`, which an interrupted cleaning round left."""
    stem = os.path.join(directory, offset_name(base_offset))
    for suffix in (LOG_SUFFIX, *INDEX_SUFFIXES):
        files.remove(stem + suffix + CLEANED_SUFFIX)


def _map_batch(
    header: BatchHeader, batch: memoryview, offset_map: OffsetMap, start: int, max_decompressed_bytes: int
) -> bool:
    """Put the keys of a batch's records from offset `start` on into the offset map. Return False when the map is full.
    Raises CorruptRecord at damage, RecordTooLarge."""
    if header.magic < 2:
        records = batch_at(batch, 0).columns(max_decompressed_bytes).records()
        return all(
            offset_map.put(record.key, record.offset)
            for record in records
            if record.key is not None and record.offset >= start
        )
    plain, position = plain_records(header, batch, max_decompressed_bytes)
    record_count = offset_map.put_records(plain, position, header.record_count, header.base_offset)
    if record_count == header.record_count:
        return True
    if offset_map.is_full:
        return False
    raise CorruptRecord(f"Record {record_count} of the batch at offset {header.base_offset} is damaged")


def group_by_size(
    segments: Sequence[SegmentToClean], max_bytes: int, max_index_bytes: int
) -> list[list[SegmentToClean]]:
    """Group neighbouring segments that fit one segment: `max_bytes` of records, `max_index_bytes` in each index, and
    offsets within 2^31 - 1 (Cleaner.groupSegmentsBySize). A segment that fits no group is one of its own."""
    groups: list[list[SegmentToClean]] = []
    for segment in segments:
        if groups and _fits(groups[-1], segment, max_bytes, max_index_bytes):
            groups[-1].append(segment)
        else:
            groups.append([segment])
    return groups


def _fits(group: Sequence[SegmentToClean], segment: SegmentToClean, max_bytes: int, max_index_bytes: int) -> bool:
    return (
        sum(other.size_bytes for other in group) + segment.size_bytes <= max_bytes
        and sum(other.offset_index_bytes for other in group) + segment.offset_index_bytes <= max_index_bytes
        and sum(other.time_index_bytes for other in group) + segment.time_index_bytes <= max_index_bytes
        and (segment.size_bytes == 0 or segment.end_offset - 1 - group[0].base_offset <= MAX_RELATIVE_OFFSET)
    )
