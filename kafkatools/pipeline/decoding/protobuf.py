"""Protobuf decoding: the Spark type of a message, and values decoded by Google's protobuf library.

The types are those of Spark's from_protobuf: signed integers become int and bigint, uint32 bigint, uint64
decimal(20,0), enums string, messages struct, repeated fields array. Timestamp becomes a timestamp, and wrapper messages
become the wrapped type. An unset field with presence is null; other unset fields have their default.
"""

from __future__ import annotations

import base64
import binascii
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql import types as T

from kafkatools.pipeline.decoding.schema_registry import HEADER_SIZE, RegisteredSchema, schema_id
from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.storage import unreadable

if TYPE_CHECKING:
    from types import ModuleType

    from google.protobuf.descriptor import Descriptor, FieldDescriptor, FileDescriptor
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message import Message
    from pyspark.sql.types import DataType

_WRAPPERS = frozenset(
    f"google.protobuf.{name}Value"
    for name in ("Bool", "Int32", "Int64", "UInt32", "UInt64", "Float", "Double", "String", "Bytes")
)
_TIMESTAMP = "google.protobuf.Timestamp"
_MAIN = "schema.proto"


def ensure_installed() -> None:
    """Raise PipelineError if Google's protobuf package is not installed."""
    try:
        import google.protobuf  # noqa: F401
    except ImportError:
        package = "Protobuf needs the Python package protobuf: pip install 'kafkatools[protobuf]'"
        raise PipelineError(package) from None


# -- Descriptors --


def read_descriptors(path: str) -> bytes:
    """Return a serialized FileDescriptorSet from a .proto file, compiled with protoc, or from a file that contains one.
    Raises PipelineError if the file cannot be read or compiled, or is neither."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise unreadable(path, error) from None
    if path.endswith(".proto"):
        folder, name = os.path.split(os.path.abspath(path))
        return _compile(folder, name, path)
    from google.protobuf.descriptor_pb2 import FileDescriptorSet
    from google.protobuf.message import DecodeError

    try:
        if FileDescriptorSet.FromString(data).file:
            return data
    except DecodeError:
        pass
    raise PipelineError(f"{path} is neither a .proto file nor a FileDescriptorSet (protoc --descriptor_set_out)")


def descriptors_of(registered: RegisteredSchema, origin: str) -> bytes:
    """Return a serialized FileDescriptorSet for a registered schema and its references. The schema text is a base64
    descriptor or the source of a .proto file, which is compiled with protoc. Raises PipelineError if it does not
    compile or protoc is missing."""
    from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
    from google.protobuf.message import DecodeError

    descriptors = FileDescriptorSet()

    def add(schema: RegisteredSchema, name: str) -> None:
        for other, reference in schema.references:
            add(reference, other)
        file = FileDescriptorProto.FromString(base64.b64decode(schema.text, validate=True))
        file.name = name
        descriptors.file.append(file)

    try:
        add(registered, _MAIN)
        return descriptors.SerializeToString()
    except (DecodeError, binascii.Error):
        return _compile_registered(registered, origin)


def _compile_registered(registered: RegisteredSchema, origin: str) -> bytes:
    with tempfile.TemporaryDirectory(prefix="kt-proto-") as folder:

        def write(schema: RegisteredSchema, name: str) -> None:
            path = os.path.normpath(os.path.join(folder, name))
            if not path.startswith(folder + os.sep):
                raise PipelineError(f"{origin} references a file outside of its directory: {name}")
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(schema.text)
            for other, reference in schema.references:
                write(reference, other)

        write(registered, _MAIN)
        return _compile(folder, _MAIN, origin)


def _compile(folder: str, name: str, origin: str) -> bytes:
    """Run protoc and return the serialized FileDescriptorSet of a .proto file and its imports. Raises PipelineError
    with protoc's first error line, or if protoc is not installed."""
    from importlib.util import find_spec

    if find_spec("grpc_tools") is not None:
        from importlib.resources import files

        compiler = [sys.executable, "-m", "grpc_tools.protoc", f"-I{files('grpc_tools') / '_proto'}"]
    elif (path := shutil.which("protoc")) is not None:
        compiler = [path]
    else:
        raise PipelineError(f"{origin} cannot be compiled without protoc: pip install 'kafkatools[protobuf]'")
    with tempfile.TemporaryDirectory(prefix="kt-proto-") as directory:
        target = os.path.join(directory, "set")
        words = [*compiler, f"-I{folder}", "--include_imports", f"--descriptor_set_out={target}", name]
        result = subprocess.run(words, capture_output=True, check=False, stdin=subprocess.DEVNULL)
        if result.returncode:
            errors = [line for line in result.stderr.decode(errors="replace").splitlines() if ".proto" in line]
            raise PipelineError(f"{origin}: {errors[0].replace(folder + os.sep, '') if errors else 'protoc failed'}")
        with open(target, "rb") as file:
            return file.read()


class ProtobufMessage:
    """A message type from a serialized FileDescriptorSet: its descriptor and its generated Python class. `name` is the
    message's name with or without its package; None selects the first message of the last file. Raises PipelineError if
    there is no such message or the descriptors are inconsistent."""

    def __init__(self, descriptors: bytes, name: str | None, origin: str) -> None:
        from google.protobuf import descriptor_pool, message_factory
        from google.protobuf.descriptor_pb2 import FileDescriptorSet

        pool = descriptor_pool.DescriptorPool()
        files = FileDescriptorSet.FromString(descriptors).file
        try:
            _add_bundled_files(pool, {file.name for file in files})
            for file in files:
                pool.Add(file)
            last = pool.FindFileByName(files[-1].name)
        except (TypeError, KeyError) as error:
            raise PipelineError(f"{origin}: {error}") from None
        self.descriptor: Descriptor = self._find(pool, last, name, origin)
        self.message_class: type[Message] = message_factory.GetMessageClass(self.descriptor)

    @staticmethod
    def _find(pool: DescriptorPool, file: FileDescriptor, name: str | None, origin: str) -> Descriptor:
        if name is None:
            if not file.message_types_by_name:
                raise PipelineError(f"{origin} has no message")
            return next(iter(file.message_types_by_name.values()))
        for candidate in (name, f"{file.package}.{name}" if file.package else name):
            try:
                return pool.FindMessageTypeByName(candidate)
            except KeyError:
                continue
        names = ", ".join(message.full_name for message in file.message_types_by_name.values())
        raise PipelineError(f"{origin} has no message {name}; its messages are {names}")

    def path(self, *, counts_entries: bool = False) -> list[int]:
        """Return the message's index path in its file, as in the registry's wire format. Java's serializer does not
        count map entries among the messages; others do, hence `counts_entries`."""
        path: list[int] = []
        descriptor: Descriptor | None = self.descriptor
        while descriptor is not None:
            outer = descriptor.containing_type
            among = descriptor.file.message_types_by_name.values() if outer is None else outer.nested_types
            names = [message.full_name for message in among if counts_entries or not message.GetOptions().map_entry]
            path.insert(0, names.index(descriptor.full_name))
            descriptor = outer
        return path

    def spark_type(self) -> DataType:
        """Return the Spark type of the decoded column. Raises PipelineError for a recursive message."""
        return _message_type(self.descriptor, ())


def _add_bundled_files(pool: DescriptorPool, present: set[str]) -> None:
    """Add the google.protobuf.* files that the library bundles, except those in `present`."""
    from google.protobuf import (
        any_pb2,
        duration_pb2,
        empty_pb2,
        field_mask_pb2,
        struct_pb2,
        timestamp_pb2,
        wrappers_pb2,
    )
    from google.protobuf.descriptor_pb2 import FileDescriptorProto

    modules: tuple[ModuleType, ...] = (
        any_pb2, duration_pb2, empty_pb2, field_mask_pb2, struct_pb2, timestamp_pb2, wrappers_pb2,
    )  # fmt: skip
    for module in modules:
        if module.DESCRIPTOR.name not in present:
            pool.Add(FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb))


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

    def start(self) -> Callable[[bytes], object]:
        """Return a function that decodes one value and raises ValueError for a value that cannot be decoded or, by its
        index path, is another message. Raises PipelineError if protobuf is missing or the descriptors have no such
        message."""
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

        return decode


def message_path(data: bytes, at: int) -> tuple[list[int], int]:
    """Read the message index path from `data[at:]`; return the indexes and the position after them. Raises ValueError
    if the path is truncated."""
    count, at = _zigzag(data, at)
    if count == 0:
        return [0], at
    path = []
    for _ in range(count):
        index, at = _zigzag(data, at)
        path.append(index)
    return path, at


def _zigzag(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while at < len(data) and shift < 35:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at
        shift += 7
    raise ValueError("the message index path is truncated")
