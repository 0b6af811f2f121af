"""`kt` as a sink: rows -> columns -> producer.

A batch write is at least once, as with Spark's own sink: an idempotent producer for each task, flushed before the task
reports success; a task that Spark runs again writes its rows again. With `exactlyOnce` every task prepares a
transaction, and the driver commits them when all have: readers of committed records see every row once, or none. A
streaming write is exactly once over restarts too, see `transactions.py`, unless `exactlyOnce` is false. Nothing is
sent after a record of the task has failed.

Options: `topic` (wins over the column), `kafka.*` (the producer's settings), `exactlyOnce`, `sinkId`.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.types import StructType

from kafkatools.core import config
from kafkatools.core.config.given import config_of
from kafkatools.core.errors import ConfigError
from kafkatools.core.prepared_transaction import PreparedTransaction
from kafkatools.core.producer.futures import RecordMetadata, RowsRun
from kafkatools.core.producer.producer import Producer
from kafkatools.core.producer.producer_record import ProducerRecord
from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.sinks.columns import Target, check_columns, has_headers, row_columns, split_by_target
from kafkatools.pipeline.sinks.producers import closing_producer
from kafkatools.pipeline.sinks.tasks import PreparedTask, TaskPlace
from kafkatools.pipeline.sinks.transactions import SinkTransactions
from kafkatools.pipeline.sources.spark_api import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

KAFKA_PREFIX = "kafka."
_OPTIONS = {"topic", "exactlyonce", "sinkid"}
_OF_SPARK = {"checkpointlocation", "includeheaders", "path", "queryname"}  # headers are written where there are any
_DEFAULTS = {"batch.size": "262144", "buffer.memory": "67108864"}
"""Rows come in masses: large batches cost a tenth of the time, and are compressed better."""

_OURS = {
    "key.serializer": "keys are bytes or text",
    "value.serializer": "values are bytes or text",
    "partitioner.class": "the column `partition` chooses, else the key",
    "interceptor.classes": "rows go in columns",
    "transactional.id": "the sink makes one for each task of a stream",
}
_OF_THE_STREAM = ("sql.streaming.queryId", "spark.jobGroup.id", "streaming.sql.batchId")
_RUN_CHARACTERS = 12


@dataclass(frozen=True)
class SinkOptions:
    """What the user asked for; travels to the tasks."""

    topic: str | None
    producer: Mapping[str, str] = field(repr=False)
    exactly_once: bool | None = None
    sink_id: str | None = None


def read_options(options: Mapping[str, str]) -> SinkOptions:
    """Raises PipelineError, which names the option."""
    given = {name.lower(): value for name, value in options.items()}
    producer = {
        name.removeprefix(KAFKA_PREFIX): value for name, value in given.items() if name.startswith(KAFKA_PREFIX)
    }
    unknown = sorted(name for name in given if not name.startswith(KAFKA_PREFIX) and name not in _OPTIONS | _OF_SPARK)
    if unknown:
        raise PipelineError(
            f"kt sink: unknown option `{unknown[0]}`; its options are topic, exactlyOnce, sinkId and kafka.*"
        )
    _check_producer(producer)
    exactly_once = given.get("exactlyonce", "").strip().lower()
    if exactly_once not in ("true", "false") and "exactlyonce" in given:
        raise PipelineError(f"kt sink: the option `exactlyOnce` is true or false, not {given['exactlyonce']!r}")
    topic = given.get("topic")
    if topic is not None and not topic.strip():
        raise PipelineError("kt sink: the option `topic` is empty")
    sink_id = given.get("sinkid")
    if sink_id is not None and not sink_id.strip():
        raise PipelineError("kt sink: the option `sinkId` is empty")
    if exactly_once == "true" and producer.get("enable.idempotence", "true").lower() == "false":
        raise PipelineError("kt sink: kafka.enable.idempotence=false and exactlyOnce=true contradict each other")
    wanted = None if "exactlyonce" not in given else exactly_once == "true"
    return SinkOptions(topic.strip() if topic else None, {**_DEFAULTS, **producer}, wanted, sink_id)


def _is_of_another_client(name: str) -> bool:
    """Options are often shared with a source."""
    return name in config.CONSUMER or name in config.ADMIN


def _check_producer(settings: dict[str, str]) -> None:
    if not settings.get("bootstrap.servers"):
        raise PipelineError("kt sink: the option `kafka.bootstrap.servers` is missing")
    for name, why in _OURS.items():
        if name in settings:
            raise PipelineError(f"kt sink: the option `kafka.{name}` cannot be given: {why}")
    for name in [name for name in settings if name not in config.PRODUCER and _is_of_another_client(name)]:
        del settings[name]
    try:
        config_of(config.PRODUCER, settings, {})
    except ConfigError as error:
        raise PipelineError(f"kt sink: kafka.*: {error}") from error


@dataclass(frozen=True)
class TaskWritten(WriterCommitMessage):
    """What a task wrote: records by topic; in a stream also where it stands, and its transaction, None when it had no
    rows. `is_decided`: it wrote nothing, because its epoch is committed."""

    records: Mapping[str, int] = field(default_factory=dict)
    place: TaskPlace | None = None
    transaction: PreparedTransaction | None = None
    is_decided: bool = False


def batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> BatchWriter:
    """The writer of `df.write.format("kt")`. Raises PipelineError."""
    read = read_options(options)
    if overwrite:
        raise PipelineError("kt sink: a topic cannot be overwritten; use mode append")
    check_columns(schema, read.topic)
    return BatchWriter(read)


class BatchWriter(DataSourceArrowWriter):
    """Writes the rows of a job: at least once, or with `exactlyOnce` all of them or none."""

    def __init__(self, options: SinkOptions) -> None:
        self.options = options
        self._run = uuid.uuid4().hex[:_RUN_CHARACTERS]

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskWritten:
        """A task: all rows of a partition, acknowledged when it returns. Raises PipelineError."""
        if not self.options.exactly_once:
            return TaskWritten(write_rows(self.options, iterator))

        context = TaskContext.get()
        assert context is not None
        place = TaskPlace(self._run, self._run, 0, context.partitionId(), context.attemptNumber())
        return write_transaction(self.options, self._transactions(), place, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """All tasks have written. Raises PipelineError."""
        if self.options.exactly_once:
            self._transactions().commit_job(prepared_tasks(messages)[0])

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """What was written without transactions stays: there is no way back. Raises PipelineError."""
        if self.options.exactly_once:
            tasks, places = prepared_tasks(messages)
            self._transactions().abort_job(self._run, tasks, is_whole=len(places) == len(messages))

    def _transactions(self) -> SinkTransactions:
        return SinkTransactions(self.options.producer, f"{self.options.sink_id or 'job'}-{self._run}")


def stream_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> StreamWriter:
    """The writer of `df.writeStream.format("kt")`. In output mode complete every epoch writes the whole result, as with
    Spark's Kafka sink. Raises PipelineError."""
    read = read_options(options)
    if read.exactly_once is None:
        read = replace(read, exactly_once=read.producer.get("enable.idempotence", "true").lower() != "false")
    check_columns(schema, read.topic)
    return StreamWriter(read)


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes the epochs of a stream."""

    def __init__(self, options: SinkOptions) -> None:
        self.options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskWritten:
        """A task of an epoch: its transaction is prepared when it returns. Raises PipelineError."""
        if not self.options.exactly_once:
            return TaskWritten(write_rows(self.options, iterator))
        place = task_place()
        transactions = self._transactions([place])
        return write_transaction(self.options, transactions, place, iterator, transactions.is_decided)

    def commit(self, messages: list[WriterCommitMessage | None], batch_id: int) -> None:
        """An epoch, when all of its tasks have written. Raises PipelineError."""
        tasks, places = prepared_tasks(messages)
        if places:
            is_decided = any(message.is_decided for message in _written(messages))
            self._transactions(places).commit(batch_id, places[0].query_id, tasks, is_decided=is_decided)

    def abort(self, messages: list[WriterCommitMessage | None], batch_id: int) -> None:
        """An epoch that failed. Raises PipelineError."""
        tasks, places = prepared_tasks(messages)
        if places:
            self._transactions(places).abort(places[0], tasks, is_whole=len(places) == len(messages))

    def _transactions(self, places: list[TaskPlace]) -> SinkTransactions:
        return SinkTransactions(self.options.producer, self.options.sink_id or places[0].query_id)


def _written(messages: Iterable[WriterCommitMessage | None]) -> list[TaskWritten]:
    return [message for message in messages if isinstance(message, TaskWritten)]


def prepared_tasks(messages: Iterable[WriterCommitMessage | None]) -> tuple[list[PreparedTask], list[TaskPlace]]:
    """The tasks that have something to commit, and where all tasks stand."""
    written = _written(messages)
    tasks = [
        PreparedTask(one.place, one.transaction, min(one.records))
        for one in written
        if one.place is not None and one.transaction is not None
    ]
    return tasks, [one.place for one in written if one.place is not None]


def task_place() -> TaskPlace:
    """Where this task stands, as Spark tells it. Raises PipelineError outside of a stream."""
    context = TaskContext.get()
    query_id, run, epoch = (None if context is None else context.getLocalProperty(name) for name in _OF_THE_STREAM)
    if context is None or query_id is None or run is None or epoch is None:
        raise PipelineError("kt sink: Spark does not tell the epoch of this stream; set exactlyOnce=false")
    run = run.replace("-", "")[:_RUN_CHARACTERS]
    return TaskPlace(query_id, run, int(epoch), context.partitionId(), context.attemptNumber())


def write_transaction(
    options: SinkOptions,
    transactions: SinkTransactions,
    place: TaskPlace,
    batches: Iterable[pa.RecordBatch],
    is_decided: Callable[[TaskPlace], bool] = lambda place: False,
) -> TaskWritten:
    """Sends all rows within a transaction and prepares it; nothing when the epoch is decided. Raises PipelineError."""
    batches = iter(batches)
    first = next((batch for batch in batches if batch.num_rows), None)
    if first is None:
        return TaskWritten(place=place)
    if is_decided(place):
        for _ in batches:  # Spark wants its rows to be taken
            pass
        return TaskWritten(place=place, is_decided=True)
    with closing_producer(transactions.task_settings(place)) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        rows = RowSender(producer, options.topic)
        rows.send(first)
        for batch in batches:
            rows.send(batch)
        rows.flush()
        return TaskWritten(rows.records, place, producer.prepare_transaction())


def write_rows(options: SinkOptions, batches: Iterable[pa.RecordBatch]) -> dict[str, int]:
    """Sends all rows and waits for them; the records by topic. Raises PipelineError."""
    with closing_producer(options.producer) as producer:
        rows = RowSender(producer, options.topic)
        for batch in batches:
            rows.send(batch)
        rows.flush()
        return rows.records


class RowSender:
    """Sends batches of a task and keeps count of what became of them."""

    def __init__(self, producer: Producer, topic: str | None) -> None:
        self._producer = producer
        self._topic = topic
        self._lock = threading.Lock()
        self._failed = 0
        self._failure: tuple[str, int, Exception] | None = None
        self.records: dict[str, int] = {}

    def send(self, batch: pa.RecordBatch) -> None:
        """Queues a batch. Raises PipelineError when a record failed, this one's or an earlier one's."""
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
        """Waits until every record has its fate. Raises PipelineError when one failed."""
        self._producer.flush()
        self._raise_failure()

    def _send_singly(self, target: Target, batch: pa.RecordBatch) -> None:
        from kafkatools.pipeline.sinks.columns import rows

        send = self._producer.send
        for row in rows(batch):
            record = ProducerRecord(
                target.topic,
                row.value,
                row.key,
                partition=target.partition,
                timestamp=row.timestamp,
                headers=row.headers,
            )
            send(record, self._record_done)

    def _run_done(self, run: RowsRun) -> None:
        if run.error is not None:
            self._note(run.topic, run.partition, run.row_count, run.error)

    def _record_done(self, metadata: RecordMetadata, error: Exception | None) -> None:
        if error is not None:
            self._note(metadata.topic, metadata.partition, 1, error)

    def _note(self, topic: str, partition: int, count: int, error: Exception) -> None:
        """Called by the producer's thread."""
        with self._lock:
            self._failed += count
            if self._failure is None:
                self._failure = (topic, partition, error)

    def _raise_failure(self) -> None:
        with self._lock:
            if self._failure is None:
                return
            (topic, partition, error), failed = self._failure, self._failed
        where = topic if partition < 0 else f"{topic}-{partition}"
        which = "a record was" if failed == 1 else f"{failed} records were"
        name = getattr(error, "name", type(error).__name__)
        raise PipelineError(f"kt sink: {which} not written to {where}: {name}: {error}") from error
