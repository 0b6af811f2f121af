"""The ApiVersions request, the first one on every connection: which versions of which APIs a node supports (KIP-35,
KIP-511)."""

from __future__ import annotations

from kafkatools.core.errors import UnsupportedVersion, raise_for_code
from kafkatools.core.net.bodies import build_body
from kafkatools.core.protocol.api_versions import ApiKey, BrokerVersions, VersionRange, is_flexible, versions_of
from kafkatools.core.protocol.messages import decode, response_type
from kafkatools.version import __version__

NEWEST_VERSION = versions_of(ApiKey.API_VERSIONS)[-1]
SOFTWARE_NAME = "kafkatools"


def build(version: int) -> list[bytes]:
    """Encode the body of an ApiVersions request; from version 3 on with the client's software name and version."""
    software = {"client_software_name": SOFTWARE_NAME, "client_software_version": __version__}
    return build_body(ApiKey.API_VERSIONS, version, software if is_flexible(ApiKey.API_VERSIONS, version) else {})


def read_api_versions(body: memoryview, version: int) -> BrokerVersions:
    """Decode the body of an ApiVersions response; its error code is part of the result. Raises DecodeError."""
    response = decode(response_type(ApiKey.API_VERSIONS, version), body)[0]
    ranges = {entry.api_key: VersionRange(entry.min_version, entry.max_version) for entry in response.api_keys}
    if not is_flexible(ApiKey.API_VERSIONS, version):
        return BrokerVersions(response.error_code, ranges, getattr(response, "throttle_time", 0))
    return BrokerVersions(
        response.error_code,
        ranges,
        response.throttle_time,
        {entry.name: VersionRange(entry.min_version, entry.max_version) for entry in response.supported_features},
        {
            entry.name: VersionRange(entry.min_version_level, entry.max_version_level)
            for entry in response.finalized_features
        },
        response.finalized_features_epoch,
    )


def read(raw: memoryview, request_version: int) -> BrokerVersions | int:
    """The node's API versions, or the version in which to repeat the ApiVersions request. A node that does not know the
    request's version answers UNSUPPORTED_VERSION in version 0, and newer nodes add their own range. Raises
    UnsupportedVersion when version 0 was refused too, DecodeError, and the KafkaError of any other code."""
    if int.from_bytes(raw[:2], "big", signed=True) != UnsupportedVersion.code:
        response = read_api_versions(raw, request_version)
        raise_for_code(response.error_code)
        return response
    if request_version == 0:
        raise UnsupportedVersion("The node supports no version of ApiVersions")
    response = read_api_versions(raw, 0)
    supported = response.ranges.get(ApiKey.API_VERSIONS)
    return 0 if supported is None else min(supported.max_version, request_version - 1)
