"""`kt`: a live cluster as a data source of Spark, batch and stream, and as a sink.

Rules: what a DataSource is asked for in a planner's process, so everything here can be pickled, and readers hold plain
data. Options are checked when a reader is made; the cluster is asked when partitions are planned, once a query: the
ends that are taken then are the ends of the batch. Rows are made by the executors (`reader.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark.sql.types import StructType

from kafkatools.pipeline.sources.live.cluster import LiveCluster
from kafkatools.pipeline.sources.live.options import SourceOptions, is_set, read_options
from kafkatools.pipeline.sources.live.reader import LiveSplit, Task, read_split, splits_of
from kafkatools.pipeline.sources.record_bounds import from_filters
from kafkatools.pipeline.sources.spark_api import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    Filter,
    InputPartition,
)


class KtDataSource(DataSource):
    """`spark.read.format("kt")` and the three others."""

    @classmethod
    def name(cls) -> str:
        return "kt"

    def schema(self) -> StructType:
        """All columns; a user's own schema, a part of them, is how only some are made."""
        from kafkatools.pipeline.sources.schema import spark_schema

        return spark_schema(is_set(self.options, "includeHeaders"), is_set(self.options, "includeMetadata"))

    def reader(self, schema: StructType) -> DataSourceReader:
        """For `spark.read`."""
        from kafkatools.pipeline.sources.schema import check_schema

        check_schema(schema)
        options = read_options(self.options, is_streaming=False)
        return (FilteredLiveReader if options.pushes_filters else LiveReader)(schema, options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - PySpark's name
        """For `spark.readStream`."""
        from kafkatools.pipeline.sources.live.stream import LiveStreamReader
        from kafkatools.pipeline.sources.schema import check_schema

        check_schema(schema)
        return LiveStreamReader(schema, read_options(self.options, is_streaming=True))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """For `df.write`."""
        from kafkatools.pipeline.sinks.sink import batch_writer

        return batch_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802 - PySpark's name
        """For `df.writeStream`."""
        from kafkatools.pipeline.sinks.sink import stream_writer

        return stream_writer(self.options, schema, overwrite)


class LiveReader(DataSourceReader):
    def __init__(self, schema: StructType, options: SourceOptions) -> None:
        self._schema = schema
        self._options = options
        self._bounds = options.bounds

    def partitions(self) -> Sequence[InputPartition]:
        """The tasks; the ends of the topic are those of now."""
        cluster = LiveCluster(self._options)
        try:
            return splits_of(cluster.batch_ranges(self._bounds), self._options, self._schema, cluster)
        finally:
            cluster.close()

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task as pyarrow.RecordBatches."""
        if isinstance(partition, LiveSplit):  # a query without any has one of PySpark's own
            yield from read_split(partition, Task(self._options, self._schema, self._bounds))


class FilteredLiveReader(LiveReader):
    """The same with `pushFilters`, which is not the rule: Spark keeps one reader for all scans of a DataFrame, and what
    the filters of one left out is missing in the others (see `log_source.FilteredLogReader`)."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - PySpark's name
        """Takes up what filters say of topic, partition, offset and timestamp."""
        bounds, left = from_filters(filters)
        self._bounds = self._bounds.within(bounds)
        return left
