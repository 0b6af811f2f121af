"""A segment whose offsets do not fit its indexes is split when it is recovered (KAFKA-6264); preallocated segments."""

from pathlib import Path

import pytest
from support.faulty_files import Fault, FaultyFileSystem, InjectedCrash
from support.log_batches import NOW_MS, TRANSACTIONAL, make_batch, make_marker, split_batches

from kafkatools.core.log.cleaner.cleaner import Cleaner, CleanerStats
from kafkatools.core.log.cleaner.log_to_clean import SegmentOverflowed
from kafkatools.core.log.cleaner.manager import LogCleanerManager
from kafkatools.core.log.partition.log_config import LogConfig
from kafkatools.core.log.partition.partition_log import PartitionLog
from kafkatools.core.log.partition.segment_swap import swap_in

DIRECTORY = "/data/t-0"
COMPACTED = LogConfig(cleanup_policy=frozenset({"compact"}), index_interval_bytes=0)
FAR = 2**31
OFFSETS = [0, 5, FAR - 1, FAR, FAR + 20, 2**33, 2**33 + FAR - 1]
BASES = [0, FAR, 2**33]
SEGMENT = f"{DIRECTORY}/{0:020d}.log"


def overflowed(offsets: list[int], tail: bytes = b"") -> FaultyFileSystem:
    files = FaultyFileSystem()
    files.make_directory(DIRECTORY)
    file = files.open(SEGMENT, create=True)
    for offset in offsets:
        file.append(make_batch([b"%d" % offset], keys=[b"k"], base_offset=offset, leader_epoch=0))
    file.append(tail)
    file.flush()
    files.open(SEGMENT.replace(".log", ".index"), create=True)
    for directory in ("/", "/data", DIRECTORY):
        files.fsync_directory(directory)
    files.set_modified_ms(SEGMENT, 12345)
    return files


def open_log(files: FaultyFileSystem, *, clean: bool = False) -> PartitionLog:
    return PartitionLog.open(DIRECTORY, COMPACTED, files, NOW_MS, had_clean_shutdown=clean)


def values(log: PartitionLog) -> list[int]:
    found = []
    for segment in log.segments:
        for batch in split_batches(segment.log.read_at(0, segment.size_bytes)):
            offset = int.from_bytes(batch[:8], "big")
            assert b"%d" % offset in bytes(batch[61:])
            found.append(offset)
    return found


def assert_is_split(log: PartitionLog, files: FaultyFileSystem) -> None:
    assert log.segments.base_offsets == BASES
    assert values(log) == OFFSETS
    assert log.log_end_offset == OFFSETS[-1] + 1
    for offset in OFFSETS:
        assert log.read(offset, 1).base_offset == offset
    names = [entry.name for entry in files.list_directory(DIRECTORY)]
    assert [name for name in names if name.endswith((".swap", ".cleaned", ".deleted"))] == []
    assert sorted(name for name in names if name.endswith(".log")) == [f"{base:020d}.log" for base in BASES]


def test_every_record_is_there_after_the_split() -> None:
    files = overflowed(OFFSETS)
    log = open_log(files)
    assert_is_split(log, files)
    assert all(files.modified_ms(segment.log.path) == 12345 for segment in log.segments)
    log.close()
    assert_is_split(open_log(files, clean=True), files)


def test_a_missing_index_finds_the_overflow_after_a_clean_stop_too() -> None:
    files = overflowed(OFFSETS)
    files.remove(SEGMENT.replace(".log", ".index"))
    assert_is_split(open_log(files, clean=True), files)


def test_damage_behind_the_overflow_is_cut_and_nothing_before_it() -> None:
    files = overflowed(OFFSETS, b"\xff" * 5000)
    assert_is_split(open_log(files), files)


def test_a_segment_that_begins_far_above_its_name() -> None:
    files = overflowed([FAR + 7, FAR + 8])
    log = open_log(files)
    assert (log.segments.base_offsets, values(log)) == ([FAR + 7], [FAR + 7, FAR + 8])


def test_aborted_transactions_are_known_after_the_split() -> None:
    files = overflowed([0])
    file = files.open(SEGMENT)
    data = make_batch([b"x"], producer_id=7, producer_epoch=0, base_sequence=0, attributes=TRANSACTIONAL)
    for offset, batch in ((FAR + 5, data), (FAR + 6, make_marker(7, 0, commit=False))):
        batch[:8] = offset.to_bytes(8, "big")
        file.append(batch)
    log = open_log(files)
    assert log.segments.base_offsets == [0, FAR + 5]
    assert [(a.first_offset, a.last_offset) for a in log.aborted_transactions(0, FAR + 7)] == [(FAR + 5, FAR + 6)]


@pytest.mark.parametrize("tail", [b"", b"\xff" * 100])
@pytest.mark.parametrize("keeps_unsynced", [True, False])
def test_a_crash_at_any_moment_of_the_split_loses_nothing(tail: bytes, keeps_unsynced: bool) -> None:
    rehearsal = overflowed(OFFSETS, tail)
    rehearsal.operations.clear()
    open_log(rehearsal)
    count = len(rehearsal.operations)
    assert count > 20
    for operation in range(count):
        files = overflowed(OFFSETS, tail)
        files.fail_after(operation, Fault(is_crash=True))
        with pytest.raises(InjectedCrash):
            open_log(files)
        files.heal()
        if not keeps_unsynced:
            files.crash()
        assert_is_split(open_log(files), files)


# preallocate


def preallocated(tmp_path: Path, *, clean: bool = True) -> PartitionLog:
    config = LogConfig(preallocate=True, segment_bytes=4096)
    return PartitionLog.open(str(tmp_path / "t-0"), config, now_ms=NOW_MS, had_clean_shutdown=clean)


def append(log: PartitionLog, count: int) -> None:
    for _ in range(count):
        log.append_as_leader(memoryview(make_batch([b"x" * 900])), leader_epoch=0, now_ms=NOW_MS)
    log.update_high_watermark(log.log_end_offset)


def sizes(tmp_path: Path) -> list[int]:
    return [path.stat().st_size for path in sorted((tmp_path / "t-0").glob("*.log"))]


def test_a_preallocated_segment_has_its_full_size_until_it_is_rolled_or_closed(tmp_path: Path) -> None:
    log = preallocated(tmp_path)
    assert sizes(tmp_path) == [4096]
    append(log, 5)
    used = [segment.size_bytes for segment in log.segments]
    assert len(used) == 2 and used[1] < 2000
    assert sizes(tmp_path) == [used[0], 4096]
    assert [int.from_bytes(batch[:8], "big") for batch in split_batches(log.read(4, 1 << 20).read())] == [4]
    log.close()
    assert sizes(tmp_path) == used
    assert preallocated(tmp_path).log_end_offset == 5


def test_after_a_kill_the_zeros_of_a_preallocated_segment_are_cut(tmp_path: Path) -> None:
    log = preallocated(tmp_path)
    append(log, 2)
    size = log.size_bytes
    log.release()
    assert sizes(tmp_path) == [4096]
    again = preallocated(tmp_path, clean=False)
    assert (again.log_end_offset, again.size_bytes) == (2, size)
    append(again, 1)
    assert again.log_end_offset == 3


def test_the_cleaner_has_an_overflowed_segment_split_and_goes_on() -> None:
    files = overflowed(OFFSETS)
    later = files.open(f"{DIRECTORY}/{2**34:020d}.log", create=True)
    later.append(make_batch([b"%d" % 2**34], keys=[b"k"], base_offset=2**34, leader_epoch=0))
    files.open(f"{DIRECTORY}/{2**34:020d}.index", create=True)
    log = open_log(files, clean=True)
    log.update_high_watermark(log.log_end_offset)
    manager = LogCleanerManager()
    outcomes: list[type] = []
    while (grabbed := manager.grab_filthiest_log([log], NOW_MS)) is not None:
        _, wanted = grabbed
        outcome: CleanerStats | Exception
        try:
            outcome = Cleaner(files, dedupe_buffer_bytes=4096).clean(
                wanted, NOW_MS, lambda plan, cleaned: swap_in(log, plan, cleaned, NOW_MS)
            )
        except SegmentOverflowed as error:
            outcome = error
        outcomes.append(type(outcome))
        assert manager.done_cleaning(log, wanted, outcome, NOW_MS)
        if len(outcomes) == 1:
            assert log.segments.base_offsets == [*BASES, 2**34]
            assert values(log) == [*OFFSETS, 2**34]
            for offset in OFFSETS:
                assert log.read(offset, 1).base_offset == offset
    assert outcomes == [SegmentOverflowed, CleanerStats]
    assert values(log)[-2:] == [OFFSETS[-1], 2**34]
    assert log.log_end_offset == 2**34 + 1
    log.close()
    assert values(open_log(files, clean=True))[-2:] == [OFFSETS[-1], 2**34]
