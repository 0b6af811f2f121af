"""Fetch, alter and delete committed offsets of groups (KafkaAdminClient)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from kafkatools.core.admin.client import AdminClient, error_in
from kafkatools.core.admin.coordinators import CoordinatorRequest, one_key_each, send_to_coordinators
from kafkatools.core.admin.results import AlteredOffsets, filled, partition_errors
from kafkatools.core.errors import KafkaError
from kafkatools.core.group.metadata import OffsetAndMetadata, commit_topics
from kafkatools.core.net.requests import BrokerResponse
from kafkatools.core.protocol.api_versions import ApiKey
from kafkatools.core.protocol.entities import Entity, Fields
from kafkatools.core.protocol.messages import decode, response_type
from kafkatools.core.topic_partition import topic_fields

TopicPartition = tuple[str, int]

# Version 10 of both has topic ids, but committed offsets of deleted topics have only names.
_NEWEST_FETCH = 9
_NEWEST_COMMIT = 9
_FIRST_FETCH_OF_MANY = 8
_FIRST_FETCH_OF_ALL = 2
_FIRST_STABLE_FETCH = 7
_FIRST_FETCH_WITH_EPOCH = 5


class GroupOffsets(NamedTuple):
    """A group's committed offsets and errors by partition, or the group's error."""

    offsets: dict[TopicPartition, OffsetAndMetadata]
    errors: dict[TopicPartition, KafkaError]
    error: KafkaError | None = None


def fetch_offsets(
    admin: AdminClient, group_ids: Iterable[str], *, require_stable: bool = False, timeout_ms: int | None = None
) -> dict[str, GroupOffsets]:
    """Return all committed offsets of each group and errors by partition, or the group's error. A nonexistent group has
    none. With `require_stable`, a partition with offsets in an open transaction has the error UnstableOffsetCommit."""

    def build(keys: list[str], version: int) -> Fields:
        stable = {"require_stable": require_stable} if version >= _FIRST_STABLE_FETCH else {}
        if version >= _FIRST_FETCH_OF_MANY:
            return {"groups": [{"group_id": key, "topics": None} for key in keys], **stable}
        return {"group_id": keys[0], "topics": None, **stable}

    request = CoordinatorRequest(
        ApiKey.OFFSET_FETCH,
        build,
        lambda response, keys: read_offset_fetch(response.entity, response.api_version, keys[0]),
        first_batched=_FIRST_FETCH_OF_MANY,
        min_version=_FIRST_FETCH_OF_ALL,
        max_version=_NEWEST_FETCH,
        decode=False,
    )
    results = send_to_coordinators(admin, group_ids, request, timeout_ms=timeout_ms)
    return filled(results, lambda error: GroupOffsets({}, {}, error))


def read_offset_fetch(body: memoryview, version: int, group_id: str) -> dict[str, GroupOffsets | KafkaError]:
    """Decode an OffsetFetch response (versions 2 to 9) to offsets or an error for each group. Raises DecodeError."""
    entity, _ = decode(response_type(ApiKey.OFFSET_FETCH, version), body)
    if version >= _FIRST_FETCH_OF_MANY:
        return {group.group_id: error_in(group) or _offsets(group.topics, version) for group in entity.groups}
    return {group_id: error_in(entity) or _offsets(entity.topics, version)}


def _offsets(topics: Iterable[Entity], version: int) -> GroupOffsets:
    """Return the committed offsets of a group's topics, without partitions that have none (offset -1)."""
    group = GroupOffsets({}, {})
    for topic in topics:
        name = topic.name
        for part in topic.partitions:
            error = error_in(part) if part.error_code else None
            if error is not None:
                group.errors[name, part.partition_index] = error
            elif part.committed_offset >= 0:
                epoch = part.committed_leader_epoch if version >= _FIRST_FETCH_WITH_EPOCH else -1
                offset = OffsetAndMetadata(part.committed_offset, epoch, part.metadata or "")
                group.offsets[name, part.partition_index] = offset
    return group


def alter_offsets(
    admin: AdminClient, offsets: Mapping[str, Mapping[TopicPartition, OffsetAndMetadata]], timeout_ms: int | None = None
) -> dict[str, AlteredOffsets]:
    """Commit offsets for groups without members (OffsetCommit with generation -1); return the errors of each group."""

    def build(group_id: str, version: int) -> Fields:
        return {
            "group_id": group_id,
            "generation_id_or_member_epoch": -1,
            "member_id": "",
            "topics": commit_topics(offsets[group_id].items(), has_epochs=version >= 6),
            **({"retention_time": -1} if version in (2, 3, 4) else {}),
        }

    request = one_key_each(ApiKey.OFFSET_COMMIT, build, _read_commit, max_version=_NEWEST_COMMIT)
    results = send_to_coordinators(admin, offsets, request, timeout_ms=timeout_ms)
    return filled(results, lambda error: AlteredOffsets({}, error))


def _read_commit(response: BrokerResponse, group_id: str) -> AlteredOffsets | KafkaError:
    """Read an OffsetCommit response. Coordinator errors, repeated at every partition, become the group's error."""
    errors = partition_errors(response.entity.topics)
    for error in errors.values():
        if error.name in _OF_THE_GROUP:
            return error
    return AlteredOffsets(errors)


_OF_THE_GROUP = frozenset(
    {
        "COORDINATOR_LOAD_IN_PROGRESS",
        "COORDINATOR_NOT_AVAILABLE",
        "NOT_COORDINATOR",
        "GROUP_AUTHORIZATION_FAILED",
        "INVALID_GROUP_ID",
        "UNKNOWN_MEMBER_ID",
        "ILLEGAL_GENERATION",
        "STALE_MEMBER_EPOCH",
        "REBALANCE_IN_PROGRESS",
        "GROUP_ID_NOT_FOUND",
    }
)


def delete_offsets(
    admin: AdminClient, group_id: str, partitions: Iterable[TopicPartition], timeout_ms: int | None = None
) -> AlteredOffsets:
    """Delete a group's committed offsets (OffsetDelete) and return the errors; partitions of subscribed topics are
    refused with GroupSubscribedToTopic."""
    fields = {"group_id": group_id, "topics": topic_fields((key, {"partition_index": key[1]}) for key in partitions)}

    def read(response: BrokerResponse, group_id: str) -> AlteredOffsets | KafkaError:
        return error_in(response.entity) or AlteredOffsets(partition_errors(response.entity.topics))

    request = one_key_each(ApiKey.OFFSET_DELETE, lambda key, version: fields, read)
    results = send_to_coordinators(admin, [group_id], request, timeout_ms=timeout_ms)
    return filled(results, lambda error: AlteredOffsets({}, error))[group_id]
