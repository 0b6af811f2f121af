"""Protobuf schemas: descriptors from .proto files, descriptor sets and registries, and messages by name or index path.

A .proto source is compiled with protoc, which the package grpcio-tools brings.
"""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING

from kafkatools.core.install_command import install_command
from kafkatools.tools.schemas.errors import SchemaError
from kafkatools.tools.schemas.registry import RegisteredSchema

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import ModuleType

    from google.protobuf.descriptor import Descriptor, FileDescriptor
    from google.protobuf.descriptor_pb2 import FileDescriptorProto
    from google.protobuf.descriptor_pool import DescriptorPool
    from google.protobuf.message import Message

_MAIN = "registered-schema.proto"
"""The name of the file for a schema of a registry: one that no schema imports."""


def ensure_installed() -> None:
    """Raise SchemaError if Google's protobuf package is not installed."""
    try:
        import google.protobuf  # noqa: F401
    except ImportError:
        package = f"Protobuf needs the Python package protobuf: {install_command('protobuf')}"
        raise SchemaError(package) from None


# -- Descriptors --


def read_descriptors(path: str) -> bytes:
    """Return a serialized FileDescriptorSet from a .proto file, compiled with protoc, or from a file that contains one.
    Raises SchemaError if the file cannot be read or compiled, or is neither."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise SchemaError(f"{path} cannot be read: {error.strerror}") from None
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
    raise SchemaError(f"{path} is neither a .proto file nor a FileDescriptorSet (protoc --descriptor_set_out)")


def descriptors_of(registered: RegisteredSchema, origin: str) -> bytes:
    """Return a serialized FileDescriptorSet for a registered schema and its references. The schema text is a base64
    descriptor or the source of a .proto file, which is compiled with protoc. Raises SchemaError if it does not
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
    except (DecodeError, ValueError):  # a ValueError also for text outside ASCII
        return _compile_registered(registered, origin)


def _compile_registered(registered: RegisteredSchema, origin: str) -> bytes:
    with tempfile.TemporaryDirectory(prefix="kt-proto-") as folder:

        def write(schema: RegisteredSchema, name: str) -> None:
            path = os.path.normpath(os.path.join(folder, name))
            if not path.startswith(folder + os.sep):
                raise SchemaError(f"{origin} references a file outside of its directory: {name}")
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(schema.text)
            for other, reference in schema.references:
                write(reference, other)

        write(registered, _MAIN)
        return _compile(folder, _MAIN, origin)


def _compile(folder: str, name: str, origin: str) -> bytes:
    """Run protoc and return the serialized FileDescriptorSet of a .proto file and its imports. Raises SchemaError
    with protoc's first error line, or if protoc is not installed."""
    from importlib.util import find_spec

    if find_spec("grpc_tools") is not None:
        from importlib.resources import files

        compiler = [sys.executable, "-m", "grpc_tools.protoc", f"-I{files('grpc_tools') / '_proto'}"]
    elif (path := shutil.which("protoc")) is not None:
        compiler = [path]
    else:
        raise SchemaError(f"{origin} cannot be compiled without protoc: {install_command('protobuf')}")
    with tempfile.TemporaryDirectory(prefix="kt-proto-") as directory:
        target = os.path.join(directory, "set")
        words = [*compiler, f"-I{folder}", "--include_imports", f"--descriptor_set_out={target}", name]
        result = subprocess.run(words, capture_output=True, check=False, stdin=subprocess.DEVNULL)
        if result.returncode:
            lines = result.stderr.decode(errors="replace").splitlines()
            errors = [line for line in lines if ".proto:" in line] or [line for line in lines if ".proto" in line]
            raise SchemaError(f"{origin}: {errors[0].replace(folder + os.sep, '') if errors else 'protoc failed'}")
        with open(target, "rb") as file:
            return file.read()


class ProtobufMessage:
    """A message type from a serialized FileDescriptorSet: its descriptor and its generated Python class. `name` is the
    message's name with or without its package; None selects the first message of the last file. Raises SchemaError if
    there is no such message or the descriptors are inconsistent."""

    def __init__(self, descriptors: bytes, name: str | None, origin: str) -> None:
        from google.protobuf import descriptor_pool, message_factory
        from google.protobuf.descriptor_pb2 import FileDescriptorSet

        pool = descriptor_pool.DescriptorPool()
        files = FileDescriptorSet.FromString(descriptors).file
        try:
            _add_files(pool, files)
            last = pool.FindFileByName(files[-1].name)
        except (TypeError, KeyError) as error:
            raise SchemaError(f"{origin}: {error}") from None
        self.pool = pool
        self.descriptor: Descriptor = self._find(pool, last, name, origin)
        self.message_class: type[Message] = message_factory.GetMessageClass(self.descriptor)

    @staticmethod
    def _find(pool: DescriptorPool, file: FileDescriptor, name: str | None, origin: str) -> Descriptor:
        if name is None:
            if not file.message_types_by_name:
                raise SchemaError(f"{origin} has no message")
            return next(iter(file.message_types_by_name.values()))
        for candidate in (name, f"{file.package}.{name}" if file.package else name):
            try:
                return pool.FindMessageTypeByName(candidate)
            except KeyError:
                continue
        names = ", ".join(message.full_name for message in file.message_types_by_name.values())
        raise SchemaError(f"{origin} has no message {name}; its messages are {names}")

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


def _add_files(pool: DescriptorPool, files: Sequence[FileDescriptorProto]) -> None:
    """Add files, each behind its imports: those among `files`, else bundled ones. Bundled files that nothing imports
    are left out: `files` may define their messages under other paths. Raises TypeError for inconsistent files."""
    by_name = {file.name: file for file in (*_google_files(), *_confluent_files(), *files)}
    begun: set[str] = set()

    def add(file: FileDescriptorProto) -> None:
        if file.name not in begun:
            begun.add(file.name)
            for name in file.dependency:
                if name in by_name:
                    add(by_name[name])
        pool.Add(file)  # a second time: no effect for an equal file, TypeError for another one of its name

    for file in files:
        add(file)


def _google_files() -> Iterator[FileDescriptorProto]:
    """Yield the google/protobuf/*.proto files that the library bundles."""
    from google.protobuf import (
        any_pb2,
        api_pb2,
        descriptor_pb2,
        duration_pb2,
        empty_pb2,
        field_mask_pb2,
        source_context_pb2,
        struct_pb2,
        timestamp_pb2,
        type_pb2,
        wrappers_pb2,
    )

    modules: tuple[ModuleType, ...] = (
        descriptor_pb2, any_pb2, source_context_pb2, type_pb2, api_pb2, duration_pb2, empty_pb2, field_mask_pb2,
        struct_pb2, timestamp_pb2, wrappers_pb2,
    )  # fmt: skip
    for module in modules:
        yield descriptor_pb2.FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)


def _confluent_files() -> Iterator[FileDescriptorProto]:
    """Yield confluent/meta.proto and confluent/type/decimal.proto, which Confluent's registry resolves without a
    reference, as it does with google/type/*.proto, which are missing here. The former has only options, which do not
    matter for values: an empty file of its name is enough."""
    from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto

    yield FileDescriptorProto(name="confluent/meta.proto", syntax="proto3")
    file = FileDescriptorProto(name="confluent/type/decimal.proto", package="confluent.type", syntax="proto3")
    decimal = file.message_type.add(name="Decimal")
    types = {"value": "TYPE_BYTES", "precision": "TYPE_UINT32", "scale": "TYPE_INT32"}
    for number, (name, kind) in enumerate(types.items(), 1):
        decimal.field.add(
            name=name,
            number=number,
            type=FieldDescriptorProto.Type.Value(kind),
            label=FieldDescriptorProto.Label.Value("LABEL_OPTIONAL"),
        )
    yield file
