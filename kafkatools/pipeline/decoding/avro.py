"""Avro decoding: the Spark type of an Avro schema, and values decoded by fastavro.

The types are those of Spark's Avro source: bytes and fixed become binary, enum and uuid become string, records become
structs; date, decimal, timestamp-millis/-micros and local-timestamp-* become Spark's date, decimal and timestamp types.
A union with null is nullable; a union of numbers becomes bigint or double. Any other union becomes a string: strings
unchanged, other values as JSON. Times of day, durations and nanosecond timestamps stay plain numbers or bytes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from pyspark.sql import types as T
from pyspark.sql.types import DataType

from kafkatools.core.clock import Clock, SystemClock
from kafkatools.pipeline.decoding.values import ValueDecoder
from kafkatools.pipeline.errors import PipelineError, schema_failures
from kafkatools.tools.schemas import avro_schema
from kafkatools.tools.schemas.avro_schema import Schema, decode_exactly
from kafkatools.tools.schemas.errors import RegistryFailed
from kafkatools.tools.schemas.registry import RegisteredSchema, SchemaRegistry
from kafkatools.tools.schemas.wire_format import HEADER_SIZE, schema_id

_PLAIN_LOGICAL_TYPES = ("time-millis", "time-micros", "duration", "timestamp-nanos", "local-timestamp-nanos")
_TIMESTAMPS = ("timestamp-millis", "timestamp-micros")
_LOCAL_TIMESTAMPS = ("local-timestamp-millis", "local-timestamp-micros")
_NUMBERS = ("int", "long", "float", "double")

REGISTRY_PATIENCE_MS = 60_000
"""How long a task asks a registry that does not answer."""
_REGISTRY_INTERVAL_MS = 1000

Shape = Callable[[Any], object]
"""Converts a value of fastavro to one that Arrow accepts."""


ensure_installed = schema_failures()(avro_schema.ensure_installed)


class AvroSchema(avro_schema.AvroSchema):
    """An Avro schema with its Spark type. Raises PipelineError that names `origin` if the schema is invalid."""

    def __init__(self, registered: RegisteredSchema, origin: str) -> None:
        with schema_failures():
            super().__init__(registered, origin, _PLAIN_LOGICAL_TYPES)

    def spark_type(self) -> DataType:
        """Return the Spark type of the decoded column. Raises PipelineError for a recursive record."""
        return _Types(self.named_schemas).of(self.parsed, ())

    def shaper(self) -> Shape | None:
        """Return a function that converts fastavro's values to values Arrow accepts; None if no conversion is
        needed."""
        return _Types(self.named_schemas).shaper(self.parsed)

    def field_paths(self) -> frozenset[tuple[str, ...]]:
        """Return the paths of all fields, also of nested records, with the aliases of each."""
        return frozenset(_Types(self.named_schemas).field_paths(self.parsed, (), ()))


class _Types:
    def __init__(self, named_schemas: Mapping[str, dict[str, Schema]]) -> None:
        self._named_schemas = named_schemas

    def of(self, schema: Schema, inside: tuple[str, ...]) -> DataType:
        if isinstance(schema, list):
            return self._union(schema, inside)
        schema = self._resolve(schema)
        kind = schema["type"]
        if kind in ("record", "error"):
            name = schema["name"]
            if name in inside:
                raise PipelineError(f"The Avro record {name} contains itself: Spark has no recursive types")
            return T.StructType(
                [T.StructField(field["name"], self.of(field["type"], (*inside, name))) for field in schema["fields"]]
            )
        if kind == "array":
            return T.ArrayType(self.of(schema["items"], inside))
        if kind == "map":
            return T.MapType(T.StringType(), self.of(schema["values"], inside))
        return self._logical(schema) or self._plain(kind)

    def _resolve(self, schema: Schema) -> dict[str, Schema]:
        """Replace a type name by its definition and unwrap {"type": {...}}."""
        if isinstance(schema, str):
            schema = self._named_schemas.get(schema, {"type": schema})
        while isinstance(schema["type"], dict):
            schema = schema["type"]
        if isinstance(schema["type"], str) and schema["type"] in self._named_schemas:
            return self._resolve(schema["type"])
        definition: dict[str, Schema] = schema
        return definition

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
        return [member for member in union if self._resolve(member)["type"] != "null"]

    def field_paths(self, schema: Schema, path: tuple[str, ...], inside: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        """Yield the path of each field below a schema at `path`; those of a record within itself once."""
        if isinstance(schema, list):
            for member in schema:
                yield from self.field_paths(member, path, inside)
            return
        schema = self._resolve(schema)
        if schema["type"] in ("array", "map"):
            yield from self.field_paths(schema.get("items", schema.get("values")), path, inside)
        elif schema["type"] in ("record", "error") and schema["name"] not in inside:
            for field in schema["fields"]:
                for name in (field["name"], *field.get("aliases", ())):
                    yield (*path, name)
                    yield from self.field_paths(field["type"], (*path, name), (*inside, schema["name"]))

    def _union(self, union: list[Schema], inside: tuple[str, ...]) -> DataType:
        members = self._members(union)
        if len(members) == 1:
            return self.of(members[0], inside)
        if not members:
            return T.NullType()
        kinds = {str(self._resolve(member)["type"]) for member in members}
        if kinds <= set(_NUMBERS):
            return T.LongType() if kinds <= {"int", "long"} else T.DoubleType()
        return T.StringType()

    # -- values --

    def shaper(self, schema: Schema) -> Shape | None:
        """Return a function that converts a fastavro value for Arrow; None if the value needs no conversion. Unions of
        several non-numeric types and UUIDs become strings, maps become lists of pairs."""
        if isinstance(schema, list):
            members = self._members(schema)
            if len(members) == 1:
                return _nullable(self.shaper(members[0]))
            kinds = {str(self._resolve(member)["type"]) for member in members}
            return None if kinds <= set(_NUMBERS) else _as_text
        schema = self._resolve(schema)
        kind = schema["type"]
        if kind in ("record", "error"):
            inner = {field["name"]: self.shaper(field["type"]) for field in schema["fields"]}
            shapes = {name: shape for name, shape in inner.items() if shape is not None}
            return (lambda value: {**value, **{n: f(value[n]) for n, f in shapes.items()}}) if shapes else None
        if kind == "array":
            item = self.shaper(schema["items"])
            return None if item is None else lambda value: [item(element) for element in value]
        if kind == "map":
            shape = self.shaper(schema["values"])
            return lambda value: [(key, element if shape is None else shape(element)) for key, element in value.items()]
        return str if schema.get("logicalType") == "uuid" else None


def _nullable(shape: Shape | None) -> Shape | None:
    return None if shape is None else lambda value: None if value is None else shape(value)


def _as_text(value: object) -> str | None:
    return value if value is None or isinstance(value, str) else json.dumps(value, default=_json_default)


def _json_default(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


class AvroDecoder:
    """Decodes Avro values to the reader schema on the executors. With a registry, each value starts with the ID of its
    writer schema. Without one, the reader schema is also the writer schema, and a header with a schema ID is skipped if
    the value cannot be decoded with it. A registry that does not answer is asked again for a minute. `reader_id`: the
    reader schema's ID, None for a file; `has_unknown_fields` is about values of later schemas only."""

    def __init__(self, reader: RegisteredSchema, registry: SchemaRegistry | None, reader_id: int | None = None) -> None:
        self._reader = reader
        self._registry = registry
        self._reader_id = reader_id or 0

    @property
    def finds_unknown_fields(self) -> bool:
        """Return whether writer schemas are compared with the reader schema, which needs a registry."""
        return self._registry is not None

    def start(self, clock: Clock | None = None) -> ValueDecoder:
        """Return a decoder of values. With a registry it also fetches writer schemas, and raises PipelineError if the
        registry fails or a schema is invalid. Raises PipelineError if fastavro is missing."""
        ensure_installed()
        reader = AvroSchema(self._reader, "the schema")
        shape = reader.shaper()
        if self._registry is None:
            local = reader.parsed
            return ValueDecoder(lambda data: _shaped(_decode_local(data, local), shape))
        writers = _Writers(self._registry, reader.field_paths(), self._reader_id, clock or SystemClock())

        def decode(data: bytes) -> object:
            return _shaped(decode_exactly(data, HEADER_SIZE, writers.of(data), reader.parsed), shape)

        return ValueDecoder(decode, writers.has_unknown_fields)


def _shaped(value: object, shape: Shape | None) -> object:
    return value if shape is None or value is None else shape(value)


class _Writers:
    """The writer schemas of a task's values, by the ID with which each value begins."""

    def __init__(
        self, registry: SchemaRegistry, fields: frozenset[tuple[str, ...]], reader_id: int, clock: Clock
    ) -> None:
        self._registry = registry
        self._fields = fields
        self._reader_id = reader_id
        self._clock = clock
        self._schemas: dict[int, AvroSchema | None] = {}
        self._with_unknown_fields: set[int] = set()

    def of(self, data: bytes) -> Schema:
        """Return the writer schema of a value. Raises ValueError without an ID or schema, PipelineError if the registry
        fails."""
        number = schema_id(data)
        if number is None:
            raise ValueError("the value does not begin with a schema ID")
        if number not in self._schemas:
            with schema_failures():
                registered = self._fetch(number)
            schema = None if registered is None else AvroSchema(registered, f"schema {number}")
            self._schemas[number] = schema
            if schema is not None and number > self._reader_id and not schema.field_paths() <= self._fields:
                self._with_unknown_fields.add(number)
        schema = self._schemas[number]
        if schema is None:
            raise ValueError(f"the registry has no schema {number}")
        return schema.parsed

    def has_unknown_fields(self, data: bytes) -> bool:
        """Return whether a decoded value was written by a later schema, with fields that the reader schema lacks."""
        return bool(self._with_unknown_fields) and schema_id(data) in self._with_unknown_fields

    def _fetch(self, number: int) -> RegisteredSchema | None:
        """Fetch a schema, for up to a minute if the registry does not answer. Each task fetches its schemas anew, so
        otherwise the restart of a registry would end the streams that read at that moment."""
        started_ms = self._clock.now_ms()
        while True:
            try:
                return self._registry.by_id(number)
            except RegistryFailed as error:
                waited_ms = self._clock.now_ms() - started_ms
                if not error.is_temporary:
                    raise
                if waited_ms >= REGISTRY_PATIENCE_MS:
                    raise PipelineError(
                        f"Schema {number} could not be fetched in {waited_ms // 1000} s: {error}; "
                        "check that the schema registry runs"
                    ) from error
            self._clock.sleep_ms(_REGISTRY_INTERVAL_MS)


def _decode_local(data: bytes, schema: Schema) -> object:
    """Decode plain Avro bytes; if that fails and the value has a wire-format header, decode the bytes after the
    header."""
    try:
        return decode_exactly(data, 0, schema, None)
    except ValueError:
        if schema_id(data) is None:
            raise
        return decode_exactly(data, HEADER_SIZE, schema, None)
