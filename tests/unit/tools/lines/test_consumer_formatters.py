"""Records to lines, as kafka-console-consumer printed them (recorded from Apache Kafka 4.3.1: its topic `plain`)."""

from __future__ import annotations

import pytest

from kafkatools.core.consumer.completed_fetch import FetchedColumns
from kafkatools.core.errors import ConfigError, KafkaError
from kafkatools.core.records.batch import RecordBatch
from kafkatools.core.records.builder import BatchBuilder
from kafkatools.core.records.columns import TimestampType
from kafkatools.tools.lines.formatters import (
    DEFAULT_FORMATTER,
    LOGGING_FORMATTER,
    NO_OP_FORMATTER,
    make_formatter,
)

START = 1_700_000_000_000
DESERIALIZERS = "org.apache.kafka.common.serialization."


def fetched(*rows: tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]) -> FetchedColumns:
    builder = BatchBuilder(1 << 16)
    for index, (key, value, headers) in enumerate(rows):
        builder.append(START + index * 1000, key, value, headers)
    return FetchedColumns("plain", 0, RecordBatch(builder.close()).columns())


PLAIN = fetched(
    (b"k1", b"v1", (("h1", b"a"), ("h2", b"b"))),
    (b"k2", b"v2", ()),
    (None, b"v3", (("h1", None),)),
    (b"k4", None, ()),
    (b"", b"", ()),
)


def stop(error: KafkaError) -> bool:
    return False


def written(properties: dict[str, str], records: FetchedColumns = PLAIN, name: str = DEFAULT_FORMATTER) -> bytes:
    out = bytearray()
    assert make_formatter(name, properties).write(out, records, stop) == records.columns.count
    return bytes(out)


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({}, "v1\nv2\nv3\nnull\n\n"),
        ({"print.key": "true"}, "k1\tv1\nk2\tv2\nnull\tv3\nk4\tnull\n\t\n"),
        ({"print.value": "false"}, ""),
        ({"print.key": "TRUE", "print.value": "false"}, "k1\nk2\nnull\nk4\n\n"),
        ({"print.headers": "true"}, "h1:a,h2:b\tv1\nNO_HEADERS\tv2\nh1:null\tv3\nNO_HEADERS\tnull\nNO_HEADERS\t\n"),
        ({"line.separator": "|"}, "v1|v2|v3|null||"),
        ({"print.key": "true", "key.separator": " => "}, "k1 => v1\nk2 => v2\nnull => v3\nk4 => null\n => \n"),
        ({"print.key": "true", "null.literal": "<nil>"}, "k1\tv1\nk2\tv2\n<nil>\tv3\nk4\t<nil>\n\t\n"),
        (
            {"print.headers": "true", "headers.separator": ";"},
            "h1:a;h2:b\tv1\nNO_HEADERS\tv2\nh1:null\tv3\nNO_HEADERS\tnull\nNO_HEADERS\t\n",
        ),
        (
            {name: "true" for name in ("print.key", "print.headers", "print.timestamp", "print.partition")}
            | {"print.offset": "true", "print.epoch": "true"},
            "CreateTime:1700000000000\tPartition:0\tOffset:0\tEpoch:NOT_PRESENT\th1:a,h2:b\tk1\tv1\n"
            "CreateTime:1700000001000\tPartition:0\tOffset:1\tEpoch:NOT_PRESENT\tNO_HEADERS\tk2\tv2\n"
            "CreateTime:1700000002000\tPartition:0\tOffset:2\tEpoch:NOT_PRESENT\th1:null\tnull\tv3\n"
            "CreateTime:1700000003000\tPartition:0\tOffset:3\tEpoch:NOT_PRESENT\tNO_HEADERS\tk4\tnull\n"
            "CreateTime:1700000004000\tPartition:0\tOffset:4\tEpoch:NOT_PRESENT\tNO_HEADERS\t\t\n",
        ),
        (
            {"print.delivery": "true"},
            "".join(f"Delivery:NOT_PRESENT\t{v}\n" for v in ("v1", "v2", "v3", "null", "")),
        ),
    ],
)
def test_lines_are_those_of_the_real_tool(properties: dict[str, str], expected: str) -> None:
    assert written(properties).decode() == expected
    assert written(properties, name=LOGGING_FORMATTER).decode() == expected


def test_bytes_pass_through_unchanged() -> None:
    binary = fetched((b"\xff", b"\xc3\x28\x0aA", ()))
    assert written({"print.key": "true"}, binary) == b"\xff\t\xc3\x28\x0aA\n"


def test_no_op_prints_nothing_and_counts() -> None:
    assert written({}, name=NO_OP_FORMATTER) == b""


def test_a_null_is_not_deserialized() -> None:
    """Kafka's formatter deserializes the text of null.literal: docs/differences.md, `consumer-null`."""
    nulls = fetched((None, None, (("h", None),)))
    names = {f"{part}.deserializer": DESERIALIZERS + "LongDeserializer" for part in ("key", "value", "headers")}
    properties = {"print.key": "true", "print.headers": "true", "null.literal": "-"}
    assert written({**properties, **names}, nulls) == b"h:-\t-\t-\n"


def test_record_that_cannot_be_formatted_leaves_nothing_behind() -> None:
    numbers = fetched(
        ((7).to_bytes(4, "big"), (42).to_bytes(8, "big"), ()),
        ((8).to_bytes(4, "big"), b"xx", ()),
        ((9).to_bytes(4, "big"), (43).to_bytes(8, "big"), ()),
    )
    properties = {
        "print.key": "true",
        "key.deserializer": DESERIALIZERS + "IntegerDeserializer",
        "value.deserializer": DESERIALIZERS + "LongDeserializer",
    }
    formatter = make_formatter(DEFAULT_FORMATTER, properties)
    errors: list[str] = []

    def go_on(error: KafkaError) -> bool:
        errors.append(str(error))
        return True

    out = bytearray()
    assert formatter.write(out, numbers, go_on) == 3
    assert out == b"7\t42\n9\t43\n"
    assert errors == ["Size of data received by LongDeserializer is not 8"]
    out = bytearray()
    assert formatter.write(out, numbers, stop) == 2
    assert out == b"7\t42\n"


def test_log_append_time_is_named() -> None:
    builder = BatchBuilder(1 << 12, timestamp_type=TimestampType.LOG_APPEND_TIME)
    builder.append(START, None, b"v")
    columns = RecordBatch(builder.close()).columns()
    line = written({"print.timestamp": "true"}, FetchedColumns("t", 0, columns))
    assert line.startswith(b"LogAppendTime:")


@pytest.mark.parametrize(
    "properties",
    [{"no.such": "1"}, {"print.key": "yes"}, {"value.deserializer": "com.example.Nope"}, {"print.keys": "true"}],
)
def test_properties_that_mean_nothing_are_refused(properties: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        make_formatter(DEFAULT_FORMATTER, properties)


def test_formatters_are_a_closed_list() -> None:
    for name in ("com.example.Nope", "java.lang.String", "kafka.tools.DefaultMessageFormatter"):
        with pytest.raises(ConfigError, match=f"Unknown formatter {name}. Known ones.* offsets"):
            make_formatter(name, {})
    with pytest.raises(ConfigError, match="AvroMessageFormatter. --schema-registry URL decodes Avro"):
        make_formatter("io.confluent.kafka.formatter.AvroMessageFormatter", {})


def test_escapes_are_applied_to_every_text() -> None:
    formatter = make_formatter(DEFAULT_FORMATTER, {"print.key": "true"}, lambda text: text.replace(b"\x1b", b"\\x1b"))
    out = bytearray()
    formatter.write(out, fetched((b"\x1b[1m", b"a\x1bb", ())), stop)
    assert out == b"\\x1b[1m\ta\\x1bb\n"
