"""The producer's memory: reuse, fairness, limits. Real threads, no sleeping: a thread is known to wait when the pool
counts it."""

from __future__ import annotations

import threading

import pytest
from support.manual_clock import ManualClock

from kafkatools.core.clock import SystemClock
from kafkatools.core.errors import BufferExhausted, IllegalState
from kafkatools.core.metrics.sensor import DEFAULT_WINDOW, Sensor
from kafkatools.core.producer.buffer_pool import BufferPool


def wait_until_queued(pool: BufferPool, count: int) -> None:
    for _ in range(10_000_000):
        if pool.queued == count:
            return
    raise AssertionError(f"{pool.queued} threads wait, not {count}")


def allocate_in_thread(pool: BufferPool, size: int, got: list[object]) -> threading.Thread:
    def run() -> None:
        try:
            got.append((size, pool.allocate(size, 30_000)))
        except Exception as error:  # noqa: BLE001
            got.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def test_a_returned_batch_buffer_is_used_again() -> None:
    pool = BufferPool(64, 16, ManualClock())
    buffer = pool.allocate(16, 0)
    assert pool.available_bytes == 48
    pool.deallocate(buffer)
    assert pool.available_bytes == 64
    assert pool.unallocated_bytes == 48
    assert pool.allocate(16, 0) is buffer


def test_an_odd_size_is_not_pooled() -> None:
    pool = BufferPool(64, 16, ManualClock())
    buffer = pool.allocate(20, 0)
    assert len(buffer) == 20
    pool.deallocate(buffer)
    assert pool.unallocated_bytes == 64


def test_pooled_buffers_are_given_up_for_a_large_one() -> None:
    pool = BufferPool(64, 16, ManualClock())
    for buffer in [pool.allocate(16, 0) for _ in range(4)]:
        pool.deallocate(buffer)
    assert pool.unallocated_bytes == 0
    assert len(pool.allocate(40, 0)) == 40
    assert pool.available_bytes == 24


def test_no_memory_in_time_is_an_error_with_kafkas_words() -> None:
    pool = BufferPool(20, 16, ManualClock())
    pool.allocate(16, 0)
    with pytest.raises(BufferExhausted) as caught:
        pool.allocate(16, 0)
    assert str(caught.value) == (
        "Failed to allocate 16 bytes within the configured max blocking time 0 ms. "
        "Total memory: 20 bytes. Available memory: 4 bytes. Poolable size: 16 bytes"
    )
    assert pool.queued == 0
    assert pool.available_bytes == 4


def test_more_than_the_whole_memory_fails_at_once() -> None:
    with pytest.raises(BufferExhausted, match="hard limit of 20"):
        BufferPool(20, 16, ManualClock()).allocate(21, 60_000)


def test_who_waited_longest_is_served_first_and_gathers_piece_by_piece() -> None:
    pool = BufferPool(48, 16, SystemClock())
    held = [pool.allocate(16, 0) for _ in range(3)]
    got: list[object] = []
    first = allocate_in_thread(pool, 40, got)
    wait_until_queued(pool, 1)
    second = allocate_in_thread(pool, 8, got)
    wait_until_queued(pool, 2)
    pool.deallocate(held.pop())
    pool.deallocate(held.pop())
    assert got == [] or len(got) == 0
    pool.deallocate(held.pop())
    first.join(30)
    second.join(30)
    assert [item[0] for item in got if isinstance(item, tuple)] == [40, 8]
    assert pool.available_bytes == 0


def test_a_waiter_for_a_batch_takes_a_pooled_buffer() -> None:
    pool = BufferPool(16, 16, SystemClock())
    held = pool.allocate(16, 0)
    got: list[object] = []
    thread = allocate_in_thread(pool, 16, got)
    wait_until_queued(pool, 1)
    pool.deallocate(held)
    thread.join(30)
    assert isinstance(got[0], tuple)
    assert got[0][1] is held
    assert pool.available_bytes == 0


def test_close_lets_every_waiter_go() -> None:
    pool = BufferPool(16, 16, SystemClock())
    pool.allocate(16, 0)
    got: list[object] = []
    threads = [allocate_in_thread(pool, 16, got) for _ in range(2)]
    wait_until_queued(pool, 2)
    pool.close()
    for thread in threads:
        thread.join(30)
    assert [type(item) for item in got] == [IllegalState, IllegalState]
    assert pool.queued == 0


def test_many_threads_never_get_more_than_there_is() -> None:
    pool = BufferPool(64, 16, SystemClock())
    errors: list[BaseException] = []

    def work(size: int) -> None:
        try:
            for turn in range(300):
                buffer = pool.allocate(size, 30_000)
                buffer[:1] = bytes([turn % 251])
                assert len(buffer) == size
                pool.deallocate(buffer)
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    threads = [threading.Thread(target=work, args=(size,)) for size in (16, 16, 7, 33)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert errors == []
    assert pool.available_bytes == 64


def test_failed_allocations_are_counted_under_the_lock_of_the_pool() -> None:
    """Several threads count them, and a sensor has one writer at a time."""
    pool = BufferPool(100, 10, ManualClock())
    is_locked: list[bool] = []

    class Watched(Sensor):
        def record(self, value: float, now_ms: int) -> None:
            is_locked.append(pool._lock.locked())
            super().record(value, now_ms)

    pool.exhaustions = Watched(DEFAULT_WINDOW)
    pool.allocate(100, 0)
    with pytest.raises(BufferExhausted):
        pool.allocate(1, 0)
    assert "Available memory: 0 bytes" in str(pool.exhausted(10, 5))
    assert is_locked == [True, True]
    assert pool.exhaustions.total == 2
