"""Lines of console-consumer --json: at once, and one by one where that cannot be."""

import json

import pytest

from kafkatools.core.consumer.completed_fetch import FetchedColumns
from kafkatools.core.records.batch import RecordBatch
from kafkatools.core.records.builder import BatchBuilder
from kafkatools.tools.lines.json_formatter import JsonFormatter

RECORDS = [
    (1000, b"key", 'a "quoted"\n line é'.encode(), ()),
    (1001, None, b"\xff\x00", (("name", b"\x7f"), ("name", None))),
    (1002, b"", None, ()),
]
LINES = [
    '{"topic":"orders","partition":3,"offset":7,"timestamp":1000,"timestamp_type":"CreateTime","key":"key",'
    '"value":"a \\"quoted\\"\\n line é","headers":[]}',
    '{"topic":"orders","partition":3,"offset":8,"timestamp":1001,"timestamp_type":"CreateTime","key":null,'
    '"value":{"b64":"/wA="},"headers":[["name","\\u007f"],["name",null]]}',
    '{"topic":"orders","partition":3,"offset":9,"timestamp":1002,"timestamp_type":"CreateTime","key":"",'
    '"value":null,"headers":[]}',
]
STRING = "org.apache.kafka.common.serialization.StringDeserializer"


def fetched(records: list) -> FetchedColumns:  # type: ignore[type-arg]
    builder = BatchBuilder(1 << 12, base_offset=7)
    for record in records:
        builder.append(*record)
    return FetchedColumns("orders", 3, RecordBatch(builder.close()).columns())


def test_lines_at_once_and_one_by_one() -> None:
    formatter = JsonFormatter("default", {})
    columns = fetched(RECORDS)
    at_once, singly = bytearray(), bytearray()
    assert formatter.write(at_once, columns, lambda error: False) == 3
    assert formatter._write_singly(singly, columns, lambda error: False) == 3
    assert at_once.decode().splitlines() == LINES
    assert at_once == singly


@pytest.mark.parametrize("properties", [{}, {"value.deserializer": STRING}])
def test_header_name_with_replacement_character(properties: dict[str, str]) -> None:
    out = bytearray()
    columns = fetched([(1, b"k", b"v", (("\ufffd", b"x"),))])
    assert JsonFormatter("default", properties).write(out, columns, lambda error: False) == 1
    assert json.loads(out)["headers"] == [["\ufffd", "x"]]


def test_deserializers_are_used() -> None:
    out = bytearray()
    formatter = JsonFormatter(
        "default", {"value.deserializer": "org.apache.kafka.common.serialization.IntegerDeserializer"}
    )
    assert formatter.write(out, fetched([(1, None, b"\x00\x00\x00\x2a", ())]), lambda error: False) == 1
    assert json.loads(out)["value"] == "42"
