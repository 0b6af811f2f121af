"""Fetched bytes to records, against what a real consumer read from the same logs (recorded from Apache Kafka 4.3.1)."""

from __future__ import annotations

import base64
import functools
import json
import pathlib
import struct
import tarfile
from typing import Any

import pytest

from kafkatools.core.consumer.completed_fetch import READ_COMMITTED, CompletedFetch, FetchOptions
from kafkatools.core.consumer.errors import CorruptBatch, FetchFailed
from kafkatools.core.consumer.fetch_messages import ZERO_UUID, AbortedTransaction, FetchedPartition
from kafkatools.core.consumer.subscription import TopicPartition
from kafkatools.core.records.batch import read_batches
from kafkatools.core.records.columns import Record, RecordColumns

GOLDEN = pathlib.Path(__file__).parents[3] / "golden" / "fetch" / "partitions.tar.xz"
ALL = 1 << 30
SOUND = (
    "plain-java",
    "codec-gzip-java",
    "codec-zstd-java",
    "codec-lz4-java",
    "codec-snappy-java",
    "log-append-time",
    "leader-epochs",
    "compacted",
    "compacted-txn",
    "txn-java",
    "txn-librdkafka",
    "message-set-v1-gzip",
    "message-set-v0-lz4",
)
TRANSACTIONAL = ("txn-java", "txn-librdkafka", "compacted-txn")


@functools.cache
def golden() -> dict[str, bytes]:
    with tarfile.open(GOLDEN) as archive:
        return {member.name: archive.extractfile(member).read() for member in archive}  # type: ignore[union-attr]


def recorded(name: str, committed: bool = False) -> list[tuple[Any, ...]]:
    """What the real consumer read."""

    def data(value: Any) -> bytes | None:
        return None if value is None else base64.b64decode(value["b64"])

    rows = []
    text = golden()[f"{name}/records{'-read-committed' if committed else ''}.jsonl"]
    for line in text.splitlines():
        row = json.loads(line)
        headers = tuple((header, data(value)) for header, value in row["headers"])
        # Magic 0 has no timestamps: that client shows null, Kafka's own -1 of NoTimestampType.
        timestamp = -1 if row["timestamp"] is None else row["timestamp"]
        kind = row["timestamp_type"] or "NoTimestampType"
        rows.append((row["offset"], timestamp, kind, data(row["key"]), data(row["value"]), headers))
    return rows


def shown(record: Record) -> tuple[Any, ...]:
    return (record.offset, record.timestamp, record.timestamp_type.label, record.key, record.value, record.headers)


def last_stable_offset(log: bytes) -> int:
    """Where the first transaction begins that the log does not end."""
    open_at: dict[int, int] = {}
    end = 0
    for batch in read_batches(log):
        end = batch.next_offset
        if batch.is_control:
            open_at.pop(batch.producer_id, None)
        elif batch.is_transactional:
            open_at.setdefault(batch.producer_id, batch.base_offset)
    return min(open_at.values(), default=end)


def aborted_transactions(name: str) -> tuple[AbortedTransaction, ...]:
    index = golden().get(f"{name}/txnindex", b"")
    entries = struct.iter_unpack(">hqqqq", index)
    return tuple(AbortedTransaction(producer_id, first) for _, producer_id, first, _, _ in entries)


def fetched(
    name: str, offset: int = 0, options: FetchOptions | None = None, log: bytes | None = None
) -> CompletedFetch:
    """A completed fetch of a whole recorded partition, as a broker would answer it."""
    log = golden()[f"{name}/log"] if log is None else log
    data = FetchedPartition(name, ZERO_UUID, 0)
    options = options or FetchOptions()
    if options.isolation_level == READ_COMMITTED:
        limit = last_stable_offset(log)
        log = b"".join(batch.to_bytes() for batch in read_batches(log) if batch.base_offset < limit)
        data.aborted_transactions = aborted_transactions(name)
    data.records = memoryview(log)
    return CompletedFetch(TopicPartition(name, 0), data, offset, options)


def taken(fetch: CompletedFetch, at_once: int = ALL) -> list[RecordColumns]:
    columns: list[RecordColumns] = []
    while True:
        more = fetch.fetch_columns(at_once)
        if not more:
            return columns
        assert sum(item.count for item in more) <= at_once
        columns += more


def rows(columns: list[RecordColumns]) -> list[tuple[Any, ...]]:
    return [shown(record) for item in columns for record in item.records()]


@pytest.mark.parametrize("name", SOUND)
def test_records_are_those_a_real_consumer_read(name: str) -> None:
    fetch = fetched(name)
    expected = recorded(name)
    assert rows(taken(fetch)) == expected
    assert fetch.is_consumed
    assert fetch.next_fetch_offset > expected[-1][0]


@pytest.mark.parametrize("name", TRANSACTIONAL)
def test_read_committed_is_what_a_real_consumer_read(name: str) -> None:
    fetch = fetched(name, options=FetchOptions(isolation_level=READ_COMMITTED))
    expected = recorded(name, committed=True)
    assert rows(taken(fetch)) == expected
    assert len(expected) <= len(recorded(name))


def test_position_passes_aborted_records_and_markers_at_the_end() -> None:
    log = golden()["txn-java/log"]
    fetch = fetched("txn-java", options=FetchOptions(isolation_level=READ_COMMITTED))
    taken(fetch)
    assert fetch.next_fetch_offset == last_stable_offset(log)
    uncommitted = fetched("txn-java")
    taken(uncommitted)
    assert uncommitted.next_fetch_offset == [batch.next_offset for batch in read_batches(log)][-1]


@pytest.mark.parametrize("name", ["codec-zstd-java", "txn-java", "message-set-v1-gzip"])
@pytest.mark.parametrize("at_once", [1, 7])
def test_slices_give_the_same_records_and_positions(name: str, at_once: int) -> None:
    fetch = fetched(name)
    seen = []
    while not fetch.is_consumed:
        more = rows(fetch.fetch_columns(at_once))
        seen += more
        assert len(more) <= at_once
        if more:
            assert fetch.next_fetch_offset > more[-1][0]
    assert seen == recorded(name)


@pytest.mark.parametrize("name", ["codec-gzip-java", "plain-java", "compacted", "message-set-v1-gzip"])
def test_records_below_the_position_are_dropped(name: str) -> None:
    expected = recorded(name)
    for index in (1, len(expected) // 2, len(expected) - 1):
        offset = expected[index][0]
        assert rows(taken(fetched(name, offset))) == expected[index:]
    # In a hole that compaction left, the next record there is.
    assert rows(taken(fetched(name, expected[1][0] + 1))) == expected[2:]


def test_partial_batch_at_the_end_is_left_for_the_next_fetch() -> None:
    log = golden()["plain-java/log"]
    last = list(read_batches(log))[-1]
    fetch = fetched("plain-java", log=log[:-1])
    assert rows(taken(fetch)) == [row for row in recorded("plain-java") if row[0] < last.base_offset]
    assert fetch.next_fetch_offset == last.base_offset
    only_a_part = fetched("plain-java", log=log[:40])
    with pytest.raises(FetchFailed, match="Failed to make progress reading messages at plain-java-0=0"):
        only_a_part.check_progress()


def test_last_epoch_is_that_of_the_last_batch_read() -> None:
    fetch = fetched("leader-epochs")
    taken(fetch)
    assert fetch.last_epoch == 4


def damaged_batch(name: str) -> Any:
    return next(batch for batch in read_batches(golden()[f"{name}/log"]) if not batch.is_valid())


def test_corrupt_batch_is_an_error_after_the_sound_records_and_again() -> None:
    name = "damaged-bitflip-payload-middle"
    bad = damaged_batch(name)
    fetch = fetched(name, 309)
    before = fetch.fetch_columns(ALL)
    assert before[-1].offsets[-1] + 1 == bad.base_offset == fetch.next_fetch_offset
    for _ in range(2):
        with pytest.raises(CorruptBatch) as raised:
            fetch.fetch_columns(ALL)
        assert fetch.next_fetch_offset == bad.base_offset
    message = str(raised.value)
    assert f"Record batch for partition {name}-0 at offset {bad.base_offset} is invalid, cause: " in message
    assert "Record is corrupt (stored crc = " in message
    assert f"offsets {bad.base_offset} to {bad.last_offset}" in message
    assert raised.value.next_offset == bad.next_offset


def test_skip_corrupt_reports_the_batch_and_reads_on() -> None:
    name = "damaged-bitflip-payload-middle"
    bad = damaged_batch(name)
    reported: list[CorruptBatch] = []
    fetch = fetched(name, 309, FetchOptions(skip_corrupt=reported.append))
    offsets = [row[0] for row in rows(taken(fetch))]
    assert [(item.first_offset, item.last_offset) for item in reported] == [(bad.base_offset, bad.last_offset)]
    everything = range(309, list(read_batches(golden()[f"{name}/log"]))[-1].next_offset)
    assert offsets == [offset for offset in everything if not bad.base_offset <= offset <= bad.last_offset]


def test_without_crc_check_a_changed_bit_goes_unnoticed() -> None:
    name = "damaged-bitflip-payload-middle"
    bad = damaged_batch(name)
    offsets = [row[0] for row in rows(taken(fetched(name, 309, FetchOptions(check_crcs=False))))]
    assert bad.base_offset in offsets


@pytest.mark.parametrize("name", ["damaged-magic-3", "damaged-length-zero"])
def test_bytes_that_are_no_batch_stop_the_fetch(name: str) -> None:
    start = next(iter(read_batches(golden()[f"{name}/log"]))).base_offset
    fetch = fetched(name, start)
    assert fetch.fetch_columns(ALL)
    position = fetch.next_fetch_offset
    with pytest.raises(CorruptBatch):
        fetch.fetch_columns(ALL)
    assert fetch.next_fetch_offset == position


def test_skip_corrupt_passes_a_batch_with_a_bad_magic_byte() -> None:
    name = "damaged-magic-3"
    start = next(iter(read_batches(golden()[f"{name}/log"]))).base_offset
    reported: list[CorruptBatch] = []
    fetch = fetched(name, start, FetchOptions(skip_corrupt=reported.append))
    offsets = [row[0] for row in rows(taken(fetch))]
    assert len(reported) == 1
    gap = range(reported[0].first_offset, reported[0].last_offset + 1)
    assert len(gap) > 0
    assert offsets == [offset for offset in range(offsets[0], offsets[-1] + 1) if offset not in gap]
    assert offsets[-1] > gap[-1]


def test_values_are_read_from_the_receive_buffer() -> None:
    buffer = bytearray(golden()["plain-java/log"])
    data = FetchedPartition("t", ZERO_UUID, 0)
    data.records = memoryview(buffer)
    fetch = CompletedFetch(TopicPartition("t", 0), data, 0, FetchOptions(check_crcs=False))
    columns = fetch.fetch_columns(5)[0]
    index = next(i for i in range(columns.count) if columns.value_lengths[i] > 0)
    value = columns.value(index)
    assert value is not None
    buffer[buffer.index(value)] ^= 0xFF
    assert columns.value(index) != value
