"""Decoding of keys and values from bytes to columns: string, JSON, Avro and Protobuf.

Rules: the decoded column replaces `key` or `value`. A value that cannot be decoded becomes null and is counted; with
`strict` it fails the run and the error names its topic, partition and offset. Spark decodes strings and JSON. Python
libraries decode Avro and Protobuf on the executors, one Arrow batch at a time. If no schema was specified, a bounded
sample of values provides it: the fields and types of JSON objects, or the newest schema ID in the values.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Protocol

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.types import DataType, StructType

from kafkatools.core.json_texts import parse_json
from kafkatools.pipeline.decoding import avro, protobuf
from kafkatools.pipeline.decoding.values import ValueDecoder
from kafkatools.pipeline.errors import PipelineError, schema_failures
from kafkatools.pipeline.run.session import plain_error
from kafkatools.pipeline.run.spec import Decoding
from kafkatools.pipeline.sources.spark_api import arrow_schema
from kafkatools.pipeline.storage import read_text
from kafkatools.tools.schemas.access import RegistryAccess, basic_authorization
from kafkatools.tools.schemas.registry import RegisteredSchema, SchemaRegistry
from kafkatools.tools.schemas.wire_format import schema_id

SAMPLE_RECORDS = 1000
_SAMPLE_VALUE_BYTES = 1 << 16
_SAMPLE_BYTES = 1 << 22
_CORRUPT = "__kt_corrupt"
_WHOLE = "__kt_whole"
_NOT_OF_TYPE = (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, TypeError)
"""Exceptions of pyarrow for a value that its type cannot hold."""

Sample = Callable[[str], "list[bytes]"]
"""A bounded sample of `key` or `value`, without nulls."""


class Decoder(Protocol):
    """A decoder that can be pickled and sent to the executors."""

    @property
    def finds_unknown_fields(self) -> bool:
        """Return whether decoders have `has_unknown_fields`."""

    def start(self) -> ValueDecoder:
        """Return a decoder of values. Raises PipelineError if the library is missing."""


class Plan(NamedTuple):
    """The decoding of the column `part` ("key" or "value") of a table. `decoder` is set for Avro and Protobuf;
    otherwise Spark decodes JSON as `type`, or a string if `type` is None."""

    part: str
    format: str
    type: DataType | None = None
    decoder: Decoder | None = None

    @property
    def bad_column(self) -> str:
        """The name of the Boolean column that marks values which could not be decoded."""
        return f"__kt_bad_{self.part}"

    @property
    def unknown_fields_column(self) -> str:
        """The name of the Boolean column that marks values with fields that the decoded column lacks."""
        return f"__kt_unknown_fields_{self.part}"

    @property
    def finds_unknown_fields(self) -> bool:
        """Return whether values with fields that the decoded column lacks are marked."""
        return self.decoder is not None and self.decoder.finds_unknown_fields

    def mark_columns(self, *, strict: bool) -> list[str]:
        """Return the Boolean columns that `decode` adds to a table."""
        return ([] if strict else [self.bad_column]) + (
            [self.unknown_fields_column] if self.finds_unknown_fields else []
        )


def plan_decoding(spark: SparkSession, part: str, decoding: Decoding, sample: Sample, subject: str | None) -> Plan:
    """Find the schema of a key or value column: from a schema file, a schema registry, or a sample of JSON values.
    `sample` is called only without a schema file; strings need no schema. `subject` is the registry subject whose
    newest schema is used if the sample contains no schema ID (None: none is).

    Raises PipelineError if there is no usable schema, a library is missing or the registry fails.
    """
    if decoding.format == "string":
        return Plan(part, "string")
    if decoding.format == "json":
        schema = _read_spark_schema(decoding.schema) if decoding.schema else _infer_schema(spark, part, sample)
        return Plan(part, "json", schema)
    registry = _registry(decoding)
    if decoding.format == "avro":
        return _avro(part, decoding, registry, sample, subject)
    return _protobuf(part, decoding, registry, sample, subject)


def _registry(decoding: Decoding) -> SchemaRegistry | None:
    if decoding.registry is None:
        return None
    authorization = basic_authorization(*decoding.credentials) if decoding.credentials else None
    return SchemaRegistry(RegistryAccess((decoding.registry,), authorization))


def decode(table: DataFrame, plan: Plan, *, strict: bool) -> DataFrame:
    """Return the table with the column of `plan` decoded; a table without that column is returned unchanged. Values
    that cannot be decoded become null, marked in `plan.bad_column`. With `strict` they fail the query instead, and
    there is no such column. Columns that mark values are `plan.mark_columns`."""
    if plan.part not in table.columns:
        return table
    result = _by_library(table, plan) if plan.decoder is not None else _by_spark(table, plan)
    return _fail_on_bad_values(result, plan) if strict else result


def _fail_on_bad_values(table: DataFrame, plan: Plan) -> DataFrame:
    message = F.concat(
        F.lit(f"PipelineError: the {plan.part} of "), F.col("topic"), F.lit("-"), F.col("partition"),
        F.lit(" at offset "), F.col("offset"), F.lit(f" cannot be decoded as {plan.format}"),
    )  # fmt: skip
    failure = F.raise_error(message)
    column = F.when(F.col(plan.bad_column), failure.cast(table.schema[plan.part].dataType)).otherwise(F.col(plan.part))
    return table.withColumn(plan.part, column).drop(plan.bad_column)


# -- By Spark --


def _by_spark(table: DataFrame, plan: Plan) -> DataFrame:
    text = F.col(plan.part).cast("string")
    is_text = F.is_valid_utf8(text)
    if plan.type is None:
        bad = F.col(plan.part).isNotNull() & ~is_text
        return _with(table, plan, F.when(is_text, text), bad)
    # The text is parsed as the only item of an array: parsed alone, Spark would ignore whatever follows its first
    # value, and as a field of an object, further fields.
    whole = F.concat(F.lit(f'{{"{_WHOLE}":['), F.when(is_text, text), F.lit("]}"))
    fields = T.StructType([T.StructField(_WHOLE, T.ArrayType(plan.type)), T.StructField(_CORRUPT, T.StringType())])
    parsed = F.from_json(whole, fields, {"columnNameOfCorruptRecord": _CORRUPT})
    table = table.withColumn("__kt_parsed", parsed)
    items = F.col(f"__kt_parsed.{_WHOLE}")
    value = F.get(items, F.lit(0))
    is_whole = (F.size(items) == 1) & F.col(f"__kt_parsed.{_CORRUPT}").isNull()
    is_sound = F.coalesce(is_text & is_whole & value.isNotNull(), F.lit(False))
    bad = F.col(plan.part).isNotNull() & ~is_sound
    return _with(table, plan, F.when(is_sound, value), bad).drop("__kt_parsed")


def _with(table: DataFrame, plan: Plan, column: Column, bad: Column) -> DataFrame:
    """Add the decoded and the bad column in one step: the bad column depends on the bytes that decoding replaces."""
    return table.withColumns({plan.part: column, plan.bad_column: bad})


def _read_spark_schema(path: str) -> DataType:
    """Read a file with a Spark struct schema, as JSON or as DDL (`a INT, b STRUCT<c: STRING>`). Raises PipelineError if
    the file cannot be read or does not contain a struct."""
    text = read_text(path).strip()
    try:
        schema = T.StructType.fromJson(json.loads(text)) if text.startswith("{") else T.StructType.fromDDL(text)
    except (KeyError, TypeError, ValueError):
        raise PipelineError(f"{path} is not a Spark schema: neither the JSON nor the DDL of a struct") from None
    except Exception as error:
        raise PipelineError(f"{path} is not a Spark schema: {plain_error(error)}") from error
    if not isinstance(schema, T.StructType):
        raise PipelineError(f"{path} is not the schema of a JSON object: it describes {schema.simpleString()}")
    return schema


def _infer_schema(spark: SparkSession, part: str, sample: Sample) -> DataType:
    """Infer a struct type from a sample of JSON objects with Spark's `schema_of_json`. Raises PipelineError if the
    sample has no JSON object, the objects have no fields, or two fields differ only in case."""
    objects = list(_objects(sample(part)))
    if not objects:
        raise PipelineError(
            f"No schema can be inferred: none of the first {SAMPLE_RECORDS} {part}s is a JSON object; "
            f"specify --{part}-schema"
        )
    row = spark.range(1).select(F.schema_of_json(F.lit(f"[{','.join(objects)}]"))).first()
    assert row is not None
    array = spark.sql(f"SELECT CAST(NULL AS {row[0]}) AS x").schema["x"].dataType
    assert isinstance(array, T.ArrayType)
    if not isinstance(array.elementType, T.StructType) or not array.elementType.fields:
        raise PipelineError(
            f"No schema can be inferred: the JSON objects among the first {SAMPLE_RECORDS} {part}s have no fields"
        )
    _ensure_distinct(spark, part, array.elementType)
    return array.elementType


def _ensure_distinct(spark: SparkSession, part: str, schema: StructType) -> None:
    """Raise PipelineError if two top-level fields differ only in case, unless spark.sql.caseSensitive is true."""
    if spark.conf.get("spark.sql.caseSensitive") == "true":
        return
    first: dict[str, str] = {}
    for name in schema.fieldNames():
        other = first.setdefault(name.lower(), name)
        if other != name:
            raise PipelineError(
                f"JSON {part}s have the fields {other} and {name}, which differ only in case: "
                f"set --conf spark.sql.caseSensitive=true, or name one of them in --{part}-schema"
            )


def _objects(values: Sequence[bytes]) -> Iterator[str]:
    """Yield the JSON objects among the values as texts, until 4 MiB of JSON values have been read."""
    remaining_bytes = _SAMPLE_BYTES
    for value in values:
        try:
            text = value.decode("utf-8")
            is_object = isinstance(parse_json(text), dict)
        except ValueError:
            continue
        remaining_bytes -= len(value)
        if remaining_bytes < 0:
            return
        if is_object:
            yield text


def take_sample(table: DataFrame, part: str) -> list[bytes]:
    """Read and return up to 1000 non-null values of the column `part` that have at most 64 KiB each."""
    small = table.select(part).where(F.col(part).isNotNull() & (F.octet_length(part) <= _SAMPLE_VALUE_BYTES))
    return [bytes(row[0]) for row in small.limit(SAMPLE_RECORDS).collect()]


# -- By libraries --


def _by_library(table: DataFrame, plan: Plan) -> DataFrame:
    assert plan.decoder is not None and plan.type is not None
    fields = [
        T.StructField(plan.part, plan.type) if field.name == plan.part else field for field in table.schema.fields
    ]
    marks = [T.StructField(name, T.BooleanType()) for name in plan.mark_columns(strict=False)]
    schema = T.StructType([*fields, *marks])
    place = table.columns.index(plan.part)
    return table.mapInArrow(_ArrowStep(plan.decoder, place, arrow_schema(schema)), schema)


class _ArrowStep:
    """A `mapInArrow` function that decodes one column of each record batch, and appends the columns that mark bad
    values and, if the decoder finds them, those with unknown fields."""

    def __init__(self, decoder: Decoder, place: int, schema: pa.Schema) -> None:
        self._decoder = decoder
        self._place = place
        self._schema = schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        decode = self._decoder.start()
        finds = decode.has_unknown_fields
        for batch in batches:
            values, bad, unknown_fields = [], [], []
            for data in batch.column(self._place).to_pylist():
                value, failed, has_unknown_fields = None, False, False
                if data is not None:
                    try:
                        value = decode(data)
                        has_unknown_fields = finds is not None and finds(data)
                    except ValueError:
                        failed = True
                values.append(value)
                bad.append(failed)
                unknown_fields.append(has_unknown_fields)
            columns = batch.columns
            columns[self._place] = _as_arrow(values, bad, self._schema.field(self._place).type)
            columns = [column.cast(field.type) for column, field in zip(columns, self._schema, strict=False)]
            marks = [pa.array(bad, pa.bool_())]
            if finds is not None:
                marks.append(pa.array(unknown_fields, pa.bool_()))
            yield pa.RecordBatch.from_arrays([*columns, *marks], schema=self._schema)


def _as_arrow(values: list[object], bad: list[bool], data_type: pa.DataType) -> pa.Array:
    """Convert decoded values to an Arrow array. A value that does not fit `data_type` becomes null, also in `values`,
    and is marked in `bad`."""
    try:
        return pa.array(values, data_type)
    except _NOT_OF_TYPE:
        for row, value in enumerate(values):
            try:
                pa.array([value], data_type)
            except _NOT_OF_TYPE:
                values[row], bad[row] = None, True
        return pa.array(values, data_type)


def _avro(part: str, decoding: Decoding, registry: SchemaRegistry | None, sample: Sample, subject: str | None) -> Plan:
    avro.ensure_installed()
    number: int | None = None
    if decoding.schema:
        origin, reader = decoding.schema, RegisteredSchema(read_text(decoding.schema), "AVRO")
    else:
        assert registry is not None
        with schema_failures():
            origin, reader, number = _newest_avro(part, registry, sample, subject)
    spark_type = avro.AvroSchema(reader, origin).spark_type()
    return Plan(part, "avro", spark_type, avro.AvroDecoder(reader, registry, number))


class _Newest(NamedTuple):
    """A registered schema: its name for errors, the schema and its ID."""

    origin: str
    schema: RegisteredSchema
    number: int


def _newest_avro(part: str, registry: SchemaRegistry, sample: Sample, subject: str | None) -> _Newest:
    """Return `_newest`, or the newest schema of `subject` if that can read each schema in the sample: the sample holds
    the topic's first values, which do not name the schemas of later ones."""
    values = sample(part)
    newest = _newest(part, registry, lambda _: values, subject, "AVRO", "")
    number = None if subject is None else registry.newest_id(subject)
    registered = None if number is None else registry.by_id(number)
    if number is None or registered is None or registered.kind != "AVRO":
        return newest
    by_id = {schema_id(value): value for value in values}
    try:
        decode = avro.AvroDecoder(registered, registry).start()
        for value in by_id.values():
            if registry.by_id(schema_id(value) or 0) is not None:
                decode(value)
    except (ValueError, PipelineError):
        return newest
    return _Newest(f"{registry.url} schema {number}", registered, number)


def _protobuf(
    part: str, decoding: Decoding, registry: SchemaRegistry | None, sample: Sample, subject: str | None
) -> Plan:
    protobuf.ensure_installed()
    if decoding.schema:
        origin, descriptors = decoding.schema, protobuf.read_descriptors(decoding.schema)
    else:
        assert registry is not None
        with schema_failures():
            origin, registered, _ = _newest(part, registry, sample, subject, "PROTOBUF", "serialized")
        descriptors = protobuf.descriptors_of(registered, origin)
    message = protobuf.ProtobufMessage(descriptors, decoding.message, origin)
    decoder = protobuf.ProtobufDecoder(descriptors, message.descriptor.full_name, registry is not None)
    return Plan(part, "protobuf", message.spark_type(), decoder)


def _newest(part: str, registry: SchemaRegistry, sample: Sample, subject: str | None, kind: str, form: str) -> _Newest:
    """Return a name for errors, and the registered schema with the highest known ID in the sample, or the newest of
    `subject` if the sample has no ID. `kind` is the required schema type (AVRO or PROTOBUF), `form` the format
    parameter of the registry request. Raises PipelineError if no schema is found, its type differs or the registry
    fails."""
    ids = {number for value in sample(part) if (number := schema_id(value)) is not None}
    if not ids and subject is not None and (newest := registry.newest_id(subject)) is not None:
        ids = {newest}
    for number in sorted(ids, reverse=True):
        registered = registry.by_id(number, form)
        if registered is not None:
            if registered.kind != kind:
                raise PipelineError(f"Schema {number} of {registry.url} is {registered.kind}, not {kind}")
            return _Newest(f"{registry.url} schema {number}", registered, number)
    raise PipelineError(
        f"None of the first {SAMPLE_RECORDS} {part}s starts with the ID of a schema in {registry.url}; "
        f"specify --{part}-schema"
    )
