"""Reading, rolling, truncating, retention and searching of one partition's log."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.log_batches import NOW_MS, TRANSACTIONAL, contents, make_batch, make_marker, split_batches

from kafkatools.core.errors import CorruptRecord, LogOffsetOverflow, OffsetOutOfRange, UnexpectedAppendOffset
from kafkatools.core.log.files import RealFileSystem
from kafkatools.core.log.partition.log_config import LogConfig
from kafkatools.core.log.partition.partition_log import PartitionLog
from kafkatools.core.log.partition.segment import LogSegment
from kafkatools.core.log.producers.append import AppendOrigin
from kafkatools.core.records.batch import stamp_batch
from kafkatools.core.records.header import read_header

Opener = Callable[..., PartitionLog]


@pytest.fixture
def open_log(tmp_path: Path) -> Iterator[Opener]:
    opened: list[PartitionLog] = []

    def opener(name: str = "t-0", *, clean: bool = True, start: int = 0, **settings: Any) -> PartitionLog:
        log = PartitionLog.open(
            str(tmp_path / name),
            LogConfig(**settings),
            now_ms=NOW_MS,
            had_clean_shutdown=clean,
            log_start_offset=start,
        )
        log.update_high_watermark(log.log_end_offset)
        opened.append(log)
        return log

    yield opener
    for log in opened:
        log.close()


def append(log: PartitionLog, *values: bytes, now_ms: int = NOW_MS, **batch: Any) -> int:
    made = make_batch(values, **batch)
    info = log.append_as_leader(memoryview(made), leader_epoch=0, now_ms=now_ms)
    log.update_high_watermark(log.log_end_offset)
    return info.first_offset


def offsets(log: PartitionLog, offset: int, max_bytes: int = 1 << 20, **options: Any) -> list[int]:
    data = log.read(offset, max_bytes, **options).read()
    return [int.from_bytes(batch[:8], "big") for batch in split_batches(data)]


def fill(log: PartitionLog, count: int, size: int = 100) -> None:
    for number in range(count):
        append(log, b"%d" % number + b"x" * size, timestamps=[NOW_MS + number])


def test_reading_begins_at_the_batch_that_holds_the_offset(open_log: Opener) -> None:
    log = open_log()
    append(log, b"a", b"b", b"c")
    append(log, b"d")
    assert offsets(log, 0) == [0, 3]
    assert offsets(log, 2) == [0, 3]
    assert offsets(log, 3) == [3]
    assert log.read(4, 1000).size_bytes == 0


@pytest.mark.parametrize("interval", [0, 300, 1 << 20])
def test_every_offset_is_found_with_any_density_of_the_index(interval: int, open_log: Opener) -> None:
    log = open_log(index_interval_bytes=interval, segment_bytes=2000)
    fill(log, 60)
    for offset in range(60):
        assert offsets(log, offset, max_bytes=1) == [offset]
    log.close()
    again = open_log(index_interval_bytes=interval, segment_bytes=2000)
    for offset in range(60):
        assert offsets(again, offset, max_bytes=1) == [offset]


def test_offsets_outside_the_log_are_out_of_range(open_log: Opener) -> None:
    log = open_log()
    fill(log, 4)
    log.increment_log_start_offset(2)
    for offset in (-1, 0, 1, 5):
        with pytest.raises(OffsetOutOfRange):
            log.read(offset, 1000)
    assert offsets(log, 2) == [2, 3]


def test_max_bytes_cuts_and_the_first_batch_comes_whole_when_asked(open_log: Opener) -> None:
    log = open_log()
    fill(log, 3)
    size = log.size_bytes // 3
    assert log.read(0, 10).size_bytes > 10
    assert offsets(log, 0, max_bytes=10) == [0]
    cut = log.read(0, 10, min_one_message=False)
    assert (cut.size_bytes, cut.first_entry_incomplete) == (10, True)
    assert [log.read(0, limit, min_one_message=False).first_entry_incomplete for limit in (0, size)] == [False, False]
    assert log.read(0, 2 * size + 5).size_bytes == 2 * size + 5


def test_reads_stop_at_the_given_end(open_log: Opener) -> None:
    log = open_log(segment_bytes=400)
    fill(log, 9)
    assert offsets(log, 0, max_offset=1) == [0]
    assert offsets(log, 4, max_offset=5) == [4]
    assert log.read(5, 1000, max_offset=5).size_bytes == 0
    assert log.read(6, 1000, max_offset=5).size_bytes == 0


def test_an_offset_in_a_hole_gives_what_follows(open_log: Opener) -> None:
    log = open_log(segment_bytes=300)
    for base in (0, 10, 20, 30):
        log.append_as_follower(memoryview(make_batch([b"x" * 100], base_offset=base, leader_epoch=0)), NOW_MS)
    assert [offsets(log, offset, max_bytes=1) for offset in (1, 10, 11, 25)] == [[10], [10], [20], [30]]


def test_a_wrong_index_entry_never_gives_wrong_records(open_log: Opener, tmp_path: Path) -> None:
    log = open_log(index_interval_bytes=0)
    fill(log, 20)
    log.close()
    path = tmp_path / "t-0" / "00000000000000000000.index"
    data = bytearray(path.read_bytes())
    for position in range(7, len(data) - 8, 8):
        data[position] ^= 0x15
    path.write_bytes(data)
    again = open_log(index_interval_bytes=0)
    assert [offsets(again, offset, max_bytes=1) for offset in range(20)] == [[offset] for offset in range(20)]


def test_segments_roll_by_size_and_keep_every_record(open_log: Opener) -> None:
    log = open_log(segment_bytes=500)
    fill(log, 12)
    assert len(log.segments) > 2
    assert all(segment.size_bytes <= 500 for segment in log.segments)
    found: list[int] = []
    while (next_offset := found[-1] + 1 if found else 0) < log.log_end_offset:
        found += offsets(log, next_offset)
    assert found == list(range(12))


def test_segments_roll_by_the_time_of_their_records(open_log: Opener) -> None:
    log = open_log(segment_ms=1000, message_timestamp_after_max_ms=2**62)
    append(log, b"a", timestamps=[NOW_MS])
    append(log, b"b", timestamps=[NOW_MS + 1000])
    append(log, b"c", timestamps=[NOW_MS + 1001])
    assert log.segments.base_offsets == [0, 2]


def test_segments_roll_by_the_clock_when_records_have_no_time(open_log: Opener) -> None:
    log = open_log(segment_ms=1000)
    append(log, b"a", timestamps=[-1], now_ms=NOW_MS)
    append(log, b"b", timestamps=[-1], now_ms=NOW_MS + 1000)
    append(log, b"c", timestamps=[-1], now_ms=NOW_MS + 1001)
    assert log.segments.base_offsets == [0, 2]


def test_segments_roll_when_the_index_is_full(open_log: Opener) -> None:
    log = open_log(segment_index_bytes=24, index_interval_bytes=0)
    fill(log, 9)
    assert len(log.segments) > 2
    assert offsets(log, 0, max_bytes=1) == [0]


def replicated(first: int, end: int) -> memoryview:
    """The batches of a leader with these offsets, of one record each."""
    batches = [
        make_batch([b"v"], base_offset=offset, timestamps=[NOW_MS + offset], leader_epoch=0)
        for offset in range(first, end)
    ]
    return memoryview(bytearray(b"".join(batches)))


def read_on(log: PartitionLog) -> list[int]:
    found: list[int] = []
    while len(found) < log.log_end_offset:
        found += offsets(log, len(found))
    return found


def test_one_append_of_a_follower_may_need_more_index_entries_than_there_is_room_for(open_log: Opener) -> None:
    log = open_log(segment_index_bytes=80, index_interval_bytes=0)
    for end in (30, 60):
        log.append_as_follower(replicated(log.log_end_offset, end), NOW_MS)
    log.update_high_watermark(60)
    assert log.segments.base_offsets == [0, 30]
    assert read_on(log) == list(range(60))
    found = [log.offset_for_timestamp(NOW_MS + offset) for offset in range(60)]
    assert [each and each.offset for each in found] == list(range(60))


def test_a_log_is_recovered_with_a_smaller_index(open_log: Opener) -> None:
    open_log(index_interval_bytes=0).append_as_follower(replicated(0, 50), NOW_MS)
    log = open_log(clean=False, segment_index_bytes=80, index_interval_bytes=0)
    assert read_on(log) == list(range(50))
    append(log, b"v", timestamps=[NOW_MS + 50])
    assert log.segments.base_offsets == [0, 50]


def test_the_smallest_index_has_a_segment_for_each_append(open_log: Opener) -> None:
    log = open_log(segment_index_bytes=4)
    fill(log, 4)
    assert log.segments.base_offsets == [0, 1, 2, 3]
    newest = log.max_timestamp()
    assert newest is not None
    assert newest.offset == 3


def test_the_newest_timestamp_is_found_without_reading_the_segment(
    open_log: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = open_log()
    log.append_as_follower(replicated(0, 5000), NOW_MS)
    read, sizes = os.pread, []

    def pread(descriptor: int, size: int, position: int) -> bytes:
        data = read(descriptor, size, position)
        sizes.append(len(data))
        return data

    monkeypatch.setattr(os, "pread", pread)
    newest = log.max_timestamp()
    assert newest is not None
    assert newest.offset == 4999
    assert 0 < sum(sizes) < log.size_bytes // 4


def test_segments_roll_before_relative_offsets_overflow(open_log: Opener) -> None:
    log = open_log()
    for base in (0, 2**31 - 1, 2**31):
        log.append_as_follower(memoryview(make_batch(base_offset=base, leader_epoch=0)), NOW_MS)
    assert log.segments.base_offsets == [0, 2**31]
    assert offsets(log, 5) == [2**31 - 1]


def test_a_segment_ends_whole_if_its_last_index_entry_and_its_last_batch_do(tmp_path: Path) -> None:
    files, config = RealFileSystem(), LogConfig(index_interval_bytes=0)
    segment = LogSegment.create(files, str(tmp_path), 0, config, NOW_MS)
    assert segment.ends_whole()
    batches = [make_batch([b"x" * 50], base_offset=offset) for offset in range(4)]
    for batch in batches:
        segment.append_batches(bytes(batch), [read_header(batch)])
    assert segment.offset_index.entry_count == 3
    assert segment.ends_whole()
    segment.log.append(bytes(batches[0])[:-1])
    assert not segment.ends_whole()
    segment.log.truncate(4 * len(batches[0]))
    assert segment.ends_whole()
    segment.offset_index.append(5, 3 * len(batches[0]) + 1)
    assert not segment.ends_whole()
    segment.release()


def test_settings_of_topics_are_read_from_text() -> None:
    values = {"preallocate": "TRUE", "segment.bytes": "5000", "cleanup.policy": "compact, delete", "retention.ms": None}
    config = LogConfig.from_values({**values, "unknown.setting": "1", "segment.ms": 7})
    assert config == LogConfig(
        preallocate=True, segment_bytes=5000, cleanup_policy=frozenset({"compact", "delete"}), segment_ms=7
    )
    assert LogConfig.from_values({"preallocate": "no", "internal.segment.bytes": "10"}).segment_bytes == 10
    assert LogConfig.from_values({"preallocate": True}).preallocate
    with pytest.raises(ValueError, match="many"):
        LogConfig.from_values({"segment.bytes": "many"})


def test_a_segment_takes_no_offset_that_its_indexes_cannot_have(tmp_path: Path) -> None:
    segment = LogSegment.create(RealFileSystem(), str(tmp_path), 5, LogConfig(), NOW_MS)
    first, last, above = (make_batch(base_offset=offset) for offset in (5, 5 + 2**31 - 1, 5 + 2**31))
    with pytest.raises(LogOffsetOverflow, match=f"overflow at {5 + 2**31} in "):
        segment.append_batches(bytes(first + above), [read_header(first), read_header(above)])
    with pytest.raises(LogOffsetOverflow, match=f"overflow at offset {5 + 2**31} in segment"):
        segment.append(above, 5 + 2**31, NOW_MS, 5 + 2**31)
    assert segment.log.size_bytes == 0
    segment.append_batches(bytes(first + last), [read_header(first), read_header(last)])
    assert segment.read_next_offset() == 5 + 2**31
    segment.release()


@pytest.mark.parametrize("clean", [True, False])
def test_a_replica_of_a_compacted_log_takes_batches_far_above_its_end(open_log: Opener, clean: bool) -> None:
    """UnifiedLog.maybeRoll: the segment begins at the first batch, whose offset need not be that of the log's end."""
    far = [2**31, 2**33, 2**33 + 2**31 - 1, 2**33 + 2**31]
    log = open_log(cleanup_policy=("compact",))
    log.append_as_follower(memoryview(make_batch(base_offset=far[0], leader_epoch=0)), NOW_MS)
    both = make_batch(base_offset=far[1], leader_epoch=0) + make_batch(base_offset=far[2], leader_epoch=0)
    log.append_as_follower(memoryview(both), NOW_MS)
    log.append_as_follower(memoryview(make_batch(base_offset=far[3], leader_epoch=0)), NOW_MS)
    for _ in range(2):
        log.update_high_watermark(log.log_end_offset)
        assert log.segments.base_offsets == [0, far[0], far[1], far[3]]
        assert [offsets(log, offset) for offset in (5, far[0] + 1, far[2], far[2] + 1)] == [
            [far[0]],
            [far[1], far[2]],
            [far[2]],
            [far[3]],
        ]
        assert log.log_end_offset == far[3] + 1
        log.close()
        log = open_log(clean=clean, cleanup_policy=("compact",))


def test_index_files_are_preallocated_while_active_and_trimmed_when_rolled(open_log: Opener, tmp_path: Path) -> None:
    log = open_log(segment_index_bytes=4099, index_interval_bytes=0, segment_bytes=100_000)
    fill(log, 10)
    log.flush()
    sizes = {path.name: path.stat().st_size for path in (tmp_path / "t-0").glob("*index")}
    assert sizes == {"00000000000000000000.index": 4096, "00000000000000000000.timeindex": 4092}
    log.roll(NOW_MS)
    assert (tmp_path / "t-0" / "00000000000000000000.index").stat().st_size == 9 * 8


def test_truncation_cuts_log_indexes_and_epochs(open_log: Opener) -> None:
    log = open_log(segment_bytes=500, index_interval_bytes=0)
    fill(log, 12)
    log.assign_epoch_start_offset(1)
    log.append_as_leader(memoryview(make_batch()), leader_epoch=1, now_ms=NOW_MS)
    assert log.truncate_to(5, NOW_MS)
    assert (log.log_end_offset, log.latest_epoch, log.high_watermark) == (5, 0, 5)
    assert log.segments.base_offsets[-1] <= 5
    with pytest.raises(OffsetOutOfRange):
        log.read(6, 100)
    assert append(log, b"new") == 5
    assert offsets(log, 4, max_bytes=1) == [4]
    assert offsets(log, 5) == [5]
    assert not log.truncate_to(99)


def test_truncation_takes_producers_back_in_time(open_log: Opener) -> None:
    log = open_log()
    for sequence in range(4):
        append(log, b"v", producer_id=3, producer_epoch=0, base_sequence=sequence)
    log.truncate_to(2, NOW_MS)
    assert append(log, b"v", producer_id=3, producer_epoch=0, base_sequence=2) == 2


def test_truncating_everything_starts_anew_at_an_offset(open_log: Opener) -> None:
    log = open_log(segment_bytes=500)
    fill(log, 9)
    log.truncate_fully_and_start_at(100, NOW_MS)
    assert (log.log_start_offset, log.log_end_offset, log.segments.base_offsets) == (100, 100, [100])
    assert append(log, b"a") == 100


def test_followers_take_offsets_as_they_are_and_refuse_those_that_go_back(open_log: Opener) -> None:
    log = open_log()
    both = make_batch([b"a", b"b"], base_offset=0, leader_epoch=3) + make_batch(base_offset=2, leader_epoch=4)
    info = log.append_as_follower(memoryview(both), NOW_MS)
    assert (info.first_offset, info.last_offset, log.latest_epoch) == (0, 2, 4)
    with pytest.raises(UnexpectedAppendOffset):
        log.append_as_follower(memoryview(make_batch(base_offset=2, leader_epoch=4)), NOW_MS)
    damaged = make_batch(base_offset=3, leader_epoch=4) + make_batch(base_offset=4, leader_epoch=4, crc=0)
    with pytest.raises(CorruptRecord):
        log.append_as_follower(memoryview(damaged), NOW_MS)
    assert log.log_end_offset == 3


def test_a_leader_that_comes_back_forgot_what_producers_wanted_to_begin_with_before(open_log: Opener) -> None:
    """A transaction was about to begin with sequence 1 when another leader took over; it and the next went on there."""
    log = open_log()
    producer = {"producer_id": 7, "producer_epoch": 0, "attributes": TRANSACTIONAL}
    log.append_as_leader(memoryview(make_batch(base_sequence=0, **producer)), leader_epoch=0, now_ms=NOW_MS)
    marker = make_marker(7, 0, commit=True)
    log.append_as_leader(memoryview(marker), leader_epoch=0, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)
    log.attempts.note(7, 0, 1, bumps_epoch=False)
    for base, sequence in ((2, 1), (3, 2)):
        batch = make_batch(base_offset=base, base_sequence=sequence, leader_epoch=1, **producer)
        log.append_as_follower(memoryview(batch), NOW_MS)
    stamp_batch(marker, 0, base_offset=4, leader_epoch=1)
    log.append_as_follower(memoryview(marker), NOW_MS)
    log.attempts.note(7, 0, 3, bumps_epoch=False)
    info = log.append_as_leader(memoryview(make_batch(base_sequence=3, **producer)), leader_epoch=2, now_ms=NOW_MS)
    assert info.first_offset == 5


def test_an_attempt_to_begin_a_transaction_holds_until_the_producers_next_batch_or_marker(open_log: Opener) -> None:
    log = open_log()
    producer = {"producer_id": 7, "producer_epoch": 0, "attributes": TRANSACTIONAL}
    marker = make_marker(7, 0, commit=True)

    def append_marker() -> None:
        log.append_as_leader(memoryview(marker), leader_epoch=0, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR)

    attempt = log.attempts.note(7, 0, 0, bumps_epoch=False)
    assert log.attempts.note(7, 0, 1, bumps_epoch=False) is attempt, "of two batches on their way"
    assert log.attempts.holds(7, attempt)
    append_marker()
    assert not log.attempts.holds(7, attempt), "the transaction that the coordinator confirmed may have ended"
    attempt = log.attempts.note(7, 0, 0, bumps_epoch=False)
    log.append_as_leader(memoryview(make_batch(base_sequence=0, **producer)), leader_epoch=0, now_ms=NOW_MS)
    assert (log.attempts.holds(7, attempt), log.has_ongoing_transaction(7, 0)) == (False, True)
    newer = log.attempts.note(7, 2, 0, bumps_epoch=True)
    older = log.attempts.note(7, 1, 0, bumps_epoch=True)
    assert (log.attempts.holds(7, newer), log.attempts.holds(7, older)) == (True, False)


def test_a_marker_of_transaction_version_2_ends_no_attempt_of_the_next_transaction(open_log: Opener) -> None:
    log = open_log()
    last = log.attempts.note(7, 0, 0, bumps_epoch=True)
    other = log.attempts.note(8, 1, 0, bumps_epoch=True)
    for producer_id in (7, 8):
        log.append_as_leader(
            memoryview(make_marker(producer_id, 1, commit=True)),
            leader_epoch=0,
            now_ms=NOW_MS,
            origin=AppendOrigin.COORDINATOR,
            transaction_version=2,
        )
    assert (log.attempts.holds(7, last), log.attempts.holds(8, other)) == (False, True)


def test_retention_by_time_lets_old_segments_go(open_log: Opener, tmp_path: Path) -> None:
    log = open_log(segment_bytes=300, retention_ms=1000)
    fill(log, 6)
    last = NOW_MS + 5
    assert log.delete_retention_segments(last + 900) == 0
    assert log.delete_retention_segments(NOW_MS + 1002) == 2
    assert log.log_start_offset == log.segments.first.base_offset > 0
    deleted = sorted(path.name for path in (tmp_path / "t-0").glob("*.deleted"))
    assert deleted[0] == "00000000000000000000.index.deleted"
    log.tasks.run_due(NOW_MS + 1002 + 59_999)
    assert list((tmp_path / "t-0").glob("*.deleted"))
    log.tasks.run_due(NOW_MS + 1002 + 60_000)
    assert not list((tmp_path / "t-0").glob("*.deleted"))


def test_retention_by_time_rolls_when_the_active_segment_is_due_too(open_log: Opener) -> None:
    log = open_log(retention_ms=1000)
    fill(log, 3)
    assert log.delete_retention_segments(NOW_MS + 5000) == 1
    assert (log.log_start_offset, log.log_end_offset, log.size_bytes) == (3, 3, 0)
    assert append(log, b"next") == 3


def test_retention_by_size_keeps_at_least_that_much(open_log: Opener) -> None:
    log = open_log(segment_bytes=300, retention_bytes=500, retention_ms=-1)
    fill(log, 6)
    log.delete_retention_segments(NOW_MS + 10**12)
    assert 500 <= log.size_bytes < 500 + 300


def test_retention_never_passes_the_high_watermark(open_log: Opener) -> None:
    log = open_log(segment_bytes=300, retention_ms=0)
    fill(log, 6)
    log.high_watermark = 3
    log.delete_retention_segments(NOW_MS + 10**6)
    assert log.log_start_offset <= 3


def test_deleted_records_go_with_their_segments(open_log: Opener) -> None:
    log = open_log(segment_bytes=300, retention_ms=-1)
    fill(log, 6)
    second, third = log.segments.base_offsets[1:3]
    log.increment_log_start_offset(third)
    assert log.delete_retention_segments(NOW_MS) == 2
    assert log.segments.base_offsets[0] == third > second
    with pytest.raises(OffsetOutOfRange):
        log.increment_log_start_offset(7)


def test_compacted_logs_keep_what_is_old(open_log: Opener) -> None:
    log = open_log(segment_bytes=300, retention_ms=0, cleanup_policy=frozenset({"compact"}))
    for number in range(6):
        append(log, b"x" * 100, keys=[b"%d" % number])
    assert log.delete_retention_segments(NOW_MS + 10**9) == 0


def test_the_log_start_survives_through_its_checkpoint(open_log: Opener) -> None:
    log = open_log()
    fill(log, 5)
    log.increment_log_start_offset(3)
    log.close()
    again = open_log(start=3)
    assert (again.log_start_offset, again.log_end_offset) == (3, 5)


def test_a_log_that_ends_below_its_start_begins_anew_there(open_log: Opener) -> None:
    log = open_log()
    fill(log, 2)
    log.close()
    again = open_log(start=10, clean=False)
    assert (again.log_start_offset, again.log_end_offset, again.segments.base_offsets) == (10, 10, [10])


def test_timestamps_find_the_first_record_that_is_not_older(open_log: Opener) -> None:
    log = open_log(segment_bytes=400, index_interval_bytes=0, message_timestamp_after_max_ms=2**62)
    for step in (0, 10, 20, 30, 40):
        append(log, b"a" * 60, b"b" * 60, timestamps=[NOW_MS + step, NOW_MS + step + 5])
    for target, expected in ((0, 0), (5, 1), (6, 2), (25, 5), (31, 7), (45, 9)):
        found = log.offset_for_timestamp(NOW_MS + target)
        assert found is not None and found.offset == expected
        assert found.leader_epoch == 0
    assert log.offset_for_timestamp(NOW_MS + 46) is None
    newest = log.max_timestamp()
    assert newest is not None and (newest.timestamp, newest.offset) == (NOW_MS + 45, 9)


def test_the_newest_timestamp_need_not_be_the_last(open_log: Opener) -> None:
    log = open_log(message_timestamp_after_max_ms=2**62)
    append(log, b"a", b"b", b"c", timestamps=[NOW_MS, NOW_MS + 9, NOW_MS + 9])
    append(log, b"d", timestamps=[NOW_MS + 1])
    newest = log.max_timestamp()
    assert newest is not None and (newest.timestamp, newest.offset) == (NOW_MS + 9, 1)
    assert open_log("other-0").max_timestamp() is None


def test_open_transactions_hold_the_last_stable_offset(open_log: Opener) -> None:
    log = open_log()
    transactional = {"producer_epoch": 0, "base_sequence": 0, "attributes": TRANSACTIONAL}
    append(log, b"plain")
    append(log, b"a", producer_id=1, **transactional)
    append(log, b"b", producer_id=2, **transactional)
    assert (log.first_unstable_offset, log.last_stable_offset) == (1, 1)
    log.append_as_leader(
        memoryview(make_marker(1, 0, commit=False)), leader_epoch=0, now_ms=NOW_MS, origin=AppendOrigin.COORDINATOR
    )
    assert log.first_unstable_offset == 1
    log.update_high_watermark(log.log_end_offset)
    assert (log.first_unstable_offset, log.last_stable_offset) == (2, 2)
    aborted = log.aborted_transactions(0, 10)
    assert [(txn.producer_id, txn.first_offset, txn.last_offset, txn.last_stable_offset) for txn in aborted] == [
        (1, 1, 3, 2)
    ]
    assert log.aborted_transactions(4, 10) == []
    log.close()
    again = open_log()
    assert again.first_unstable_offset == 2
    assert again.has_ongoing_transaction(2, 0)


def test_the_epoch_checkpoint_answers_where_epochs_end(open_log: Opener) -> None:
    log = open_log()
    log.assign_epoch_start_offset(2)
    log.append_as_leader(memoryview(make_batch([b"a", b"b"])), leader_epoch=2, now_ms=NOW_MS)
    log.assign_epoch_start_offset(5)
    log.append_as_leader(memoryview(make_batch()), leader_epoch=5, now_ms=NOW_MS)
    answers = [log.end_offset_for_epoch(epoch) for epoch in (-1, 0, 2, 3, 5, 6)]
    assert answers == [(-1, -1), (0, 0), (2, 2), (2, 2), (5, 3), (-1, -1)]


@pytest.mark.parametrize("start", [0, 2])
@pytest.mark.parametrize("left", ["0\n1\n7 4\n", "0\n0\n"])
def test_epochs_below_the_first_of_the_checkpoint_are_read_from_the_batches(
    left: str, start: int, open_log: Opener, tmp_path: Path
) -> None:
    """A deletion of records cuts the checkpoint durably; a loss of power gives the records back, not the epochs."""
    log = open_log(segment_bytes=150)
    for epoch in (2, 5, 7):
        for _ in range(2):
            log.append_as_leader(memoryview(make_batch()), leader_epoch=epoch, now_ms=NOW_MS)
    log.flush()
    log.close()
    checkpoint = tmp_path / "t-0" / "leader-epoch-checkpoint"
    checkpoint.write_text(left)
    again = open_log(segment_bytes=150, clean=False, start=start)
    assert [again.end_offset_for_epoch(epoch) for epoch in (1, 5, 6, 7)] == [(1, start), (5, 4), (5, 4), (7, 6)]
    again.close()
    assert checkpoint.read_text() == ("0\n3\n2 0\n5 2\n7 4\n" if start == 0 else "0\n2\n5 2\n7 4\n")


def test_a_log_that_begins_behind_its_start_offset_keeps_its_checkpoint(open_log: Opener, tmp_path: Path) -> None:
    """As a replica of a compacted log does, and one of batches without epochs."""
    log = open_log("compacted-0", cleanup_policy=("compact",))
    log.append_as_follower(memoryview(make_batch(base_offset=50, leader_epoch=3)), NOW_MS)
    log.assign_epoch_start_offset(4)
    log.close()
    again = open_log("compacted-0", cleanup_policy=("compact",), clean=False)
    assert (again.log_start_offset, again.end_offset_for_epoch(3)) == (0, (3, 51))
    assert (tmp_path / "compacted-0" / "leader-epoch-checkpoint").read_text() == "0\n2\n3 50\n4 51\n"


def test_interrupted_swaps_are_finished_and_leftovers_removed(open_log: Opener, tmp_path: Path) -> None:
    log = open_log(segment_bytes=300)
    fill(log, 6)
    log.close()
    directory = tmp_path / "t-0"
    names = sorted(path.stem for path in directory.glob("*.log"))
    for suffix in (".log", ".index", ".timeindex"):
        (directory / f"{names[0]}{suffix}").rename(directory / f"{names[0]}{suffix}.swap")
    (directory / f"{names[1]}.index.deleted").write_bytes(b"")
    (directory / "00000000000000000777.log.cleaned").write_bytes(b"")
    (directory / "00000000000000000888.log.swap").write_bytes(b"")
    (directory / "00000000000000000999.index").write_bytes(b"")
    again = open_log(segment_bytes=300)
    assert offsets(again, 0, max_bytes=1) == [0]
    left = {name for name in contents(directory) if not name.endswith((".log", "index", ".snapshot"))}
    assert left == {"leader-epoch-checkpoint"}
    assert not (directory / "00000000000000000999.index").exists()


def test_flush_moves_the_recovery_point(open_log: Opener) -> None:
    log = open_log(flush_messages=3)
    fill(log, 2)
    assert log.recovery_point == 0
    fill(log, 1)
    assert log.recovery_point == 3


def test_few_descriptors_serve_many_logs(tmp_path: Path) -> None:
    files = RealFileSystem(max_open_files=8)
    logs = [PartitionLog.open(str(tmp_path / f"t-{n}"), LogConfig(), files, NOW_MS) for n in range(30)]
    for round_number in range(3):
        for log in logs:
            append(log, b"%d" % round_number)
            assert files.open_file_count <= 8
    assert all(offsets(log, 0) == [0, 1, 2] for log in logs)
    for log in logs:
        log.close()
    assert files.open_file_count == 0


def test_what_waits_for_its_removal_holds_no_descriptor(tmp_path: Path) -> None:
    files = RealFileSystem()
    log = PartitionLog.open(str(tmp_path / "t-0"), LogConfig(segment_bytes=500), files, NOW_MS)
    fill(log, 9)
    log.truncate_to(1, NOW_MS)
    assert list(tmp_path.glob("t-0/*.log.deleted"))
    log.close()
    assert files.open_file_count == 0


def test_segments_of_magic_one_are_searched_and_found_whole_after_an_unclean_stop(
    golden: Callable[[str], Path],
) -> None:
    directory = golden("message-set-v1-segments") / "log"
    before = {name: data for name, data in contents(directory).items() if name.endswith(".log")}
    for clean in (True, False):
        log = PartitionLog.open(str(directory), LogConfig(), now_ms=NOW_MS, had_clean_shutdown=clean)
        assert (log.log_start_offset, log.log_end_offset, log.latest_epoch) == (0, 280, None)
        found = [log.offset_for_timestamp(timestamp) for timestamp in (0, 1700000001027, 1700000001028)]
        assert [(at.timestamp, at.offset) for at in found if at is not None] == [
            (1700000000000, 0),
            (1700000001027, 1),
            (1700000002082, 2),
        ]
        log.close()
    assert {name: data for name, data in contents(directory).items() if name.endswith(".log")} == before


def test_jitter_lets_segments_roll_earlier_by_less_than_it(open_log: Opener) -> None:
    log = open_log(segment_ms=10_000, segment_jitter_ms=50)
    jitters = {log.roll(NOW_MS).roll_jitter_ms for _ in range(100) if append(log, b"x") >= 0}
    assert len(jitters) > 5
    assert all(0 <= jitter < 50 for jitter in jitters)


@pytest.mark.parametrize("damage", ["size", "size-of-first", "marker"])
@pytest.mark.parametrize("is_clean", [True, False])
def test_damage_that_stops_the_start_is_told_with_file_position_and_the_way_out(
    damage: str, is_clean: bool, open_log: Opener, tmp_path: Path
) -> None:
    """Without snapshots an index is rebuilt after the producers' state, from the segments before it; Apache Kafka 4.3.1
    does not start either with such an old segment."""
    log = open_log(segment_bytes=1000)
    for number in range(40):
        append(log, b"%d" % number + b"x" * 100, producer_id=5, producer_epoch=0, base_sequence=number)
    log.close()
    path, following = sorted((tmp_path / "t-0").glob("*.log"))[1:3]
    data = bytearray(path.read_bytes())
    size = 12 + int.from_bytes(data[8:12], "big")
    position = 0 if damage == "size-of-first" else 2 * size
    if damage == "marker":
        data[position + 22] ^= 0x20
    else:
        data[position + 8 : position + 12] = (3).to_bytes(4, "big")
    path.write_bytes(data)
    following.with_suffix(".index").unlink()
    for snapshot in (tmp_path / "t-0").glob("*.snapshot"):
        snapshot.unlink()

    def reopen() -> PartitionLog:
        settings = LogConfig(segment_bytes=1000)
        return PartitionLog.open(
            str(tmp_path / "t-0"), settings, now_ms=NOW_MS, had_clean_shutdown=is_clean, recovery_point=40
        )

    with pytest.raises(CorruptRecord) as raised:
        reopen()
    index = path.with_suffix(".index")
    assert str(raised.value).startswith(f"{path} is damaged at position {position}: ")
    assert f"remove {index}: " in str(raised.value)
    index.unlink()
    recovered = reopen()
    first, behind = int(path.stem), int(following.stem)
    kept = [offset for offset in offsets(recovered, first) if offset < behind]
    assert kept == list(range(first, first + position // size))
    assert recovered.log_end_offset == 40
    assert offsets(recovered, behind)[0] == behind
    recovered.close()


def test_a_segment_that_is_not_there_cannot_be_removed(open_log: Opener) -> None:
    log = open_log(segment_bytes=100)
    for _ in range(3):
        append(log, b"two", b"records")
    assert log.segments.base_offsets == [0, 2, 4]
    for offset in (1, 3, 5):
        with pytest.raises(KeyError, match=f"no segment begins at offset {offset}"):
            log.segments.remove(offset)
    assert log.segments.base_offsets == [0, 2, 4]
