"""Avro values as JSON, compiled and as plain Python, against fastavro's decoding of what fastavro wrote."""

from __future__ import annotations

import base64
import datetime
import decimal
import io
import json
import math
import random
from array import array
from typing import Any

import pytest
from records_truth import plain_kernel

fastavro = pytest.importorskip("fastavro")
from fastavro.utils import generate_one  # noqa: E402

from kafkatools.core.records import _avro_kernel as kernel_in_use  # noqa: E402
from kafkatools.tools.schemas.avro_program import AvroProgram  # noqa: E402
from kafkatools.tools.schemas.avro_schema import AvroSchema  # noqa: E402
from kafkatools.tools.schemas.errors import SchemaError  # noqa: E402
from kafkatools.tools.schemas.registry import RegisteredSchema  # noqa: E402

EVERYTHING = {
    "type": "record",
    "name": "Everything",
    "namespace": "n",
    "fields": [
        {"name": "nothing", "type": "null"},
        {"name": "yes", "type": "boolean"},
        {"name": "int", "type": "int"},
        {"name": "long", "type": "long"},
        {"name": "double", "type": "double"},
        {"name": "bytes", "type": "bytes"},
        {"name": "text", "type": "string"},
        {"name": "fixed", "type": {"type": "fixed", "name": "F", "size": 5}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "again", "type": "n.Kind"},
        {"name": "list", "type": {"type": "array", "items": ["null", "long", "string"]}},
        {"name": "map", "type": {"type": "map", "values": {"type": "array", "items": "n.Kind"}}},
        {"name": "empty", "type": {"type": "record", "name": "Empty", "fields": []}},
        {"name": "tree", "type": ["null", "n.Everything"]},
    ],
}


@pytest.fixture(params=["in use", "plain"])
def kernel(request: pytest.FixtureRequest) -> Any:
    return kernel_in_use if request.param == "in use" else plain_kernel("_avro_kernel")


def program_of(schema: Any, *references: tuple[str, RegisteredSchema]) -> tuple[Any, bytes]:
    return AvroProgram(RegisteredSchema(json.dumps(schema), "AVRO", references), "the schema").program


def encoded(schema: Any, value: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema, named_schemas={}), value)
    return out.getvalue()


def texts(kernel: Any, program: Any, values: list[bytes | None]) -> list[bytes | None]:
    """The JSON of each value, None for a null, b"BAD" for one that is not valid. The output starts too short."""
    cells = [value if value is None else b"\0\0\0\0\7" + value for value in values]
    data = b"".join(cell or b"" for cell in cells) or b" "
    positions, lengths, place = array("i"), array("i"), 0
    for cell in cells:
        positions.append(place)
        lengths.append(-1 if cell is None else len(cell))
        place += len(cell or b"")
    count = len(values)
    found = array("i", bytes(4 * count)), array("i", bytes(4 * count))
    out, state = bytearray(60), array("q", bytes(8 * kernel.STATE_SIZE))
    state[kernel.STATE_STOP] = count
    bad = set()
    while True:
        row = kernel.write_rows(data, (positions, lengths), program, 7, out, found, state)
        reason = state[kernel.STATE_REASON]
        if reason == kernel.ROWS_DONE:
            break
        if reason == kernel.ROW_FULL:
            assert len(out) < 1 << 26
            out += bytes(len(out))
        else:
            assert reason == kernel.ROW_BAD
            bad.add(row)
            state[kernel.STATE_ROW] = row + 1
    return [
        b"BAD"
        if row in bad
        else None
        if found[1][row] < 0
        else bytes(out[found[0][row] : found[0][row] + found[1][row]])
        for row in range(count)
    ]


def as_json(value: Any) -> Any:
    """A value of fastavro's as JSON has it."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return {"b64": base64.b64encode(value).decode()}
    if isinstance(value, dict):
        return {name: as_json(item) for name, item in value.items()}
    return [as_json(item) for item in value] if isinstance(value, list) else value


def test_random_values_are_what_fastavro_decodes(kernel: Any) -> None:
    schema = fastavro.parse_schema(EVERYTHING, named_schemas={})
    state = random.getstate()
    random.seed(11)
    try:
        values = [encoded(EVERYTHING, value) for value in (generate_one(schema) for _ in range(60))]
    finally:
        random.setstate(state)
    found = texts(kernel, program_of(EVERYTHING), [*values, None])
    assert found.pop() is None
    for data, text in zip(values, found, strict=True):
        assert text is not None
        assert json.loads(text) == as_json(fastavro.schemaless_reader(io.BytesIO(data), schema, None))


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        ({"type": "int", "logicalType": "date"}, datetime.date(2024, 2, 29), '"2024-02-29"'),
        ({"type": "int", "logicalType": "date"}, datetime.date(1, 1, 1), '"0001-01-01"'),
        ({"type": "int", "logicalType": "date"}, datetime.date(9999, 12, 31), '"9999-12-31"'),
        ({"type": "int", "logicalType": "date"}, 2932897, "2932897"),
        ({"type": "int", "logicalType": "time-millis"}, datetime.time(23, 59, 58, 7000), '"23:59:58.007"'),
        ({"type": "long", "logicalType": "time-micros"}, datetime.time(0, 0, 1, 2), '"00:00:01.000002"'),
        ({"type": "int", "logicalType": "time-millis"}, 86_400_000, "86400000"),
        ({"type": "long", "logicalType": "timestamp-millis"}, -1, '"1969-12-31T23:59:59.999Z"'),
        ({"type": "long", "logicalType": "timestamp-micros"}, 1_700_000_000_000_001, '"2023-11-14T22:13:20.000001Z"'),
        ({"type": "long", "logicalType": "timestamp-nanos"}, 1, '"1970-01-01T00:00:00.000000001Z"'),
        ({"type": "long", "logicalType": "local-timestamp-millis"}, 0, '"1970-01-01T00:00:00.000"'),
        ({"type": "long", "logicalType": "timestamp-millis"}, 1 << 60, str(1 << 60)),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}, decimal.Decimal("-12.05"), "-12.05"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 3}, decimal.Decimal("0.007"), "0.007"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4}, decimal.Decimal("-7"), "-7"),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 40, "scale": 20},
            decimal.Decimal("-12345678901234567890.12345678901234567890"),
            "-12345678901234567890.12345678901234567890",
        ),
        (
            {"type": "fixed", "name": "D", "size": 12, "logicalType": "decimal", "precision": 20, "scale": 1},
            decimal.Decimal("99.5"),
            "99.5",
        ),
        ({"type": "fixed", "name": "P", "size": 12, "logicalType": "duration"}, b"\1\0\0\0\2\0\0\0\3\0\0\0", None),
        ("long", -(1 << 63), str(-(1 << 63))),
        ("float", 1.1, "1.1"),
        ("float", 16777216.0, "16777216.0"),
        ("double", 1e300, "1e+300"),
        ("double", math.nan, '"NaN"'),
        ("double", -math.inf, '"-Infinity"'),
        ("string", 'a"\\\n\x01\x7f é€😀', '"a\\"\\\\\\n\\u0001\\u007f é€😀"'),
        ("bytes", b"\xed\xa0\x80", '{"b64":"7aCA"}'),
        ("bytes", b"\xff", '{"b64":"/w=="}'),
        ("bytes", b"\xf5\xff", '{"b64":"9f8="}'),
        (["null", {"type": "string", "logicalType": "uuid"}], "00000000-0000-0000-0000-000000000005", None),
    ],
)
def test_logical_types_and_corners(kernel: Any, schema: Any, value: Any, expected: str | None) -> None:
    raw = {"type": schema["type"]} if isinstance(schema, dict) and isinstance(value, int) else schema
    (text,) = texts(kernel, program_of(schema), [encoded(raw, value)])
    assert text is not None
    if expected is None:
        expected = '{"months":1,"days":2,"millis":3}' if isinstance(value, bytes) else f'"{value}"'
    assert text.decode() == expected


def test_references_and_types_of_other_schemas(kernel: Any) -> None:
    shared = RegisteredSchema('{"type":"enum","name":"n.E","symbols":["X"]}', "AVRO")
    left = {"type": "record", "name": "n.L", "fields": [{"name": "e", "type": "n.E"}]}
    right = {"type": "record", "name": "n.R", "fields": [{"name": "e", "type": "n.E"}]}
    both = {"type": "record", "name": "n.B", "fields": [{"name": "l", "type": "n.L"}, {"name": "r", "type": "n.R"}]}
    references = [(name, RegisteredSchema(json.dumps(one), "AVRO", (("n.E", shared),))) for name, one in (
        ("n.L", left), ("n.R", right),
    )]  # fmt: skip
    assert texts(kernel, program_of(both, *references), [b"\0\0"]) == [b'{"l":{"e":"X"},"r":{"e":"X"}}']


def test_defaults_and_decimals_that_do_not_fit_do_not_matter(kernel: Any) -> None:
    number = {"type": "bytes", "logicalType": "decimal", "precision": 64, "scale": 127}
    fields = [{"name": "n", "type": number}, {"name": "i", "type": "int", "default": "0"}]
    assert texts(kernel, program_of({"type": "record", "name": "R", "fields": fields}), [b"\2\x80\4"]) == [
        b'{"n":{"b64":"gA=="},"i":2}'
    ]


TREE = {"type": "record", "name": "T", "fields": [{"name": "next", "type": ["null", "T"]}]}


@pytest.mark.parametrize(
    ("schema", "data"),
    [
        ("string", b""), ("string", b"\x05"), ("string", b"\x01"), ("string", b"\x04\xff\xff"), ("long", b"\xff" * 10),
        ("long", b"\x80"), ("boolean", b"\2"), ("double", b"1234567"), (["null", "int"], b"\4"),
        (["null", "int"], b"\1"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\2"), ({"type": "array", "items": "null"}, b"\xfe" * 9),
        ({"type": "array", "items": "null"}, b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
        ({"type": "array", "items": "int"}, b"\1\1\2"), ({"type": "array", "items": "int"}, b"\xff\xff\xff\xff\x0f\0"),
        ({"type": "map", "values": "int"}, b"\2\x08a"), ({"type": "fixed", "name": "F", "size": 4}, b"123"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 1}, b"\x7f"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 1}, b"\x82\x10" + b"\x7f" * 1025),
        (TREE, b"\2" * 4000 + b"\0"),
        ("int", b"\2\2"),
    ],
)  # fmt: skip
def test_truncated_and_impossible_values_are_refused(kernel: Any, schema: Any, data: bytes) -> None:
    assert texts(kernel, program_of(schema), [data]) == [b"BAD"]


def test_changed_bytes_give_json_or_nothing(kernel: Any) -> None:
    """Every result is JSON, and the same from both kernels' rules: what fastavro reads to the end is read."""
    random_bytes = random.Random(5)
    schema = fastavro.parse_schema(EVERYTHING, named_schemas={})
    sound = encoded(EVERYTHING, generate_one(schema))
    values = []
    for _ in range(300):
        data = bytearray(sound)
        for _ in range(random_bytes.randint(1, 3)):
            data[random_bytes.randrange(len(data))] = random_bytes.randrange(256)
        values.append(bytes(data[: random_bytes.randint(0, len(data))]))
    for text in texts(kernel, program_of(EVERYTHING), values):
        assert text == b"BAD" or isinstance(json.loads(text or b""), dict)


@pytest.mark.parametrize(
    "text",
    ["{", "5", '"nix"', "[]x", '{"type": "record"}', '{"type": "record", "name": "R", "fields": 1}', '{"type": 7}',
     '{"type": "array"}', '{"type": "fixed", "name": "F", "size": "x"}', '{"type": "enum", "name": "E"}'],
)  # fmt: skip
def test_an_invalid_schema_is_one_line(text: str) -> None:
    with pytest.raises(SchemaError, match="^schema 3 is not a valid Avro schema: ") as caught:
        AvroProgram(RegisteredSchema(text, "AVRO"), "schema 3")
    assert "\n" not in str(caught.value)


def test_a_schema_that_refers_to_itself_by_reference_is_parsed_once() -> None:
    assert AvroSchema(RegisteredSchema(json.dumps(TREE), "AVRO"), "x").named_schemas.keys() == {"T"}
