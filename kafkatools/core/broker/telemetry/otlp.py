"""Decode OpenTelemetry's MetricsData (opentelemetry/proto/metrics/v1/metrics.proto), as far as Kafka's clients write
it: sums and gauges of numbers, with their attributes. Other fields are skipped.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import unpack_from
from typing import TypedDict

from kafkatools.core.errors import InvalidRecord

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
DELTA = 1
Attributes = dict[str, str | int | float | bool]
_Field = tuple[int, int | bytes]


class Metric(TypedDict):
    """One data point of a metric."""

    name: str
    type: str
    value: int | float
    attributes: Attributes
    time_ns: int


def decode_metrics(data: bytes) -> tuple[Attributes, list[Metric]]:
    """Return the attributes of the resources and all data points. Raises InvalidRecord for malformed bytes."""
    resource: Attributes = {}
    metrics: list[Metric] = []
    try:
        for message in _messages(data, 1):
            for part in _messages(message, 1):
                resource.update(_attributes(part, 1))
            for scope in _messages(message, 2):
                for metric in _messages(scope, 2):
                    metrics += _points(metric)
    except (IndexError, ValueError) as error:
        raise InvalidRecord(f"The pushed metrics are no MetricsData of OpenTelemetry: {error}") from None
    return resource, metrics


def _points(metric: bytes) -> Iterator[Metric]:
    name = next((_text(value) for number, value in _fields(metric) if number == 1), "")
    for kind, number in (("gauge", 5), ("sum", 7)):
        for body in _messages(metric, number):
            is_delta = any(field == 2 and value == DELTA for field, value in _fields(body)) and kind == "sum"
            for point in _messages(body, 1):
                yield _point(name, f"{kind} (delta)" if is_delta else kind, point)


def _point(name: str, kind: str, point: bytes) -> Metric:
    metric: Metric = {"name": name, "type": kind, "value": 0, "attributes": _attributes(point, 7), "time_ns": 0}
    for number, value in _fields(point):
        if number == 3 and isinstance(value, bytes):
            metric["time_ns"] = unpack_from("<Q", value)[0]
        elif number in (4, 6) and isinstance(value, bytes):
            metric["value"] = unpack_from("<d" if number == 4 else "<q", value)[0]
    return metric


def _attributes(message: bytes, number: int) -> Attributes:
    attributes: Attributes = {}
    for pair in _messages(message, number):
        key = next((_text(value) for field, value in _fields(pair) if field == 1), "")
        for value in _messages(pair, 2):
            for field, item in _fields(value):
                if field == 1:
                    attributes[key] = _text(item)
                elif field == 4 and isinstance(item, bytes):
                    attributes[key] = unpack_from("<d", item)[0]
                elif isinstance(item, int):
                    attributes[key] = bool(item) if field == 2 else item
    return attributes


def _text(value: int | bytes) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _messages(data: bytes, number: int) -> Iterator[bytes]:
    for field, value in _fields(data):
        if field == number and isinstance(value, bytes):
            yield value


def _fields(data: bytes) -> Iterator[_Field]:
    """Yield the (number, value) of each field; the bytes of a fixed number as they are. Raises ValueError, IndexError
    for malformed bytes."""
    position = 0
    while position < len(data):
        tag, position = _varint(data, position)
        kind = tag & 7
        if kind == VARINT:
            value, position = _varint(data, position)
            yield tag >> 3, value
            continue
        if kind == BYTES:
            size, position = _varint(data, position)
        elif kind in (FIXED64, FIXED32):
            size = 8 if kind == FIXED64 else 4
        else:
            raise ValueError(f"wire type {kind} at byte {position}")
        if position + size > len(data):
            raise ValueError(f"field {tag >> 3} at byte {position} ends after {len(data)} bytes")
        yield tag >> 3, data[position : position + size]
        position += size


def _varint(data: bytes, position: int) -> tuple[int, int]:
    result = 0
    for shift in range(0, 64, 7):
        byte = data[position + shift // 7]
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result, position + shift // 7 + 1
    raise ValueError(f"a number of more than ten bytes at byte {position}")
