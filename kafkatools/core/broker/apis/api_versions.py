"""ApiVersions (key 18), versions 0-4.

Answers the dispatch table, so what is listed is what is served. A version above 4 is answered in version 0 with
UNSUPPORTED_VERSION and the table, as Kafka does. Produce is listed from version 0 on although 3 is the lowest that is
served: Kafka 4.x does so because old librdkafka reads its features from it (KAFKA-18659). Feature levels are those of
the metadata log.
Not done: client telemetry is not listed.
"""

from __future__ import annotations

from struct import pack
from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.server.requests import Request, Response
from kafkatools.core.protocol.api_versions import ApiKey

if TYPE_CHECKING:
    from kafkatools.core.broker.node import Node

UNSUPPORTED_VERSION = 35
INVALID_REQUEST = 42


def listed(request: Request) -> list[dict[str, int]]:
    """The APIs that are served on the listener, as ApiVersions lists them."""
    return [
        {"api_key": api.key, "min_version": 0 if api.key is ApiKey.PRODUCE else api.lowest, "max_version": api.highest}
        for api in request.connection.acceptor.dispatch.apis.values()
    ]


def handle(node: Node, request: Request) -> Response:
    """Answer with the table."""
    if request.version not in ApiKey.API_VERSIONS.versions:
        return [_unsupported(request)]
    if request.version >= 3:
        entity = request.decode()
        if not (_is_valid(entity.client_software_name) and _is_valid(entity.client_software_version)):
            return _respond(request, {"error_code": INVALID_REQUEST, "api_keys": []})
    fields: dict[str, Any] = {"error_code": 0, "api_keys": listed(request), "throttle_time": 0}
    if request.version >= 3:
        from kafkatools.core.broker.metadata.batches import SUPPORTED_FEATURES

        lowest = 0 if request.version >= 4 else 1  # older clients do not take a version 0
        fields["supported_features"] = [
            {"name": name, "min_version": low, "max_version": high}
            for name, (low, high) in SUPPORTED_FEATURES.items()
            if low >= lowest
        ]
        fields["finalized_features"] = [
            {"name": name, "max_version_level": level, "min_version_level": level}
            for name, level in node.image.features.items()
            if level > 0
        ]
        fields["finalized_features_epoch"] = node.metadata_offset - 1
    return _respond(request, fields)


def _respond(request: Request, fields: dict[str, Any]) -> Response:
    """The header of this response is never flexible: a client must be able to read it before it knows the broker."""
    request.is_flexible = False
    return request.respond(fields)


def _is_valid(text: str) -> bool:
    """ApiVersionsRequest.isValid: letters, digits, dots and dashes, alphanumeric at both ends."""
    plain = text.replace(".", "").replace("-", "")
    return bool(text) and plain.isascii() and plain.isalnum() and text[0].isalnum() and text[-1].isalnum()


def _unsupported(request: Request) -> bytes:
    keys = listed(request)
    body = pack(">hi", UNSUPPORTED_VERSION, len(keys))
    body += b"".join(pack(">hhh", key["api_key"], key["min_version"], key["max_version"]) for key in keys)
    return pack(">ii", len(body) + 4, request.correlation_id) + body
