"""The first question on every connection: which versions of which APIs the node takes (KIP-35, KIP-511)."""

from __future__ import annotations

from kafkatools.core.errors import UnsupportedVersion, raise_for_code
from kafkatools.core.protocol.api_versions import (
    ApiKey,
    BrokerVersions,
    api_versions_request,
    read_api_versions,
    versions_of,
)
from kafkatools.version import __version__

NEWEST_VERSION = versions_of(ApiKey.API_VERSIONS)[-1]
SOFTWARE_NAME = "kafkatools"


def build(version: int) -> list[bytes]:
    """The body of the request."""
    return [api_versions_request(version, SOFTWARE_NAME, __version__)]


def read(raw: memoryview, asked_version: int) -> BrokerVersions | int:
    """What the node can do, or the version to ask again in: a node that does not know the version asked for answers
    UNSUPPORTED_VERSION in version 0, with its own range when it is new enough. Raises KafkaError."""
    if int.from_bytes(raw[:2], "big", signed=True) != UnsupportedVersion.code:
        answer = read_api_versions(raw, asked_version)
        raise_for_code(answer.error_code)
        return answer
    if asked_version == 0:
        raise UnsupportedVersion("The node takes no version of ApiVersions")
    answer = read_api_versions(raw, 0)
    known = answer.ranges.get(ApiKey.API_VERSIONS)
    return 0 if known is None else min(known.max_version, asked_version - 1)
