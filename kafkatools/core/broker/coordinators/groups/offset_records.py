"""The records that the coordinator writes (Kafka's GroupCoordinatorRecordHelpers): key and value bytes.

Versions as Apache Kafka 4.3 writes them: groups in 3, offsets in 4, in 1 when the commit names its own expiry.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from kafkatools.core.protocol.schemas.offsets import (
    GroupMetadataKey,
    GroupMetadataValue,
    encode_record,
)
from kafkatools.core.protocol.slices import paced
from kafkatools.core.protocol.varints import unsigned_varint

if TYPE_CHECKING:
    from kafkatools.core.broker.coordinators.groups.classic.group import Group

Record = tuple[bytes, bytes | None]
Place = tuple[str, int]
NO_TIMESTAMP = -1
GROUP_METADATA_VERSION = 3
OFFSET_WITH_EXPIRY_VERSION = 1
OFFSET_VERSION = 4
OFFSET_KEY_TYPE = 1
_KEY = Struct(">hh")
_LENGTH = Struct(">h")
_PARTITION = Struct(">i")
_VALUE_1 = Struct(">hqh")
_VALUE_4 = Struct(">hqi")
_TIME = Struct(">q")
_TWO_TIMES = Struct(">qq")
_TOPIC_ID_TAG = b"\1\0\x10"  # one tagged field, number 0, of 16 bytes


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
    """An offset of a group, framed by hand: commits are what a coordinator writes most."""
    key = offset_key(group_id, topic, partition)
    metadata = committed.metadata.encode()
    if committed.expire_ms is not None:
        head = _VALUE_1.pack(OFFSET_WITH_EXPIRY_VERSION, committed.offset, len(metadata))
        return key, head + metadata + _TWO_TIMES.pack(committed.commit_ms, committed.expire_ms)
    head = _VALUE_4.pack(OFFSET_VERSION, committed.offset, committed.leader_epoch) + unsigned_varint(len(metadata) + 1)
    topic_id = committed.topic_id
    tags = b"\0" if topic_id is None else _TOPIC_ID_TAG + topic_id.bytes
    return key, head + metadata + _TIME.pack(committed.commit_ms) + tags


def committed_offsets(group_id: str, offsets: Sequence[tuple[Place, CommittedOffset]]) -> list[Record]:
    """The records of a commit."""
    return [committed_offset(group_id, *place, committed) for place, committed in paced(offsets)]


def offset_key(group_id: str, topic: str, partition: int) -> bytes:
    """OffsetCommitKey."""
    group, name = group_id.encode(), topic.encode()
    return b"".join(
        (_KEY.pack(OFFSET_KEY_TYPE, len(group)), group, _LENGTH.pack(len(name)), name, _PARTITION.pack(partition))
    )


def offset_tombstone(group_id: str, topic: str, partition: int) -> Record:
    """The offset is gone."""
    return offset_key(group_id, topic, partition), None
