"""Decoders of one value at a time to JSON text, for Protobuf and JSON Schema."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkatools.core.json_texts import parse_json
from kafkatools.tools.schemas.protobuf_schema import ProtobufMessage, descriptors_of, ensure_installed
from kafkatools.tools.schemas.registry import RegisteredSchema
from kafkatools.tools.schemas.wire_format import HEADER_SIZE, message_path

if TYPE_CHECKING:
    from google.protobuf.message import Message

_ON_ONE_LINE = bytes.maketrans(b"\n\r", b"  ")


class ProtobufRows:
    """Decodes Protobuf values to JSON as Protobuf's own mapping has it, with the field names of the .proto file and
    with default values. Raises SchemaError that names `origin` if the schema is invalid or protobuf is missing."""

    def __init__(self, registered: RegisteredSchema, origin: str) -> None:
        ensure_installed()
        self._descriptors = descriptors_of(registered, origin)
        self._origin = origin
        first = ProtobufMessage(self._descriptors, None, origin)
        self._messages: dict[tuple[int, ...], type[Message]] = {}
        self._file = first.descriptor.file
        self._first = first

    def text(self, data: bytes) -> bytes:
        """Decode a value with its header. Raises ValueError."""
        from google.protobuf.json_format import MessageToJson, SerializeToJsonError
        from google.protobuf.message import DecodeError

        path, start = message_path(data, HEADER_SIZE)
        message = self._message(tuple(path))
        try:
            value = message.FromString(data[start:])
            return MessageToJson(
                value,
                indent=None,
                preserving_proto_field_name=True,
                always_print_fields_with_no_presence=True,
                ensure_ascii=False,
                descriptor_pool=self._first.pool,
            ).encode()
        except (DecodeError, SerializeToJsonError, TypeError, RecursionError) as error:
            raise ValueError(f"not a {message.DESCRIPTOR.full_name}: {error}") from None

    def _message(self, path: tuple[int, ...]) -> type[Message]:
        """Return the message class of an index path. Raises ValueError if the schema has no such message."""
        if path not in self._messages:
            from google.protobuf.message_factory import GetMessageClass

            among = list(self._file.message_types_by_name.values())
            descriptor = None
            for index in path:
                if not 0 <= index < len(among):
                    raise ValueError(f"the schema has no message with the index path {list(path)}")
                descriptor = among[index]
                among = [one for one in descriptor.nested_types if not one.GetOptions().map_entry]
            assert descriptor is not None
            self._messages[path] = GetMessageClass(descriptor)
        return self._messages[path]


class JsonRows:
    """Takes the values of JSON Schema, which are JSON text already, on one line: numbers and names stay as they are
    written. They are not validated, as by Confluent's consumer."""

    def text(self, data: bytes) -> bytes:
        """Return the JSON text of a value with its header. Raises ValueError for bytes that are not JSON."""
        text = data[HEADER_SIZE:]
        try:
            parse_json(str(text, "utf-8"))
        except ValueError as error:
            raise ValueError(f"not JSON: {error}") from None
        return text.translate(_ON_ONE_LINE).strip()  # valid JSON has line ends between its tokens only
