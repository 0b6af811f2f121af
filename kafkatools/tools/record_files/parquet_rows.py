"""Records from a Parquet file, as `kt console-consumer --output-format parquet` writes it."""

from __future__ import annotations

from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from kafkatools.tools.lines.line_reader import MalformedLine
from kafkatools.tools.record_files.record_rows import Rows, check_columns, record_of

_ROWS = 4096
_IGNORED = ("topic", "offset", "timestamp_type")


def read_parquet(topic: str, name: str, file: BinaryIO) -> Rows:
    """Yield the number and record of each row. Raises MalformedLine with the row and field."""
    number = 0
    try:
        parquet = pq.ParquetFile(file)
        check_columns(name, parquet.schema_arrow.names)
        if len(set(parquet.schema_arrow.names)) < len(parquet.schema_arrow.names):
            raise MalformedLine(f"{name} has two columns with the same name")
        columns = [column for column in parquet.schema_arrow.names if column not in _IGNORED]
        for batch in parquet.iter_batches(_ROWS, columns=columns):
            rows = {column: _values(name, column, batch.column(column)) for column in columns}
            for row in range(batch.num_rows):
                number += 1
                cells = {column: rows[column][row] for column in columns}
                yield number, record_of(topic, f"{name}, row {number}", cells)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:  # names of columns are not checked by Arrow
        after = f" after row {number}" if number else ""
        raise MalformedLine(f"{name} cannot be read as Parquet{after}: {str(error).splitlines()[0]}") from None


def _values(name: str, column: str, array: pa.Array) -> list[Any]:
    if pa.types.is_timestamp(array.type):
        try:
            array = array.cast(pa.timestamp("ms", array.type.tz)).cast(pa.int64())
        except pa.ArrowInvalid:
            raise MalformedLine(
                f"{name}, {column}: a time has a fraction of a millisecond, which Kafka does not keep"
            ) from None
    try:
        values: list[Any] = array.to_pylist()
    except UnicodeDecodeError as error:  # text of programs that do not check it
        raise MalformedLine(f"{name}, {column}: a text is not UTF-8: {error}; write the column as binary") from None
    return values
