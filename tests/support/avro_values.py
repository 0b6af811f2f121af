"""Values in Avro, without and with the header of Confluent's wire format. Needs fastavro."""

from __future__ import annotations

import io
from typing import Any


def avro_body(schema: Any, value: Any) -> bytes:
    """Return the bytes of a value without a header."""
    import fastavro

    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


def registered_value(schema_id: int, schema: Any, value: Any) -> bytes:
    """Return the bytes of a value whose schema has an ID in a registry."""
    return b"\0" + schema_id.to_bytes(4, "big") + avro_body(schema, value)
