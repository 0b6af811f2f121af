"""A filter of fetched records by a condition in SQL, for a step between the source and the formatter.

Records of one partition become an Arrow batch, of which only the columns that the condition may name have content; a
word of the condition that only looks like a column costs time, not correctness. DuckDB computes one Boolean or
null for each record; null counts as false, as in WHERE. The columns are those of `kt query` that a consumer
returns.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from kafkatools.core.consumer.completed_fetch import FetchedColumns
from kafkatools.tools.arrow.columns import Chunk, Column, new_column, places_of
from kafkatools.tools.search import sql
from kafkatools.tools.search.sql import SqlError

if TYPE_CHECKING:
    import duckdb

_HEADER = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.string())])
COLUMNS: Mapping[str, pa.DataType] = {
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", "UTC"),
    "key": pa.string(),
    "value": pa.string(),
    "headers": pa.list_(_HEADER),
    "key_bytes": pa.binary(),
    "value_bytes": pa.binary(),
}
"""The columns of a condition. Keys, values and header values are text, with replacement characters for bytes that are
not UTF-8; `key_bytes` and `value_bytes` are the bytes themselves."""

_SCHEMA = pa.schema([pa.field(name, arrow_type) for name, arrow_type in COLUMNS.items()])
_BEFORE = "SELECT coalesce(("
_AFTER = "\n), NULL::BOOLEAN) FROM records"
_NOT_BOOLEAN = re.compile(r"Cannot mix values of type (.+) and BOOLEAN in COALESCE operator")
_NO_BATCHES = np.zeros((0, 14), np.int64)


class RecordFilter:
    """Decides for each fetched record whether a condition is true, such as `value->>'status' = 'failed'`."""

    def __init__(self, condition: str) -> None:
        """Check the condition, before any record is read. Raises SqlError, and ImportError without the package
        duckdb."""
        if not condition.strip():
            raise SqlError("the condition is empty")
        self._connection = sql.connect()
        self._records = _Records()
        self._connection.register("records", self._records)
        self._sql = sql.quote_offset(f"{_BEFORE}{condition}{_AFTER}")
        words = sql.words_of(condition)
        self.names = frozenset(name for name in COLUMNS if name in words)
        """The columns that the condition may name."""
        self._nulls = {name: pa.nulls(2, arrow_type) for name, arrow_type in COLUMNS.items()}
        self._bind()

    def close(self) -> None:
        """Close the connection to DuckDB."""
        self._connection.close()

    def mask(self, fetched: FetchedColumns) -> npt.NDArray[np.bool_]:
        """Return a Boolean for each of the records; a condition that is null counts as false. Raises SqlError if the
        condition fails on a record, such as for a cast of a text that is no number (use try_cast)."""
        matches, _ = self.evaluate(fetched)
        return matches

    def evaluate(self, fetched: FetchedColumns) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        """Return for each of the records whether the condition is true, and whether it is null. Raises SqlError as
        `mask` does."""
        rows = len(fetched.columns)
        if rows == 0:
            return np.zeros(0, np.bool_), np.zeros(0, np.bool_)
        return self._evaluate(self._batch(fetched, rows))

    def matches(self, batch: pa.RecordBatch) -> npt.NDArray[np.bool_]:
        """Return a Boolean for each row of a batch with the columns COLUMNS, which may be null where the condition does
        not name them. Raises SqlError as `mask` does."""
        return self._evaluate(batch)[0] if batch.num_rows else np.zeros(0, np.bool_)

    def _evaluate(self, batch: pa.RecordBatch) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
        self._records.batch = batch
        matches = np.ma.asarray(self._run(self._sql.text))
        return np.asarray(matches.filled(False), np.bool_), np.ma.getmaskarray(matches)

    # -- DuckDB --

    def _bind(self) -> None:
        import duckdb

        try:
            statements = self._connection.extract_statements(self._sql.text)
        except duckdb.Error as error:
            raise self._error(error) from None
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
            raise SqlError("a condition is one expression, without ';'")
        # two rows of nulls: over an empty table DuckDB would not evaluate constants, such as a malformed timestamp
        self._records.batch = pa.RecordBatch.from_arrays(list(self._nulls.values()), schema=_SCHEMA)
        if len(self._run(self._sql.text)) != len(self._records.batch):
            raise SqlError("a condition is about one record: it cannot have aggregates such as count(*)")

    def _run(self, text: str) -> npt.NDArray[np.bool_]:
        import duckdb

        try:
            (column,) = self._connection.execute(text).fetchnumpy().values()
        except duckdb.Error as error:
            raise self._error(error) from None
        matches: npt.NDArray[np.bool_] = column
        return matches

    def _error(self, error: duckdb.Error) -> SqlError:
        message = sql.describe_error(error, self._sql, slice(len(_BEFORE), -len(_AFTER)))
        mixed = _NOT_BOOLEAN.search(message)
        if mixed is not None:
            message = f"a condition is true or false, not {mixed[1]}; compare it with something"
        return SqlError(message)

    # -- columns --

    def _batch(self, fetched: FetchedColumns, rows: int) -> pa.RecordBatch:
        columns = fetched.columns
        places = places_of(columns, 0, rows)
        chunk = Chunk(columns.buffer, places, rows, _NO_BATCHES, np.zeros(0, np.int32), np.zeros(0, np.int64), None)
        arrays = []
        for name, arrow_type in COLUMNS.items():
            if name in self.names:
                builder: Column = new_column(name, arrow_type, fetched.topic, fetched.partition)
                builder.add(chunk)
                arrays.append(builder.take(rows))
            else:
                arrays.append(self._null(name, arrow_type, rows))
        return pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)

    def _null(self, name: str, arrow_type: pa.DataType, rows: int) -> pa.Array:
        if len(self._nulls[name]) < rows:
            self._nulls[name] = pa.nulls(rows, arrow_type)
        return self._nulls[name].slice(0, rows)


class _Records:
    """The records of the current batch, as a table that DuckDB reads (the Arrow PyCapsule interface)."""

    batch: pa.RecordBatch

    def __arrow_c_schema__(self) -> object:
        return _SCHEMA.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        return pa.RecordBatchReader.from_batches(_SCHEMA, [self.batch]).__arrow_c_stream__(requested_schema)
