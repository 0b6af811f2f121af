"""Replace segments of a log with cleaned or split ones (LocalLog.replaceSegments).

The new segments are in the directory as `.cleaned` files, complete and durable. They are renamed to `.swap`, the last
one first. Then the old segments are renamed to `.deleted`, and the new ones to their final names. After a crash the
next start decides: a `.cleaned` file means that nothing was replaced yet, and a complete set of `.swap` files that the
old segments in its range can be removed. The caller makes the names durable (`fsync_directory`) before anything is
removed or forgotten.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kafkatools.core.log.cleaner.log_to_clean import CleaningAborted, LogToClean
from kafkatools.core.log.format.filenames import CLEANED_SUFFIX, DELETED_SUFFIX, SWAP_SUFFIX
from kafkatools.core.log.partition.segment import LogSegment
from kafkatools.core.log.partition.segment_split import copy_parts
from kafkatools.core.log.producers.state import ProducerStateManager

END_OF_TIME = 2**63 - 1

if TYPE_CHECKING:
    from kafkatools.core.log.cleaner.cleaner import CleanedSegment
    from kafkatools.core.log.partition.partition_log import PartitionLog


def swap_in(log: "PartitionLog", plan: LogToClean, cleaned: "CleanedSegment", now_ms: int) -> None:
    """Replace segments of a log with the one that the cleaner wrote. Raises CleaningAborted, with the `.cleaned` files
    removed, if the plan is void. Raises KafkaStorageError after a disk error, with the log offline."""
    if plan.is_aborted or log.cleaning is not plan or log.is_closed:
        from kafkatools.core.log.cleaner.cleaner import remove_cleaned

        remove_cleaned(log.files, plan.directory, cleaned.base_offset)
        raise CleaningAborted
    segment = LogSegment(log.files, plan.directory, cleaned.base_offset, log.config, now_ms, suffix=CLEANED_SUFFIX)
    replaced = [old for old in log.segments if old.base_offset in set(cleaned.replaced)]
    replace_segments(log, [segment], replaced, now_ms)


def replace_segments(log: "PartitionLog", new: Sequence[LogSegment], old: Sequence[LogSegment], now_ms: int) -> None:
    """Replace `old` segments with `new` ones, in the directory and in the log. The old files become `.deleted` and are
    removed after file.delete.delay.ms. After a disk error the log goes offline, and the next start finishes or undoes
    the replacement. Raises KafkaStorageError."""
    try:
        for segment in reversed(new):
            segment.change_suffix(SWAP_SUFFIX)
        log.files.fsync_directory(log.directory)
        for segment in old:
            log.segments.remove(segment.base_offset)
        for segment in new:
            log.segments.add(segment)
        new_base_offsets = {segment.base_offset for segment in new}
        for segment in old:
            segment.change_suffix(DELETED_SUFFIX)
            snapshot = None
            if segment.base_offset not in new_base_offsets:
                snapshot = log.producer_state.mark_snapshot_for_deletion(segment.base_offset)
            log.remove_later(segment, snapshot, now_ms)
        log.files.fsync_directory(log.directory)
        for segment in new:
            segment.change_suffix("")
    except OSError as error:
        raise log.go_offline(error) from error


def split_segment(log: "PartitionLog", base_offset: int, now_ms: int) -> None:
    """Replace a segment whose offsets do not fit its indexes by parts with indexes of their own, while readers continue
    (UnifiedLog.splitOverflowedSegment). Raises KafkaStorageError."""
    old = next(segment for segment in log.segments if segment.base_offset == base_offset)

    def split() -> list[LogSegment]:
        parts = copy_parts(log.files, log.directory, old, log.config, now_ms)
        modified_ms = log.files.modified_ms(old.log.path)
        ends = [part.base_offset for part in parts[1:]] + [END_OF_TIME]
        for part, end in zip(parts, ends, strict=True):
            part.recover(ProducerStateManager(log.files, log.directory, log.topic_partition, 0), log.epochs)
            part.txn_index.reset()
            for entry in old.txn_index.entries():
                if part.base_offset <= entry.last_offset < end:
                    part.txn_index.append(entry)
            part.become_inactive()
            part.flush()
            log.files.set_modified_ms(part.log.path, modified_ms)
        return parts

    replace_segments(log, log.storage("splitting a segment", split), [old], now_ms)
    log.storage("splitting a segment", lambda: log.files.fsync_directory(log.directory))
