"""Bodies of requests and answers by the cheapest codec that knows them: the table of small messages, else the generated
classes. Both are imported when the first message goes out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def build_body(api_key: int, version: int, fields: Mapping[str, Any]) -> Any:
    """A request from plain fields: an entity, or the buffers of its body. Raises UnsupportedVersion."""
    from kafkatools.core.protocol.light_messages import encode_request

    body = encode_request(api_key, version, fields)
    if body is not None:
        return [body]
    from kafkatools.core.protocol.messages import build, request_type

    return build(request_type(api_key, version), fields)


def decode_body(api_key: int, version: int, raw: memoryview) -> Any:
    """An answer; fields have the same names whichever codec reads it, but for the throttle time. Raises DecodeError."""
    from kafkatools.core.protocol.light_messages import decode_response

    body = decode_response(api_key, version, raw)
    if body is not None:
        return body
    from kafkatools.core.protocol.messages import decode, response_type

    return decode(response_type(api_key, version), raw)[0]


def throttle_ms_of(body: Any) -> int:
    """How long the broker asks to be left alone."""
    plain = getattr(body, "throttle_time_ms", None)
    if plain is not None:
        return int(plain)
    duration = getattr(body, "throttle_time", None)
    return round(duration.total_seconds() * 1000) if duration else 0
