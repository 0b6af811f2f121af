"""The scan of a segment's transactional batches by their headers, and the transactions that follow from them."""

from __future__ import annotations

import pathlib
import struct
import zlib
from collections.abc import Callable, Iterator

import pytest
from support.log_batches import TRANSACTIONAL, make_batch, make_marker, set_crc

from kafkatools.core.log.dump.segment_file import SegmentFile
from kafkatools.core.log.reading.transaction_scan import (
    OpenTransaction,
    TransactionBatch,
    TransactionEnd,
    TransactionFollower,
    TransactionScan,
    is_sound,
)

Open = Callable[..., SegmentFile]


@pytest.fixture
def segment(tmp_path: pathlib.Path) -> Iterator[Open]:
    """Open a file with these batches."""
    files: list[SegmentFile] = []

    def write(*batches: bytes) -> SegmentFile:
        path = tmp_path / f"{len(files)}.log"
        path.write_bytes(b"".join(batches))
        files.append(SegmentFile(str(path)))
        return files[-1]

    yield write
    for file in files:
        file.close()


def at(batch: bytearray, offset: int) -> bytes:
    """The batch with another base offset, which lies outside of the checksum."""
    struct.pack_into(">q", batch, 0, offset)
    return bytes(batch)


def data(offset: int, producer_id: int = 7, epoch: int = 0) -> bytes:
    return at(
        make_batch(producer_id=producer_id, producer_epoch=epoch, base_sequence=0, attributes=TRANSACTIONAL), offset
    )


def marker(offset: int, producer_id: int = 7, epoch: int = 0, *, commit: bool = True) -> bytes:
    return at(make_marker(producer_id, epoch, commit=commit), offset)


def legacy_message() -> bytes:
    """A message of magic 1 without key, with value `v`."""
    body = struct.pack(">bbqiib", 1, 0, 5, -1, 1, ord("v"))
    return struct.pack(">qiI", 0, len(body) + 4, zlib.crc32(body)) + body


# -- checksums ---------------------------------------------------------------------------------------------------------
def test_a_batch_is_sound_whatever_its_size(segment: Open) -> None:
    for batch in (make_batch(), make_batch([b"x" * 9_000_000]), legacy_message()):
        assert is_sound(segment(bytes(batch)), 0)
        assert not is_sound(segment(bytes(batch)[:-1]), 0)
        assert not is_sound(segment(bytes(batch)[:-1] + b"?"), 0)


def test_a_batch_with_an_impossible_size_is_not_sound(segment: Open) -> None:
    batch = make_batch()
    struct.pack_into(">I", batch, 17, 0)  # the checksum of no bytes
    for length in (-1, 0, 9, 48, len(batch) - 11, (1 << 31) - 1):
        struct.pack_into(">i", batch, 8, length)
        assert not is_sound(segment(bytes(batch)), 0)
    for size in (0, 5, 16, 20):
        assert not is_sound(segment(bytes(batch)[:size]), 0)


# -- the scan ----------------------------------------------------------------------------------------------------------
def scanned(scan: TransactionScan) -> list[tuple[int, bool | None]]:
    return [(batch.base_offset, batch.is_abort) for window in scan.windows() for batch in window]


def test_only_transactional_batches_are_given(segment: Open) -> None:
    plain = at(make_batch(), 1)
    scan = TransactionScan(segment(data(0), plain, marker(2, commit=False), data(3), marker(4)))
    assert scanned(scan) == [(0, None), (2, True), (3, None), (4, False)]
    assert (scan.damaged, scan.has_lost_tail) == (0, False)


def test_a_damaged_marker_is_counted_and_left_out(segment: Open) -> None:
    damaged = bytearray(marker(1, commit=False))
    damaged[-2] ^= 1
    scan = TransactionScan(segment(data(0), bytes(damaged), data(2), marker(3)))
    assert scanned(scan) == [(0, None), (2, None), (3, False)]
    assert scan.damaged == 1


def test_a_scan_continues_after_damage_and_knows_a_lost_tail(segment: Open) -> None:
    junk = b"\x07" * 100
    between = TransactionScan(segment(data(0), junk, marker(1), data(2)))
    assert scanned(between) == [(0, None), (1, False), (2, None)]
    assert (between.damaged, between.has_lost_tail) == (1, False)
    behind = TransactionScan(segment(data(0), junk))
    assert scanned(behind) == [(0, None)]
    assert (behind.damaged, behind.has_lost_tail) == (0, True)


def test_a_batch_with_an_offset_that_goes_back_is_believed_by_its_checksum(segment: Open) -> None:
    damaged = bytearray(data(0))
    damaged[-1] ^= 1
    sound = TransactionScan(segment(data(5), data(3), marker(6)))
    assert scanned(sound) == [(5, None), (3, None), (6, False)]
    assert scanned(TransactionScan(segment(data(5), bytes(damaged), marker(6)))) == [(5, None), (6, False)]


def test_a_batch_whose_offset_leaps_ahead_is_believed_by_its_checksum(segment: Open) -> None:
    damaged = bytearray(data(50))
    damaged[-1] ^= 1
    assert scanned(TransactionScan(segment(data(0), bytes(damaged), data(2)))) == [(0, None), (2, None)]


def test_attributes_that_no_broker_writes_are_believed_by_their_checksum(segment: Open) -> None:
    odd = bytearray(data(1))
    struct.pack_into(">h", odd, 21, TRANSACTIONAL | 0x400)
    assert scanned(TransactionScan(segment(data(0), bytes(odd), marker(2)))) == [(0, None), (2, False)]
    set_crc(odd)
    assert scanned(TransactionScan(segment(data(0), bytes(odd), marker(2)))) == [(0, None), (1, None), (2, False)]


# -- transactions ------------------------------------------------------------------------------------------------------
def batch_of(position: int, offset: int, epoch: int = 0, *, abort: bool | None = None) -> TransactionBatch:
    return TransactionBatch(position, offset, 7, epoch, abort, 0)


def test_a_transaction_begins_with_its_first_batch_and_ends_with_its_marker(segment: Open) -> None:
    file, follower = segment(data(3)), TransactionFollower()
    assert follower.feed(batch_of(0, 3), file, damaged=2) == []
    assert follower.open == {7: OpenTransaction(3, 0, 2)}
    assert follower.feed(batch_of(0, 4), file) == []
    assert follower.feed(batch_of(0, 5, abort=True), file) == [TransactionEnd(7, 3, 5, True)]
    assert follower.open == {}


def test_a_marker_ends_a_transaction_that_was_open_before(segment: Open) -> None:
    opened = {7: OpenTransaction(1), 8: OpenTransaction(2)}
    follower = TransactionFollower(opened)
    assert follower.feed(batch_of(0, 5, abort=False), segment(data(0))) == [TransactionEnd(7, 1, 5, False)]
    assert follower.open == {8: OpenTransaction(2)}
    assert len(opened) == 2, "the snapshot's transactions stay as they are"


def test_a_marker_without_a_transaction_ends_one_whose_beginning_was_not_seen(segment: Open) -> None:
    assert TransactionFollower().feed(batch_of(0, 5, abort=True), segment(data(0))) == [
        TransactionEnd(7, None, 5, True)
    ]


def test_a_higher_epoch_reveals_a_lost_marker(segment: Open) -> None:
    """KIP-890: the next transaction has another epoch; the marker of the present one has the next epoch too."""
    file, follower = segment(data(3, epoch=1)), TransactionFollower({7: OpenTransaction(1, 0)})
    assert follower.feed(batch_of(0, 3, epoch=1), file) == [TransactionEnd(7, 1, 2, None)]
    assert follower.open == {7: OpenTransaction(3, 1)}
    assert follower.feed(batch_of(0, 4, epoch=2, abort=False), file) == [TransactionEnd(7, 3, 4, False)]
    follower.open[7] = OpenTransaction(5, 2)
    assert follower.feed(batch_of(0, 8, epoch=4, abort=True), file) == [
        TransactionEnd(7, 5, 7, None),
        TransactionEnd(7, None, 8, True),
    ]


def test_an_unknown_epoch_reveals_nothing(segment: Open) -> None:
    follower = TransactionFollower({7: OpenTransaction(1)})
    assert follower.feed(batch_of(0, 3, epoch=9), segment(data(3, epoch=9))) == []
    assert follower.open == {7: OpenTransaction(1)}


def test_a_damaged_batch_begins_no_transaction_but_may_lie_in_one(segment: Open) -> None:
    damaged = bytearray(data(3))
    damaged[-1] ^= 1
    file, follower = segment(bytes(damaged)), TransactionFollower()
    assert follower.feed(batch_of(0, 3), file) == []
    assert follower.open == {}
    follower.open[7] = OpenTransaction(1, 0)
    assert follower.feed(batch_of(0, 3, epoch=5), file) == [], "its epoch may be wrong too"
    assert follower.open == {7: OpenTransaction(1, 0)}
