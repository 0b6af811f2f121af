"""A batch ends once, tells everybody, and splits without losing a record or a thunk."""

from __future__ import annotations

from array import array
from collections import deque

import pytest

from kafkatools.core.errors import IllegalState, InvalidRecord, PartialFailure, Timeout
from kafkatools.core.producer.futures import (
    BatchError,
    ColumnsFuture,
    FailedFuture,
    RecordMetadata,
    RowsRun,
    TopicPartition,
)
from kafkatools.core.producer.producer_batch import (
    FinalState,
    Payload,
    ProducerBatch,
    RowsSink,
    batch_size_upper_bound,
    rows_size_upper_bound,
)
from kafkatools.core.records.batch import RecordBatch
from kafkatools.core.records.builder import BatchBuilder
from kafkatools.core.records.columns import RowColumns

PLACE = TopicPartition("t", 3)


def new_batch(capacity: int = 16384, buffer: bytearray | None = None) -> ProducerBatch:
    return ProducerBatch(PLACE, BatchBuilder(capacity, buffer=buffer), now_ms=100, buffer=buffer)


def payload(value: bytes, key: bytes | None = None, timestamp: int = 1000) -> Payload:
    return Payload(timestamp, key, value, ())


def append_all(
    batch: ProducerBatch, values: list[bytes], told: list[tuple[bytes, RecordMetadata, Exception | None]]
) -> list:
    futures = []
    for value in values:

        def callback(metadata: RecordMetadata, error: Exception | None, value: bytes = value) -> None:
            told.append((value, metadata, error))

        futures.append(batch.try_append(payload(value), callback, 100))
    assert all(future is not None for future in futures)
    return futures


def values_of(batch: ProducerBatch) -> list[bytes | None]:
    batch.close()
    return [record.value for record in RecordBatch(batch.records()).records()]


def test_a_record_of_1200000_bytes_is_as_large_as_kafka_says() -> None:
    assert batch_size_upper_bound(payload(b"x" * 1_200_000)) == 1_200_088  # recorded from Apache Kafka 4.3.1


def test_a_row_is_as_large_as_the_same_record() -> None:
    keys, values = [None, b"k" * 64, None, b"", b"kk"], [b"v", b"x" * 8192, None, None, b""]
    columns = RowColumns.of_values(values, keys=keys)
    sizes = [rows_size_upper_bound(columns, row) for row in range(len(values))]
    assert sizes == [batch_size_upper_bound(payload(*row)) for row in zip(values, keys, strict=True)]


def test_success_tells_offsets_and_timestamps_to_futures_and_callbacks() -> None:
    batch = new_batch()
    told: list = []
    futures = append_all(batch, [b"a", b"bc"], told)
    assert not futures[0].done()
    assert batch.complete(40, -1)
    assert futures[1].get(0) == RecordMetadata("t", 3, 41, 1000, -1, 2)
    assert [(value, metadata.offset, error) for value, metadata, error in told] == [(b"a", 40, None), (b"bc", 41, None)]


def test_log_append_time_replaces_the_timestamp() -> None:
    batch = new_batch()
    futures = append_all(batch, [b"a"], [])
    batch.complete(7, 5555)
    assert futures[0].get(0).timestamp == 5555


def test_success_without_an_offset_has_none() -> None:
    batch = new_batch()
    futures = append_all(batch, [b"a", b"b"], [])
    batch.complete(-1, -1)
    assert futures[1].get(0).offset == -1


def test_a_future_that_waits_too_long_raises() -> None:
    futures = append_all(new_batch(), [b"a"], [])
    with pytest.raises(Timeout):
        futures[0].get(0)


def test_failure_reaches_every_record_and_the_guilty_ones_get_their_own_error() -> None:
    batch = new_batch()
    told: list = []
    futures = append_all(batch, [b"a", b"b", b"c"], told)
    batch.complete_exceptionally(
        BatchError(InvalidRecord("all"), {1: InvalidRecord("no key")}, InvalidRecord("others"))
    )
    assert [str(error) for _, _, error in told] == ["others", "no key", "others"]
    assert all(metadata.offset == -1 for _, metadata, _ in told)
    with pytest.raises(InvalidRecord, match="no key"):
        futures[1].get(0)


def test_a_batch_ends_exactly_once() -> None:
    batch = new_batch()
    told: list = []
    append_all(batch, [b"a"], told)
    batch.abort(Timeout("gave up"))
    assert batch.final_state is FinalState.ABORTED
    assert batch.complete(5, -1) is False  # a late success is noted, not raised
    assert batch.complete_exceptionally(BatchError(Timeout())) is False
    assert len(told) == 1
    with pytest.raises(IllegalState):
        batch.abort(Timeout())


def test_nothing_may_follow_a_success() -> None:
    batch = new_batch()
    append_all(batch, [b"a"], [])
    batch.complete(1, -1)
    with pytest.raises(IllegalState):
        batch.complete(1, -1)


def test_a_callback_that_raises_does_not_keep_the_others_from_being_told() -> None:
    batch = new_batch()
    told: list = []

    def broken(metadata: RecordMetadata, error: Exception | None) -> None:
        raise RuntimeError("callback")

    first = batch.try_append(payload(b"a"), broken, 1)
    second = append_all(batch, [b"b"], told)[0]
    batch.complete(0, -1)
    assert first is not None and first.get(0).offset == 0
    assert second.get(0).offset == 1
    assert len(told) == 1


def rows(*values: bytes) -> RowColumns:
    return RowColumns.of_values(list(values))


def test_rows_are_told_in_runs_with_their_numbers() -> None:
    runs: list[RowsRun] = []
    columns = rows(*[b"v%03d" % number for number in range(50)])
    future = ColumnsFuture(50)
    batches = []
    start = 0
    while start < 50:
        batch = new_batch(300)
        start += batch.try_append_rows(columns, (start, 50), RowsSink(future, runs.append, range(50)), 100, 1000)
        batches.append(batch)
    assert len(batches) > 2
    for number, batch in enumerate(batches):
        batch.complete(number * 1000, -1)
    assert future.done()
    assert [row for run in runs for row in run.rows] == list(range(50))
    assert [run.base_offset for run in runs] == [number * 1000 for number in range(len(batches))]
    assert b"".join(value or b"" for batch in batches for value in values_of(batch)) == b"".join(
        b"v%03d" % n for n in range(50)
    )


def test_rows_with_errors_of_their_own_are_told_singly() -> None:
    runs: list[RowsRun] = []
    batch = new_batch()
    append_all(batch, [b"before"], [])
    batch.try_append_rows(rows(b"a", b"b"), (0, 2), RowsSink(ColumnsFuture(2), runs.append, array("q", [8, 9])), 1, 1)
    batch.complete_exceptionally(BatchError(InvalidRecord("all"), {2: InvalidRecord("bad")}, InvalidRecord("others")))
    assert [(list(run.rows), str(run.error)) for run in runs] == [([8], "others"), ([9], "bad")]


def completed(*runs: RowsRun) -> ColumnsFuture:
    future = ColumnsFuture(sum(run.row_count for run in runs))
    for run in runs:
        future.add(run)
    return future


def test_rows_that_all_failed_with_one_error_raise_it() -> None:
    error = InvalidRecord("none of them")
    future = completed(RowsRun("t", 0, [0, 2], -1, -1, error), RowsRun("t", 1, [1], -1, -1, error))
    with pytest.raises(InvalidRecord) as raised:
        future.result(0)
    assert raised.value is error


def test_rows_that_failed_in_part_are_told_by_number() -> None:
    good = RowsRun("t", 0, range(2), 40, -1, None)
    first, second = InvalidRecord("no key"), Timeout("too late")
    future = completed(good, RowsRun("t", 1, [2], -1, -1, first), RowsRun("t", 1, [5, 3], -1, -1, second))
    with pytest.raises(PartialFailure, match=r"3 of 5 records failed, the first with: .*no key") as raised:
        future.result(0)
    assert raised.value.results == [good]
    assert raised.value.errors == {2: first, 5: second, 3: second}


def test_rows_that_failed_with_several_errors_and_no_success_are_told_by_number() -> None:
    first, second = InvalidRecord("no key"), InvalidRecord("no key")
    future = completed(RowsRun("t", 1, [0], -1, -1, first), RowsRun("t", 1, [1], -1, -1, second))
    with pytest.raises(PartialFailure) as raised:
        future.result(0)
    assert (raised.value.results, raised.value.errors) == ([], {0: first, 1: second})


def test_rows_without_failure_return_their_runs() -> None:
    runs = [RowsRun("t", 0, range(2), 40, -1, None), RowsRun("t", 0, [2], 42, -1, None)]
    assert completed(*runs).result(0) == runs


def test_the_metadata_of_a_record_that_never_reached_a_batch_are_unknown() -> None:
    future = FailedFuture(PLACE, InvalidRecord("no"))
    assert future.done()
    assert future.metadata() == RecordMetadata("t", 3, -1, -1, -1, -1)


def test_a_batch_that_was_closed_takes_no_more_records() -> None:
    batch = new_batch()
    append_all(batch, [b"a"], [])
    batch.close()
    assert batch.is_full
    assert batch.try_append(payload(b"b"), None, 100) is None
    assert values_of(batch) == [b"a"]


def split(batch: ProducerBatch, size: int) -> deque[ProducerBatch]:
    batch.close()
    return batch.split(size, BatchBuilder)


def test_a_split_keeps_records_order_futures_and_callbacks() -> None:
    batch = new_batch()
    told: list = []
    futures = append_all(batch, [b"%02d" % number * 20 for number in range(20)], told)
    run: list[RowsRun] = []
    batch.try_append_rows(
        rows(*[b"r%d" % number * 20 for number in range(9)]),
        (0, 9),
        RowsSink(ColumnsFuture(9), run.append, range(9)),
        1,
        1,
    )
    expected = [b"%02d" % number * 20 for number in range(20)] + [b"r%d" % number * 20 for number in range(9)]
    parts = split(batch, 400)
    assert len(parts) > 3
    assert [value for part in parts for value in values_of(part)] == expected
    assert not any(future.done() for future in futures)
    offset = 100
    for part in parts:
        part.complete(offset, -1)
        offset += part.record_count
    assert [future.get(0).offset for future in futures] == list(range(100, 120))
    assert [metadata.offset for _, metadata, _ in told] == list(range(100, 120))
    assert [(row, one.base_offset + place) for one in run for place, row in enumerate(one.rows)] == [
        (row, 120 + row) for row in range(9)
    ]


def test_a_split_keeps_header_names_that_are_not_utf8() -> None:
    batch = new_batch()
    headers = [(b"n\xff", b"v"), (b"n", None)]
    for _ in range(2):
        assert batch.try_append(Payload(5, None, b"v", headers), None, 0)
    parts = split(batch, 70)
    assert len(parts) == 2
    for part in parts:
        part.close()
        assert RecordBatch(part.records()).columns().raw_headers(0) == headers


def test_a_split_by_size_that_would_not_help_halves_the_records() -> None:
    batch = new_batch()
    append_all(batch, [b"small", b"y" * 3000, b"after"], [])
    parts = split(batch, 16384)
    assert [values_of(part) for part in parts] == [[b"small", b"y" * 3000], [b"after"]]


def test_a_split_continues_the_sequence() -> None:
    batch = new_batch()
    append_all(batch, [b"x" * 100 for _ in range(10)], [])
    batch.set_producer_state(77, 2, 2**31 - 3, False)
    parts = split(batch, 500)
    sequences = [(part.base_sequence, part.record_count) for part in parts]
    expected = 2**31 - 3
    for sequence, count in sequences:
        assert sequence == expected
        expected = (expected + count) & 0x7FFFFFFF
    parts[0].close()
    header = RecordBatch(parts[0].records())
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (77, 2, 2**31 - 3)


def test_a_failed_part_of_a_split_fails_its_records_only() -> None:
    batch = new_batch()
    futures = append_all(batch, [b"a", b"b"], [])
    parts = split(batch, 90)
    parts[0].complete(10, -1)
    parts[1].complete_exceptionally(BatchError(Timeout("no")))
    assert futures[0].get(0).offset == 10
    with pytest.raises(Timeout, match="no"):
        futures[1].get(0)
    batch.produce_future.wait_for_all()


def test_a_reset_producer_state_is_written_when_the_batch_is_closed_again() -> None:
    batch = new_batch()
    append_all(batch, [b"a"], [])
    batch.set_producer_state(5, 0, 10, False)
    batch.close()
    batch.reset_producer_state(5, 1, 0)
    assert RecordBatch(batch.records()).base_sequence == 10  # what is in flight is left alone
    batch.close()
    written = RecordBatch(batch.records())
    assert (written.producer_epoch, written.base_sequence, written.is_valid()) == (1, 0, True)


def test_a_producer_state_that_is_reset_before_the_batch_was_ever_closed_is_written() -> None:
    batch = new_batch()
    append_all(batch, [b"a"], [])
    batch.set_producer_state(5, 0, 10, False)
    batch.reset_producer_state(5, 1, 0)
    batch.close()
    written = RecordBatch(batch.records())
    assert (written.producer_epoch, written.base_sequence, written.is_valid()) == (1, 0, True)


def test_a_leader_change_is_seen_by_a_retry_only() -> None:
    batch = new_batch()
    batch.maybe_update_leader_epoch(3)
    assert not batch.has_leader_changed
    batch.reenqueued(200)
    assert not batch.has_leader_changed
    batch.maybe_update_leader_epoch(4)
    assert batch.has_leader_changed
    batch.maybe_update_leader_epoch(4)
    batch.reenqueued(300)
    assert not batch.has_leader_changed
