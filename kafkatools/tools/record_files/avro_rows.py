"""Records from an Avro object container file, as `kt console-consumer --output-format avro` writes it."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any, BinaryIO

from fastavro import reader

from kafkatools.tools.lines.line_reader import MalformedLine
from kafkatools.tools.record_files.record_rows import Rows, check_columns, record_of

_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
_MICROSECOND = datetime.timedelta(microseconds=1)
_NANOS = ("timestamp-nanos", "local-timestamp-nanos")
"""The logical types of times that fastavro reads as plain numbers."""


def read_avro(topic: str, name: str, file: BinaryIO) -> Rows:
    """Yield the number and record of each row. Raises MalformedLine with the row and field."""
    number = 0
    try:
        rows: Any = reader(file)
        schema = rows.writer_schema
        if not isinstance(schema, dict) or schema.get("type") != "record":
            raise MalformedLine(f"{name} does not have Avro records")
        check_columns(name, [field["name"] for field in schema["fields"]])
        has_nanoseconds = _has_nanoseconds(schema["fields"])
        for row in rows:
            number += 1
            place = f"{name}, row {number}"
            timestamp = _milliseconds(place, row.get("timestamp"), has_nanoseconds=has_nanoseconds)
            yield number, record_of(topic, place, {**row, "timestamp": timestamp})
    except MalformedLine:
        raise
    except Exception as error:  # noqa: BLE001 - damage raises any error of fastavro or of the library of the codec
        after = f"after row {number}" if number else "at its beginning"
        raise MalformedLine(f"{name} cannot be read as Avro {after}: {error or type(error).__name__}") from None


def _has_nanoseconds(fields: Sequence[Mapping[str, object]]) -> bool:
    types = [field["type"] for field in fields if field["name"] == "timestamp"]
    branches = [branch for kind in types for branch in (kind if isinstance(kind, list) else [kind])]
    return any(isinstance(branch, dict) and branch.get("logicalType") in _NANOS for branch in branches)


def _milliseconds(place: str, value: object, *, has_nanoseconds: bool) -> object:
    """Return a time of a logical type in ms, any other value as it is."""
    if isinstance(value, datetime.datetime):
        aware = value if value.tzinfo is not None else value.replace(tzinfo=datetime.UTC)
        nanoseconds = (aware - _EPOCH) // _MICROSECOND * 1000
    elif isinstance(value, int) and has_nanoseconds:
        nanoseconds = value
    else:
        return value
    milliseconds, rest = divmod(nanoseconds, 1_000_000)
    if rest:
        raise MalformedLine(f"{place}, timestamp: {value} has a fraction of a millisecond, which Kafka does not keep")
    return milliseconds
