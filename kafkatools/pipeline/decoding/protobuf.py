"""Protobuf decoding: the Spark type of a message, and values decoded by Google's protobuf library.

The types are those of Spark's from_protobuf: signed integers become int and bigint, uint32 bigint, uint64
decimal(20,0), enums string, messages struct, repeated fields array. Timestamp becomes a timestamp, and wrapper messages
become the wrapped type. An unset field with presence is null; other unset fields have their default.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql import types as T

from kafkatools.pipeline.decoding.values import ValueDecoder
from kafkatools.pipeline.errors import PipelineError, schema_failures
from kafkatools.tools.schemas import protobuf_schema
from kafkatools.tools.schemas.wire_format import HEADER_SIZE, message_path, schema_id

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor
    from google.protobuf.message import Message
    from pyspark.sql.types import DataType

_WRAPPERS = frozenset(
    f"google.protobuf.{name}Value"
    for name in ("Bool", "Int32", "Int64", "UInt32", "UInt64", "Float", "Double", "String", "Bytes")
)
_TIMESTAMP = "google.protobuf.Timestamp"

ensure_installed = schema_failures()(protobuf_schema.ensure_installed)
read_descriptors = schema_failures()(protobuf_schema.read_descriptors)
descriptors_of = schema_failures()(protobuf_schema.descriptors_of)


class ProtobufMessage(protobuf_schema.ProtobufMessage):
    """A message type with its Spark type. Raises PipelineError if there is no such message or the descriptors are
    inconsistent."""

    def __init__(self, descriptors: bytes, name: str | None, origin: str) -> None:
        with schema_failures():
            super().__init__(descriptors, name, origin)

    def spark_type(self) -> DataType:
        """Return the Spark type of the decoded column. Raises PipelineError for a recursive message."""
        return _message_type(self.descriptor, ())


# -- Types --


def _message_type(descriptor: Descriptor, inside: tuple[str, ...]) -> DataType:
    if descriptor.full_name == _TIMESTAMP:
        return T.TimestampType()
    if descriptor.full_name in _WRAPPERS:
        return _single_type(descriptor.fields_by_name["value"], inside)
    if descriptor.full_name in inside:
        raise PipelineError(
            f"The Protobuf message {descriptor.full_name} contains itself: Spark has no recursive types"
        )
    inside = (*inside, descriptor.full_name)
    return T.StructType([T.StructField(field.name, _field_type(field, inside)) for field in descriptor.fields])


def _field_type(field: FieldDescriptor, inside: tuple[str, ...]) -> DataType:
    if (entry := _map_entry(field)) is not None:
        return T.MapType(_single_type(entry["key"], inside), _single_type(entry["value"], inside))
    single = _single_type(field, inside)
    return T.ArrayType(single) if _is_repeated(field) else single


def _single_type(field: FieldDescriptor, inside: tuple[str, ...]) -> DataType:
    from google.protobuf.descriptor import FieldDescriptor as F

    if field.message_type is not None:
        return _message_type(field.message_type, inside)
    types: dict[int, DataType] = {
        F.CPPTYPE_INT32: T.IntegerType(), F.CPPTYPE_INT64: T.LongType(), F.CPPTYPE_UINT32: T.LongType(),
        F.CPPTYPE_UINT64: T.DecimalType(20, 0), F.CPPTYPE_DOUBLE: T.DoubleType(), F.CPPTYPE_FLOAT: T.FloatType(),
        F.CPPTYPE_BOOL: T.BooleanType(), F.CPPTYPE_ENUM: T.StringType(), F.CPPTYPE_STRING: T.StringType(),
    }  # fmt: skip
    return T.BinaryType() if field.type == F.TYPE_BYTES else types[field.cpp_type]


def _is_repeated(field: FieldDescriptor) -> bool:
    is_repeated = getattr(field, "is_repeated", None)  # current versions of protobuf, where `label` is deprecated
    return bool(getattr(field, "label", None) == field.LABEL_REPEATED if is_repeated is None else is_repeated)


def _map_entry(field: FieldDescriptor) -> Mapping[str, FieldDescriptor] | None:
    """Return the `key` and `value` fields of a map field; None for any other field."""
    message = field.message_type
    return message.fields_by_name if message is not None and message.GetOptions().map_entry else None


# -- Values --


def _shaper(field: FieldDescriptor) -> Callable[[Any], object]:
    """Return a function that converts the value of a field, single, repeated or map, for Arrow."""
    if (entry := _map_entry(field)) is not None:
        key, value = _single_shaper(entry["key"]), _single_shaper(entry["value"])
        return lambda entries: [(key(name), value(item)) for name, item in entries.items()]
    single = _single_shaper(field)
    return (lambda items: [single(item) for item in items]) if _is_repeated(field) else single


def _single_shaper(field: FieldDescriptor) -> Callable[[Any], object]:
    from decimal import Decimal

    if field.message_type is not None:
        return message_shaper(field.message_type)
    if field.enum_type is not None:
        names = {number: enum_value.name for number, enum_value in field.enum_type.values_by_number.items()}
        return lambda value: names.get(value, str(value))
    return Decimal if field.cpp_type == field.CPPTYPE_UINT64 else lambda value: value


def message_shaper(descriptor: Descriptor) -> Callable[[Any], object]:
    """Return a function that converts a message for Arrow: to a dict by field name. A Timestamp becomes microseconds
    since the epoch, a wrapper message its wrapped value."""
    if descriptor.full_name == _TIMESTAMP:
        return lambda message: message.seconds * 1_000_000 + message.nanos // 1000
    if descriptor.full_name in _WRAPPERS:
        shape = _single_shaper(descriptor.fields_by_name["value"])
        return lambda message: shape(message.value)
    fields = [
        (field.name, _shaper(field), field.has_presence and not _is_repeated(field)) for field in descriptor.fields
    ]

    def shape_message(message: Message) -> dict[str, object]:
        return {
            name: None if has_presence and not message.HasField(name) else shape(getattr(message, name))
            for name, shape, has_presence in fields
        }

    return shape_message


class ProtobufDecoder:
    """Decodes Protobuf values of one message type on the executors. `message` is its name; None means the first message
    of the last file. With `is_framed` each value begins with a schema ID and a message index path."""

    def __init__(self, descriptors: bytes, message: str | None, is_framed: bool) -> None:
        self._descriptors = descriptors
        self._message = message
        self._is_framed = is_framed

    finds_unknown_fields = False
    """A value's own schema is not fetched, so it is not compared with the message type."""

    def start(self) -> ValueDecoder:
        """Return a decoder of values; a value that by its index path is another message cannot be decoded. Raises
        PipelineError if protobuf is missing or the descriptors have no such message."""
        ensure_installed()
        from google.protobuf.message import DecodeError

        message = ProtobufMessage(self._descriptors, self._message, "the schema")
        parse, shape = message.message_class.FromString, message_shaper(message.descriptor)
        paths = [message.path(), message.path(counts_entries=True)]

        def decode(data: bytes) -> object:
            start = 0
            if self._is_framed:
                if schema_id(data) is None:
                    raise ValueError("the value does not begin with a schema ID")
                path, start = message_path(data, HEADER_SIZE)
                if path not in paths:
                    raise ValueError(f"the value is another message of the schema's file, with the index path {path}")
            try:
                return shape(parse(data[start:]))
            except DecodeError as error:
                raise ValueError(str(error)) from error

        return ValueDecoder(decode)
