"""Producer for asyncio: the accumulator, sender and transactions of kafkatools.Producer, turned by the event loop.

Rules: `send` waits before it queues a record, never afterwards, so a cancelled send has queued nothing. It waits for
metadata, while records before it wait for memory (buffer.memory), and for a turn of the loop after some hundred
records, so that a loop of sends does not starve other tasks. The records of one turn are appended together
(core/producer/unbatched/outbox.py).
A cancelled commit or abort of a transaction continues in the background, and the next transaction waits for it.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from threading import get_ident
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from kafkatools.aio.deliveries import Delivery, RowsDelivery, RowsFuture, TaskRecords
from kafkatools.aio.names import LoopResolver
from kafkatools.aio.turns import Turn, Turns, run
from kafkatools.core.clock import Clock
from kafkatools.core.closing import ensure_close_timeout
from kafkatools.core.config.client_settings import Settings
from kafkatools.core.errors import IllegalState, KafkaError, Timeout, TransactionAborted
from kafkatools.core.group.metadata import ConsumerGroupMetadata, OffsetAndMetadata
from kafkatools.core.net.telemetry import ensure_enabled
from kafkatools.core.producer._collect_kernel import OpenRows
from kafkatools.core.producer.first_contact import MetadataSteps, MetadataWait
from kafkatools.core.producer.futures import NO_OFFSET, NO_TIMESTAMP, RecordMetadata, RowsRun, TopicPartition
from kafkatools.core.producer.interceptors import ProducerInterceptor
from kafkatools.core.producer.partitioners import UNKNOWN_PARTITION
from kafkatools.core.producer.producer_base import INTERRUPTED_CLOSE_MS, Place, ProducerBase
from kafkatools.core.producer.producer_batch import RowsSink
from kafkatools.core.producer.producer_record import AnyHeaders, ProducerRecord, ensure_valid_partition
from kafkatools.core.producer.record_appends import AppendResult
from kafkatools.core.producer.serializers import AnySerializer, serialize_bytes
from kafkatools.core.producer.unbatched.outbox import Outbox

if TYPE_CHECKING:
    from kafkatools.core.net.metadata import ClusterView
    from kafkatools.core.prepared_transaction import PreparedTransaction
    from kafkatools.core.producer.partitioners import Partitioner
    from kafkatools.core.producer.transaction_requests import TransactionalResult


R = TypeVar("R")

_CHECK_MS = 1000
_CLOSING_CHECK_MS = 100


class Producer(ProducerBase):
    """Sends records to topics from an event loop. `async with` closes it at the end, after sending all records.

    Settings, serializers, interceptors and partitioner are those of kafkatools.Producer; callbacks and interceptors run
    on the loop's thread. The constructor makes no connection and may run outside of a loop; the first call binds the
    producer to the running loop. There is no thread. Any number of tasks may use one producer.

    Times are integers in milliseconds. Kafka's errors are raised as KafkaError (kafkatools.errors). Raises ConfigError
    for an unknown or invalid setting.
    """

    def __init__(
        self,
        config: Settings | None = None,
        clock: Clock | None = None,
        interceptors: Sequence[ProducerInterceptor] = (),
        partitioner: Partitioner | str | None = None,
        *,
        key_serializer: str | AnySerializer | None = None,
        value_serializer: str | AnySerializer | None = None,
        **settings: object,
    ) -> None:
        super().__init__(
            config,
            clock,
            interceptors,
            partitioner,
            key_serializer=key_serializer,
            value_serializer=value_serializer,
            settings=settings,
        )
        self._resolver = LoopResolver(lambda: self._turns.soon())
        self._use_parts(None, self._resolver)
        self._turns = Turns(self._step, self.sender.client.fileno)
        self._outbox: Outbox[TaskRecords] = Outbox(self._accumulator.pool, self._append_known, self._max_block_ms)
        self._open_rows = OpenRows(self._outbox.collected, threading.Lock(), Delivery)
        self._wall_ms = 0  # the timestamp of records without one: when the last collection was begun
        self._has_interceptors = bool(interceptors)
        self._is_plain = self._transactions is None
        self._keeps_keys = self._key_serializer is serialize_bytes
        self._keeps_values = self._value_serializer is serialize_bytes
        self._is_busy = False
        self._unfinished: _Unfinished | None = None

    async def __aenter__(self) -> Producer:
        self._turns.start()
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """Close the producer; after a cancellation wait at most three seconds for unacknowledged records."""
        is_interrupted = error is not None and not isinstance(error, Exception)
        await self.close(INTERRUPTED_CLOSE_MS if is_interrupted else None)

    # -- one record --

    async def send(
        self,
        record: ProducerRecord | str,
        value: object = None,
        key: object = None,
        *,
        partition: int | None = None,
        timestamp: int | None = None,
        headers: AnyHeaders = (),
    ) -> asyncio.Future[RecordMetadata]:
        """Queue a record and return the future of its RecordMetadata: `await send("topic", value, key, partition=...,
        timestamp=..., headers=...)` or `await send(ProducerRecord(...))`. Await the future for the acknowledgement.

        Waits only for metadata and memory, up to max.block.ms, and to let other tasks run. When cancelled, the record
        is not queued; cancelling the future changes nothing. `timestamp` is in ms since 1970, by default now.

        Raises SerializationError, TypeError or ValueError for an invalid record, IllegalState after close and outside a
        transaction of a transactional producer, and the error of a transaction that must be aborted. All other errors
        are in the future.
        """
        if type(record) is not str or headers or timestamp is not None or self._has_interceptors:
            if isinstance(record, str):
                record = ProducerRecord(record, value, key, partition, timestamp, headers)
            return await self._send_record(record)
        key_bytes = None if key is None and self._keeps_keys else self._key_serializer(record, key)
        value_bytes = value if type(value) is bytes and self._keeps_values else self._value_serializer(record, value)
        if type(value_bytes) is not bytes or key_bytes is not None:
            key_bytes, value_bytes = _fixed(key_bytes), _fixed(value_bytes)
        # Asking for the running loop is a system call. Collections are appended before their loop ends, so that one is
        # open only on the client's loop, unless another thread has come.
        if self._is_plain and get_ident() == self._turns.thread_id:
            delivery = self._open_rows.accept(record, partition, key_bytes, value_bytes, self._wall_ms, None)
            if delivery is not None:
                return delivery  # type: ignore[return-value]
        self._turns.start()
        self._ensure_ready_to_send()
        try:
            outgoing = self._outbox.outgoing(record, partition) or await self._open(record, partition)
        except KafkaError as error:
            return self._failed_record(ProducerRecord(record, value, key, partition), error)
        return outgoing.delivery(outgoing.add(key_bytes, value_bytes, self._wall_ms))

    async def _send_record(self, record: ProducerRecord) -> asyncio.Future[RecordMetadata]:
        """Queue a record with headers, a timestamp or interceptors."""
        if self._interceptors:
            record = self._interceptors.on_send(record)
        self._ensure_ready_to_send()
        self._turns.start()
        try:
            key = self._key_serializer(record.topic, record.key)
            value = self._value_serializer(record.topic, record.value)
            outgoing = self._outbox.outgoing(record.topic, record.partition)
            if outgoing is None:
                outgoing = await self._open(record.topic, record.partition)
        except KafkaError as error:
            return self._failed_record(record, error)
        timestamp = self._wall_ms if record.timestamp is None else record.timestamp
        return outgoing.delivery(outgoing.add(_fixed(key), _fixed(value), timestamp, record.headers))

    async def _open(self, topic: str, partition: int | None) -> TaskRecords:
        """Wait until records of a topic may be added. Raises IllegalState after close, KafkaError without metadata,
        and BufferExhausted after max.block.ms without memory."""
        ensure_valid_partition(partition)
        self._outbox.append_topic(topic, self.clock.now_ms())
        if self._is_busy:
            await self._give_way()
        while (outgoing := self._outbox.outgoing(topic, partition)) is None:
            await self._await_memory()
            cluster = self._known_cluster(topic, partition)
            if cluster is None:
                await self._run(self._metadata_steps(topic, partition, self._max_block_ms))
                continue
            now_ms = self.clock.now_ms()
            outgoing = self._new_records(topic, partition)
            self._outbox.open(outgoing, now_ms, cluster)
            if not self._outbox.is_blocked:
                self._turns.call_soon(self._append_all)
                break
        self._ensure_ready_to_send()
        return outgoing

    def _append_all(self) -> None:
        """Append the records that tasks have sent since the last turn."""
        self._outbox.append_all(self.clock.now_ms())

    def _new_records(self, topic: str, partition: int | None) -> TaskRecords:
        self._wall_ms = self.clock.wall_ms()
        return TaskRecords(topic, partition, self._interceptors, self._turns.start())

    def _failed_record(self, record: ProducerRecord, error: KafkaError) -> asyncio.Future[RecordMetadata]:
        """Return the future of a record that could not be queued. Raises errors of use and of serialization."""
        partition = UNKNOWN_PARTITION if record.partition is None else record.partition
        self._failed_to_send(record, partition, None, error)
        failed = self._new_records(record.topic, record.partition)
        row = failed.add(None, None, self._wall_ms)
        failed.complete(RowsRun(record.topic, partition, (row,), NO_OFFSET, NO_TIMESTAMP, error))
        return failed.delivery(row)

    async def send_and_wait(
        self,
        record: ProducerRecord | str,
        value: object = None,
        key: object = None,
        *,
        partition: int | None = None,
        timestamp: int | None = None,
        headers: AnyHeaders = (),
    ) -> RecordMetadata:
        """Send a record and wait for its acknowledgement. Arguments and errors as `send`, and the record's error. When
        cancelled after it was queued, the record is still sent."""
        delivery = await self.send(record, value, key, partition=partition, timestamp=timestamp, headers=headers)
        return await delivery

    # -- rows --

    async def send_many(
        self,
        topic: str,
        values: Sequence[object],
        keys: Sequence[object] | None = None,
        *,
        partition: int | None = None,
    ) -> asyncio.Future[list[RowsRun]]:
        """Queue many records at once, several times faster than `send` for each: values and as many keys, or none.

        Serializers apply; headers and interceptors are not possible; the timestamp is the time of the call. The future
        gives the RowsRun of all rows when all are acknowledged. It raises the error if none was acknowledged,
        PartialFailure if some were not. When cancelled, no row is queued. Raises as `send`, ValueError when the numbers
        of keys and values differ, and IllegalState with interceptors.
        """
        ensure_valid_partition(partition)
        rows = self._rows_of(topic, values, keys)
        if self._interceptors:
            raise IllegalState("send_many does not call interceptors: send the records one by one")
        future = RowsFuture(loop=self._turns.start())
        self._ensure_ready_to_send()
        sink = RowsSink(RowsDelivery(rows.count, future), None, range(rows.count))
        self._outbox.append_topic(topic, self.clock.now_ms())
        await self._give_way()
        try:
            await self._await_memory()
            await self._cluster(topic, partition)
        except KafkaError as error:
            self._fail_rows(TopicPartition(topic, UNKNOWN_PARTITION if partition is None else partition), sink, error)
            return future
        self._ensure_ready_to_send()
        self._outbox.start(topic, rows, partition, sink, self.clock.now_ms())
        return future

    # -- waiting --

    def _wake(self) -> None:
        self._turns.soon()

    def _note_append(self, result: AppendResult) -> None:
        self._is_busy = True
        super()._note_append(result)

    def _step(self) -> Turn:
        """One turn: send what is ready, read responses, complete batches."""
        self._is_busy = False
        now_ms = self.clock.now_ms()
        self._outbox.append_all(now_ms)
        client = self.sender.client
        delay_ms = self.sender.prepare(now_ms)
        client.poll(0, now_ms)
        now_ms = self.clock.now_ms()
        self._outbox.advance(now_ms)
        delays = (delay_ms, client.delay_ms(now_ms), self._outbox.delay_ms(now_ms))
        return Turn(min(delay for delay in delays if delay is not None), True)

    async def _give_way(self) -> None:
        """Let other tasks, and a turn of this producer, run."""
        self._turns.soon()
        await asyncio.sleep(0)

    async def _run(self, steps: MetadataSteps[R]) -> R:
        return await run(steps, self._await_metadata)

    async def _await_metadata(self, wait: MetadataWait) -> bool:
        deadline_ms = self.clock.now_ms() + wait.timeout_ms
        self._turns.soon()
        while not self._metadata.await_update(wait.version, 0):
            remaining_ms = deadline_ms - self.clock.now_ms()
            if remaining_ms <= 0:
                return False
            self._ensure_open()
            await self._turns.wait(remaining_ms)
        return True

    async def _await_memory(self) -> None:
        """Wait while records before wait for memory. Raises BufferExhausted after max.block.ms."""
        deadline_ms = self.clock.now_ms() + self._max_block_ms
        while self._outbox.is_blocked:
            remaining_ms = deadline_ms - self.clock.now_ms()
            self._ensure_open()
            if remaining_ms <= 0:
                pool = self._accumulator.pool
                raise pool.exhausted(pool.poolable_size_bytes, self._max_block_ms)
            await self._turns.wait(remaining_ms)

    async def _empty_outbox(self, limit_ms: int | None = None, deadline_ms: int | None = None) -> None:
        """Append the records of the outbox to batches and wait for the memory that they need, at most max.block.ms.

        A commit passes its time limit and `deadline_ms`, after which Timeout is raised. It also waits for records that
        other tasks send meanwhile: they belong to the transaction, and an append after the commit would fail it.
        """
        self._append_all()
        outbox, now_ms = self._outbox, self.clock.now_ms
        begun = outbox.begun
        while outbox.ended < begun or (deadline_ms is not None and outbox):
            remaining_ms = None if deadline_ms is None else deadline_ms - now_ms()
            if remaining_ms is not None and remaining_ms <= 0:
                raise Timeout(f"Timeout expired after {limit_ms}ms while records of the transaction waited for memory")
            await self._turns.wait(remaining_ms)

    # -- metadata, flush, close --

    async def _cluster(self, topic: str, partition: int | None) -> ClusterView:
        known = self._known_cluster(topic, partition)
        if known is not None:
            return known
        return (await self._run(self._metadata_steps(topic, partition, self._max_block_ms)))[0]

    async def partitions_for(self, topic: str) -> list[int]:
        """The partition numbers of a topic. Waits for metadata up to max.block.ms. Raises KafkaError."""
        self._turns.start()
        cluster = await self._cluster(topic, None)
        return list(range(cluster.partition_count(topic) or 0))

    async def client_instance_id(self, timeout_ms: int | None = None) -> str | None:
        """Return the id that the brokers' metrics of this client carry (KIP-714), as Kafka writes it. Waits for a
        broker's response up to `timeout_ms` (max.block.ms). None if none came in time, or if the brokers
        take no metrics. Raises IllegalState with enable.metrics.push=false, ValueError if negative, and the error of
        the connection when no broker is reachable."""
        self._ensure_open()
        telemetry = ensure_enabled(self.sender.client.telemetry, timeout_ms)
        limit_ms = self._max_block_ms if timeout_ms is None else timeout_ms
        deadline_ms = self.clock.now_ms() + limit_ms
        self._turns.start()
        await self._run(self._contact_steps(limit_ms))
        while telemetry.instance_id is None and not telemetry.is_ended:
            remaining_ms = deadline_ms - self.clock.now_ms()
            if remaining_ms <= 0:
                break
            await self._turns.wait(remaining_ms)
        return telemetry.instance_id

    async def flush(self) -> None:
        """Send all queued records without waiting for linger.ms; return when each is acknowledged or failed."""
        self._turns.start()
        self._accumulator.begin_flush()
        try:
            with self.sender.metrics.time("flush"):
                self._turns.soon()
                await self._empty_outbox()
                for batch in self._accumulator.incomplete_results():
                    while not batch.produce_future.are_all_done:
                        await self._turns.wait()
        finally:
            self._accumulator.end_flush()

    async def close(self, timeout_ms: int | None = None) -> None:
        """Wait for unacknowledged records, at most `timeout_ms` (None: until delivery.timeout.ms); then fail the
        remaining ones. An open transaction is aborted, which takes max.block.ms at most.

        When cancelled, it closes at once. Safe to call again. Raises ValueError for a negative `timeout_ms`.
        """
        ensure_close_timeout(timeout_ms)
        if self._turns.is_started:
            self._turns.start()  # raises on another loop
        self._is_closed, self._is_plain = True, False
        deadline_ms = None if timeout_ms is None else self.clock.now_ms() + timeout_ms
        try:
            self._append_all()
            self._turns.soon()
            while self._turns.is_started and not self._turns.is_stopped and self._is_unsent():
                remaining_ms = _CHECK_MS if deadline_ms is None else deadline_ms - self.clock.now_ms()
                if remaining_ms <= 0:
                    break
                await self._turns.wait(min(remaining_ms, _CHECK_MS))
            await self._push_last_metrics(deadline_ms)
        finally:
            if not self._turns.is_stopped:
                self._turns.stop()
                self._resolver.close()
                self._outbox.fail(IllegalState("Producer is closed forcefully."))
                self._shut_down()
                self._interceptors.close()

    async def _push_last_metrics(self, deadline_ms: int | None) -> None:
        """Push the metrics for the last time, if a broker asked for them, unless the time of `close` is up."""
        if deadline_ms is not None and self.clock.now_ms() >= deadline_ms:
            return
        self._turns.soon()
        while self._turns.is_started and not self._turns.is_stopped and self._has_last_push(deadline_ms):
            await self._turns.wait(_CLOSING_CHECK_MS)

    def _is_unsent(self) -> bool:
        """Return whether a closing producer has records to send, or a transaction to end."""
        if self._outbox:
            return True
        self._accumulator.close()
        return self._has_work()

    # -- transactions --

    async def init_transactions(self, timeout_ms: int | None = None) -> None:
        """Get the producer id and fence earlier producers with this transactional.id; call it once, before any other
        call. Transactions that such a producer left open are aborted. Waits at most `timeout_ms` (None: max.block.ms);
        after a Timeout or a cancellation the call may be repeated and continues. Raises KafkaError."""
        await self._complete("init", self._transactional().initialize_transactions, timeout_ms)
        self._is_initialized = True

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Producer]:
        """Run a block in a transaction: commit at its end, or abort if it raises, and let the error propagate.

        The first transaction calls `init_transactions` unless that was done. Raises what `commit_transaction` raises,
        after an abort. After a Timeout of the commit nothing is aborted, because the outcome is open: call
        `commit_transaction` again, or close the producer. A cancelled block is aborted, within three seconds or in the
        background; a cancelled commit continues in the background, or is aborted too if its records still wait for
        memory. The next transaction waits for either. If such a commit has failed, the next call aborts its
        transaction, raises its error and does not run the block; the call after that begins a transaction.
        """
        if not self._is_initialized:
            await self.init_transactions()
        unfinished = self._unfinished
        try:
            await self.begin_transaction()
        except KafkaError:
            # Without a cancelled commit the error belongs to an open transaction, which its own block ends.
            if unfinished is not None and unfinished.result.is_acked and self._transactional().has_abortable_error:
                await self._abort_after_failure(None)
            raise
        try:
            yield self
        except BaseException as error:
            await self._abort_after_failure(None if isinstance(error, Exception) else INTERRUPTED_CLOSE_MS)
            raise
        try:
            await self.commit_transaction()
        except asyncio.CancelledError:
            if self._unfinished is None:  # the commit still waited for memory, and nothing continues it
                await self._abort_after_failure(INTERRUPTED_CLOSE_MS)
            raise
        except Timeout:
            raise
        except KafkaError:
            await self._abort_after_failure(None)
            raise

    async def _abort_after_failure(self, timeout_ms: int | None) -> None:
        if self.has_fatal_error or self._is_closed:
            return
        try:
            await self.abort_transaction(timeout_ms)
        except Timeout as error:
            self._log.warning("The transaction is still being aborted: %s", error)
            if self._unfinished is None:  # else a commit whose call was cancelled is not done, and the abort not begun
                self._unfinished = _Unfinished("abort", self._transactional().begin_abort())
        except KafkaError as error:
            self._log.warning("The transaction could not be aborted: %s", error)

    async def begin_transaction(self) -> None:
        """Begin a transaction: later records and offsets belong to it. Waits for a commit or abort whose call was
        cancelled, and raises its error. Raises IllegalState without a transactional.id, before `init_transactions` and
        during a transaction, else the error of a failed transaction or producer."""
        manager = self._transactional()
        with self.sender.metrics.time("txn-begin"):
            await self._finish("begin", self._max_block_ms)
            manager.begin_transaction()

    async def send_offsets_to_transaction(
        self, offsets: Mapping[Place, OffsetAndMetadata | int], group: ConsumerGroupMetadata
    ) -> None:
        """Commit a consumer group's offsets as part of the transaction (KIP-447). `offsets`: the next offset to read of
        each partition (`records.next_offsets()`). `group`: `consumer.group_metadata()`. Raises KafkaError; CommitFailed
        when the group has rebalanced since, IllegalState without a transaction."""
        with self.sender.metrics.time("txn-send-offsets"):
            result = self._start_offsets(offsets, group)
            if result is not None:
                self._turns.start()
                await self._await_result(result, self._max_block_ms)

    async def commit_transaction(self, timeout_ms: int | None = None) -> None:
        """Send the queued records, wait until all are acknowledged, and commit the transaction, within `timeout_ms`
        (None: max.block.ms). Raises the first error of a record or of the commit; then abort the transaction, unless
        the error is fatal (`has_fatal_error`).

        After a Timeout or a cancellation the call may be repeated, to receive the outcome. Raises IllegalState without
        a transaction.
        """
        await self._complete("commit", self._transactional().begin_commit, timeout_ms)

    async def prepare_transaction(self) -> PreparedTransaction:
        """Wait until every record and offset is acknowledged, and leave the transaction open for another process to end
        (KIP-939). As kafkatools.Producer.prepare_transaction; a cancelled call may be repeated."""
        await self._finish("prepare", self._max_block_ms)

        async def wait(result: TransactionalResult | None) -> None:
            if result is None:
                await self.flush()
            else:
                await self._await_result(result, self._max_block_ms)

        with self.sender.metrics.time("txn-prepare"):
            manager, accumulator = self._transactional(), self._accumulator
            return await run(manager.prepare(lambda: bool(self._outbox) or accumulator.has_incomplete), wait)

    async def complete_transaction(self, decided: PreparedTransaction, timeout_ms: int | None = None) -> bool:
        """Commit the prepared transaction if it is the one that the external coordinator decided to commit, else abort
        it; return whether it was committed. As kafkatools.Producer.complete_transaction."""
        is_commit = self._is_prepared_as(decided)
        await (self.commit_transaction(timeout_ms) if is_commit else self.abort_transaction(timeout_ms))
        return is_commit

    async def abort_transaction(self, timeout_ms: int | None = None) -> None:
        """Abort the transaction within `timeout_ms` (None: max.block.ms); records that were not sent fail. After a
        Timeout or a cancellation the call may be repeated. Raises KafkaError; IllegalState without a transaction."""
        await self._complete("abort", self._transactional().begin_abort, timeout_ms)

    async def _complete(self, operation: str, begin: Callable[[], TransactionalResult], timeout_ms: int | None) -> None:
        """Start an init, commit or abort, or take the same one whose call was cancelled, and wait for its result."""
        with self.sender.metrics.time(f"txn-{operation}"):
            await self._complete_untimed(operation, begin, timeout_ms)

    async def _complete_untimed(
        self, operation: str, begin: Callable[[], TransactionalResult], timeout_ms: int | None
    ) -> None:
        limit_ms = self._max_block_ms if timeout_ms is None else timeout_ms
        deadline_ms = self.clock.now_ms() + limit_ms
        self._turns.start()
        await self._finish(operation, limit_ms)
        if operation == "commit":
            await self._empty_outbox(limit_ms, deadline_ms)
        elif operation == "abort":
            self._outbox.fail(TransactionAborted("Failing the record since the transaction was aborted"))
        result = begin()
        self._unfinished = None
        try:
            await self._await_result(result, limit_ms, deadline_ms)
        except asyncio.CancelledError:
            if not result.is_acked:
                self._unfinished = _Unfinished(operation, result)
            raise

    async def _finish(self, operation: str, limit_ms: int) -> None:
        """Wait up to `limit_ms` for another init, commit or abort whose call was cancelled, and raise its error once.
        An abort, which follows a failed commit, does not raise it."""
        unfinished = self._unfinished
        if unfinished is None or unfinished.operation == operation:
            return
        try:
            await self._await_result(unfinished.result, limit_ms)
        except KafkaError:
            if operation != "abort" or not unfinished.result.is_acked:
                raise
        finally:
            # A completed result is not acked when this task is cancelled after the turn that completed it and before
            # it resumes. Until the result is acked, the transaction manager refuses every other operation.
            if unfinished.result.is_acked:
                self._unfinished = None

    async def _await_result(self, result: TransactionalResult, limit_ms: int, deadline_ms: int | None = None) -> None:
        """Wait for a result and raise its error; Timeout names `limit_ms`. `deadline_ms`: `limit_ms` after the begin of
        the call (None: from now)."""
        if deadline_ms is None:
            deadline_ms = self.clock.now_ms() + limit_ms
        await self._run(self._contact_steps(max(0, deadline_ms - self.clock.now_ms())))
        while not result.is_completed and (remaining_ms := deadline_ms - self.clock.now_ms()) > 0:
            await self._turns.wait(remaining_ms)
        result.receive(limit_ms)


class _Unfinished(NamedTuple):
    """An init, commit or abort that goes on after its call was cancelled."""

    operation: str
    result: TransactionalResult


def _fixed(data: bytes | None) -> bytes | None:
    """Return data that cannot change before it is appended: a copy of a bytearray."""
    return data if data is None or type(data) is bytes else bytes(data)
