"""The directory of logs: clean and unclean starts, checkpoints, deletion, strays, the lock."""

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.faulty_files import Fault, FaultyFileSystem
from support.full_disk import FullDisk, watch_writes
from support.log_batches import NOW_MS, make_batch

from kafkatools.core.errors import KafkaStorageError
from kafkatools.core.log.directory_lock import DirectoryLock
from kafkatools.core.log.files import FileSystem, RealFileSystem, RealLogFile
from kafkatools.core.log.format.filenames import TopicPartition
from kafkatools.core.log.partition.log_config import LogConfig
from kafkatools.core.log.partition.log_manager import LogManager
from kafkatools.core.log.partition.partition_log import PartitionLog

TOPIC_ID = "5bgrR_PIS02H3Z7S0u6hOQ"
OTHER_ID = "oQstO7U8QOOYtJcZun6K8A"
NAME = TopicPartition("t", 0)


def started(files: FileSystem, directory: str) -> LogManager:
    manager = LogManager(files, directory)
    manager.start()
    return manager


def get(manager: LogManager, name: TopicPartition = NAME, topic_id: str = TOPIC_ID) -> PartitionLog:
    return manager.get_or_create(name, topic_id, LogConfig(), NOW_MS)


def append(log: PartitionLog, count: int = 1) -> None:
    for _ in range(count):
        log.append_as_leader(memoryview(make_batch()), leader_epoch=0, now_ms=NOW_MS)
    log.update_high_watermark(log.log_end_offset)


def test_a_clean_stop_leaves_marker_and_checkpoints_and_the_next_start_trusts_them(tmp_path: Path) -> None:
    files = RealFileSystem()
    manager = started(files, str(tmp_path))
    append(get(manager), 5)
    get(manager).increment_log_start_offset(2)
    append(get(manager, TopicPartition("a-b", 11)), 1)
    manager.close(broker_epoch=12)
    assert (tmp_path / ".kafka_cleanshutdown").read_text() == '{"version":0,"brokerEpoch":12}'
    assert (tmp_path / "recovery-point-offset-checkpoint").read_text() == "0\n2\na-b 11 1\nt 0 5\n"
    assert (tmp_path / "replication-offset-checkpoint").read_text() == "0\n2\na-b 11 1\nt 0 5\n"
    assert (tmp_path / "log-start-offset-checkpoint").read_text() == "0\n1\nt 0 2\n"
    again = started(files, str(tmp_path))
    assert again.is_clean_start and not (tmp_path / ".kafka_cleanshutdown").exists()
    assert (again.last_broker_epoch, manager.last_broker_epoch) == (12, -1)
    assert sorted([name for name, _ in again.partition_paths()]) == [TopicPartition("a-b", 11), NAME]
    log = get(again)
    assert (log.log_start_offset, log.log_end_offset, log.recovery_point) == (2, 5, 5)


def test_without_the_marker_damage_beyond_the_recovery_point_is_cut(tmp_path: Path) -> None:
    files = RealFileSystem()
    manager = started(files, str(tmp_path))
    append(get(manager), 5)
    manager.checkpoint_recovery_points()
    segment = tmp_path / "t-0" / "00000000000000000000.log"
    data = bytearray(segment.read_bytes())
    data[-1] ^= 1
    segment.write_bytes(data)
    again = started(files, str(tmp_path))
    assert not again.is_clean_start
    assert again.last_broker_epoch == -1
    assert get(again).log_end_offset == 4


def test_a_damaged_checkpoint_only_costs_a_longer_recovery(tmp_path: Path) -> None:
    files = RealFileSystem()
    manager = started(files, str(tmp_path))
    append(get(manager), 3)
    (tmp_path / "recovery-point-offset-checkpoint").write_bytes(b"\xff\x00garbage")
    again = started(files, str(tmp_path))
    assert get(again).log_end_offset == 3


def test_the_recorded_root_opens_with_its_offsets(golden: Callable[[str], Path]) -> None:
    root = golden("broker-root") / "log"
    manager = started(RealFileSystem(), str(root))
    assert manager.is_clean_start
    ends = {}
    for name, _ in list(manager.partition_paths()):
        directory = root / f"{name.topic}-{name.partition}"
        topic_id = (directory / "partition.metadata").read_text().split()[-1]
        ends[name.partition] = get(manager, name, topic_id).log_end_offset
    assert ends == {0: 20, 1: 40, 2: 0}


def test_a_deleted_partition_is_renamed_then_removed(tmp_path: Path) -> None:
    manager = started(RealFileSystem(), str(tmp_path))
    append(get(manager))
    manager.delete(NAME, NOW_MS)
    assert not (tmp_path / "t-0").exists()
    (renamed,) = tmp_path.glob("t-0.*-delete")
    assert [name for name, _ in manager.partition_paths()] == []
    append(get(manager, topic_id=OTHER_ID))
    manager.tasks.run_due(NOW_MS + 59_999)
    assert renamed.exists()
    manager.tasks.run_due(NOW_MS + 60_000)
    assert not renamed.exists()
    assert get(manager).log_end_offset == 1


def test_a_deletion_that_a_stop_interrupted_is_finished_at_the_next_start(tmp_path: Path) -> None:
    manager = started(RealFileSystem(), str(tmp_path))
    append(get(manager))
    manager.delete(NAME, NOW_MS)
    started(RealFileSystem(), str(tmp_path))
    assert not list(tmp_path.glob("*-delete"))


def test_a_directory_of_an_older_topic_of_the_same_name_is_put_aside(tmp_path: Path) -> None:
    manager = started(RealFileSystem(), str(tmp_path))
    append(get(manager), 3)
    manager.close(broker_epoch=1)
    again = started(RealFileSystem(), str(tmp_path))
    assert get(again, topic_id=OTHER_ID).log_end_offset == 0
    (stray,) = tmp_path.glob("t-0.*-stray")
    assert (stray / "00000000000000000000.log").stat().st_size > 0
    assert [name for name, _ in again.partition_paths()] == [NAME]


def test_the_directory_of_an_older_topic_with_the_longest_name_is_put_aside(tmp_path: Path) -> None:
    longest = TopicPartition("n" * 249, 0)
    manager = started(RealFileSystem(), str(tmp_path))
    append(get(manager, longest))
    manager.close(broker_epoch=1)
    again = started(RealFileSystem(), str(tmp_path))
    assert get(again, longest, OTHER_ID).log_end_offset == 0
    (stray,) = tmp_path.glob("n*-stray")
    assert len(stray.name) == 255


class UnreadableLog(RealFileSystem):
    """Opens no file of one partition until it is readable."""

    is_readable = False

    def open(self, path: str, *, create: bool = False) -> RealLogFile:
        if not self.is_readable and "/b-0/" in path:
            raise OSError(errno.EIO, os.strerror(errno.EIO), path)
        return super().open(path, create=create)


def test_a_log_that_could_not_be_opened_keeps_its_checkpoints_and_is_recovered_later(tmp_path: Path) -> None:
    other = TopicPartition("b", 0)
    killed = started(RealFileSystem(), str(tmp_path))
    append(get(killed), 5)
    append(get(killed, other), 5)
    killed.logs[other].increment_log_start_offset(2)
    killed.checkpoint_start_offsets()
    segment = tmp_path / "b-0" / "00000000000000000000.log"
    data = bytearray(segment.read_bytes())
    data[-1] ^= 1
    segment.write_bytes(data)
    disk = UnreadableLog()
    manager = started(disk, str(tmp_path))
    get(manager)
    with pytest.raises(KafkaStorageError, match="Input/output error"):
        get(manager, other)
    manager.close(broker_epoch=1)
    disk.is_readable = True
    again = started(disk, str(tmp_path))
    log = get(again, other)
    assert (again.is_clean_start, log.log_start_offset, log.log_end_offset) == (False, 2, 4)
    again.close(broker_epoch=1)
    assert started(disk, str(tmp_path)).is_clean_start


def test_a_stop_that_fails_leaves_no_marker() -> None:
    files = FaultyFileSystem()
    files.make_directory("/data")
    manager = started(files, "/data")
    append(get(manager), 3)
    files.fail_after(0, Fault(is_permanent=True))
    with pytest.raises(KafkaStorageError):
        manager.close(broker_epoch=1)
    files.heal()
    again = started(files, "/data")
    assert not again.is_clean_start
    assert again.last_broker_epoch == -1
    assert get(again).log_end_offset == 3


def test_the_directory_of_a_new_partition_is_durable_before_it_is_used() -> None:
    files = FaultyFileSystem()
    files.make_directory("/data")
    manager = started(files, "/data")
    files.operations.clear()
    log = get(manager)
    manager.get_or_create(TopicPartition("another", 0), TOPIC_ID, LogConfig(), NOW_MS)
    manager.sync_names()
    assert files.operations.count("fsync-directory data") == 1  # once for both
    files.operations.clear()
    assert get(manager) is log
    manager.sync_names()
    assert files.operations == []


def test_flush_ms_flushes_what_waited_long_enough(tmp_path: Path) -> None:
    manager = started(RealFileSystem(), str(tmp_path))
    log = manager.get_or_create(NAME, TOPIC_ID, LogConfig(flush_ms=1000), NOW_MS)
    append(log, 2)
    manager.flush_due(NOW_MS + 999)
    assert log.recovery_point == 0
    manager.flush_due(NOW_MS + 1000)
    assert log.recovery_point == 2
    append(log)
    manager.flush_due(NOW_MS + 1999)
    assert log.recovery_point == 2
    manager.flush_due(NOW_MS + 2000)
    assert log.recovery_point == 3


def test_one_process_at_a_time_has_the_directory(tmp_path: Path) -> None:
    lock = DirectoryLock(str(tmp_path))
    script = f"from kafkatools.core.log.directory_lock import DirectoryLock; DirectoryLock({str(tmp_path)!r})"
    refused = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert refused.returncode != 0
    assert b"Failed to acquire lock on file .lock" in refused.stderr
    lock.release()
    allowed = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert allowed.returncode == 0


def test_a_checkpoint_is_written_again_only_when_an_offset_changed(tmp_path: Path) -> None:
    manager = started(RealFileSystem(), str(tmp_path))
    append(get(manager), 1)
    checkpoint = tmp_path / "replication-offset-checkpoint"
    manager.checkpoint_high_watermarks()
    first = checkpoint.stat().st_ino
    manager.checkpoint_high_watermarks()
    assert checkpoint.stat().st_ino == first
    append(get(manager), 1)
    manager.checkpoint_high_watermarks()
    assert checkpoint.read_text() == "0\n1\nt 0 2\n"


def test_a_log_that_cannot_roll_on_a_full_disk_keeps_no_other_from_making_room() -> None:
    files = FaultyFileSystem()
    files.make_directory("/logs")
    manager = started(files, "/logs")
    config = LogConfig(retention_ms=1, segment_bytes=100)
    first, second = (manager.get_or_create(TopicPartition(name, 0), TOPIC_ID, config, NOW_MS) for name in "ab")
    append(first)
    append(second, 3)
    assert (len(first.segments), len(second.segments)) == (1, 3)
    files.fail_after(0, Fault())
    with pytest.raises(KafkaStorageError, match="No space left"):
        manager.cleanup(NOW_MS + 10)
    assert (first.log_start_offset, second.log_start_offset) == (0, 3)


def test_retention_on_a_full_disk_deletes_closed_segments_of_a_log_that_cannot_roll(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = FullDisk()
    manager = started(disk, str(tmp_path))
    log = manager.get_or_create(NAME, TOPIC_ID, LogConfig(retention_ms=1, segment_bytes=100), NOW_MS)
    append(log, 3)
    watch_writes(disk, monkeypatch)
    disk.is_full = lambda path: path.endswith(".snapshot")
    with pytest.raises(KafkaStorageError, match="No space left"):
        manager.cleanup(NOW_MS + 10)
    assert (log.log_start_offset, log.segments.base_offsets) == (2, [2])
    disk.is_full = lambda path: False
    assert manager.cleanup(NOW_MS + 10) == 1
    assert (log.log_start_offset, log.segments.base_offsets) == (3, [3])
