"""Start offsets of share groups: list, alter, delete (KafkaAdminClient, KIP-932, KIP-1226).

`groups.py` describes and deletes the groups themselves.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from kafkatools.core.admin.client import AdminClient, error_in
from kafkatools.core.admin.coordinators import one_key_each, send_to_coordinators
from kafkatools.core.admin.results import AlteredOffsets, filled, partition_errors
from kafkatools.core.errors import KafkaError, UnknownServerError
from kafkatools.core.net.requests import BrokerResponse
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.entities import Entity, Fields
from kafkatools.core.topic_partition import topic_fields

TopicPartition = tuple[str, int]
NO_START = -1
"""As an offset to set: the group has none, as before its first fetch."""


class ShareOffset(NamedTuple):
    """A share group's start offset in a partition; None where it has none, as before its first fetch."""

    start_offset: int | None
    leader_epoch: int | None
    lag: int | None


class ShareOffsets(NamedTuple):
    """A share group's offsets and errors by partition, or the group's error."""

    offsets: dict[TopicPartition, ShareOffset]
    errors: dict[TopicPartition, KafkaError]
    error: KafkaError | None = None


class DeletedTopics(NamedTuple):
    """The topics whose offsets could not be deleted, or the group's error."""

    errors: dict[str, KafkaError]
    error: KafkaError | None = None


def list_share_group_offsets(
    admin: AdminClient, group_ids: Iterable[str], timeout_ms: int | None = None
) -> dict[str, ShareOffsets]:
    """Return the start offsets of share groups in all their partitions and errors by partition, or the group's
    error."""

    def build(group_id: str, version: int) -> Fields:
        return {"groups": ({"group_id": group_id, "topics": None},)}

    def read(response: BrokerResponse, group_id: str) -> ShareOffsets | KafkaError:
        for group in response.entity.groups:
            if group.group_id == group_id:
                return error_in(group) or read_offsets(group)
        return UnknownServerError(f"The response has no result for group {group_id}")

    request = one_key_each(ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS, build, read)
    results = send_to_coordinators(admin, group_ids, request, timeout_ms=timeout_ms)
    return filled(results, lambda error: ShareOffsets({}, {}, error))


def read_offsets(group: Entity) -> ShareOffsets:
    """Read one group of a DescribeShareGroupOffsets response without a group error."""
    offsets: dict[TopicPartition, ShareOffset] = {}
    errors: dict[TopicPartition, KafkaError] = {}
    for topic in group.topics:
        for part in topic.partitions:
            key = (topic.topic_name, part.partition_index)
            error = error_in(part)
            if error is not None:
                errors[key] = error
            elif part.start_offset < 0:
                offsets[key] = ShareOffset(None, None, None)
            else:
                lag = getattr(part, "lag", -1)
                offsets[key] = ShareOffset(part.start_offset, part.leader_epoch, None if lag < 0 else lag)
    return ShareOffsets(offsets, errors)


def alter_share_group_offsets(
    admin: AdminClient, group_id: str, offsets: Mapping[TopicPartition, int], timeout_ms: int | None = None
) -> AlteredOffsets:
    """Set start offsets of a share group without members and return the errors; creates the group if it does not
    exist."""
    entries = ((key, {"partition_index": key[1], "start_offset": offset}) for key, offset in offsets.items())
    topics = topic_fields(entries, "topic_name")

    def build(group_id: str, version: int) -> Fields:
        return {"group_id": group_id, "topics": topics}

    def read(response: BrokerResponse, group_id: str) -> AlteredOffsets | KafkaError:
        return error_in(response.entity) or AlteredOffsets(partition_errors(response.entity.responses, "topic_name"))

    request = one_key_each(ApiKey.ALTER_SHARE_GROUP_OFFSETS, build, read)
    results = send_to_coordinators(admin, [group_id], request, timeout_ms=timeout_ms)
    return filled(results, lambda error: AlteredOffsets({}, error))[group_id]


def delete_share_group_offsets(
    admin: AdminClient, group_id: str, topics: Collection[str], timeout_ms: int | None = None
) -> DeletedTopics:
    """Delete the offsets of topics from a share group without members; return the errors."""

    def build(group_id: str, version: int) -> Fields:
        return {"group_id": group_id, "topics": tuple({"topic_name": name} for name in topics)}

    def read(response: BrokerResponse, group_id: str) -> DeletedTopics | KafkaError:
        outcomes = {topic.topic_name: error_in(topic) for topic in response.entity.responses}
        errors = {name: outcome for name, outcome in outcomes.items() if outcome is not None}
        return error_in(response.entity) or DeletedTopics(errors)

    request = one_key_each(ApiKey.DELETE_SHARE_GROUP_OFFSETS, build, read)
    results = send_to_coordinators(admin, [group_id], request, timeout_ms=timeout_ms)
    return filled(results, lambda error: DeletedTopics({}, error))[group_id]
