"""A Spark data source that hands out Arrow batches made before: the limit of any Python data source.

Its files hold the batches of the log source's tasks, one file for each task, and are mapped into memory. So it neither
reads, checks nor decodes records, and what it takes is Spark's own: planning, workers, sockets, and Arrow to rows.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterator, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType


def write_batches(log: str, target: pathlib.Path, columns: Sequence[str] | None = None) -> None:
    """Write the batches that the log source makes of a log's records; `columns` None are the seven of its default."""
    from kafkatools.pipeline.sources import schema
    from kafkatools.pipeline.sources.log.options import read_options
    from kafkatools.pipeline.sources.log.plan import plan_tasks
    from kafkatools.pipeline.sources.log.reader import read_task

    names = [*schema.RECORD_COLUMNS] if columns is None else columns
    arrow_schema = schema.arrow_schema_of({name: schema.RECORD_COLUMNS[name] for name in names})
    options = read_options({"path": log})
    target.mkdir(parents=True)
    for number, task in enumerate(plan_tasks(options, names, options.bounds)):
        with pa.ipc.new_file(target / f"{number:05}.arrow", arrow_schema) as writer:
            for batch in read_task(task, arrow_schema, options.reading):
                writer.write_batch(batch)


class ReadyBatches(DataSource):
    """The data source `ready-batches`: the option `path` is a directory of `write_batches`, `columns` its schema."""

    @classmethod
    def name(cls) -> str:
        """The name for `format`."""
        return "ready-batches"

    def schema(self) -> str:
        """Return the schema that the option `columns` has."""
        return self.options["columns"]

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of the directory."""
        return _Reader(self.options["path"])


class _Reader(DataSourceReader):
    def __init__(self, path: str) -> None:
        self._path = path

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(os.path.join(self._path, name)) for name in sorted(os.listdir(self._path))]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        with pa.memory_map(partition.value) as source:
            file = pa.ipc.open_file(source)
            for number in range(file.num_record_batches):
                yield file.get_batch(number)
