"""kt dump-log compares a segment with the files beside it, and answers soon for files that are larger than any."""

from __future__ import annotations

import os
import pathlib
import shutil
import struct

import pytest
from support import recorded_segments, segment_flips
from support.kt import Ran, run_kt
from support.segment_flips import Segment

from kafkatools.exit_status import ExitStatus

LOG = "00000000000000000152.log"


def dumped(segment: Segment, *, base_offset: int | None = None, epoch: int | None = None, batch: int = -1) -> Ran:
    """The dump of a segment with another base offset or leader epoch in one batch."""
    position = segment.batches[batch].position
    with open(segment.path, "r+b") as file:
        if base_offset is not None:
            file.seek(position)
            file.write(struct.pack(">q", base_offset))
        if epoch is not None:
            file.seek(position + segment_flips.EPOCH_START)
            file.write(struct.pack(">i", epoch))
    return run_kt("dump-log", "--files", segment.path.name, cwd=segment.path.parent)


def assert_found(ran: Ran, *said: str) -> None:
    for words in said:
        assert words in ran.err
    assert ran.status is ExitStatus.FINDINGS


def test_last_batch_may_not_reach_into_the_next_segment(tmp_path: pathlib.Path) -> None:
    segment = segment_flips.write_segment(tmp_path, "none", "followed")
    last = segment.batches[-1]
    ran = dumped(segment, base_offset=last.offset + 1)
    assert_found(ran, f"at byte {last.position}: last offset", f"next segment begins after offset {last.gap[1] - 1}")


def test_log_that_was_closed_ended_where_its_snapshot_was_taken(tmp_path: pathlib.Path) -> None:
    segment = segment_flips.write_segment(tmp_path, "none", "stopped")
    last = segment.batches[-1]
    ran = dumped(segment, base_offset=last.offset + 4096)
    assert_found(ran, f"at byte {last.position}: offsets {last.offset + 4096}", f"the log ended at {last.gap[1]}")


def test_no_segment_reaches_beyond_its_relative_offsets(tmp_path: pathlib.Path) -> None:
    segment = segment_flips.write_segment(tmp_path, "none", "alone")
    ran = dumped(segment, base_offset=segment_flips.FIRST_OFFSET + 2**31)
    assert_found(ran, "a segment can hold up to offset 2147484147")


@pytest.mark.parametrize(("batch", "epoch", "due"), [(0, 2, 3), (-1, 73, 9), (3, 4, 3), (-1, 8, 9)])
def test_leader_epochs_are_those_of_the_checkpoint(tmp_path: pathlib.Path, batch: int, epoch: int, due: int) -> None:
    segment = segment_flips.write_segment(tmp_path, "none", "stopped")
    ran = dumped(segment, epoch=epoch, batch=batch)
    assert_found(ran, f"leader epoch {epoch} where leader-epoch-checkpoint has {due}")


def test_the_same_wrong_leader_epoch_is_named_once_for_consecutive_batches(tmp_path: pathlib.Path) -> None:
    segment = segment_flips.write_segment(tmp_path, "none", "stopped")
    for batch in (-3, -2):
        dumped(segment, epoch=73, batch=batch)
    ran = dumped(segment, epoch=73, batch=-1)
    assert ran.err.count("leader epoch 73 where leader-epoch-checkpoint has 9") == 1
    ran = dumped(segment, epoch=9, batch=-2)
    assert ran.err.count("leader epoch 73 where leader-epoch-checkpoint has 9") == 2


def test_next_segment_shows_a_leader_epoch_that_is_too_high(tmp_path: pathlib.Path) -> None:
    segment = segment_flips.write_segment(tmp_path, "none", "followed")
    (tmp_path / "leader-epoch-checkpoint").unlink()
    assert_found(dumped(segment, epoch=11), "leader epoch 11 at the end, 9 where", f"{segment.batches[-1].gap[1]}.log")


def test_index_shows_the_offset_of_the_batch_that_it_names_last(tmp_path: pathlib.Path) -> None:
    segment = segment_flips.write_segment(tmp_path, "none", "alone")
    last = segment.batches[-1]
    entry = struct.pack(">ii", last.offset + segment_flips.RECORDS - 1 - segment_flips.FIRST_OFFSET, last.position)
    segment.path.with_suffix(".index").write_bytes(entry + bytes(4096))
    assert dumped(segment).status is ExitStatus.OK
    assert_found(dumped(segment, base_offset=last.offset + 64), f"{segment.path.stem}.index has {last.offset + 19}")


def test_checkpoint_that_cannot_be_read_is_a_finding(tmp_path: pathlib.Path) -> None:
    segment = segment_flips.write_segment(tmp_path, "none", "stopped")
    (tmp_path / "leader-epoch-checkpoint").write_bytes(b"0\n2\n3 500\n")
    assert_found(dumped(segment), "leader-epoch-checkpoint: cannot be read: Expected 2 entries")


def test_checkpoint_without_epochs_is_sound(tmp_path: pathlib.Path) -> None:
    segment = segment_flips.write_segment(tmp_path, "none", "stopped")
    (tmp_path / "leader-epoch-checkpoint").write_bytes(b"")
    assert dumped(segment).status is ExitStatus.OK


def test_one_wrong_offset_is_not_reported_for_every_batch_behind_it(tmp_path: pathlib.Path) -> None:
    segment = segment_flips.write_segment(tmp_path, "none", "followed")
    ran = dumped(segment, base_offset=10**12, batch=0)
    assert len(ran.err.splitlines()) == 2


@pytest.mark.parametrize("name", sorted({name for _, name, _ in recorded_segments.names() if "damaged" not in name}))
def test_sound_directories_of_apache_kafka_give_no_finding(name: str) -> None:
    if name == "command-line":  # holds files that are no segments on purpose
        return
    ran = run_kt("dump-log", "--files", ".", cwd=recorded_segments.log_directory(name))
    assert (ran.status, [line for line in ran.err.splitlines() if ".log" in line and "onsecutive" not in line]) == (
        0,
        [],
    )


def test_segment_above_two_gibibytes_is_dumped_whole_and_reported(tmp_path: pathlib.Path) -> None:
    source = recorded_segments.log_directory("multi-segment") / LOG
    shutil.copy(source, tmp_path)
    batch = source.read_bytes()[: first_batch_bytes(source)]
    with open(tmp_path / LOG, "r+b") as file:
        file.seek(3 << 30)
        file.write(batch)
    ran = run_kt("dump-log", "--files", LOG, cwd=tmp_path)
    assert f"The size of segment {LOG} ({(3 << 30) + len(batch)}) is larger than the maximum allowed" in ran.err
    assert f"bytes lost, continuing at byte {3 << 30}" in ran.err
    assert f" position: {3 << 30} " in ran.out
    assert ran.status is ExitStatus.FINDINGS
    stopped = run_kt("dump-log", "--files", LOG, "--stop-at-damage", cwd=tmp_path)
    assert stopped.out == f"Dumping {LOG}\nLog starting offset: 152\n"


def first_batch_bytes(path: pathlib.Path) -> int:
    """The bytes of a file's first batch."""
    return 12 + int.from_bytes(path.read_bytes()[8:12], "big")


def test_tebibyte_of_zeros_is_answered_at_once(tmp_path: pathlib.Path) -> None:
    (tmp_path / LOG).touch()
    os.truncate(tmp_path / LOG, 1 << 40)
    ran = run_kt("dump-log", "--files", LOG, cwd=tmp_path)
    assert f"(1099511627776) is larger than the maximum allowed segment size of {2**31 - 1}" in ran.err
    assert f"Found record size 0 smaller than minimum record overhead (14) in file {LOG}" in ran.err
    assert ran.status is ExitStatus.FINDINGS


@pytest.mark.parametrize(
    ("suffix", "size", "said"),
    [
        (".index", 8 << 30, "Size exceeds Integer.MAX_VALUE"),
        (".timeindex", 8 << 30, "Size exceeds Integer.MAX_VALUE"),
        (".snapshot", 8 << 30, "Required array size too large"),
        (".txnindex", 8 << 30, "aborted transactions where a log of 16345 bytes can have"),
    ],
)
def test_files_larger_than_any_are_refused_unread(tmp_path: pathlib.Path, suffix: str, size: int, said: str) -> None:
    for path in recorded_segments.log_directory("multi-segment").glob("00000000000000000152.*"):
        shutil.copy(path, tmp_path)
    name = LOG.replace(".log", suffix)
    (tmp_path / name).touch()
    os.truncate(tmp_path / name, size)
    ran = run_kt("dump-log", "--files", name, cwd=tmp_path)
    assert said in ran.err
    assert ran.out == f"Dumping {name}\n"
    assert ran.status is ExitStatus.FINDINGS


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_zeros_behind_the_entries_of_an_index_are_not_read(tmp_path: pathlib.Path, suffix: str) -> None:
    for path in recorded_segments.log_directory("multi-segment").glob("00000000000000000152.*"):
        shutil.copy(path, tmp_path)
    name = LOG.replace(".log", suffix)
    whole = run_kt("dump-log", "--files", name, cwd=tmp_path)
    os.truncate(tmp_path / name, (1 << 30) - (1 << 30) % 24)
    ran = run_kt("dump-log", "--files", name, cwd=tmp_path)
    assert (ran.out, ran.status) == (whole.out, ExitStatus.OK)


def test_index_with_more_entries_than_its_log_has_room_for_is_refused(tmp_path: pathlib.Path) -> None:
    for path in recorded_segments.log_directory("multi-segment").glob("00000000000000000152.*"):
        shutil.copy(path, tmp_path)
    name = LOG.replace(".log", ".index")
    (tmp_path / name).write_bytes(b"\x01" * (1 << 20))
    ran = run_kt("dump-log", "--files", name, cwd=tmp_path)
    assert_found(ran, "an index with more entries than a log of 16345 bytes can have batches")
