"""Encoders of JSON text by a registered schema, with the bytes before each value that name the schema."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from functools import cache
from math import inf
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from urllib.parse import urljoin

from kafkatools.core import json_texts
from kafkatools.core.install_command import install_command
from kafkatools.exit_status import UsageError
from kafkatools.tools.schemas.errors import InvalidValue, SchemaError
from kafkatools.tools.schemas.registry import AVRO, JSON, PROTOBUF, RegisteredSchema, SchemaRegistry
from kafkatools.tools.schemas.schema_files import KINDS, kind_of_file, read_schema
from kafkatools.tools.schemas.subjects import NewSchema, Subjects, split_version
from kafkatools.tools.schemas.wire_format import header, message_path_bytes

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, FieldDescriptor

STRATEGIES = ("topic", "record", "topic-record")
"""How the subject of a schema file is named: TOPIC-value, the record's full name, or TOPIC-NAME."""


class BodyEncoder(Protocol):
    """Encodes JSON text without the bytes that name the schema: the schema ID, then `prefix`."""

    name: str | None
    prefix: bytes

    def encode(self, text: bytes) -> bytes:
        """Return the encoded value. Raises InvalidValue."""


class AvroBody:
    """Encodes as Avro."""

    prefix = b""

    def __init__(self, registered: RegisteredSchema, origin: str) -> None:
        from kafkatools.tools.schemas.avro_writer import AvroWriter

        writer = AvroWriter(registered, origin)
        self.name: str | None = writer.name
        self.encode: Callable[[bytes], bytes] = writer.encode


class ProtobufBody:
    """Encodes the first message of a .proto file, from Protobuf's own JSON."""

    def __init__(self, registered: RegisteredSchema, origin: str) -> None:
        from kafkatools.tools.schemas.protobuf_schema import ProtobufMessage, descriptors_of, ensure_installed

        ensure_installed()
        self._message = ProtobufMessage(descriptors_of(registered, origin), None, origin)
        self.name: str | None = self._message.descriptor.full_name
        self.prefix = message_path_bytes([0])

    def encode(self, text: bytes) -> bytes:
        """Return the Protobuf bytes of JSON text. Raises InvalidValue."""
        from google.protobuf.json_format import ParseDict, ParseError
        from google.protobuf.message import EncodeError

        from kafkatools.tools.schemas.avro_writer import parse_json

        value = parse_json(text)
        if not isinstance(value, dict):
            raise InvalidValue(f"expected an object for the message {self.name}")
        try:
            message = ParseDict(value, self._message.message_class(), descriptor_pool=self._message.pool)
            _ensure_base64(value, self._message.descriptor)
            return bytes(message.SerializeToString(deterministic=True))
        except (ParseError, EncodeError, TypeError, ValueError, OverflowError) as error:
            raise InvalidValue(" ".join(str(error).split())) from None


_BASE64 = re.compile(r"(?:[A-Za-z0-9+/_-]{4})*(?:[A-Za-z0-9+/_-]{2}(?:==)?|[A-Za-z0-9+/_-]{3}=?)?")


@cache
def _fields(message: Descriptor) -> dict[str, FieldDescriptor]:
    return {name: field for field in message.fields for name in (field.name, field.json_name)}


def _ensure_base64(values: Mapping[str, object], message: Descriptor) -> None:
    """Raise InvalidValue for a text of a bytes field that is not Base64: the library leaves out what it cannot read.
    `values` were parsed as this message, or as entries of a map."""
    if message.full_name == "google.protobuf.Any":  # its JSON has the fields of another message
        return
    entry = message.fields_by_name["value"] if message.GetOptions().map_entry else None
    for name, item in values.items():
        field = entry or _fields(message).get(name)
        try:
            for one in item if isinstance(item, list) else (item,):
                if field is not None and isinstance(one, str):
                    _ensure_base64_text(one, field)
                elif field is not None and field.message_type is not None and isinstance(one, dict):
                    _ensure_base64(one, field.message_type)
        except InvalidValue as error:
            raise error.inside(f".{name}") from None


def _ensure_base64_text(text: str, field: FieldDescriptor) -> None:
    is_wrapped = field.message_type is not None and field.message_type.full_name == "google.protobuf.BytesValue"
    if (is_wrapped or field.type == field.TYPE_BYTES) and not _BASE64.fullmatch(text):
        raise InvalidValue(f"expected Base64, not {json.dumps(text)}")


class JsonBody:
    """Validates by a JSON schema; the text stays as it is. As in Confluent's registry, a schema without $schema is of
    draft 7, and the names of its references are relative to its $id."""

    prefix = b""

    def __init__(self, registered: RegisteredSchema, origin: str) -> None:
        try:
            from jsonschema.exceptions import SchemaError as InvalidSchema
            from jsonschema.validators import Draft7Validator, extend, validator_for
        except ImportError:
            package = f"JSON Schema needs the Python package jsonschema: {install_command('schemas')}"
            raise SchemaError(package) from None
        from referencing import Registry, Resource
        from referencing.exceptions import Unresolvable
        from referencing.jsonschema import DRAFT7

        self._unresolvable = Unresolvable
        try:
            schema = json_texts.parse_json(registered.text)
            kind = validator_for(schema, default=Draft7Validator)
            kind.check_schema(schema)
            base = kind.ID_OF(schema) or ""
        except InvalidSchema as error:
            raise SchemaError(f"{origin} is not a valid JSON schema: {error.message}") from None
        except (ValueError, AttributeError, TypeError, RecursionError) as error:
            raise SchemaError(f"{origin} is not a valid JSON schema: {error}") from None
        resources: list[tuple[str, Resource[Any]]] = []

        def add(one: RegisteredSchema) -> None:
            for name, reference in one.references:
                try:
                    contents = json_texts.parse_json(reference.text)
                except ValueError as error:
                    raise SchemaError(f"{name}, which {origin} references, is not JSON: {error}") from None
                resource = Resource.from_contents(contents, default_specification=DRAFT7)
                resources.extend((place, resource) for place in {name, urljoin(base, name)})
                add(reference)

        add(registered)
        registry: Registry[Any] = Registry().with_resources(resources)
        self._validator = extend(kind, {"multipleOf": _multiple_of})(schema, registry=registry)
        title = schema.get("title") if isinstance(schema, dict) else None
        self.name: str | None = title if isinstance(title, str) else None

    def encode(self, text: bytes) -> bytes:
        """Return the text. Raises InvalidValue if the schema does not allow it."""
        from jsonschema.exceptions import best_match

        from kafkatools.tools.schemas.avro_writer import parse_json

        value = parse_json(text, parse_constant=_no_number)
        try:
            error = best_match(self._validator.iter_errors(value))
        except (self._unresolvable, RecursionError) as failure:
            raise InvalidValue(f"the schema cannot be applied: {' '.join(str(failure).split())}") from None
        if error is not None:
            raise InvalidValue(error.message, error.json_path.removeprefix("$"))
        return text.strip()


def _no_number(name: str) -> None:
    raise InvalidValue(f"not JSON: {name} is no number of JSON")


def _multiple_of(validator: object, divisor: float, instance: object, schema: object) -> Iterator[Exception]:
    """The keyword multipleOf for decimal numbers: 19.99 is a multiple of 0.01, though the doubles are not."""
    from jsonschema.exceptions import ValidationError

    if isinstance(instance, bool) or not isinstance(instance, (int, float)):
        return
    if not abs(instance) < inf or Fraction(str(instance)) % Fraction(str(divisor)):
        yield ValidationError(f"{instance} is not a multiple of {divisor}")


_BODIES: dict[str, Callable[[RegisteredSchema, str], BodyEncoder]] = {
    AVRO: AvroBody,
    PROTOBUF: ProtobufBody,
    JSON: JsonBody,
}


class Encoder(NamedTuple):
    """Encodes JSON text with the bytes before it that name its schema."""

    head: bytes
    body: BodyEncoder

    def encode(self, text: bytes) -> bytes:
        """Return the record's key or value. Raises InvalidValue."""
        return self.head + self.body.encode(text)


class SubjectNaming(NamedTuple):
    """The subject strategy of schema files, and whether a schema that its subject lacks is registered."""

    topic: str
    strategy: str = "topic"
    registers: bool = False

    def subject(self, part: str, name: str | None, origin: str) -> str:
        """Return the subject of a key's or value's schema. Raises UsageError without the name that it needs."""
        if self.strategy == "topic":
            return f"{self.topic}-{part}"
        if name is None:
            raise UsageError(f"{origin} has no record name, which the subject strategy {self.strategy} needs")
        return name if self.strategy == "record" else f"{self.topic}-{name}"


def make_encoder(registry: SchemaRegistry, part: str, spec: str, naming: SubjectNaming) -> Encoder:
    """Return the encoder of keys or values (`part`) for a schema file, an ID, or SUBJECT[:VERSION]. Raises SchemaError,
    RegistryFailed, and UsageError for a file of another type."""
    subjects = Subjects(registry)
    if _is_file(spec):
        return _of_file(subjects, part, spec, naming)
    if spec.isdecimal():
        number, origin = int(spec), f"schema {spec}"
    else:
        number, origin = subjects.version(*split_version(spec)).id, spec
    registered = registry.by_id(number)
    if registered is None:
        raise SchemaError(f"The registry has no schema {number}")
    return _encoder(number, registered, origin)


def _is_file(spec: str) -> bool:
    import os

    return os.path.splitext(spec)[1].lower() in KINDS or os.path.exists(spec)


def _encoder(number: int, registered: RegisteredSchema, origin: str) -> Encoder:
    if registered.kind not in _BODIES:
        raise SchemaError(f"{origin} has the type {registered.kind}, which kt does not encode")
    body = _BODIES[registered.kind](registered, origin)
    return Encoder(header(number) + body.prefix, body)


def _of_file(subjects: Subjects, part: str, path: str, naming: SubjectNaming) -> Encoder:
    kind = kind_of_file(path)
    text = read_schema(path, kind)
    body = _BODIES[kind](RegisteredSchema(text, kind), path)
    subject, schema = naming.subject(part, body.name, path), NewSchema(text, kind)
    found = subjects.find(subject, schema)
    if found is not None:
        number = found.id
    elif naming.registers:
        number = subjects.register(subject, schema)
    else:
        advice = f"Register it with kt schemas register {subject} --schema {path}, or add --register-schemas"
        raise SchemaError(f"{path} is not a schema of the subject {subject}", hint=advice)
    return Encoder(header(number) + body.prefix, body)
