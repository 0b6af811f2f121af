"""Every record of the recorded internal topics is read, and written again to the same bytes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from support import recorded_segments

from kafkatools.core.protocol.definitions import snake_case
from kafkatools.core.protocol.schemas import metadata, offsets, share_group_state, snapshot, transaction_log
from kafkatools.core.records.batch import RecordBatch, read_batches
from kafkatools.core.records.columns import Record

_LOGS = {
    "consumer-offsets": offsets,
    "transaction-state": transaction_log,
    "share-group-state": share_group_state,
}


def records(directory: str, suffix: str, *, control: bool = False) -> Iterator[Record]:
    for path in sorted(recorded_segments.log_directory(directory).rglob(f"*{suffix}")):
        for batch in read_batches(path.read_bytes()):
            assert isinstance(batch, RecordBatch)
            if batch.is_control == control:
                yield from batch.records()


@pytest.mark.parametrize("directory", sorted(_LOGS))
def test_coordinator_records_are_written_as_they_were_read(directory: str) -> None:
    table: Any = _LOGS[directory]
    count = 0
    for record in records(directory, ".log"):
        assert record.key is not None
        key, value = table.decode_record(record.key, record.value)
        assert table.encode_record(key, value) == (record.key, record.value)
        count += 1
    assert count >= 5


def test_consumer_offsets_hold_groups_of_every_kind() -> None:
    kinds = set()
    for record in records("consumer-offsets", ".log"):
        assert record.key is not None
        kinds.add(offsets.decode_record(record.key, record.value)[0].__schema__.name)
    assert {"OffsetCommitKey", "GroupMetadataKey", "ConsumerGroupMetadataKey", "ShareGroupMetadataKey"} <= kinds


@pytest.mark.parametrize("suffix", [".log", ".checkpoint"])
def test_metadata_records_are_written_as_they_were_read(suffix: str) -> None:
    names = set()
    for record in records("cluster-metadata", suffix):
        assert record.value is not None
        entity = metadata.decode_record(record.value)
        assert metadata.encode_record(entity) == record.value
        names.add(snake_case(entity.__schema__.name).upper())
    assert {
        "TOPIC_RECORD",
        "PARTITION_RECORD",
        "CONFIG_RECORD",
        "FEATURE_LEVEL_RECORD",
        "REGISTER_BROKER_RECORD",
    } <= names


@pytest.mark.parametrize("suffix", [".log", ".checkpoint"])
def test_control_records_are_written_as_they_were_read(suffix: str) -> None:
    count = 0
    for record in records("cluster-metadata", suffix, control=True):
        assert record.key is not None and record.value is not None
        entity = snapshot.decode_record(record.key[3], record.value)
        assert snapshot.encode_record(entity)[1] == record.value
        count += 1
    assert count > 0
