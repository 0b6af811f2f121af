"""Bodies of requests and responses: by the codec, and by hand where that costs less.

- DescribeConfigs responses: entries that repeat are read once (500 topics with 36 settings each: 4 ms instead of 20).

What is not loaded yet is imported when a message needs it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafkatools.core.protocol.api_versions import ApiKey


def build_body(api_key: int, version: int, fields: Mapping[str, object]) -> list[bytes]:
    """The buffers of a request's body. Raises UnsupportedVersion for a field that the version lacks."""
    from kafkatools.core.protocol.messages import check_fields, encode_fields, request_type

    message_type = request_type(api_key, version)
    check_fields(message_type, fields)
    return [encode_fields(message_type, fields)]


def decode_body(api_key: int, version: int, raw: memoryview) -> Any:
    """A response; fields have the same names whichever codec reads it. Raises DecodeError."""
    if api_key == ApiKey.DESCRIBE_CONFIGS:
        from kafkatools.core.protocol import config_messages

        return config_messages.decode_response(version, raw)
    from kafkatools.core.protocol.messages import decode, response_type

    return decode(response_type(api_key, version), raw)[0]


def throttle_ms_of(body: object) -> int:
    """How long the broker asks the client to send nothing."""
    plain = getattr(body, "throttle_time_ms", None)  # of the messages framed by hand
    return int(getattr(body, "throttle_time", 0) if plain is None else plain)
