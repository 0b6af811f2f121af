"""A scan as a table of DuckDB, by the Arrow PyCapsule interface."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from kafkatools.pipeline.scan.ordered import Task, read_in_order
from kafkatools.pipeline.scan.plans import ScanPlan, close_clients
from kafkatools.pipeline.sources.schema import arrow_schema_of


class RecordStream:
    """The records of a scan in a table with more columns, which are null. DuckDB may read it several times, also at the
    same time: each part of a statement gets the same records. `error` is the exception that ended a scan: DuckDB
    reports only its text."""

    def __init__(self, plan: ScanPlan, columns: Mapping[str, str]) -> None:
        self.error: BaseException | None = None
        self._plan = plan
        self._tasks: Sequence[Task] | None = None
        self._planning = threading.Lock()  # guards _tasks
        self._schema = arrow_schema_of(columns)
        self._nulls = {field.name: pa.nulls(0, field.type) for field in self._schema}

    def close(self) -> None:
        """Close the clients of the scan."""
        close_clients(self._plan.uri)

    def __arrow_c_schema__(self) -> object:
        return self._schema.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return pa.RecordBatchReader.from_batches(self._schema, self._batches()).__arrow_c_stream__(requested_schema)

    def _batches(self) -> Iterator[pa.RecordBatch]:
        try:
            for batch in read_in_order(self._planned_tasks(), self._plan.threads):
                yield self._widened(batch)
        except GeneratorExit:
            raise
        except BaseException as error:
            self.error = error
            raise

    def _planned_tasks(self) -> Sequence[Task]:
        """Return the parts to read, up to the ends that the partitions had at the first call."""
        with self._planning:
            if self._tasks is None:
                self._tasks = self._plan.tasks()
            return self._tasks

    def _widened(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = dict(zip(batch.schema.names, batch.columns, strict=True))
        arrays = [columns.get(name) for name in self._schema.names]
        rows = batch.num_rows
        return pa.RecordBatch.from_arrays(
            [self._null(field, rows) if array is None else array
             for field, array in zip(self._schema, arrays, strict=True)],
            schema=self._schema,
        )  # fmt: skip

    def _null(self, field: pa.Field, rows: int) -> pa.Array:
        if len(self._nulls[field.name]) < rows:
            self._nulls[field.name] = pa.nulls(rows, field.type)
        return self._nulls[field.name].slice(0, rows)
