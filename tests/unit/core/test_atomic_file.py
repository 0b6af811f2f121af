"""Files are replaced whole, and what was there stays when the new content cannot be written."""

from __future__ import annotations

import os
import resource
import stat
from pathlib import Path

import pytest

from kafkatools.core import atomic_file


@pytest.mark.parametrize("replace", [atomic_file.replace, atomic_file.replace_durably])
def test_a_file_has_the_new_content_and_nothing_is_beside_it(tmp_path: Path, replace: object) -> None:
    path = tmp_path / "state.json"
    path.write_bytes(b"a longer old content")
    assert callable(replace)
    replace(str(path), b"new")
    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["state.json"]


def test_a_private_file_is_private(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    atomic_file.replace(str(path), b"secret", mode=0o600)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_write_that_fails_leaves_the_old_content_alone(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    path.write_bytes(b"old")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, hard))  # Python ignores SIGXFSZ, so the write gets EFBIG
    try:
        with pytest.raises(OSError, match="File too large"):
            atomic_file.replace_durably(str(path), bytes(100_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert path.read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["state.json"]
