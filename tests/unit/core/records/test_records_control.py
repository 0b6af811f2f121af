"""Control records: recorded markers are read and written again."""

from __future__ import annotations

import pytest
from records_truth import segments
from support.log_batches import emptied, make_marker

from kafkatools.core.errors import CorruptRecord
from kafkatools.core.records.batch import RecordBatch, read_batches
from kafkatools.core.records.builder import BatchBuilder
from kafkatools.core.records.control import (
    ControlRecordType,
    EndTransactionMarker,
    parse_control_type,
    write_end_transaction_marker,
)


def markers(name: str) -> list[RecordBatch]:
    return [
        batch
        for segment in segments(name)
        for batch in read_batches(segment)
        if isinstance(batch, RecordBatch) and batch.is_control and batch.record_count
    ]


@pytest.mark.parametrize(("name", "commits", "aborts"), [("txn-java", 5, 6), ("txn-librdkafka", 5, 6)])
def test_recorded_markers(name: str, commits: int, aborts: int) -> None:
    kinds = [marker.type for batch in markers(name) if (marker := EndTransactionMarker.of_batch(batch))]
    assert (kinds.count(ControlRecordType.COMMIT), kinds.count(ControlRecordType.ABORT)) == (commits, aborts)


@pytest.mark.parametrize("name", ["txn-java", "compacted-txn", "consumer-offsets"])
def test_markers_are_written_byte_for_byte(name: str) -> None:
    found = markers(name)
    assert found
    for batch in found:
        if batch.delete_horizon_ms is not None:
            continue
        marker = EndTransactionMarker.of_batch(batch)
        assert marker is not None
        written = write_end_transaction_marker(
            marker,
            timestamp=batch.base_timestamp,
            producer_id=batch.producer_id,
            producer_epoch=batch.producer_epoch,
            base_offset=batch.base_offset,
            partition_leader_epoch=batch.partition_leader_epoch,
        )
        assert written == batch.to_bytes()


def test_a_control_batch_that_the_cleaner_has_emptied_has_no_marker() -> None:
    assert EndTransactionMarker.of_batch(RecordBatch(emptied(make_marker(7, 0, commit=True)))) is None


def test_quorum_control_records_are_written_byte_for_byte() -> None:
    found = [batch for batch in markers("cluster-metadata") if batch.record_count == 1]
    assert found
    for batch in found:
        record = batch.columns().record(0)
        assert record.value is not None
        builder = BatchBuilder(
            batch.size_bytes,
            base_offset=batch.base_offset,
            is_control=True,
            partition_leader_epoch=batch.partition_leader_epoch,
        )
        builder.append(record.timestamp, parse_control_type(record.key).key(), record.value)
        assert builder.close() == batch.to_bytes()


def test_types_to_come_are_unknown_and_bad_keys_are_damage() -> None:
    assert parse_control_type(b"\x00\x00\x00\x63") is ControlRecordType.UNKNOWN
    assert parse_control_type(b"\x00\x01\x00\x02") is ControlRecordType.LEADER_CHANGE
    for key in (None, b"", b"\x00\x00\x00", b"\xff\xff\x00\x00"):
        with pytest.raises(CorruptRecord):
            parse_control_type(key)


def test_bad_markers_are_damage() -> None:
    key = ControlRecordType.COMMIT.key()
    for bad in (None, b"", b"\x00\x00\x00\x00\x00", b"\xff\xff\x00\x00\x00\x00"):
        with pytest.raises(CorruptRecord):
            EndTransactionMarker.parse(key, bad)
    with pytest.raises(CorruptRecord, match="Expected end transaction marker type, but found LEADER_CHANGE"):
        EndTransactionMarker.parse(ControlRecordType.LEADER_CHANGE.key(), b"\x00\x00\x00\x00\x00\x07")
    assert EndTransactionMarker.parse(key, b"\x00\x00\x00\x00\x00\x07").coordinator_epoch == 7
