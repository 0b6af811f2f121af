"""Keys and values from bytes to columns: string, json, avro, protobuf.

Rules: the decoded column takes the place of `key` or `value`. What cannot be decoded is null and is counted, or with
`strict` ends the run with its topic, partition and offset. Strings and JSON are decoded by Spark itself; the others by
their libraries on the executors, batch by batch through Arrow. A schema that nobody gave is found in a bounded sample:
for JSON the fields and types of its values, for the others the newest of the schemas that they name.
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

from kafkatools.pipeline.decoding.schema_registry import RegisteredSchema, SchemaRegistry, schema_id
from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.run.session import plain_error
from kafkatools.pipeline.run.spec import Decoding

SAMPLE_RECORDS = 1000
_SAMPLE_VALUE_BYTES = 1 << 16
_SAMPLE_BYTES = 1 << 22
_CORRUPT = "__kt_corrupt"
_WHOLE = "__kt_whole"

Sample = Callable[[str], "list[bytes]"]
"""A bounded sample of `key` or `value`, without nulls."""


class Decoder(Protocol):
    """What goes to the executors."""

    def start(self) -> Callable[[bytes], object]:
        """The function that decodes one value; ValueError for what cannot be decoded."""


class Plan(NamedTuple):
    """How one column is decoded, its schema known: by Spark (`type` of JSON, None for strings) or by `decoder`."""

    part: str
    format: str
    type: DataType | None = None
    decoder: Decoder | None = None

    @property
    def bad_column(self) -> str:
        """The column that says whether a value could not be decoded."""
        return f"__kt_bad_{self.part}"


def plan_decoding(spark: SparkSession, part: str, decoding: Decoding, sample: Sample, subject: str | None) -> Plan:
    """Finds the schema. `subject`: where a registry has the newest schema when there is no value to look at."""
    if decoding.format == "string":
        return Plan(part, "string")
    if decoding.format == "json":
        made = _read_spark_schema(decoding.schema) if decoding.schema else _inferred(spark, part, sample)
        return Plan(part, "json", made)
    registry = SchemaRegistry(decoding.registry, decoding.credentials) if decoding.registry else None
    if decoding.format == "avro":
        return _avro(part, decoding, registry, sample, subject)
    return _protobuf(part, decoding, registry, sample, subject)


def decode(table: DataFrame, plan: Plan, *, strict: bool) -> DataFrame:
    """The table with the column decoded; unless `strict`, with one more that says of each row whether it was bad."""
    if plan.part not in table.columns:
        return table
    decoded = _by_library(table, plan) if plan.decoder is not None else _by_spark(table, plan)
    return _failing(decoded, plan) if strict else decoded


def _failing(table: DataFrame, plan: Plan) -> DataFrame:
    words = f"PipelineError: the {plan.part} of "
    where = [
        F.col("topic"), F.lit("-"), F.col("partition"), F.lit(" at offset "), F.col("offset"),
        F.lit(f" cannot be decoded as {plan.format}"),
    ]  # fmt: skip
    failure = F.raise_error(F.concat(F.lit(words), *where))
    checked = F.when(F.col(plan.bad_column), failure.cast(table.schema[plan.part].dataType)).otherwise(F.col(plan.part))
    return table.withColumn(plan.part, checked).drop(plan.bad_column)


# -- By Spark --


def _by_spark(table: DataFrame, plan: Plan) -> DataFrame:
    text = F.col(plan.part).cast("string")
    is_text = F.is_valid_utf8(text)
    if plan.type is None:
        bad = F.col(plan.part).isNotNull() & ~is_text
        return _with(table, plan, F.when(is_text, text), bad)
    # As the field of an object: of a text by itself Spark's parser reads the first value and leaves what follows.
    whole = F.concat(F.lit(f'{{"{_WHOLE}":'), F.when(is_text, text), F.lit("}"))
    parsed = F.from_json(whole, _in_object(plan.type), {"columnNameOfCorruptRecord": _CORRUPT})
    table = table.withColumn("__kt_parsed", parsed)
    value = F.col(f"__kt_parsed.{_WHOLE}")
    is_sound = is_text & value.isNotNull() & F.col(f"__kt_parsed.{_CORRUPT}").isNull()
    bad = F.col(plan.part).isNotNull() & ~is_sound
    return _with(table, plan, F.when(is_sound, value), bad).drop("__kt_parsed")


def _with(table: DataFrame, plan: Plan, column: Column, bad: Column) -> DataFrame:
    """Both new columns at once: the second needs the bytes that the first takes the place of."""
    return table.withColumns({plan.part: column, plan.bad_column: bad})


def _in_object(made: DataType) -> StructType:
    return T.StructType([T.StructField(_WHOLE, made), T.StructField(_CORRUPT, T.StringType())])


def _read_spark_schema(path: str) -> DataType:
    """A struct of Spark's, as JSON or as DDL (`a INT, b STRUCT<c: STRING>`)."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise PipelineError(f"{path}: {getattr(error, 'strerror', None) or error}") from None
    try:
        made = T.StructType.fromJson(json.loads(text)) if text.startswith("{") else T.StructType.fromDDL(text)
    except (KeyError, TypeError, ValueError):
        raise PipelineError(f"{path} is no schema of Spark's: it does not look like one") from None
    except Exception as error:
        raise PipelineError(f"{path} is no schema of Spark's: {plain_error(error)}") from error
    if not isinstance(made, T.StructType):
        raise PipelineError(f"{path} is no schema of Spark's: JSON values are objects, this is {made.simpleString()}")
    return made


def _inferred(spark: SparkSession, part: str, sample: Sample) -> DataType:
    """The fields of a sample of JSON objects, as Spark's own inference finds them."""
    objects = list(_objects(sample(part)))
    if not objects:
        raise PipelineError(
            f"No JSON object is among the first {SAMPLE_RECORDS} {part}s, to find the schema in: give --{part}-schema"
        )
    found = spark.range(1).select(F.schema_of_json(F.lit(f"[{','.join(objects)}]"))).first()
    assert found is not None
    made = spark.sql(f"SELECT CAST(NULL AS {found[0]}) AS x").schema["x"].dataType
    assert isinstance(made, T.ArrayType)
    if not isinstance(made.elementType, T.StructType) or not made.elementType.fields:
        raise PipelineError(f"The JSON objects among the first {SAMPLE_RECORDS} {part}s have no fields")
    _ensure_distinct(spark, part, made.elementType)
    return made.elementType


def _ensure_distinct(spark: SparkSession, part: str, made: StructType) -> None:
    """PipelineError for fields that Spark cannot tell apart, since it takes large letters for small ones."""
    if spark.conf.get("spark.sql.caseSensitive") == "true":
        return
    first: dict[str, str] = {}
    for name in made.fieldNames():
        other = first.setdefault(name.lower(), name)
        if other != name:
            raise PipelineError(
                f"JSON {part}s have the fields {other} and {name}: --conf spark.sql.caseSensitive=true tells them "
                f"apart, --{part}-schema names one of them"
            )


def _objects(values: Sequence[bytes]) -> Iterator[str]:
    """The JSON objects among them, up to so many bytes."""
    left = _SAMPLE_BYTES
    for value in values:
        try:
            text = value.decode("utf-8")
            is_object = isinstance(json.loads(text), dict)
        except (ValueError, RecursionError):
            continue
        left -= len(value)
        if left < 0:
            return
        if is_object:
            yield text


def take_sample(table: DataFrame, part: str) -> list[bytes]:
    """The first values that are not null, none of them large."""
    small = table.select(part).where(F.col(part).isNotNull() & (F.octet_length(part) <= _SAMPLE_VALUE_BYTES))
    return [bytes(row[0]) for row in small.limit(SAMPLE_RECORDS).collect()]


# -- By libraries --


def _by_library(table: DataFrame, plan: Plan) -> DataFrame:
    from kafkatools.pipeline.sources.spark_api import arrow_schema

    assert plan.decoder is not None and plan.type is not None
    fields = [
        T.StructField(plan.part, plan.type) if field.name == plan.part else field for field in table.schema.fields
    ]
    schema = T.StructType([*fields, T.StructField(plan.bad_column, T.BooleanType())])
    place = table.columns.index(plan.part)
    return table.mapInArrow(_ArrowStep(plan.decoder, place, arrow_schema(schema)), schema)


class _ArrowStep:
    """Record batches in, the same with one column decoded out."""

    def __init__(self, decoder: Decoder, place: int, schema: pa.Schema) -> None:
        self._decoder = decoder
        self._place = place
        self._schema = schema

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        decode = self._decoder.start()
        for batch in batches:
            decoded, bad = [], []
            for data in batch.column(self._place).to_pylist():
                value, failed = None, False
                if data is not None:
                    try:
                        value = decode(data)
                    except ValueError:
                        failed = True
                decoded.append(value)
                bad.append(failed)
            column = _as_arrow(decoded, bad, self._schema.field(self._place).type)
            columns = batch.columns
            columns[self._place] = column
            made = [each.cast(field.type) for each, field in zip(columns, self._schema, strict=False)]
            yield pa.RecordBatch.from_arrays([*made, pa.array(bad, pa.bool_())], schema=self._schema)


def _as_arrow(values: list[object], bad: list[bool], wanted: pa.DataType) -> pa.Array:
    """The column; a value that its type cannot hold is bad, too."""
    try:
        return pa.array(values, wanted)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, TypeError):
        for row, value in enumerate(values):
            try:
                pa.array([value], wanted)
            except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError, TypeError):
                values[row], bad[row] = None, True
        return pa.array(values, wanted)


def _avro(part: str, decoding: Decoding, registry: SchemaRegistry | None, sample: Sample, subject: str | None) -> Plan:
    from kafkatools.pipeline.decoding import avro as avro

    avro.ensure_installed()
    if decoding.schema:
        where, reader = decoding.schema, avro.read_schema(decoding.schema)
    else:
        assert registry is not None
        where, reader = _newest(part, registry, sample, subject, "AVRO", "")
    spark_type = avro.AvroSchema(reader, where).spark_type()
    return Plan(part, "avro", spark_type, avro.AvroDecoder(reader, registry))


def _protobuf(
    part: str, decoding: Decoding, registry: SchemaRegistry | None, sample: Sample, subject: str | None
) -> Plan:
    from kafkatools.pipeline.decoding import protobuf as protobuf

    protobuf.ensure_installed()
    if decoding.schema:
        where, descriptors = decoding.schema, protobuf.read_descriptors(decoding.schema)
    else:
        assert registry is not None
        where, registered = _newest(part, registry, sample, subject, "PROTOBUF", "serialized")
        descriptors = protobuf.descriptors_of(registered, where)
    message = protobuf.ProtobufMessage(descriptors, decoding.message, where)
    decoder = protobuf.ProtobufDecoder(descriptors, message.descriptor.full_name, registry is not None)
    return Plan(part, "protobuf", message.spark_type(), decoder)


def _newest(
    part: str, registry: SchemaRegistry, sample: Sample, subject: str | None, kind: str, form: str
) -> tuple[str, RegisteredSchema]:
    """The newest schema that a sample of values names, or the subject's."""
    ids = {schema_id(value) for value in sample(part)} - {None}
    found = sorted((number for number in ids if number is not None), reverse=True)
    if not found and subject is not None:
        newest = registry.newest_id(subject)
        found = [] if newest is None else [newest]
    for number in found:
        registered = registry.by_id(number, form)
        if registered is not None:
            if registered.kind != kind:
                raise PipelineError(f"{registry.url}: schema {number} is {registered.kind}, not {kind}")
            return f"{registry.url} schema {number}", registered
    raise PipelineError(
        f"None of the first {SAMPLE_RECORDS} {part}s names a schema that {registry.url} knows: give --{part}-schema"
    )
