"""The cleaner on one log: what stays, in which form, and how often it has to come."""

import os
import struct
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from support.log_batches import NOW_MS, TRANSACTIONAL, make_batch, make_marker, set_crc, split_batches

from kafkatools.core.errors import CorruptRecord, RecordTooLarge
from kafkatools.core.log.cleaner.cleaner import CleanedSegment, Cleaner, CleanerStats, group_by_size
from kafkatools.core.log.cleaner.log_to_clean import CleaningAborted, LogToClean, SegmentToClean
from kafkatools.core.log.cleaner.manager import LogCleanerManager
from kafkatools.core.log.cleaner.offset_map import OffsetMap
from kafkatools.core.log.cleaner.planning import measure
from kafkatools.core.log.files import RealFileSystem
from kafkatools.core.log.partition.log_config import LogConfig
from kafkatools.core.log.partition.partition_log import PartitionLog
from kafkatools.core.log.partition.segment_swap import swap_in
from kafkatools.core.log.producers.append import AppendOrigin
from kafkatools.core.records.batch import RecordBatch, read_batches
from kafkatools.core.records.builder import BatchBuilder
from kafkatools.core.records.columns import Record, TimestampType
from kafkatools.core.records.compression import CompressionType
from kafkatools.core.records.layout import HEADER_SIZE, LOG_OVERHEAD
from kafkatools.core.records.legacy import write_message_set

DAY_MS = 86_400_000
CONFIG = LogConfig(
    cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=0.01, segment_bytes=4096, index_interval_bytes=100
)

Row = tuple[int, bytes | None, bytes | None]


def open_log(directory: Path, config: LogConfig = CONFIG) -> PartitionLog:
    return PartitionLog.open(str(directory / "t-0"), config, RealFileSystem(), NOW_MS)


def append(log: PartitionLog, *pairs: tuple[bytes | None, bytes | None], now_ms: int = NOW_MS, **batch: int) -> None:
    data = make_batch([v for _, v in pairs], keys=[k for k, _ in pairs], timestamps=[now_ms] * len(pairs), **batch)
    log.append_as_leader(memoryview(data), leader_epoch=0, now_ms=now_ms, origin=AppendOrigin.COORDINATOR)
    log.update_high_watermark(log.log_end_offset)


def end_transaction(log: PartitionLog, producer_id: int, *, commit: bool) -> None:
    marker = make_marker(producer_id, 0, commit=commit)
    log.append_as_leader(memoryview(marker), leader_epoch=0, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)
    log.update_high_watermark(log.log_end_offset)


def clean(log: PartitionLog, now_ms: int = NOW_MS, memory_bytes: int = 1 << 16) -> CleanerStats | None:
    """One round on the test's own thread; None when there is nothing to do."""
    manager = LogCleanerManager()
    grabbed = manager.grab_filthiest_log([log], now_ms)
    if grabbed is None:
        return None
    _, wanted = grabbed
    cleaner = Cleaner(RealFileSystem(), dedupe_buffer_bytes=memory_bytes)
    stats = cleaner.clean(wanted, now_ms, lambda plan, cleaned: swap_in(log, plan, cleaned, now_ms))
    assert manager.done_cleaning(log, wanted, stats, now_ms)
    return stats


def batches(log: PartitionLog) -> list[RecordBatch]:
    found: list[RecordBatch] = []
    for segment in log.segments:
        for batch in read_batches(segment.log.read_at(0, segment.size_bytes)):
            assert isinstance(batch, RecordBatch)
            batch.ensure_valid()
            found.append(batch)
    return found


def rows(log: PartitionLog) -> list[Row]:
    return [(r.offset, r.key, r.value) for b in batches(log) if not b.is_control for r in b.records()]


def test_the_newest_record_of_each_key_stays(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for number in range(60):
        append(log, (b"k%d" % (number % 7), b"v%d" % number))
    log.roll(NOW_MS)
    append(log, (b"k0", b"in the active segment"))
    stats = clean(log)
    assert stats is not None and stats.end_offset == 60
    newest = [(number, b"k%d" % (number % 7), b"v%d" % number) for number in range(53, 60)]
    assert rows(log) == [*newest, (60, b"k0", b"in the active segment")]
    assert log.first_dirty_offset == 60


def test_a_cleaned_log_is_read_from_any_offset_and_after_a_restart(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for number in range(300):
        append(log, (b"k%d" % (number % 50), b"v%d" % number))
    log.roll(NOW_MS)
    clean(log)
    expected = rows(log)
    assert [offset for offset, _, _ in expected] == list(range(250, 300))
    for start in (0, 100, 250, 251, 299):
        found = next(iter(split_batches(log.read(start, 1 << 20).read())))
        assert struct.unpack_from(">q", found)[0] == max(start, 250)
    log.close()
    assert rows(open_log(tmp_path)) == expected
    unclean = PartitionLog.open(str(tmp_path / "t-0"), CONFIG, RealFileSystem(), NOW_MS, had_clean_shutdown=False)
    assert rows(unclean) == expected and unclean.log_end_offset == 300


def test_only_the_kept_records_of_a_batch_are_written_again(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    pairs = [(b"a", b"1"), (b"b", b"2"), (b"a", b"3"), (b"c", b"4")]
    times = [NOW_MS + 5, NOW_MS - 3, NOW_MS + 100, NOW_MS + 7]
    data = make_batch(
        [v for _, v in pairs],
        keys=[k for k, _ in pairs],
        timestamps=times,
        producer_id=9,
        producer_epoch=2,
        base_sequence=0,
    )
    log.append_as_leader(memoryview(data), leader_epoch=3, now_ms=NOW_MS)
    append(log, (b"c", b"5"))
    append(log, (b"d", b"6"))
    log.roll(NOW_MS)
    clean(log)
    first = batches(log)[0]
    assert [(r.offset, r.timestamp, r.key, r.value) for r in first.records()] == [
        (1, NOW_MS - 3, b"b", b"2"),
        (2, NOW_MS + 100, b"a", b"3"),
    ]
    assert (first.base_offset, first.last_offset, first.record_count) == (0, 3, 2)
    assert (first.producer_id, first.producer_epoch, first.base_sequence, first.last_sequence) == (9, 2, 0, 3)
    assert (first.partition_leader_epoch, first.base_timestamp, first.max_timestamp) == (3, NOW_MS - 3, NOW_MS + 100)


@pytest.mark.parametrize("codec", list(CompressionType))
def test_the_codec_stays(tmp_path: Path, codec: CompressionType) -> None:
    log = open_log(tmp_path, replace(CONFIG, segment_bytes=1 << 20))
    for _ in range(2):
        builder = BatchBuilder(1 << 16, codec)
        for number in range(200):
            builder.append(NOW_MS, b"key%d" % (number % 150), b"value" * 10, [("h", b"x")])
        log.append_as_leader(memoryview(bytearray(builder.close())), leader_epoch=0, now_ms=NOW_MS)
    log.update_high_watermark(400)
    log.roll(NOW_MS)
    clean(log)
    (left,) = batches(log)
    assert left.compression_type is codec
    records = list(left.records())
    assert [r.offset for r in records] == list(range(250, 400))
    assert all(r.headers == (("h", b"x"),) for r in records)


def test_timestamps_far_from_their_base_survive_a_rewrite(tmp_path: Path) -> None:
    """The base timestamp of a batch and the deltas of its records may be any numbers that overflow to valid times."""
    log = open_log(tmp_path)
    data = make_batch([b"1", b"2"], keys=[b"a", b"b"], timestamps=[2**63 - 1, 2**63 - 1])
    delta = b"\xff" * 9 + b"\x01"  # -(2**63), so the timestamp is -1
    records = b"".join(
        bytes((2 * len(body),)) + body
        for body in (
            b"\0" + delta + offset + b"\x02" + key + b"\x02v\0" for offset, key in ((b"\0", b"a"), (b"\x02", b"b"))
        )
    )
    data[HEADER_SIZE:] = records
    struct.pack_into(">i", data, 8, len(data) - LOG_OVERHEAD)
    set_crc(data)
    log.append_as_leader(memoryview(data), leader_epoch=0, now_ms=NOW_MS)
    append(log, (b"a", b"3"))
    append(log, (b"c", b"4"))
    log.roll(NOW_MS)
    clean(log)
    assert [(r.offset, r.timestamp, r.key) for r in batches(log)[0].records()] == [(1, -1, b"b")]


def test_tombstones_get_a_horizon_first_and_go_after_it(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, (b"a", b"1"), (b"b", b"2"))
    append(log, (b"a", None), (b"c", b"3"))
    append(log, (b"z", b"9"))
    log.roll(NOW_MS)
    clean(log)
    assert rows(log) == [(1, b"b", b"2"), (2, b"a", None), (3, b"c", b"3"), (4, b"z", b"9")]
    marked = batches(log)[1]
    assert marked.delete_horizon_ms == NOW_MS + DAY_MS
    assert [r.timestamp for r in marked.records()] == [NOW_MS, NOW_MS]
    append(log, (b"y", b"9"))
    log.roll(NOW_MS)
    clean(log, NOW_MS + DAY_MS - 1)
    assert (2, b"a", None) in rows(log)
    assert batches(log)[1].delete_horizon_ms == NOW_MS + DAY_MS
    append(log, (b"x", b"9"))
    log.roll(NOW_MS)
    clean(log, NOW_MS + DAY_MS)
    assert [offset for offset, _, _ in rows(log)] == [1, 3, 4, 5, 6]


def test_the_last_batch_of_a_producer_stays_as_an_empty_one(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, (b"a", b"1"), producer_id=5, producer_epoch=0, base_sequence=0)
    append(log, (b"a", b"2"), producer_id=5, producer_epoch=0, base_sequence=1)
    append(log, (b"a", b"3"))
    log.roll(NOW_MS)
    clean(log)
    empty, last = batches(log)
    assert (empty.record_count, empty.base_offset, empty.last_offset, empty.base_sequence) == (0, 1, 1, 1)
    assert (empty.base_timestamp, empty.max_timestamp, empty.producer_id) == (-1, NOW_MS, 5)
    assert last.base_offset == 2
    log.close()
    again = open_log(tmp_path)
    append(again, (b"b", b"4"), producer_id=5, producer_epoch=0, base_sequence=2)
    assert again.log_end_offset == 4


def test_the_last_batch_of_a_round_stays_so_that_the_end_is_known(tmp_path: Path) -> None:
    log = open_log(tmp_path, LogConfig(segment_bytes=4096))
    append(log, (b"a", b"1"))
    append(log, (None, b"without a key"))
    log.roll(NOW_MS)
    log.update_config(CONFIG)
    assert clean(log) is not None
    assert rows(log) == [(0, b"a", b"1")]
    assert [(b.base_offset, b.record_count) for b in batches(log)] == [(0, 1), (1, 0)]


def test_aborted_records_go_and_their_marker_after_them(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, (b"a", b"kept"))
    append(log, (b"a", b"aborted"), producer_id=7, producer_epoch=0, base_sequence=0, attributes=TRANSACTIONAL)
    end_transaction(log, 7, commit=False)
    append(log, (b"b", b"committed"), producer_id=8, producer_epoch=0, base_sequence=0, attributes=TRANSACTIONAL)
    end_transaction(log, 8, commit=True)
    append(log, (b"z", b"9"))
    log.roll(NOW_MS)
    clean(log)
    assert rows(log) == [(0, b"a", b"kept"), (3, b"b", b"committed"), (5, b"z", b"9")]
    # the aborted batch was there in this round: its header stays (the producer is active), and its index entry
    assert [b.base_offset for b in batches(log)] == [0, 1, 2, 3, 4, 5]
    assert [t.first_offset for t in log.aborted_transactions(0, 6)] == [1]
    log.producer_state.producers.clear()
    for round_number in range(1, 4):
        append(log, (b"y%d" % round_number, b"9"))
        log.roll(NOW_MS)
        clean(log, NOW_MS + round_number)
        if round_number == 1:
            # the header went: the marker ends nothing, and is told when it may go
            assert [b.base_offset for b in batches(log)][:3] == [0, 2, 3]
    assert batches(log)[1].delete_horizon_ms == NOW_MS + 2 + DAY_MS
    assert batches(log)[1].is_control
    append(log, (b"x", b"9"))
    log.roll(NOW_MS)
    clean(log, NOW_MS + DAY_MS + 2)
    assert [b.base_offset for b in batches(log)][:2] == [0, 3]
    assert log.aborted_transactions(0, 6) == []


def test_records_of_an_open_transaction_are_left_alone(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, (b"a", b"1"))
    append(log, (b"a", b"2"))
    log.roll(NOW_MS)
    append(log, (b"a", b"open"), producer_id=7, producer_epoch=0, base_sequence=0, attributes=TRANSACTIONAL)
    append(log, (b"a", b"3"))
    log.roll(NOW_MS)
    clean(log)
    assert rows(log) == [(1, b"a", b"2"), (2, b"a", b"open"), (3, b"a", b"3")]
    assert measure(log, NOW_MS).first_uncleanable_offset == 2


def test_a_full_map_means_another_round(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for number in range(200):
        append(log, (b"key-%d" % (number % 100), b"%d" % number))
    log.roll(NOW_MS)
    ends = []
    while (stats := clean(log, memory_bytes=24 * 41)) is not None:
        ends.append(stats.end_offset)
    assert ends == [36, 72, 108, 144, 180, 200]
    assert [offset for offset, _, _ in rows(log)] == list(range(100, 200))


def test_segments_are_joined_up_to_the_size_of_one(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for number in range(100):
        append(log, (b"k%d" % (number % 20), b"v" * 100))
    log.roll(NOW_MS)
    assert len(log.segments) == 6
    clean(log)  # what is full is not joined, however little of it stays
    assert [segment.base_offset for segment in log.segments] == [0, 23, 46, 69, 92, 100]
    append(log, (b"end", b""))
    log.roll(NOW_MS)
    clean(log)
    assert [segment.base_offset for segment in log.segments] == [0, 101]
    assert all(segment.size_bytes <= CONFIG.segment_bytes for segment in log.segments)


@pytest.mark.parametrize(
    ("sizes", "max_bytes", "expected"),
    [((10, 10, 10), 20, [2, 1]), ((10, 10, 10), 9, [1, 1, 1]), ((0, 0, 5), 5, [3]), ((30, 1, 1), 20, [1, 2])],
)
def test_grouping_by_size(sizes: Sequence[int], max_bytes: int, expected: Sequence[int]) -> None:
    segments = [SegmentToClean(i, i + 1, "", size, 0, 0, 0) for i, size in enumerate(sizes)]
    assert [len(group) for group in group_by_size(segments, max_bytes, 100)] == expected


def test_grouping_keeps_offsets_within_four_bytes_and_indexes_within_their_size() -> None:
    far = [SegmentToClean(0, 2**31, "", 1, 0, 0, 0), SegmentToClean(2**31, 2**31 + 5, "", 1, 0, 0, 0)]
    assert len(group_by_size(far, 100, 100)) == 2
    assert len(group_by_size([far[0], far[1]._replace(size_bytes=0)], 100, 100)) == 1
    full = [SegmentToClean(i, i + 1, "", 1, 0, 60, 0) for i in range(2)]
    assert len(group_by_size(full, 100, 100)) == 2


@pytest.mark.parametrize(("position", "reason"), [(66, "stored crc"), (70, "impossible offset")])
def test_a_damaged_batch_puts_the_partition_aside(tmp_path: Path, position: int, reason: str) -> None:
    log = open_log(tmp_path)
    append(log, (b"a", b"1"))
    append(log, (b"a", b"2"))
    log.roll(NOW_MS)
    log.segments.first.log.write_at(position, b"\xff")
    manager = LogCleanerManager()
    grabbed = manager.grab_filthiest_log([log], NOW_MS)
    assert grabbed is not None
    with pytest.raises(CorruptRecord) as caught:
        Cleaner(RealFileSystem(), dedupe_buffer_bytes=1 << 16).clean(grabbed[1], NOW_MS, lambda plan, cleaned: None)
    assert not manager.done_cleaning(log, grabbed[1], caught.value, NOW_MS)
    assert reason in manager.uncleanable[log.topic_partition]
    assert manager.grab_filthiest_log([log], NOW_MS) is None
    assert [path.name for path in (tmp_path / "t-0").glob("*.cleaned")] == []


def test_an_error_of_the_disk_is_not_for_ever_and_lets_the_others_pass(tmp_path: Path) -> None:
    log, other = open_log(tmp_path / "one"), open_log(tmp_path / "two")
    for each in (log, other):
        append(each, (b"a", b"1"))
        append(each, (b"a", b"2"))
        each.roll(NOW_MS)
    append(other, (b"b", b"3"))
    other.first_dirty_offset = 1
    manager = LogCleanerManager()
    first = manager.grab_filthiest_log([log, other], NOW_MS)
    assert first is not None
    assert not manager.done_cleaning(*first, OSError(28, "No space left on device"), NOW_MS)
    assert manager.uncleanable == {}
    assert manager.grab_filthiest_log([first[0]], NOW_MS + 1) is None
    assert manager.grab_filthiest_log([first[0]], NOW_MS + 300_000) is not None


def test_a_log_that_is_cut_meanwhile_is_not_swapped(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for number in range(20):
        append(log, (b"a", b"%d" % number))
    log.roll(NOW_MS)
    append(log, (b"b", b""))
    manager = LogCleanerManager()
    grabbed = manager.grab_filthiest_log([log], NOW_MS)
    assert grabbed is not None
    _, wanted = grabbed

    def cut_and_swap(plan: object, cleaned: object) -> None:
        log.truncate_to(10, NOW_MS)
        swap_in(log, plan, cleaned, NOW_MS)  # type: ignore[arg-type]

    with pytest.raises(CleaningAborted) as caught:
        Cleaner(RealFileSystem(), dedupe_buffer_bytes=1 << 16).clean(wanted, NOW_MS, cut_and_swap)
    assert not manager.done_cleaning(log, wanted, caught.value, NOW_MS)
    assert [offset for offset, _, _ in rows(log)] == list(range(10))
    assert manager.uncleanable == {} and log.cleaning is None
    assert [path.name for path in (tmp_path / "t-0").glob("*.cleaned")] == []


def test_cutting_into_the_clean_part_makes_it_dirty(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    for number in range(20):
        append(log, (b"k%d" % number, b""))
    log.roll(NOW_MS)
    clean(log)
    assert log.first_dirty_offset == 20
    log.truncate_to(12, NOW_MS)
    assert log.first_dirty_offset == 12
    log.truncate_fully_and_start_at(100, NOW_MS)
    assert log.first_dirty_offset == 100


def test_what_is_dirty_enough(tmp_path: Path) -> None:
    config = LogConfig(cleanup_policy=frozenset({"compact"}), segment_bytes=4096, max_compaction_lag_ms=1000)
    log = open_log(tmp_path, config)
    append(log, (b"a", b"v" * 500))
    log.roll(NOW_MS)
    manager = LogCleanerManager()
    assert measure(log, NOW_MS).cleanable_ratio == 1.0
    clean(log)
    append(log, (b"b", b""))
    log.roll(NOW_MS)
    found = measure(log, NOW_MS)
    assert 0 < found.cleanable_ratio < 0.5
    assert manager.grab_filthiest_log([log], NOW_MS) is None
    assert manager.grab_filthiest_log([log], NOW_MS + 1001) is not None


def test_young_records_wait_for_the_least_lag(tmp_path: Path) -> None:
    config = LogConfig(cleanup_policy=frozenset({"compact"}), min_compaction_lag_ms=1000)
    log = open_log(tmp_path, config)
    append(log, (b"a", b"1"))
    log.roll(NOW_MS)
    append(log, (b"a", b"2"), now_ms=NOW_MS + 500)
    log.roll(NOW_MS)
    append(log, (b"a", b"3"), now_ms=NOW_MS + 600)
    assert measure(log, NOW_MS + 999).first_uncleanable_offset == 0
    assert measure(log, NOW_MS + 1000).first_uncleanable_offset == 1
    assert measure(log, NOW_MS + 1500).first_uncleanable_offset == 2
    assert measure(log, NOW_MS + 9999).first_uncleanable_offset == 2


def test_a_checkpoint_outside_of_the_log_counts_for_nothing(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, (b"a", b"1"))
    log.roll(NOW_MS)
    for wrong in (-5, 99):
        log.first_dirty_offset = wrong
        assert measure(log, NOW_MS).first_dirty_offset == 0


def test_log_append_times_stay(tmp_path: Path) -> None:
    config = LogConfig(
        cleanup_policy=frozenset({"compact"}), min_cleanable_dirty_ratio=0.01, message_timestamp_type="LogAppendTime"
    )
    log = open_log(tmp_path, config)
    append(log, (b"a", b"1"), (b"b", b"2"))
    append(log, (b"a", b"3"), now_ms=NOW_MS + 50)
    log.roll(NOW_MS)
    clean(log)
    assert [(r.offset, r.timestamp) for b in batches(log) for r in b.records()] == [(1, NOW_MS), (2, NOW_MS + 50)]


def test_the_map_refuses_to_be_too_small_and_finds_every_key() -> None:
    for memory_bytes, load_factor in ((24, 0.9), (47, 1.0), (0, 1.0)):
        with pytest.raises(ValueError, match="too small"):
            OffsetMap(memory_bytes, load_factor)
    found = OffsetMap(24 * 1000, 0.9)
    keys = [b"%d" % number for number in range(found.max_entries)]
    for offset, key in enumerate(keys):
        assert found.put(key, offset)
    assert not found.put(b"one more", 1)
    assert not found.put(keys[0], 1)  # as Kafka: a full map takes nothing
    assert [found.get(key) for key in keys] == list(range(len(keys)))
    assert found.get(b"another") == -1
    assert found.entry_count == len(keys) == found.max_entries


def test_a_damaged_record_under_a_right_checksum_is_noticed(tmp_path: Path) -> None:
    log = open_log(tmp_path)
    append(log, (b"a", b"1"))
    log.roll(NOW_MS)
    segment = log.segments.first
    data = bytearray(segment.log.read_at(0, segment.size_bytes))
    data[61] ^= 0xFF  # the length of the record; the checksum is made right
    set_crc(data)
    segment.log.write_at(0, data)
    with pytest.raises(CorruptRecord):
        clean(log)


@pytest.mark.parametrize(("magic", "codec"), [(0, 0), (1, 0), (1, 1), (0, 2), (1, 3)])
def test_message_sets_of_old_versions(tmp_path: Path, magic: int, codec: int) -> None:
    directory = tmp_path / "t-0"
    directory.mkdir()
    stamp = NOW_MS if magic else -1

    def message(offset: int, key: bytes, value: bytes | None) -> Record:
        return Record(offset, stamp, TimestampType.CREATE_TIME, key, value)

    first = [message(0, b"a", b"1"), message(1, b"b", b"2"), message(2, b"c", b"3")]
    second = [message(3, b"a", b"4"), message(4, b"c", None)]
    data = write_message_set(first, magic, codec) + write_message_set(second, magic, codec)
    path = directory / "00000000000000000000.log"
    path.write_bytes(data)
    path.with_suffix(".index").touch()
    (directory / "00000000000000000005.log").touch()
    (directory / "00000000000000000005.index").touch()
    os.utime(path, (NOW_MS / 1000, NOW_MS / 1000))
    log = open_log(tmp_path, replace(CONFIG, segment_bytes=100))  # so that segments are not joined
    log.update_high_watermark(5)
    clean(log)
    assert legacy_rows(log) == [(1, b"b", b"2"), (3, b"a", b"4"), (4, b"c", None)]
    assert log.files.modified_ms(log.segments.first.log.path) == NOW_MS
    append(log, (b"y", b"9"))
    log.roll(NOW_MS)
    for late_ms, expected in ((DAY_MS - 1, 3), (DAY_MS, 2)):
        # tombstones go when their segment is delete.retention.ms older than the newest clean one
        newest = log.segments.floor(log.active_segment.base_offset - 1)
        assert newest is not None
        log.files.set_modified_ms(newest.log.path, NOW_MS + late_ms)
        log.first_dirty_offset = log.log_end_offset
        append(log, (b"z", b"9"))
        log.roll(NOW_MS)
        clean(log, memory_bytes=24 * 50)
        assert len(legacy_rows(log)) == expected


def legacy_rows(log: PartitionLog) -> list[Row]:
    data = log.segments.first.log.read_at(0, log.segments.first.size_bytes)
    return [(r.offset, r.key, r.value) for b in read_batches(data) if b.magic < 2 for r in b.records()]


@pytest.mark.parametrize("codec", [codec for codec in CompressionType if codec])
def test_a_batch_that_unpacks_to_more_than_the_bound_puts_only_its_partition_aside(
    tmp_path: Path, codec: CompressionType
) -> None:
    logs = [PartitionLog.open(str(tmp_path / name), CONFIG, RealFileSystem(), NOW_MS) for name in ("a-0", "b-0")]
    builder = BatchBuilder(1 << 20, codec)
    builder.append(NOW_MS, b"k", bytes(80_000))
    logs[0].append_as_leader(memoryview(bytearray(builder.close())), leader_epoch=0, now_ms=NOW_MS)
    for log in logs:
        append(log, (b"k", b"w"))
        append(log, (b"k", b"x"))
        log.roll(NOW_MS)
        log.update_config(replace(CONFIG, max_decompressed_message_bytes=64 << 10))
    before = rows(logs[0])
    manager = LogCleanerManager()
    while (grabbed := manager.grab_filthiest_log(logs, NOW_MS)) is not None:
        found, wanted = grabbed

        def swap(plan: LogToClean, segment: CleanedSegment, found: PartitionLog = found) -> None:
            swap_in(found, plan, segment, NOW_MS)

        outcome: CleanerStats | Exception
        try:
            outcome = Cleaner(RealFileSystem(), dedupe_buffer_bytes=1 << 16).clean(wanted, NOW_MS, swap)
        except RecordTooLarge as error:
            outcome = error
        manager.done_cleaning(found, wanted, outcome, NOW_MS)
    assert "max.decompressed.message.bytes" in manager.uncleanable[logs[0].topic_partition]
    assert len(manager.uncleanable) == 1
    assert rows(logs[0]) == before
    assert [value for _, _, value in rows(logs[1])] == [b"x"]
    assert not list(tmp_path.rglob("*.cleaned"))
