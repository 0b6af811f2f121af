"""Records as CSV, Parquet and Avro, read by the csv module, pyarrow and fastavro."""

from __future__ import annotations

import base64
import csv
import io
import json
from typing import Any

import fastavro
import pyarrow.parquet as pq
import pytest

from kafkatools.core.consumer.completed_fetch import FetchedColumns
from kafkatools.core.records.batch import RecordBatch
from kafkatools.core.records.builder import BatchBuilder
from kafkatools.tools.record_files.avro_formatter import AvroFormatter
from kafkatools.tools.record_files.csv_formatter import CsvFormatter
from kafkatools.tools.record_files.parquet_formatter import ParquetFormatter

START = 1_700_000_000_000
ROWS: list[tuple[int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]] = [
    (START, b"k", b'text, "quoted"\r\nand \r\n', ()),
    (-1, None, None, (("a", None), ("a", b"\xff"), ("", b""))),
    (START + 2, b"", b"", ()),
    (START + 3, b"\xff\x00", b"base64:eA==", ()),
    (START + 4, "ключ".encode(), b"\x00=1+1", ()),
]


def fetched(rows: Any = ROWS, first: int = 0) -> FetchedColumns:
    builder = BatchBuilder(1 << 20, base_offset=first)
    for row in rows:
        builder.append(*row)
    return FetchedColumns("orders", 3, RecordBatch(builder.close()).columns())


def written(formatter: Any, *batches: FetchedColumns) -> bytes:
    out = bytearray()
    for batch in batches:
        assert formatter.write(out, batch, lambda error: False) == batch.columns.count
    formatter.finish(out)
    return bytes(out)


def expected(first: int = 0) -> list[dict[str, Any]]:
    return [
        {
            "topic": "orders", "partition": 3, "offset": first + index, "timestamp": None if time == -1 else time,
            "timestamp_type": "CreateTime", "key": key, "value": value,
            "headers": [{"name": name, "value": cell} for name, cell in headers],
        }
        for index, (time, key, value, headers) in enumerate(ROWS)
    ]  # fmt: skip


def test_parquet_has_all_fields() -> None:
    table = pq.read_table(io.BytesIO(written(ParquetFormatter(lambda: 1 << 20), fetched(), fetched(first=5))))
    rows = table.set_column(3, "timestamp", table.column(3).cast("int64")).to_pylist()
    assert rows == expected() + expected(first=5)


def test_parquet_writes_row_groups_as_they_fill() -> None:
    formatter = ParquetFormatter(lambda: 1 << 16)
    rows = [(START, None, bytes(1 << 14), ())] * 8
    sizes, out = [], bytearray()
    for _ in range(3):
        formatter.write(out, fetched(rows), lambda error: False)
        sizes.append(len(out))
    assert sizes == sorted(set(sizes))
    formatter.finish(out)
    assert pq.ParquetFile(io.BytesIO(bytes(out))).metadata.num_row_groups == 3


def test_avro_has_all_fields() -> None:
    data = written(AvroFormatter(), fetched(), fetched(first=5))
    assert list(fastavro.reader(io.BytesIO(data))) == expected() + expected(first=5)


def test_csv_cells_give_the_bytes_back() -> None:
    lines = written(CsvFormatter(), fetched(), fetched(first=5)).decode()
    rows = list(csv.DictReader(io.StringIO(lines, newline="")))
    assert len(rows) == 10
    for row, record in zip(rows, expected() + expected(first=5), strict=True):
        assert row.keys() == record.keys()
        assert {"key": of_cell(row["key"]), "value": of_cell(row["value"])} == {
            "key": record["key"],
            "value": record["value"],
        }
        assert (row["topic"], int(row["partition"]), int(row["offset"])) == ("orders", 3, record["offset"])
        assert int(row["timestamp"]) == (-1 if record["timestamp"] is None else record["timestamp"])
    assert json.loads(rows[1]["headers"]) == [["a", None], ["a", {"b64": "/w=="}], ["", ""]]


def of_cell(cell: str) -> bytes | None:
    """A cell's bytes, as docs/record-files.md defines them."""
    if not cell:
        return None
    return base64.b64decode(cell[7:]) if cell.startswith("base64:") else cell.encode()


@pytest.mark.parametrize("new", [CsvFormatter, AvroFormatter, lambda: ParquetFormatter(lambda: 1)])
def test_no_record_is_a_whole_file(new: Any) -> None:
    data = written(new())
    if data[:4] == b"PAR1":
        assert pq.read_table(io.BytesIO(data)).num_rows == 0
    elif data[:3] == b"Obj":
        assert list(fastavro.reader(io.BytesIO(data))) == []
    else:
        assert data == b"topic,partition,offset,timestamp,timestamp_type,key,value,headers\r\n"


@pytest.mark.parametrize("new", [AvroFormatter, lambda: ParquetFormatter(lambda: 1)])
def test_header_name_that_is_no_text_fails_its_record(new: Any) -> None:
    builder = BatchBuilder(1 << 16)
    for index in range(4):
        builder.append(START, None, b"%d" % index, ((b"\xff" if index % 2 else b"ok", b""),))  # type: ignore[arg-type]
    columns = FetchedColumns("orders", 0, RecordBatch(builder.close()).columns())
    formatter, out = new(), bytearray()
    assert formatter.write(out, columns, lambda error: False) == 2
    assert formatter.write(out, columns, lambda error: True) == 4
    formatter.finish(out)
    stream = io.BytesIO(bytes(out))
    rows = list(fastavro.reader(stream)) if out[:3] == b"Obj" else pq.read_table(stream).to_pylist()
    assert [row["value"] for row in rows] == [b"0", b"0", b"2"]
