"""Runs of whole batches from one segment, damage between them, and the end of a segment."""

from __future__ import annotations

import pathlib
import struct

import pytest
from support.log_batches import make_batch

from kafkatools.core.log.reading import segment_reader
from kafkatools.core.log.reading.directories import SegmentPath
from kafkatools.core.log.reading.segment_reader import Damage, LogEnd, Run, SegmentReader

NO_LIMIT = 1 << 62
APPEND_TIME = 8


def reader(directory: pathlib.Path, data: bytes, base_offset: int = 0) -> SegmentReader:
    path = directory / f"{base_offset:020}.log"
    path.write_bytes(data)
    return SegmentReader(SegmentPath(str(path), base_offset), NO_LIMIT)


def batches(count: int, size: int = 10) -> bytes:
    return b"".join(make_batch([b"x" * size], base_offset=offset) for offset in range(count))


@pytest.mark.parametrize("cut", [1, 30, 60])
def test_a_batch_that_is_cut_off_is_the_end_of_the_segment(tmp_path: pathlib.Path, cut: int) -> None:
    whole, last = batches(3), bytes(make_batch(base_offset=3))
    segment = reader(tmp_path, whole + last[:-cut])
    assert segment.log_end() == LogEnd(3, len(whole), len(last) - cut)
    assert [header[1] for _, header in segment.headers(len(whole))] == []


@pytest.mark.parametrize("length", [(1 << 31) - 1, 1 << 20, 1000, 0, -1])
def test_a_length_beyond_the_end_is_damage_and_not_read(tmp_path: pathlib.Path, length: int) -> None:
    whole, broken = batches(2), make_batch(base_offset=2)
    struct.pack_into(">i", broken, 8, length)
    segment = reader(tmp_path, whole + bytes(broken) + bytes(make_batch(base_offset=3)))
    assert segment.log_end() == LogEnd(4, segment.size_bytes, 0)
    found = segment.run(len(whole), 2)
    assert isinstance(found, Damage)
    assert (found.position, found.resume_at, found.next_offset) == (len(whole), len(whole) + len(broken), 3)


def test_zeros_behind_the_last_batch_are_preallocated_space(tmp_path: pathlib.Path) -> None:
    whole = batches(2)
    segment = reader(tmp_path, whole + bytes(3 << 20))
    assert segment.log_end() == LogEnd(2, len(whole), 0)
    assert segment.run(len(whole), 2) is None
    assert reader(tmp_path, whole + bytes(3 << 20) + b"\x01").log_end().trailing_bytes == (3 << 20) + 1


def test_a_batch_that_is_longer_than_a_chunk_is_read_whole(tmp_path: pathlib.Path) -> None:
    data = batches(3, size=5000)
    segment = reader(tmp_path, data)
    position, offsets = 0, []
    while isinstance(found := segment.run(position, len(offsets), 100), Run):
        offsets.append(found.next_offset - 1)
        position = found.end
    assert (offsets, position) == ([0, 1, 2], len(data))
    assert [header[1] for _, header in segment.headers(0, 100)] == [0, 1, 2]


def test_late_batches_are_those_with_a_record_before_a_time(tmp_path: pathlib.Path) -> None:
    times = [[50, 90], [200, 210], [300, 120], [400, 400]]
    rows = [make_batch([b"a", b"b"], timestamps=row, base_offset=2 * number) for number, row in enumerate(times)]
    rows.append(make_batch([b"c"], timestamps=[80], base_offset=8, attributes=APPEND_TIME))
    segment = reader(tmp_path, b"".join(rows[:4]))
    ends = {50: -1, 51: 2, 200: 2, 201: 4, 300: 4, 301: 6, 401: 8}
    assert {time: segment.late_batches_before(time, 0) for time in ends} == ends
    assert segment.late_batches_before(51, len(rows[0])) == -1
    appended = reader(tmp_path, bytes(rows[4]))
    assert [appended.late_batches_before(time, 0) for time in (80, 81)] == [-1, 9]


@pytest.mark.parametrize("is_sound", [True, False])
def test_a_batch_that_is_larger_than_any_is_read_if_its_checksum_is_right(
    tmp_path: pathlib.Path, is_sound: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment_reader, "LARGEST_IN_MEMORY", 4000)
    data = bytearray(batches(1, size=5000))
    data[-1] ^= not is_sound
    found = reader(tmp_path, bytes(data)).run(0, 0, 100)
    assert isinstance(found, Run if is_sound else Damage)
    if isinstance(found, Run):
        assert bytes(found.data) == bytes(data)


def test_offsets_must_go_up_within_a_segment(tmp_path: pathlib.Path) -> None:
    data = batches(2)
    back = bytes(make_batch(base_offset=1))
    found = reader(tmp_path, data + back).run(len(data), 2)
    assert isinstance(found, Damage)
    assert found.cause.startswith("its offsets 1 to 1 are not between 2 and")
    assert isinstance(reader(tmp_path, data + bytes(make_batch(base_offset=7))).run(len(data), 2), Run), (
        "a gap is sound"
    )


def test_the_next_segment_limits_the_offsets(tmp_path: pathlib.Path) -> None:
    path = tmp_path / f"{0:020}.log"
    path.write_bytes(batches(3))
    segment = SegmentReader(SegmentPath(str(path), 0), 2)
    found = segment.run(0, 0)
    assert isinstance(found, Run)
    assert found.next_offset == 2
    assert segment.log_end().offset == 2
