"""Schemas in files: their type by the extension of the file, and a first check of their text."""

from __future__ import annotations

import json
import os

from kafkatools.core.json_texts import parse_json
from kafkatools.exit_status import UsageError
from kafkatools.tools.schemas.errors import SchemaError
from kafkatools.tools.schemas.registry import AVRO, JSON, PROTOBUF

KINDS = {".avsc": AVRO, ".proto": PROTOBUF, ".json": JSON}
"""The type of a schema by the ending of its file's name."""


def kind_of_file(path: str) -> str:
    """Return the type of the schema in a file, by its name. Raises UsageError for another ending."""
    kind = KINDS.get(os.path.splitext(path)[1].lower())
    if kind is None:
        raise UsageError(f"{path}: the name of a schema file must end with .avsc, .proto or .json")
    return kind


def read_schema(path: str, kind: str) -> str:
    """Return the text of a schema file. Raises SchemaError if it cannot be read or, for Avro and JSON Schema, is not
    JSON."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except OSError as error:
        raise SchemaError(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SchemaError(f"{path} is not UTF-8") from None
    if kind != PROTOBUF:
        try:
            parse_json(text)
        except json.JSONDecodeError as error:
            place = f"line {error.lineno}, column {error.colno}"
            raise SchemaError(f"{path} is not JSON: {error.msg} at {place}") from None
        except ValueError as error:
            raise SchemaError(f"{path} is not JSON: {error}") from None
    return text
