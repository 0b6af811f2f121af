"""BufferPool: the producer's memory (org.apache.kafka.clients.producer.internals.BufferPool).

Buffers of one size (batch.size) are kept in a free list and reused; for any other size only the number of bytes is
counted. Threads that find too little memory wait in a queue. The first in the queue is served first and collects
released memory piece by piece, so a large request cannot starve. The caller must not return a buffer that a request in
flight can still read (ProducerBatch.is_inflight).

`_lock` guards every field.
"""

from __future__ import annotations

import threading
from collections import deque

from kafkatools.core.clock import Clock
from kafkatools.core.errors import BufferExhausted, IllegalState, KafkaError
from kafkatools.core.metrics.sensor import DEFAULT_WINDOW, Sensor, Window


class BufferPool:
    """The producer's buffer memory: allocates bytearrays of at most `total_bytes` in total."""

    def __init__(
        self, total_bytes: int, poolable_size_bytes: int, clock: Clock, metrics_window: Window = DEFAULT_WINDOW
    ) -> None:
        self.total_bytes = total_bytes
        self.poolable_size_bytes = poolable_size_bytes
        self._clock = clock
        self._lock = threading.Lock()
        self._free: deque[bytearray] = deque()
        self._waiters: deque[threading.Condition] = deque()
        self._non_pooled_bytes = total_bytes
        self._is_closed = False
        self.waits_ns = Sensor(metrics_window)
        self.exhaustions = Sensor(metrics_window)
        self.waiting_tasks = 0
        """The number of tasks of an event loop that wait for memory; only that loop's thread changes it."""

    def allocate(self, size_bytes: int, max_block_ms: int) -> bytearray:
        """Allocate a buffer of exactly `size_bytes`; wait at most `max_block_ms` for memory. Raises BufferExhausted
        when time is up or the size exceeds the pool, IllegalState when the pool is closed."""
        self._ensure_possible(size_bytes)
        buffer: bytearray | None = None
        with self._lock:
            try:
                if self._take_locked(size_bytes):
                    return self._free.popleft()
                if self._available_bytes_locked() >= size_bytes:
                    self._free_up_locked(size_bytes)
                    self._non_pooled_bytes -= size_bytes
                else:
                    buffer = self._wait_for_memory_locked(size_bytes, max_block_ms)
            finally:
                self._wake_first_locked()
        return bytearray(size_bytes) if buffer is None else buffer

    def try_allocate(self, size_bytes: int) -> bytearray | None:
        """Allocate a buffer of exactly `size_bytes` if there is memory for it now; else return None. Raises as
        `allocate`."""
        self._ensure_possible(size_bytes)
        with self._lock:
            if self._take_locked(size_bytes):
                return self._free.popleft()
            if self._available_bytes_locked() < size_bytes:
                return None
            self._free_up_locked(size_bytes)
            self._non_pooled_bytes -= size_bytes
        return bytearray(size_bytes)

    def _ensure_possible(self, size_bytes: int) -> None:
        if size_bytes > self.total_bytes:
            raise BufferExhausted(
                f"Attempt to allocate {size_bytes} bytes, "
                f"but there is a hard limit of {self.total_bytes} on memory allocations."
            )

    def _take_locked(self, size_bytes: int) -> bool:
        """Return whether a pooled buffer has this size. Raises IllegalState when the pool is closed."""
        if self._is_closed:
            raise IllegalState("Producer closed while allocating memory")
        return size_bytes == self.poolable_size_bytes and bool(self._free)

    def _wait_for_memory_locked(self, size_bytes: int, max_block_ms: int) -> bytearray | None:
        """Wait in the queue for memory: return a pooled buffer, or None when `size_bytes` of non-pooled memory were
        reserved."""
        condition = threading.Condition(self._lock)
        self._waiters.append(condition)
        reserved_bytes = 0
        start_ms, start_ns = self._clock.now_ms(), self._clock.now_ns()
        try:
            while reserved_bytes < size_bytes:
                remaining_ms = max_block_ms - (self._clock.now_ms() - start_ms)
                woken = remaining_ms > 0 and condition.wait(remaining_ms / 1000)
                if self._is_closed:
                    raise IllegalState("Producer closed while allocating memory")
                if not woken:
                    raise self._exhausted_locked(size_bytes, max_block_ms)
                if reserved_bytes == 0 and size_bytes == self.poolable_size_bytes and self._free:
                    return self._free.popleft()
                self._free_up_locked(size_bytes - reserved_bytes)
                got = min(size_bytes - reserved_bytes, self._non_pooled_bytes)
                self._non_pooled_bytes -= got
                reserved_bytes += got
            reserved_bytes = 0
            return None
        finally:
            self._non_pooled_bytes += reserved_bytes
            self._waiters.remove(condition)
            self.waits_ns.record(self._clock.now_ns() - start_ns, self._clock.now_ms())

    def exhausted(self, size_bytes: int, max_block_ms: int) -> KafkaError:
        """Count a failed allocation and return its error."""
        with self._lock:
            return self._exhausted_locked(size_bytes, max_block_ms)

    def _exhausted_locked(self, size_bytes: int, max_block_ms: int) -> KafkaError:
        self.exhaustions.record(1, self._clock.now_ms())
        return BufferExhausted(
            f"Failed to allocate {size_bytes} bytes within the configured max blocking time {max_block_ms} ms. "
            f"Total memory: {self.total_bytes} bytes. Available memory: {self._available_bytes_locked()} bytes. "
            f"Poolable size: {self.poolable_size_bytes} bytes"
        )

    def _free_up_locked(self, size_bytes: int) -> None:
        """Drop pooled buffers until `size_bytes` of non-pooled memory are available."""
        while self._free and self._non_pooled_bytes < size_bytes:
            self._non_pooled_bytes += len(self._free.pop())

    def _wake_first_locked(self) -> None:
        if self._waiters and (self._non_pooled_bytes > 0 or self._free):
            self._waiters[0].notify()

    def deallocate(self, buffer: bytearray) -> None:
        """Return a buffer to the pool. No request in flight may hold it, because its bytes will be overwritten."""
        size_bytes = len(buffer)
        with self._lock:
            if size_bytes == self.poolable_size_bytes and not self._is_closed:
                self._free.append(buffer)
            else:
                self._non_pooled_bytes += size_bytes
            if self._waiters:
                self._waiters[0].notify()

    def close(self) -> None:
        """Fail waiting threads and later allocations with IllegalState. Buffers may still be returned."""
        with self._lock:
            self._is_closed = True
            for condition in self._waiters:
                condition.notify()

    @property
    def available_bytes(self) -> int:
        """Free buffer memory in bytes, pooled buffers included."""
        with self._lock:
            return self._available_bytes_locked()

    def _available_bytes_locked(self) -> int:
        return self._non_pooled_bytes + len(self._free) * self.poolable_size_bytes

    @property
    def unallocated_bytes(self) -> int:
        """Free buffer memory in bytes without the pooled buffers."""
        with self._lock:
            return self._non_pooled_bytes

    @property
    def queued(self) -> int:
        """The number of threads and tasks that wait for buffer memory."""
        return len(self._waiters) + self.waiting_tasks
