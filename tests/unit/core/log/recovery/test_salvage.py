"""Salvage of damaged partitions: what is sound is copied, whatever else is damaged, and the rest is named as lost."""

from __future__ import annotations

import pathlib
import random
import shutil

import pytest
from support import recorded_segments

from kafkatools.core.log.dump.damage import Finding
from kafkatools.core.log.dump.file_dump import FileDump
from kafkatools.core.log.dump.options import DumpOptions
from kafkatools.core.log.files import RealFileSystem
from kafkatools.core.log.partition.log_config import LogConfig
from kafkatools.core.log.partition.partition_log import PartitionLog
from kafkatools.core.log.recovery.salvage import SalvagedPartition, salvage_partition
from kafkatools.core.records.batch import read_batches

LOGS = sorted(
    {
        name
        for archive, name, _ in recorded_segments.names()
        if archive in ("codecs", "compacted", "damaged-indexes", "damaged-logs", "message-sets", "recovery", "topics")
        and not name.startswith(("broker-root", "command-line"))
    }
)


def salvage(source: pathlib.Path, target: pathlib.Path, *, deep: bool = False) -> SalvagedPartition:
    return salvage_partition(str(source), str(target), deep=deep)


def without_lost(path: pathlib.Path, result: SalvagedPartition) -> bytes:
    """The bytes of a segment that are in no lost range."""
    data, position, kept = path.read_bytes(), 0, b""
    for lost in result.lost:
        if lost.file == str(path):
            kept += data[position : lost.position]
            position = lost.position + lost.size_bytes
    return kept + data[position:]


@pytest.mark.parametrize("name", LOGS)
def test_a_recording_is_sound_when_it_is_salvaged(name: str, tmp_path: pathlib.Path) -> None:
    source, target = recorded_segments.log_directory(name), tmp_path / "t-0"
    result = salvage(source, target, deep=True)
    copied = {path.name for path in target.glob("*.log")}
    for path in source.glob("*.log"):
        data = (target / path.name).read_bytes() if path.name in copied else b""
        kept = without_lost(path, result)
        assert kept.startswith(data)
        assert kept[len(data) :].strip(b"\0") == b""  # space at the end that no batch has taken
    assert sum(path.stat().st_size for path in target.glob("*.log")) == result.size_bytes
    pytest.importorskip("numpy")
    from kafkatools.pipeline.jobs.check import check_here, files_to_check

    damages = [row for row in check_here(files_to_check([str(target)]), deep=True) if row.severity == "damage"]
    assert [row for row in damages if "epoch" not in row.problem] == []  # no checksum covers it


@pytest.mark.parametrize("name", [name for name in LOGS if not name.startswith(("damaged", "recovery", "unclean"))])
def test_nothing_of_a_sound_log_is_lost(name: str, tmp_path: pathlib.Path) -> None:
    source, target = recorded_segments.log_directory(name), tmp_path / "t-0"
    assert salvage(source, target, deep=True).lost == []
    for path in source.glob("*.log"):
        assert not path.stat().st_size or (target / path.name).read_bytes() == path.read_bytes()


def test_a_lost_range_has_bytes_and_offsets(tmp_path: pathlib.Path) -> None:
    source = recorded_segments.log_directory("damaged-zero-middle")
    (lost,) = salvage(source, tmp_path / "t-0").lost
    segment = pathlib.Path(lost.file).read_bytes()
    assert segment[lost.position : lost.position + lost.size_bytes].count(0) > 500
    before = list(read_batches(segment[: lost.position]))[-1]
    after = next(read_batches(segment[lost.position + lost.size_bytes :]))
    assert (lost.first_offset, lost.last_offset) == (before.last_offset + 1, after.base_offset - 1)
    assert "smaller than minimum record overhead" in lost.problem


@pytest.mark.parametrize("seed", range(24))
def test_every_batch_without_a_flipped_byte_is_copied(seed: int, tmp_path: pathlib.Path) -> None:
    chosen = random.Random(seed)
    source = tmp_path / "source-0"
    shutil.copytree(recorded_segments.log_directory(chosen.choice(["multi-segment", "txn-java", "compacted"])), source)
    untouched: list[bytes] = []
    for path in sorted(source.glob("*.log")):
        data = bytearray(path.read_bytes())
        flips = sorted(chosen.sample(range(len(data)), k=min(len(data), chosen.randrange(4))))
        position = 0
        for batch in read_batches(bytes(data)):
            end = position + batch.size_bytes
            if not any(position <= flip < end for flip in flips):
                untouched.append(bytes(data[position:end]))
            position = end
        for flip in flips:
            data[flip] ^= 1 << chosen.randrange(8)
        path.write_bytes(data)
    result = salvage(source, tmp_path / "t-0")
    copied = b"".join(path.read_bytes() for path in sorted((tmp_path / "t-0").glob("*.log")))
    place = 0
    for batch_bytes in untouched:
        place = copied.index(batch_bytes, place) + len(batch_bytes)
    assert result.size_bytes == len(copied)


def test_a_batch_with_a_wrong_base_offset_does_not_hide_those_after_it(tmp_path: pathlib.Path) -> None:
    source = tmp_path / "source-0"
    shutil.copytree(recorded_segments.log_directory("plain-java"), source)
    path = max(source.glob("*.log"))
    data = bytearray(path.read_bytes())
    batches = list(read_batches(bytes(data)))
    start = batches[0].size_bytes
    data[start + 4] ^= 0x40  # the base offset, which no checksum covers
    path.write_bytes(data)
    result = salvage(source, tmp_path / "t-0")
    (lost,) = [lost for lost in result.lost if lost.file == str(path)]
    assert (lost.position, lost.size_bytes) == (start, batches[1].size_bytes)
    assert (lost.first_offset, lost.last_offset) == (batches[1].base_offset, batches[1].last_offset)
    assert result.end_offset == batches[-1].last_offset + 1


def test_a_salvaged_log_is_loaded_whole(tmp_path: pathlib.Path) -> None:
    target = tmp_path / "t-0"
    result = salvage(recorded_segments.log_directory("damaged-zero-middle"), target)
    sizes = {path.name: path.stat().st_size for path in target.glob("*.log")}
    log = PartitionLog.open(str(target), LogConfig(), RealFileSystem())
    assert log.log_end_offset == result.end_offset
    log.close()
    assert {path.name: path.stat().st_size for path in target.glob("*.log")} == sizes


def test_the_indexes_match_the_batches(tmp_path: pathlib.Path) -> None:
    target = tmp_path / "t-0"
    salvage(recorded_segments.log_directory("damaged-truncated-mid-segment"), target)
    assert sorted(path.suffix for path in target.glob("*.*index"))
    findings: list[Finding] = []
    for path in sorted(target.glob("*.*index")):
        FileDump(DumpOptions(verify_index_only=True), _Silent(), findings.append).dump(str(path))
    assert findings == []


class _Silent:
    """Prints nothing of a dump."""

    def __getattr__(self, name: str) -> object:
        return lambda *arguments, **names: None


def test_a_missing_segment_and_an_unreadable_one_are_named(tmp_path: pathlib.Path) -> None:
    source = tmp_path / "source-0"
    shutil.copytree(recorded_segments.log_directory("multi-segment"), source)
    names = sorted(path.name for path in source.glob("*.log"))
    (source / names[1]).unlink()
    (source / names[1]).mkdir()
    result = salvage(source, tmp_path / "t-0")
    (lost,) = result.lost
    assert lost.file == str(source / names[1])
    assert "cannot be read" in lost.problem
    assert (lost.first_offset, lost.last_offset) == (int(names[1][:20]), int(names[2][:20]) - 1)
