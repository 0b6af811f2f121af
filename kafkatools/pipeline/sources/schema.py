"""Names and types of the columns of the tables `records`, `batches` and `errors`.

The first seven record columns and `headers` are those of Spark's Kafka source. Names are compared without regard to
case, as in Spark; a reader returns the columns of the requested schema in its order and spelling.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kafkatools.pipeline.errors import PipelineError

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import DataType, StructType

HEADERS = "array<struct<key:string,value:binary>>"
TEXT_HEADERS = "array<struct<key:string,value:string>>"

RECORD_COLUMNS = {
    "key": "binary", "value": "binary", "topic": "string", "partition": "int", "offset": "bigint",
    "timestamp": "timestamp", "timestampType": "int",
}  # fmt: skip
HEADER_COLUMNS = {"headers": HEADERS}
METADATA_COLUMNS = {
    "leaderEpoch": "int", "producerId": "bigint", "producerEpoch": "smallint", "sequence": "int",
    "transaction": "string", "batchPosition": "bigint",
}  # fmt: skip
BATCH_COLUMNS = {
    "topic": "string", "partition": "int", "file": "string", "position": "bigint", "size": "int",
    "baseOffset": "bigint", "lastOffset": "bigint", "count": "int", "baseTimestamp": "timestamp",
    "maxTimestamp": "timestamp", "timestampType": "int", "codec": "string", "producerId": "bigint",
    "producerEpoch": "smallint", "baseSequence": "int", "isTransactional": "boolean", "isControl": "boolean",
    "transaction": "string", "leaderEpoch": "int", "crc": "bigint", "magic": "int",
}  # fmt: skip
ERROR_COLUMNS = {
    "topic": "string", "partition": "int", "file": "string", "position": "bigint", "length": "bigint",
    "kind": "string", "reason": "string",
}  # fmt: skip


def spark_schema(include_headers: bool = False, include_metadata: bool = False) -> StructType:
    """Return the schema of the record table: seven columns, plus `headers` and six metadata columns on request."""
    columns = dict(RECORD_COLUMNS)
    if include_headers:
        columns |= HEADER_COLUMNS
    if include_metadata:
        columns |= METADATA_COLUMNS
    return struct_of(columns)


def struct_of(columns: Mapping[str, str]) -> StructType:
    """Build a schema of nullable columns from column names and Spark type names."""
    from pyspark.sql.types import StructField, StructType

    return StructType([StructField(name, _type_of(text)) for name, text in columns.items()])


def arrow_schema_of(columns: Mapping[str, str]) -> pa.Schema:
    """Build the pyarrow.Schema of the same columns, with timestamps in UTC: the one that Spark asks its readers for."""
    import pyarrow as pa

    header = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
    text_header = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.string())])
    types = {
        HEADERS: pa.list_(pa.field("element", header)),
        TEXT_HEADERS: pa.list_(pa.field("element", text_header)),
        "binary": pa.binary(),
        "string": pa.string(),
        "smallint": pa.int16(),
        "int": pa.int32(),
        "bigint": pa.int64(),
        "timestamp": pa.timestamp("us", "UTC"),
        "boolean": pa.bool_(),
    }
    return pa.schema([pa.field(name, types[text]) for name, text in columns.items()])


def check_schema(schema: StructType, columns: Mapping[str, str] | None = None) -> None:
    """Raise PipelineError if a requested schema has an unknown or duplicate column, or a column of another type.
    `columns` maps names to types; it defaults to the record columns."""
    columns = {**RECORD_COLUMNS, **HEADER_COLUMNS, **METADATA_COLUMNS} if columns is None else columns
    types = {name.lower(): text for name, text in columns.items()}
    names = set()
    for field in schema.fields:
        name = field.name.lower()
        if name not in types:
            raise PipelineError(f"There is no column {field.name}; the columns are {', '.join(columns)}")
        if field.dataType.simpleString() != types[name]:
            raise PipelineError(f"The column {field.name} is {types[name]}, not {field.dataType.simpleString()}")
        if name in names:
            raise PipelineError(f"The column {field.name} is in the schema twice")
        names.add(name)


def _type_of(text: str) -> DataType:
    from pyspark.sql import types

    if text == HEADERS:
        header = types.StructType(
            [types.StructField("key", types.StringType()), types.StructField("value", types.BinaryType())]
        )
        return types.ArrayType(header)
    simple: dict[str, DataType] = {
        "binary": types.BinaryType(),
        "string": types.StringType(),
        "smallint": types.ShortType(),
        "int": types.IntegerType(),
        "bigint": types.LongType(),
        "timestamp": types.TimestampType(),
        "boolean": types.BooleanType(),
    }
    return simple[text]
