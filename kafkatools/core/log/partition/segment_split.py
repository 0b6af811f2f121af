"""Split a segment whose offsets do not fit the indexes' 4-byte relative offsets (KAFKA-6264,
LogSegment.splitOverflowedSegment, LogSegments.replaceSegments).

Old cleaners could merge segments of a compacted log into such a segment. The parts are written as `.cleaned`, renamed
to `.swap` from the last to the first, and then replace the old segment. A crash in between leaves the old segment, or
swaps that the next start completes. The parts of `split_overflowed` have no indexes until they are loaded.
"""

from kafkatools.core.errors import CorruptRecord
from kafkatools.core.log.files import FileSystem
from kafkatools.core.log.format.batch_headers import walk_batches
from kafkatools.core.log.format.filenames import CLEANED_SUFFIX, DELETED_SUFFIX, SWAP_SUFFIX
from kafkatools.core.log.format.sparse_index import MAX_RELATIVE_OFFSET
from kafkatools.core.log.partition.log_config import LogConfig
from kafkatools.core.log.partition.segment import LogSegment
from kafkatools.core.records.header import ensure_valid


def split_overflowed(
    files: FileSystem, directory: str, segment: LogSegment, config: LogConfig, now_ms: int
) -> list[int]:
    """Replace a segment by parts whose offsets fit their indexes. Return the parts' base offsets. Damage stays at the
    end of the last part, for recovery to find. Raises OSError."""
    modified_ms = files.modified_ms(segment.log.path)
    parts = copy_parts(files, directory, segment, config, now_ms)
    for part in parts:
        part.log.trim()
        part.log.flush()
        files.set_modified_ms(part.log.path, modified_ms)
        part.release()
        for path in part.paths[1:]:
            files.remove(path)
    files.fsync_directory(directory)
    for part in reversed(parts):
        part.change_suffix(SWAP_SUFFIX)
    files.fsync_directory(directory)
    segment.release()
    segment.change_suffix(DELETED_SUFFIX)
    for part in parts:
        part.change_suffix("")
    files.fsync_directory(directory)
    segment.delete_files()
    return [part.base_offset for part in parts]


def copy_parts(
    files: FileSystem, directory: str, segment: LogSegment, config: LogConfig, now_ms: int
) -> list[LogSegment]:
    """Copy a segment into `.cleaned` segments whose offsets fit their indexes, and return these. Damage, and what
    follows it, is copied to the last one. Nothing is fsynced or indexed. Raises OSError."""
    parts: list[LogSegment] = []
    base_offset, copied = segment.base_offset, 0
    last_offset = -1
    try:
        for position, header, batch in walk_batches(segment.log):
            ensure_valid(batch, header)
            if header.last_offset <= last_offset:
                break
            last_offset = header.last_offset
            if last_offset - base_offset > MAX_RELATIVE_OFFSET:
                base_offset = header.base_offset
            if not parts or parts[-1].base_offset != base_offset:
                parts.append(LogSegment.create(files, directory, base_offset, config, now_ms, suffix=CLEANED_SUFFIX))
                parts[-1].log.truncate(0)
            parts[-1].log.append(batch)
            copied = position + header.size_bytes
    except CorruptRecord:
        pass
    if copied < segment.log.size_bytes:
        parts[-1].log.append(segment.log.read_at(copied, segment.log.size_bytes - copied))
    return parts
