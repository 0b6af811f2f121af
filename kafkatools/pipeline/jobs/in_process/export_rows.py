"""The rows of an export in this process: record batches of a scan, filtered and shaped as Spark's writers shape them.

Parquet rows stay columns. A row of JSON or CSV is made by DuckDB as one line of text, with Spark's conventions: JSON
leaves out null fields and has bytes as base64, CSV escapes quotes by a backslash, and times have milliseconds and `Z`.
Each batch has records of one partition.
"""

from __future__ import annotations

import binascii
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.jobs.export_state import BY_DATE, BY_TOPIC, Export
from kafkatools.pipeline.jobs.in_process.conditions import Condition
from kafkatools.pipeline.sources.schema import HEADER_COLUMNS, RECORD_COLUMNS

if TYPE_CHECKING:
    import duckdb

_DAY_US = 86_400_000_000
_YEAR_1_US, _YEAR_10000_US = -719_162 * _DAY_US, 2_932_897 * _DAY_US
_HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"
_ESCAPED = frozenset("\"#%'*/:=?\\{[]^\x7f") | frozenset(map(chr, range(1, 32)))
"""The characters that Spark replaces in the name of a directory (ExternalCatalogUtils.escapePathName)."""

_HEADERS_JSON = (
    """'[' || array_to_string(list_transform(headers, lambda h: '{' || substr(concat("""
    """',"key":' || to_json(h.key), ',"value":"' || base64(h.value) || '"'), 2) || '}'), ',') || ']'"""
)
_TIME = """strftime(timestamp AT TIME ZONE 'UTC', '%Y-%m-%dT%H:%M:%S.%gZ')"""
_CSV_CELL = (
    r"""CASE WHEN {0} IS NULL THEN '' WHEN {0} = '' THEN '""' WHEN regexp_matches({0}, '[,"\\\n\r]|^\s|\s$') """
    r"""THEN '"' || replace(replace({0}, '\', '\\'), '"', '\"') || '"' ELSE {0} END"""
)
_TEXTS = ("keyBase64", "valueBase64", "topic")


@dataclass(frozen=True)
class ShapedRows:
    """Rows of one directory of the export, `folder`: the columns of a Parquet file, or one column of lines."""

    folder: str
    rows: pa.RecordBatch

    @property
    def nbytes(self) -> int:
        """The size of the rows in bytes."""
        return int(self.rows.nbytes)


class RowShape:
    """Makes the rows of an export of record batches."""

    def __init__(self, export: Export) -> None:
        """Check the condition of the export. Raises SqlError for a wrong one."""
        self._export = export
        self._condition = None if export.where is None else Condition(export.where)
        self._connection: duckdb.DuckDBPyConnection | None = None
        self._record_columns = (*RECORD_COLUMNS, *(HEADER_COLUMNS if "includeHeaders" in export.options else ()))
        self.source_columns = self._record_columns
        """The columns that a scan has to make."""
        if self._condition is not None and "headers" in self._condition.names:
            self.source_columns = (*RECORD_COLUMNS, *HEADER_COLUMNS)

    @property
    def columns(self) -> list[str]:
        """The columns of the files."""
        names: list[str] = []
        for name in self._record_columns:
            names += [name, f"{name}Base64"] if self._export.has_text and name in ("key", "value") else [name]
        return [name for name in names if name not in self._export.partition_by]

    def shaped(self, batch: pa.RecordBatch) -> Iterator[ShapedRows]:
        """Yield the rows of a batch, by directory. Raises PipelineError if the condition fails on a record."""
        if self._condition is not None:
            batch = self._condition.selected(batch)
        if not batch.num_rows:
            return
        micros = _micros(batch.column("timestamp"))
        rows = self._file_rows(batch, micros)
        topic = batch.column("topic")[0].as_py()
        if BY_DATE not in self._export.partition_by:
            yield ShapedRows(self._folder(topic, ""), rows)
            return
        days = micros // _DAY_US
        if days.min() == days.max():
            yield ShapedRows(self._folder(topic, date_text(int(days[0]))), rows)
            return
        order = np.argsort(days, kind="stable")
        ordered, starts = rows.take(pa.array(order)), np.flatnonzero(np.diff(days[order], prepend=days.min() - 1))
        for start, stop in zip(starts, [*starts[1:], len(order)], strict=True):
            day = date_text(int(days[order[start]]))
            yield ShapedRows(self._folder(topic, day), ordered.slice(start, stop - start))

    def _folder(self, topic: str, date: str) -> str:
        values = {BY_TOPIC: topic, BY_DATE: date}
        return "/".join(f"{name}={_escaped(values[name])}" for name in self._export.partition_by)

    def _file_rows(self, batch: pa.RecordBatch, micros: npt.NDArray[np.int64]) -> pa.RecordBatch:
        names, arrays = [], []
        for name in self._record_columns:
            column = batch.column(name)
            if self._export.has_text and name in ("key", "value"):
                names += [name, f"{name}Base64"]
                arrays += _text_or_base64(column)
            else:
                names.append(name)
                arrays.append(column)
        rows = pa.RecordBatch.from_arrays(arrays, names).select(self.columns)
        if self._export.sink.kind == "parquet":
            return rows.take(pa.array(np.arange(len(rows), dtype=np.int32)))  # the scan's buffers are larger than that
        return self._lines(rows, micros)

    def _lines(self, rows: pa.RecordBatch, micros: npt.NDArray[np.int64]) -> pa.RecordBatch:
        time = _TIME
        if micros.min() < _YEAR_1_US or micros.max() >= _YEAR_10000_US:  # DuckDB writes such years in another way
            place = rows.schema.get_field_index("timestamp")
            rows = rows.set_column(place, "timestamp", pa.array([_time_text(value) for value in micros.tolist()]))
            time = "timestamp"
        make = _csv_line if self._export.sink.kind == "csv" else _json_line
        line = make(self.columns, time, is_text=self._export.has_text)
        return self._selected(f"{line} || chr(10) AS line", rows)

    def _selected(self, expression: str, rows: pa.RecordBatch) -> pa.RecordBatch:
        import duckdb

        connection = self._open()
        connection.register("input", pa.Table.from_batches([rows]))
        try:
            result: pa.Table = connection.sql(f"SELECT {expression} FROM input").to_arrow_table()
        except duckdb.Error as error:
            raise PipelineError(str(error).partition("\n")[0]) from error
        finally:
            connection.unregister("input")
        return result.combine_chunks().to_batches()[0]

    def _open(self) -> duckdb.DuckDBPyConnection:
        if self._connection is None:
            import duckdb

            self._connection = duckdb.connect(config={"threads": 1, "memory_limit": "256MB"})
            self._connection.execute("SET TimeZone='UTC'; SET python_enable_replacements=false")
        return self._connection

    def close(self) -> None:
        """Close the connections to DuckDB."""
        if self._condition is not None:
            self._condition.close()
        if self._connection is not None:
            self._connection.close()


def _json_line(names: list[str], time: str, *, is_text: bool) -> str:
    """Return an SQL expression for a record as a line of JSON without null fields."""
    fields = []
    for name in names:
        if name in ("key", "value"):
            text = f"to_json({name})" if is_text else f"""'"' || base64({name}) || '"'"""
        elif name in _TEXTS:
            text = f"to_json({name})"
        elif name == "timestamp":
            text = f"""'"' || {time} || '"'"""
        elif name == "headers":
            text = _HEADERS_JSON
        else:
            text = f'"{name}"::VARCHAR'
        fields.append(f"""',"{name}":' || {text}""")
    return f"'{{' || substr(concat({', '.join(fields)}), 2) || '}}'"


def _csv_line(names: list[str], time: str, *, is_text: bool) -> str:
    """Return an SQL expression for a record as a line of CSV; null is an empty cell, an empty text `""`."""
    cells = []
    for name in names:
        if name in ("key", "value", *_TEXTS):
            cells.append(_CSV_CELL.format(f'"{name}"'))
        elif name == "timestamp":
            cells.append(f"coalesce({time}, '')")
        elif name == "headers":
            cells.append(_CSV_CELL.format(f"({_HEADERS_JSON})"))
        else:
            cells.append(f"""coalesce("{name}"::VARCHAR, '')""")
    return " || ',' || ".join(cells)


def _text_or_base64(column: pa.Array) -> list[pa.Array]:
    """Return bytes as text where they are UTF-8, and as base64 where they are not."""
    try:
        return [column.cast(pa.string()), pa.nulls(len(column), pa.string())]
    except pa.ArrowInvalid:
        pass
    texts: list[str | None] = []
    others: list[str | None] = []
    for cell in column.to_pylist():
        text = other = None
        if cell is not None:
            try:
                text = cell.decode()
            except UnicodeDecodeError:
                other = binascii.b2a_base64(cell, newline=False).decode("ascii")
        texts.append(text)
        others.append(other)
    return [pa.array(texts, pa.string()), pa.array(others, pa.string())]


def _micros(column: pa.Array) -> npt.NDArray[np.int64]:
    """Return timestamps as epoch microseconds; the records of a source always have one."""
    numbers: npt.NDArray[np.int64] = pc.cast(column, pa.int64()).to_numpy(zero_copy_only=False)
    return numbers


def date_text(day: int) -> str:
    """Return a day since 1970 as text in the proleptic Gregorian calendar, as Spark writes it: years above 9999 have a
    plus sign."""
    shifted = day + 719_468  # from 0000-03-01
    era, in_era = divmod(shifted, 146_097)
    year_of_era = (in_era - in_era // 1460 + in_era // 36_524 - in_era // 146_096) // 365
    day_of_year = in_era - (365 * year_of_era + year_of_era // 4 - year_of_era // 100)
    month_from_march = (5 * day_of_year + 2) // 153
    month = month_from_march + 3 if month_from_march < 10 else month_from_march - 9
    year = year_of_era + 400 * era + (month <= 2)
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04d}-{month:02d}-{day_of_year - (153 * month_from_march + 2) // 5 + 1:02d}"


def _time_text(micros: int) -> str:
    day, rest = divmod(micros, _DAY_US)
    seconds, fraction = divmod(rest, 1_000_000)
    clock = f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{fraction // 1000:03d}"
    return f"{date_text(day)}T{clock}Z"


def _escaped(value: str) -> str:
    if not value:
        return _HIVE_NULL
    return "".join(f"%{ord(letter):02X}" if letter in _ESCAPED else letter for letter in value)
