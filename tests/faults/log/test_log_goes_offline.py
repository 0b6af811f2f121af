"""What cannot be undone takes a log offline: nothing more is written or read, the next start recovers it."""

import errno

import pytest
from support.faulty_files import Fault, FaultyFileSystem
from support.log_batches import NOW_MS, TRANSACTIONAL, make_batch, make_marker

from kafkatools.core.errors import KafkaStorageError
from kafkatools.core.log.format.filenames import TopicPartition
from kafkatools.core.log.partition.log_config import LogConfig
from kafkatools.core.log.partition.log_manager import LogManager
from kafkatools.core.log.partition.partition_log import PartitionLog
from kafkatools.core.log.producers.append import AppendOrigin
from kafkatools.core.records.batch import read_batches

TOPIC_ID = "5bgrR_PIS02H3Z7S0u6hOQ"
DIRECTORY = "/data"


def started(files: FaultyFileSystem) -> tuple[LogManager, PartitionLog]:
    files.make_directory(DIRECTORY)
    manager = LogManager(files, DIRECTORY)
    manager.start()
    return manager, manager.get_or_create(TopicPartition("t", 0), TOPIC_ID, LogConfig(), NOW_MS)


def append(log: PartitionLog, batch: bytearray, origin: AppendOrigin = AppendOrigin.CLIENT) -> int:
    offset = log.append_as_leader(memoryview(batch), leader_epoch=0, now_ms=NOW_MS, origin=origin).first_offset
    log.update_high_watermark(log.log_end_offset)
    return offset


def abort_with_a_failing_index(files: FaultyFileSystem, log: PartitionLog, operation: int) -> None:
    append(log, make_batch([b"x"], producer_id=7, producer_epoch=0, base_sequence=0, attributes=TRANSACTIONAL))
    files.operations.clear()
    files.fail_after(operation, Fault(errno.EIO, is_permanent=True))
    with pytest.raises(KafkaStorageError, match="offline.*Input/output error") as raised:
        append(log, make_marker(7, 0, commit=False), AppendOrigin.COORDINATOR)
    assert raised.value.code == 56
    assert files.operations[0] == "write 00000000000000000000.log"
    assert files.operations[-1].endswith(".txnindex")
    files.heal()


@pytest.mark.parametrize("operation", [1, 2])
@pytest.mark.parametrize("has_lost_power", [False, True])
def test_a_marker_without_its_index_entry_is_completed_by_the_next_start(operation: int, has_lost_power: bool) -> None:
    files = FaultyFileSystem()
    manager, log = started(files)
    append(log, make_batch([b"before"]))
    log.flush()
    abort_with_a_failing_index(files, log, operation)
    for _ in range(2):
        with pytest.raises(KafkaStorageError, match="offline"):
            append(log, make_batch([b"later"]))
        with pytest.raises(KafkaStorageError, match="offline"):
            log.read(0, 100)
    log.flush()
    assert log.recovery_point == 1
    assert manager.cleanup(NOW_MS + 10**12) == 0
    manager.close(broker_epoch=1)
    if has_lost_power:
        files.crash()
    manager, log = started(files)
    assert not manager.is_clean_start
    if has_lost_power:
        assert log.log_end_offset == 1
    else:
        assert log.log_end_offset == 3
        assert [(a.producer_id, a.first_offset, a.last_offset) for a in log.aborted_transactions(0, 3)] == [(7, 1, 2)]
        assert log.last_stable_offset == 3
    assert append(log, make_batch([b"after"])) == log.log_end_offset - 1


def test_the_other_logs_of_the_directory_go_on() -> None:
    files = FaultyFileSystem()
    manager, log = started(files)
    other = manager.get_or_create(TopicPartition("u", 0), TOPIC_ID, LogConfig(), NOW_MS)
    log.go_offline(OSError(errno.EIO, "Input/output error"))
    assert append(other, make_batch()) == 0
    manager.close(broker_epoch=1)
    again = LogManager(files, DIRECTORY)
    again.start()
    assert not again.is_clean_start
    assert again.get_or_create(TopicPartition("u", 0), TOPIC_ID, LogConfig(), NOW_MS).log_end_offset == 1


@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
def test_a_sync_that_fails_takes_the_log_offline_and_the_next_start_recovers_it(code: int) -> None:
    files = FaultyFileSystem()
    manager, log = started(files)
    append(log, make_batch([b"durable"]))
    log.flush()
    append(log, make_batch([b"lost"]))
    files.fail_after(0, Fault(code))
    for _ in range(2):  # the second sync would succeed
        with pytest.raises(KafkaStorageError):
            log.flush()
            append(log, make_batch([b"later"]))
    assert log.recovery_point == 1
    manager.close(broker_epoch=1)
    files.crash()
    _, log = started(files)
    assert (log.log_end_offset, log.recovery_point) == (1, 1)


def test_a_file_that_cannot_be_opened_for_a_sync_is_no_failed_sync() -> None:
    files = FaultyFileSystem()
    _, log = started(files)
    append(log, make_batch())
    files.fail_after(0, Fault(errno.EMFILE))
    with pytest.raises(KafkaStorageError, match="Too many open files"):
        log.flush()
    log.flush()
    assert (log.failure, log.recovery_point) == (None, 1)


def values(log: PartitionLog) -> list[int]:
    """The offsets of all records."""
    found: list[int] = []
    offset = log.log_start_offset
    while offset < log.log_end_offset:
        batches = list(read_batches(log.read(offset, 1 << 20).read()))
        found += [record.offset for batch in batches for record in batch.records()]
        offset = batches[-1].next_offset
    return [offset for offset in found if offset >= log.log_start_offset]


def filled(files: FaultyFileSystem, count: int) -> tuple[LogManager, PartitionLog]:
    """A log with a segment and a leader epoch for each record."""
    files.make_directory(DIRECTORY)
    manager = LogManager(files, DIRECTORY)
    manager.start()
    log = manager.get_or_create(TopicPartition("t", 0), TOPIC_ID, LogConfig(segment_bytes=100), NOW_MS)
    for epoch in range(count):
        log.append_as_leader(memoryview(make_batch()), leader_epoch=epoch, now_ms=NOW_MS)
    log.update_high_watermark(log.log_end_offset)
    return manager, log


@pytest.mark.parametrize("is_full", [False, True])
def test_a_truncation_that_fails_leaves_no_log_that_ends_before_its_end(is_full: bool) -> None:
    operation, is_done = 0, False
    while not is_done:
        files = FaultyFileSystem()
        _, log = filled(files, 6)
        files.operations.clear()
        files.fail_after(operation, Fault(errno.ENOSPC if is_full else errno.EIO))
        try:
            log.truncate_to(3, NOW_MS)
            is_done = operation >= len(files.operations)
        except KafkaStorageError:
            files.heal()
        if log.failure is not None:
            _, log = started(files)
        assert values(log) == list(range(max(3, log.log_end_offset)))
        log.truncate_to(3, NOW_MS)  # a follower asks again
        assert (values(log), log.latest_epoch) == ([0, 1, 2], 2)
        operation += 1
    assert operation > 6


def test_the_log_start_rises_on_a_full_disk_and_the_epochs_are_written_when_there_is_room() -> None:
    files = FaultyFileSystem()
    manager, log = filled(files, 6)
    files.fail_after(0, Fault())
    assert log.increment_log_start_offset(4)
    assert [entry.epoch for entry in log.epochs.entries] == [4, 5]
    assert manager.cleanup(NOW_MS) == 4
    log.flush()
    files.crash()
    _, log = started(files)
    assert (values(log), log.epochs.entries[0].epoch) == ([4, 5], 4)


@pytest.mark.parametrize("operation", range(4))
def test_a_segment_that_could_not_be_deleted_costs_no_record_after_a_kill(operation: int) -> None:
    files = FaultyFileSystem()
    manager, log = filled(files, 8)
    files.fail_after(0, Fault())
    log.increment_log_start_offset(6)
    manager.checkpoint_start_offsets()
    files.fail_after(operation, Fault(errno.EIO))
    with pytest.raises(KafkaStorageError, match="deleting segments"):
        manager.cleanup(NOW_MS)
    manager.cleanup(NOW_MS)
    _, log = started(files)
    assert (values(log), log.log_start_offset) == ([6, 7], 6)


def test_a_roll_that_fails_leaves_no_segment_in_the_middle_of_another() -> None:
    operation = 0
    while True:
        files = FaultyFileSystem()
        files.make_directory(DIRECTORY)
        manager = LogManager(files, DIRECTORY)
        manager.start()
        log = manager.get_or_create(TopicPartition("t", 0), TOPIC_ID, LogConfig(segment_bytes=300), NOW_MS)
        append(log, make_batch([b"x" * 100]))
        files.operations.clear()
        files.fail_after(operation, Fault(errno.EMFILE))
        try:
            append(log, make_batch([b"x" * 200]))
            break
        except KafkaStorageError:
            files.heal()
        for _ in range(3):  # the first one fits into the segment that was not rolled
            append(log, make_batch([b"y"]))
        _, log = started(files)
        assert values(log) == [0, 1, 2, 3], operation
        operation += 1
    assert operation > 3
