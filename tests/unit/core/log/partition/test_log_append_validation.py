"""What a leader refuses to append, with Kafka's error codes; a refused batch leaves the log as it was."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.log_batches import CONTROL, NOW_MS, TRANSACTIONAL, make_batch, make_marker, set_crc

from kafkatools.core.errors import InvalidRecord, KafkaError
from kafkatools.core.log.partition.append_validation import RejectedRecords, RejectedTimestamps
from kafkatools.core.log.partition.log_config import LogConfig
from kafkatools.core.log.partition.partition_log import PartitionLog
from kafkatools.core.log.producers.append import AppendOrigin
from kafkatools.core.records.batch import RecordBatch
from kafkatools.core.records.builder import BatchBuilder
from kafkatools.core.records.compression import CompressionType


@pytest.fixture
def log(tmp_path: Path) -> Iterator[PartitionLog]:
    opened = PartitionLog.open(str(tmp_path / "t-0"), LogConfig(), now_ms=NOW_MS)
    yield opened
    opened.close()


def append(log: PartitionLog, batch: bytearray, **options: Any) -> Any:
    return log.append_as_leader(memoryview(batch), leader_epoch=0, now_ms=NOW_MS, **options)


def error_code(log: PartitionLog, batch: bytearray, **options: Any) -> int:
    end, size = log.log_end_offset, log.size_bytes
    with pytest.raises(KafkaError) as caught:
        append(log, batch, **options)
    assert (log.log_end_offset, log.size_bytes) == (end, size)
    return caught.value.code


REFUSED = {
    "a wrong checksum": (make_batch(crc=1), 2),
    "a base offset": (make_batch(base_offset=7), 87),
    "magic 0": (make_batch(magic=0), 87),
    "magic 1": (make_batch(magic=1), 87),
    "magic 3": (make_batch(magic=3), 2),
    "a length below the header": (make_batch(length=20), 2),
    "a length beyond the end": (make_batch(length=5000), 2),
    "a negative offset range": (make_batch(last_offset_delta=-1), 87),
    "no records by its count": (make_batch(record_count=0), 87),
    "a count below the offset range": (make_batch([b"a", b"b"], record_count=1), 87),
    "a count above the offset range": (make_batch([b"a"], record_count=2), 87),
    "a declared count below the records": (make_batch([b"a", b"b"], record_count=1, last_offset_delta=0), 87),
    "a declared count above the records": (make_batch([b"a"], record_count=2, last_offset_delta=1), 87),
    "a control batch": (make_batch(attributes=CONTROL), 87),
    "a producer without a sequence": (make_batch(producer_id=5, producer_epoch=0), 87),
    "an unknown codec": (make_batch(attributes=5), 76),
    "two batches": (make_batch() + make_batch(), 87),
    "nothing": (bytearray(), 87),
    "half a header": (make_batch()[:40], 87),
}


@pytest.mark.parametrize("what", REFUSED)
def test_a_client_batch_is_refused(what: str, log: PartitionLog) -> None:
    batch, code = REFUSED[what]
    assert error_code(log, bytearray(batch)) == code


def edited(position: int, *values: int) -> bytearray:
    """The batch of records (a), (b) with some bytes of its records replaced: each record is length, attributes,
    timestamp delta, offset delta, key length, value length, value, header count."""
    batch = make_batch([b"a", b"b"])
    batch[61 + position : 61 + position + len(values)] = bytes(values)
    set_crc(batch)
    return batch


BAD_RECORDS = {
    "too few declared": (
        make_batch([b"a", b"b"], record_count=1, last_offset_delta=0),
        "Incorrect declared batch size, records still remaining in file",
    ),
    "too many declared": (
        make_batch([b"a"], record_count=2, last_offset_delta=1),
        "Incorrect declared batch size, premature EOF reached",
    ),
    "a record beyond the end": (edited(8, 20), "Invalid record size: expected 10 bytes in record payload, but instead"),
    "a record that is longer than its fields": (edited(0, 16), "Invalid record size: expected to read 8 bytes"),
    "a value beyond the end": (edited(5, 100), "Found invalid record structure"),
    "a varint without end": (edited(2, *[0xFF] * 14), "Found invalid record structure"),
    "a negative header count": (edited(7, 1), "Found invalid number of record headers -1"),
    "more headers than bytes": (edited(7, 60), "Found invalid number of record headers. 30 is larger"),
    "an offset twice": (edited(8 + 3, 0), "The offset of the record at batch index 1 does not follow"),
    "an offset left out": (edited(8 + 3, 4), "The offset of the record at batch index 1 does not follow"),
}


@pytest.mark.parametrize("what", BAD_RECORDS)
def test_records_that_are_not_what_the_header_says_are_refused_in_kafkas_words(what: str, log: PartitionLog) -> None:
    batch, message = BAD_RECORDS[what]
    with pytest.raises(InvalidRecord, match=re.escape(message) + ".*in topic partition t-0$"):
        append(log, bytearray(batch))
    assert (log.log_end_offset, log.size_bytes) == (0, 0)
    assert append(log, make_batch()).first_offset == 0


def test_the_coordinator_and_the_leader_are_trusted_with_the_form_of_their_records(log: PartitionLog) -> None:
    batch, _ = BAD_RECORDS["an offset left out"]
    assert append(log, bytearray(batch), origin=AppendOrigin.COORDINATOR).last_offset == 1


@pytest.mark.parametrize(("claimed", "records"), [(NOW_MS + 5, [3, 1]), (NOW_MS, [2, 9]), (NOW_MS, [-1])])
def test_a_newest_timestamp_that_is_none_of_the_records_is_put_right(
    claimed: int, records: list[int], log: PartitionLog
) -> None:
    batch = make_batch([b"v"] * len(records), timestamps=records)
    batch[35:43] = claimed.to_bytes(8, "big")
    set_crc(batch)
    assert append(log, batch).batch_max_timestamp == max(records)
    stored = RecordBatch(log.read(0, 1000).read())
    stored.ensure_valid()
    assert stored.max_timestamp == max(records)


def test_a_small_newest_timestamp_hides_no_record_from_the_limits(log: PartitionLog) -> None:
    batch = make_batch(timestamps=[NOW_MS + 3_600_001])
    batch[35:43] = NOW_MS.to_bytes(8, "big")
    set_crc(batch)
    assert error_code(log, batch) == 32


def test_a_batch_above_max_message_bytes_is_too_large(tmp_path: Path) -> None:
    log = PartitionLog.open(str(tmp_path / "t-0"), LogConfig(max_message_bytes=100), now_ms=NOW_MS)
    assert error_code(log, make_batch([b"x" * 100])) == 10


def test_a_batch_above_a_segment_is_too_large_a_list(tmp_path: Path) -> None:
    log = PartitionLog.open(str(tmp_path / "t-0"), LogConfig(segment_bytes=100), now_ms=NOW_MS)
    assert error_code(log, make_batch([b"x" * 100])) == 18


def test_a_compacted_topic_refuses_records_without_key_and_names_them(tmp_path: Path) -> None:
    log = PartitionLog.open(str(tmp_path / "t-0"), LogConfig(cleanup_policy=frozenset({"compact"})), now_ms=NOW_MS)
    with pytest.raises(RejectedRecords) as caught:
        append(log, make_batch([b"a", b"b", b"c"], keys=[b"k", None, b"k"]))
    assert caught.value.code == 87
    assert [error.batch_index for error in caught.value.record_errors] == [1]
    assert append(log, make_batch([b"a"], keys=[b"k"])).first_offset == 0


@pytest.mark.parametrize(
    ("config", "timestamp"),
    [
        (LogConfig(message_timestamp_after_max_ms=1000), NOW_MS + 1001),
        (LogConfig(message_timestamp_before_max_ms=1000), NOW_MS - 1001),
    ],
)
def test_timestamps_out_of_range_are_refused_and_named(config: LogConfig, timestamp: int, tmp_path: Path) -> None:
    log = PartitionLog.open(str(tmp_path / "t-0"), config, now_ms=NOW_MS)
    with pytest.raises(RejectedTimestamps) as caught:
        append(log, make_batch([b"a", b"b"], timestamps=[NOW_MS, timestamp]))
    assert caught.value.code == 32
    assert [error.batch_index for error in caught.value.record_errors] == [1]
    edge = NOW_MS + (1000 if timestamp > NOW_MS else -1000)
    assert append(log, make_batch([b"a", b"b", b"c"], timestamps=[NOW_MS, edge, -1])).last_offset == 2


def test_the_default_lets_timestamps_an_hour_ahead_pass(log: PartitionLog) -> None:
    append(log, make_batch(timestamps=[NOW_MS + 3_600_000]))
    assert error_code(log, make_batch(timestamps=[NOW_MS + 3_600_001])) == 32


def test_contents_that_contradict_the_header_are_the_clients_mistake(tmp_path: Path) -> None:
    log = PartitionLog.open(str(tmp_path / "t-0"), LogConfig(cleanup_policy=frozenset({"compact"})), now_ms=NOW_MS)
    assert error_code(log, make_batch([b"a"], keys=[b"k"], record_count=2, last_offset_delta=1)) == 87


def test_log_append_time_rewrites_type_time_and_checksum(tmp_path: Path) -> None:
    log = PartitionLog.open(str(tmp_path / "t-0"), LogConfig(message_timestamp_type="LogAppendTime"), now_ms=NOW_MS)
    info = append(log, make_batch([b"a", b"b"], timestamps=[1, 2]))
    assert info.log_append_time == info.batch_max_timestamp == NOW_MS
    batch = RecordBatch(log.read(0, 1000).read())
    batch.ensure_valid()
    assert [record.timestamp for record in batch.records()] == [NOW_MS, NOW_MS]


def test_a_producer_must_not_claim_log_append_time(tmp_path: Path) -> None:
    log = PartitionLog.open(str(tmp_path / "t-0"), LogConfig(message_timestamp_type="LogAppendTime"), now_ms=NOW_MS)
    assert error_code(log, make_batch(attributes=0x08)) == 32


def test_a_create_time_topic_takes_the_claim_away(log: PartitionLog) -> None:
    append(log, make_batch(attributes=0x08))
    batch = RecordBatch(log.read(0, 1000).read())
    batch.ensure_valid()
    assert batch.attributes == 0


def test_compression_type_of_the_topic_rewrites_the_batch(tmp_path: Path) -> None:
    log = PartitionLog.open(str(tmp_path / "t-0"), LogConfig(compression_type="zstd"), now_ms=NOW_MS)
    append(log, make_batch([b"x" * 500] * 4, producer_id=9, producer_epoch=1, base_sequence=0))
    batch = RecordBatch(log.read(0, 10_000).read())
    batch.ensure_valid()
    assert batch.compression_type.label == "zstd"
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.record_count) == (9, 1, 0, 4)
    assert [record.value for record in batch.records()] == [b"x" * 500] * 4
    assert log.size_bytes == batch.size_bytes < 300


def test_uncompressed_topics_take_the_codec_away(tmp_path: Path) -> None:
    made = BatchBuilder(4096, codec=CompressionType.LZ4)
    made.append(NOW_MS, b"k", b"y" * 300)
    log = PartitionLog.open(str(tmp_path / "t-0"), LogConfig(compression_type="uncompressed"), now_ms=NOW_MS)
    append(log, bytearray(made.close()))
    batch = RecordBatch(log.read(0, 10_000).read())
    batch.ensure_valid()
    assert batch.compression_type.label == "none"
    assert [record.value for record in batch.records()] == [b"y" * 300]


def data(sequence: int, count: int = 1, epoch: int = 0, producer_id: int = 7, **more: int) -> bytearray:
    return make_batch([b"v"] * count, producer_id=producer_id, producer_epoch=epoch, base_sequence=sequence, **more)


def test_each_of_the_last_five_batches_is_a_duplicate_and_the_sixth_is_out_of_order(log: PartitionLog) -> None:
    for number in range(6):
        append(log, data(number * 2, count=2))
    size = log.size_bytes
    for number in range(1, 6):
        info = append(log, data(number * 2, count=2))
        assert (info.first_offset, info.last_offset, info.is_duplicate) == (number * 2, number * 2 + 1, True)
    assert log.size_bytes == size
    assert error_code(log, data(0, count=2)) == 45


def test_a_gap_in_sequences_is_out_of_order(log: PartitionLog) -> None:
    append(log, data(0))
    assert error_code(log, data(2)) == 45
    assert append(log, data(1)).first_offset == 1


def test_an_overlap_that_is_no_exact_repetition_is_out_of_order(log: PartitionLog) -> None:
    append(log, data(0, count=3))
    assert error_code(log, data(0, count=2)) == 45


def test_a_new_epoch_begins_at_sequence_zero(log: PartitionLog) -> None:
    append(log, data(0))
    assert error_code(log, data(1, epoch=1)) == 45
    append(log, data(0, epoch=1))
    assert error_code(log, data(1, epoch=0)) == 47


def test_an_unknown_producer_may_begin_anywhere(log: PartitionLog) -> None:
    assert append(log, data(41)).first_offset == 0
    assert append(log, data(42)).first_offset == 1


def test_sequences_wrap_to_zero(log: PartitionLog) -> None:
    append(log, data(2**31 - 2, count=2))
    assert append(log, data(0)).first_offset == 2
    repeated = append(log, data(2**31 - 2, count=2))
    assert repeated.is_duplicate and repeated.first_offset == 0


def test_a_batch_across_the_wrap_is_found_as_a_duplicate(log: PartitionLog) -> None:
    append(log, data(2**31 - 2, count=4))
    assert append(log, data(2)).first_offset == 4
    assert append(log, data(2**31 - 2, count=4)).is_duplicate


def test_a_plain_write_inside_an_open_transaction_is_refused(log: PartitionLog) -> None:
    append(log, data(0, attributes=TRANSACTIONAL))
    assert error_code(log, data(1)) == 48


def test_an_unverified_transactional_write_is_refused_until_the_transaction_is_open(log: PartitionLog) -> None:
    assert error_code(log, data(0, attributes=TRANSACTIONAL), is_verified=False) == 48
    append(log, data(0, attributes=TRANSACTIONAL))
    append(log, data(1, attributes=TRANSACTIONAL), is_verified=False)


def test_a_marker_of_an_older_coordinator_is_fenced(log: PartitionLog) -> None:
    append(log, data(0, attributes=TRANSACTIONAL))
    append(log, make_marker(7, 0, commit=True, coordinator_epoch=3), origin=AppendOrigin.COORDINATOR)
    late = make_marker(7, 0, commit=False, coordinator_epoch=2)
    assert error_code(log, late, origin=AppendOrigin.COORDINATOR) == 52


def test_a_marker_of_transaction_version_two_must_raise_the_epoch(log: PartitionLog) -> None:
    append(log, data(0, attributes=TRANSACTIONAL))
    stale = make_marker(7, 0, commit=True)
    assert error_code(log, stale, origin=AppendOrigin.COORDINATOR, transaction_version=2) == 47
    append(log, make_marker(7, 1, commit=True), origin=AppendOrigin.COORDINATOR, transaction_version=2)
    again = append(log, make_marker(7, 1, commit=True), origin=AppendOrigin.COORDINATOR, transaction_version=2)
    assert again.first_offset == 2


def test_retries_of_the_last_five_batches_are_known_after_a_clean_restart(tmp_path: Path) -> None:
    path = str(tmp_path / "t-0")
    log = PartitionLog.open(path, LogConfig(), now_ms=NOW_MS)
    for number in range(7):
        append(log, data(number))
    log.close()
    log = PartitionLog.open(path, LogConfig(), now_ms=NOW_MS)
    for number in (2, 3, 6, 5, 4):
        info = append(log, data(number))
        assert (info.first_offset, info.is_duplicate) == (number, True)
    assert error_code(log, data(1)) == 45
    assert append(log, data(7)).first_offset == 7


def test_offset_and_epoch_are_patched_without_touching_the_checksum(log: PartitionLog) -> None:
    append(log, make_batch([b"a", b"b"]))
    batch = make_batch([b"c"])
    checksum = bytes(batch[17:21])
    info = log.append_as_leader(memoryview(batch), leader_epoch=9, now_ms=NOW_MS)
    assert info.first_offset == 2
    stored = log.read(2, 1000).read()
    assert stored == bytes(batch)
    assert (RecordBatch(stored).base_offset, RecordBatch(stored).partition_leader_epoch) == (2, 9)
    assert stored[17:21] == checksum
    untouched = make_batch([b"c"])
    set_crc(untouched)
    assert stored[17:] == bytes(untouched[17:])
