"""Load a partition's log from its directory, after a clean shutdown or a crash (Kafka's LogLoader).

The steps: finish interrupted swaps and deletions, open the segments, recover from the recovery point on, rebuild the
producer state. Recovery runs only after a crash, or where the files contradict each other. Damaged data is cut off
together with everything after it. Segments that came back after their deletion are removed, and so is everything in a
log that ends below its checkpointed start.
"""

import os
from contextlib import suppress

from kafkatools.core.errors import CorruptIndex, CorruptRecord, KafkaStorageError, LogOffsetOverflow
from kafkatools.core.log.files import DirectoryEntry, is_disk_full
from kafkatools.core.log.format.batch_headers import walk_batches, walk_headers
from kafkatools.core.log.format.filenames import (
    CLEANED_SUFFIX,
    DELETED_SUFFIX,
    INDEX_SUFFIX,
    LOG_SUFFIX,
    SWAP_SUFFIX,
    TIME_INDEX_SUFFIX,
    TXN_INDEX_SUFFIX,
    is_index_name,
    is_log_name,
    offset_from_name,
    offset_name,
)
from kafkatools.core.log.partition.log_state import LogState
from kafkatools.core.log.partition.segment import LogSegment
from kafkatools.core.log.partition.segment_split import split_overflowed
from kafkatools.core.log.partition.segments import LogSegments
from kafkatools.core.log.producers.state import ProducerStateManager
from kafkatools.core.log.producers.updates import replay_batch

CHECKPOINT_DELETE_SUFFIX = ".checkpoint.deleted"
END_OF_TIME = 2**63 - 1


def load(log: LogState, log_start_offset: int, recovery_point: int, had_clean_shutdown: bool, now_ms: int) -> None:
    """Load a log's segments, epochs, topic id and producer state from its directory; an empty directory gives an empty
    log. Raises CorruptRecord when a batch below the recovery point is damaged and the producer state needs it,
    KafkaStorageError, OSError."""
    _Loader(log, log_start_offset, recovery_point, had_clean_shutdown, now_ms).load()


def begin(log: LogState, now_ms: int) -> None:
    """Create the directory of a new log with one empty segment at offset 0. Raises OSError."""
    log.files.make_directory(log.directory)
    log.segments.add(LogSegment.create(log.files, log.directory, 0, log.config, now_ms))
    log.last_flush_ms = now_ms


class _Overflow(Exception):
    """A segment whose offsets do not fit its indexes. Loading starts again after the segment has been split."""

    def __init__(self, segment: LogSegment) -> None:
        super().__init__(segment.log.path)
        self.segment = segment


class _Loader:
    def __init__(
        self, log: LogState, log_start_offset: int, recovery_point: int, had_clean_shutdown: bool, now_ms: int
    ) -> None:
        self._log = log
        self._files = log.files
        self._directory = log.directory
        self._segments = log.segments
        self._start_checkpoint = log_start_offset
        self._recovery_point = recovery_point
        self._had_clean_shutdown = had_clean_shutdown
        self._now_ms = now_ms
        self._first_epoch_start = END_OF_TIME

    def load(self) -> None:
        log = self._log
        self._files.make_directory(self._directory)
        self._finish_interrupted_work(self._list())
        has_epochs = self._load_epochs()
        log.load_topic_id()
        next_offset = self._load_and_recover()
        log.log_start_offset = max(self._start_checkpoint, self._segments.first.base_offset)
        if not has_epochs or self._lacks_epochs():
            self._rebuild_epochs()
        log.epochs.forget_from(next_offset)
        log.epochs.truncate_from_start(self._start_checkpoint)
        log.log_end_offset = next_offset
        log.recovery_point = next_offset if self._had_clean_shutdown else min(self._recovery_point, next_offset)
        log.high_watermark = log.log_start_offset
        log.last_flush_ms = self._now_ms
        log.producer_state.load_snapshots(self._list())
        log.producer_state.remove_stray_snapshots(self._segments.base_offsets)
        rebuild_producer_state(
            log.producer_state,
            self._segments,
            log.log_start_offset,
            next_offset,
            self._now_ms,
            had_clean_shutdown=self._had_clean_shutdown,
        )

    def _load_epochs(self) -> bool:
        """Load the leader epochs; a missing file gives none. Return False when a power loss has damaged the file, which
        is synced late."""
        try:
            self._log.epochs.load()
        except KafkaStorageError:
            return False
        if self._log.epochs.entries:
            self._first_epoch_start = self._log.epochs.entries[0].start_offset
        return True

    def _lacks_epochs(self) -> bool:
        """Return whether records at or above the log start offset lie before the first leader epoch, although their
        batches have an epoch. The epochs are truncated durably before the log start offset is checkpointed and the
        files of segments are removed. So a power loss may bring records back without their epochs."""
        start, entries = self._log.log_start_offset, self._log.epochs.entries
        first_epoch_start = entries[0].start_offset if entries else END_OF_TIME
        if first_epoch_start <= start:
            return False
        for segment in self._segments.range(start, END_OF_TIME):
            with suppress(CorruptRecord):
                for _, header in walk_headers(segment.log):
                    if header.last_offset >= start:
                        return header.partition_leader_epoch >= 0 and header.base_offset < first_epoch_start
        return False

    def _rebuild_epochs(self) -> None:
        """Rebuild the leader epochs from the batches. Batches after damage in a segment are skipped."""
        self._log.epochs.entries = []
        for segment in self._segments:
            with suppress(CorruptRecord):
                for _, header in walk_headers(segment.log):
                    self._log.epochs.note_batch(header.partition_leader_epoch, header.base_offset)

    def _list(self) -> list[DirectoryEntry]:
        return [entry for entry in self._files.list_directory(self._directory) if not entry.is_directory]

    def _path(self, name: str) -> str:
        return os.path.join(self._directory, name)

    # interrupted swaps and deletions

    def _load_and_recover(self) -> int:
        """Load and recover the segments, again after each split of an overflowed segment (retryOnOffsetOverflow).
        Return the log end offset."""
        while True:
            try:
                self._load_segments(self._list())
                return self._recover()
            except _Overflow as overflow:
                split_overflowed(self._files, self._directory, overflow.segment, self._log.config, self._now_ms)
                for segment in self._segments:
                    segment.release()
                self._segments.clear()

    def _finish_interrupted_work(self, entries: list[DirectoryEntry]) -> None:
        """Remove `.deleted` and `.cleaned` files, and `.swap` files at or above the lowest `.cleaned` one, which an
        unfinished split wrote. Complete the other `.swap` files."""
        names = [entry.name for entry in entries]
        cleaned = [name for name in names if name.endswith(CLEANED_SUFFIX)]
        obsolete_names = [
            name for name in names if name.endswith(DELETED_SUFFIX) and not name.endswith(CHECKPOINT_DELETE_SUFFIX)
        ]
        lowest_cleaned = min((_offset(name) for name in cleaned), default=END_OF_TIME)
        swaps = [name for name in names if name.endswith(SWAP_SUFFIX)]
        obsolete_names += cleaned + [name for name in swaps if _offset(name) >= lowest_cleaned]
        swaps = [name for name in swaps if _offset(name) < lowest_cleaned]
        for name in obsolete_names:
            self._files.remove(self._path(name))
        if swaps:
            self._complete_swaps(swaps)

    def _complete_swaps(self, swaps: list[str]) -> None:
        """Remove the segments that `.swap` segments replace, then rename the `.swap` files to their final names."""
        lowest, end = END_OF_TIME, -1
        for name in swaps:
            if is_log_name(name.removesuffix(SWAP_SUFFIX)):
                base_offset = _offset(name)
                segment = LogSegment(
                    self._files, self._directory, base_offset, self._log.config, self._now_ms, suffix=SWAP_SUFFIX
                )
                lowest = min(lowest, base_offset)
                end = max(end, base_offset + 1)
                with suppress(CorruptRecord):  # the last part of a split segment may end with damage
                    end = max(end, segment.read_next_offset())
                segment.release()
        for entry in self._list():
            offset = offset_from_name(entry.name)
            if offset is not None and lowest <= offset < end and not entry.name.endswith(SWAP_SUFFIX):
                self._files.remove(self._path(entry.name))
        for name in swaps:
            self._files.rename(self._path(name), self._path(name.removesuffix(SWAP_SUFFIX)))

    # segments

    def _load_segments(self, entries: list[DirectoryEntry]) -> None:
        names = {entry.name for entry in entries}
        for name in sorted(names):
            if is_index_name(name):
                if offset_name(_offset(name)) + LOG_SUFFIX not in names:
                    self._files.remove(self._path(name))
            elif is_log_name(name):
                self._load_segment(_offset(name), names)

    def _load_segment(self, base_offset: int, names: set[str]) -> None:
        stem = offset_name(base_offset)
        segment = LogSegment(self._files, self._directory, base_offset, self._log.config, self._now_ms)
        is_damaged = stem + INDEX_SUFFIX not in names
        if stem + TIME_INDEX_SUFFIX not in names:
            segment.time_index.create()
        if not is_damaged and stem + TXN_INDEX_SUFFIX in names:
            try:
                segment.txn_index.sanity_check()
            except CorruptIndex:
                is_damaged = True
        if is_damaged and (self._had_clean_shutdown or base_offset < self._recovery_point):
            # above the recovery point _recover does it, in offset order
            self._recover_segment(segment)
        self._segments.add(segment)

    def _recover_segment(self, segment: LogSegment) -> int:
        """Rebuild a segment's indexes and cut its damage off. Return the number of bytes cut off. The producer state is
        built from the log before the segment. If the disk has room, it is saved as a snapshot after it for the next
        segment."""
        log = self._log
        state = ProducerStateManager(
            self._files, self._directory, log.topic_partition, log.config.producer_id_expiration_ms
        )
        state.load_snapshots()
        rebuild_producer_state(
            state, self._segments, self._start_checkpoint, segment.base_offset, self._now_ms, had_clean_shutdown=False
        )
        try:
            truncated = segment.recover(state, log.epochs, may_have_holes=log.may_have_holes)
        except LogOffsetOverflow:
            raise _Overflow(segment) from None
        _take_snapshot(state)
        return truncated

    # recovery

    def _recover(self) -> int:
        """After a crash, recover the segments from the recovery point on. A log without segments, or one that ends
        below its checkpointed start, continues empty at that start. Return the log end offset."""
        if not self._had_clean_shutdown:
            self._recover_from(self._recovery_point)
        next_offset = self._next_offset()
        if next_offset is not None and next_offset < self._start_checkpoint:
            self._discard_everything()
            next_offset = None
        if next_offset is None:
            self._segments.add(
                LogSegment.create(self._files, self._directory, self._start_checkpoint, self._log.config, self._now_ms)
            )
            next_offset = self._start_checkpoint
        return next_offset

    def _recover_from(self, offset: int) -> None:
        """Recover the segments from an offset on, and end the log at the first damage or hole. A hole is the end of a
        segment that never reached the disk while the next segment did. Kafka does not look for holes; a compacted log
        may have them. Missing offsets after deleted segments are no hole: a power loss may bring back some of the
        deleted files, and not others."""
        unflushed = self._segments.range(offset, END_OF_TIME)
        for number, segment in enumerate(unflushed):
            truncated = self._recover_segment(segment)
            following = unflushed[number + 1 :]
            is_hole = (
                bool(following)
                and not self._log.may_have_holes
                and segment.read_next_offset() < following[0].base_offset
            )
            if is_hole and not truncated and self._has_start(following[0]):
                obsolete_segments = [
                    earlier for earlier in self._segments if earlier.base_offset <= segment.base_offset
                ]
                self._log.delete_segments(obsolete_segments, self._now_ms)
            elif truncated > 0 or is_hole:
                self._log.delete_segments(following, self._now_ms)
                return

    def _has_start(self, segment: LogSegment) -> bool:
        """Return whether the log starts in this segment or above it, so that the segments below were deleted: by the
        checkpointed log start, or by the first leader epoch. Retention truncates the epochs durably. On a full disk
        it syncs the directory instead, so that none of the deleted segments comes back."""
        base_offset = segment.base_offset
        return base_offset <= self._start_checkpoint or base_offset <= self._first_epoch_start < END_OF_TIME

    def _next_offset(self) -> int | None:
        """Return the log end offset, None without segments. After a clean shutdown, a last segment with a damaged end
        is recovered, and the shutdown counts as unclean from then on."""
        if not len(self._segments):
            return None
        active = self._segments.active
        if not self._had_clean_shutdown:
            return active.read_next_offset()
        try:
            if active.ends_whole():
                return active.read_next_offset()
        except CorruptRecord:
            pass
        self._had_clean_shutdown = False
        self._recover_segment(active)
        return active.read_next_offset()

    def _discard_everything(self) -> None:
        """Delete all segments of a log that ends below its checkpointed start, because files were removed."""
        self._log.delete_segments(self._segments, self._now_ms)
        self._log.epochs.clear()
        self._log.producer_state.load_snapshots()
        self._log.producer_state.truncate_fully_and_start_at(self._start_checkpoint)


def rebuild_producer_state(
    state: ProducerStateManager,
    segments: LogSegments,
    log_start_offset: int,
    last_offset: int,
    now_ms: int,
    *,
    had_clean_shutdown: bool,
) -> None:
    """Bring the producer state to `last_offset`: load the newest snapshot and replay the batches after it. Takes
    snapshots at the last two segments and at the end (UnifiedLog.rebuildProducerState).

    After a clean shutdown without any snapshot, nothing is replayed: the snapshots hold the state as it is. A snapshot
    for which the disk has no room is left out: it only saves time later. Raises CorruptRecord for a batch that cannot
    be read, OSError.
    """
    offsets_to_snapshot = [*segments.base_offsets[-2:], last_offset]
    if not state.snapshot_offsets and had_clean_shutdown:
        for offset in offsets_to_snapshot:
            state.map_end_offset = offset
            _take_snapshot(state)
        return
    was_empty = state.is_empty and state.map_end_offset >= last_offset
    state.truncate_and_reload(log_start_offset, last_offset, now_ms)
    if last_offset > state.map_end_offset and not was_empty:
        for segment in segments.range(state.map_end_offset, last_offset):
            start = max(segment.base_offset, state.map_end_offset, log_start_offset)
            state.map_end_offset = start
            if segment.base_offset in offsets_to_snapshot:
                _take_snapshot(state)
            _replay(state, segment, start, last_offset)
    state.map_end_offset = last_offset
    _take_snapshot(state)


def _take_snapshot(state: ProducerStateManager) -> None:
    try:
        state.take_snapshot()
    except OSError as error:
        if not is_disk_full(error):
            raise


def _replay(state: ProducerStateManager, segment: LogSegment, start: int, end: int) -> None:
    """Apply a segment's batches between offsets `start` and `end` to the producer state. Raises CorruptRecord for a
    batch that cannot be read. Apache Kafka refuses to start then too: skipping the damage could lose a producer's
    sequence or the end of a transaction."""
    position: int | None = None
    try:
        first_batch = segment.translate_offset(start)
        if first_batch is None:
            return
        position = first_batch.position
        for position, header, batch in walk_batches(segment.log, first_batch.position):
            if header.base_offset >= end:
                return
            if header.magic >= 2:
                replay_batch(state, header, batch, None)
            position += header.size_bytes  # noqa: PLW2901 - where the next batch begins, or cannot be read
    except CorruptRecord as error:
        raise _unreadable(segment, _end_of_sound_batches(segment) if position is None else position, error) from error


def _end_of_sound_batches(segment: LogSegment) -> int:
    """Return the position of the first batch whose size is impossible, or the end of the last batch."""
    position = 0
    with suppress(CorruptRecord):
        for batch_position, header in walk_headers(segment.log):
            position = batch_position + header.size_bytes
    return position


def _unreadable(segment: LogSegment, position: int, error: CorruptRecord) -> CorruptRecord:
    index = segment.offset_index.path
    return CorruptRecord(
        f"{segment.log.path} is damaged at position {position}: {error}. The state of its producers cannot be rebuilt. "
        f"To start without the rest of this segment, remove {index}: the next start then cuts the segment off there. "
        "Copy the segment first if its records matter; kt dump-log shows which can be read"
    )


def _offset(name: str) -> int:
    offset = offset_from_name(name)
    return -1 if offset is None else offset
