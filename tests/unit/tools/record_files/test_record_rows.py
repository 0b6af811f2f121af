"""Records to CSV, Parquet, Avro and JSON lines and back; files of other programs; wrong rows."""

from __future__ import annotations

import datetime
import io
from collections.abc import Callable
from typing import Any

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkatools.core.consumer.completed_fetch import FetchedColumns
from kafkatools.core.records.batch import RecordBatch
from kafkatools.core.records.builder import BatchBuilder
from kafkatools.tools.lines.json_formatter import JsonFormatter
from kafkatools.tools.lines.json_records import read_json_record
from kafkatools.tools.lines.line_reader import MalformedLine
from kafkatools.tools.record_files.avro_formatter import AvroFormatter
from kafkatools.tools.record_files.avro_rows import read_avro
from kafkatools.tools.record_files.csv_formatter import CsvFormatter
from kafkatools.tools.record_files.csv_rows import read_csv
from kafkatools.tools.record_files.parquet_formatter import ParquetFormatter
from kafkatools.tools.record_files.parquet_rows import read_parquet

ReadRows = Callable[..., Any]
NASTY = [b"", b"base64:", b"base64:eA==", b"\r", b"\n", b"\r\n", b'"', b'""', b",", b"\\N", b"NULL", b"null", b"\x00"]
NASTY += [b"\xff", b"\xef\xbb\xbf", b"\xed\xa0\x80", "\u2028\x85é😀".encode(), b" x ", b"=1", b"a\rb\r\nc\n", b"'"]
CELL = st.none() | st.binary(max_size=12) | st.sampled_from(NASTY) | st.text(max_size=6).map(str.encode)
HEADERS = st.lists(st.tuples(st.text(max_size=4).map(str.encode) | st.just(b"same"), CELL), max_size=3)
ANY_HEADERS = st.lists(st.tuples(CELL.filter(lambda cell: cell is not None), CELL), max_size=3)
TIMES = st.integers(-1, 1 << 62)


def rows_with(headers: Any) -> Any:
    return st.lists(st.tuples(TIMES, CELL, CELL, headers), min_size=1, max_size=5)


def written(formatter: Any, rows: Any) -> bytes:
    out = bytearray()
    for part in (rows[:2], rows[2:]):
        if part:
            builder = BatchBuilder(1 << 16)
            for row in part:
                builder.append(*row)
            fetched = FetchedColumns("orders", 7, RecordBatch(builder.close()).columns())
            assert formatter.write(out, fetched, lambda error: False) == len(part)
    if not isinstance(formatter, JsonFormatter):
        formatter.finish(out)
    return bytes(out)


def read(reader: ReadRows, data: bytes) -> list[Any]:
    records = [record for _, record in reader("copy", "file", io.BytesIO(data))]
    assert {record.topic for record in records} <= {"copy"}
    return [(record.partition, record.timestamp, record.key, record.value, raw(record.headers)) for record in records]


def raw(headers: Any) -> list[Any]:
    return [(name.encode() if isinstance(name, str) else name, value) for name, value in headers]


def expected(rows: Any) -> list[Any]:
    return [(7, None if time == -1 else time, key, value, list(headers)) for time, key, value, headers in rows]


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(rows_with(HEADERS))
def test_parquet_and_avro_give_the_same_records_back(rows: Any) -> None:
    assert read(read_parquet, written(ParquetFormatter(lambda: 1), rows)) == expected(rows)
    assert read(read_avro, written(AvroFormatter(), rows)) == expected(rows)


@pytest.mark.slow
@settings(deadline=None, max_examples=100)
@given(rows_with(ANY_HEADERS))
def test_csv_and_json_give_the_same_records_back(rows: Any) -> None:
    assert read(read_csv, written(CsvFormatter(), rows)) == expected(rows)

    def read_lines(topic: str, name: str, file: Any) -> Any:
        return [(number, read_json_record(topic, line, number)) for number, line in enumerate(file, 1)]

    assert read(read_lines, written(JsonFormatter("default", {}), rows)) == expected(rows)


def parquet(**columns: Any) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out)
    return out.getvalue()


def parquet_with_two_values() -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.Table.from_arrays([pa.array([b"a"]), pa.array([b"b"])], ["value", "value"]), out)
    return out.getvalue()


def avro(fields: list[tuple[str, Any]], *rows: Any, name: str = "R", codec: str = "null") -> bytes:
    out = io.BytesIO()
    schema = {"type": "record", "name": name, "fields": [{"name": field, "type": kind} for field, kind in fields]}
    fastavro.writer(out, schema, rows, codec=codec)  # type: ignore[arg-type]
    return out.getvalue()


def without_data(value: object) -> str | None:
    """The name of a case: file contents differ between two runs."""
    return "data" if isinstance(value, bytes) else None


MOMENT = datetime.datetime(2026, 1, 2, 3, 4, 5, 6000, tzinfo=datetime.UTC)
MOMENT_MS = 1767323045006
MILLIS = {"type": "long", "logicalType": "timestamp-millis"}
NANOS = ["null", {"type": "long", "logicalType": "timestamp-nanos"}]


@pytest.mark.parametrize(
    ("reader", "data"),
    [
        (read_parquet, parquet(value=["text"], timestamp=pa.array([MOMENT], pa.timestamp("us", "UTC")))),
        (read_parquet, parquet(value=pa.array(["text"], pa.large_string()), timestamp=[MOMENT_MS])),
        (read_avro, avro([("value", "string"), ("timestamp", MILLIS)], {"value": "text", "timestamp": MOMENT})),
        (
            read_avro,
            avro([("value", "string"), ("timestamp", NANOS)], {"value": "text", "timestamp": MOMENT_MS * 1_000_000}),
        ),
        (read_csv, f"timestamp,value\r\n{MOMENT_MS},text\r\n".encode()),
        (read_csv, f"\ufefftimestamp,value\n{MOMENT_MS},text".encode()),
    ],
    ids=without_data,
)
def test_files_of_other_programs(reader: ReadRows, data: bytes) -> None:
    assert read(reader, data) == [(None, MOMENT_MS, None, b"text", [])]


def test_headers_of_spark() -> None:
    kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
    data = parquet(value=[b"v", b"w"], headers=pa.array([[{"key": "h", "value": None}], None], kind))
    assert [row[4] for row in read(read_parquet, data)] == [[(b"h", None)], []]


def test_csv_of_one_column_has_null_in_an_empty_line() -> None:
    assert [row[3] for row in read(read_csv, b'value\na\n\n"b\nc"\n')] == [b"a", None, b"b\nc"]


def test_csv_of_other_systems() -> None:
    data = 'value\r\nä\r\n"b\r\nc"\r\n'.encode("utf-8-sig")
    assert [row[3] for row in read(read_csv, data)] == ["ä".encode(), b"b\r\nc"]
    assert [row[3] for row in read(read_csv, b'value\ra\r"b\rc"\r')] == [b"a", b"b\rc"]


@pytest.mark.parametrize(
    ("reader", "data", "message"),
    [
        (read_csv, b"", "file has no header line with column names"),
        (read_csv, b"value,color\n", "file has an unknown column: 'color'; the columns are topic,"),
        (read_csv, b"key\nk\n", "file has no column value"),
        (read_csv, b"value,value\n", "file has two columns with the same name"),
        (read_csv, b"value,key\na,b\nc\n", "file, line 3: 2 cells expected, but there are 1"),
        (read_csv, b"value,key\na,b\n\n", "file, line 3 is empty"),
        (read_csv, b'value,key\n"a\nb",c\nd\n', "file, line 4: 2 cells expected, but there are 1"),
        (read_csv, b'value\n"abc\n', "file, line 2: unexpected end of data"),
        (read_csv, b"value\n\xff\n", "file, line 2, byte 1: 0xff is not UTF-8; convert the file to UTF-8"),
        (read_csv, b"value\r\n" + b"a\r\n" * 9000 + b"m\xfc", "file, line 9002, byte 2: 0xfc is not UTF-8"),
        (read_csv, b"value\nbase64:!\n", "file, line 2, value: the text after base64: is not Base64"),
        (read_csv, b"value,partition\na,-2\n", "file, line 2, partition: '-2' is not a whole number"),
        (read_csv, b"value,timestamp\na,1.5\n", "file, line 2, timestamp: '1.5' is not a whole number"),
        (read_csv, b"value,headers\na,x\n", "file, line 2, headers: Expecting value"),
        (read_csv, b"value,headers\na,[[null]]\n", "file, line 2, headers: a header must be [name, value]"),
        (read_parquet, b"", "file cannot be read as Parquet"),
        (read_parquet, parquet(value=[b"v"])[:-9], "file cannot be read as Parquet"),
        (read_parquet, parquet(value=[b"v"]).replace(b"value", b"val\xffe"), "file cannot be read as Parquet: "),
        (read_parquet, parquet(value=[b"v"], color=[1]), "file has an unknown column: 'color'"),
        (read_parquet, parquet(value=[b"v", None], key=[1, 2]), "file, row 1, key: 1 is neither bytes nor text"),
        (read_parquet, parquet(value=[b"v"], partition=["1x"]), "file, row 1, partition: '1x' is not a whole number"),
        (read_parquet, parquet(value=[b"v"], headers=[["h"]]), "file, row 1, headers: 'h' is not a header"),
        (read_parquet, parquet(value=[b"v"], timestamp=pa.array([MOMENT_MS * 1000 + 1], pa.timestamp("us"))),
         "file, timestamp: a time has a fraction of a millisecond"),
        (read_parquet, parquet(value=pa.array([b"\xff"]).view(pa.string())), "file, value: a text is not UTF-8: "),
        (read_parquet, parquet_with_two_values(), "file has two columns with the same name"),
        (read_avro, b"", "file cannot be read as Avro at its beginning"),
        (read_avro, b"Obj\x01garbage", "file cannot be read as Avro at its beginning"),
        (read_avro, avro([("value", "bytes")], {"value": b"v"})[:-18], "file cannot be read as Avro"),
        (read_avro, avro([("value", "bytes")], {"value": b"v"}).replace(b'"name"', b'"mane"'),
         "file cannot be read as Avro at its beginning: "),
        (read_avro, avro([("value", "long")], {"value": 1}), "file, row 1, value: 1 is neither bytes nor text"),
        (read_avro, avro([("value", "bytes"), ("color", "int")]), "file has an unknown column: 'color'"),
        (read_avro, avro([("value", "bytes"), ("partition", "boolean")], {"value": b"", "partition": True}),
         "file, row 1, partition: True is not a whole number"),
        (read_avro, avro([("value", "bytes"), ("timestamp", NANOS)], {"value": b"", "timestamp": 1}),
         "file, row 1, timestamp: 1 has a fraction of a millisecond"),
    ],
    ids=without_data,
)  # fmt: skip
def test_wrong_row_names_file_row_and_field(reader: ReadRows, data: bytes, message: str) -> None:
    with pytest.raises(MalformedLine) as raised:
        read(reader, data)
    assert str(raised.value).startswith(message)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("codec", ["deflate", "bzip2", "xz", "snappy", "lz4"])
def test_damage_of_compressed_avro_is_malformed(codec: str) -> None:
    data = bytearray(avro([("value", "bytes")], {"value": b"v" * 100}, codec=codec))
    sync_marker = data[-16:]
    start = data.index(sync_marker) + len(sync_marker)
    data[start + 4 : -16] = b"\xff" * (len(data) - 16 - start - 4)  # behind the number of rows and the size
    with pytest.raises(MalformedLine, match="^file cannot be read as Avro at its beginning: "):
        read(read_avro, bytes(data))
