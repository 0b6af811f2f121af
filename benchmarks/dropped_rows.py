"""A Spark sink that drops its rows: the limit of any sink in Python.

What it takes is Spark's own: rows to Arrow, sockets, workers and the commit of the job.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType


class DroppedRows(DataSource):
    """The sink `dropped-rows`."""

    @classmethod
    def name(cls) -> str:
        """The name for `format`."""
        return "dropped-rows"

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """Return a writer that reads the batches of its task and does nothing with them."""
        return _Writer()


class _Writer(DataSourceArrowWriter):
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        for _ in iterator:
            pass
        return WriterCommitMessage()
