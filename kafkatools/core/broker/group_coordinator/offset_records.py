"""The records that the coordinator writes (Kafka's GroupCoordinatorRecordHelpers): key and value bytes.

Versions as Apache Kafka 4.3 writes them: groups in 3, offsets in 4, in 1 when the commit names its own expiry.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import NamedTuple

from kafkatools.core.broker.group_coordinator.group import Group
from kafkatools.core.protocol.schemas.offsets import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    encode_record,
)

Record = tuple[bytes, bytes | None]
NO_TIMESTAMP = -1
GROUP_METADATA_VERSION = 3
OFFSET_WITH_EXPIRY_VERSION = 1
OFFSET_VERSION = 4


class CommittedOffset(NamedTuple):
    """One committed position; times are ms since 1970, `expire_ms` None unless the commit named it."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""
    commit_ms: int = 0
    expire_ms: int | None = None
    topic_id: uuid.UUID | None = None


def group_metadata(group: Group, assignments: Mapping[str, bytes]) -> Record:
    """The group with its members and what each was assigned."""
    protocol = group.protocol_name
    members = [
        {
            "member_id": member.member_id,
            "group_instance_id": member.instance_id,
            "client_id": member.client.client_id,
            "client_host": member.client.host,
            "rebalance_timeout": member.rebalance_timeout_ms,
            "session_timeout": member.session_timeout_ms,
            "subscription": member.metadata(protocol or ""),
            "assignment": assignments[member.member_id],
        }
        for member in group.members.values()
    ]
    value = GroupMetadataValue(
        version=GROUP_METADATA_VERSION,
        protocol_type=group.protocol_type or "",
        generation=group.generation_id,
        protocol=protocol,
        leader=group.leader_id,
        current_state_timestamp=NO_TIMESTAMP if group.state_since_ms is None else group.state_since_ms,
        members=members,
    )
    return encode_record(GroupMetadataKey(group=group.group_id), value)


def new_group(group: Group) -> Record:
    """A group that was just made."""
    since_ms = NO_TIMESTAMP if group.state_since_ms is None else group.state_since_ms
    value = GroupMetadataValue(
        version=GROUP_METADATA_VERSION,
        protocol_type="",
        generation=0,
        protocol=None,
        leader=None,
        current_state_timestamp=since_ms,
        members=(),
    )
    return encode_record(GroupMetadataKey(group=group.group_id), value)


def group_tombstone(group_id: str) -> Record:
    """The group is gone."""
    return encode_record(GroupMetadataKey(group=group_id), None)


def committed_offset(group_id: str, topic: str, partition: int, committed: CommittedOffset) -> Record:
    """An offset of a group."""
    key = OffsetCommitKey(group=group_id, topic=topic, partition=partition)
    fields = {
        "offset": committed.offset,
        "metadata": committed.metadata,
        "commit_timestamp": committed.commit_ms,
    }
    if committed.expire_ms is not None:
        value = OffsetCommitValue(version=OFFSET_WITH_EXPIRY_VERSION, expire_timestamp=committed.expire_ms, **fields)
    else:
        value = OffsetCommitValue(
            version=OFFSET_VERSION, leader_epoch=committed.leader_epoch, topic_id=committed.topic_id, **fields
        )
    return encode_record(key, value)


def offset_tombstone(group_id: str, topic: str, partition: int) -> Record:
    """The offset is gone."""
    return encode_record(OffsetCommitKey(group=group_id, topic=topic, partition=partition), None)
