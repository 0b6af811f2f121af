"""What survives a loss of power, a kill, a full disk, cut files: always a prefix of the log, never a wrong record."""

import errno
import os
import random
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import pytest
from support.faulty_files import Fault, FaultyFileSystem, FaultyLogFile, InjectedCrash
from support.log_batches import NOW_MS, make_batch, split_batches

from kafkatools.core.errors import KafkaError, KafkaStorageError
from kafkatools.core.log.partition.log_config import LogConfig
from kafkatools.core.log.partition.partition_log import PartitionLog

DIRECTORY = "/data/t-0"
CONFIG = LogConfig(segment_bytes=600, index_interval_bytes=150, segment_index_bytes=240)


def open_log(files: FaultyFileSystem, *, clean: bool = False, recovery_point: int = 0) -> PartitionLog:
    return PartitionLog.open(DIRECTORY, CONFIG, files, NOW_MS, had_clean_shutdown=clean, recovery_point=recovery_point)


def value(number: int) -> bytes:
    return b"%06d" % number + b"." * (number * 7 % 90)


def append(log: PartitionLog, number: int) -> None:
    batch = make_batch([value(number)], producer_id=1, producer_epoch=0, base_sequence=number)
    log.append_as_leader(memoryview(batch), leader_epoch=0, now_ms=NOW_MS)


def records(log: PartitionLog) -> list[bytes]:
    """All values, read segment by segment from the start of the log."""
    found: list[bytes] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        for batch in split_batches(log.read(offset, 1 << 20).read()):
            assert int.from_bytes(batch[:8], "big") == offset
            offset += 1
            found.append(bytes(batch[61:]))
    return found


def assert_is_prefix(log: PartitionLog, at_least: int) -> None:
    found = records(log)
    assert len(found) >= at_least
    for offset in range(log.log_start_offset, log.log_end_offset):
        assert log.read(offset, 1).base_offset == offset
    if found:
        first, newest = log.offset_for_timestamp(NOW_MS), log.max_timestamp()
        assert first is not None and first.offset == log.log_start_offset
        assert newest is not None and newest.timestamp == NOW_MS
    for number, data in enumerate(found):
        assert value(number) in data
    append(log, len(found))
    assert len(records(log)) == len(found) + 1


class Run(NamedTuple):
    """How many records were durable, how many acknowledged, and the newest recovery point a checkpoint may hold."""

    durable: int
    acknowledged: int
    recovery_point: int


def run(files: FaultyFileSystem, count: int, flush_every: int) -> Run:
    """Append until the crash or the end."""
    durable = done = recovery_point = 0
    try:
        log = open_log(files, clean=True)
        for number in range(count):
            append(log, number)
            done = number + 1
            log.tasks.run_due(NOW_MS)
            durable = max(durable, log.recovery_point)
            if flush_every and done % flush_every == 0:
                log.flush()
                durable = done
            recovery_point = log.recovery_point
    except InjectedCrash:
        pass
    return Run(durable, done, recovery_point)


@pytest.mark.parametrize("flush_every", [0, 1, 4])
@pytest.mark.parametrize("keep", ["nothing", "something", "everything"])
def test_after_a_loss_of_power_at_any_operation_the_log_is_a_prefix(keep: str, flush_every: int) -> None:
    rehearsal = FaultyFileSystem()
    run(rehearsal, 14, flush_every)
    rng = random.Random(f"{keep}-{flush_every}")
    keepers: dict[str, Callable[[str, int], int] | None] = {
        "nothing": None,
        "something": lambda path, size: rng.randint(0, size) if size > 0 else 0,
        "everything": lambda path, size: max(size, 0),
    }
    for operation in range(len(rehearsal.operations)):
        files = FaultyFileSystem()
        files.fail_after(operation, Fault(is_crash=True, short_write_bytes=rng.randint(0, 200)))
        story = run(files, 14, flush_every)
        files.crash(keepers[keep])
        assert_is_prefix(open_log(files, recovery_point=story.recovery_point), story.durable)


def test_after_a_kill_at_any_operation_every_acknowledged_record_is_there() -> None:
    rehearsal = FaultyFileSystem()
    run(rehearsal, 14, 0)
    for operation in range(len(rehearsal.operations)):
        files = FaultyFileSystem()
        files.fail_after(operation, Fault(is_crash=True, short_write_bytes=operation % 150))
        acknowledged = run(files, 14, 0).acknowledged
        files.heal()
        log = open_log(files)
        assert log.log_end_offset in (acknowledged, acknowledged + 1)
        assert_is_prefix(log, acknowledged)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO])
def test_a_failed_write_is_rolled_back_and_the_log_goes_on(code: int) -> None:
    rehearsal = FaultyFileSystem()
    run(rehearsal, 14, 0)
    for operation in range(len(rehearsal.operations)):
        files = FaultyFileSystem()
        try:
            files.fail_after(operation, Fault(code, short_write_bytes=70))
            log = open_log(files, clean=True)
        except KafkaStorageError:
            continue
        appended = 0
        while appended < 14:
            try:
                append(log, appended)
                appended += 1
            except KafkaStorageError as error:
                assert error.code == 56
                assert log.log_end_offset == appended
        files.heal()
        assert_is_prefix(log, 14)
        log.close()
        assert_is_prefix(open_log(files, clean=True), 14)


def test_a_full_disk_refuses_until_there_is_room_again() -> None:
    files = FaultyFileSystem()
    log = open_log(files, clean=True)
    append(log, 0)
    files.fail_after(0, Fault(errno.ENOSPC, short_write_bytes=10, is_permanent=True))
    for _ in range(5):
        with pytest.raises(KafkaStorageError, match="No space left on device"):
            append(log, 1)
    files.heal()
    append(log, 1)
    assert_is_prefix(log, 2)


def written_log(count: int = 12) -> FaultyFileSystem:
    files = FaultyFileSystem()
    run(files, count, 0)
    return files


def test_a_log_cut_at_any_byte_keeps_the_whole_batches_before_the_cut() -> None:
    files = written_log()
    names = [entry.name for entry in files.list_directory(DIRECTORY) if entry.name.endswith(".log")]
    for name in names:
        original = files.read_bytes(f"{DIRECTORY}/{name}")
        for size in range(0, len(original), 3):
            damaged = written_log()
            damaged.open(f"{DIRECTORY}/{name}").truncate(size)
            log = open_log(damaged)
            whole = sum(1 for batch in split_batches(original) if int.from_bytes(batch[:8], "big") < log.log_end_offset)
            boundary = sum(len(batch) for number, batch in enumerate(split_batches(original)) if number < whole)
            if name == names[-1] or size < len(original):
                assert boundary <= size
            assert_is_prefix(log, int(name[:20]))


def test_a_flipped_bit_never_gives_a_wrong_record_after_recovery() -> None:
    files = written_log()
    name = next(entry.name for entry in files.list_directory(DIRECTORY) if entry.name.endswith(".log"))
    size = len(files.read_bytes(f"{DIRECTORY}/{name}"))
    for position in range(size):
        damaged = written_log()
        file = damaged.open(f"{DIRECTORY}/{name}")
        file.write_at(position, bytes([file.read_at(position, 1)[0] ^ (1 << position % 8)]))
        assert_is_prefix(open_log(damaged), 0)


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".snapshot"])
@pytest.mark.parametrize("clean", [True, False])
def test_a_flipped_byte_of_a_derived_file_costs_no_record(suffix: str, clean: bool) -> None:
    def closed() -> FaultyFileSystem:
        files = FaultyFileSystem()
        log = open_log(files, clean=True)
        for number in range(12):
            append(log, number)
        log.close()
        return files

    names = [entry.name for entry in closed().list_directory(DIRECTORY) if entry.name.endswith(suffix)]
    assert names
    for name in names[-2:]:
        for position in range(len(closed().read_bytes(f"{DIRECTORY}/{name}"))):
            files = closed()
            file = files.open(f"{DIRECTORY}/{name}")
            file.write_at(position, bytes([file.read_at(position, 1)[0] ^ 0x55]))
            log = open_log(files, clean=clean)
            assert [value(n) in data for n, data in enumerate(records(log))] == [True] * 12


@pytest.mark.parametrize(
    "tail", [b"\0", bytes(11), bytes(300), b"\xff" * 100, b"some text that is no batch at all" * 3]
)
@pytest.mark.parametrize("clean", [True, False])
def test_nonsense_at_the_end_is_cut_off(tail: bytes, clean: bool) -> None:
    files = written_log()
    name = [entry.name for entry in files.list_directory(DIRECTORY) if entry.name.endswith(".log")][-1]
    if clean:
        log = open_log(files, clean=True)
        log.close()
    file = files.open(f"{DIRECTORY}/{name}")
    size = file.size_bytes
    file.append(tail)
    log = open_log(files, clean=clean)
    assert log.log_end_offset == 12
    assert file.size_bytes == size
    assert_is_prefix(log, 12)


def test_a_repeated_old_batch_at_the_end_is_cut_off() -> None:
    files = written_log()
    names = [entry.name for entry in files.list_directory(DIRECTORY) if entry.name.endswith(".log")]
    old = next(split_batches(files.read_bytes(f"{DIRECTORY}/{names[0]}")))
    files.open(f"{DIRECTORY}/{names[-1]}").append(old)
    log = open_log(files)
    assert log.log_end_offset == 12
    assert_is_prefix(log, 12)


def test_errors_of_reading_are_storage_errors() -> None:
    files = written_log()
    log = open_log(files)
    name = next(entry.name for entry in files.list_directory(DIRECTORY) if entry.name.endswith(".log"))
    files.remove(f"{DIRECTORY}/{name}")
    with pytest.raises(KafkaError):
        open_log(files).read(0, 100)
    log.release()


def test_a_flush_syncs_the_log_and_a_roll_its_indexes() -> None:
    files = FaultyFileSystem()
    log = open_log(files, clean=True)
    append(log, 0)
    files.operations.clear()
    log.flush()
    assert [name for name in files.operations if name.startswith("fsync")] == [
        "fsync leader-epoch-checkpoint",
        "fsync 00000000000000000000.log",
        "fsync-directory t-0",
    ]
    assert log.recovery_point == 1
    log.roll(NOW_MS)
    assert log.recovery_point == 0
    files.operations.clear()
    log.tasks.run_due(NOW_MS)
    assert {"fsync 00000000000000000000.index", "fsync 00000000000000000000.timeindex"} <= set(files.operations)
    assert log.recovery_point == 1


def test_an_index_page_that_cannot_be_written_waits_and_undoes_no_append() -> None:
    files = FaultyFileSystem()
    config = LogConfig(index_interval_bytes=0)
    log = PartitionLog.open(DIRECTORY, config, files, NOW_MS)
    for number in range(512):
        append(log, number)
    assert files.exists(f"{DIRECTORY}/00000000000000000000.index")
    files.operations.clear()
    files.fail_after(1, Fault(errno.ENOSPC, is_permanent=True))
    append(log, 512)
    assert [operation.split(".")[-1] for operation in files.operations] == ["log", "index"]
    files.heal()
    assert_is_prefix(log, 513)
    log.close()
    assert len(files.read_bytes(f"{DIRECTORY}/00000000000000000000.index")) == 513 * 8


def test_epochs_in_memory_and_on_disk_agree_after_an_error() -> None:
    files = FaultyFileSystem()
    log = open_log(files, clean=True)
    log.assign_epoch_start_offset(1)
    files.fail_after(0, Fault(errno.EIO, is_permanent=True))
    with pytest.raises(KafkaStorageError, match="Input/output"):
        log.assign_epoch_start_offset(2)
    assert log.latest_epoch == 1
    files.heal()
    log.assign_epoch_start_offset(2)
    assert files.read_bytes(f"{DIRECTORY}/leader-epoch-checkpoint") == b"0\n1\n2 0\n"


def test_epochs_that_a_loss_of_power_spoiled_are_read_from_the_batches() -> None:
    for epochs in ((0, 1, 4), (2,)):
        files = FaultyFileSystem()
        log = open_log(files, clean=True)
        for number, epoch in enumerate(epochs):
            log.assign_epoch_start_offset(epoch)
            batch = make_batch([value(number)])
            log.append_as_leader(memoryview(batch), leader_epoch=epoch, now_ms=NOW_MS)
        expected = [(epoch, number) for number, epoch in enumerate(epochs)]
        log.segments.active.log.flush()
        files.fsync_directory(DIRECTORY)  # the name of the file is durable, its content is not
        files.crash()
        assert files.read_bytes(f"{DIRECTORY}/leader-epoch-checkpoint") == b""
        assert open_log(files).epochs.entries == expected


def test_the_recovery_point_passes_no_epoch_that_is_not_durable() -> None:
    files = FaultyFileSystem()
    log = open_log(files, clean=True)
    append(log, 0)
    log.flush()
    log.assign_epoch_start_offset(3)
    batch = make_batch([value(1)])
    log.append_as_leader(memoryview(batch), leader_epoch=3, now_ms=NOW_MS)
    assert log.needs_full_flush
    log.flush()
    files.crash()
    assert open_log(files, recovery_point=log.recovery_point).epochs.entries == [(0, 0), (3, 1)]


def test_a_deleted_segment_that_comes_back_alone_takes_no_records_along() -> None:
    files = FaultyFileSystem()
    log = open_log(files, clean=True)
    for number in range(14):
        append(log, number)
    log.flush()
    first, second, third = log.segments.base_offsets[:3]
    names = [entry.name for entry in files.list_directory(DIRECTORY) if entry.name.startswith(f"{first:020d}")]
    kept = {name: files.read_bytes(f"{DIRECTORY}/{name}") for name in names}
    log.update_high_watermark(log.log_end_offset)
    assert log.increment_log_start_offset(third)
    assert log.delete_retention_segments(NOW_MS) == 2
    for name, data in kept.items():  # the power failed: this deletion did not reach the disk, the next one did
        files.write_bytes(f"{DIRECTORY}/{name}", data, sync=True)
    recovered = open_log(files)
    assert (recovered.log_start_offset, recovered.log_end_offset) == (third, 14)
    assert [value(number) in data for number, data in zip(range(third, 14), records(recovered), strict=True)]


class DiskWithoutRoom(FaultyFileSystem):
    """A disk on which the files that `full_for` accepts cannot be created or replaced."""

    full_for: Callable[[str], bool] = staticmethod(lambda path: False)

    def open(self, path: str, *, create: bool = False) -> FaultyLogFile:
        if create and self.full_for(path):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
        return super().open(path, create=create)


@pytest.mark.parametrize("is_by_request", [True, False])
def test_deleted_segments_do_not_come_back_in_part_when_the_epochs_found_no_room(is_by_request: bool) -> None:
    files = DiskWithoutRoom()
    log = open_log(files, clean=True)
    for number in range(14):
        append(log, number)
    log.flush()
    first, second, third = log.segments.base_offsets[:3]
    log.update_high_watermark(log.log_end_offset)
    files.full_for = lambda path: "leader-epoch-checkpoint" in path
    if is_by_request:
        assert log.increment_log_start_offset(third)
    else:
        segments = log.segments.range(third, log.log_end_offset)
        log.config = replace(CONFIG, retention_bytes=sum(segment.size_bytes for segment in segments))
    assert log.delete_retention_segments(NOW_MS) == 2
    files.lose_names(f"{DIRECTORY}/{second:020d}")
    files.crash()
    files.full_for = lambda path: False
    recovered = open_log(files)
    assert recovered.log_end_offset == 14
    assert [
        value(number) in data for number, data in zip(range(third, 14), records(recovered)[-14 + third :], strict=True)
    ]


def test_a_log_is_recovered_on_a_disk_without_room_for_a_snapshot() -> None:
    files = DiskWithoutRoom()
    log = open_log(files, clean=True)
    append(log, 0)
    log.flush()
    files.crash()
    files.full_for = lambda path: path.endswith(".snapshot")
    assert_is_prefix(open_log(files), 1)


def test_a_lost_index_behind_lost_records_ends_the_log_before_them() -> None:
    files = FaultyFileSystem()
    log = open_log(files, clean=True)
    for number in range(14):
        append(log, number)
    _, second, third = log.segments.base_offsets[:3]
    lost = files.open(f"{DIRECTORY}/{second:020d}.log")
    lost.write_at(lost.size_bytes // 2, bytes(lost.size_bytes - lost.size_bytes // 2))  # its end never reached the disk
    files.remove(f"{DIRECTORY}/{third:020d}.index")
    for entry in files.list_directory(DIRECTORY):
        if entry.name.endswith(".snapshot"):
            files.remove(f"{DIRECTORY}/{entry.name}")
    recovered = open_log(files)
    assert second <= recovered.log_end_offset < third
    assert_is_prefix(recovered, second)


@pytest.mark.parametrize("is_compacted", [False, True])
def test_the_lost_end_of_a_segment_before_an_empty_one(is_compacted: bool) -> None:
    """A plain log ends there. In a compacted one offsets may be missing: none is given twice, and readers go on."""
    files = FaultyFileSystem()
    config = replace(CONFIG, cleanup_policy=frozenset({"compact" if is_compacted else "delete"}))

    def opened(*, clean: bool) -> PartitionLog:
        return PartitionLog.open(DIRECTORY, config, files, NOW_MS, had_clean_shutdown=clean, recovery_point=0)

    def append_keyed(log: PartitionLog) -> None:
        batch = make_batch([bytes(90)], keys=[b"key"])
        log.append_as_leader(memoryview(batch), leader_epoch=0, now_ms=NOW_MS)

    log = opened(clean=True)
    while len(log.segments) < 3:
        append_keyed(log)
    _, second, third = log.segments.base_offsets
    batches = list(split_batches(log.read(second, 1 << 20).read()))
    files.open(f"{DIRECTORY}/{second:020d}.log").truncate(sum(map(len, batches[:-1])))
    files.open(f"{DIRECTORY}/{third:020d}.log").truncate(0)
    recovered = opened(clean=False)
    end = third if is_compacted else third - 1
    assert recovered.log_end_offset == end
    assert not recovered.read(third - 1, 1 << 20).read()
    append_keyed(recovered)
    [batch] = split_batches(recovered.read(third - 1, 1 << 20).read())
    assert int.from_bytes(batch[:8], "big") == end
