"""Finding the next valid batch in the middle of anything, and reading a file through small windows."""

from __future__ import annotations

import pathlib
import random
import struct

import pytest
from crc32c import crc32c
from support.log_batches import emptied

from kafkatools.core.log.dump.resync import next_valid_batch
from kafkatools.core.log.dump.segment_file import SegmentFile
from kafkatools.core.records.builder import BatchBuilder


def batch(count: int = 3, offset: int = 0) -> bytes:
    builder = BatchBuilder(1 << 16, base_offset=offset)
    for number in range(count):
        builder.append(1_700_000_000_000 + number, b"key", b"value %d" % number)
    return bytes(builder.close())


@pytest.mark.parametrize("junk", [b"", b"\x00" * 1000, b"\x02" * 1000, b"text, not a batch ", bytes(range(256)) * 5])
def test_batch_is_found_behind_junk(junk: bytes, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(junk + batch() + b"tail")
    with SegmentFile(str(path)) as file:
        assert next_valid_batch(file, 0, file.size) == len(junk)


def test_batch_across_the_edge_of_a_step_is_found(tmp_path: pathlib.Path) -> None:
    step = 1 << 20
    for before in (step - 17, step - 16, step - 1, step, step + 1):
        path = tmp_path / f"log-{before}"
        path.write_bytes(b"\x01" * before + batch())
        with SegmentFile(str(path)) as file:
            assert next_valid_batch(file, 0, file.size) == before


def test_damaged_and_cut_batches_are_not_found(tmp_path: pathlib.Path) -> None:
    damaged = bytearray(batch())
    damaged[-1] ^= 1
    path = tmp_path / "log"
    path.write_bytes(bytes(damaged) + batch()[:-1])
    with SegmentFile(str(path)) as file:
        assert next_valid_batch(file, 0, file.size) == -1


def test_batch_that_the_cleaner_has_emptied_is_found(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"junk" + bytes(emptied(batch())))
    with SegmentFile(str(path)) as file:
        assert next_valid_batch(file, 0, file.size) == 4


@pytest.mark.parametrize("size", [21, 30, 60])
def test_bytes_shorter_than_a_header_are_no_batch_whatever_their_checksum(size: int, tmp_path: pathlib.Path) -> None:
    short = bytearray(batch())
    struct.pack_into(">i", short, 8, size - 12)
    struct.pack_into(">I", short, 17, crc32c(bytes(short[21:size])))
    path = tmp_path / "log"
    path.write_bytes(bytes(short))
    with SegmentFile(str(path)) as file:
        assert next_valid_batch(file, 0, file.size) == -1


def test_search_ends_before_a_given_byte(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"\x00" * 100 + batch())
    with SegmentFile(str(path)) as file:
        assert next_valid_batch(file, 0, file.size, before=100) == -1
        assert next_valid_batch(file, 0, file.size, before=101) == 100


@pytest.mark.slow
@pytest.mark.parametrize("legacy", [False, True])
def test_question_about_one_position_has_the_answer_of_the_whole_search(legacy: bool, tmp_path: pathlib.Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(batch() + b"\x02" * 30 + batch(40, 3) + b"\x00" * 200 + batch(1, 43) + batch()[:-1])
    with SegmentFile(str(path)) as file:
        for position in range(file.size):
            found = next_valid_batch(file, position, file.size, legacy=legacy)
            here = next_valid_batch(file, position, file.size, legacy=legacy, before=position + 1)
            assert here == (position if found == position else -1)


def test_question_about_one_position_reads_little(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(batch() + b"\x01" * (1 << 21))
    with SegmentFile(str(path), window_bytes=4096) as file:
        assert next_valid_batch(file, 0, file.size, before=1) == 0
        assert len(file.window(0, 1)) == 4096


@pytest.mark.parametrize("window", [64, 100, 4096])
def test_views_are_the_bytes_of_the_file_whatever_the_window(window: int, tmp_path: pathlib.Path) -> None:
    data = random.Random(7).randbytes(5000)
    path = tmp_path / "log"
    path.write_bytes(data)
    places = random.Random(8)
    with SegmentFile(str(path), window_bytes=window) as file:
        for _ in range(300):
            position, size = places.randrange(5100), places.randrange(300)
            assert bytes(file.view(position, size)) == data[position : position + size]


def test_checksum_is_that_of_all_bytes_together(tmp_path: pathlib.Path) -> None:
    import zlib

    path = tmp_path / "log"
    path.write_bytes(bytes(range(256)) * 10)
    with SegmentFile(str(path), window_bytes=100) as file:
        assert file.checksum(7, 2000, zlib.crc32) == zlib.crc32((bytes(range(256)) * 10)[7:2007])


def test_file_that_shrinks_gives_what_is_left(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "log"
    path.write_bytes(b"x" * 1000)
    with SegmentFile(str(path), window_bytes=100) as file:
        path.write_bytes(b"x" * 50)
        assert bytes(file.view(20, 100)) == b"x" * 30
