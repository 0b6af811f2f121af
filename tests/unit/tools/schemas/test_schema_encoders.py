"""JSON text encoded by schemas, against the decoders of other libraries, and what is said of text that does not fit."""

from __future__ import annotations

import base64
import datetime
import decimal
import io
import json
import pathlib
import random
import uuid
from typing import Any

import pytest

from kafkatools.tools.schemas.errors import InvalidValue, SchemaError
from kafkatools.tools.schemas.registry import RegisteredSchema

fastavro = pytest.importorskip("fastavro")
pytest.importorskip("google.protobuf")
pytest.importorskip("jsonschema")
from fastavro.utils import generate_one  # noqa: E402
from google.protobuf.descriptor_pb2 import FieldDescriptorProto as FieldType  # noqa: E402

from kafkatools.tools.schemas.encoders import AvroBody, JsonBody, ProtobufBody  # noqa: E402
from kafkatools.tools.schemas.protobuf_schema import ProtobufMessage, read_descriptors  # noqa: E402
from kafkatools.tools.schemas.row_decoders import JsonRows, ProtobufRows  # noqa: E402
from kafkatools.tools.schemas.wire_format import message_path, message_path_bytes  # noqa: E402

ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 6, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "time", "type": {"type": "long", "logicalType": "time-micros"}},
        {"name": "ref", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}, "default": "A"},
        {"name": "lines", "type": {"type": "array", "items": {"type": "map", "values": ["int", "string"]}}},
        {"name": "next", "type": ["null", "Order"], "default": None},
    ],
}
VALUE = {
    "id": 7, "price": 12.5, "at": "2026-01-02T03:04:05.006Z", "day": "2026-01-02", "time": "00:00:01.000002",
    "ref": str(uuid.UUID(int=5)), "lines": [{"a": 1, "b": "x"}, {}],
}  # fmt: skip


def avro(schema: Any) -> AvroBody:
    return AvroBody(RegisteredSchema(json.dumps(schema), "AVRO"), "the schema")


def read(schema: Any, data: bytes) -> Any:
    return fastavro.schemaless_reader(io.BytesIO(data), fastavro.parse_schema(schema, named_schemas={}), None)


def as_text(value: Any) -> bytes:
    return json.dumps(value).encode()


def test_an_avro_record_with_logical_types_is_what_fastavro_reads() -> None:
    body = avro(ORDER)
    assert body.name == "shop.Order"
    assert read(ORDER, body.encode(as_text({**VALUE, "next": VALUE}))) == {
        **(expected := {
            "id": 7, "note": None, "price": decimal.Decimal("12.50"), "kind": "A", "ref": uuid.UUID(int=5),
            "at": datetime.datetime(2026, 1, 2, 3, 4, 5, 6000, tzinfo=datetime.UTC), "lines": [{"a": 1, "b": "x"}, {}],
            "day": datetime.date(2026, 1, 2), "time": datetime.time(0, 0, 1, 2), "next": None,
        }),
        "next": expected,
    }  # fmt: skip


def test_defaults_have_the_form_of_the_specification() -> None:
    inner = {"type": "record", "name": "Inner", "fields": [
        {"name": "raw", "type": "bytes", "default": "\u0001"}, {"name": "n", "type": "int"},
    ]}  # fmt: skip
    decimal_type = {"type": "bytes", "logicalType": "decimal", "precision": 4, "scale": 2}
    fields = [
        ({"type": "bytes"}, "\u00ff\u0000", "04ff00"),  # length 2 as zigzag, then a byte for each character
        (decimal_type, "\u0000\u00ff", "0400ff"),
        ({"type": "fixed", "name": "F", "size": 2}, "\u00e9\u0001", "e901"),
        (["bytes", "null"], "\u0080", "000280"),
        (["null", decimal_type], None, "00"),
        (inner, {"n": 3}, "020106"),
        ({"type": "array", "items": ["null", "long"]}, [None, 2], "0400020400"),
        ({"type": "map", "values": "bytes"}, {"k": "\u00fe"}, "02026b02fe00"),
        ({"type": "long", "logicalType": "timestamp-millis"}, 1, "02"),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, "B", "02"),
        ({"type": "float"}, 0, "00000000"),
    ]
    for kind, default, encoded in fields:
        schema = {"type": "record", "name": "R", "fields": [{"name": "f", "type": kind, "default": default}]}
        assert avro(schema).encode(b"{}").hex() == encoded, kind


@pytest.mark.parametrize(
    ("kind", "default", "error"),
    [
        ("bytes", "\u0100", "expected a string with a character from U+0000 to U+00FF for each byte, not a string"),
        ({"type": "fixed", "name": "F", "size": 2}, "a", "expected 2 bytes, not 1"),
        ({"type": "record", "name": "I", "fields": [{"name": "n", "type": "int"}]}, {}, 'the field "n" is missing'),
        ("long", "0", "expected a long, not a string"),
        ("string", None, "expected a string, not null"),
    ],
)
def test_a_default_that_does_not_fit_is_named(kind: Any, default: Any, error: str) -> None:
    schema = {"type": "record", "name": "R", "fields": [{"name": "f", "type": kind, "default": default}]}
    with pytest.raises(InvalidValue) as raised:
        avro(schema).encode(b"{}")
    assert str(raised.value) == f'the schema\'s default of the field "f": {error}'


def test_random_values_come_back_from_their_json() -> None:
    plain = {
        "type": "record", "name": "P", "fields": [
            {"name": name, "type": kind} for name, kind in (
                ("i", "int"), ("l", "long"), ("d", "double"), ("s", "string"), ("o", "boolean"), ("n", "null"),
                ("u", ["null", "long", {"type": "array", "items": "string"}]),
                ("m", {"type": "map", "values": "double"}),
            )
        ],
    }  # fmt: skip
    schema = fastavro.parse_schema(plain, named_schemas={})
    state = random.getstate()
    random.seed(3)
    values = [generate_one(schema) for _ in range(50)]
    random.setstate(state)
    body = avro(plain)
    assert [read(plain, body.encode(as_text(value))) for value in values] == values


@pytest.mark.parametrize(
    ("schema", "value", "expected"),
    [
        (["null", "string", "int"], {"string": "x"}, "x"),
        (["null", "string", "int"], {"int": 3}, 3),
        (["int", "double"], 1.5, 1.5),
        ({"type": "map", "values": "int"}, {"int": 4}, {"int": 4}),
        ("bytes", {"b64": "/w=="}, b"\xff"),
        ("bytes", "é", "é".encode()),
        ({"type": "fixed", "name": "F", "size": 2}, "ab", b"ab"),
        ("double", "-Infinity", float("-inf")),
        ("float", 2, 2.0),
        ({"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 10}, "-1E+5", decimal.Decimal(-100000)),
        ({"type": "long", "logicalType": "timestamp-micros"}, "2026-01-31T13:45:00.5+02:00",
         datetime.datetime(2026, 1, 31, 11, 45, 0, 500000, tzinfo=datetime.UTC)),
        ({"type": "long", "logicalType": "local-timestamp-millis"}, "1969-12-31T23:59:59.999",
         datetime.datetime(1969, 12, 31, 23, 59, 59, 999000)),
    ],
)  # fmt: skip
def test_other_notations(schema: Any, value: Any, expected: Any) -> None:
    assert read(schema, avro(schema).encode(as_text(value))) == expected


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"id": "x"}, "field id: expected a long, not a string"),
        ({"id": 1 << 63}, f"field id: expected a long, not {1 << 63}"),
        ({"id": True}, "field id: expected a long, not a Boolean"),
        ({"id": 1.5}, "field id: expected a long, not 1.5"),
        ({"note": 5}, "field note: expected a string, not 5"),
        ({"price": 1.234}, "field price: 1.234 does not fit decimal(6,2)"),
        ({"price": 12345.5}, "field price: 12345.5 does not fit decimal(6,2)"),
        ({"price": "1E+999999999"}, "field price: expected a decimal number, not a string"),
        ({"price": "x"}, "field price: expected a decimal number, not a string"),
        ({"price": "1E+5000"}, "field price: 1E+5000 does not fit decimal(6,2)"),
        ({"price": f"0.{'1' * 5000}"}, "field price: 0.111"),
        ({"at": "yesterday"}, 'field at: expected a timestamp such as 2026-01-31T13:45:00Z, not "yesterday"'),
        ({"at": "2026-01-02T03:04:05"}, "field at: expected a timestamp such as 2026-01-31T13:45:00Z"),
        ({"day": "2026-13-01"}, "field day: expected a date"),
        ({"time": "25:00:00"}, "field time: expected a time"),
        ({"kind": "C"}, 'field kind: expected one of A, B, not "C"'),
        ({"lines": [{}, {"a": []}]}, "field lines[1].a: expected int or string, not a list"),
        ({"next": {"id": 1}}, 'field next: the field "price" of shop.Order is missing'),
        ({"nix": 1}, 'shop.Order has no field "nix"'),
        ({"ref": "\ud800"}, "field ref: a lone surrogate"),
    ],
)
def test_a_value_that_does_not_fit_names_its_field(change: dict[str, Any], error: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        avro(ORDER).encode(as_text({**VALUE, **change}))
    assert str(caught.value).startswith(error)


@pytest.mark.parametrize(
    ("schema", "value", "error"),
    [
        ("boolean", 1, "expected true or false, not 1"),
        ("double", [], "expected a double, not a list"),
        ("double", {"a": 1}, "expected a double, not an object"),
        ("double", "1.5", "expected a double, not a string"),
        ("float", 1e300, "expected a float, not 1E+300"),
        ("double", 10**400, f"expected a double, not {10**400}"),
        ("bytes", 5, 'expected bytes, as a string or {"b64": "..."}, not 5'),
        ("bytes", {"b64": "*"}, 'expected bytes, as a string or {"b64": "..."}, not an object'),
        ({"type": "fixed", "name": "F", "size": 2}, "abc", "expected 2 bytes, not 3"),
        ({"type": "array", "items": "int"}, {}, "expected a list, not an object"),
        ({"type": "map", "values": "int"}, [], "expected an object, not a list"),
        (["null", "long"], {"long": "x"}, "field long: expected a long, not a string"),
        ({"type": "int", "logicalType": "date"}, True, "expected a date such as 2026-01-31, not a Boolean"),
        ({"type": "int", "logicalType": "date"}, "5881581-01-01", "expected a date such as 2026-01-31"),
        ({"type": "int", "logicalType": "time-millis"}, "13:45:00.1234", "expected a time such as 13:45:00"),
        ({"type": "int", "logicalType": "time-millis"}, "13:45:00+01:00", "expected a time such as 13:45:00"),
        ({"type": "long", "logicalType": "timestamp-millis"}, "2026-01-31T", "expected a timestamp such as"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 4}, [], "expected a decimal number, not a list"),
        ({"type": "fixed", "name": "P", "size": 12, "logicalType": "duration"}, {"months": 1, "days": 2},
         "expected an object of months, days and millis, not an object"),
        ({"type": "fixed", "name": "P", "size": 12, "logicalType": "duration"},
         {"months": 1, "days": 2, "millis": 1 << 32}, "months, days and millis are numbers from 0 to 4294967295"),
        ({"type": "fixed", "name": "P", "size": 12, "logicalType": "duration"},
         {"months": True, "days": 2, "millis": 3}, "months, days and millis are numbers from 0 to 4294967295"),
    ],
)  # fmt: skip
def test_a_value_of_another_type_is_named(schema: Any, value: Any, error: str) -> None:
    with pytest.raises(InvalidValue) as caught:
        avro(schema).encode(as_text(value))
    assert str(caught.value).startswith(error)


@pytest.mark.parametrize("schema", ["float", "double"])
def test_a_number_above_all_doubles_is_not_infinity(schema: str) -> None:
    for text in ("1E+400", "-1E+400"):
        with pytest.raises(InvalidValue) as caught:
            avro(schema).encode(text.encode())
        assert str(caught.value) == f"expected a {schema}, not {text}"


@pytest.mark.parametrize(
    ("schema", "value", "encoded"),
    [
        ({"type": "fixed", "name": "D", "size": 3, "logicalType": "decimal", "precision": 5, "scale": 2}, -1.5,
         "ffff6a"),
        ({"type": "fixed", "name": "P", "size": 12, "logicalType": "duration"},
         {"months": 1, "days": 2, "millis": 4294967295}, "0100000002000000ffffffff"),
        ({"type": "int", "logicalType": "time-millis"}, "00:00:01.5", "b817"),
        ({"type": "int", "logicalType": "date"}, 3, "06"),
        ({"type": "string", "logicalType": "other-millis"}, "x", "0278"),
        ({"type": "int", "logicalType": "other-millis"}, 1, "02"),
    ],
)  # fmt: skip
def test_bytes_of_the_specification(schema: Any, value: Any, encoded: str) -> None:
    assert avro(schema).encode(as_text(value)).hex() == encoded


@pytest.mark.parametrize("schema", [{"type": "record"}, {"type": "enum", "name": "E"}, ["nix"], {}])
def test_an_invalid_avro_schema_is_refused(schema: Any) -> None:
    with pytest.raises(SchemaError, match="^the schema is not a valid Avro schema"):
        avro(schema)


@pytest.mark.parametrize("text", [b"{", b"", b"[" * 100_000, b"\xff", b"5", b"null"])
def test_text_that_is_not_an_object_is_refused(text: bytes) -> None:
    with pytest.raises(InvalidValue):
        avro(ORDER).encode(text)


@pytest.mark.parametrize(
    ("schema", "text", "encoded"),
    [
        ({"type": "bytes", "logicalType": "decimal"}, b'"ab"', b"\4ab"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 64, "scale": 127}, b'"ab"', b"\4ab"),
        ({"type": "bytes", "logicalType": "decimal", "precision": "9", "scale": 2}, b'"ab"', b"\4ab"),
        ({"type": "fixed", "name": "F", "size": 2, "logicalType": "decimal", "precision": 5}, b'"ab"', b"ab"),
        ({"type": "fixed", "name": "F", "size": 2, "logicalType": "duration"}, b'"ab"', b"ab"),
        ({"type": "int", "logicalType": "time-micros"}, b"3", b"\6"),
        ({"type": "int", "logicalType": "timestamp-millis"}, b"3", b"\6"),
        ({"type": "string", "logicalType": "date"}, b'"ab"', b"\4ab"),
    ],
)
def test_a_logical_type_that_does_not_fit_is_ignored(schema: Any, text: bytes, encoded: bytes) -> None:
    assert avro(schema).encode(text) == encoded


def test_a_value_that_is_nested_too_deeply_for_the_schema_is_named() -> None:
    node = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
    assert avro(node).encode(b'{"next":' * 100 + b"null" + b"}" * 100) == b"\2" * 99 + b"\0"
    with pytest.raises(InvalidValue, match="it is nested too deeply"):
        avro(node).encode(b'{"next":' * 900 + b"null" + b"}" * 900)


PROTO = """syntax = "proto3";
package shop;
message Order { int64 id = 1; repeated string tags = 2; Line line = 3; message Line { int32 n = 1; } }
"""


def test_protobuf_reads_back_and_names_what_does_not_fit() -> None:
    body = ProtobufBody(RegisteredSchema(PROTO, "PROTOBUF"), "x")
    assert (body.name, body.prefix) == ("shop.Order", b"\0")
    assert body.encode(b'{"id": "5", "tags": ["a"], "line": {"n": 2}}') == b"\x08\x05\x12\x01a\x1a\x02\x08\x02"
    for text, error in (
        (b'{"nix": 1}', 'no field named "nix"'), (b'{"id": "x"}', "id"), (b'{"line": {"n": 99999999999}}', "n field"),
        (b"[]", "expected an object"), (b"{", "not JSON"),
    ):  # fmt: skip
        with pytest.raises(InvalidValue, match=error):
            body.encode(text)


def test_a_number_above_all_doubles_is_no_protobuf_value() -> None:
    body = ProtobufBody(RegisteredSchema('syntax = "proto3"; message M { double d = 1; }', "PROTOBUF"), "x")
    with pytest.raises(InvalidValue, match="int too large to convert to float"):
        body.encode(b'{"d": 1' + b"0" * 400 + b"}")


BYTES = """syntax = "proto3";
import "google/protobuf/any.proto"; import "google/protobuf/duration.proto"; import "google/protobuf/wrappers.proto";
message Data {
  bytes raw = 1; repeated bytes more = 2; map<string, bytes> by_name = 3; google.protobuf.BytesValue one = 4;
  Data next = 5; map<string, Data> all = 6; string text = 7; map<string, string> texts = 8;
  google.protobuf.Any any = 9; google.protobuf.Duration lasts = 10;
}
"""


def test_protobuf_bytes_are_base64_or_refused() -> None:
    body = ProtobufBody(RegisteredSchema(BYTES, "PROTOBUF"), "x")
    assert body.encode(b'{"raw": "/w==", "more": ["_w", ""]}') == b"\x0a\x01\xff\x12\x01\xff\x12\x00"
    assert (
        body.encode(b'{"text": "a b", "texts": {"raw": "a b"}, "one": null}') == b":\x03a bB\x0a\x0a\x03raw\x12\x03a b"
    )
    duration = b'{"any": {"@type": "type.googleapis.com/google.protobuf.Duration", "value": "1.5s"}}'
    assert body.encode(duration).endswith(b"\x12\x08\x08\x01\x10\x80\xca\xb5\xee\x01")
    for text, place in (
        (b'{"raw": "some text!"}', "raw"), (b'{"raw": "%"}', "raw"), (b'{"more": ["", "%%%"]}', "more"),
        (b'{"byName": {"a": "%%%"}}', "byName.a"), (b'{"one": "%%%"}', "one"),
        (b'{"next": {"next": {"raw": "%%%"}}}', "next.next.raw"), (b'{"all": {"k": {"raw": "%%%"}}}', "all.k.raw"),
    ):  # fmt: skip
        with pytest.raises(InvalidValue, match=f"^field {place}: expected Base64, not "):
            body.encode(text)


def test_a_protobuf_source_may_hold_other_characters_than_ascii() -> None:
    body = ProtobufBody(RegisteredSchema(PROTO + "// Größe\n", "PROTOBUF"), "x")
    assert body.encode(b'{"id": 5}') == b"\x08\x05"


def test_protobuf_schemas_refer_to_others_and_never_to_files_outside() -> None:
    line = RegisteredSchema('syntax = "proto3"; message Line { int32 n = 1; }', "PROTOBUF")
    source = 'syntax = "proto3"; import "a/line.proto"; message Order { repeated Line lines = 1; }'
    body = ProtobufBody(RegisteredSchema(source, "PROTOBUF", (("a/line.proto", line),)), "x")
    assert body.encode(b'{"lines": [{"n": 1}, {}]}') == b"\x0a\x02\x08\x01\x0a\x00"
    for name in ("../line.proto", "/tmp/line.proto"):
        with pytest.raises(SchemaError, match=f"x references a file outside of its directory: {name}"):
            ProtobufBody(RegisteredSchema(source, "PROTOBUF", ((name, line),)), "x")


def test_a_reference_of_protobuf_may_have_any_name() -> None:
    line = RegisteredSchema('syntax = "proto3"; message Line { int32 n = 1; }', "PROTOBUF")
    source = 'syntax = "proto3"; import "schema.proto"; message Order { Line line = 1; }'
    body = ProtobufBody(RegisteredSchema(source, "PROTOBUF", (("schema.proto", line),)), "x")
    assert body.encode(b'{"line": {"n": 1}}') == b"\x0a\x02\x08\x01"


def test_a_file_of_descriptors_is_a_proto_file_or_a_set(tmp_path: pathlib.Path) -> None:
    source = tmp_path / "order.proto"
    source.write_text(PROTO)
    descriptors = tmp_path / "order.desc"
    descriptors.write_bytes(read_descriptors(str(source)))
    for path in (source, descriptors):
        message = ProtobufMessage(read_descriptors(str(path)), "Order.Line", str(path))
        assert (message.descriptor.full_name, message.path()) == ("shop.Order.Line", [0, 0])
    with pytest.raises(SchemaError, match=r"has no message Nix; its messages are shop\.Order$"):
        ProtobufMessage(read_descriptors(str(descriptors)), "Nix", "x")
    for content in (b"", b"\xff\xff", b"syntax"):
        descriptors.write_bytes(content)
        with pytest.raises(SchemaError, match=r"is neither a \.proto file nor a FileDescriptorSet"):
            read_descriptors(str(descriptors))
    source.write_text('syntax = "proto3"; enum E { A = 0; }')
    with pytest.raises(SchemaError, match="x has no message"):
        ProtobufMessage(read_descriptors(str(source)), None, "x")
    with pytest.raises(SchemaError, match="absent cannot be read: No such file or directory"):
        read_descriptors("absent")


@pytest.mark.parametrize(
    ("imported", "kind"),
    [
        ("google/protobuf/descriptor.proto", "google.protobuf.FieldOptions"),
        ("google/protobuf/type.proto", "google.protobuf.Field"),
        ("google/protobuf/timestamp.proto", "google.protobuf.Timestamp"),
        ("confluent/meta.proto", ""),
        ("confluent/type/decimal.proto", "confluent.type.Decimal"),
    ],
)
def test_values_of_schemas_that_import_files_of_google_and_confluent_are_decoded(imported: str, kind: str) -> None:
    # a registry lists no references for these files
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    file = FileDescriptorProto(name="order.proto", package="shop", syntax="proto3", dependency=[imported])
    order = file.message_type.add(name="Order")
    order.field.add(name="id", number=1, type=FieldType.TYPE_INT64, label=FieldType.LABEL_OPTIONAL)
    if kind:
        order.field.add(
            name="more", number=2, type=FieldType.TYPE_MESSAGE, label=FieldType.LABEL_OPTIONAL, type_name=f".{kind}"
        )
    text = base64.b64encode(file.SerializeToString()).decode()
    rows = ProtobufRows(RegisteredSchema(text, "PROTOBUF"), "schema 1")
    decoded = json.loads(rows.text(b"\0\0\0\0\1\0\x08\x07" + (b"\x12\0" if kind else b"")))
    assert decoded["id"] == "7" and ("more" in decoded) == bool(kind)


@pytest.mark.parametrize(
    ("package", "name"), [("confluent.type", "Decimal"), ("google.protobuf", "Timestamp"), ("google.protobuf", "Any")]
)
@pytest.mark.parametrize("imported", ["google/protobuf/wrappers.proto", ""])
def test_a_schema_may_define_a_message_of_google_or_confluent_itself(package: str, name: str, imported: str) -> None:
    from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

    vendored = FileDescriptorProto(name=f"vendor/{name}.proto", package=package, syntax="proto3")
    vendored.message_type.add(name=name).field.add(
        name="text", number=1, type=FieldType.TYPE_STRING, label=FieldType.LABEL_OPTIONAL
    )
    order = FileDescriptorProto(
        name="order.proto", syntax="proto3", dependency=[vendored.name, *filter(None, [imported])]
    )
    order.message_type.add(name="Order").field.add(
        name="more",
        number=1,
        type=FieldType.TYPE_MESSAGE,
        label=FieldType.LABEL_OPTIONAL,
        type_name=f".{package}.{name}",
    )
    descriptors = FileDescriptorSet(file=[vendored, order]).SerializeToString()
    message = ProtobufMessage(descriptors, "Order", "x")
    assert [field.name for field in message.descriptor.fields_by_name["more"].message_type.fields] == ["text"]


def test_a_bundled_file_may_import_a_file_of_the_schema_and_two_files_may_not_share_a_name() -> None:
    from google.protobuf import any_pb2
    from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet

    order = FileDescriptorProto(name="order.proto", syntax="proto3", dependency=["google/protobuf/type.proto"])
    order.message_type.add(name="Order")
    own = FileDescriptorProto.FromString(any_pb2.DESCRIPTOR.serialized_pb)
    files = FileDescriptorSet(file=[own, own, order])
    assert ProtobufMessage(files.SerializeToString(), "Order", "x").path() == [0]
    other = FileDescriptorProto(name="order.proto", syntax="proto3")
    other.message_type.add(name="Other")
    with pytest.raises(SchemaError, match="^x: .*order.proto"):
        ProtobufMessage(FileDescriptorSet(file=[order, other]).SerializeToString(), "Order", "x")


def test_values_of_json_schemas_keep_their_text_on_one_line() -> None:
    text = b'\r\n{\n  "amount": 12345678901234567.89,\r\n  "price": 1.10, "large": 1E400, "a": 1, "a": "\\n"\n}\n'
    decoded = JsonRows().text(b"\0\0\0\0\1" + text)
    assert decoded == b'{   "amount": 12345678901234567.89,    "price": 1.10, "large": 1E400, "a": 1, "a": "\\n" }'
    for damaged in (b"{", b'"\n"', b"\xff", b""):
        with pytest.raises(ValueError, match="not JSON"):
            JsonRows().text(b"\0\0\0\0\1" + damaged)


def test_index_paths_of_messages_are_those_of_the_registry() -> None:
    # Confluent's wire format: the number of indexes and each as zigzag varints, [0] as a single zero
    for path, encoded in (([0], "00"), ([1], "0202"), ([0, 0], "040000"), ([2, 70], "04048c01")):
        assert message_path_bytes(path).hex() == encoded
        assert message_path(bytes.fromhex(encoded), 0) == (path, len(encoded) // 2)
    with pytest.raises(ValueError, match="the message index path has"):
        message_path(b"\xff\xff\x03", 0)


def test_json_schema_validates_with_references() -> None:
    item = RegisteredSchema('{"type": "object", "required": ["n"]}', "JSON")
    schema = '{"title": "Order", "type": "object", "properties": {"items": {"type": "array", "items": {"$ref": "i"}}}}'
    body = JsonBody(RegisteredSchema(schema, "JSON", (("i", item),)), "x")
    assert (body.name, body.encode(b' {"items": [{"n": 1}]} ')) == ("Order", b'{"items": [{"n": 1}]}')
    with pytest.raises(InvalidValue, match=r"^field items\[1\]: 'n' is a required property"):
        body.encode(b'{"items": [{"n": 1}, {}]}')
    with pytest.raises(InvalidValue, match="^not JSON: NaN is no number of JSON"):
        body.encode(b'{"price": NaN}')
    for text in ("{", '{"type": 7}', "[]"):
        with pytest.raises(SchemaError, match="is not a valid JSON schema"):
            JsonBody(RegisteredSchema(text, "JSON"), "x")
    missing = JsonBody(RegisteredSchema('{"$ref": "gone"}', "JSON"), "x")
    with pytest.raises(InvalidValue, match="the schema cannot be applied"):
        missing.encode(b"{}")


@pytest.mark.parametrize(
    ("schema", "text", "error"),
    [
        ({"multipleOf": 0.01}, b"19.99", None),
        ({"multipleOf": 0.01}, b"19.995", "19.995 is not a multiple of 0.01"),
        ({"multipleOf": 0.5}, b"1e400", "inf is not a multiple of 0.5"),
        ({"multipleOf": 3}, b"9007199254740993", None),
        ({"items": [{"type": "string"}]}, b'["a", 1]', None),
        ({"items": [{"type": "string"}]}, b"[1]", "field [0]: 1 is not of type 'string'"),
        ({"dependencies": {"a": ["b"]}}, b'{"a": 1}', "'b' is a dependency of 'a'"),
        (
            {"$schema": "https://json-schema.org/draft/2020-12/schema", "prefixItems": [{"type": "string"}]},
            b"[1]",
            "field [0]: 1 is not of type 'string'",
        ),
    ],
)
def test_json_schema_judges_as_the_registry_does(schema: Any, text: bytes, error: str | None) -> None:
    body = JsonBody(RegisteredSchema(json.dumps(schema), "JSON"), "x")
    if error is None:
        assert body.encode(text) == text
        return
    with pytest.raises(InvalidValue) as raised:
        body.encode(text)
    assert str(raised.value) == error


@pytest.mark.parametrize("identity", ["", "http://shop.example/order.json", "order.json"])
def test_names_of_references_are_relative_to_the_id_of_a_json_schema(identity: str) -> None:
    customer = RegisteredSchema('{"$ref": "name.json"}', "JSON", (("name.json", RegisteredSchema("false", "JSON")),))
    schema = {"properties": {"customer": {"$ref": "customer.json"}}} | ({"$id": identity} if identity else {})
    body = JsonBody(RegisteredSchema(json.dumps(schema), "JSON", (("customer.json", customer),)), "x")
    with pytest.raises(InvalidValue, match="field customer: False schema does not allow 1"):
        body.encode(b'{"customer": 1}')
