"""Producer: sends records to topics (Kafka's KafkaProducer).

`send` and `send_columns` pass through interceptors, metadata (waiting up to max.block.ms), serializers, partitioner,
size check and accumulator; the sender's thread does the rest. Rules: an error of one record (too large, no memory,
unknown topic) is reported by its future and callback; only errors of use and of serialization are raised. When `flush`
or `close` returns, earlier records are acknowledged or failed, except when a callback calls `close`.
"""

from __future__ import annotations

import functools
import threading
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar, cast, overload

from kafkatools.core.clock import Clock, wall_ns_of
from kafkatools.core.closing import ensure_close_timeout
from kafkatools.core.config.client_settings import Settings
from kafkatools.core.errors import IllegalState, KafkaError, Timeout
from kafkatools.core.group.metadata import ConsumerGroupMetadata, OffsetAndMetadata
from kafkatools.core.net.telemetry import ensure_enabled
from kafkatools.core.producer._collect_kernel import PlainSends
from kafkatools.core.producer.assembly import ProducerParts
from kafkatools.core.producer.first_contact import MetadataSteps, Result
from kafkatools.core.producer.futures import (
    ColumnsFuture,
    FailedFuture,
    RecordFuture,
    RecordMetadata,
    RowsRun,
    TopicPartition,
)
from kafkatools.core.producer.interceptors import ProducerInterceptor
from kafkatools.core.producer.partitioners import UNKNOWN_PARTITION
from kafkatools.core.producer.producer_base import (
    CLOSING_POLL_MS,
    INTERRUPTED_CLOSE_MS,
    PAUSE_AFTER_FAILURE_MS,
    Place,
    ProducerBase,
)
from kafkatools.core.producer.producer_batch import Callback, Payload, RowsCallback, RowsSink, batch_size_upper_bound
from kafkatools.core.producer.producer_record import AnyHeaders, ProducerRecord, ensure_valid_partition
from kafkatools.core.producer.record_appends import AppendResult
from kafkatools.core.producer.row_groups import Partitions, cells_of
from kafkatools.core.producer.serializers import AnySerializer, serialize_bytes
from kafkatools.core.producer.unbatched.outbox import MOST_BYTES, Outbox
from kafkatools.core.producer.unbatched.send_queue import QueuedRecords, SendQueue
from kafkatools.core.records.columns import RowColumns, decode_headers
from kafkatools.core.steps import run

if TYPE_CHECKING:
    from kafkatools.core.net.metadata import ClusterView
    from kafkatools.core.prepared_transaction import PreparedTransaction
    from kafkatools.core.producer.partitioners import Partitioner
    from kafkatools.core.producer.transaction_requests import TransactionalResult
    from kafkatools.core.records.arrow_rows import Headers as ConstantHeaders

Method = TypeVar("Method", bound=Callable[..., object])


def described(compiled: Callable[..., object]) -> Callable[[Method], Method]:
    """Decorate a method that only describes one of a kernel: name, signature and documentation."""

    def decorate(description: Method) -> Method:
        return cast("Method", functools.update_wrapper(compiled, description))

    return decorate


class Producer(PlainSends, ProducerBase):
    """Sends records to topics. Thread-safe. As a context manager it closes at the end, after sending all records.

    `config`: settings by Kafka's names, `{"bootstrap.servers": "localhost:9092", "acks": "all"}`, or a Config.
    `settings`: the same as keyword arguments, `bootstrap_servers="localhost:9092", linger_ms=5` (all of them:
    docs/config/producer.md). A serializer is a function of the value, an object with `serialize(topic, value)`, or the
    name of a Kafka class; without one, keys and values are bytes. `interceptors` and `partitioner` are Python objects.
    The constructor makes no connection. Raises ConfigError for an unknown or invalid setting.

    Times are integers in milliseconds. Kafka's errors are raised as KafkaError (kafkatools.errors).
    """

    def __init__(
        self,
        config: Settings | None = None,
        clock: Clock | None = None,
        interceptors: Sequence[ProducerInterceptor] = (),
        partitioner: Partitioner | str | None = None,
        parts: ProducerParts | None = None,
        start_thread: bool = True,
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
        self._use_parts(parts, collect=self._collect)
        self._force_close = False
        self._is_collecting = False
        self._queue: SendQueue | None = None
        if parts is None and not interceptors and self._partitioner is None and self._transactions is None:
            outbox: Outbox[QueuedRecords] = Outbox(self._accumulator.pool, self._append_known, self._max_block_ms)
            room_bytes = min(MOST_BYTES, self._max_request_bytes // 4, self._memory_bytes // 4)
            self._queue = SendQueue(outbox, self.clock, room_bytes)
        self._linger_ms: int = self.config.linger_ms
        self.open_rows = self._queue
        self.is_plain = self._value_serializer is serialize_bytes
        self.serialize_key, self.serialize_value = self._key_serializer, self._value_serializer
        self.wall_ns = wall_ns_of(self.clock)
        self._thread: threading.Thread | None = None
        if start_thread:
            self._thread = threading.Thread(target=self._run_sender, name="kafka-producer-network-thread", daemon=True)
            self._thread.start()

    def __enter__(self) -> Producer:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """Close the producer; after Ctrl-C or SystemExit wait at most three seconds for unacknowledged records."""
        is_interrupted = error is not None and not isinstance(error, Exception)
        self.close(INTERRUPTED_CLOSE_MS if is_interrupted else None)

    # -- one record --

    @overload
    def send(self, record: ProducerRecord, callback: Callback | None = None) -> RecordFuture: ...

    @overload
    def send(
        self,
        record: str,
        value: object = None,
        key: object = None,
        *,
        partition: int | None = None,
        timestamp: int | None = None,
        headers: AnyHeaders = (),
        callback: Callback | None = None,
    ) -> RecordFuture: ...

    @described(PlainSends._send_record)  # type: ignore[misc]  # the second argument may be the callback, also by name
    def send(
        self,
        record: ProducerRecord | str,
        value: object = None,
        key: object = None,
        *,
        partition: int | None = None,
        timestamp: int | None = None,
        headers: AnyHeaders = (),
        callback: Callback | None = None,
    ) -> RecordFuture:
        """Queue a record and return its future: `send(ProducerRecord(...), callback)` or `send("topic", value, key,
        partition=..., timestamp=..., headers=...)`.

        Blocks only for metadata or memory, up to max.block.ms. `timestamp` is in ms since 1970, by default the time of
        the call. `future.result()` waits for the RecordMetadata (topic, partition, offset, timestamp) or raises the
        record's error. The sender's thread calls `callback(metadata, error)` when the record is acknowledged or failed.

        Raises SerializationError, TypeError or ValueError for an invalid record, IllegalState after close and outside a
        transaction of a transactional producer, and the error of a transaction that must be aborted. All other errors
        are in the future.
        """
        raise NotImplementedError

    def _send_one(
        self,
        record: ProducerRecord | str,
        value: object,
        key: object,
        partition: int | None,
        timestamp: int | None,
        headers: AnyHeaders,
        callback: Callback | None,
    ) -> RecordFuture:
        if isinstance(record, ProducerRecord):
            callback = cast("Callback | None", value) if callback is None else callback
        else:
            record = ProducerRecord(record, value, key, partition, timestamp, headers)
        return self._send(record, callback)

    def _begin_plain(
        self,
        topic: str,
        cells: tuple[object, object],
        partition: int | None,
        serialized: tuple[int, bytes | None, bytes | None],
        callback: Callback | None,
    ) -> RecordFuture:
        """Add a record to a new collection of its topic, after waiting for metadata and memory. `cells`: key and value;
        `serialized`: timestamp, key and value."""
        assert self._queue is not None
        record = ProducerRecord(topic, cells[1], cells[0], partition)
        payload = Payload(*serialized, ())
        try:
            self._ensure_open()
            cluster, _ = self._wait_on_metadata(topic, partition)
            self._ensure_valid_size(batch_size_upper_bound(payload))
            future = self._queue.begin(topic, partition, payload, callback, cluster)
        except KafkaError as error:
            number = UNKNOWN_PARTITION if partition is None else partition
            return FailedFuture(self._failed_to_send(record, number, callback, error), error)
        now_ms = self.clock.now_ms()
        sender = self.sender
        if not sender.is_saturated and not now_ms < sender.next_turn_ms <= now_ms + self._linger_ms:
            sender.wakeup()
        return future

    def _collect(self, now_ms: int) -> int | None:
        """Append the queued records to batches, in a turn of the sender."""
        if self._queue is None:
            return None
        # The turn looks for ready batches afterwards, so it needs no wake-up for these.
        self._is_collecting = True
        try:
            return self._queue.collect(now_ms)
        finally:
            self._is_collecting = False

    def _note_append(self, result: AppendResult) -> None:
        if not self._is_collecting:
            super()._note_append(result)

    def _end_queued(self, topic: str) -> None:
        """Append the queued records of a topic, before others are sent to it in another way."""
        if self._queue is not None:
            self._queue.end(topic)

    def _send(self, record: ProducerRecord, callback: Callback | None) -> RecordFuture:
        self._end_queued(record.topic)
        record, callback, partition = self._intercepted(record, callback)
        try:
            cluster, remaining_ms = self._wait_on_metadata(record.topic, record.partition)
            target, append = self._record_append(record, partition, callback, cluster)
            result = self._accumulator.append_within(target, append, remaining_ms, cluster)
        except KafkaError as error:
            return FailedFuture(self._failed_to_send(record, partition, callback, error), error)
        self._note_append(result)
        assert result.future is not None
        return result.future

    # -- rows --

    def send_many(
        self,
        topic: str,
        values: Sequence[object],
        keys: Sequence[object] | None = None,
        *,
        partition: int | None = None,
        callback: RowsCallback | None = None,
    ) -> ColumnsFuture:
        """Queue many records at once, several times faster than `send` for each: values and as many keys, or none.

        Serializers apply; headers are not possible; the timestamp is the time of the call. `future.result()` waits
        until all are acknowledged. It raises the error if none was acknowledged, PartialFailure if some were not.
        Raises as `send`, and ValueError when the numbers of keys and values differ.
        """
        return self.send_columns(topic, self._rows_of(topic, values, keys), partition, callback)

    def send_columns(
        self, topic: str, rows: RowColumns, partition: int | None = None, callback: RowsCallback | None = None
    ) -> ColumnsFuture:
        """Queue rows that lie in one buffer, the fastest way to send; keys and values are bytes, serializers do not
        apply.

        `callback(run)` is called once for each run of rows that is acknowledged or failed; each row is in exactly one
        run. With interceptors the rows are sent one by one. The buffer of `rows` may be reused when this returns.
        """
        future = ColumnsFuture(rows.count)
        self._send_rows(topic, rows, partition, RowsSink(future, callback, range(rows.count)))
        return future

    def send_arrow(
        self,
        data: object,
        topic: str,
        *,
        value: str = "value",
        key: str | None = "key",
        headers: str | ConstantHeaders | None = "headers",
        partition: str | int | None = None,
        timestamp: str | None = None,
        callback: RowsCallback | None = None,
    ) -> ColumnsFuture:
        """Queue the rows of Arrow data: a pyarrow Table or RecordBatch, or a DataFrame of Polars or pandas.

        `value`, `key`, `headers`, `partition` and `timestamp` name columns. Values and keys are text or bytes, or
        dictionaries of them; serializers do not apply. Without a column `key` or `headers` records have none, and None
        ignores the column. `headers` may be pairs that every record gets, `partition` one number. Without `timestamp`
        the time is that of the call. Other columns are not sent.

        `callback` and the result are those of `send_columns`; row numbers count from the first row of the data. Raises
        TypeError for other data or a column of another type, ValueError for a missing column and for partitions or
        timestamps that are null or negative: then nothing was sent. Raises ImportError without pyarrow, and as `send`.
        """
        from kafkatools.core.records.arrow_rows import ArrowNames, ArrowRows

        table = ArrowRows(data, ArrowNames(value, key, headers, partition, timestamp))
        future = ColumnsFuture(table.count)
        first = 0
        for rows, partitions in table.pieces():
            self._send_rows(topic, rows, partitions, RowsSink(future, callback, range(first, first + rows.count)))
            first += rows.count
        return future

    def _send_rows(self, topic: str, rows: RowColumns, partitions: Partitions, sink: RowsSink) -> None:
        if not isinstance(partitions, array):
            ensure_valid_partition(partitions)
        self._ensure_ready_to_send()
        self._end_queued(topic)
        if self._interceptors:
            self._send_rows_singly(topic, rows, partitions, sink)
            return
        highest = max(partitions, default=None) if isinstance(partitions, array) else partitions
        try:
            cluster, _ = self._wait_on_metadata(topic, highest)
        except KafkaError as error:
            self._fail_rows(TopicPartition(topic, UNKNOWN_PARTITION if highest is None else highest), sink, error)
            return
        run(self._append_rows(topic, rows, partitions, sink, (cluster, None)), self._allocation())

    def _allocation(self) -> Callable[[int], bytearray]:
        """Return a function that waits for the memory of a batch, for the rows of one call. Once it has waited for
        max.block.ms in vain, it waits no more until there is memory: else each further row would wait as long."""
        pool, limit_ms, waits = self._accumulator.pool, self._max_block_ms, True

        def allocate(size_bytes: int) -> bytearray:
            nonlocal waits
            if waits:
                waits = False  # unless this wait succeeds
                buffer = pool.allocate(size_bytes, limit_ms)
            elif (free := pool.try_allocate(size_bytes)) is None:
                raise pool.exhausted(size_bytes, limit_ms)
            else:
                buffer = free
            waits = True
            return buffer

        return allocate

    def _send_rows_singly(self, topic: str, rows: RowColumns, partitions: Partitions, sink: RowsSink) -> None:
        for row, (key, value) in enumerate(cells_of(rows)):
            partition = partitions[row] if isinstance(partitions, array) else partitions
            timestamp = None if rows.timestamps is None else rows.timestamps[row]

            def report(metadata: RecordMetadata, error: Exception | None, row: int = row) -> None:
                place = metadata.topic, metadata.partition
                run = RowsRun(*place, (sink.rows[row],), metadata.offset, metadata.timestamp, error)
                if sink.callback is not None:
                    sink.callback(run)
                sink.future.add(run)

            try:
                headers = () if rows.headers is None else decode_headers(rows.headers[row])
                self._send(ProducerRecord(topic, value, key, partition, timestamp, headers), report)
            except KafkaError as error:
                if self._transactions is None:
                    raise
                place = TopicPartition(topic, UNKNOWN_PARTITION if partition is None else partition)
                self._fail_rows(place, sink._replace(rows=sink.rows[row:]), error)
                return

    # -- metadata --

    def _wait_on_metadata(self, topic: str, partition: int | None) -> tuple[ClusterView, int]:
        """Wait until the cluster metadata has the topic (and the partition), up to max.block.ms; return it with the
        rest of that time. Raises KafkaError."""
        cluster = self._known_cluster(topic, partition)
        if cluster is not None:
            return cluster, self._max_block_ms
        return self._run(self._metadata_steps(topic, partition, self._max_block_ms))

    def _run(self, steps: MetadataSteps[Result]) -> Result:
        return run(steps, lambda wait: self._metadata.await_update(*wait))

    def partitions_for(self, topic: str) -> list[int]:
        """The partition numbers of a topic. Waits for metadata up to max.block.ms. Raises KafkaError."""
        cluster, _ = self._wait_on_metadata(topic, None)
        return list(range(cluster.partition_count(topic) or 0))

    # -- flush, close, metrics --

    def client_instance_id(self, timeout_ms: int | None = None) -> str | None:
        """Return the id that the brokers' metrics of this client carry (KIP-714), as Kafka writes it. Waits for a
        broker's response up to `timeout_ms` (max.block.ms). None if none came in time, or if the brokers
        take no metrics. Raises IllegalState with enable.metrics.push=false, ValueError if negative, and the error of
        the connection when no broker is reachable."""
        self._ensure_open()
        telemetry = ensure_enabled(self.sender.client.telemetry, timeout_ms)
        limit_ms = self._max_block_ms if timeout_ms is None else timeout_ms
        deadline_ms = self.clock.now_ms() + limit_ms
        self._run(self._contact_steps(limit_ms))
        settled = threading.Event()
        telemetry.call_when_settled(settled.set)
        settled.wait(max(0, deadline_ms - self.clock.now_ms()) / 1000)
        return telemetry.instance_id

    def flush(self) -> None:
        """Send all queued records without waiting for linger.ms; return when each is acknowledged or failed. Raises
        IllegalState in a callback, whose thread would wait for itself."""
        if self._thread is threading.current_thread():
            raise IllegalState("flush cannot be called in a callback, because it waits for the callback's thread")
        self._accumulator.begin_flush()
        try:
            with self.sender.metrics.time("flush"):
                self.sender.wakeup()
                if self._queue is not None:
                    self._queue.empty()
                for batch in self._accumulator.incomplete_results():
                    batch.produce_future.wait_for_all()
        finally:
            self._accumulator.end_flush()

    def close(self, timeout_ms: int | None = None) -> None:
        """Wait for unacknowledged records, at most `timeout_ms` (None: until delivery.timeout.ms); then fail the
        remaining ones. An open transaction is aborted, unless it is prepared, which takes max.block.ms at most.

        Safe to call again. In a callback it returns without waiting. Raises ValueError for a negative `timeout_ms`.
        """
        ensure_close_timeout(timeout_ms)
        thread = self._thread
        is_own_thread = thread is threading.current_thread()
        started_ms = self.clock.now_ms()
        if self._queue is not None:
            self._queue.close(0 if is_own_thread else timeout_ms)
        self._is_closed = True
        self._accumulator.close()
        self._metadata.close()
        self.sender.wakeup()
        if thread is not None and not is_own_thread:
            thread.join(None if timeout_ms is None else max(0, timeout_ms - self.clock.now_ms() + started_ms) / 1000)
            if thread.is_alive():
                self._force_close = True
                self.sender.wakeup()
                thread.join()
        elif thread is None:
            self._shut_down()
        self._interceptors.close()

    # -- transactions --

    def init_transactions(self, timeout_ms: int | None = None) -> None:
        """Get the producer id and fence earlier producers with this transactional.id; call it once, before any other
        call. Transactions that such a producer left open are aborted. Waits at most `timeout_ms` (None: max.block.ms);
        after a Timeout the call may be repeated and continues. Raises KafkaError."""
        with self.sender.metrics.time("txn-init"):
            self._await(self._transactional().initialize_transactions(), timeout_ms)
        self._is_initialized = True

    @contextmanager
    def transaction(self) -> Iterator[Producer]:
        """Run a block in a transaction: commit at its end, or abort if it raises, and let the error propagate.

        The first transaction calls `init_transactions` unless that was done. Raises what `commit_transaction` raises,
        after an abort. After a Timeout of the commit nothing is aborted, because the outcome is open: call
        `commit_transaction` again, or close the producer.
        """
        if not self._is_initialized:
            self.init_transactions()
        self.begin_transaction()
        try:
            yield self
        except BaseException:
            self._abort_after_failure()
            raise
        try:
            self.commit_transaction()
        except Timeout:
            raise
        except KafkaError:
            self._abort_after_failure()
            raise

    def _abort_after_failure(self) -> None:
        if self.has_fatal_error or self._is_closed:
            return
        try:
            self.abort_transaction()
        except KafkaError as error:
            self._log.warning("The transaction could not be aborted: %s", error)

    def begin_transaction(self) -> None:
        """Begin a transaction: later records and offsets belong to it. Raises IllegalState without a transactional.id,
        before `init_transactions` and during a transaction, else the error of a failed transaction or producer."""
        with self.sender.metrics.time("txn-begin"):
            self._transactional().begin_transaction()

    def send_offsets_to_transaction(
        self, offsets: Mapping[Place, OffsetAndMetadata | int], group: ConsumerGroupMetadata
    ) -> None:
        """Commit a consumer group's offsets as part of the transaction (KIP-447). `offsets`: the next offset to read of
        each partition (`records.next_offsets()`). `group`: `consumer.group_metadata()`. Raises KafkaError; CommitFailed
        when the group has rebalanced since, IllegalState without a transaction."""
        with self.sender.metrics.time("txn-send-offsets"):
            result = self._start_offsets(offsets, group)
            if result is not None:
                self._await(result, None)

    def commit_transaction(self, timeout_ms: int | None = None) -> None:
        """Send the queued records, wait until all are acknowledged, and commit the transaction, within `timeout_ms`
        (None: max.block.ms). Raises the first error of a record or of the commit; then abort the transaction, unless
        the error is fatal (`has_fatal_error`).

        After a Timeout the call may be repeated. Raises IllegalState without a transaction.
        """
        with self.sender.metrics.time("txn-commit"):
            self._await(self._transactional().begin_commit(), timeout_ms)

    def prepare_transaction(self) -> PreparedTransaction:
        """Wait until every record and offset is acknowledged, and leave the transaction open for another process to end
        (KIP-939).

        Afterwards nothing can be added and `close` does not abort; `complete_transaction`, `commit_transaction` and
        `abort_transaction` are still possible. The broker aborts the transaction after transaction.timeout.ms, unless
        transaction.two.phase.commit.enable is set. Raises as `commit_transaction`.
        """

        def wait(result: TransactionalResult | None) -> None:
            self.flush() if result is None else result.wait(self._max_block_ms)

        with self.sender.metrics.time("txn-prepare"):
            return run(self._transactional().prepare(lambda: self._accumulator.has_incomplete), wait)

    def complete_transaction(self, decided: PreparedTransaction, timeout_ms: int | None = None) -> bool:
        """Commit the prepared transaction if it is the one that the external coordinator decided to commit, else abort
        it (KIP-939). Returns whether it was committed. `decided`: what `prepare_transaction` returned when the decision
        was stored. Raises IllegalState without a prepared transaction, else as `commit_transaction`."""
        is_commit = self._is_prepared_as(decided)
        if is_commit:
            self.commit_transaction(timeout_ms)
        else:
            self.abort_transaction(timeout_ms)
        return is_commit

    def abort_transaction(self, timeout_ms: int | None = None) -> None:
        """Abort the transaction within `timeout_ms` (None: max.block.ms); records that were not sent fail. After a
        Timeout the call may be repeated. Raises KafkaError; IllegalState without a transaction."""
        with self.sender.metrics.time("txn-abort"):
            self._await(self._transactional().begin_abort(), timeout_ms)

    def _await(self, result: TransactionalResult, timeout_ms: int | None) -> None:
        limit_ms = self._max_block_ms if timeout_ms is None else timeout_ms
        started_ms = self.clock.now_ms()
        self._run(self._contact_steps(limit_ms))
        result.wait(limit_ms, self.clock.now_ms() - started_ms)

    # -- the thread --

    def _run_sender(self) -> None:
        """The sender's thread: run the sender until the producer closes, then until all is sent or time is up."""
        sender = self.sender
        try:
            while not self._is_closed:
                self._turn(sender.run_once)
            while not self._force_close and (self._has_work() or self._has_last_push()):
                # A turn that fails the last batches itself has nothing to wait for.
                self._turn(lambda now_ms: sender.run_once(now_ms, CLOSING_POLL_MS))
        finally:
            self._shut_down()

    def _shut_down(self) -> None:
        if self._queue is not None:
            self._queue.fail(IllegalState("Producer is closed forcefully."))
        super()._shut_down()

    def _turn(self, run_once: Callable[[int], None]) -> None:
        try:
            run_once(self.clock.now_ms())
        except Exception:  # noqa: BLE001 - the top of the thread, which must go on to complete or fail the queued records
            self._log.error("Uncaught error in kafka producer I/O thread: ", exc_info=True)
            self.clock.sleep_ms(PAUSE_AFTER_FAILURE_MS)
