"""Encode request bodies and decode response bodies with the codec.

DescribeConfigs responses have a decoder of their own that reads repeated entries once: 500 topics with 36 settings each
take 4 ms instead of 20. Codecs are imported when a message needs them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafkatools.core.net.client_requests import Body
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.frames import Buffer, encode_request, frame_request


def build_body(api_key: int, version: int, fields: Mapping[str, object]) -> list[bytes]:
    """Encode the body of a request. Raises UnsupportedVersion for a field that the version lacks."""
    from kafkatools.core.protocol.messages import check_fields, encode_fields, request_type

    message_type = request_type(api_key, version)
    check_fields(message_type, fields)
    return [encode_fields(message_type, fields)]


def frame_body(api_key: int, version: int, correlation_id: int, client_id: str | None, body: Body) -> list[Buffer]:
    """Return the buffers of a request: size prefix, header and body."""
    if isinstance(body, list):
        return frame_request(api_key, version, correlation_id, client_id, body)
    return encode_request(api_key, version, correlation_id, client_id, body)


def decode_body(api_key: int, version: int, raw: memoryview) -> Any:
    """Decode the body of a response. Field names are the same with every decoder. Raises DecodeError."""
    if api_key == ApiKey.DESCRIBE_CONFIGS:
        from kafkatools.core.protocol import config_messages

        return config_messages.decode_response(version, raw)
    from kafkatools.core.protocol.messages import decode, response_type

    return decode(response_type(api_key, version), raw)[0]


def throttle_ms_of(body: object) -> int:
    """The throttle_time_ms of a response body; 0 without that field."""
    plain = getattr(body, "throttle_time_ms", None)  # the field's name in messages encoded by hand
    return int(getattr(body, "throttle_time", 0) if plain is None else plain)
