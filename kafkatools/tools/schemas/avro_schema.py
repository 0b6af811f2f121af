"""Avro schemas: parsed by fastavro with the schemas they reference, and values decoded by fastavro."""

from __future__ import annotations

import io
import math
from collections.abc import Collection, Mapping
from typing import Any

from kafkatools.core.install_command import install_command
from kafkatools.core.json_texts import parse_json
from kafkatools.tools.schemas.errors import SchemaError
from kafkatools.tools.schemas.registry import RegisteredSchema

Schema = Any
"""A schema as JSON has it and as fastavro parses it: the name of a type, a union, or the description of a type."""


def ensure_installed() -> None:
    """Raise SchemaError if the package fastavro is not installed."""
    from importlib.util import find_spec

    if find_spec("fastavro") is None:
        raise SchemaError(f"Avro needs the Python package fastavro: {install_command('avro')}")


class AvroSchema:
    """An Avro schema, parsed with the schemas it references; `plain_types` are the logical types to remove, so that
    fastavro leaves their values as numbers or bytes. A default may be of another type than its field, as for Java's
    consumers: only a value that lacks the field needs it. Raises SchemaError that names `origin` if it is invalid."""

    def __init__(self, registered: RegisteredSchema, origin: str, plain_types: Collection[str] = ()) -> None:
        from fastavro.schema import SchemaParseException, UnknownType

        self.named_schemas: dict[str, dict[str, Schema]] = {}
        self._plain_types = plain_types
        try:
            self.parsed: Schema = self._parse(registered, set())
        except UnknownType as error:
            raise SchemaError(f"{origin} is not a valid Avro schema: there is no type {error.name}") from None
        except RecursionError:
            raise SchemaError(f"{origin} is not a valid Avro schema: it is nested too deeply") from None
        except (ValueError, SchemaParseException) as error:
            raise SchemaError(f"{origin} is not a valid Avro schema: {error}") from None
        except (AttributeError, KeyError, TypeError) as error:  # fastavro of a schema with missing or other parts
            raise SchemaError(f"{origin} is not a valid Avro schema: {type(error).__name__} {error}") from None

    def _parse(self, registered: RegisteredSchema, added: set[str]) -> Schema:
        """Parse a schema after those it references. Two of these may share a reference, which is added once."""
        from fastavro.schema import parse_schema

        for name, reference in registered.references:
            if name not in added:
                added.add(name)
                self._parse(reference, added)
        schema = _without_logical(parse_json(registered.text), self._plain_types)
        return parse_schema(schema, named_schemas=self.named_schemas, _ignore_default_error=True)


def _without_logical(schema: Schema, names: Collection[str]) -> Schema:
    """Remove the logical types in `names` from a schema, and decimals that do not fit their type: Avro's specification
    demands to ignore these, such as scale 127 of a NUMBER of Oracle, but fastavro refuses them."""
    if isinstance(schema, list):
        return [_without_logical(member, names) for member in schema]
    if isinstance(schema, dict):
        return {
            key: _without_logical(value, names) if key in ("type", "items", "values", "fields") else value
            for key, value in schema.items()
            if not (key == "logicalType" and (value in names or (value == "decimal" and not _is_decimal(schema))))
        }
    return schema


def _is_decimal(schema: Mapping[str, Schema]) -> bool:
    """Return whether precision and scale are those of a decimal in this type."""
    precision, scale = schema.get("precision"), schema.get("scale", 0)
    if type(precision) is not int or type(scale) is not int or not 0 <= scale <= precision or precision < 1:
        return False
    size = schema.get("size") if schema.get("type") == "fixed" else None
    return type(size) is not int or precision <= math.floor(math.log10(2) * (8 * size - 1))


def decode_exactly(data: bytes, start: int, writer: Schema, reader: Schema) -> object:
    """Decode the bytes from `start` on with fastavro. Raises ValueError for invalid bytes, and if bytes are left."""
    from fastavro import schemaless_reader

    stream = io.BytesIO(data)
    stream.seek(start)
    try:
        value = schemaless_reader(stream, writer, reader)
    except Exception as error:  # for invalid bytes fastavro raises exceptions of any type
        raise ValueError(f"{type(error).__name__}: {error}") from error
    if stream.tell() != len(data):
        raise ValueError(f"{len(data) - stream.tell()} bytes are left over")
    return value
