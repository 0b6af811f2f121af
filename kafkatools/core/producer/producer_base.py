"""ProducerBase: what Producer and kafkatools.aio.Producer have in common, which is everything but waiting.

A call that must wait is a generator of steps (core/steps.py): a step waits for metadata (`MetadataWait`) or for the
memory of a new batch (its size in bytes). An error of one record (too large, no memory, unknown topic) is reported by
its future and callback; only errors of use and of serialization are raised.
"""

from __future__ import annotations

import logging
from array import array
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar, cast

from kafkatools.core import config as tables
from kafkatools.core.client_log import ClientLog
from kafkatools.core.clock import Clock, SystemClock
from kafkatools.core.config.client_settings import Settings, config_of, take_objects
from kafkatools.core.errors import IllegalState, KafkaError, RecordTooLarge, Timeout
from kafkatools.core.group.metadata import ConsumerGroupMetadata, OffsetAndMetadata, offsets_to_commit
from kafkatools.core.net.addresses import Resolver
from kafkatools.core.net.sendable_names import ensure_sendable_group
from kafkatools.core.producer.assembly import ProducerParts, assemble
from kafkatools.core.producer.first_contact import MetadataSteps, await_update
from kafkatools.core.producer.futures import (
    NO_OFFSET,
    NO_TIMESTAMP,
    RecordMetadata,
    RowsRun,
    TopicPartition,
)
from kafkatools.core.producer.interceptors import ProducerInterceptor, ProducerInterceptors
from kafkatools.core.producer.partitioners import UNKNOWN_PARTITION, partition_for_key, partitioner_for
from kafkatools.core.producer.producer_batch import (
    Callback,
    Payload,
    RowsSink,
    batch_size_upper_bound,
    rows_size_upper_bound,
)
from kafkatools.core.producer.producer_metadata import not_present
from kafkatools.core.producer.producer_record import ProducerRecord
from kafkatools.core.producer.record_appends import AppendResult, RecordAppend
from kafkatools.core.producer.row_groups import (
    Partitions,
    cells_of,
    group_rows,
    oversized_rows,
    partitions_of_keys,
    shifted,
)
from kafkatools.core.producer.serializers import AnySerializer, Serializer, serialize_bytes, serializer_for
from kafkatools.core.producer.transaction_manager import State
from kafkatools.core.producer.transactional import as_transactional
from kafkatools.core.records.columns import RowColumns

if TYPE_CHECKING:
    from kafkatools.core.metrics.registry import MetricValues
    from kafkatools.core.net.metadata import ClusterView
    from kafkatools.core.prepared_transaction import PreparedTransaction
    from kafkatools.core.producer.partitioners import Partitioner
    from kafkatools.core.producer.transaction_requests import TransactionalResult
    from kafkatools.core.producer.transactions import TransactionalManager
    from kafkatools.core.producer.unbatched.outbox import Sent

_log = logging.getLogger(__name__)

Place = TypeVar("Place", bound=tuple[str, int])
Rows = tuple[int, RowColumns, Sequence[int]]

INTERRUPTED_CLOSE_MS = 3000
CLOSING_POLL_MS = 100
PAUSE_AFTER_FAILURE_MS = 100
_OBJECTS = ("key.serializer", "value.serializer", "partitioner.class")


class ProducerBase:
    """The settings and parts of a producer, and the steps of its calls."""

    def __init__(
        self,
        config: Settings | None,
        clock: Clock | None,
        interceptors: Sequence[ProducerInterceptor],
        partitioner: Partitioner | str | None,
        *,
        key_serializer: str | AnySerializer | None,
        value_serializer: str | AnySerializer | None,
        settings: Mapping[str, object],
    ) -> None:
        plain_settings, objects = take_objects(config, _OBJECTS)
        self.config = config = config_of(tables.PRODUCER, plain_settings, settings)
        key_serializer = key_serializer or objects.get("key.serializer", config.key_serializer)
        value_serializer = value_serializer or objects.get("value.serializer", config.value_serializer)
        partitioner = partitioner or objects.get("partitioner.class", config.partitioner_class)
        self.clock: Clock = clock if clock is not None else SystemClock()
        self._log = ClientLog.of(_log, config)
        self._interceptors = ProducerInterceptors.of(config, interceptors)
        self._partitioner = partitioner_for(partitioner)
        self._ignore_keys: bool = config.partitioner_ignore_keys
        self._key_serializer = serializer_for("key.serializer", key_serializer)
        self._value_serializer = serializer_for("value.serializer", value_serializer)
        self._max_block_ms: int = config.max_block_ms
        self._max_request_bytes: int = config.max_request_size
        self._memory_bytes: int = config.buffer_memory
        self._is_initialized = False
        self._is_closed = False
        self._end_deadline_ms: int | None = None

    def _use_parts(
        self,
        parts: ProducerParts | None,
        resolver: Resolver | None = None,
        collect: Callable[[int], int | None] = lambda now_ms: None,
    ) -> None:
        """Build the parts, unless they are given. Raises ConfigError and KeyStoreUnreadable."""
        self._parts = parts if parts is not None else assemble(self.config, self.clock, resolver, collect)
        self.sender = self._parts.sender
        self._accumulator = self._parts.accumulator
        self._metadata = self._parts.metadata
        self._transactions = as_transactional(self.sender.transactions)

    # -- one record --

    def _intercepted(
        self, record: ProducerRecord, callback: Callback | None
    ) -> tuple[ProducerRecord, Callback | None, int]:
        """The record and callback after the interceptors, and the record's partition (-1: to be chosen). Raises
        IllegalState when nothing can be sent."""
        if self._interceptors:
            record = self._interceptors.on_send(record)
            callback = self._with_interceptors(callback)
        self._ensure_ready_to_send()
        return record, callback, UNKNOWN_PARTITION if record.partition is None else record.partition

    def _record_append(
        self, record: ProducerRecord, partition: int, callback: Callback | None, cluster: ClusterView
    ) -> tuple[TopicPartition, RecordAppend]:
        """Serialize a record and choose its partition. Raises SerializationError and RecordTooLarge."""
        topic = record.topic
        key = self._key_serializer(topic, record.key)
        value = self._value_serializer(topic, record.value)
        timestamp = self.clock.wall_ms() if record.timestamp is None else record.timestamp
        payload = Payload(timestamp, key, value, record.headers)
        if partition == UNKNOWN_PARTITION:
            partition = self._choose_partition(topic, key, value, cluster)
        self._ensure_valid_size(batch_size_upper_bound(payload))
        return TopicPartition(topic, partition), RecordAppend(payload, callback)

    def _wake(self) -> None:
        """Make the sender run its next turn now. Called when there is work for it."""
        self.sender.wakeup()

    def _note_append(self, result: AppendResult) -> None:
        if (result.batch_is_full or result.new_batch) and not self.sender.is_saturated:
            self._wake()

    def _failed_to_send(
        self, record: ProducerRecord, partition: int, callback: Callback | None, error: KafkaError
    ) -> TopicPartition:
        """Report a record that could not be queued to its callback. Raises errors of use and of serialization
        instead."""
        if isinstance(error, IllegalState) or error.name == "SERIALIZATION_ERROR":
            self._interceptors.on_send_error(record, partition, error)
            raise error
        self._log.debug("Exception occurred during message send: %s", error)
        self._note_failed_send(error)
        place = TopicPartition(record.topic, partition)
        if callback is not None:
            callback(RecordMetadata(*place, NO_OFFSET, NO_TIMESTAMP, -1, -1), error)
        self.sender.metrics.failed(record.topic, 1, self.clock.now_ms())
        return place

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

    def _append_known(
        self, topic: str, rows: RowColumns, partition: int | None, sink: RowsSink, sent: Sent | None
    ) -> Generator[int, bytearray, None]:
        """Append rows of a topic whose metadata is there, or was there at the time of `sent`."""
        cluster = self._metadata.cluster
        if sent is not None and cluster.partition_count(topic) is None:
            cluster = sent.cluster
        context = cluster, None if sent is None else sent.time_ms
        if partition is None and self._partitioner is not None:
            return self._append_partitioned(topic, rows, sink, context)
        return self._append_rows(topic, rows, partition, sink, context)

    def _append_partitioned(
        self, topic: str, rows: RowColumns, sink: RowsSink, context: tuple[ClusterView, int | None]
    ) -> Generator[int, bytearray, None]:
        """Append rows to the partitions that the custom partitioner chooses. A row for which it raises an error fails
        with that error: nobody else waits for it here."""
        numbers = array("i")
        for row, cells in enumerate(cells_of(rows)):
            try:
                numbers.append(self._choose_partition(topic, *cells, context[0]))
            except Exception as error:  # noqa: BLE001 - the partitioner is code of the application
                numbers.append(UNKNOWN_PARTITION)
                failed = sink._replace(rows=sink.rows[row : row + 1])
                self._fail_rows(TopicPartition(topic, UNKNOWN_PARTITION), failed, error)
        for number, columns, row_numbers in group_rows(rows, numbers):
            if number != UNKNOWN_PARTITION:
                numbered = sink._replace(rows=shifted(row_numbers, sink.rows))
                yield from self._append_to(TopicPartition(topic, number), columns, numbered, context)

    def _rows_of(self, topic: str, values: Sequence[object], keys: Sequence[object] | None) -> RowColumns:
        """Serialize values and keys into columns. Raises ValueError when their numbers differ."""
        if keys is not None and len(keys) != len(values):
            raise ValueError(f"{len(values)} values with {len(keys)} keys: pass as many keys as values, or none")
        key_cells = None if keys is None else self._cells_of(topic, keys, self._key_serializer)
        return RowColumns.of_values(self._cells_of(topic, values, self._value_serializer), key_cells)

    @staticmethod
    def _cells_of(topic: str, cells: Sequence[object], serialize: Serializer) -> Sequence[bytes | None]:
        if serialize is serialize_bytes and all(type(cell) is bytes for cell in cells):
            return cast("Sequence[bytes]", cells)
        return [serialize(topic, cell) for cell in cells]

    def _spread(self, topic: str, rows: RowColumns, partition: Partitions, cluster: ClusterView) -> list[Rows]:
        """Group rows by partition: (partition, rows, row numbers). `partition` or a custom partitioner decides first.
        If no row has a key, or keys are ignored, all rows go to -1, the sticky partition."""
        if isinstance(partition, array):
            return list(group_rows(rows, partition))
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

    def _append_rows(
        self,
        topic: str,
        rows: RowColumns,
        partition: Partitions,
        sink: RowsSink,
        context: tuple[ClusterView, int | None],
    ) -> Generator[int, bytearray, None]:
        """Append rows to the batches of their partitions; a step waits for the memory of a new batch. Rows that cannot
        be appended fail in `sink`. `context`: the cluster and the `sent_ms` of RowsAppend."""
        for target, columns, numbers in self._spread(topic, rows, partition, context[0]):
            place = TopicPartition(topic, target)
            numbered = sink._replace(rows=shifted(numbers, sink.rows))
            yield from self._append_to(place, columns, numbered, context)

    def _append_to(
        self, target: TopicPartition, rows: RowColumns, sink: RowsSink, context: tuple[ClusterView, int | None]
    ) -> Generator[int, bytearray, None]:
        cluster, sent_ms = context
        start = 0
        stops = [*oversized_rows(rows, self.config), rows.count]
        accumulator = self._accumulator
        while start < rows.count:
            if start >= stops[0]:
                stops.pop(0)
            stop = stops[0]
            try:
                self._ensure_valid_size(rows_size_upper_bound(rows, start))
                append = accumulator.rows_append(rows, (start, max(stop, start + 1)), sink, sent_ms)
                result = accumulator.try_append(target, append, cluster)
                if result is None:
                    result = yield from accumulator.append_steps(target, append, cluster)
            except KafkaError as error:
                self._fail_rows(target, sink._replace(rows=sink.rows[start : start + 1]), error)
                start += 1
                if isinstance(error, IllegalState) or (self._transactions and self._transactions.has_error):
                    self._fail_rows(target, sink._replace(rows=sink.rows[start:]), error)
                    return
                continue
            start += result.rows
            self._note_append(result)

    def _fail_rows(self, target: TopicPartition, sink: RowsSink, error: Exception) -> None:
        if not len(sink.rows):
            return
        self._note_failed_send(error)
        run = RowsRun(*target, sink.rows, NO_OFFSET, NO_TIMESTAMP, error)
        self.sender.metrics.failed(target.topic, run.row_count, self.clock.now_ms())
        if sink.callback is not None:
            sink.callback(run)
        sink.future.add(run)

    # -- metadata --

    def _known_cluster(self, topic: str, partition: int | None) -> ClusterView | None:
        """The cluster metadata if it has the topic (and the partition), else None."""
        cluster = self._metadata.cluster
        count = cluster.partition_count(topic)
        if count is not None and (partition is None or partition < count) and self._metadata.contains(topic):
            self._metadata.touch(topic)
            return cluster
        return None

    def _metadata_steps(
        self, topic: str, partition: int | None, max_wait_ms: int
    ) -> MetadataSteps[tuple[ClusterView, int]]:
        """Wait until the cluster metadata has the topic (and the partition); return it with the rest of the time in ms.
        Raises Timeout, TopicAuthorizationFailed, InvalidTopic, and the connection error of `await_update`."""
        with self.sender.metrics.time("metadata-wait"):
            return (yield from self._topic_metadata(topic, partition, max_wait_ms))

    def _topic_metadata(
        self, topic: str, partition: int | None, max_wait_ms: int
    ) -> MetadataSteps[tuple[ClusterView, int]]:
        started_ms = self.clock.now_ms()
        remaining_ms = max_wait_ms
        while True:
            self._ensure_open()
            version = self._metadata.request_update_for_topic(topic, self.clock.now_ms())
            self._wake()
            is_updated = remaining_ms > 0 and (yield from await_update(self.sender, version, remaining_ms))
            remaining_ms = max_wait_ms - (self.clock.now_ms() - started_ms)
            self._metadata.raise_for_topic(topic)
            cluster = self._metadata.cluster
            count = cluster.partition_count(topic)
            if count is not None and (partition is None or partition < count):
                return cluster, max(0, remaining_ms)
            if not is_updated or remaining_ms <= 0:
                problem = self.sender.client.cluster_error()
                raise Timeout(not_present(topic, partition, count, max_wait_ms)) from problem

    # -- metrics and state --

    def metrics(self) -> MetricValues:
        """The values of the producer's metrics by MetricName: Kafka's producer-metrics, producer-node-metrics and
        producer-topic-metrics. `metrics()["record-send-total"]` is the value of the whole producer."""
        return self.sender.metrics.registry.values()

    def _ensure_open(self) -> None:
        if self._is_closed:
            raise IllegalState("Cannot perform operation after producer has been closed")

    def _ensure_ready_to_send(self) -> None:
        self._ensure_open()
        if self._transactions is not None:
            self._transactions.ensure_ready_to_send()

    # -- transactions --

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

    def _is_prepared_as(self, decided: PreparedTransaction) -> bool:
        """Return whether the prepared transaction is `decided`. Raises IllegalState without a prepared transaction."""
        manager = self._transactional()
        if manager.state is not State.PREPARED_TRANSACTION:
            raise IllegalState("Cannot complete a transaction that is not prepared: call prepare_transaction first")
        return decided[:3] == (manager.transactional_id, *manager.identity)

    def _start_offsets(
        self, offsets: Mapping[Place, OffsetAndMetadata | int], group: ConsumerGroupMetadata
    ) -> TransactionalResult | None:
        """Start to commit a group's offsets in the transaction; None without offsets. Raises IllegalState,
        InvalidGroupId for an id that no request can hold, and the errors of `offsets_to_commit`."""
        manager = self._transactional()
        sent = offsets_to_commit(offsets)
        ensure_sendable_group(group.group_id)
        if group.generation_id > 0 and not group.member_id:
            raise IllegalState(f"Passed in group metadata {group} has generationId > 0 but the member.id is unknown")
        return manager.send_offsets(sent, group) if sent else None

    def _contact_steps(self, limit_ms: int) -> MetadataSteps[None]:
        """Wait for the first metadata, before a transactional result is awaited: without it the connection error is
        raised early."""
        self._wake()
        if not self._metadata.update_version:
            yield from await_update(self.sender, 0, limit_ms)

    def _note_failed_send(self, error: Exception) -> None:
        if self._transactions is not None:
            self._transactions.handle_failed_send(error)

    # -- the end --

    def _has_work(self) -> bool:
        """Return whether a closing producer has unacknowledged batches or a transaction to abort or complete. The end
        of a transaction is awaited for max.block.ms; Kafka's producer waits for it without a limit."""
        manager = self._transactions
        if manager is not None and manager.has_ongoing_transaction and not manager.is_completing:
            self._log.info("Aborting incomplete transaction due to shutdown")
            manager.abort_for_close()
        if self._accumulator.has_incomplete or manager is None or not manager.has_ongoing_transaction:
            return self._accumulator.has_incomplete
        now_ms = self.clock.now_ms()
        if self._end_deadline_ms is None:
            self._end_deadline_ms = now_ms + self._max_block_ms
        return now_ms < self._end_deadline_ms

    def _has_last_push(self, deadline_ms: int | None = None) -> bool:
        """Return whether a closing producer without other work must still push its metrics, if a broker asked for
        them."""
        telemetry = self.sender.client.telemetry
        return telemetry is not None and telemetry.has_last_push(self.clock.now_ms(), deadline_ms)

    def _shut_down(self) -> None:
        if self._transactions is not None:
            self._transactions.close()
        self._accumulator.abort_incomplete(IllegalState("Producer is closed forcefully."))
        self.sender.client.close()
