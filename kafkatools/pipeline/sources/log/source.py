"""`kafka-log`: the segments of a broker's log as a Spark data source, without a broker.

`spark.read.format("kafka-log").load(path)`: the driver finds and splits segments (`partitions`), executors read them
(`read`). A reader can be pickled.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql.types import StructType

from kafkatools.pipeline.python_check import PythonCheck
from kafkatools.pipeline.run.read_progress import BYTES, write_plan
from kafkatools.pipeline.run.reports import reporting
from kafkatools.pipeline.sources import schema as columns
from kafkatools.pipeline.sources.log.options import LogOptions, read_options
from kafkatools.pipeline.sources.log.plan import plan_tasks
from kafkatools.pipeline.sources.log.reader import read_task
from kafkatools.pipeline.sources.log.splits import LogTask
from kafkatools.pipeline.sources.record_bounds import from_filters
from kafkatools.pipeline.sources.spark_api import DataSource, DataSourceReader, Filter, InputPartition, arrow_schema

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


class LogPartition(LogTask, InputPartition):
    """A task as Spark passes it to an executor."""


class LogReader(DataSourceReader):
    """The batch reader of `kafka-log`: splits segments on the driver and reads them on executors."""

    def __init__(self, options: LogOptions, schema: StructType) -> None:
        self._check = PythonCheck()
        self._options = options
        self._schema = schema
        self._pushed = options.bounds

    def partitions(self) -> Sequence[InputPartition]:
        """Find the segments and return the tasks that read them; empty if no record can be within the bounds. Raises
        PipelineError."""
        tasks = plan_tasks(self._options, self._schema.names, self._pushed)
        if (directory := self._options.reading.report_path) is not None:
            splits = [split for task in tasks for split in task.splits]
            with reporting(is_required=self._options.reading.requires_reports):
                write_plan(directory, ((split.start_position, split.end_position) for split in splits), BYTES)
        return [LogPartition(task.splits) for task in tasks]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task as pyarrow.RecordBatches. Raises PipelineError."""
        if not isinstance(partition, LogTask):  # PySpark passes its own partition if there are no tasks
            return iter(())
        return read_task(partition, arrow_schema(self._schema), self._options.reading)


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
