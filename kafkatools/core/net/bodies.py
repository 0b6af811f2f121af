"""Bodies of requests and answers by the cheapest codec that knows them: the large ones by hand, the table of small
messages, else the generated classes. What is not loaded yet is imported when a message needs it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafkatools.core.net import metadata_messages
from kafkatools.core.protocol.api_versions import ApiKey

_METADATA_FIELDS = {"topics", "allow_auto_topic_creation", "include_topic_authorized_operations"}


def build_body(api_key: int, version: int, fields: Mapping[str, Any]) -> Any:
    """A request from plain fields: an entity, or the buffers of its body. Raises UnsupportedVersion."""
    if api_key == ApiKey.METADATA and version <= metadata_messages.MAX_VERSION and _is_plain_metadata(fields):
        return [metadata_messages.encode_metadata_request(fields, version)]
    body = _encode_plain(api_key, version, fields)
    if body is not None:
        return [body]
    from kafkatools.core.protocol.messages import build, request_type

    return build(request_type(api_key, version), fields)


def _encode_plain(api_key: int, version: int, fields: Mapping[str, Any]) -> bytes | None:
    """The body of a request that needs no generated class; None for any other."""
    if api_key == ApiKey.DESCRIBE_TOPIC_PARTITIONS:
        from kafkatools.core.protocol import topic_partitions_messages

        return topic_partitions_messages.encode_request(fields)
    if api_key == ApiKey.DESCRIBE_CONFIGS:
        from kafkatools.core.protocol import config_messages

        return config_messages.encode_request(version, fields)
    from kafkatools.core.protocol.light_messages import encode_request

    return encode_request(api_key, version, fields)


def _is_plain_metadata(fields: Mapping[str, Any]) -> bool:
    """Whether topics are asked for by name, and nothing else."""
    topics = fields.get("topics")
    return (
        fields.keys() <= _METADATA_FIELDS
        and "topics" in fields
        and all(topic.get("name") is not None for topic in topics or ())
    )


def decode_body(api_key: int, version: int, raw: memoryview) -> Any:
    """An answer; fields have the same names whichever codec reads it, but for the throttle time. Raises DecodeError."""
    if api_key == ApiKey.METADATA and version <= metadata_messages.MAX_VERSION:
        return metadata_messages.decode_metadata_response(raw, version)
    if api_key == ApiKey.DESCRIBE_TOPIC_PARTITIONS:
        from kafkatools.core.protocol import topic_partitions_messages

        return topic_partitions_messages.decode_response(raw)
    if api_key == ApiKey.DESCRIBE_CONFIGS:
        from kafkatools.core.protocol import config_messages

        return config_messages.decode_response(version, raw)
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
