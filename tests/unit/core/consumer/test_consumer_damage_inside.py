"""Damage inside a batch whose checksum holds: the records in front of it are handed out, as Kafka does."""

from __future__ import annotations

import logging

import pytest

from kafkatools.core.consumer.completed_fetch import CompletedFetch, FetchOptions
from kafkatools.core.consumer.errors import CorruptBatch
from kafkatools.core.consumer.fetch_messages import ZERO_UUID, FetchedPartition
from kafkatools.core.consumer.subscription import TopicPartition
from kafkatools.core.records.batch import stamp_crc
from kafkatools.core.records.builder import BatchBuilder
from kafkatools.core.records.layout import HEADER_SIZE

ALL = 1 << 30
# Each record: length, attributes, timestamp delta, offset delta, key -1, value of four bytes, no headers.
RECORD_SIZE = 11


def batch(base_offset: int, codec: int = 0) -> bytearray:
    builder = BatchBuilder(1 << 16, codec, base_offset=base_offset)
    for index in range(5):
        builder.append(1_700_000_000_000, None, b"v%03d" % (base_offset + index))
    return bytearray(builder.close())


def damaged(base_offset: int, record: int) -> bytearray:
    """A batch whose n-th record states a value that is longer than the record."""
    data = batch(base_offset)
    position = HEADER_SIZE + RECORD_SIZE * record
    assert data[position] == 2 * (RECORD_SIZE - 1)
    data[position + 5] = 0x7E
    stamp_crc(data, 0, len(data))
    return data


def fetch(*batches: bytearray, offset: int = 0, options: FetchOptions | None = None) -> CompletedFetch:
    data = FetchedPartition("t", ZERO_UUID, 0)
    data.records = memoryview(b"".join(batches))
    return CompletedFetch(TopicPartition("t", 0), data, offset, options or FetchOptions())


def offsets(item: CompletedFetch) -> list[int]:
    return [offset for columns in item.fetch_columns(ALL) for offset in columns.offsets]


def test_records_in_front_of_the_damage_come_first_and_the_position_stays_at_it() -> None:
    item = fetch(batch(0), damaged(5, 3), batch(10))
    assert offsets(item) == [0, 1, 2, 3, 4, 5, 6, 7]
    assert item.next_fetch_offset == 8
    for _ in range(2):
        with pytest.raises(CorruptBatch) as raised:
            item.fetch_columns(ALL)
        assert (raised.value.first_offset, raised.value.last_offset, raised.value.next_offset) == (8, 9, 10)
    assert item.next_fetch_offset == 8


def test_reading_again_from_the_damage_fails_at_once() -> None:
    item = fetch(damaged(5, 3), batch(10), offset=8)
    with pytest.raises(CorruptBatch, match="seek to 10 to go past it"):
        item.fetch_columns(ALL)
    assert item.next_fetch_offset == 8


def test_damage_in_the_first_record_leaves_nothing_to_hand_out() -> None:
    item = fetch(damaged(0, 0))
    with pytest.raises(CorruptBatch):
        item.fetch_columns(ALL)
    assert item.next_fetch_offset == 0


def test_skipping_passes_over_the_rest_of_the_batch_only() -> None:
    reported: list[CorruptBatch] = []
    item = fetch(batch(0), damaged(5, 3), batch(10), options=FetchOptions(skip_corrupt=reported.append))
    assert offsets(item) == [0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12, 13, 14]
    assert [(damage.first_offset, damage.last_offset) for damage in reported] == [(8, 9)]


def test_limit_inside_the_sound_records_does_not_bring_the_error_forward() -> None:
    item = fetch(damaged(0, 3), batch(5))
    assert [list(columns.offsets) for columns in item.fetch_columns(2)] == [[0, 1]]
    assert [list(columns.offsets) for columns in item.fetch_columns(1)] == [[2]]
    with pytest.raises(CorruptBatch):
        item.fetch_columns(1)


def test_bytes_behind_the_last_record_lose_nothing(caplog: pytest.LogCaptureFixture) -> None:
    data = batch(0)
    data[57:61] = (4).to_bytes(4, "big")  # one record fewer than there are
    data[23:27] = (3).to_bytes(4, "big")
    stamp_crc(data, 0, len(data))
    item = fetch(data, batch(4))
    with caplog.at_level(logging.WARNING):
        assert offsets(item) == [0, 1, 2, 3, 4, 5, 6, 7, 8]
    assert "extra bytes after the last record" in caplog.text
