"""The index files: lookups, truncation, sanity checks, and what readers leave alone."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.faulty_files import FaultyFileSystem
from support.log_batches import contents

from kafkatools.core.errors import CorruptIndex, IllegalState, KafkaError
from kafkatools.core.log.dump.damage import Damage
from kafkatools.core.log.dump.index_files import OffsetIndexFile, TimeIndexFile
from kafkatools.core.log.files import RealFileSystem
from kafkatools.core.log.format.offset_index import OffsetIndex, OffsetPosition
from kafkatools.core.log.format.sparse_index import InvalidIndexOffset
from kafkatools.core.log.format.time_index import TimeIndex, TimestampOffset
from kafkatools.core.log.format.transaction_index import AbortedTransaction, TransactionIndex

BASE = 1000


def offset_index(path: Path, size: int = 80_000) -> OffsetIndex:
    return OffsetIndex(RealFileSystem(), str(path / f"{BASE:020d}.index"), BASE, size)


def time_index(path: Path, size: int = 1200) -> TimeIndex:
    return TimeIndex(RealFileSystem(), str(path / f"{BASE:020d}.timeindex"), BASE, size)


def entries(index: OffsetIndex | TimeIndex) -> list[Any]:
    """All entries of an index in file order; preallocated zeros count as entries."""
    return [index.entry_at(number) for number in range(index.entry_count)]


def test_recorded_indexes_read_as_apache_kafkas_tool_prints_them(golden: Callable[[str], Path]) -> None:
    directory = golden("multi-segment") / "log"
    before = contents(directory)
    stem = str(directory / f"{152:020d}")
    offsets = entries(OffsetIndex(RealFileSystem(), stem + ".index", 152))
    times = entries(TimeIndex(RealFileSystem(), stem + ".timeindex", 152))
    assert offsets[:2] == [OffsetPosition(163, 555), OffsetPosition(172, 1122)]
    assert times[:2] == [TimestampOffset(1700000003301, 163), TimestampOffset(1700000003487, 172)]
    assert (len(offsets), len(times)) == (18, 18)
    assert contents(directory) == before


def test_recorded_aborted_transactions(golden: Callable[[str], Path]) -> None:
    directory = golden("txn-java") / "log"
    index = TransactionIndex(RealFileSystem(), str(directory / f"{33:020d}.txnindex"), 33)
    first = next(index.entries())
    assert (first.version, first.producer_id) == (0, 8)
    assert len(list(index.entries())) == 4
    index.sanity_check()


@given(st.lists(st.integers(0, 5000), unique=True, min_size=1, max_size=1200), st.integers(BASE - 5, BASE + 5010))
def test_lookup_gives_the_last_entry_at_or_below(relative: list[int], target: int) -> None:
    relative.sort()
    index = OffsetIndex(FaultyFileSystem(), "/x.index", BASE, 1 << 20)
    for number, offset in enumerate(relative):
        index.append(BASE + offset, number * 10)
    expected = [(BASE + offset, n * 10) for n, offset in enumerate(relative) if BASE + offset <= target]
    assert index.lookup(target) == (expected[-1] if expected else (BASE, 0))


@pytest.mark.parametrize(
    ("position", "expected"), [(0, (BASE + 3, 100)), (100, (BASE + 3, 100)), (101, (BASE + 9, 200)), (201, None)]
)
def test_the_upper_bound_of_a_fetch(position: int, expected: tuple[int, int] | None) -> None:
    index = OffsetIndex(FaultyFileSystem(), "/x.index", BASE, 1 << 20)
    assert index.fetch_upper_bound(position) is None
    index.append(BASE + 3, 100)
    index.append(BASE + 9, 200)
    assert index.fetch_upper_bound(position) == expected


@pytest.mark.slow
@given(st.lists(st.integers(0, 3000), unique=True, min_size=1, max_size=1100), st.integers(BASE, BASE + 3000))
def test_truncation_keeps_what_is_below(relative: list[int], cut: int) -> None:
    relative.sort()
    files = FaultyFileSystem()
    index, times = OffsetIndex(files, "/x.index", BASE, 1 << 20), TimeIndex(files, "/x.timeindex", BASE, 1 << 20)
    for number, offset in enumerate(relative):
        index.append(BASE + offset, number)
        times.maybe_append(number + 1, BASE + offset)
    index.truncate_to(cut)
    times.truncate_to(cut)
    kept = [BASE + offset for offset in relative if BASE + offset < cut]
    assert [entry.offset for entry in entries(index)] == kept
    assert [entry.offset for entry in entries(times)] == kept
    index.append(BASE + 4000, 1)
    assert index.last_offset == BASE + 4000


def test_an_offset_must_rise(tmp_path: Path) -> None:
    index = offset_index(tmp_path)
    index.append(BASE + 5, 0)
    with pytest.raises(InvalidIndexOffset):
        index.append(BASE + 5, 9)
    with pytest.raises(InvalidIndexOffset):
        index.append(BASE + 2**31, 9)


def test_a_full_index_takes_no_more(tmp_path: Path) -> None:
    index = offset_index(tmp_path, size=20)
    index.append(BASE + 1, 0)
    assert not index.is_full
    index.append(BASE + 2, 0)
    assert index.is_full
    with pytest.raises(InvalidIndexOffset):
        index.append(BASE + 3, 0)


def test_a_time_index_keeps_a_slot_for_the_closing_entry(tmp_path: Path) -> None:
    index = time_index(tmp_path, size=24)
    index.maybe_append(10, BASE)
    assert index.is_full
    with pytest.raises(IllegalState):
        index.maybe_append(11, BASE + 1)
    index.maybe_append(11, BASE + 1, skip_full_check=True)
    assert index.last_entry == (11, BASE + 1)


def test_timestamps_that_do_not_rise_add_nothing_and_offsets_must_not_fall(tmp_path: Path) -> None:
    index = time_index(tmp_path)
    index.maybe_append(10, BASE + 4)
    index.maybe_append(10, BASE + 8)
    assert entries(index) == [(10, BASE + 4)]
    with pytest.raises(IllegalState):
        index.maybe_append(9, BASE + 9)
    with pytest.raises(InvalidIndexOffset):
        index.maybe_append(11, BASE + 3)


def test_the_last_entry_of_an_empty_time_index_is_no_timestamp(tmp_path: Path) -> None:
    assert time_index(tmp_path).last_entry == (-1, BASE)
    assert time_index(tmp_path).lookup(5) == (-1, BASE)


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (
            b"\xff\xff\xff\xf0" + bytes(4),
            "non-zero size but the last offset is 984 which is less than the base offset 1000",
        ),
        (bytes(13), "found 13 bytes which is neither positive nor a multiple of 8"),
    ],
)
def test_offset_index_sanity(data: bytes, complaint: str, tmp_path: Path) -> None:
    path = tmp_path / "x.index"
    path.write_bytes(data)
    with pytest.raises(Damage, match=complaint):
        OffsetIndexFile.read(str(path), BASE, 1 << 20).sanity_check(str(path))
    assert path.read_bytes() == data


@pytest.mark.parametrize(
    ("data", "complaint"),
    [
        (
            bytes([0] * 7 + [9]) + bytes(4) + bytes(12),
            "the last timestamp is 0 which is less than the first timestamp 9",
        ),
        (bytes(8) + b"\xff\xff\xff\xf0", "the last offset is 984 which is less than the first offset 1000"),
        (bytes(13), "found 13 bytes which is neither positive nor a multiple of 12"),
    ],
)
def test_time_index_sanity(data: bytes, complaint: str, tmp_path: Path) -> None:
    path = tmp_path / "x.timeindex"
    path.write_bytes(data)
    with pytest.raises(Damage, match=complaint):
        TimeIndexFile.read(str(path), BASE, 1 << 20).sanity_check(str(path))


def test_transaction_index_rules(tmp_path: Path) -> None:
    files = RealFileSystem()
    index = TransactionIndex(files, str(tmp_path / "x.txnindex"), BASE)
    index.append(AbortedTransaction(0, 1, BASE, BASE + 10, BASE + 11))
    index.append(AbortedTransaction(0, 2, BASE + 5, BASE + 20, BASE + 12))
    with pytest.raises(IllegalState):
        index.append(AbortedTransaction(0, 3, BASE, BASE + 20, BASE + 21))
    found, is_complete = index.collect_aborted(BASE + 11, BASE + 30)
    assert ([txn.producer_id for txn in found], is_complete) == ([2], False)
    found, is_complete = index.collect_aborted(BASE, BASE + 5)
    assert ([txn.producer_id for txn in found], is_complete) == ([1], True)
    index.truncate_to(BASE + 20)
    again = TransactionIndex(files, index.path, BASE)
    assert [txn.producer_id for txn in again.entries()] == [1]
    Path(index.path).write_bytes(b"\0\x09" + bytes(32))
    with pytest.raises(KafkaError, match="Unexpected aborted transaction version 9"):
        list(again.entries())


def test_a_transaction_below_the_segment_is_corruption(tmp_path: Path) -> None:
    index = TransactionIndex(RealFileSystem(), str(tmp_path / "x.txnindex"), BASE)
    index.append(AbortedTransaction(0, 1, 5, BASE - 1, BASE))
    with pytest.raises(CorruptIndex, match=r"AbortedTxn\(version=0, producerId=1, firstOffset=5, lastOffset=999"):
        index.sanity_check()
