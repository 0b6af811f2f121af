"""The operations on topics that the client's user is authorized to (KIP-430)."""

from __future__ import annotations

from collections.abc import Iterable

from kafkatools.core.admin.acls import OPERATIONS
from kafkatools.core.admin.client import AdminClient, error_in
from kafkatools.core.errors import KafkaError, UnsupportedVersion
from kafkatools.core.protocol.api_versions import ApiKey

_TOPICS_AT_A_TIME = 500
_FIRST_VERSION_WITH_OPERATIONS = 8
_NOT_REPORTED = -(1 << 31)


def topic_operations(admin: AdminClient, names: Iterable[str]) -> dict[str, frozenset[str] | KafkaError | None]:
    """Return the authorized operations of topics, such as READ, or a topic's error; None where the broker does not
    report them. Without an authorizer these are all operations. Raises KafkaError."""
    remaining = list(dict.fromkeys(names))
    found: dict[str, frozenset[str] | KafkaError | None] = dict.fromkeys(remaining)
    while remaining:
        topics = [{"topic_id": None, "name": name} for name in remaining[:_TOPICS_AT_A_TIME]]
        del remaining[:_TOPICS_AT_A_TIME]
        fields = {"topics": topics, "allow_auto_topic_creation": False, "include_topic_authorized_operations": True}
        try:
            response = admin.send(ApiKey.METADATA, fields, min_version=_FIRST_VERSION_WITH_OPERATIONS)
        except UnsupportedVersion:
            break
        for topic in response.topics:
            found[topic.name] = error_in(topic) or _operations(topic.topic_authorized_operations)
    return found


def _operations(bits: int) -> frozenset[str] | None:
    if bits == _NOT_REPORTED:
        return None
    return frozenset(name for code, name in enumerate(OPERATIONS) if bits >> code & 1)
