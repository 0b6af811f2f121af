"""The `kt` sink of Spark: writers for batch jobs and streams that send rows through the Kafka producer.

A batch write is at least once, as with Spark's own sink. Each task has a producer, idempotent by default, which is
flushed before the task reports success; a task that Spark retries writes its rows again. With `exactlyOnce` each task
prepares a transaction and the driver commits all of them: readers of committed records see each row once, or none. If
one of these commits fails, the topic has part of the rows. A streaming write is exactly once, also over restarts (see
`transactions.py`), unless `exactlyOnce` or `kafka.enable.idempotence` is false. A task sends no further batch after a
record has failed.

The options are in `options.py`.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.types import StructType

from kafkatools.core.prepared_transaction import PreparedTransaction
from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.python_check import PythonCheck
from kafkatools.pipeline.sinks.columns import check_columns
from kafkatools.pipeline.sinks.options import SinkOptions, read_options
from kafkatools.pipeline.sinks.producers import closing_producer
from kafkatools.pipeline.sinks.rows import RowSender, write_rows
from kafkatools.pipeline.sinks.tasks import PreparedTask, TaskPlace
from kafkatools.pipeline.sinks.transactions import SinkTransactions
from kafkatools.pipeline.sources.live.options import OptionWarnings
from kafkatools.pipeline.sources.spark_api import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

_OF_THE_STREAM = ("sql.streaming.queryId", "spark.jobGroup.id", "streaming.sql.batchId")
_RUN_CHARACTERS = 12


@dataclass(frozen=True)
class TaskWritten(WriterCommitMessage):
    """Commit message of a task: records by topic. With exactlyOnce also the task's identity and its transaction, None
    without rows. `is_decided`: the epoch was already committed and the task wrote nothing."""

    records: Mapping[str, int] = field(default_factory=dict)
    place: TaskPlace | None = None
    transaction: PreparedTransaction | None = None
    is_decided: bool = False


def batch_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> BatchWriter:
    """Return the writer for `df.write.format("kt")`. Raises PipelineError for invalid options or columns, and for mode
    overwrite."""
    sink_options = read_options(options)
    if overwrite:
        raise PipelineError("kt sink: a topic cannot be overwritten; use mode append")
    check_columns(schema, sink_options.topic, OptionWarnings("kt sink", is_strict=sink_options.is_strict))
    return BatchWriter(sink_options)


class BatchWriter(DataSourceArrowWriter):
    """Writes the rows of a batch job: at least once, or with `exactlyOnce` all of them or none. Part of the rows is
    written if a commit fails."""

    def __init__(self, options: SinkOptions) -> None:
        self._check = PythonCheck()
        self.options = options
        self._run = uuid.uuid4().hex[:_RUN_CHARACTERS]

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskWritten:
        """Write all rows of a Spark partition in a task; returns after they are acknowledged. With exactlyOnce they are
        in a prepared transaction, which `commit` makes visible. Raises PipelineError."""
        if not self.options.exactly_once:
            return TaskWritten(write_rows(self.options, iterator))

        context = TaskContext.get()
        assert context is not None
        place = TaskPlace(self._run, self._run, 0, context.partitionId(), context.attemptNumber())
        return write_transaction(self.options, self._transactions(), place, iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Commit the transactions of all tasks, on the driver; does nothing without exactlyOnce. Raises
        PipelineError."""
        if self.options.exactly_once:
            self._transactions().commit_job(prepared_tasks(messages)[0])

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Abort the transactions of all tasks of a failed job, on the driver, also of tasks that did not report. Rows
        written without exactlyOnce remain in the topic. Raises PipelineError."""
        if self.options.exactly_once:
            tasks, places = prepared_tasks(messages)
            self._transactions().abort_job(self._run, tasks, is_whole=len(places) == len(messages))

    def _transactions(self) -> SinkTransactions:
        return SinkTransactions(self.options.producer, f"{self.options.sink_id or 'job'}-{self._run}")


def stream_writer(options: Mapping[str, str], schema: StructType, overwrite: bool) -> StreamWriter:
    """Return the writer for `df.writeStream.format("kt")`. `exactlyOnce` is true by default, and false with
    `kafka.enable.idempotence=false`. In output mode complete each epoch writes the whole result, as with Spark's Kafka
    sink. Raises PipelineError for invalid options or columns."""
    sink_options = read_options(options)
    if sink_options.exactly_once is None:
        is_idempotent = sink_options.producer.get("enable.idempotence", "true").lower() != "false"
        sink_options = replace(sink_options, exactly_once=is_idempotent)
    check_columns(schema, sink_options.topic, OptionWarnings("kt sink", is_strict=sink_options.is_strict))
    return StreamWriter(sink_options)


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes the epochs of a stream: exactly once, or at least once if `exactlyOnce` is false."""

    def __init__(self, options: SinkOptions) -> None:
        self._check = PythonCheck()
        self.options = options

    def write(self, iterator: Iterator[pa.RecordBatch]) -> TaskWritten:
        """Write a Spark partition of an epoch in a task and prepare its transaction; without exactlyOnce only send the
        rows. An epoch that is already committed is not written again. Raises PipelineError."""
        if not self.options.exactly_once:
            return TaskWritten(write_rows(self.options, iterator))
        place = task_place()
        transactions = self._transactions([place])
        return write_transaction(self.options, transactions, place, iterator, transactions.is_decided)

    def commit(self, messages: list[WriterCommitMessage | None], batch_id: int) -> None:
        """Commit an epoch after all of its tasks have written, on the driver; does nothing without exactlyOnce. Raises
        PipelineError."""
        tasks, places = prepared_tasks(messages)
        if places:
            is_decided = any(message.is_decided for message in _task_messages(messages))
            self._transactions(places).commit(batch_id, places[0].query_id, tasks, is_decided=is_decided)

    def abort(self, messages: list[WriterCommitMessage | None], batch_id: int) -> None:
        """Abort the transactions of a failed epoch, on the driver; does nothing without exactlyOnce or if no task
        reported. Raises PipelineError."""
        tasks, places = prepared_tasks(messages)
        if places:
            self._transactions(places).abort(places[0], tasks, is_whole=len(places) == len(messages))

    def _transactions(self, places: list[TaskPlace]) -> SinkTransactions:
        return SinkTransactions(self.options.producer, self.options.sink_id or places[0].query_id)


def _task_messages(messages: Iterable[WriterCommitMessage | None]) -> list[TaskWritten]:
    return [message for message in messages if isinstance(message, TaskWritten)]


def prepared_tasks(messages: Iterable[WriterCommitMessage | None]) -> tuple[list[PreparedTask], list[TaskPlace]]:
    """Return the tasks that have a transaction to commit, and the identities of all tasks that reported. Both are empty
    without exactlyOnce."""
    task_messages = _task_messages(messages)
    tasks = [
        PreparedTask(message.place, message.transaction, min(message.records))
        for message in task_messages
        if message.place is not None and message.transaction is not None
    ]
    return tasks, [message.place for message in task_messages if message.place is not None]


def task_place() -> TaskPlace:
    """Return the identity of the running task from Spark's TaskContext. Raises PipelineError outside of a streaming
    query."""
    context = TaskContext.get()
    query_id, run, epoch = (None if context is None else context.getLocalProperty(name) for name in _OF_THE_STREAM)
    if context is None or query_id is None or run is None or epoch is None:
        raise PipelineError("kt sink: Spark does not report the epoch of this stream; set exactlyOnce=false")
    run = run.replace("-", "")[:_RUN_CHARACTERS]
    return TaskPlace(query_id, run, int(epoch), context.partitionId(), context.attemptNumber())


def write_transaction(
    options: SinkOptions,
    transactions: SinkTransactions,
    place: TaskPlace,
    batches: Iterable[pa.RecordBatch],
    is_decided: Callable[[TaskPlace], bool] = lambda place: False,
) -> TaskWritten:
    """Send all rows in one transaction and prepare it. Opens no transaction if there are no rows, or if `is_decided`
    says that the epoch is already committed: then the rows are read and dropped. Raises PipelineError."""
    batches = iter(batches)
    first = next((batch for batch in batches if batch.num_rows), None)
    if first is None:
        return TaskWritten(place=place)
    if is_decided(place):
        for _ in batches:  # Spark requires that a task consumes its rows
            pass
        return TaskWritten(place=place, is_decided=True)
    with closing_producer(transactions.task_settings(place)) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        rows = RowSender(producer, options)
        rows.send(first)
        for batch in batches:
            rows.send(batch)
        rows.flush()
        return TaskWritten(rows.records, place, producer.prepare_transaction())
