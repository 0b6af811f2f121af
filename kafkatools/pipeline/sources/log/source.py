"""`kafka-log`: the segments of a broker's log as a Spark source, without a broker.

`spark.read.format("kafka-log").load(path)`; the driver finds the segments and cuts them (`partitions`), the executors
read them (`read`). Everything in a reader can be pickled; core is imported where it is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.sql.types import StructType

from kafkatools.core.topic_partition import TopicPartition
from kafkatools.pipeline.sources import schema as columns
from kafkatools.pipeline.sources.log.aborted import PartitionTransactions, find_all_transactions
from kafkatools.pipeline.sources.log.files import LogFile, find_log_files
from kafkatools.pipeline.sources.log.options import LogOptions, read_options
from kafkatools.pipeline.sources.log.reader import read_task
from kafkatools.pipeline.sources.log.splits import LogTask, make_tasks
from kafkatools.pipeline.sources.record_bounds import RecordBounds, from_filters
from kafkatools.pipeline.sources.spark_api import DataSource, DataSourceReader, Filter, InputPartition

_KNOWN = {
    "records": columns.RECORD_COLUMNS | columns.HEADER_COLUMNS | columns.METADATA_COLUMNS,
    "batches": columns.BATCH_COLUMNS,
    "errors": columns.ERROR_COLUMNS,
}


class KafkaLogDataSource(DataSource):
    """Log directories, partition directories and segment files as a table."""

    @classmethod
    def name(cls) -> str:
        """What `format` takes."""
        return "kafka-log"

    def schema(self) -> StructType:
        """The table's schema, as the options say."""
        options = read_options(self.options)
        if options.reading.table == "records":
            return columns.spark_schema(options.include_headers, options.include_metadata)
        return columns.struct_of(_KNOWN[options.reading.table])

    def reader(self, schema: StructType) -> DataSourceReader:
        """A reader of the columns of a schema; raises PipelineError for one that does not fit."""
        options = read_options(self.options)
        columns.check_schema(schema, _KNOWN[options.reading.table])
        return (FilteredLogReader if options.pushes_filters else LogReader)(options, schema)


class LogReader(DataSourceReader):
    def __init__(self, options: LogOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._pushed = options.bounds

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        files = find_log_files(options.paths, options.selection)
        transactions = self._transactions(files)
        bounds = self._bounds(files, transactions)
        tasks = make_tasks(files, bounds, split_bytes=options.split_bytes, min_partitions=options.min_partitions or 1)
        return [_with_transactions(task, transactions) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task."""
        if not isinstance(partition, LogTask):  # what PySpark makes of no tasks at all
            return iter(())
        return read_task(partition, self._schema, self._options.reading)

    def _transactions(self, files: list[LogFile]) -> Mapping[TopicPartition, PartitionTransactions]:
        names = {field.name.lower() for field in self._schema.fields}
        if not self._options.reading.is_committed_only and "transaction" not in names:
            return {}
        wanted = [file for file in files if self._pushed.takes(file.topic, file.partition)]
        return find_all_transactions(wanted)

    def _bounds(
        self, files: list[LogFile], transactions: Mapping[TopicPartition, PartitionTransactions]
    ) -> dict[TopicPartition, RecordBounds]:
        """What is wanted of each partition that is."""
        from kafkatools.pipeline.sources.log.offsets import partition_bounds

        found = {}
        for partition, bounds in partition_bounds(files, self._options, self._pushed).items():
            if self._options.reading.is_committed_only and partition in transactions:
                end = min(bounds.end_offset, transactions[partition].last_stable_offset)
                bounds = replace(bounds, end_offset=end)
            found[partition] = bounds
        return found


class FilteredLogReader(LogReader):
    """The same with `pushFilters`: one that takes filters. It is not the rule, because Spark keeps one reader for all
    scans of a DataFrame: what the filters of one branch of a query (a union, a join, the next action) left out is
    missing in the others. Filters of `kt pipeline` come as bounds."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - PySpark's name
        """Takes what can be said as bounds; the filters that Spark still has to apply."""
        if self._options.reading.table != "records":
            return filters
        bounds, left = from_filters(filters)
        self._pushed = self._pushed.within(bounds)
        return left


def _with_transactions(task: LogTask, known: Mapping[TopicPartition, PartitionTransactions]) -> LogTask:
    if not known:
        return task
    splits = tuple(
        replace(split, transactions=known[split.file.topic_partition].within(split.file)) for split in task.splits
    )
    return replace(task, splits=splits)
