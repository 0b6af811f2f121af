"""`check` of single files of the recorded directories: sound ones are silent, damaged ones are told where they are.

Where a copy was damaged is found by comparing its bytes with the source's; where batches begin is what Apache Kafka's
tool printed of the source (recorded from Apache Kafka 4.3.1).
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import shutil
import tracemalloc

import pytest
from support import recorded_segments

from kafkatools.pipeline.jobs.check_files import DAMAGE, check_segment, check_small_file
from kafkatools.pipeline.jobs.check_partition import check_partition

CASES = json.loads((recorded_segments.GOLDEN / "cases.json").read_text())
SOUND = [
    name
    for archive, directories in CASES.items()
    if not archive.startswith("damaged")
    for name in directories
    if name != "command-line"
]
SOURCES = ("plain-java", "multi-segment", "codec-gzip-java", "codec-lz4-java", "codec-snappy-java", "codec-zstd-java")
UNSEEN_INSIDE_SNAPPY = "damaged-bitflip-snappy-valid-crc"
"""The flipped bit is part of a value, and the checksum was made anew: nothing in the file tells of it."""
DAMAGED_LOGS = [
    name
    for name in CASES["damaged-logs"]
    if not name.startswith(("damaged-v0", "damaged-v1")) and name not in (UNSEEN_INSIDE_SNAPPY, "damaged-log-missing")
]
TOLD_LATER = {
    "damaged-batches-swapped": 5960,
    "damaged-batch-duplicated": 5969,
    "damaged-last-offset-delta-valid-crc": 3142,
    "damaged-leader-epoch": 4681,
}
"""The edited batch is sound by itself: the first one after it does not follow."""
INDEX_SUFFIXES = {".index", ".timeindex"}
HARMLESS_INDEXES = {
    "damaged-index-empty",
    "damaged-index-last-zero",
    "damaged-index-zero-tail",
    "damaged-timeindex-empty",
    "damaged-timeindex-zero-tail",
}
"""Apache Kafka's tool finds nothing in these either: what is not there is only slower to find."""


def check_tree(root: pathlib.Path, *, deep: bool = False) -> list[str]:
    """Everything found below a directory, as text."""
    found = []
    for directory in [root, *(path for path in root.rglob("*") if path.is_dir())]:
        facts = []
        for path in sorted(directory.iterdir()):
            if path.suffix == ".log":
                problems, told = check_segment(str(path), deep=deep)
                facts.append(told)
                found += problems
            elif path.suffix in (".snapshot", ".txnindex") or path.name.endswith(".checkpoint"):
                found += check_small_file(str(path))
        if facts:
            found += check_partition(str(directory), facts)
    return [f"{each.severity} {each.file} {each.problem}" for each in found]


@pytest.mark.parametrize("name", SOUND)
def test_sound_directories_are_silent(name: str) -> None:
    root = recorded_segments.log_directory(name)
    assert check_tree(root) == []
    assert check_tree(root, deep=True) == []


def source_of(damaged: pathlib.Path) -> tuple[pathlib.Path, bytes]:
    """The sound file a damaged one was made from: the one that shares most bytes with it."""
    data = damaged.read_bytes()
    candidates = [recorded_segments.log_directory(name) / damaged.name for name in SOURCES]
    there = [path for path in candidates if path.exists()]
    best = max(there, key=lambda path: first_difference(data, path.read_bytes()))
    return best, best.read_bytes()


def first_difference(one: bytes, other: bytes) -> int:
    """The first byte that is not the same."""
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def batch_starts(source: pathlib.Path) -> list[int]:
    """Where Apache Kafka's tool says that batches begin."""
    for dump in sorted((source.parent.parent / "expect").glob("log*.stdout")):
        text = dump.read_text(encoding="utf-8", errors="replace")
        _, found, rest = text.partition(f"Dumping {source.name}\n")
        if found and "baseOffset" in rest:
            return [int(each) for each in re.findall(r" position: (\d+) ", rest.partition("\nDumping ")[0])]
    raise AssertionError(f"no dump of {source}")


@pytest.mark.parametrize("name", DAMAGED_LOGS)
def test_damage_is_found_in_the_batch_that_was_edited(name: str) -> None:
    logs = [(path, *source_of(path)) for path in recorded_segments.log_directory(name).glob("*.log")]
    ((path, source, sound),) = [each for each in logs if each[0].read_bytes() != each[2]]
    data = path.read_bytes()
    edited = first_difference(data, sound)
    starts = [*batch_starts(source), len(sound)]
    start = max(at for at in starts if at <= edited)
    problems, _ = check_segment(str(path), deep=name.endswith("valid-crc"))
    found = [each for each in problems if each.severity == DAMAGE]
    places = {each.position for each in found if each.file == str(path)}
    if places:
        assert TOLD_LATER.get(name, start) in places, (start, places)
    else:
        assert {pathlib.Path(each.file).suffix for each in found} <= INDEX_SUFFIXES and found, found


@pytest.mark.parametrize("name", sorted(set(CASES["damaged-indexes"]) - HARMLESS_INDEXES))
def test_damaged_index_or_snapshot_is_named(name: str) -> None:
    root = recorded_segments.log_directory(name)
    problems = []
    for path in root.iterdir():
        if path.suffix == ".log":
            problems += check_segment(str(path))[0]
        elif path.suffix in (".snapshot", ".txnindex"):
            problems += check_small_file(str(path))
    kind = "index" if name.startswith("damaged-indexes") else name.split("-")[1]
    assert any(each.kind == kind and each.severity == DAMAGE for each in problems), problems


@pytest.mark.parametrize(("size_bytes", "problems"), [((1 << 31) - 8, 0), (1 << 33, 1)], ids=["largest", "too-large"])
def test_zeros_of_a_sparse_index_are_not_read(tmp_path: pathlib.Path, size_bytes: int, problems: int) -> None:
    directory = shutil.copytree(recorded_segments.log_directory("plain-java"), tmp_path / "copy")
    index = next(directory.glob("*.index"))
    os.truncate(index, size_bytes)
    tracemalloc.start()
    try:
        found = check_segment(str(index.with_suffix(".log")))[0]
        assert tracemalloc.get_traced_memory()[1] < 64 << 20
    finally:
        tracemalloc.stop()
    assert [(each.file, each.kind, each.severity) for each in found] == [(str(index), "index", DAMAGE)] * problems


@pytest.mark.parametrize("name", ["damaged-v0-crc", "damaged-v1-gzip-crc"])
def test_message_sets_are_checked_too(name: str) -> None:
    (path,) = recorded_segments.log_directory(name).glob("*.log")
    problems, _ = check_segment(str(path))
    assert any(each.problem == "the checksum is wrong" for each in problems)
