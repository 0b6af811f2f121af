"""`kt`: a live cluster as a Spark data source, for batch, stream and as a sink.

Rules: Spark runs a DataSource in a planner process, so everything here can be pickled and readers hold plain data.
Options are checked when a reader is created. Partitions and ends are queried once for each batch query, when it is
planned. Executors read the rows (`reader.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql.types import StructType

from kafkatools.pipeline.python_check import PythonCheck
from kafkatools.pipeline.run.read_progress import OFFSETS, write_plan
from kafkatools.pipeline.run.reports import reporting
from kafkatools.pipeline.sources.live.cluster import LiveCluster
from kafkatools.pipeline.sources.live.options import SourceOptions, is_set, read_options
from kafkatools.pipeline.sources.live.reader import LiveSplit, Task, read_split, splits_of
from kafkatools.pipeline.sources.live.spark_partitions import spark_partitions
from kafkatools.pipeline.sources.record_bounds import from_filters
from kafkatools.pipeline.sources.schema import check_schema, spark_schema
from kafkatools.pipeline.sources.spark_api import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    Filter,
    InputPartition,
    arrow_schema,
)


class KtDataSource(DataSource):
    """The data source `kt`, for `spark.read`, `spark.readStream`, `df.write` and `df.writeStream`."""

    @classmethod
    def name(cls) -> str:
        """The name for `format`: "kt"."""
        return "kt"

    def schema(self) -> StructType:
        """Return all record columns that the options include; a user's schema restricts which columns are built. Raises
        PipelineError if includeHeaders or includeMetadata is not true or false."""
        return spark_schema(is_set(self.options, "includeHeaders"), is_set(self.options, "includeMetadata"))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the batch reader for `spark.read`. Raises PipelineError for invalid options or columns."""
        check_schema(schema)
        options = read_options(self.options, is_streaming=False)
        return (FilteredLiveReader if options.pushes_filters else LiveReader)(schema, options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - PySpark's name
        """Return the streaming reader for `spark.readStream`. Raises PipelineError for invalid options or columns."""
        from kafkatools.pipeline.sources.live.stream import LiveStreamReader

        check_schema(schema)
        return LiveStreamReader(schema, read_options(self.options, is_streaming=True))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Return the batch writer for `df.write`. Raises PipelineError for invalid options or columns, and for mode
        overwrite."""
        from kafkatools.pipeline.sinks.sink import batch_writer

        return batch_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802 - PySpark's name
        """Return the streaming writer for `df.writeStream`. Raises PipelineError for invalid options or columns."""
        from kafkatools.pipeline.sinks.sink import stream_writer

        return stream_writer(self.options, schema, overwrite)


class LiveReader(DataSourceReader):
    """The batch reader of `kt`: plans offset ranges on the driver and reads them on executors."""

    def __init__(self, schema: StructType, options: SourceOptions) -> None:
        self._check = PythonCheck()
        self._schema = schema
        self._options = options
        self._bounds = options.bounds

    def partitions(self) -> Sequence[InputPartition]:
        """Query the cluster and return the tasks of the query, with the current ends of the topic unless an option sets
        them; empty if there is nothing to read. Raises PipelineError."""
        cluster = LiveCluster(self._options)
        try:
            splits = splits_of(cluster.batch_ranges(self._bounds), self._options, arrow_schema(self._schema), cluster)
            if self._options.report_path is not None:
                with reporting(is_required=self._options.requires_reports):
                    write_plan(self._options.report_path, ((split.start, split.end) for split in splits), OFFSETS)
            return spark_partitions(splits)
        finally:
            cluster.close()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task as pyarrow.RecordBatches. Raises PipelineError."""
        if isinstance(partition, LiveSplit):  # PySpark passes its own partition if there are no tasks
            yield from read_split(partition, Task(self._options, arrow_schema(self._schema), self._bounds))


class FilteredLiveReader(LiveReader):
    """A batch reader that accepts pushed filters (option pushFilters). Not the default, since Spark shares one reader
    among all scans of a DataFrame (see `log.source.FilteredLogReader`)."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - PySpark's name
        """Narrow the bounds by filters on topic, partition, offset and timestamp; return the filters that Spark must
        still apply."""
        bounds, remaining = from_filters(filters)
        self._bounds = self._bounds.within(bounds)
        return remaining
