"""Which earlier objects of a partition are a prefix of its log, and the offsets of records in source and target."""

from __future__ import annotations

import pytest

from kafkatools.tools.backup.manifest import PartitionBackup, StoredObject
from kafkatools.tools.backup.offset_runs import OffsetRuns
from kafkatools.tools.backup.planning import note_gap, truncated_at
from kafkatools.tools.backup.restored_batches import RestoredBatch

STORED = PartitionBackup("logs", 0, 100, objects=[StoredObject("o", 0, 100, 1, "0", leader_epochs=[(3, 0)])])


@pytest.mark.parametrize(
    ("log_end", "last_epoch", "expected"),
    [
        (100, (3, 100), None),
        (500, (3, 250), None),  # the epoch went on
        (500, (3, 100), None),  # and ended with the backup
        (90, (3, 90), 90),  # the log is shorter
        (500, (3, 80), 80),  # another leader overwrote the end
        (500, (2, 60), 60),  # and does not know the epoch
        (500, (3, 450), None),  # retention removed all of the epoch: its end is the first offset of the next one
        (500, (-1, -1), None),  # a broker without leader epochs
        (500, None, None),
        (40, None, 40),
    ],
)
def test_truncation_below_the_backup_is_noticed(
    log_end: int, last_epoch: tuple[int, int] | None, expected: int | None
) -> None:
    assert truncated_at(STORED, log_end, last_epoch) == expected
    assert truncated_at(PartitionBackup("logs", 0, 100), log_end, last_epoch) is None


def test_a_gap_is_named_once_and_only_behind_stored_records() -> None:
    notes: list[str] = []
    backup = PartitionBackup("logs", 0, 100, objects=list(STORED.objects))
    for _ in range(2):
        note_gap(("t", 1), backup, 100, 130, {}, notes)
        note_gap(("t", 1), backup, 130, 130, {}, notes)
    assert (backup.gaps, notes) == ([(100, 130)], ["t-1: offsets 100 to 129 were deleted before they were backed up"])
    empty = PartitionBackup("logs", 0, 0)
    note_gap(("t", 1), empty, 0, 30, {}, notes)
    assert (empty.gaps, len(notes)) == ([(0, 30)], 1)


def test_runs_map_each_offset_to_its_record_or_the_next_one() -> None:
    runs = OffsetRuns(10)
    assert runs.target_of(0) == 10
    written = [*range(5, 12), 20, 21, 25, 26, 27]
    runs.add(RestoredBatch(bytearray(), 4, 5, 9), 10)
    runs.add(RestoredBatch(bytearray(), 3, 9, 12), 14)
    runs.add(RestoredBatch(bytearray(), 3, 20, 26, [20, 21, 25]), 17)
    runs.add(RestoredBatch(bytearray(), 2, 26, 28), 20)
    for offset in range(35):
        assert runs.target_of(offset) == 10 + sum(item < offset for item in written)
