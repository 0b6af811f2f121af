"""A crash, a loss of power or a full disk at every single operation of cleaning: the newest value of every key is
always there, nothing is read twice, and the next round finishes the work."""

import errno
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest
from support.faulty_files import Fault, FaultyFileSystem, InjectedCrash
from support.log_batches import NOW_MS, TRANSACTIONAL, make_batch, make_marker

from kafkatools.core.errors import KafkaError, KafkaStorageError
from kafkatools.core.log.cleaner.cleaner import Cleaner
from kafkatools.core.log.cleaner.log_to_clean import CleaningAborted
from kafkatools.core.log.cleaner.manager import LogCleanerManager
from kafkatools.core.log.partition.log_config import LogConfig
from kafkatools.core.log.partition.partition_log import PartitionLog
from kafkatools.core.log.partition.segment_swap import swap_in
from kafkatools.core.log.producers.append import AppendOrigin
from kafkatools.core.records.batch import read_batches

DIRECTORY = "/data/t-0"
CONFIG = LogConfig(
    cleanup_policy=frozenset({"compact"}),
    min_cleanable_dirty_ratio=0.01,
    segment_bytes=900,
    index_interval_bytes=150,
    segment_index_bytes=240,
    file_delete_delay_ms=0,
)


def open_log(files: FaultyFileSystem, *, recovery_point: int = 0, is_clean: bool = False) -> PartitionLog:
    log = PartitionLog.open(
        DIRECTORY, CONFIG, files, NOW_MS, had_clean_shutdown=is_clean, recovery_point=recovery_point
    )
    log.update_high_watermark(log.log_end_offset)
    return log


@dataclass
class Story:
    """A log with 24 records of five keys, one transaction aborted; all of it on the disk."""

    files: FaultyFileSystem = field(default_factory=FaultyFileSystem)
    newest: dict[bytes, tuple[int, bytes]] = field(default_factory=dict)

    def write(self) -> PartitionLog:
        log = open_log(self.files, is_clean=True)
        log.update_config(replace(CONFIG, segment_bytes=400))  # so that segments are joined
        for number in range(24):
            key, value = b"k%d" % (number % 5), b"%d" % number * (number % 7 + 1)
            if number == 9:
                aborted = make_batch(
                    [b"aborted"],
                    keys=[b"k1"],
                    producer_id=4,
                    producer_epoch=0,
                    base_sequence=0,
                    attributes=TRANSACTIONAL,
                )
                for data in (aborted, make_marker(4, 0, commit=False)):
                    log.append_as_leader(
                        memoryview(data), leader_epoch=0, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR
                    )
            info = log.append_as_leader(memoryview(make_batch([value], keys=[key])), leader_epoch=0, now_ms=NOW_MS)
            self.newest[key] = (info.first_offset, value)
        log.roll(NOW_MS)
        log.update_high_watermark(log.log_end_offset)
        log.tasks.run_due(1 << 62)
        log.flush()
        self.files.fsync_directory(DIRECTORY)
        assert len(log.segments) > 6
        log.update_config(CONFIG)
        return log


def clean(log: PartitionLog, files: FaultyFileSystem) -> Exception | None:
    """One round; gives the error that ended it. The old files are removed at once."""
    manager = LogCleanerManager()
    grabbed = manager.grab_filthiest_log([log], NOW_MS)
    if grabbed is None:
        return None
    wanted = grabbed[1]
    try:
        stats = Cleaner(files, dedupe_buffer_bytes=4096).clean(
            wanted, NOW_MS, lambda plan, cleaned: swap_in(log, plan, cleaned, NOW_MS)
        )
    except (KafkaError, OSError, CleaningAborted) as error:
        manager.done_cleaning(log, wanted, error, NOW_MS)
        return error
    manager.done_cleaning(log, wanted, stats, NOW_MS)
    log.tasks.run_due(1 << 62)
    return None


def newest(log: PartitionLog) -> dict[bytes, tuple[int, bytes]]:
    """What a read_committed reader from the start ends up with; offsets must rise."""
    found: dict[bytes, tuple[int, bytes]] = {}
    offset = log.log_start_offset
    aborted = {entry.first_offset: entry.last_offset for entry in log.aborted_transactions(0, log.log_end_offset)}
    while offset < log.log_end_offset:
        data = log.read(offset, 1 << 20).read()
        if not data:
            break
        for batch in read_batches(data):
            batch.ensure_valid()
            assert batch.last_offset >= offset
            offset = batch.last_offset + 1
            for record in batch.records():
                is_aborted = batch.is_transactional and any(a <= record.offset <= b for a, b in aborted.items())
                if not batch.is_control and not is_aborted:
                    assert record.key is not None and record.value is not None
                    found[record.key] = (record.offset, record.value)
    return found


def assert_sound(files: FaultyFileSystem, story: Story, recovery_point: int) -> None:
    log = open_log(files, recovery_point=recovery_point)
    assert log.log_end_offset == 26
    assert newest(log) == story.newest
    names = [entry.name for entry in files.list_directory(DIRECTORY)]
    assert not [name for name in names if name.endswith((".cleaned", ".swap"))]
    for offset in range(26):
        assert log.read(offset, 1).base_offset >= 0
    assert clean(log, files) is None
    assert newest(log) == story.newest
    log.append_as_leader(memoryview(make_batch([b"x"], keys=[b"new"])), leader_epoch=0, now_ms=NOW_MS)
    assert log.log_end_offset == 27


def rehearsed() -> int:
    story = Story()
    log = story.write()
    before = len(story.files.operations)
    assert clean(log, story.files) is None
    assert newest(log) == story.newest
    assert len(log.segments) < 5
    return len(story.files.operations) - before


KEEPERS: dict[str, Callable[[str, int], int] | None] = {
    "nothing": None,
    "everything": lambda path, size: size,
    "half": lambda path, size: size // 2,
}


@pytest.mark.parametrize("recovery_point", [0, 26])
@pytest.mark.parametrize("loss", ["kill", *KEEPERS])
def test_after_a_crash_at_any_operation(recovery_point: int, loss: str) -> None:
    for operation in range(rehearsed()):
        story = Story()
        log = story.write()
        story.files.fail_after(operation, Fault(is_crash=True, short_write_bytes=operation * 7 % 60))
        with pytest.raises(InjectedCrash):
            clean(log, story.files)
        if loss == "kill":
            story.files.heal()
        else:
            story.files.crash(KEEPERS[loss])
        assert_sound(story.files, story, recovery_point)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_failing_disk_leaves_the_log_readable_or_offline(code: int) -> None:
    for operation in range(rehearsed()):
        story = Story()
        log = story.write()
        story.files.fail_after(operation, Fault(code=code, short_write_bytes=operation % 50))
        try:
            error = clean(log, story.files)
        except OSError:
            error = None  # removing the old files failed: they go at the next start
        story.files.heal()
        if log.failure is None:
            assert newest(log) == story.newest
        else:
            assert isinstance(error, KafkaStorageError)
        assert_sound(story.files, story, 0)
