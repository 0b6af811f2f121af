"""Encode metrics as OpenTelemetry's MetricsData (opentelemetry/proto/metrics/v1/metrics.proto) in protobuf, as Kafka's
clients push them (SinglePointMetric): sums and gauges with one point each, values as doubles, attributes as texts.

Written by hand, because clients must not need OpenTelemetry's packages; `kt monitor --otlp` uses them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from struct import Struct
from typing import NamedTuple

_TIME, _DOUBLE = Struct("<Q"), Struct("<d")
_VARINT, _FIXED64, _BYTES = 0, 1, 2
_DELTA, _CUMULATIVE = 1, 2


class Point(NamedTuple):
    """The value of a metric at a time. `start_ns`: since when a sum counts; None for a gauge. Times are ns since
    1970."""

    name: str
    attributes: Mapping[str, str]
    value: float
    time_ns: int
    start_ns: int | None = None


def encode_metrics(resource: Mapping[str, str], points: Iterable[Point], *, is_delta: bool) -> bytes:
    """Return the MetricsData of one resource. `is_delta`: sums are changes since their start, else totals."""
    metrics = b"".join(_message(2, _metric(point, is_delta)) for point in points)
    return _message(1, _message(1, _attributes(1, resource)) + _message(2, metrics))


def _metric(point: Point, is_delta: bool) -> bytes:
    number = b""
    if point.start_ns is not None:
        number = _key(2, _FIXED64) + _TIME.pack(point.start_ns)
    number += _key(3, _FIXED64) + _TIME.pack(point.time_ns) + _key(4, _FIXED64) + _DOUBLE.pack(point.value)
    number += _attributes(7, point.attributes)
    name = _message(1, point.name.encode())
    if point.start_ns is None:
        return name + _message(5, _message(1, number))
    temporality = _key(2, _VARINT) + bytes((_DELTA if is_delta else _CUMULATIVE,))
    return name + _message(7, _message(1, number) + temporality + _key(3, _VARINT) + b"\x01")


def _attributes(field: int, attributes: Mapping[str, str]) -> bytes:
    return b"".join(
        _message(field, _message(1, key.encode()) + _message(2, _message(1, value.encode())))
        for key, value in attributes.items()
    )


def _key(field: int, wire_type: int) -> bytes:
    return bytes((field << 3 | wire_type,))


def _message(field: int, content: bytes) -> bytes:
    return _key(field, _BYTES) + _varint(len(content)) + content


def _varint(number: int) -> bytes:
    encoded = bytearray()
    while number > 0x7F:
        encoded.append(number & 0x7F | 0x80)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)
