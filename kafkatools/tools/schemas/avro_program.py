"""Turn an Avro schema into the program by which `core/records/_avro_kernel.py` writes values as JSON."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from typing import Any

from kafkatools.core.records import _avro_kernel as kernel
from kafkatools.output import json_line
from kafkatools.tools.schemas.avro_schema import AvroSchema, Schema, ensure_installed
from kafkatools.tools.schemas.errors import SchemaError
from kafkatools.tools.schemas.registry import RegisteredSchema

LOGICAL_TYPES = (
    "date", "decimal", "duration", "local-timestamp-micros", "local-timestamp-millis", "local-timestamp-nanos",
    "time-micros", "time-millis", "timestamp-micros", "timestamp-millis", "timestamp-nanos", "uuid",
)  # fmt: skip
"""The logical types of Avro. fastavro does not convert them here: it leaves numbers, bytes and strings."""

_DIGITS = {"millis": 3, "micros": 6, "nanos": 9}
_NUMBERS = {"null": kernel.NULL, "boolean": kernel.BOOLEAN, "int": kernel.LONG, "long": kernel.LONG}
_PLAIN = {
    **_NUMBERS, "float": kernel.FLOAT, "double": kernel.DOUBLE, "bytes": kernel.BYTES, "string": kernel.STRING,
}  # fmt: skip


class AvroProgram:
    """The program of a registered schema. Raises SchemaError that names `origin` if the schema is invalid or fastavro
    is missing."""

    def __init__(self, registered: RegisteredSchema, origin: str) -> None:
        ensure_installed()
        schema = AvroSchema(registered, origin)
        self._named = schema.named_schemas
        self._code: list[int] = []
        self._texts = bytearray()
        self._places: dict[bytes, int] = {}
        self._records: dict[str, int] = {}
        try:
            self._write(schema.parsed)
        except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as error:
            raise SchemaError(f"{origin} is not a valid Avro schema: {type(error).__name__} {error}") from None
        self.program = array("i", self._code), bytes(self._texts) or b"\0"

    def _write(self, schema: Schema) -> int:
        """Append a type, and those it refers to; return its index."""
        if isinstance(schema, list):
            return self._composite(kernel.UNION, schema)
        schema = resolve(schema, self._named)
        kind = schema["type"]
        if kind in ("record", "error"):
            return self._record(schema)
        if kind == "enum":
            texts = [self._text(_json(symbol)) for symbol in schema["symbols"]]
            return self._append(kernel.ENUM, len(texts), *(number for pair in texts for number in pair))
        if kind in ("array", "map"):
            at = self._append(kernel.ARRAY if kind == "array" else kernel.MAP, 0)
            self._code[at + 1] = self._write(schema["items" if kind == "array" else "values"])
            return at
        return self._append(*(logical_operation(schema, kind) or _primitive(schema, kind)))

    def _composite(self, operation: int, branches: list[Schema]) -> int:
        at = self._append(operation, len(branches), *(0 for _ in branches))
        for number, branch in enumerate(branches):
            self._code[at + 2 + number] = self._write(branch)
        return at

    def _record(self, schema: Mapping[str, Schema]) -> int:
        name = schema["name"]
        if name in self._records:
            return self._records[name]
        fields = schema["fields"]
        at = self._records[name] = self._append(kernel.RECORD, len(fields), *(0 for _ in range(3 * len(fields))))
        for number, field in enumerate(fields):
            text = (b"," if number else b"{") + _json(field["name"]) + b":"
            place = at + 2 + 3 * number
            self._code[place : place + 2] = self._text(text)
            self._code[place + 2] = self._write(field["type"])
        return at

    def _append(self, *numbers: int) -> int:
        at = len(self._code)
        self._code += numbers
        return at

    def _text(self, text: bytes) -> tuple[int, int]:
        place = self._places.get(text)
        if place is None:
            place = self._places[text] = len(self._texts)
            self._texts += text
        return place, len(text)


def resolve(schema: Schema, named: Mapping[str, Schema]) -> dict[str, Any]:
    """Replace the name of a type by its definition, and unwrap {"type": {...}}."""
    if isinstance(schema, str):
        schema = named.get(schema, {"type": schema})
    while isinstance(schema["type"], dict):
        schema = schema["type"]
    if isinstance(schema["type"], str) and schema["type"] in named:
        return resolve(schema["type"], named)
    definition: dict[str, Any] = schema
    return definition


def _json(text: str) -> bytes:
    return json_line({"": text})[4:-1].encode()


def _primitive(schema: Mapping[str, Schema], kind: str) -> tuple[int, ...]:
    return (kernel.FIXED, int(schema["size"])) if kind == "fixed" else (_PLAIN[kind],)


def logical_operation(schema: Mapping[str, Schema], kind: str) -> tuple[int, ...] | None:
    """Return the operation of a logical type; None without one. One that does not fit its type is ignored, as Avro's
    specification demands."""
    logical = str(schema.get("logicalType", ""))
    if logical == "decimal" and kind in ("bytes", "fixed"):
        scale = int(schema.get("scale", 0))
        return (kernel.DECIMAL, scale) if kind == "bytes" else (kernel.DECIMAL_FIXED, scale, int(schema["size"]))
    if logical == "date" and kind == "int":
        return (kernel.DATE,)
    if logical == "duration" and kind == "fixed" and schema["size"] == 12:
        return (kernel.DURATION,)
    if kind not in ("int", "long") or "-" not in logical:
        return None
    name, _, unit = logical.rpartition("-")
    digits = _DIGITS.get(unit, 0)
    if name == "time" and (kind, digits) in (("int", 3), ("long", 6)):
        return kernel.TIME, digits
    if name in ("timestamp", "local-timestamp") and kind == "long" and digits:
        return kernel.TIMESTAMP, digits, int(name == "timestamp")
    return None
