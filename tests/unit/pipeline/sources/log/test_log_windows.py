"""Segments read through windows that are smaller than the segment: reading elsewhere overwrites the current window."""

from __future__ import annotations

import pathlib
import struct

import numpy as np
import pytest
from support.log_batches import TRANSACTIONAL, emptied, make_batch, make_marker

from kafkatools.core.log.dump.segment_file import SegmentFile
from kafkatools.core.log.reading.transaction_scan import is_sound
from kafkatools.pipeline.run.reports import Damage
from kafkatools.pipeline.sources.log.sections import BASE_OFFSET, LARGEST_OFFSET_GAP, SectionWalk
from kafkatools.pipeline.sources.log.transaction_scan import TransactionScan

WINDOW_BYTES = 4096
GAP = 2 * LARGEST_OFFSET_GAP
PRODUCER = {"producer_id": 7, "producer_epoch": 0, "attributes": TRANSACTIONAL}


def at(batch: bytearray, offset: int) -> bytes:
    """The batch with another base offset, which lies outside of the checksum."""
    struct.pack_into(">q", batch, 0, offset)
    return bytes(batch)


def data(offset: int) -> bytes:
    """A batch of which a window holds one, but not two."""
    return at(make_batch([b"x" * 3000], base_sequence=0, **PRODUCER), offset)


def segment(directory: pathlib.Path, *batches: bytes) -> str:
    path = directory / f"{0:020}.log"
    path.write_bytes(b"".join(batches))
    return str(path)


def test_a_batch_that_does_not_end_in_the_window_has_its_own_checksum(tmp_path: pathlib.Path) -> None:
    batches = [data(offset) for offset in range(4)]
    with SegmentFile(segment(tmp_path, *batches), WINDOW_BYTES) as file:
        assert [is_sound(file, number * len(batches[0])) for number in range(4)] == [True] * 4


@pytest.mark.parametrize("is_relevant", [True, False])
def test_sections_behind_a_leap_of_offsets_are_whole(tmp_path: pathlib.Path, is_relevant: bool) -> None:
    """The batch before the leap is verified: it lies in the window before."""
    offsets = [0, GAP, GAP + 1, GAP + 2]
    found: list[int] = []
    damages: list[Damage] = []
    with SegmentFile(segment(tmp_path, *map(data, offsets)), WINDOW_BYTES) as file:
        walk = SectionWalk(
            file, 0, file.size, damages.append, is_relevant=lambda headers: np.full(len(headers), is_relevant)
        )
        for section in walk.sections():
            found += section.headers[:, BASE_OFFSET].tolist()
            assert bytes(section.batch(0)) == data(found[-section.rows])
    assert (found, damages) == (offsets, [])


def test_a_marker_behind_a_leap_of_offsets_is_read(tmp_path: pathlib.Path) -> None:
    marker = at(make_marker(7, 0, commit=False), GAP + 1)
    with SegmentFile(segment(tmp_path, data(0), data(GAP), marker, data(GAP + 2)), WINDOW_BYTES) as file:
        scan = TransactionScan(file)
        found = [(batch.base_offset, batch.is_abort) for window in scan.windows() for batch in window]
    assert found == [(0, None), (GAP, None), (GAP + 1, True), (GAP + 2, None)]
    assert scan.damaged == 0


def test_a_marker_that_the_cleaner_has_emptied_ends_nothing(tmp_path: pathlib.Path) -> None:
    marker = at(emptied(make_marker(7, 0, commit=True)), 0)
    with SegmentFile(segment(tmp_path, marker, data(1)), WINDOW_BYTES) as file:
        scan = TransactionScan(file)
        found = [(batch.base_offset, batch.is_abort) for window in scan.windows() for batch in window]
    assert found == [(1, None)]
    assert scan.damaged == 0
