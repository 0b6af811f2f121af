"""`kafka-log`: the segments of a broker's log as a Spark data source, without a broker.

`spark.read.format("kafka-log").load(path)`: the driver finds and splits segments (`partitions`), executors read them
(`read`). A reader can be pickled.
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
from kafkatools.pipeline.sources.log.offsets import partition_bounds
from kafkatools.pipeline.sources.log.options import LogOptions, read_options
from kafkatools.pipeline.sources.log.reader import read_task
from kafkatools.pipeline.sources.log.splits import LogTask, make_tasks
from kafkatools.pipeline.sources.record_bounds import RecordBounds, from_filters
from kafkatools.pipeline.sources.spark_api import DataSource, DataSourceReader, Filter, InputPartition

_COLUMNS_OF_TABLE = {
    "records": columns.RECORD_COLUMNS | columns.HEADER_COLUMNS | columns.METADATA_COLUMNS,
    "batches": columns.BATCH_COLUMNS,
    "errors": columns.ERROR_COLUMNS,
}


class KafkaLogDataSource(DataSource):
    """The data source `kafka-log`: log directories, partition directories and segment files as a table."""

    @classmethod
    def name(cls) -> str:
        """The name for `format`: "kafka-log"."""
        return "kafka-log"

    def schema(self) -> StructType:
        """Return the schema of the table that the options select. Raises PipelineError for invalid options."""
        options = read_options(self.options)
        if options.reading.table == "records":
            return columns.spark_schema(options.include_headers, options.include_metadata)
        return columns.struct_of(_COLUMNS_OF_TABLE[options.reading.table])

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader for the columns of `schema`. Raises PipelineError for invalid options or columns."""
        options = read_options(self.options)
        columns.check_schema(schema, _COLUMNS_OF_TABLE[options.reading.table])
        return (FilteredLogReader if options.pushes_filters else LogReader)(options, schema)


class LogReader(DataSourceReader):
    """The batch reader of `kafka-log`: splits segments on the driver and reads them on executors."""

    def __init__(self, options: LogOptions, schema: StructType) -> None:
        self._options = options
        self._schema = schema
        self._pushed = options.bounds

    def partitions(self) -> Sequence[InputPartition]:
        """Find the segments and return the tasks that read them; empty if no record can be within the bounds. Raises
        PipelineError."""
        options = self._options
        files = find_log_files(options.paths, options.selection)
        transactions = self._transactions(files)
        bounds = self._bounds(files, transactions)
        tasks = make_tasks(files, bounds, split_bytes=options.split_bytes, min_partitions=options.min_partitions or 1)
        return [_with_transactions(task, transactions) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task as pyarrow.RecordBatches. Raises PipelineError."""
        if not isinstance(partition, LogTask):  # PySpark passes its own partition if there are no tasks
            return iter(())
        return read_task(partition, self._schema, self._options.reading)

    def _transactions(self, files: list[LogFile]) -> Mapping[TopicPartition, PartitionTransactions]:
        names = {field.name.lower() for field in self._schema.fields}
        if not self._options.reading.is_committed_only and "transaction" not in names:
            return {}
        return find_all_transactions(file for file in files if self._pushed.takes(file.topic, file.partition))

    def _bounds(
        self, files: list[LogFile], transactions: Mapping[TopicPartition, PartitionTransactions]
    ) -> dict[TopicPartition, RecordBounds]:
        """Return the bounds of each partition to read, up to the last stable offset under read_committed."""
        result = {}
        for partition, bounds in partition_bounds(files, self._options, self._pushed).items():
            if self._options.reading.is_committed_only and partition in transactions:
                end = min(bounds.end_offset, transactions[partition].last_stable_offset)
                bounds = replace(bounds, end_offset=end)
            result[partition] = bounds
        return result


class FilteredLogReader(LogReader):
    """A reader that accepts pushed filters (option pushFilters). Not the default, since Spark shares one reader among
    all scans of a DataFrame. Records that the filters of one branch (a union, a join, the next action) exclude would be
    missing in its other branches. `kt pipeline` passes filters as bounds instead."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - PySpark's name
        """Narrow the bounds by filters on topic, partition, offset and timestamp; return the filters that Spark must
        still apply. For the tables `batches` and `errors` these are all filters."""
        if self._options.reading.table != "records":
            return filters
        bounds, remaining = from_filters(filters)
        self._pushed = self._pushed.within(bounds)
        return remaining


def _with_transactions(task: LogTask, transactions: Mapping[TopicPartition, PartitionTransactions]) -> LogTask:
    if not transactions:
        return task
    splits = tuple(
        replace(split, transactions=transactions[split.file.topic_partition].within(split.file))
        for split in task.splits
    )
    return replace(task, splits=splits)
