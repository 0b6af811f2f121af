"""Avro: the Spark type of a schema, and values decoded by fastavro.

Types are those of Spark's own Avro source: int and long, float and double, string, bytes and fixed as binary, enum as
string, record as struct, array, map; date, decimal, timestamp-millis and -micros, local-timestamp-..., uuid as string.
A union with null is nullable, one of numbers the widest of them; any other union is a text: a string as it is, the rest
as JSON. Times of day and durations stay the numbers and bytes that they are.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Mapping
from typing import Any

from pyspark.sql import types as T
from pyspark.sql.types import DataType

from kafkatools.pipeline.decoding.schema_registry import HEADER_SIZE, RegisteredSchema, SchemaRegistry, schema_id
from kafkatools.pipeline.errors import PipelineError

_NOT_KEPT = ("time-millis", "time-micros", "duration", "timestamp-nanos", "local-timestamp-nanos")
_TIMESTAMPS = ("timestamp-millis", "timestamp-micros")
_LOCAL_TIMESTAMPS = ("local-timestamp-millis", "local-timestamp-micros")
_NUMBERS = ("int", "long", "float", "double")

Schema = Any
"""A schema as JSON has it and as fastavro parses it: the name of a type, a union, or the description of a type."""

Shape = Callable[[Any], object]
"""Makes of one value of fastavro's what Arrow takes."""


def ensure_installed() -> None:
    """PipelineError when fastavro is not there."""
    from importlib.util import find_spec

    if find_spec("fastavro") is None:
        raise PipelineError("Avro needs the Python package fastavro: pip install 'kafkatools[avro]'")


def read_schema(path: str) -> RegisteredSchema:
    try:
        with open(path, encoding="utf-8") as file:
            return RegisteredSchema(file.read(), "AVRO")
    except (OSError, UnicodeDecodeError) as error:
        raise PipelineError(f"{path}: {getattr(error, 'strerror', None) or error}") from None


class AvroSchema:
    """A schema as fastavro and Spark take it."""

    def __init__(self, registered: RegisteredSchema, where: str) -> None:
        from fastavro.schema import SchemaParseException, UnknownType, parse_schema

        self._named: dict[str, dict[str, Schema]] = {}
        try:
            for _, reference in registered.references:
                self._add(reference)
            text = _without_logical(json.loads(registered.text))
            self.parsed: Schema = parse_schema(text, named_schemas=self._named)
        except UnknownType as error:
            raise PipelineError(f"{where} is no Avro schema: there is no type {error.name}") from None
        except (ValueError, SchemaParseException) as error:
            raise PipelineError(f"{where} is no Avro schema: {error}") from None

    def _add(self, registered: RegisteredSchema) -> None:
        from fastavro.schema import parse_schema

        for _, reference in registered.references:
            self._add(reference)
        parse_schema(_without_logical(json.loads(registered.text)), named_schemas=self._named)

    def spark_type(self) -> DataType:
        """The type of the column."""
        return _Types(self._named).of(self.parsed, ())

    def shaper(self) -> Shape | None:
        """What makes of fastavro's values those that Arrow takes; None when they are the same."""
        return _Types(self._named).shaper(self.parsed)


def _without_logical(schema: Schema) -> Schema:
    """The schema without logical types that Spark has no type for."""
    if isinstance(schema, list):
        return [_without_logical(one) for one in schema]
    if isinstance(schema, dict):
        return {
            key: _without_logical(value) if key in ("type", "items", "values", "fields") else value
            for key, value in schema.items()
            if not (key == "logicalType" and value in _NOT_KEPT)
        }
    return schema


class _Types:
    def __init__(self, named: Mapping[str, dict[str, Schema]]) -> None:
        self._named = named

    def of(self, schema: Schema, inside: tuple[str, ...]) -> DataType:
        if isinstance(schema, list):
            return self._union(schema, inside)
        schema = self._resolved(schema)
        kind = schema["type"]
        if kind in ("record", "error"):
            name = schema["name"]
            if name in inside:
                raise PipelineError(f"The Avro record {name} is within itself: Spark has no type for that")
            return T.StructType(
                [T.StructField(one["name"], self.of(one["type"], (*inside, name))) for one in schema["fields"]]
            )
        if kind == "array":
            return T.ArrayType(self.of(schema["items"], inside))
        if kind == "map":
            return T.MapType(T.StringType(), self.of(schema["values"], inside))
        return self._logical(schema) or self._plain(kind)

    def _resolved(self, schema: Schema) -> dict[str, Schema]:
        """A name as what it stands for; {"type": {...}} as what is inside."""
        if isinstance(schema, str):
            schema = self._named.get(schema, {"type": schema})
        while isinstance(schema["type"], dict):
            schema = schema["type"]
        if isinstance(schema["type"], str) and schema["type"] in self._named:
            return self._resolved(schema["type"])
        found: dict[str, Schema] = schema
        return found

    def _logical(self, schema: Mapping[str, Schema]) -> DataType | None:
        logical = schema.get("logicalType")
        if logical == "decimal":
            return T.DecimalType(int(schema["precision"]), int(schema.get("scale", 0)))
        if logical == "date":
            return T.DateType()
        if logical in _TIMESTAMPS:
            return T.TimestampType()
        if logical in _LOCAL_TIMESTAMPS:
            return T.TimestampNTZType()
        return T.StringType() if logical == "uuid" else None

    def _plain(self, kind: str) -> DataType:
        types: dict[str, DataType] = {
            "null": T.NullType(), "boolean": T.BooleanType(), "int": T.IntegerType(), "long": T.LongType(),
            "float": T.FloatType(), "double": T.DoubleType(), "bytes": T.BinaryType(), "fixed": T.BinaryType(),
            "string": T.StringType(), "enum": T.StringType(),
        }  # fmt: skip
        return types[kind]

    def _members(self, union: list[Schema]) -> list[Schema]:
        return [one for one in union if self._resolved(one)["type"] != "null"]

    def _union(self, union: list[Schema], inside: tuple[str, ...]) -> DataType:
        members = self._members(union)
        if len(members) == 1:
            return self.of(members[0], inside)
        if not members:
            return T.NullType()
        kinds = {str(self._resolved(one)["type"]) for one in members}
        if kinds <= set(_NUMBERS):
            return T.LongType() if kinds <= {"int", "long"} else T.DoubleType()
        return T.StringType()

    # -- values --

    def shaper(self, schema: Schema) -> Shape | None:
        """What turns a value into Arrow's; None: it is that already. Unions of several types are texts, uuids too."""
        if isinstance(schema, list):
            members = self._members(schema)
            if len(members) == 1:
                return _nullable(self.shaper(members[0]))
            kinds = {str(self._resolved(one)["type"]) for one in members}
            return None if kinds <= set(_NUMBERS) else _as_text
        schema = self._resolved(schema)
        kind = schema["type"]
        if kind in ("record", "error"):
            inner = {one["name"]: self.shaper(one["type"]) for one in schema["fields"]}
            needed = {name: each for name, each in inner.items() if each is not None}
            return (lambda value: {**value, **{n: f(value[n]) for n, f in needed.items()}}) if needed else None
        if kind == "array":
            item = self.shaper(schema["items"])
            return None if item is None else lambda value: [item(one) for one in value]
        if kind == "map":
            each = self.shaper(schema["values"])
            return lambda value: [(key, one if each is None else each(one)) for key, one in value.items()]
        return str if schema.get("logicalType") == "uuid" else None


def _nullable(shape: Shape | None) -> Shape | None:
    return None if shape is None else lambda value: None if value is None else shape(value)


def _as_text(value: object) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value, default=_json_default)


def _json_default(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


class AvroDecoder:
    """Bytes to values of the reader's schema; on the executors. With a registry each value names its writer's."""

    def __init__(self, reader: RegisteredSchema, registry: SchemaRegistry | None) -> None:
        self._reader = reader
        self._registry = registry

    def start(self) -> Callable[[bytes], object]:
        """The function that decodes; ValueError for what cannot be decoded."""
        ensure_installed()
        reader = AvroSchema(self._reader, "the schema")
        shape = reader.shaper()
        writers: dict[int, Schema] = {}

        def decode(data: bytes) -> object:
            if self._registry is None:
                value = _decode_local(data, reader.parsed)
            else:
                value = _decode_exactly(data, HEADER_SIZE, self._writer(data, writers), reader.parsed)
            return value if shape is None or value is None else shape(value)

        return decode

    def _writer(self, data: bytes, known: dict[int, Schema]) -> Schema:
        number = schema_id(data)
        if number is None:
            raise ValueError("it does not begin with a schema's id")
        if number not in known:
            assert self._registry is not None
            found = self._registry.by_id(number)
            known[number] = None if found is None else AvroSchema(found, f"schema {number}").parsed
        if known[number] is None:
            raise ValueError(f"the registry has no schema {number}")
        return known[number]


def _decode_local(data: bytes, schema: Schema) -> object:
    """Avro's bytes alone, or behind the wire format's five."""
    try:
        return _decode_exactly(data, 0, schema, None)
    except ValueError:
        if schema_id(data) is None:
            raise
        return _decode_exactly(data, HEADER_SIZE, schema, None)


def _decode_exactly(data: bytes, start: int, writer: Schema, reader: Schema) -> object:
    from fastavro import schemaless_reader

    stream = io.BytesIO(data)
    stream.seek(start)
    try:
        value = schemaless_reader(stream, writer, reader)
    except Exception as error:  # fastavro raises whatever its bytes lead to
        raise ValueError(f"{type(error).__name__}: {error}") from error
    if stream.tell() != len(data):
        raise ValueError(f"{len(data) - stream.tell()} bytes are left over")
    return value
