"""The door to the disk: appends are whole or not at all, replacements are atomic, descriptors are few."""

import errno
import gc
import os
from pathlib import Path
from typing import Any

import pytest
from support.faulty_files import Fault, FaultyFileSystem, InjectedCrash

from kafkatools.core.log.files import RealFileSystem, write_atomically
from kafkatools.core.log.partition.log_config import LogConfig


def test_an_append_that_the_disk_cuts_short_is_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = RealFileSystem().open(str(tmp_path / "a.log"), create=True)
    real = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, position: real(fd, memoryview(data)[:3], position))
    assert file.append(b"0123456789") == 0
    assert file.append(memoryview(b"ab")) == 10
    assert (tmp_path / "a.log").read_bytes() == b"0123456789ab"


def test_an_append_that_fails_half_way_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = RealFileSystem().open(str(tmp_path / "a.log"), create=True)
    file.append(b"before")
    real, calls = os.pwrite, []

    def half(fd: int, data: Any, position: int) -> int:
        calls.append(position)
        if len(calls) > 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(fd, memoryview(data)[:3], position)

    monkeypatch.setattr(os, "pwrite", half)
    with pytest.raises(OSError, match="No space left"):
        file.append(b"0123456789")
    assert file.size_bytes == 6
    assert (tmp_path / "a.log").read_bytes() == b"before"


def test_a_missing_file_is_missing(tmp_path: Path) -> None:
    files = RealFileSystem()
    with pytest.raises(FileNotFoundError):
        files.open(str(tmp_path / "none"))
    assert not files.remove(str(tmp_path / "none"))


def test_a_file_whose_descriptor_was_taken_opens_again(tmp_path: Path) -> None:
    files = RealFileSystem(max_open_files=2)
    opened = [files.open(str(tmp_path / str(number)), create=True) for number in range(6)]
    for number, file in enumerate(opened * 2):
        file.append(b"%d" % number)
    assert [file.read_at(0, 10) for file in opened] == [b"06", b"17", b"28", b"39", b"410", b"511"]
    assert files.open_file_count <= 2
    for file in opened:
        file.close()
    assert files.open_file_count == 0


def test_a_file_system_that_is_dropped_lets_its_descriptors_go(tmp_path: Path) -> None:
    def held() -> list[str]:
        links = (f"/proc/self/fd/{each}" for each in os.listdir("/proc/self/fd"))
        return [path for path in map(os.path.realpath, links) if path.startswith(str(tmp_path))]

    files = RealFileSystem()
    opened = [files.open(str(tmp_path / str(number)), create=True) for number in range(3)]
    for file in opened:
        file.append(b"a")
    assert len(held()) == 3
    del files, opened, file
    gc.collect()
    assert held() == []


@pytest.mark.parametrize("operation", range(6))
def test_an_atomic_replacement_leaves_the_old_or_the_new(operation: int) -> None:
    files = FaultyFileSystem()
    files.make_directory("/d")
    write_atomically(files, "/d/checkpoint", b"old")
    files.fail_after(operation, Fault(is_crash=True, short_write_bytes=1))
    try:
        write_atomically(files, "/d/checkpoint", b"new")
    except InjectedCrash:
        files.crash()
    assert files.read_bytes("/d/checkpoint") in (b"old", b"new")


def test_what_was_not_synced_is_gone_after_a_crash() -> None:
    files = FaultyFileSystem()
    files.make_directory("/d")
    synced, unsynced = files.open("/d/synced", create=True), files.open("/d/unsynced", create=True)
    synced.append(b"kept")
    synced.flush()
    unsynced.append(b"lost")
    files.fsync_directory("/d")
    synced.append(b" lost")
    files.open("/d/nameless", create=True).flush()
    files.crash()
    assert files.read_bytes("/d/synced") == b"kept"
    assert files.read_bytes("/d/unsynced") == b""
    assert not files.exists("/d/nameless")


def test_settings_come_from_dotted_names_and_their_text() -> None:
    config = LogConfig.from_values(
        {
            "cleanup.policy": "compact, delete",
            "segment.bytes": "1048576",
            "internal.segment.bytes": "600",
            "preallocate": "true",
            "retention.ms": -1,
            "min.insync.replicas": "2",
            "leader.replication.throttled.replicas": "0:1,1:2",
            "remote.storage.enable": "false",
            "compression.type": "zstd",
        }
    )
    assert config == LogConfig(
        cleanup_policy=frozenset({"compact", "delete"}),
        segment_bytes=600,
        preallocate=True,
        retention_ms=-1,
        min_insync_replicas=2,
        leader_replication_throttled_replicas=frozenset({"0:1", "1:2"}),
        compression_type="zstd",
    )
    assert (config.is_compacted, config.is_deleted, config.has_log_append_time) == (True, True, False)
