"""Records from CSV, Avro and Parquet files, as kt console-consumer writes them (docs/record-files.md).

Rules: a row becomes a record or an error that names file, row and field; no column and no value is left out silently.
`topic`, `offset` and `timestamp_type` are ignored, since the producer sets them.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, Final

from kafkatools.core.producer.producer_record import ProducerRecord
from kafkatools.tools.lines.line_reader import MalformedLine

COLUMNS: Final = ("topic", "partition", "offset", "timestamp", "timestamp_type", "key", "value", "headers")
_LARGEST_INT = (1 << 31) - 1
_LARGEST_LONG = (1 << 63) - 1
_WHOLE_NUMBER = re.compile(r"-?[0-9]{1,19}", re.ASCII)

Rows = Iterator[tuple[int, ProducerRecord]]


def check_columns(name: str, columns: Collection[str]) -> None:
    """Raise MalformedLine for an unknown column, and without `value`."""
    for column in columns:
        if column not in COLUMNS:
            raise MalformedLine(f"{name} has an unknown column: {column!r}; the columns are {', '.join(COLUMNS)}")
    if "value" not in columns:
        raise MalformedLine(f"{name} has no column value")


def record_of(topic: str, place: str, cells: Mapping[str, Any]) -> ProducerRecord:
    """Return the record of a row whose cells have Python's types. Raises MalformedLine with the place and the field."""
    return ProducerRecord(
        topic,
        _bytes(place, "value", cells["value"]),
        _bytes(place, "key", cells.get("key")),
        whole_number(place, "partition", cells.get("partition"), _LARGEST_INT),
        whole_number(place, "timestamp", cells.get("timestamp"), _LARGEST_LONG),
        tuple(_header(place, header) for header in _list(place, cells.get("headers"))),
    )


def whole_number(place: str, field: str, value: object, largest: int) -> int | None:
    """Return a number from 0 to `largest`, None for null and -1. Raises MalformedLine for anything else."""
    if value is None:
        return None
    number = int(value) if isinstance(value, str) and _WHOLE_NUMBER.fullmatch(value) else value
    if not isinstance(number, int) or isinstance(number, bool) or not -1 <= number <= largest:
        raise MalformedLine(f"{place}, {field}: {_shown(value)} is not a whole number from 0 to {largest}")
    return None if number == -1 else number


def _bytes(place: str, field: str, value: object) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode("utf-8", "surrogatepass")
    raise MalformedLine(f"{place}, {field}: {_shown(value)} is neither bytes nor text")


def _list(place: str, value: object) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise MalformedLine(f"{place}, headers: {_shown(value)} is not a list")
    return value


def _header(place: str, header: object) -> tuple[Any, bytes | None]:
    """Return name and value of a header: an object with `name` or `key`, or a pair."""
    if isinstance(header, Mapping) and header.keys() in ({"name", "value"}, {"key", "value"}):
        name, value = header.get("name", header.get("key")), header["value"]
    elif isinstance(header, tuple) and len(header) == 2:
        name, value = header
    else:
        raise MalformedLine(f"{place}, headers: {_shown(header)} is not a header with name and value")
    if not isinstance(name, (str, bytes)):
        raise MalformedLine(f"{place}, headers: the name {_shown(name)} is not text")
    return name, _bytes(place, "headers", value)


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
