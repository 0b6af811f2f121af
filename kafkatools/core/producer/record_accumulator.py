"""RecordAccumulator: a queue of batches for each partition, between the threads that send records and the sender.

Strategy (Kafka's RecordAccumulator): an append tries the partition's last batch. Without room there, memory is
allocated from the pool outside the lock and the append is tried again. Another thread may have opened a batch
meanwhile; then the memory is returned. Rows in columns take the same path with as many rows as fit. The sender asks
which nodes are ready and drains at most one batch of each partition up to the request size. The first partition
rotates, so none starves. Batches to retry are put back.

`_lock` guards the topics, the queues and appends to batches. Lock order: accumulator, then pool. Waiting for memory and
callbacks happen outside both. Muted partitions, drain indexes and expiry belong to the sender's thread.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kafkatools.core.clock import Clock
from kafkatools.core.errors import IllegalState
from kafkatools.core.producer.buffer_pool import BufferPool
from kafkatools.core.producer.compression_ratio import CompressionRatioEstimator
from kafkatools.core.producer.futures import TopicPartition
from kafkatools.core.producer.incomplete_batches import IncompleteBatches
from kafkatools.core.producer.partitioners import UNKNOWN_PARTITION, StickyPartitioner
from kafkatools.core.producer.producer_batch import Callback, Payload, ProducerBatch, RowsSink
from kafkatools.core.producer.record_appends import Append, AppendResult, RecordAppend, RowsAppend
from kafkatools.core.producer.transaction_manager import TransactionManager, sequence_before
from kafkatools.core.producer.transactional import as_transactional
from kafkatools.core.records.builder import BatchBuilder
from kafkatools.core.records.columns import RowColumns
from kafkatools.core.records.compression import CompressionType
from kafkatools.core.steps import run

if TYPE_CHECKING:
    from kafkatools.core.net.metadata import ClusterView

_log = logging.getLogger(__name__)

AppendSteps = Generator[int, bytearray, AppendResult]
"""Yields the bytes of memory that a new batch needs, and receives a buffer of that size."""

FOREVER_MS = 1 << 62
MIN_LEARNT_BATCH_BYTES = 16384


class AccumulatorSettings(NamedTuple):
    """The producer settings of the accumulator; times in ms, sizes in bytes. `retry_backoff` returns the ms to wait
    after a number of earlier failures. `availability_timeout_ms` 0: no check for slow leaders."""

    batch_size: int
    linger_ms: int
    delivery_timeout_ms: int
    compression: CompressionType
    compression_level: int | None
    retry_backoff: Callable[[int], int]
    adaptive_partitioning: bool = True
    availability_timeout_ms: int = 0


class ReadyCheckResult(NamedTuple):
    """Nodes with batches to send, ms until the next check (FOREVER_MS: none is due), and topics with batches but
    without a known leader."""

    ready_nodes: set[int]
    next_ready_check_ms: int
    unknown_leader_topics: set[str]


class TopicInfo:
    """The batch queues of one topic by partition, its sticky partitioner and its batch size."""

    def __init__(self, sticky: StickyPartitioner, batch_size: int) -> None:
        self.sticky = sticky
        self.batch_size = batch_size
        self.batches: dict[int, deque[ProducerBatch]] = {}


class NodeLatency:
    """The times when a node last had batches to send and when they were last drained (KIP-794: detects slow
    leaders)."""

    def __init__(self, ready_ms: int, drain_ms: int) -> None:
        self.ready_ms = ready_ms
        self.drain_ms = drain_ms


class RecordAccumulator:
    """The batch queues of a producer, with the memory of their batches."""

    def __init__(
        self,
        settings: AccumulatorSettings,
        pool: BufferPool,
        clock: Clock,
        transactions: TransactionManager | None = None,
    ) -> None:
        self.settings = settings
        self.pool = pool
        self._clock = clock
        self._transactions = transactions
        self._transactional = as_transactional(transactions)
        self._lock = threading.Lock()
        self._topics: dict[str, TopicInfo] = {}
        self._flushes_in_progress = 0
        self._is_closed = False
        self._muted: set[TopicPartition] = set()
        self._drain_index: dict[int, int] = {}
        self._latencies: dict[int, NodeLatency] = {}
        self.next_expiry_ms = FOREVER_MS
        """The earliest time at which a batch expires; FOREVER_MS without batches."""
        self.unencodable: list[tuple[ProducerBatch, Exception]] = []
        """Drained batches that could not be encoded, with their errors, for the sender to fail."""
        self._incomplete = IncompleteBatches()
        self.ratios = CompressionRatioEstimator()

    # -- append --

    def append(
        self,
        partition: TopicPartition,
        payload: Payload,
        callback: Callback | None,
        max_block_ms: int,
        cluster: ClusterView,
    ) -> AppendResult:
        """Append a record; for partition -1 the sticky partitioner chooses. Waits for memory up to `max_block_ms`.
        Raises BufferExhausted, IllegalState when closed or outside a transaction of a transactional producer, and that
        transaction's error."""
        return self.append_within(partition, RecordAppend(payload, callback), max_block_ms, cluster)

    def append_columns(
        self,
        partition: TopicPartition,
        columns: RowColumns,
        span: tuple[int, int],
        sink: RowsSink,
        max_block_ms: int,
        cluster: ClusterView,
    ) -> AppendResult:
        """Append rows of a (start, stop) span to one batch, at least one row; `rows` of the result is their number.
        Waits and raises as `append`."""
        return self.append_within(partition, self.rows_append(columns, span, sink), max_block_ms, cluster)

    def rows_append(
        self, columns: RowColumns, span: tuple[int, int], sink: RowsSink, sent_ms: int | None = None
    ) -> RowsAppend:
        """The append of rows, with the present time for rows without a timestamp. `sent_ms` as in RowsAppend."""
        return RowsAppend(columns, span, sink, self._clock.wall_ms(), sent_ms)

    def append_batch(self, batch: ProducerBatch) -> None:
        """Queue a whole batch of a known partition behind the others. It takes no memory of the pool. Raises
        IllegalState when the producer is closed."""
        with self._lock:
            if self._is_closed:
                raise IllegalState("Producer closed while send in progress")
            place = batch.topic_partition
            self._topic_locked(place.topic).batches.setdefault(place.partition, deque()).append(batch)
            self._incomplete.add(batch)

    def append_within(
        self, target: TopicPartition, append: Append, max_block_ms: int, cluster: ClusterView
    ) -> AppendResult:
        """Append records, waiting for memory up to `max_block_ms`. Raises as `append`."""
        result = self.try_append(target, append, cluster)
        if result is not None:
            return result
        steps = self.append_steps(target, append, cluster)
        return run(steps, lambda size_bytes: self.pool.allocate(size_bytes, max_block_ms))

    def try_append(self, target: TopicPartition, append: Append, cluster: ClusterView) -> AppendResult | None:
        """Append records to the partition's last batch; None when it has no room for the first one, so that
        `append_steps` is needed."""
        with self._lock:
            return self._join_locked(self._topic_locked(target.topic), target, append, None, cluster)

    def append_steps(self, target: TopicPartition, append: Append, cluster: ClusterView) -> AppendSteps:
        """Append records; a step waits for the memory of a new batch. Raises as `append`."""
        buffer: bytearray | None = None
        try:
            while True:
                with self._lock:
                    topic = self._topic_locked(target.topic)
                    result = self._join_locked(topic, target, append, buffer, cluster)
                    if result is not None:
                        buffer = None if result.new_batch else buffer
                        return result
                # batch.size, or more for a larger record; batch.size 0 gives one record for each batch
                buffer = yield max(topic.batch_size, append.size_upper_bound())
        finally:
            if buffer is not None:
                self.pool.deallocate(buffer)

    def _join_locked(
        self, topic: TopicInfo, target: TopicPartition, append: Append, buffer: bytearray | None, cluster: ClusterView
    ) -> AppendResult | None:
        """Append, and in the same step add the partition to the transaction, if there is one. Returns None when the
        last batch has no room and there is no `buffer` for a new one.

        With both under one lock, no record can be appended after EndTxn, and no batch is drained before its partition
        is in the transaction.
        """
        transactions = self._transactional
        if transactions is None:
            return self._attempt_locked(topic, target, append, buffer, cluster)
        with transactions.lock:
            transactions.ensure_ready_to_send()
            result = self._attempt_locked(topic, target, append, buffer, cluster)
            if result is not None:
                transactions.add_partition(TopicPartition(target.topic, result.partition))
            return result

    def _attempt_locked(
        self, topic: TopicInfo, target: TopicPartition, append: Append, buffer: bytearray | None, cluster: ClusterView
    ) -> AppendResult | None:
        result = self._try_append_locked(topic, target, append, cluster)
        if result is None and buffer is not None:
            result = self._append_new_batch_locked(topic, target, append, buffer, cluster)
        return result

    def _topic_locked(self, name: str) -> TopicInfo:
        topic = self._topics.get(name)
        if topic is None:
            size = self.settings.batch_size
            topic = self._topics[name] = TopicInfo(StickyPartitioner(name, max(1, size)), size)
        return topic

    def _try_append_locked(
        self, topic: TopicInfo, target: TopicPartition, append: Append, cluster: ClusterView
    ) -> AppendResult | None:
        if self._is_closed:
            raise IllegalState("Producer closed while send in progress")
        sticky = topic.sticky.peek(cluster) if target.partition == UNKNOWN_PARTITION else None
        partition = target.partition if sticky is None else sticky.partition
        queue = topic.batches.get(partition)
        if not queue:
            return None
        batch = queue[-1]
        size_before = batch.estimated_size_bytes
        if not append.try_append(batch, self._clock.now_ms()):
            batch.close_for_appends()
            return None
        topic.sticky.update(sticky, batch.estimated_size_bytes - size_before, cluster, batch.is_full)
        return AppendResult(append.future, append.row_count, len(queue) > 1 or batch.is_full, False, partition)

    def _append_new_batch_locked(
        self, topic: TopicInfo, target: TopicPartition, append: Append, buffer: bytearray, cluster: ClusterView
    ) -> AppendResult:
        sticky = topic.sticky.peek(cluster) if target.partition == UNKNOWN_PARTITION else None
        partition = target.partition if sticky is None else sticky.partition
        place = TopicPartition(target.topic, partition)
        now_ms = self._clock.now_ms()
        created_ms = now_ms if append.sent_ms is None else append.sent_ms
        batch = ProducerBatch(place, self.make_builder(target.topic, len(buffer), buffer), created_ms, buffer)
        if not append.try_append(batch, now_ms):
            raise IllegalState(f"A new batch of {len(buffer)} bytes has no room for its first record")
        queue = topic.batches.setdefault(partition, deque())
        queue.append(batch)
        self._incomplete.add(batch)
        topic.sticky.update(sticky, batch.estimated_size_bytes, cluster, batch.is_full)
        return AppendResult(append.future, append.row_count, len(queue) > 1 or batch.is_full, True, partition)

    def sticky_partition(self, topic: str, size_bytes: int, cluster: ClusterView) -> int:
        """The sticky partition for rows without a key that are sent together with keyed rows; counts their bytes."""
        with self._lock:
            sticky = self._topic_locked(topic).sticky
            info = sticky.peek(cluster)
            sticky.update(info, size_bytes, cluster)
            return info.partition

    def make_builder(self, topic: str, capacity_bytes: int, buffer: bytearray | None = None) -> BatchBuilder:
        """Make a batch builder with the producer's compression and the topic's estimated compression ratio."""
        settings = self.settings
        ratio = self.ratios.estimation(topic, settings.compression)
        return BatchBuilder(
            capacity_bytes, settings.compression, level=settings.compression_level, estimated_ratio=ratio, buffer=buffer
        )

    # -- ready --

    def ready(self, cluster: ClusterView, now_ms: int) -> ReadyCheckResult:
        """Find the nodes with a sendable partition: one with a full batch, several batches, a batch that waited
        linger.ms, or a retry. Also updates the weights of the sticky partitioners and the leader epochs of batches.

        Every partition with a batch is sendable while threads wait for memory, the producer closes, a flush is in
        progress or a transaction is being completed. A muted partition and one in the back-off of a retry are not.
        """
        result = ReadyCheckResult(set(), FOREVER_MS, set())
        next_check_ms = FOREVER_MS
        exhausted = self.pool.queued > 0 or (self._transactional is not None and self._transactional.is_completing)
        with self._lock:
            for name, topic in self._topics.items():
                next_check_ms = min(
                    next_check_ms, self._topic_ready_locked(name, topic, cluster, now_ms, (exhausted, result))
                )
        return result._replace(next_ready_check_ms=next_check_ms)

    def _topic_ready_locked(
        self, name: str, topic: TopicInfo, cluster: ClusterView, now_ms: int, context: tuple[bool, ReadyCheckResult]
    ) -> int:
        exhausted, result = context
        next_check_ms = FOREVER_MS
        adaptive = self.settings.adaptive_partitioning and len(topic.batches) >= (cluster.partition_count(name) or 1)
        queue_sizes: list[int] = []
        partition_ids: list[int] = []
        for partition, queue in topic.batches.items():
            leader = cluster.leader_id(name, partition)
            if leader is None:
                if queue:
                    result.unknown_leader_topics.add(name)
                continue
            if adaptive and self._is_available(leader):
                queue_sizes.append(len(queue))
                partition_ids.append(partition)
            if not queue:
                continue
            batch = queue[0]
            batch.maybe_update_leader_epoch(cluster.leader_epoch(name, partition))
            if leader in result.ready_nodes or batch.topic_partition in self._muted:
                continue
            wait_ms = self._wait_before_send_ms(batch, len(queue) > 1 or batch.is_full, exhausted, now_ms)
            if wait_ms <= 0:
                result.ready_nodes.add(leader)
            else:
                next_check_ms = min(next_check_ms, wait_ms)
        topic.sticky.update_load_stats(queue_sizes if adaptive else None, partition_ids, len(topic.batches))
        return next_check_ms

    def _wait_before_send_ms(self, batch: ProducerBatch, full: bool, exhausted: bool, now_ms: int) -> int:
        waited_ms = batch.waited_ms(now_ms)
        backoff_ms = self._backoff_ms(batch)
        if waited_ms < backoff_ms:
            return backoff_ms - waited_ms
        if full or exhausted or self._is_closed or self._flushes_in_progress > 0 or batch.attempts > 0:
            return 0
        return self.settings.linger_ms - waited_ms

    def _backoff_ms(self, batch: ProducerBatch) -> int:
        """The retry back-off of a batch; 0 before the first retry and after a leader change (KIP-951)."""
        return 0 if batch.attempts == 0 or batch.has_leader_changed else batch.backoff_ms

    def update_node_latency(self, node_id: int, now_ms: int, can_drain: bool) -> None:
        """Record that a node has batches to send, and whether its connection could take them (KIP-794). No effect when
        partitioner.availability.timeout.ms is 0."""
        if self.settings.availability_timeout_ms <= 0:
            return
        latency = self._latencies.setdefault(node_id, NodeLatency(now_ms, now_ms))
        latency.ready_ms = now_ms
        if can_drain:
            latency.drain_ms = now_ms

    def _is_available(self, node_id: int) -> bool:
        latency = self._latencies.get(node_id)
        return latency is None or latency.ready_ms - latency.drain_ms <= self.settings.availability_timeout_ms

    # -- drain --

    def drain(
        self, cluster: ClusterView, nodes: Iterable[int], max_request_bytes: int, now_ms: int
    ) -> dict[int, list[ProducerBatch]]:
        """Remove and encode the batches to send now: {node id: batches}, without nodes that have none. At most one
        batch of each partition, and at most `max_request_bytes` (or one batch) for each node. A batch that cannot be
        encoded is added to `unencodable` instead."""
        drained: dict[int, list[ProducerBatch]] = {}
        for node_id in nodes:
            with self._lock:
                queued = self._drain_node_locked(cluster, node_id, max_request_bytes, now_ms)
            batches = [batch for batch in queued if self._close(batch, now_ms)]
            if batches:
                drained[node_id] = batches
        return drained

    def drain_full(
        self, cluster: ClusterView, nodes: Iterable[int], max_request_bytes: int, now_ms: int
    ) -> dict[int, list[ProducerBatch]]:
        """Drain the nodes that have a full batch, as `drain`."""
        with self._lock:
            full = [node_id for node_id in nodes if self._has_full_batch_locked(cluster, node_id)]
        return self.drain(cluster, full, max_request_bytes, now_ms) if full else {}

    def _has_full_batch_locked(self, cluster: ClusterView, node_id: int) -> bool:
        return any(
            queue and (len(queue) > 1 or queue[0].is_full) and cluster.leader_id(name, partition) == node_id
            for name, topic in self._topics.items()
            for partition, queue in topic.batches.items()
        )

    def _close(self, batch: ProducerBatch, now_ms: int) -> bool:
        """Compress a drained batch, outside the lock: no thread appends to a batch that has left its queue. Return
        whether it is encoded."""
        try:
            batch.close(self._transactions is not None and self._transactions.is_transactional)
        except Exception as error:  # noqa: BLE001 - such as a MemoryError of the codec; it fails the batch's records
            self.unencodable.append((batch, error))
            return False
        if self.settings.compression is not CompressionType.NONE and batch.attempts == 0:
            self.ratios.update(batch.topic_partition.topic, self.settings.compression, batch.builder.compression_ratio)
        batch.drained(now_ms)
        return True

    def _drain_node_locked(
        self, cluster: ClusterView, node_id: int, max_request_bytes: int, now_ms: int
    ) -> list[ProducerBatch]:
        partitions = [
            (name, partition)
            for name, topic in self._topics.items()
            for partition, queue in topic.batches.items()
            if queue and cluster.leader_id(name, partition) == node_id
        ]
        if not partitions:
            return []
        batches: list[ProducerBatch] = []
        size = 0
        start = self._drain_index.get(node_id, 0) % len(partitions)
        self._drain_index[node_id] = start + 1
        for name, partition in partitions[start:] + partitions[:start]:
            queue = self._topics[name].batches[partition]
            batch = queue[0]
            if not self._may_drain(batch, now_ms):
                continue
            if batches and size + batch.estimated_size_bytes > max_request_bytes:
                break
            if self._transactions is not None and not batch.has_sequence:
                self._transactions.maybe_update_identity(batch.topic_partition)
                batch.close_for_appends()
                self._transactions.assign_sequence(batch)
            queue.popleft()
            batch.close_for_appends()
            size += batch.estimated_size_bytes
            batches.append(batch)
        return batches

    def _may_drain(self, batch: ProducerBatch, now_ms: int) -> bool:
        if batch.topic_partition in self._muted or batch.waited_ms(now_ms) < self._backoff_ms(batch):
            return False
        transactions = self._transactions
        return transactions is None or not (
            transactions.should_stop_drain(batch) or transactions.awaits_first_response(batch)
        )

    def mute_partition(self, partition: TopicPartition) -> None:
        """Drain no batches of this partition until it is unmuted: one request in flight at a time keeps the order."""
        self._muted.add(partition)

    def unmute_partition(self, partition: TopicPartition) -> None:
        """Drain batches of this partition again."""
        self._muted.discard(partition)

    # -- expiry --

    def maybe_update_next_expiry(self, batch: ProducerBatch) -> None:
        """Lower `next_expiry_ms` to the delivery.timeout.ms of this batch if that is earlier."""
        self.next_expiry_ms = min(self.next_expiry_ms, batch.created_ms + self.settings.delivery_timeout_ms)

    def expired_batches(self, now_ms: int) -> list[ProducerBatch]:
        """Remove and return the queued batches whose delivery.timeout.ms is over. Lowers `next_expiry_ms` to the
        earliest expiry of the remaining ones."""
        expired: list[ProducerBatch] = []
        with self._lock:
            for topic in self._topics.values():
                for queue in topic.batches.values():
                    while queue and queue[0].has_reached_delivery_timeout(self.settings.delivery_timeout_ms, now_ms):
                        batch = queue.popleft()
                        batch.close_for_appends()
                        expired.append(batch)
                    if queue:
                        self.maybe_update_next_expiry(queue[0])
        return expired

    # -- retries --

    def reenqueue(self, batch: ProducerBatch, now_ms: int) -> None:
        """Put a batch back into its queue for a retry: in the order of sequence numbers, or first without idempotence.
        Raises IllegalState for a batch of an idempotent producer without a sequence number."""
        batch.reenqueued(now_ms)
        # The random back-off is drawn once: with two draws, `ready` could find it over and `drain` not, and the sender
        # would poll without a pause.
        batch.backoff_ms = self.settings.retry_backoff(batch.attempts - 1)
        with self._lock:
            self._insert_locked(batch)

    def _insert_locked(self, batch: ProducerBatch) -> None:
        topic = self._topic_locked(batch.topic_partition.topic)
        queue = topic.batches.setdefault(batch.topic_partition.partition, deque())
        if self._transactions is None:
            queue.appendleft(batch)
            return
        if not batch.has_sequence:
            raise IllegalState(
                "Trying to re-enqueue a batch which doesn't have a sequence even though idempotency is enabled."
            )
        place = 0
        while (
            place < len(queue)
            and queue[place].has_sequence
            and sequence_before(queue[place].base_sequence, batch.base_sequence)
        ):
            place += 1
        queue.insert(place, batch)

    def split_and_reenqueue(self, big_batch: ProducerBatch) -> int:
        """Replace a batch that was too large for the broker by smaller ones; return their number. Raises the topic's
        estimated compression ratio to at least 1.0.

        A batch of at most batch.size, or one from a split, is split in half. Then later batches of the topic become
        smaller too, but not below 16 KiB, so that not every one meets the limit.
        """
        name = big_batch.topic_partition.topic
        self.ratios.set(name, self.settings.compression, max(1.0, big_batch.builder.compression_ratio))
        target = self.settings.batch_size
        if big_batch.is_split or big_batch.estimated_size_bytes <= target:
            target = max(big_batch.max_record_bytes, big_batch.estimated_size_bytes // 2)
        batches = big_batch.split(target, lambda capacity: self.make_builder(name, capacity))
        with self._lock:
            topic = self._topic_locked(name)
            topic.batch_size = min(topic.batch_size, max(MIN_LEARNT_BATCH_BYTES, target))
            for batch in reversed(batches):
                self._incomplete.add(batch)
                if self._transactions is not None and batch.has_sequence:
                    self._transactions.add_inflight_batch(batch)
                self._insert_locked(batch)
        return len(batches)

    # -- memory --

    def deallocate(self, batch: ProducerBatch) -> None:
        """Stop tracking a completed or split batch and return its memory to the pool. The memory stays with the batch
        while a request in flight reads it; call this again after its response."""
        self._incomplete.remove(batch)
        if batch.is_inflight or batch.is_deallocated:
            return
        batch.is_deallocated = True
        if batch.buffer is not None:
            self.pool.deallocate(batch.buffer)
            batch.buffer = None

    # -- flush, close --

    def begin_flush(self) -> None:
        """Make all queued batches sendable without linger.ms, until `end_flush`."""
        with self._lock:
            self._flushes_in_progress += 1

    def end_flush(self) -> None:
        """End one flush; linger.ms applies again after the last one."""
        with self._lock:
            self._flushes_in_progress -= 1

    def incomplete_results(self) -> Sequence[ProducerBatch]:
        """The batches that are queued or in flight, for a flush to wait on; a split adds the smaller ones before it
        ends the large one."""
        return self._incomplete.copy()

    @property
    def has_incomplete(self) -> bool:
        """Return whether any batch is queued or in flight."""
        return bool(self._incomplete)

    def abort_incomplete(self, error: Exception) -> None:
        """Refuse further appends, fail every batch, queued or in flight, and clear the queues. None is missed, because
        an append adds its batch under the lock and only to an open accumulator. Kafka's producer waits for appends in
        progress; one that Ctrl-C has broken off would be waited for without end."""
        self.close()
        self._abort_batches(error)
        with self._lock:
            self._topics.clear()

    def abort_unsequenced(self, error: Exception) -> None:
        """Fail the batches of a transaction that were never sent; batches with a sequence number stay."""
        self._abort_batches(error, lambda batch: not batch.has_sequence)

    def abort_undrained(self, error: Exception) -> None:
        """Fail the queued batches; those in flight stay."""
        self._abort_batches(error, lambda batch: not batch.is_inflight)

    def _abort_batches(
        self, error: Exception, should_abort: Callable[[ProducerBatch], bool] = lambda batch: True
    ) -> None:
        for batch in self._incomplete.copy():
            if not should_abort(batch):
                continue
            with self._lock:
                batch.close_for_appends()
                topic = self._topics.get(batch.topic_partition.topic)
                queue = topic.batches.get(batch.topic_partition.partition) if topic else None
                if queue and batch in queue:
                    queue.remove(batch)
            if not batch.is_done:
                batch.abort(error)
            self.deallocate(batch)

    def close(self) -> None:
        """Refuse further appends and fail the threads that wait for memory."""
        with self._lock:
            self._is_closed = True
        self.pool.close()
