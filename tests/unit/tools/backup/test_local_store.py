"""Objects in a local directory: the names of new directories are durable before an object is."""

from __future__ import annotations

import errno
import fcntl
import os
import pathlib

import pytest

from kafkatools.exit_status import CommandError
from kafkatools.tools.backup import store
from kafkatools.tools.backup.cuts import write_cut
from kafkatools.tools.backup.store import LocalStore


def test_new_directories_are_synced_in_their_parents(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr(store, "sync_directory", synced.append)
    place = LocalStore(str(tmp_path / "a" / "b"), create=True)
    place.put("logs/t-0/0.log", b"x")
    place.put("logs/t-0/1.log", b"x")
    names = ["", "a", "a/b", "a/b/logs", "a/b/logs/t-0", "a/b/logs/t-0"]
    assert [pathlib.Path(path) for path in synced] == [tmp_path / name for name in names]


def test_what_a_store_creates_is_for_the_owner_only(tmp_path: pathlib.Path) -> None:
    umask = os.umask(0)
    try:
        place = LocalStore(str(tmp_path / "new"), create=True)
        place.put("logs/t-0/0.log", b"x")
        with place.lock():
            pass
    finally:
        os.umask(umask)
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.rglob("*")}
    assert modes == {"new": 0o700, "logs": 0o700, "t-0": 0o700, "0.log": 0o600, ".lock": 0o600}


def test_a_file_in_the_place_of_a_directory_is_an_error(tmp_path: pathlib.Path) -> None:
    place = LocalStore(str(tmp_path))
    (tmp_path / "logs").write_bytes(b"")
    with pytest.raises(CommandError, match="Not a directory"):
        place.put("logs/t-0/0.log", b"x")


def test_a_file_system_without_locks_is_named(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(descriptor: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    place = LocalStore(str(tmp_path))
    with place.lock(), pytest.raises(CommandError, match="Another kt backup is writing"), place.lock():
        pass
    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(CommandError, match="cannot be locked: No locks available"), place.lock():
        pass


def test_a_damaged_record_of_cuts_does_not_count_as_none(tmp_path: pathlib.Path) -> None:
    place = LocalStore(str(tmp_path))
    write_cut(place, [])
    (tmp_path / "cuts.json").write_bytes(b'{"v": 1, "topic_')
    with pytest.raises(CommandError, match=r"cuts\.json .* is damaged"):
        write_cut(place, [])
