"""Send Arrow record batches through the Kafka producer; a sender sends no further batch after a record has failed."""

from __future__ import annotations

import threading
from collections.abc import Iterable

import pyarrow as pa

from kafkatools.core.producer.futures import RecordMetadata, RowsRun
from kafkatools.core.producer.producer import Producer
from kafkatools.core.producer.producer_record import ProducerRecord
from kafkatools.pipeline.errors import PipelineError, unreachable_brokers_hint
from kafkatools.pipeline.sinks.columns import Target, has_headers, row_columns, sink_rows, split_by_target
from kafkatools.pipeline.sinks.options import SinkOptions
from kafkatools.pipeline.sinks.producers import closing_producer


def write_rows(options: SinkOptions, batches: Iterable[pa.RecordBatch]) -> dict[str, int]:
    """Send all rows, wait for the acknowledgements and return the number of records by topic. Raises PipelineError."""
    with closing_producer(options.producer) as producer:
        rows = RowSender(producer, options)
        for batch in batches:
            rows.send(batch)
        rows.flush()
        return rows.records


class RowSender:
    """Sends the batches of a task through a producer, counts records by topic and remembers the first failure."""

    def __init__(self, producer: Producer, options: SinkOptions) -> None:
        self._producer = producer
        self._topic = options.topic
        self._settings = options.producer
        self._lock = threading.Lock()
        self._failed = 0
        self._failure: tuple[str, int, Exception] | None = None
        self.records: dict[str, int] = {}

    def send(self, batch: pa.RecordBatch) -> None:
        """Pass a batch to the producer without waiting for acknowledgements. Raises PipelineError if an earlier record
        failed, or for a row that cannot be sent."""
        self._raise_failure()
        now_ms = self._producer.clock.wall_ms()
        for target, rows in split_by_target(batch, self._topic):
            self.records[target.topic] = self.records.get(target.topic, 0) + rows.num_rows
            if has_headers(rows):
                self._send_singly(target, rows)
                continue
            for columns in row_columns(rows, now_ms):
                self._producer.send_columns(target.topic, columns, target.partition, self._run_done)

    def flush(self) -> None:
        """Wait until each record is acknowledged or has failed. Raises PipelineError if one failed."""
        self._producer.flush()
        self._raise_failure()

    def _send_singly(self, target: Target, batch: pa.RecordBatch) -> None:
        topic, partition = target
        for row in sink_rows(batch):
            record = ProducerRecord(
                topic, row.value, row.key, partition=partition, timestamp=row.timestamp, headers=row.headers
            )
            self._producer.send(record, self._record_done)

    def _run_done(self, run: RowsRun) -> None:
        if run.error is not None:
            self._note(run.topic, run.partition, run.row_count, run.error)

    def _record_done(self, metadata: RecordMetadata, error: Exception | None) -> None:
        if error is not None:
            self._note(metadata.topic, metadata.partition, 1, error)

    def _note(self, topic: str, partition: int, count: int, error: Exception) -> None:
        """Record a failure; called on the producer's thread."""
        with self._lock:
            self._failed += count
            if self._failure is None:
                self._failure = (topic, partition, error)

    def _raise_failure(self) -> None:
        with self._lock:
            if self._failure is None:
                return
            (topic, partition, error), failed = self._failure, self._failed
        place = topic if partition < 0 else f"{topic}-{partition}"
        which = "a record was" if failed == 1 else f"{failed} records were"
        name = getattr(error, "name", type(error).__name__)
        hint = unreachable_brokers_hint(error, self._settings)
        raise PipelineError(f"kt sink: {which} not written to {place}: {name}: {error}{hint}") from error
