"""Avro and Protobuf values, encoded by their own libraries, against the registry's wire format: types, values, and what
is told of bytes that are something else."""

from __future__ import annotations

import datetime
import decimal
import json
import uuid
from typing import Any

import pytest
from support.avro_values import avro_body
from support.manual_clock import ManualClock

from kafkatools.pipeline.errors import PipelineError
from kafkatools.tools.schemas.errors import RegistryFailed
from kafkatools.tools.schemas.registry import RegisteredSchema

pytest.importorskip("pyspark")
pytest.importorskip("fastavro")
pytest.importorskip("google.protobuf")

from kafkatools.pipeline.decoding import avro as avro  # noqa: E402
from kafkatools.pipeline.decoding import protobuf as protobuf  # noqa: E402
from kafkatools.pipeline.decoding.formats import Plan  # noqa: E402

NESTED = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "time", "type": {"type": "int", "logicalType": "time-millis"}},
        {"name": "ref", "type": {"type": "string", "logicalType": "uuid"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}},
        {"name": "again", "type": "Kind"},
        {"name": "tags", "type": {"type": "map", "values": {"type": "array", "items": "int"}}},
        {"name": "mixed", "type": ["int", "string", {"type": "array", "items": "int"}]},
        {"name": "number", "type": ["null", "int", "double"]},
    ],
}
ORDER = {
    "id": 7,
    "note": None,
    "price": decimal.Decimal("12.50"),
    "at": datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC),
    "day": datetime.date(2026, 1, 2),
    "time": datetime.time(0, 0, 1),
    "ref": uuid.UUID(int=5),
    "kind": "A",
    "again": "B",
    "tags": {"x": [1, 2]},
    "mixed": [1, 2],
    "number": 2.5,
}


def registered(schema: Any, *references: tuple[str, RegisteredSchema]) -> RegisteredSchema:
    return RegisteredSchema(json.dumps(schema), "AVRO", references)


class Registry:
    """The schemas by id."""

    def __init__(self, **schemas: RegisteredSchema) -> None:
        self.schemas = {int(name[1:]): schema for name, schema in schemas.items()}

    def by_id(self, number: int, form: str = "") -> RegisteredSchema | None:
        return self.schemas.get(number)


def test_the_spark_type_of_an_avro_schema() -> None:
    made = avro.AvroSchema(registered(NESTED), "x").spark_type()
    assert made.simpleString() == (
        "struct<id:bigint,note:string,price:decimal(9,2),at:timestamp,day:date,time:int,ref:string,kind:string,"
        "again:string,tags:map<string,array<int>>,mixed:string,number:double>"
    )


def test_avro_values_fit_their_type() -> None:
    import pyarrow as pa

    from kafkatools.pipeline.sources.spark_api import arrow_schema

    spark_type = avro.AvroSchema(registered(NESTED), "x").spark_type()
    decode = avro.AvroDecoder(registered(NESTED), None).start()
    value = decode(avro_body(NESTED, ORDER))
    (found,) = pa.array([value], pa.struct(arrow_schema(spark_type))).to_pylist()  # type: ignore[arg-type]
    expected = ORDER | {"time": 1000, "ref": str(ORDER["ref"]), "tags": [("x", [1, 2])], "mixed": "[1, 2]"}
    assert found == expected


def test_an_avro_value_is_read_by_the_schema_it_was_written_with() -> None:
    old = {"type": "record", "name": "R", "fields": [{"name": "a", "type": "int"}, {"name": "gone", "type": "string"}]}
    new = {
        "type": "record",
        "name": "R",
        "fields": [{"name": "a", "type": "long"}, {"name": "b", "type": "string", "default": "none"}],
    }
    registry: Any = Registry(_1=registered(old), _2=registered(new))
    decode = avro.AvroDecoder(registered(new), registry).start()
    assert decode(b"\0\0\0\0\1" + avro_body(old, {"a": 3, "gone": "x"})) == {"a": 3, "b": "none"}
    assert decode(b"\0\0\0\0\2" + avro_body(new, {"a": 4, "b": "y"})) == {"a": 4, "b": "y"}
    for bad, why in (
        (b"\1\0\0\0\1", "the value does not begin with a schema ID"),
        (b"\0\0\0\0\3x", "the registry has no schema 3"),
        (b"\0\0\0\0\2" + avro_body(new, {"a": 4, "b": "y"}) + b"z", "1 bytes are left over"),
        (b"\0\0\0\0\2\2", "EOFError"),
    ):
        with pytest.raises(ValueError, match=why):
            decode(bad)


def record(*fields: Any) -> Any:
    return {"type": "record", "name": "R", "fields": [{"name": name, **rest} for name, rest in fields]}


def test_values_of_a_later_schema_with_more_fields_are_marked() -> None:
    inner = {"type": {"type": "record", "name": "In", "fields": [{"name": "x", "type": "int"}]}}
    wider_inner = json.loads(json.dumps(inner))
    wider_inner["type"]["fields"].append({"name": "y", "type": "int"})
    plain = {"type": "int"}
    schemas = {
        1: (record(("a", plain), ("gone", plain), ("in", inner)), {"a": 1, "gone": 1, "in": {"x": 1}}, False),
        2: (record(("a", plain), ("in", inner)), {"a": 1, "in": {"x": 1}}, False),
        3: (record(("a", {"type": "long"}), ("in", inner)), {"a": 1, "in": {"x": 1}}, False),
        4: (record(("a", plain), ("in", inner), ("b", plain)), {"a": 1, "in": {"x": 1}, "b": 1}, True),
        5: (record(("a", plain), ("in", wider_inner)), {"a": 1, "in": {"x": 1, "y": 1}}, True),
    }
    registry: Any = Registry(**{f"_{number}": registered(schema) for number, (schema, _, _) in schemas.items()})
    reader = record(("a", {"type": "long"}), ("in", inner))
    decode = avro.AvroDecoder(registered(reader), registry, 2).start()
    for number, (schema, value, has_more) in schemas.items():
        data = b"\0\0\0\0" + bytes([number]) + avro_body(schema, value)
        assert decode(data) == {"a": 1, "in": {"x": 1}}, number
        assert decode.has_unknown_fields is not None and decode.has_unknown_fields(data) == has_more, number


def test_unknown_fields_are_looked_for_only_with_a_registry() -> None:
    registry: Any = Registry(_1=registered("int"))
    protobuf_decoder = protobuf.ProtobufDecoder(b"", None, is_framed=True)
    for decoder, finds in (
        (avro.AvroDecoder(registered("int"), registry), True),
        (avro.AvroDecoder(registered("int"), None), False),
        (protobuf_decoder, False),
    ):
        plan = Plan("value", "avro", None, decoder)
        assert plan.finds_unknown_fields == finds
        assert plan.mark_columns(strict=False) == ["__kt_bad_value", "__kt_unknown_fields_value"][: 1 + finds]
        if decoder is not protobuf_decoder:
            assert (decoder.start().has_unknown_fields is not None) == finds


class AwayRegistry(Registry):
    """Does not answer until the clock has reached a time."""

    def __init__(self, clock: ManualClock, back_ms: int, error: RegistryFailed) -> None:
        super().__init__(_1=registered("int"))
        self._clock, self._back_ms, self._error = clock, clock.now_ms() + back_ms, error

    def by_id(self, number: int, form: str = "") -> RegisteredSchema | None:
        if self._clock.now_ms() < self._back_ms:
            raise self._error
        return super().by_id(number, form)


class NoAnswer(RegistryFailed):
    is_temporary = True


def test_a_registry_that_does_not_answer_is_asked_again_for_a_minute() -> None:
    clock = ManualClock()
    registry: Any = AwayRegistry(clock, 59_000, NoAnswer("http://r does not answer"))
    assert avro.AvroDecoder(registered("int"), registry).start(clock)(b"\0\0\0\0\1\6") == 3
    registry = AwayRegistry(clock, 3_600_000, NoAnswer("http://r does not answer"))
    with pytest.raises(PipelineError) as failed:
        avro.AvroDecoder(registered("int"), registry).start(clock)(b"\0\0\0\0\1\6")
    assert str(failed.value) == (
        "Schema 1 could not be fetched in 60 s: http://r does not answer; check that the schema registry runs"
    )
    before_ms = clock.now_ms()
    registry = AwayRegistry(clock, 59_000, RegistryFailed("http://r: 401"))
    with pytest.raises(PipelineError, match="^http://r: 401$"):
        avro.AvroDecoder(registered("int"), registry).start(clock)(b"\0\0\0\0\1\6")
    assert clock.now_ms() == before_ms, "wrong credentials do not become right"


def test_an_avro_schema_file_reads_values_with_and_without_an_id_in_front() -> None:
    decode = avro.AvroDecoder(registered("string"), None).start()
    assert decode(avro_body("string", "abc")) == decode(b"\0\0\0\0\x09" + avro_body("string", "abc")) == "abc"
    with pytest.raises(ValueError):
        decode(b"abc")


def test_avro_schemas_that_refer_to_others_and_those_that_cannot_be() -> None:
    inner = {"type": "record", "name": "In", "namespace": "n", "fields": [{"name": "x", "type": "int"}]}
    outer = {"type": "record", "name": "Out", "namespace": "n", "fields": [{"name": "in", "type": "n.In"}]}
    reference = registered(outer, ("n.In", registered(inner)))
    assert avro.AvroSchema(reference, "x").spark_type().simpleString() == "struct<in:struct<x:int>>"
    assert avro.AvroDecoder(reference, None).start()(b"\x06") == {"in": {"x": 3}}
    with pytest.raises(PipelineError, match=r"file\.avsc is not a valid Avro schema: there is no type n\.In"):
        avro.AvroSchema(registered(outer), "file.avsc")
    tree = {"type": "record", "name": "T", "fields": [{"name": "next", "type": ["null", "T"]}]}
    with pytest.raises(PipelineError, match="The Avro record T contains itself"):
        avro.AvroSchema(registered(tree), "x").spark_type()
    with pytest.raises(PipelineError, match="is not a valid Avro schema"):
        avro.AvroSchema(RegisteredSchema("{", "AVRO"), "x")


PROTO = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/wrappers.proto";
message Other { int32 x = 1; }
message Order {
  int64 id = 1;
  optional string note = 2;
  uint64 big = 3;
  google.protobuf.Timestamp at = 4;
  google.protobuf.StringValue name = 5;
  Kind kind = 6;
  map<string, Line> lines = 7;
  repeated bytes raw = 8;
  Line first = 9;
  oneof choice { string text = 10; int32 number = 11; }
  message Line { uint32 count = 1; }
}
enum Kind { NONE = 0; SOME = 1; }
"""


@pytest.fixture(scope="module")
def descriptors(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("proto") / "order.proto"
    path.write_text(PROTO)
    return protobuf.read_descriptors(str(path))


def test_the_spark_type_of_a_message(descriptors: bytes) -> None:
    made = protobuf.ProtobufMessage(descriptors, "Order", "x").spark_type()
    assert made.simpleString() == (
        "struct<id:bigint,note:string,big:decimal(20,0),at:timestamp,name:string,kind:string,"
        "lines:map<string,struct<count:bigint>>,raw:array<binary>,first:struct<count:bigint>,text:string,number:int>"
    )
    assert protobuf.ProtobufMessage(descriptors, None, "x").spark_type().simpleString() == "struct<x:int>"
    with pytest.raises(PipelineError, match=r"x has no message Nix; its messages are shop\.Other, shop\.Order"):
        protobuf.ProtobufMessage(descriptors, "Nix", "x")


def test_protobuf_values(descriptors: bytes) -> None:
    message = protobuf.ProtobufMessage(descriptors, "shop.Order", "x")
    order = message.message_class(id=3, big=2**64 - 1, kind=1, raw=[b"a"], number=0)
    order.at.seconds, order.at.nanos = 5, 7000
    order.lines["k"].count = 4
    decode = protobuf.ProtobufDecoder(descriptors, "shop.Order", False).start()
    assert decode(order.SerializeToString()) == {
        "id": 3, "note": None, "big": decimal.Decimal(2**64 - 1), "at": 5_000_007, "name": None, "kind": "SOME",
        "lines": [("k", {"count": 4})], "raw": [b"a"], "first": None, "text": None, "number": 0,
    }  # fmt: skip
    with pytest.raises(ValueError):
        decode(b"\xff\xff")


def test_the_path_to_a_message_in_the_wire_format(descriptors: bytes) -> None:
    framed = protobuf.ProtobufDecoder(descriptors, "shop.Other", True).start()
    assert framed(b"\0\0\0\0\1\0\x08\x05") == {"x": 5}
    assert framed(b"\0\0\0\0\1\x02\0\x08\x05") == {"x": 5}
    with pytest.raises(ValueError, match=r"another message of the schema's file, with the index path \[1\]"):
        framed(b"\0\0\0\0\1\x02\x02\x08\x05")
    with pytest.raises(ValueError, match="the message index path is truncated"):
        framed(b"\0\0\0\0\1\xff")
    assert protobuf.ProtobufMessage(descriptors, "shop.Order.Line", "x").path() == [1, 0]


def test_a_registered_protobuf_schema_as_text_or_as_a_descriptor(descriptors: bytes) -> None:
    import base64

    from google.protobuf.descriptor_pb2 import FileDescriptorSet

    as_text = protobuf.descriptors_of(RegisteredSchema(PROTO, "PROTOBUF"), "x")
    file = FileDescriptorSet.FromString(descriptors).file[-1]
    as_base64 = base64.b64encode(file.SerializeToString()).decode()
    as_descriptor = protobuf.descriptors_of(RegisteredSchema(as_base64, "PROTOBUF"), "x")
    types = [protobuf.ProtobufMessage(one, "shop.Order", "x").spark_type() for one in (as_text, as_descriptor)]
    assert types[0] == types[1]
    with pytest.raises(PipelineError, match=r"^x: registered-schema\.proto:2:9: Expected message name"):
        protobuf.descriptors_of(RegisteredSchema('syntax = "proto3";\nmessage {', "PROTOBUF"), "x")
