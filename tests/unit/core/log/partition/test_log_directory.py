"""Several log directories: where partitions go, what each keeps, one that fails, replicas that move between them."""

import random
import uuid
from pathlib import Path

import pytest
from support.faulty_files import Fault, FaultyFileSystem, InjectedCrash
from support.log_batches import NOW_MS, make_batch

from kafkatools.core.broker.metadata import directory_ids
from kafkatools.core.errors import KafkaStorageError
from kafkatools.core.log.files import FileSystem, RealFileSystem
from kafkatools.core.log.format import filenames
from kafkatools.core.log.format.filenames import TopicPartition
from kafkatools.core.log.partition.log_config import LogConfig
from kafkatools.core.log.partition.log_manager import UNASSIGNED, LogManager
from kafkatools.core.log.partition.partition_log import PartitionLog
from kafkatools.core.log.partition.replica_move import ReplicaMove
from kafkatools.core.protocol.uuids import random_uuid
from kafkatools.core.records.batch import read_batches

TOPIC_ID = "5bgrR_PIS02H3Z7S0u6hOQ"
A, B = "/disk/a", "/disk/b"
NAMES = [TopicPartition("t", index) for index in range(6)]


def started(files: FileSystem, *paths: str) -> LogManager:
    for path in paths:
        files.make_directory(path)
    manager = LogManager(files, *paths)
    manager.start()
    return manager


def get(manager: LogManager, name: TopicPartition, config: LogConfig | None = None) -> PartitionLog:
    log = manager.get_or_create(name, TOPIC_ID, config or LogConfig(), NOW_MS)
    manager.sync_names()
    return log


def append(log: PartitionLog, epoch: int = 0, value: bytes = b"v") -> None:
    log.append_as_leader(memoryview(make_batch([value])), leader_epoch=epoch, now_ms=NOW_MS)
    log.update_high_watermark(log.log_end_offset)


def held(manager: LogManager) -> dict[str, list[int]]:
    """The partitions of each directory."""
    return {each.path: sorted(name.partition for name in each.logs) for each in manager.directories}


def content(log: PartitionLog) -> bytes:
    data, offset = b"", log.log_start_offset
    while offset < log.log_end_offset:
        for batch in read_batches(log.read(offset, 1 << 30).read()):
            data += batch.to_bytes()
            offset = batch.next_offset
    return data


def test_a_new_partition_goes_to_the_directory_with_the_fewest_and_never_to_a_cordoned_one() -> None:
    manager = started(FaultyFileSystem(), A, B)
    for name in NAMES[:3]:
        get(manager, name)
    assert held(manager) == {A: [0, 2], B: [1]}
    manager.directories[1].is_cordoned = True
    get(manager, NAMES[3])
    assert held(manager) == {A: [0, 2, 3], B: [1]}
    manager.prefer(NAMES[4], manager.directories[1])
    get(manager, NAMES[4])
    get(manager, NAMES[5])
    assert held(manager) == {A: [0, 2, 3, 5], B: [1, 4]}


def test_each_directory_has_its_own_checkpoints_and_its_own_marker(tmp_path: Path) -> None:
    paths = [str(tmp_path / "a"), str(tmp_path / "b")]
    manager = started(RealFileSystem(), *paths)
    for name in NAMES[:2]:
        append(get(manager, name))
    append(get(manager, NAMES[1]))
    manager.close(broker_epoch=7)
    for path, line in zip(paths, ("t 0 1", "t 1 2"), strict=True):
        for file in ("recovery-point-offset-checkpoint", "replication-offset-checkpoint"):
            assert (Path(path) / file).read_text() == f"0\n1\n{line}\n"
        assert (Path(path) / ".kafka_cleanshutdown").exists()
    (tmp_path / "b" / ".kafka_cleanshutdown").unlink()
    again = started(RealFileSystem(), *paths)
    assert [each.is_clean_start for each in again.directories] == [True, False]
    assert not again.is_clean_start
    assert [get(again, name).log_end_offset for name in NAMES[:2]] == [1, 2]
    assert held(again) == {paths[0]: [0], paths[1]: [1]}


def test_a_directory_that_fails_goes_offline_as_a_whole_and_the_others_go_on() -> None:
    files = FaultyFileSystem()
    manager = started(files, A, B)
    logs = [get(manager, name) for name in NAMES[:4]]
    files.broken_directory = B
    append(logs[0])
    assert manager.failing == {}
    with pytest.raises(KafkaStorageError, match="appending records to t-1"):
        append(logs[1])
    (directory,) = manager.failing
    assert directory.path == B
    assert sorted(manager.take_offline(directory)) == [NAMES[1], NAMES[3]]
    with pytest.raises(KafkaStorageError):
        append(logs[3])
    append(logs[2])
    manager.checkpoint_recovery_points()
    manager.delete(NAMES[1], NOW_MS)
    manager.close(broker_epoch=1)
    assert manager.failing == {}
    assert files.exists(f"{A}/.kafka_cleanshutdown")
    files.broken_directory = None
    again = started(files, A, B)
    assert [each.is_clean_start for each in again.directories] == [True, False]
    assert [get(again, name).log_end_offset for name in NAMES[:4]] == [1, 0, 1, 0]


def test_a_directory_that_fails_takes_the_future_replicas_in_it_along() -> None:
    manager = started(FaultyFileSystem(), A, B)
    logs = [get(manager, name) for name in NAMES[:4]]
    append(logs[0])
    manager.begin_future(NAMES[0], manager.directories[1], NOW_MS)
    manager.begin_future(NAMES[1], manager.directories[0], NOW_MS)
    manager.note_failure(manager.directories[1], OSError("gone"))
    assert sorted(manager.take_offline(manager.directories[1])) == [NAMES[1], NAMES[3]]
    assert list(manager.future_logs) == [NAMES[1]], "in a directory that works"
    append(logs[0])
    assert manager.logs[NAMES[0]].log_end_offset == 2


def test_a_partition_that_cannot_be_deleted_is_gone_and_its_directory_fails() -> None:
    files = FaultyFileSystem()
    manager = started(files, A, B)
    for name in NAMES[:4]:
        get(manager, name)
    files.broken_directory = B
    for name in NAMES[:2]:
        manager.delete(name, NOW_MS)
    assert list(manager.logs) == NAMES[2:4]
    assert [each.path for each in manager.failing] == [B]


def test_what_may_lie_in_a_directory_that_is_offline_is_not_begun_anew() -> None:
    files = FaultyFileSystem()
    manager = started(files, A, B)
    ids = [random_uuid(), random_uuid()]
    for directory, directory_id in zip(manager.directories, ids, strict=True):
        directory.directory_id = directory_id
    manager.note_failure(manager.directories[1], OSError("gone"))
    manager.take_offline(manager.directories[1])
    for known in (None, ids[1], random_uuid()):
        with pytest.raises(KafkaStorageError, match=f"because log directories {B} are offline"):
            manager.get_or_create(NAMES[0], TOPIC_ID, LogConfig(), NOW_MS, directory_id=known)
    manager.get_or_create(NAMES[0], TOPIC_ID, LogConfig(), NOW_MS, directory_id=UNASSIGNED)
    manager.get_or_create(NAMES[1], TOPIC_ID, LogConfig(), NOW_MS, directory_id=ids[0])
    assert held(manager) == {A: [0, 1], B: []}


def test_an_unassigned_directory_has_the_id_of_the_metadata_log() -> None:
    """org.apache.kafka.common.DirectoryId.UNASSIGNED; the log must not import the broker's `directory_ids`."""
    assert UNASSIGNED == directory_ids.UNASSIGNED == uuid.UUID(int=1)


def test_a_directory_that_is_bad_at_the_start_is_offline_and_one_is_enough() -> None:
    files = FaultyFileSystem()
    manager = started(files, A, B)
    get(manager, NAMES[0])
    append(get(manager, NAMES[1]))
    manager.close(broker_epoch=1)
    files.broken_directory = A
    reports: list[str] = []
    again = LogManager(files, A, B, report=reports.append)
    again.start()
    assert [each.path for each in again.live] == [B]
    assert again.is_clean_start
    assert get(again, NAMES[1]).log_end_offset == 1
    assert reports == [
        "WARN Failed to create or validate data directory /disk/a: [Errno 5] Input/output error: '/disk/a'"
    ]
    files.broken_directory = "/disk"
    with pytest.raises(KafkaStorageError, match="none of the specified log dirs from /disk/a, /disk/b can be"):
        LogManager(files, A, B).start()


def test_a_partition_whose_directory_cannot_be_made_goes_to_the_next() -> None:
    files = FaultyFileSystem()
    manager = started(files, A, B)
    files.broken_directory = A
    get(manager, NAMES[0])
    assert held(manager) == {A: [], B: [0]}
    assert [each.path for each in manager.failing] == [A]


def test_the_only_directory_never_goes_offline() -> None:
    files = FaultyFileSystem()
    manager = started(files, A)
    log = get(manager, NAMES[0])
    files.broken_directory = A
    with pytest.raises(KafkaStorageError):
        append(log)
    assert manager.failing == {}
    files.broken_directory = None
    append(log)
    assert log.log_end_offset == 1


def test_of_a_partition_in_two_directories_the_one_that_reaches_further_is_kept(tmp_path: Path) -> None:
    for folder, count in (("a", 2), ("b", 5)):
        manager = started(RealFileSystem(), str(tmp_path / folder))
        for _ in range(count):
            append(get(manager, NAMES[0]))
        manager.close(broker_epoch=1)
    manager = started(RealFileSystem(), str(tmp_path / "a"), str(tmp_path / "b"))
    assert get(manager, NAMES[0]).log_end_offset == 5
    assert [each.name[-6:] for each in (tmp_path / "a").glob("t-0*")] == ["-stray"]
    assert [each.name for each in (tmp_path / "b").glob("t-0*")] == ["t-0"]


@pytest.mark.parametrize("seed", range(12))
def test_a_moving_replica_is_the_same_in_the_end_whatever_happens_to_it_meanwhile(seed: int) -> None:
    rng = random.Random(seed)
    files = FaultyFileSystem()
    manager = started(files, A, B)
    config = LogConfig(segment_bytes=600, segment_index_bytes=1024, index_interval_bytes=64, file_delete_delay_ms=0)
    log = get(manager, NAMES[0], config)
    epoch = 0
    for _ in range(rng.randrange(20)):
        append(log, epoch, rng.randbytes(rng.randrange(60)))
    move = ReplicaMove(log, manager.begin_future(NAMES[0], manager.directories[1], NOW_MS))
    for _ in range(60):
        action = rng.randrange(10)
        if action < 4:
            append(log, epoch, rng.randbytes(rng.randrange(60)))
        elif action == 4:
            log.truncate_to(rng.randint(log.log_start_offset, log.log_end_offset), NOW_MS)
            epoch += rng.randint(1, 2)
            log.assign_epoch_start_offset(epoch)
        elif action == 5:
            log.increment_log_start_offset(rng.randint(log.log_start_offset, log.high_watermark))
            log.delete_retention_segments(NOW_MS)
        elif action == 6 and rng.random() < 0.1:
            log.truncate_fully_and_start_at(log.log_end_offset + 5, NOW_MS)
        else:
            move.step(NOW_MS)
    while move.step(NOW_MS):
        pass
    expected = content(log), log.log_start_offset, log.log_end_offset, log.high_watermark
    move.future.flush(NOW_MS)
    new = manager.promote_future(NAMES[0], NOW_MS)
    assert (content(new), new.log_start_offset, new.log_end_offset, new.high_watermark) == expected, f"seed {seed}"
    manager.tasks.run_due(NOW_MS)
    assert held(manager) == {A: [], B: [0]}
    assert [entry.name for entry in files.list_directory(A) if entry.is_directory] == []
    manager.close(broker_epoch=1)
    again = get(started(files, A, B), NAMES[0], config)
    assert (content(again), again.log_start_offset, again.log_end_offset) == expected[:3], f"seed {seed}"


def moved(files: FaultyFileSystem, manager: LogManager) -> None:
    """Move the replica to the second directory, from wherever its move is."""
    log = manager.logs[NAMES[0]]
    if manager.directory_of(log).path == B:
        return
    move = ReplicaMove(log, manager.begin_future(NAMES[0], manager.directories[1], NOW_MS))
    while move.step(NOW_MS):
        pass
    move.future.flush(NOW_MS)
    manager.promote_future(NAMES[0], NOW_MS)
    manager.tasks.run_due(NOW_MS)


@pytest.mark.slow
def test_a_move_survives_a_crash_at_every_operation_of_it() -> None:
    """With what was synced only: nothing is lost, and the partition lies in one directory."""
    config = LogConfig(segment_bytes=300, segment_index_bytes=1024, file_delete_delay_ms=0)
    at = 0
    while True:
        files = FaultyFileSystem()
        manager = started(files, A, B)
        log = get(manager, NAMES[0], config)
        for number in range(8):
            append(log, 0, b"%d" % number)
        log.flush(NOW_MS)
        manager.checkpoint_recovery_points()
        expected = content(log)
        files.fail_after(at, Fault(is_crash=True))
        try:
            moved(files, manager)
        except InjectedCrash:
            files.crash()
        else:
            files.heal()
            break
        again = started(files, A, B)
        assert content(get(again, NAMES[0], config)) == expected, f"crashed at operation {at}"
        assert sum(NAMES[0] in each.residents for each in again.directories) == 1
        moved(files, again)
        assert content(again.logs[NAMES[0]]) == expected
        assert held(again) == {A: [], B: [0]}
        assert not any(filenames.parse_future_directory(each.name) for each in files.list_directory(B))
        at += 1
    assert at > 20


def test_an_interrupted_move_is_known_at_the_next_start_and_goes_with_its_topic() -> None:
    files = FaultyFileSystem()
    manager = started(files, A, B)
    for _ in range(3):
        append(get(manager, NAMES[0]))
    move = ReplicaMove(manager.logs[NAMES[0]], manager.begin_future(NAMES[0], manager.directories[1], NOW_MS))
    move.step(NOW_MS)
    manager.close(broker_epoch=1)
    again = started(files, A, B)
    assert again.interrupted_futures() == []
    get(again, NAMES[0])
    ((name, directory),) = again.interrupted_futures()
    assert (name, directory.path) == (NAMES[0], B)
    assert again.begin_future(name, directory, NOW_MS).log_end_offset == 3
    assert again.interrupted_futures() == []
    again.delete(NAMES[0], NOW_MS)
    again.tasks.run_due(NOW_MS + 60_000)
    assert held(again) == {A: [], B: []}
    assert not any(entry.is_directory for path in (A, B) for entry in files.list_directory(path))


def test_work_that_waits_does_not_touch_a_directory_that_is_offline() -> None:
    files = FaultyFileSystem()
    manager = started(files, A, B)
    for name in NAMES[:4]:
        get(manager, name)
    manager.delete(NAMES[1], NOW_MS)
    manager.delete(NAMES[0], NOW_MS)
    manager.note_failure(manager.directories[1], OSError("gone"))
    manager.take_offline(manager.directories[1])
    assert manager.tasks.run_due(NOW_MS + 60_000) == 2
    assert [entry.name for entry in files.list_directory(A) if entry.is_directory] == ["t-2"]
    assert [entry.name[:4] for entry in files.list_directory(B) if entry.is_directory] == ["t-1.", "t-3"]


def test_a_batch_that_is_larger_than_segments_may_be_now_moves_too() -> None:
    manager = started(FaultyFileSystem(), A, B)
    log = get(manager, NAMES[0])
    for size in (10, 5000, 10):
        append(log, 0, bytes(size))
    log.update_config(LogConfig(segment_bytes=1024))
    move = ReplicaMove(log, manager.begin_future(NAMES[0], manager.directories[1], NOW_MS))
    while move.step(NOW_MS):
        pass
    assert content(move.future) == content(log)
    assert move.future.config.segment_bytes == 1024
