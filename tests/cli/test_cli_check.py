"""kt check: findings without Spark, and the salvage of what is sound."""

from __future__ import annotations

import json
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator

import pytest
from support import recorded_segments
from support.kt import Ran, run_kt

from kafkatools.pipeline.jobs import check

DAMAGED = "damaged-zero-middle"
_NOBODY = 65534


@pytest.fixture
def damaged(tmp_path: pathlib.Path) -> pathlib.Path:
    """A log directory with a sound partition and a damaged one."""
    root = tmp_path / "data"
    shutil.copytree(recorded_segments.log_directory("multi-segment"), root / "sound-0")
    shutil.copytree(recorded_segments.log_directory(DAMAGED), root / "cold-0")
    return root


def kt_check(*words: object, status: int = 0) -> Ran:
    ran = run_kt("check", *map(str, words))
    assert ran.status == status, ran
    return ran


def rows(ran: Ran) -> dict[str, list[dict[str, object]]]:
    found: dict[str, list[dict[str, object]]] = {"finding": [], "lost": []}
    for line in ran.out.splitlines():
        row = json.loads(line)
        found[row.pop("type")].append(row)
    return found


def test_damage_ends_with_3_and_a_sound_partition_with_0(damaged: pathlib.Path) -> None:
    ran = kt_check(damaged / "sound-0")
    assert ran.out == "" and "0 damaged places, 0 warnings" in ran.err
    damages = [row for row in rows(kt_check(damaged, "--json", status=3))["finding"] if row["severity"] == "damage"]
    assert [row["position"] for row in damages if row["kind"] == "log"] == [4681]
    assert kt_check(f"log:{damaged}", status=3).out.count("cold-0") >= 1


def test_what_is_salvaged_is_sound_and_the_rest_is_listed(damaged: pathlib.Path, tmp_path: pathlib.Path) -> None:
    out = tmp_path / "salvaged"
    (lost,) = rows(kt_check(damaged, "--salvage", out, "--json", status=3))["lost"]
    assert [json.loads(line) for line in (out / "lost.jsonl").read_text().splitlines()] == [lost]
    assert sorted(path.name for path in out.iterdir()) == ["cold-0", "lost.jsonl", "sound-0"]
    for path in (damaged / "sound-0").glob("*.log"):
        assert (out / "sound-0" / path.name).read_bytes() == path.read_bytes()
    again = kt_check(out / "sound-0", out / "cold-0")
    assert "0 damaged places" in again.err


@pytest.mark.slow
def test_files_are_divided_among_processes(damaged: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = check.files_to_check([str(damaged)])
    alone = check.check_here(files)
    monkeypatch.setattr(check, "_LEAST_BYTES", 0)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    sizes: list[int] = []
    assert check.check_here(files, advance=sizes.append) == alone
    assert sum(sizes) == sum(file.size_bytes for file in files)


@pytest.mark.parametrize(
    ("words", "status", "message"),
    [
        ((), 2, "usage: kt check [OPTION]... DIRECTORY..."),
        (("{root}/nowhere",), 1, "{root}/nowhere: there is no such file or directory"),
        (("{root}/notes.txt",), 1, "{root}/notes.txt is not a segment, snapshot, transaction index or checkpoint"),
        (("{root}", "--engine", "fast"), 2, "--engine takes local or spark, not fast"),
        (("{root}", "--master", "local[1]"), 2, "--master needs --engine spark"),
        (("{root}", "--salvage", "{root}"), 2, "{root} is not empty; --salvage takes a new directory"),
        (("{root}/cold-0", "--salvage", "{root}/cold-0/out"), 2, "is in {root}/cold-0, which is to be salvaged"),
        (("{root}", "--salvage", "{root}/out"), 2, "is in {root}, which is to be salvaged"),
        (("{root}", "--salvage", ""), 2, "--salvage needs the name of a directory"),
        (("{root}", "--salvage", "{root}/cold-0/partition.metadata/out"), 2, "is in {root}, which is to be salvaged"),
        (("{root}", "--salvage", "/dev/null/out"), 1, "/dev/null/out cannot be created: Not a directory"),
        (("{root}", "{root}/../copy", "--salvage", "{root}/out"), 2, "are the same partition"),
        (("{root}", "--salvage", "{root}/out", "--engine", "spark"), 2, "--salvage cannot be used with --engine"),
        (("{root}/empty", "--salvage", "{root}/out"), 1, "{root}/empty contains no files of a log"),
    ],
)
def test_wrong_words_are_refused_before_anything_is_written(
    words: tuple[str, ...], status: int, message: str, damaged: pathlib.Path
) -> None:
    (damaged / "empty").mkdir()
    (damaged / "notes.txt").write_text("No file of a log.")
    shutil.copytree(damaged / "cold-0", damaged.parent / "copy" / "cold-0")
    before = sorted(damaged.rglob("*"))
    ran = kt_check(*(word.replace("{root}", str(damaged)) for word in words), status=status)
    assert message.replace("{root}", str(damaged)) in ran.err
    assert ran.out == ""
    assert sorted(damaged.rglob("*")) == before


@pytest.fixture
def guarded(damaged: pathlib.Path) -> Iterator[pathlib.Path]:
    """A log directory, read as a user for whom permissions count: they do not for root."""
    with tempfile.TemporaryDirectory(prefix="kt-check-") as root:
        data = pathlib.Path(root) / "data"
        shutil.copytree(damaged, data)
        kt_check(data, "--salvage", pathlib.Path(root) / "first", status=3)  # imports what is imported late
        if os.geteuid():
            yield data
            return
        for path in (data.parent, *data.parent.rglob("*")):
            os.chown(path, _NOBODY, -1)
        os.seteuid(_NOBODY)
        try:
            yield data
        finally:
            os.seteuid(0)


@pytest.mark.parametrize("mode", [0, 0o600], ids=["not listed", "listed only"])
def test_a_directory_that_cannot_be_read_is_damage_and_is_lost(mode: int, guarded: pathlib.Path) -> None:
    sound, out = guarded / "sound-0", guarded.parent / "out"
    sound.chmod(mode)
    try:
        found = rows(kt_check(guarded, "--salvage", out, "--json", status=3))
        alone = kt_check(sound, status=3)
    finally:
        sound.chmod(0o755)
    for kind in ("finding", "lost"):
        [first, *_] = [row for row in found[kind] if str(row["file"]).startswith(str(sound))]
        assert first["problem"] == "cannot be read: Permission denied", kind
    assert (out / "cold-0").is_dir()
    assert "cannot be read: Permission denied" in alone.out


def test_files_that_cannot_be_read_are_named_and_the_rest_is_checked(guarded: pathlib.Path) -> None:
    segment = guarded / "sound-0" / f"{309:020d}.log"
    epochs = guarded / "sound-0" / "leader-epoch-checkpoint"
    for path in (segment, epochs):
        path.chmod(0)
    found = rows(kt_check(guarded, "--json", status=3))["finding"]
    unreadable = [row for row in found if row["severity"] == "damage" and "sound-0" in str(row["file"])]
    assert [(row["file"], row["problem"]) for row in unreadable] == [
        (str(path), "cannot be read: Permission denied") for path in (segment, epochs)
    ]


@pytest.mark.slow
def test_a_full_disk_leaves_no_unfinished_partition(damaged: pathlib.Path, tmp_path: pathlib.Path) -> None:
    """A file may have 4 KiB: the segments of the partition are longer. Without -B the bytecode that Python writes would
    be cut off, too, and kept."""
    small = tmp_path / "small"
    shutil.copytree(damaged, small / "data")
    command = [sys.executable, "-B", "-m", "kafkatools", "check", str(small / "data"), "--salvage", str(small / "out")]
    ran = subprocess.run(
        command, capture_output=True, check=False, timeout=60,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (4096, resource.RLIM_INFINITY)),
    )  # fmt: skip
    error, hint = ran.stderr.decode().splitlines()[-2:]
    assert ran.returncode == 1 and "File too large" in error, ran
    assert hint.startswith(f"{small / 'out'} has 0 of 2 partitions completely. Run the command again with a new ")
    assert list((small / "out").iterdir()) == []
