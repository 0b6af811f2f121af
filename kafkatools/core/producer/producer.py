"""Producer: sends records to topics (Kafka's KafkaProducer).

`send` and `send_columns` pass through interceptors, metadata (waiting up to max.block.ms), serializers, partitioner,
size check and accumulator; the sender's thread does the rest. Rules: an error of one record (too large, no memory,
unknown topic) is reported by its future and callback; only errors of use and of serialization are raised. When `flush`
or `close` returns, earlier records are acknowledged or failed, except when a callback calls `close`.
"""

from __future__ import annotations

import logging
import threading
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from kafkatools.core import config as tables
from kafkatools.core.clock import Clock, SystemClock
from kafkatools.core.closing import ensure_close_timeout
from kafkatools.core.config.client_settings import Settings, config_of, take_objects
from kafkatools.core.errors import IllegalState, KafkaError, RecordTooLarge, Timeout
from kafkatools.core.group.metadata import ConsumerGroupMetadata, OffsetAndMetadata, committed
from kafkatools.core.producer.assembly import ProducerParts, assemble
from kafkatools.core.producer.first_contact import await_update
from kafkatools.core.producer.futures import (
    NO_OFFSET,
    NO_TIMESTAMP,
    ColumnsFuture,
    FailedFuture,
    RecordFuture,
    RecordMetadata,
    RowsRun,
    TopicPartition,
)
from kafkatools.core.producer.interceptors import ProducerInterceptor, ProducerInterceptors
from kafkatools.core.producer.partitioners import UNKNOWN_PARTITION, partition_for_key, partitioner_for
from kafkatools.core.producer.producer_batch import (
    Callback,
    Payload,
    RowsCallback,
    RowsSink,
    batch_size_upper_bound,
    rows_size_upper_bound,
)
from kafkatools.core.producer.producer_metadata import not_present
from kafkatools.core.producer.producer_record import AnyHeaders, ProducerRecord
from kafkatools.core.producer.row_groups import cells_of, group_rows, oversized_rows, partitions_of_keys
from kafkatools.core.producer.sender import MAX_POLL_MS
from kafkatools.core.producer.serializers import AnySerializer, Serializer, serialize_bytes, serializer_for
from kafkatools.core.producer.transactional import as_transactional
from kafkatools.core.records.columns import RowColumns, decode_headers

if TYPE_CHECKING:
    from kafkatools.core.net.metadata import ClusterView
    from kafkatools.core.prepared_transaction import PreparedTransaction
    from kafkatools.core.producer.partitioners import Partitioner
    from kafkatools.core.producer.transaction_requests import TransactionalResult
    from kafkatools.core.producer.transactions import TransactionalManager

_log = logging.getLogger(__name__)

Place = TypeVar("Place", bound=tuple[str, int])

_PAUSE_AFTER_FAILURE_MS = 100
_INTERRUPTED_CLOSE_MS = 3000
_OBJECTS = ("key.serializer", "value.serializer", "partitioner.class")


class Producer:
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
        plain_settings, objects = take_objects(config, _OBJECTS)
        self.config = config = config_of(tables.PRODUCER, plain_settings, settings)
        key_serializer = key_serializer or objects.get("key.serializer", config.key_serializer)
        value_serializer = value_serializer or objects.get("value.serializer", config.value_serializer)
        partitioner = partitioner or objects.get("partitioner.class", config.partitioner_class)
        self.clock: Clock = clock if clock is not None else SystemClock()
        self._interceptors = ProducerInterceptors(interceptors)
        self._partitioner = partitioner_for(partitioner)
        self._ignore_keys: bool = config.partitioner_ignore_keys
        self._key_serializer = serializer_for("key.serializer", key_serializer)
        self._value_serializer = serializer_for("value.serializer", value_serializer)
        self._max_block_ms: int = config.max_block_ms
        self._max_request_bytes: int = config.max_request_size
        self._memory_bytes: int = config.buffer_memory
        self._parts = parts if parts is not None else assemble(config, self.clock)
        self.sender = self._parts.sender
        self._accumulator = self._parts.accumulator
        self._metadata = self._parts.metadata
        self._transactions = as_transactional(self.sender.transactions)
        self._is_initialized = False
        self._is_closed = False
        self._force_close = False
        self._end_deadline_ms: int | None = None
        self._thread: threading.Thread | None = None
        if start_thread:
            self._thread = threading.Thread(target=self._run, name="kafka-producer-network-thread", daemon=True)
            self._thread.start()

    def __enter__(self) -> Producer:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        """Close the producer; after Ctrl-C or SystemExit wait at most three seconds for unacknowledged records."""
        is_interrupted = error is not None and not isinstance(error, Exception)
        self.close(_INTERRUPTED_CLOSE_MS if is_interrupted else None)

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

    def send(  # type: ignore[misc]  # in the first form the second argument is the callback, by place or by name
        self,
        record: ProducerRecord | str,
        value: object = None,
        key: object = None,
        *,
        callback: Callback | None = None,
        **place: Any,
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
        if isinstance(record, ProducerRecord):
            callback = cast("Callback | None", value) if callback is None else callback
        else:
            record = ProducerRecord(record, value, key, **place)
        return self._send(record, callback)

    def _send(self, record: ProducerRecord, callback: Callback | None) -> RecordFuture:
        if self._interceptors:
            record = self._interceptors.on_send(record)
            callback = self._with_interceptors(callback)
        self._ensure_ready_to_send()
        partition = UNKNOWN_PARTITION if record.partition is None else record.partition
        try:
            return self._do_send(record, partition, callback)
        except (IllegalState, KafkaError) as error:
            if isinstance(error, IllegalState) or error.name == "SERIALIZATION_ERROR":
                self._interceptors.on_send_error(record, partition, error)
                raise
            _log.debug("Exception occurred during message send: %s", error)
            self._note_failed_send(error)
            place = TopicPartition(record.topic, partition)
            if callback is not None:
                callback(RecordMetadata(*place, NO_OFFSET, NO_TIMESTAMP, -1, -1), error)
            self.sender.metrics.record("record-error", 1, self.clock.now_ms())
            return FailedFuture(place, error)

    def _do_send(self, record: ProducerRecord, partition: int, callback: Callback | None) -> RecordFuture:
        topic = record.topic
        cluster, remaining_ms = self._wait_on_metadata(topic, record.partition, self._max_block_ms)
        key = self._key_serializer(topic, record.key)
        value = self._value_serializer(topic, record.value)
        timestamp = self.clock.wall_ms() if record.timestamp is None else record.timestamp
        payload = Payload(timestamp, key, value, record.headers)
        if partition == UNKNOWN_PARTITION:
            partition = self._choose_partition(topic, key, value, cluster)
        self._ensure_valid_size(batch_size_upper_bound(payload))
        result = self._accumulator.append(TopicPartition(topic, partition), payload, callback, remaining_ms, cluster)
        if result.batch_is_full or result.new_batch:
            self.sender.wakeup()
        assert result.future is not None
        return result.future

    def _with_interceptors(self, callback: Callback | None) -> Callback:
        interceptors = self._interceptors

        def acknowledged(metadata: RecordMetadata, error: Exception | None) -> None:
            interceptors.on_acknowledgement(metadata, error)
            if callback is not None:
                callback(metadata, error)

        return acknowledged

    def _choose_partition(self, topic: str, key: bytes | None, value: bytes | None, cluster: ClusterView) -> int:
        """The partition of a record; -1 lets the sticky partitioner choose one at the append."""
        if self._partitioner is not None:
            partition = self._partitioner.partition(topic, key, value, cluster)
            if partition < 0:
                raise ValueError(
                    f"The partitioner generated an invalid partition number: {partition}. It should be non-negative."
                )
            return partition
        if key is None or self._ignore_keys:
            return UNKNOWN_PARTITION
        return partition_for_key(key, cluster.partition_count(topic) or 1)

    def _ensure_valid_size(self, size: int) -> None:
        """Raise RecordTooLarge for a size above max.request.size or buffer.memory
        (KafkaProducer.ensureValidRecordSize)."""
        if size > self._max_request_bytes:
            raise RecordTooLarge(
                f"The message is {size} bytes when serialized which is larger than {self._max_request_bytes}, "
                "which is the value of the max.request.size configuration."
            )
        if size > self._memory_bytes:
            raise RecordTooLarge(
                f"The message is {size} bytes when serialized which is larger than the total memory buffer "
                "you have configured with the buffer.memory configuration."
            )

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
        if keys is not None and len(keys) != len(values):
            raise ValueError(f"{len(values)} values with {len(keys)} keys: pass as many keys as values, or none")
        key_cells = None if keys is None else self._cells_of(topic, keys, self._key_serializer)
        rows = RowColumns.of_values(self._cells_of(topic, values, self._value_serializer), key_cells)
        return self.send_columns(topic, rows, partition, callback)

    @staticmethod
    def _cells_of(topic: str, cells: Sequence[object], serialize: Serializer) -> Sequence[bytes | None]:
        if serialize is serialize_bytes and all(type(cell) is bytes for cell in cells):
            return cast("Sequence[bytes]", cells)
        return [serialize(topic, cell) for cell in cells]

    def send_columns(
        self, topic: str, rows: RowColumns, partition: int | None = None, callback: RowsCallback | None = None
    ) -> ColumnsFuture:
        """Queue rows that lie in one buffer, the fastest way to send; keys and values are bytes, serializers do not
        apply.

        `callback(run)` is called once for each run of rows that is acknowledged or failed; each row is in exactly one
        run. With interceptors the rows are sent one by one. The buffer of `rows` may be reused when this returns.
        """
        self._ensure_ready_to_send()
        future = ColumnsFuture(rows.count)
        sink = RowsSink(future, callback, range(rows.count))
        if self._interceptors:
            self._send_rows_singly(topic, rows, partition, sink)
            return future
        try:
            cluster, _ = self._wait_on_metadata(topic, partition, self._max_block_ms)
        except KafkaError as error:
            self._fail_rows(TopicPartition(topic, UNKNOWN_PARTITION if partition is None else partition), sink, error)
            return future
        for target, columns, numbers in self._spread(topic, rows, partition, cluster):
            self._append_rows(TopicPartition(topic, target), columns, sink._replace(rows=numbers), cluster)
        return future

    def _spread(
        self, topic: str, rows: RowColumns, partition: int | None, cluster: ClusterView
    ) -> list[tuple[int, RowColumns, Sequence[int]]]:
        """Group rows by partition: (partition, rows, row numbers). `partition` or a custom partitioner decides first.
        If no row has a key, or keys are ignored, all rows go to -1, the sticky partition."""
        if partition is not None:
            return [(partition, rows, range(rows.count))]
        if self._partitioner is not None:
            numbers = [self._choose_partition(topic, *cells, cluster) for cells in cells_of(rows)]
            return list(group_rows(rows, array("i", numbers)))
        if rows.key_lengths is None or self._ignore_keys:
            return [(UNKNOWN_PARTITION, rows, range(rows.count))]
        count = cluster.partition_count(topic) or 1
        if count == 1:
            return [(0, rows, range(rows.count))]
        partitions = partitions_of_keys(rows, count)
        if UNKNOWN_PARTITION in partitions:
            sticky = self._accumulator.sticky_partition(topic, len(rows.buffer), cluster)
            partitions = array("i", [sticky if number < 0 else number for number in partitions])
        return list(group_rows(rows, partitions))

    def _append_rows(self, target: TopicPartition, rows: RowColumns, sink: RowsSink, cluster: ClusterView) -> None:
        start = 0
        stops = [*oversized_rows(rows, self.config), rows.count]
        while start < rows.count:
            if start >= stops[0]:
                stops.pop(0)
            stop = stops[0]
            try:
                self._ensure_valid_size(rows_size_upper_bound(rows, start))
                span = (start, max(stop, start + 1))
                result = self._accumulator.append_columns(target, rows, span, sink, self._max_block_ms, cluster)
            except KafkaError as error:
                self._fail_rows(target, sink._replace(rows=sink.rows[start : start + 1]), error)
                start += 1
                if isinstance(error, IllegalState) or (self._transactions and self._transactions.has_error):
                    self._fail_rows(target, sink._replace(rows=sink.rows[start:]), error)
                    return
                continue
            start += result.rows
            if result.batch_is_full or result.new_batch:
                self.sender.wakeup()

    def _send_rows_singly(self, topic: str, rows: RowColumns, partition: int | None, sink: RowsSink) -> None:
        for row, (key, value) in enumerate(cells_of(rows)):
            timestamp = None if rows.timestamps is None else rows.timestamps[row]

            def report(metadata: RecordMetadata, error: Exception | None, row: int = row) -> None:
                run = RowsRun(metadata.topic, metadata.partition, (row,), metadata.offset, metadata.timestamp, error)
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

    def _fail_rows(self, target: TopicPartition, sink: RowsSink, error: Exception) -> None:
        if not len(sink.rows):
            return
        self._note_failed_send(error)
        run = RowsRun(*target, sink.rows, NO_OFFSET, NO_TIMESTAMP, error)
        self.sender.metrics.record("record-error", run.row_count, self.clock.now_ms())
        if sink.callback is not None:
            sink.callback(run)
        sink.future.add(run)

    # -- metadata --

    def _wait_on_metadata(self, topic: str, partition: int | None, max_wait_ms: int) -> tuple[ClusterView, int]:
        """Wait until the cluster metadata has the topic (and the partition); return it with the rest of the time in ms.
        Raises Timeout, TopicAuthorizationFailed, InvalidTopic, and the connection error of `await_update`."""
        cluster = self._metadata.cluster
        count = cluster.partition_count(topic)
        if count is not None and (partition is None or partition < count) and self._metadata.contains(topic):
            self._metadata.touch(topic)
            return cluster, max_wait_ms
        started_ms = self.clock.now_ms()
        remaining_ms = max_wait_ms
        while True:
            self._ensure_open()
            version = self._metadata.request_update_for_topic(topic, self.clock.now_ms())
            self.sender.wakeup()
            is_updated = remaining_ms > 0 and await_update(self.sender, version, remaining_ms)
            remaining_ms = max_wait_ms - (self.clock.now_ms() - started_ms)
            self._metadata.raise_for_topic(topic)
            cluster = self._metadata.cluster
            count = cluster.partition_count(topic)
            if count is not None and (partition is None or partition < count):
                return cluster, max(0, remaining_ms)
            if not is_updated or remaining_ms <= 0:
                problem = self.sender.client.cluster_error()
                raise Timeout(not_present(topic, partition, count, max_wait_ms)) from problem

    def partitions_for(self, topic: str) -> list[int]:
        """The partition numbers of a topic. Waits for metadata up to max.block.ms. Raises KafkaError."""
        cluster, _ = self._wait_on_metadata(topic, None, self._max_block_ms)
        return list(range(cluster.partition_count(topic) or 0))

    # -- flush, close, metrics --

    def flush(self) -> None:
        """Send all queued records without waiting for linger.ms; return when each is acknowledged or failed. Raises
        IllegalState in a callback, whose thread would wait for itself."""
        if self._thread is threading.current_thread():
            raise IllegalState("flush cannot be called in a callback, because it waits for the callback's thread")
        self._accumulator.begin_flush()
        try:
            self.sender.wakeup()
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
        self._is_closed = True
        self._accumulator.close()
        self.sender.wakeup()
        thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(None if timeout_ms is None else timeout_ms / 1000)
            if thread.is_alive():
                self._force_close = True
                self.sender.wakeup()
                thread.join()
        elif thread is None:
            self._shut_down()
        self._interceptors.close()

    def metrics(self) -> dict[str, float]:
        """The values of Kafka's producer-metrics by name."""
        return self.sender.metrics.snapshot(self.clock.now_ms())

    def _ensure_open(self) -> None:
        if self._is_closed:
            raise IllegalState("Cannot perform operation after producer has been closed")

    def _ensure_ready_to_send(self) -> None:
        self._ensure_open()
        if self._transactions is not None:
            self._transactions.ensure_ready_to_send()

    # -- transactions --

    def init_transactions(self, timeout_ms: int | None = None) -> None:
        """Get the producer id and fence earlier producers with this transactional.id; call it once, before any other
        call. Transactions that such a producer left open are aborted. Waits at most `timeout_ms` (None: max.block.ms);
        after a Timeout the call may be repeated and continues. Raises KafkaError."""
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
            _log.warning("The transaction could not be aborted: %s", error)

    def begin_transaction(self) -> None:
        """Begin a transaction: later records and offsets belong to it. Raises IllegalState without a transactional.id,
        before `init_transactions` and during a transaction, else the error of a failed transaction or producer."""
        self._transactional().begin_transaction()

    def send_offsets_to_transaction(
        self, offsets: Mapping[Place, OffsetAndMetadata | int], group: ConsumerGroupMetadata
    ) -> None:
        """Commit a consumer group's offsets as part of the transaction (KIP-447). `offsets`: the next offset to read of
        each partition (`records.next_offsets()`). `group`: `consumer.group_metadata()`. Raises KafkaError; CommitFailed
        when the group has rebalanced since, IllegalState without a transaction."""
        manager = self._transactional()
        if group.generation_id > 0 and not group.member_id:
            raise IllegalState(f"Passed in group metadata {group} has generationId > 0 but the member.id is unknown")
        if offsets:
            places = {TopicPartition(*place): committed(offset) for place, offset in offsets.items()}
            self._await(manager.send_offsets(places, group), None)

    def commit_transaction(self, timeout_ms: int | None = None) -> None:
        """Send the queued records, wait until all are acknowledged, and commit the transaction, within `timeout_ms`
        (None: max.block.ms). Raises the first error of a record or of the commit; then abort the transaction, unless
        the error is fatal (`has_fatal_error`).

        After a Timeout the call may be repeated. Raises IllegalState without a transaction.
        """
        self._await(self._transactional().begin_commit(), timeout_ms)

    def prepare_transaction(self) -> PreparedTransaction:
        """Wait until every record and offset is acknowledged, and leave the transaction open for another process to end
        (KIP-939).

        Afterwards nothing can be added and `close` does not abort; `commit_transaction` and `abort_transaction` are
        still possible. The broker aborts the transaction after transaction.timeout.ms. Raises as `commit_transaction`.
        """
        return self._transactional().prepare(self.flush, lambda: self._accumulator.has_incomplete, self._max_block_ms)

    def abort_transaction(self, timeout_ms: int | None = None) -> None:
        """Abort the transaction within `timeout_ms` (None: max.block.ms); records that were not sent fail. After a
        Timeout the call may be repeated. Raises KafkaError; IllegalState without a transaction."""
        self._await(self._transactional().begin_abort(), timeout_ms)

    @property
    def has_fatal_error(self) -> bool:
        """Return whether the producer can only be closed, for example because another producer fenced it."""
        return self.sender.transactions is not None and self.sender.transactions.has_fatal_error

    def _transactional(self) -> TransactionalManager:
        if self._transactions is None:
            raise IllegalState(
                "Cannot use transactional methods without enabling transactions by setting the "
                "transactional.id configuration property"
            )
        self._ensure_open()
        return self._transactions

    def _await(self, result: TransactionalResult, timeout_ms: int | None) -> None:
        self.sender.wakeup()
        limit_ms = self._max_block_ms if timeout_ms is None else timeout_ms
        if not self._metadata.update_version:
            await_update(self.sender, 0, limit_ms)
        result.wait(limit_ms)

    def _note_failed_send(self, error: Exception) -> None:
        if self._transactions is not None:
            self._transactions.handle_failed_send(error)

    # -- the thread --

    def _run(self) -> None:
        """The sender's thread: run the sender until the producer closes, then until all is sent or time is up."""
        sender = self.sender
        while not self._is_closed:
            self._turn(sender.run_once)
        while not self._force_close and self._has_work():
            self._turn(lambda now_ms: sender.run_once(now_ms, min(MAX_POLL_MS, self._max_block_ms)))
        self._shut_down()

    def _has_work(self) -> bool:
        """Return whether a closing producer has unacknowledged batches or a transaction to abort or complete. The end
        of a transaction is awaited for max.block.ms; Kafka's producer waits for it without a limit."""
        manager = self._transactions
        if manager is not None and manager.has_ongoing_transaction and not manager.is_completing:
            _log.info("Aborting incomplete transaction due to shutdown")
            manager.abort_for_close()
        if self._accumulator.has_incomplete or manager is None or not manager.has_ongoing_transaction:
            return self._accumulator.has_incomplete
        now_ms = self.clock.now_ms()
        if self._end_deadline_ms is None:
            self._end_deadline_ms = now_ms + self._max_block_ms
        return now_ms < self._end_deadline_ms

    def _shut_down(self) -> None:
        if self._transactions is not None:
            self._transactions.close()
        self._accumulator.abort_incomplete(IllegalState("Producer is closed forcefully."))
        self.sender.client.close()

    def _turn(self, run_once: Callable[[int], None]) -> None:
        try:
            run_once(self.clock.now_ms())
        except Exception:  # noqa: BLE001 - the top of the thread, which must go on to complete or fail the queued records
            _log.error("Uncaught error in kafka producer I/O thread: ", exc_info=True)
            self.clock.sleep_ms(_PAUSE_AFTER_FAILURE_MS)
