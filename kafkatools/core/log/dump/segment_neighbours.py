"""Compare the last batches of a segment with the next segment and with the offset index.

A broker may write while these files are read. They are opened after the segment, so they cover all of its batches.
"""

from __future__ import annotations

from kafkatools.core.log.dump import file_kinds
from kafkatools.core.log.dump.batch_headers import V2Header, next_batch
from kafkatools.core.log.dump.damage import Damage
from kafkatools.core.log.dump.index_files import OffsetIndexFile
from kafkatools.core.log.dump.segment_file import SegmentFile

_NO_EPOCH = -1
_HEAD_BYTES = 1 << 16


def later_epoch_problem(next_path: str | None, epoch: int) -> Damage | None:
    """Return the damage of a log whose leader epoch is lower in its next segment, else None."""
    if next_path is None or epoch == _NO_EPOCH:
        return None
    try:
        with SegmentFile(next_path, _HEAD_BYTES) as following:
            batch = next_batch(following, 0, following.size, next_path)
    except (Damage, OSError):
        return None
    if not isinstance(batch, V2Header) or not _NO_EPOCH < batch.partition_leader_epoch < epoch:
        return None
    return Damage(f"leader epoch {epoch} at the end, {batch.partition_leader_epoch} where {next_path} begins")


def wrongly_indexed_batch(log: SegmentFile, log_path: str, base_offset: int) -> Damage | None:
    """Return the damage of a batch whose last offset is above that of the last index entry, which points to it; else
    None. An index entry above the batch's last offset is valid: older brokers indexed several batches as one."""
    path = log_path.removesuffix(file_kinds.LOG) + file_kinds.OFFSET_INDEX
    try:
        entries = OffsetIndexFile.read(path, base_offset, log.size).entries
        number = entries.stored_count - 1
        if number < 0:
            return None
        offset, position = entries[number]
        batch = next_batch(log, position, log.size, log_path) if position >= 0 else None
    except (Damage, OSError):
        return None
    if not isinstance(batch, V2Header) or not batch.is_valid or batch.last_offset <= offset:
        return None
    return Damage(f"last offset {batch.last_offset}, but {path} has {offset} for this batch", position)
