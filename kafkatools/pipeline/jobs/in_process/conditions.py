"""Conditions of `kt export --where` and `kt replay --where`: the SQL of `kt query`, over record batches of a scan."""

from __future__ import annotations

import pyarrow as pa

from kafkatools.pipeline.errors import PipelineError
from kafkatools.tools.search.record_filter import COLUMNS as CONDITION_COLUMNS
from kafkatools.tools.search.record_filter import RecordFilter
from kafkatools.tools.search.sql import SqlError


class Condition:
    """Selects the records of a batch for which a condition is true."""

    def __init__(self, text: str) -> None:
        """Check the condition. Raises SqlError for a wrong one."""
        self._filter = RecordFilter(text)
        self.names = self._filter.names
        """The columns that the condition may name."""

    def selected(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the selected records. Raises PipelineError if the condition fails on one."""
        try:
            matches = self._filter.matches(_condition_batch(batch, self.names))
        except SqlError as error:
            raise PipelineError(f"--where: {error}") from error
        return batch.filter(pa.array(matches))

    def close(self) -> None:
        """Close the connection to DuckDB."""
        self._filter.close()


def _condition_batch(batch: pa.RecordBatch, names: frozenset[str]) -> pa.RecordBatch:
    """Return the columns of a condition; those that it does not name are null."""
    arrays = []
    for name, arrow_type in CONDITION_COLUMNS.items():
        source = name.removesuffix("_bytes")
        if name not in names or source not in batch.schema.names:
            arrays.append(pa.nulls(batch.num_rows, arrow_type))
            continue
        column = batch.column(source)
        if name in ("key", "value"):
            column = with_replacements(column)
        elif name == "headers":
            entries = column.values
            texts = [entries.field("key"), with_replacements(entries.field("value"))]
            struct = pa.StructArray.from_arrays(texts, fields=list(arrow_type.value_type))
            column = pa.Array.from_buffers(
                arrow_type, len(column), column.buffers()[:2], column.null_count, column.offset, [struct]
            )
        arrays.append(column)
    return pa.RecordBatch.from_arrays(arrays, names=list(CONDITION_COLUMNS))


def with_replacements(column: pa.Array) -> pa.Array:
    """Return bytes as text, with replacement characters for bytes that are not UTF-8."""
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:
        cells = column.to_pylist()
        return pa.array([None if cell is None else cell.decode("utf-8", "replace") for cell in cells], pa.string())
