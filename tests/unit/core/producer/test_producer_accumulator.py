"""Readiness, draining, expiry, retries, memory: everything the accumulator decides, with a clock that is turned by
hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
from support.manual_clock import ManualClock

from kafkatools.core.errors import BufferExhausted, IllegalState, Timeout
from kafkatools.core.producer.buffer_pool import BufferPool
from kafkatools.core.producer.futures import ColumnsFuture, RowsRun, TopicPartition
from kafkatools.core.producer.producer_batch import Payload, ProducerBatch, RowsSink
from kafkatools.core.producer.record_accumulator import AccumulatorSettings, AppendResult, RecordAccumulator
from kafkatools.core.producer.record_appends import RecordAppend
from kafkatools.core.producer.transaction_manager import ProduceOutcome, State, TransactionManager
from kafkatools.core.records.batch import RecordBatch
from kafkatools.core.records.columns import RowColumns
from kafkatools.core.records.compression import CompressionType

BATCH = 512
VALUE = b"v" * 100


class TwoNodes:
    """Partitions 0 and 1 on node 1, partition 2 on node 2, partition 3 without a leader."""

    def __init__(self) -> None:
        self.leaders: dict[int, int | None] = {0: 1, 1: 1, 2: 2, 3: None}
        self.epoch = 1

    def partition_count(self, topic: str) -> int | None:
        return len(self.leaders)

    def available_partitions(self, topic: str) -> Sequence[int]:
        return [partition for partition, leader in self.leaders.items() if leader is not None]

    def leader_id(self, topic: str, partition: int) -> int | None:
        return self.leaders[partition]

    def leader_epoch(self, topic: str, partition: int) -> int | None:
        return self.epoch


class Bench:
    def __init__(
        self,
        *,
        memory: int = 1 << 20,
        linger_ms: int = 50,
        transactions: TransactionManager | None = None,
        batch: int = BATCH,
        backoff: Callable[[int], int] = lambda attempts: 100 * 2**attempts,
    ) -> None:
        self.clock = ManualClock()
        self.cluster = TwoNodes()
        self.pool = BufferPool(memory, batch, self.clock)
        settings = AccumulatorSettings(batch, linger_ms, 1000, CompressionType.NONE, None, backoff)
        self.accumulator = RecordAccumulator(settings, self.pool, self.clock, transactions)

    def append(self, partition: int = 0, value: bytes = VALUE) -> AppendResult:
        payload = Payload(1000, None, value, ())
        return self.accumulator.append(TopicPartition("t", partition), payload, None, 0, self.cluster)

    def fill(self, partition: int, batches: int = 1) -> None:
        result = self.append(partition)
        while not (result.new_batch and len(self.accumulator._topics["t"].batches[partition]) > batches):
            result = self.append(partition)

    def ready(self) -> set[int]:
        return self.accumulator.ready(self.cluster, self.clock.now_ms()).ready_nodes

    def drain(self, *nodes: int, size: int = 1 << 20) -> list[ProducerBatch]:
        drained = self.accumulator.drain(self.cluster, nodes or (1, 2), size, self.clock.now_ms())
        return [batch for batches in drained.values() for batch in batches]


def test_a_part_full_batch_is_ready_after_linger() -> None:
    bench = Bench(linger_ms=50)
    bench.append()
    result = bench.accumulator.ready(bench.cluster, bench.clock.now_ms())
    assert (result.ready_nodes, result.next_ready_check_ms) == (set(), 50)
    bench.clock.advance_ms(49)
    assert bench.ready() == set()
    bench.clock.advance_ms(1)
    assert bench.ready() == {1}


def test_a_full_batch_is_ready_at_once() -> None:
    bench = Bench()
    bench.fill(2)
    assert bench.ready() == {2}


def test_a_flush_makes_everything_ready() -> None:
    bench = Bench()
    bench.append(0)
    bench.append(2)
    bench.accumulator.begin_flush()
    assert bench.ready() == {1, 2}
    bench.accumulator.end_flush()
    assert bench.ready() == set()


def test_closing_makes_everything_ready_and_refuses_appends() -> None:
    bench = Bench()
    bench.append(0)
    bench.accumulator.close()
    assert bench.ready() == {1}
    with pytest.raises(IllegalState):
        bench.append(0)


def test_exhausted_memory_makes_everything_ready() -> None:
    bench = Bench(memory=BATCH)
    bench.append(0)
    bench.pool._waiters.append(object())  # type: ignore[arg-type]
    assert bench.ready() == {1}


def test_memory_that_does_not_come_in_time_is_an_error() -> None:
    bench = Bench(memory=BATCH)
    bench.append(0)
    with pytest.raises(BufferExhausted):
        bench.append(1)


def test_a_partition_without_a_leader_asks_for_metadata() -> None:
    bench = Bench()
    bench.append(3)
    assert bench.accumulator.ready(bench.cluster, 0).unknown_leader_topics == {"t"}


def test_drain_takes_one_batch_per_partition_and_closes_it() -> None:
    bench = Bench()
    bench.fill(0, batches=2)
    bench.fill(1)
    drained = bench.drain(1)
    assert sorted(batch.topic_partition.partition for batch in drained) == [0, 1]
    for batch in drained:
        assert RecordBatch(batch.records()).is_valid()
        assert RecordBatch(batch.records()).record_count == batch.record_count


def test_drain_goes_round_so_that_no_partition_starves() -> None:
    bench = Bench()
    for partition in (0, 1):
        bench.fill(partition, batches=3)
    first = [batch.topic_partition.partition for batch in bench.drain(1, size=BATCH)]
    second = [batch.topic_partition.partition for batch in bench.drain(1, size=BATCH)]
    assert sorted(first + second) == [0, 1]


def test_a_batch_larger_than_a_request_goes_alone() -> None:
    bench = Bench()
    bench.append(0, b"x" * 3000)
    bench.append(1)
    bench.clock.advance_ms(50)
    sizes = [len(bench.drain(1, size=1000)) for _ in range(2)]
    assert sizes == [1, 1]


def test_a_muted_partition_is_neither_ready_nor_drained() -> None:
    bench = Bench()
    bench.fill(0)
    bench.accumulator.mute_partition(TopicPartition("t", 0))
    assert bench.ready() == set()
    assert bench.drain(1) == []
    bench.accumulator.unmute_partition(TopicPartition("t", 0))
    assert bench.ready() == {1}


def test_a_retry_waits_out_its_back_off_even_during_a_flush() -> None:
    bench = Bench()
    bench.fill(0)
    bench.ready()
    batch = bench.drain(1)[0]
    bench.accumulator.reenqueue(batch, bench.clock.now_ms())
    bench.accumulator.begin_flush()
    assert bench.ready() == set()
    assert bench.drain(1) == []
    bench.clock.advance_ms(100)
    assert bench.ready() == {1}
    assert bench.drain(1)[0] is batch


def test_what_is_ready_after_its_back_off_is_drained_though_back_offs_are_drawn_by_lot() -> None:
    lots = iter(range(50, 10_000, 50))
    bench = Bench(backoff=lambda attempts: next(lots))
    bench.fill(0)
    bench.ready()
    batch = bench.drain(1)[0]
    bench.accumulator.reenqueue(batch, bench.clock.now_ms())
    bench.clock.advance_ms(50)
    assert bench.ready() == {1}
    assert bench.drain(1)[0] is batch


def test_a_retry_to_a_new_leader_does_not_wait() -> None:
    bench = Bench()
    bench.fill(0)
    bench.ready()
    batch = bench.drain(1)[0]
    bench.accumulator.reenqueue(batch, bench.clock.now_ms())
    assert bench.ready() == set()
    bench.cluster.epoch = 2
    bench.cluster.leaders[0] = 2
    assert bench.ready() == {2}
    assert bench.drain(2)[0] is batch


def test_expired_batches_leave_the_queue() -> None:
    bench = Bench()
    bench.append(0)
    bench.clock.advance_ms(999)
    assert bench.accumulator.expired_batches(bench.clock.now_ms()) == []
    assert bench.accumulator.next_expiry_ms - bench.clock.now_ms() == 1
    bench.clock.advance_ms(1)
    assert len(bench.accumulator.expired_batches(bench.clock.now_ms())) == 1
    assert bench.drain() == []


def test_unkeyed_records_stay_in_one_partition_until_its_batch_is_full() -> None:
    bench = Bench()
    partitions = [bench.append(-1).partition for _ in range(4)]
    assert len(set(partitions)) == 1


def test_rows_fill_batch_after_batch_and_every_row_is_told() -> None:
    bench = Bench()
    columns = RowColumns.of_values([b"%05d" % number for number in range(500)])
    runs: list[RowsRun] = []
    future = ColumnsFuture(500)
    sink = RowsSink(future, runs.append, range(500))
    start = 0
    while start < 500:
        result = bench.accumulator.append_columns(TopicPartition("t", 0), columns, (start, 500), sink, 0, bench.cluster)
        assert result.rows > 0
        start += result.rows
    bench.accumulator.begin_flush()
    values: list[bytes | None] = []
    while batches := bench.drain(1):
        for batch in batches:
            values += [record.value for record in RecordBatch(batch.records()).records()]
            batch.complete(0, -1)
    assert values == [b"%05d" % number for number in range(500)]
    assert future.done() and sum(run.row_count for run in runs) == 500


def test_a_row_larger_than_a_batch_gets_memory_of_its_own() -> None:
    bench = Bench()
    columns = RowColumns.of_values([b"x" * 5000, b"y" * 100])
    sink = RowsSink(ColumnsFuture(2), None, range(2))
    assert bench.accumulator.append_columns(TopicPartition("t", 0), columns, (0, 2), sink, 0, bench.cluster).rows == 1
    assert bench.accumulator.append_columns(TopicPartition("t", 0), columns, (1, 2), sink, 0, bench.cluster).new_batch


def test_memory_of_a_finished_batch_is_used_again_but_not_while_it_is_in_flight() -> None:
    bench = Bench(memory=BATCH)
    bench.append(0)
    bench.clock.advance_ms(50)
    batch = bench.drain(1)[0]
    batch.is_inflight = True
    batch.abort(Timeout("expired"))
    bench.accumulator.deallocate(batch)
    with pytest.raises(BufferExhausted):
        bench.append(1)
    batch.is_inflight = False
    bench.accumulator.deallocate(batch)
    bench.accumulator.deallocate(batch)
    bench.append(1)
    assert bench.pool.available_bytes == 0


def test_a_split_batch_comes_back_in_order_and_later_batches_are_smaller() -> None:
    bench = Bench(batch=1 << 16, memory=1 << 20)
    for number in range(400):
        bench.append(0, b"%03d" % number + b"x" * 97)
    bench.clock.advance_ms(50)
    batch = bench.drain(1)[0]
    assert bench.accumulator.split_and_reenqueue(batch) in (2, 3)
    bench.accumulator.deallocate(batch)
    bench.append(0, b"last")
    values = []
    bench.accumulator.begin_flush()
    while batches := bench.drain(1):
        assert all(len(one.records()) <= 33_000 for one in batches)
        values += [(record.value or b"")[:3] for one in batches for record in RecordBatch(one.records()).records()]
    assert values == [b"%03d" % number for number in range(400)] + [b"las"]
    assert bench.accumulator._topics["t"].batch_size < 33_000


def ready_transactions() -> TransactionManager:
    manager = TransactionManager()
    manager.bump_epoch_and_reset_id_if_needed()
    manager.handle_init_producer_id(9, 0)
    return manager


def test_nothing_is_drained_before_there_is_a_producer_id() -> None:
    manager = TransactionManager()
    bench = Bench(transactions=manager)
    bench.fill(0)
    assert bench.drain(1) == []
    assert manager.bump_epoch_and_reset_id_if_needed()
    manager.handle_init_producer_id(9, 0)
    assert manager.state is State.READY
    assert bench.drain(1)[0].base_sequence == 0


def test_retries_come_back_in_the_order_of_their_sequences_and_go_one_by_one() -> None:
    manager = ready_transactions()
    bench = Bench(transactions=manager)
    bench.fill(0, batches=4)
    manager.handle_completed_batch(bench.drain(1)[0], ProduceOutcome(None, 0))
    batches = [bench.drain(1)[0] for _ in range(3)]
    for batch in (batches[1], batches[2], batches[0]):
        bench.accumulator.reenqueue(batch, bench.clock.now_ms())
    bench.clock.advance_ms(1000)
    bench.accumulator.settings = bench.accumulator.settings._replace(delivery_timeout_ms=10**9)
    for batch in batches:
        assert bench.drain(1) == [batch]
        assert not any(later in bench.drain(1) for later in batches)
        manager.remove_inflight_batch(batch)


def test_a_flush_waits_for_every_incomplete_batch_and_close_aborts_the_rest() -> None:
    bench = Bench()
    futures = [bench.append(partition).future for partition in (0, 1, 2)]
    assert len(bench.accumulator.incomplete_results()) == 3
    bench.accumulator.abort_incomplete(IllegalState("closed"))
    assert not bench.accumulator.has_incomplete
    for future in futures:
        assert future is not None
        with pytest.raises(IllegalState, match="closed"):
            future.get(0)
    assert bench.pool.available_bytes == 1 << 20


def test_a_slow_leader_is_left_out_of_the_draw() -> None:
    bench = Bench()
    bench.accumulator.settings = bench.accumulator.settings._replace(availability_timeout_ms=200)
    bench.cluster.leaders = {0: 1, 1: 1, 2: 2}
    for partition in (0, 1, 2):
        bench.append(partition)
    start = bench.clock.now_ms()
    bench.accumulator.update_node_latency(2, start, True)
    bench.accumulator.update_node_latency(2, start + 201, False)
    bench.ready()
    sticky = bench.accumulator._topics["t"].sticky
    assert {sticky.next_partition(bench.cluster) for _ in range(200)} == {0, 1}


def test_the_end_does_not_wait_for_an_append_that_was_broken_off() -> None:
    bench = Bench()
    append = RecordAppend(Payload(1000, None, VALUE, ()), None)
    steps = bench.accumulator.append_steps(TopicPartition("t", 0), append, bench.cluster)
    size_bytes = next(steps)
    bench.accumulator.abort_incomplete(IllegalState("closed"))
    with pytest.raises(IllegalState, match="Producer closed"):
        steps.send(bytearray(size_bytes))
    assert not bench.accumulator.has_incomplete
