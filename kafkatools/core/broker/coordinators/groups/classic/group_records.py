"""The record of a classic group (Kafka's GroupCoordinatorRecordHelpers), in version 3 as Apache Kafka 4.3 writes it."""

from __future__ import annotations

from collections.abc import Mapping

from kafkatools.core.broker.coordinators.groups.classic.group import Group
from kafkatools.core.broker.coordinators.groups.offset_records import NO_TIMESTAMP, Record
from kafkatools.core.protocol.schemas.offsets import GroupMetadataKey, GroupMetadataValue, encode_record

GROUP_METADATA_VERSION = 3


def group_metadata(group: Group, assignments: Mapping[str, bytes]) -> Record:
    """The GroupMetadata record of a classic group with its members. `assignments` is by member id."""
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
