"""kt count, kt top-keys and kt diff in this process: wrong numbers and wrong names."""

from __future__ import annotations

import os
import pathlib
import shutil

import pytest
from support import recorded_segments
from support.kt import run_kt

pytest.importorskip("duckdb")


@pytest.fixture
def sound(tmp_path: pathlib.Path) -> pathlib.Path:
    directory = tmp_path / "sound-0"
    shutil.copytree(recorded_segments.log_directory("multi-segment"), directory)
    return directory


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("diff", "log:{}", "log:{}", "--limit", "-1"), "--limit -1 must be at least 0"),
        (("top-keys", "log:{}", "--top", "-3"), "--top -3 must be at least 0"),
    ],
)
def test_a_negative_number_of_rows_is_refused(words: tuple[str, ...], message: str, sound: pathlib.Path) -> None:
    ran = run_kt(*(word.format(sound) for word in words))
    assert (ran.status, ran.out) == (2, "")
    assert message in ran.err


def test_one_partition_is_singular(sound: pathlib.Path) -> None:
    assert run_kt("count", f"log:{sound}").err.startswith("1 partition, records ")


@pytest.mark.parametrize("command", ["count", "top-keys"])
def test_a_directory_name_that_is_not_utf8_is_refused(command: str, sound: pathlib.Path) -> None:
    os.rename(os.fsencode(sound), os.fsencode(sound.parent) + b"/x\xff-0")
    ran = run_kt(command, f"log:{sound.parent}")
    assert ran.status == 1
    assert b"x\xff-0: the name of the directory is not UTF-8, so it is no partition of a topic" in ran.stderr
