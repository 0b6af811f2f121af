"""Subscription and Assignment of classic group members, encoded as in Kafka's ConsumerProtocol.

Rules: a two-byte version precedes the message. Newer versions only append fields, so an unknown version is read as the
newest known one. Both are written in version 3, as Kafka does. Malformed bytes raise DecodeError: the group leader must
not assign from a damaged subscription.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from kafkatools.core.errors import DecodeError
from kafkatools.core.topic_partition import topic_fields

if TYPE_CHECKING:
    from kafkatools.core.protocol.entities import Entity

SUBSCRIPTION_VERSION = 3
ASSIGNMENT_VERSION = 3
_SUBSCRIPTION, _ASSIGNMENT = "ConsumerProtocolSubscription", "ConsumerProtocolAssignment"
_VERSION = struct.Struct(">h")

Partition = tuple[str, int]


class Subscription(NamedTuple):
    """A member's subscription in JoinGroup: topics, owned partitions, generation and rack."""

    topics: tuple[str, ...]
    user_data: bytes | None = None
    owned_partitions: tuple[Partition, ...] = ()
    generation_id: int = -1
    rack_id: str | None = None


class Assignment(NamedTuple):
    """A member's assignment in SyncGroup."""

    partitions: tuple[Partition, ...]
    user_data: bytes | None = None


def encode_subscription(subscription: Subscription) -> bytes:
    """Encode a subscription, with topics and owned partitions sorted as in Kafka."""
    values = {
        "topics": sorted(subscription.topics),
        "user_data": subscription.user_data,
        "owned_partitions": _by_topic(sorted(subscription.owned_partitions)),
        "generation_id": subscription.generation_id,
        "rack_id": subscription.rack_id or None,
    }
    return _encode(_SUBSCRIPTION, SUBSCRIPTION_VERSION, values)


def decode_subscription(data: bytes | memoryview) -> Subscription:
    """Decode a subscription of any version. Raises DecodeError."""
    entity = _decode(_SUBSCRIPTION, data, SUBSCRIPTION_VERSION, "subscription")
    return Subscription(
        entity.topics,
        entity.user_data,
        _flat(getattr(entity, "owned_partitions", ())),
        getattr(entity, "generation_id", -1),
        getattr(entity, "rack_id", None),
    )


def encode_assignment(assignment: Assignment) -> bytes:
    """Encode an assignment in version 3, with partitions grouped by topic, in their order within a topic."""
    values = {"assigned_partitions": _by_topic(assignment.partitions), "user_data": assignment.user_data}
    return _encode(_ASSIGNMENT, ASSIGNMENT_VERSION, values)


def decode_assignment(data: bytes | memoryview) -> Assignment:
    """Decode an assignment of any version; empty bytes are an empty assignment. Raises DecodeError."""
    if not len(data):
        return Assignment(())
    entity = _decode(_ASSIGNMENT, data, ASSIGNMENT_VERSION, "assignment")
    return Assignment(_flat(entity.assigned_partitions), entity.user_data)


def _encode(name: str, version: int, values: Mapping[str, object]) -> bytes:
    from kafkatools.core.protocol.entities import entity_type
    from kafkatools.core.protocol.messages import encode_fields

    return _VERSION.pack(version) + encode_fields(entity_type(name, version), values)


def _decode(name: str, data: bytes | memoryview, newest: int, content: str) -> Entity:
    from kafkatools.core.protocol.entities import entity_type
    from kafkatools.core.protocol.messages import decode

    if len(data) < _VERSION.size:
        raise DecodeError(f"A member's {content} has {len(data)} bytes: too few for its version")
    version: int = _VERSION.unpack_from(data)[0]
    if version < 0:
        raise DecodeError(f"A member's {content} has the version {version}, which does not exist")
    try:
        entity: Entity = decode(entity_type(name, min(version, newest)), data, _VERSION.size)[0]
        return entity
    except DecodeError as error:
        raise DecodeError(f"A member's {content} cannot be read: {error}") from error


def _by_topic(partitions: Iterable[Partition]) -> list[dict[str, object]]:
    return topic_fields(((partition, partition[1]) for partition in partitions), "topic")


def _flat(topics: Iterable[Entity]) -> tuple[Partition, ...]:
    return tuple((item.topic, int(index)) for item in topics for index in item.partitions)
