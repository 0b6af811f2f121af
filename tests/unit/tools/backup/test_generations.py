"""The state of an unfinished run: damage begins anew, and any other failure to read it is an error."""

from __future__ import annotations

import pathlib

import pytest

from kafkatools.exit_status import CommandError
from kafkatools.tools.backup import manifest
from kafkatools.tools.backup.generations import read_progress
from kafkatools.tools.backup.manifest import PROGRESS, Manifest, encode_manifest
from kafkatools.tools.backup.store import LocalStore


def test_damaged_progress_counts_as_none(tmp_path: pathlib.Path) -> None:
    store = LocalStore(str(tmp_path))
    assert read_progress(store) is None
    store.put(PROGRESS, encode_manifest(Manifest(1, "c", 0))[:-10])
    assert read_progress(store) is None


def test_progress_of_a_later_format_is_an_error(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LocalStore(str(tmp_path))
    monkeypatch.setattr(manifest, "FORMAT", 2)
    store.put(PROGRESS, encode_manifest(Manifest(1, "c", 0)))
    monkeypatch.undo()
    with pytest.raises(CommandError, match=r"progress.json has format 2"):
        read_progress(store)


def test_a_storage_that_fails_is_an_error(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LocalStore(str(tmp_path))
    store.put(PROGRESS, encode_manifest(Manifest(1, "c", 0)))

    def fail(name: str) -> None:
        raise CommandError(f"{name}: Input/output error", kind="STORAGE_FAILED")

    monkeypatch.setattr(store, "open", fail)
    with pytest.raises(CommandError, match="Input/output error"):
        read_progress(store)
