"""Entities as Kafka's JSON (the generated `*JsonConverter` classes).

Names are in camelCase. Tagged fields appear only when they differ from their default. Bytes are base64, uuids are
Kafka's 22 characters. `to_json` returns plain dicts and lists, `json_text` their text in Jackson's compact form.
"""

from __future__ import annotations

import base64
from math import isfinite
from typing import Any

from kafkatools.core.java.text import java_double
from kafkatools.core.protocol.definitions import Field, camel_case
from kafkatools.core.protocol.entities import Entity
from kafkatools.core.protocol.uuids import uuid_text

_ESCAPES = {code: f"\\u{code:04X}" for code in range(0x20)} | {
    ord('"'): '\\"',
    ord("\\"): "\\\\",
    8: "\\b",
    9: "\\t",
    10: "\\n",
    12: "\\f",
    13: "\\r",
}


def to_json(entity: Entity) -> dict[str, Any]:
    """Return the JSON object of an entity made from a Schema."""
    layout, version = entity.__layout__, entity.__version__
    members: dict[str, object] = {}
    for field in entity.__fields__:
        value = getattr(entity, field.name)
        if field.is_tagged(version) and value == layout.defaults[layout.names.index(field.name)]:
            continue
        members[camel_case(field.name)] = _value(field, value)
    return members


def _value(field: Field, value: Any) -> object:
    if field.is_array:
        return None if value is None else [_element(field, element) for element in value]
    return _element(field, value)


def _element(field: Field, value: Any) -> object:
    if field.type == "uuid":
        return uuid_text(value)
    if value is None:
        return None
    if field.type == "bytes":
        return base64.b64encode(value).decode()
    return to_json(value) if field.is_structure else value


def json_text(value: object) -> str:
    r"""Format a JSON value like Jackson: no spaces; quotes, backslashes and control characters escaped (`\u001B` in
    upper case), all others as they are; doubles as Double.toString has them, NaN and infinities as strings."""
    if isinstance(value, str):
        return '"' + value.translate(_ESCAPES) + '"'
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None:
        return "null"
    if isinstance(value, dict):
        return "{" + ",".join(f"{json_text(name)}:{json_text(member)}" for name, member in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(json_text, value)) + "]"
    if isinstance(value, float):
        return java_double(value) if isfinite(value) else f'"{java_double(value)}"'
    return str(value)
