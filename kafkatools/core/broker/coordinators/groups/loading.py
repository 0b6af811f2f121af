"""Groups and offsets while a partition of `__consumer_offsets` is loaded, before the coordinator takes them over.

Source: the replay half of Kafka's GroupMetadataManager and OffsetMetadataManager.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafkatools.core.broker.coordinators.groups import offset_records
from kafkatools.core.broker.coordinators.groups.any_group import AnyGroup
from kafkatools.core.broker.coordinators.groups.classic.group import Group
from kafkatools.core.broker.coordinators.groups.classic.member import Member
from kafkatools.core.broker.coordinators.groups.classic.states import GroupState
from kafkatools.core.broker.coordinators.groups.modern.consumer_changes import change_of as consumer_change_of
from kafkatools.core.broker.coordinators.groups.modern.consumer_group import ConsumerGroup
from kafkatools.core.broker.coordinators.groups.offset_records import CommittedOffset
from kafkatools.core.broker.coordinators.groups.offsets import Offsets, Place
from kafkatools.core.broker.coordinators.groups.requests import Client
from kafkatools.core.broker.coordinators.groups.share.changes import change_of as share_change_of
from kafkatools.core.broker.coordinators.groups.share.group import ShareGroup
from kafkatools.core.broker.coordinators.groups.streams.changes import change_of as streams_change_of
from kafkatools.core.broker.coordinators.groups.streams.group import StreamsGroup
from kafkatools.core.protocol.schemas.errors import RecordFormatError, UnknownRecordType
from kafkatools.core.protocol.schemas.offsets import decode_record


class LoadedGroups:
    """Groups and committed offsets read from a partition of `__consumer_offsets`. `pending` holds the offsets of open
    transactions in log order, each with producer id, group id and partition."""

    def __init__(self, wall_ms: int) -> None:
        self.groups: dict[str, AnyGroup] = {}
        self.offsets = Offsets()
        self.pending: list[tuple[int, str, Place, CommittedOffset | None]] = []
        self._wall_ms = wall_ms

    def take(self, key: Any, value: Any) -> None:
        """Apply the last record of a key to the groups or offsets being loaded. Ignores records of other kinds."""
        kind = type(key).__schema__.name
        if kind in ("OffsetCommitKey", "LegacyOffsetCommitKey"):
            self.offsets.put(key.group, (key.topic, key.partition), committed_offset_of(value))
        elif kind == "GroupMetadataKey":
            self.groups[key.group] = group_of(key.group, value)
        elif (consumer_change := consumer_change_of(key, value)) is not None:
            self._take_change(key.group_id, ConsumerGroup, consumer_change)
        elif (share_change := share_change_of(key, value)) is not None:
            self._take_change(key.group_id, ShareGroup, share_change)
        elif (streams_change := streams_change_of(key, value)) is not None:
            self._take_change(key.group_id, StreamsGroup, streams_change)

    def _take_change(self, group_id: str, kind: type[ConsumerGroup | ShareGroup | StreamsGroup], change: Any) -> None:
        group = self.groups.get(group_id)
        if not isinstance(group, kind):
            group = self.groups[group_id] = kind(group_id)
        group.apply(change)

    def take_pending(self, producer_id: int, key: Any, value: Any) -> None:
        """Add an offset that an open transaction has committed; `value` is None if a later commit replaced it."""
        committed = None if value is None else committed_offset_of(value)
        self.pending.append((producer_id, key.group, (key.topic, key.partition), committed))

    def take_replaced(self, end: int, previous_values: Mapping[bytes, bytes | None]) -> None:
        """Store the committed offsets (None: no offset) that a batch above the high watermark replaced. The batch ends
        at offset `end`. Ignores other records and undecodable ones."""
        for key, value in previous_values.items():
            try:
                entity, entity_value = decode_record(key, value)
            except (RecordFormatError, UnknownRecordType):
                continue
            if type(entity).__schema__.name in ("OffsetCommitKey", "LegacyOffsetCommitKey"):
                previous = None if value is None else committed_offset_of(entity_value)
                self.offsets.replaced.batch_at(entity.group, end)[entity.topic, entity.partition] = previous

    def finish(self) -> None:
        """Create a classic group for every group id that has only committed or pending offsets."""
        for group_id in [*self.offsets.group_ids(), *(row[1] for row in self.pending)]:
            if group_id not in self.groups:
                self.groups[group_id] = Group(group_id, self._wall_ms)


def committed_offset_of(value: Any) -> CommittedOffset:
    """The committed offset that an OffsetCommitValue entity holds."""
    expire_ms = getattr(value, "expire_timestamp", offset_records.NO_TIMESTAMP)
    return CommittedOffset(
        value.offset,
        getattr(value, "leader_epoch", -1),
        value.metadata,
        value.commit_timestamp,
        None if expire_ms < 0 else expire_ms,
        getattr(value, "topic_id", None),
    )


def group_of(group_id: str, value: Any) -> Group:
    """The classic group that a GroupMetadataValue entity holds: Stable with members, else Empty."""
    since_ms = getattr(value, "current_state_timestamp", offset_records.NO_TIMESTAMP)
    group = Group(group_id, since_ms)
    for member_metadata in value.members:
        rebalance_timeout_ms = getattr(member_metadata, "rebalance_timeout", -1)
        if rebalance_timeout_ms < 0:
            rebalance_timeout_ms = member_metadata.session_timeout
        member = Member(
            member_metadata.member_id,
            getattr(member_metadata, "group_instance_id", None),
            Client(member_metadata.client_id, member_metadata.client_host),
            (member_metadata.session_timeout, rebalance_timeout_ms),
            value.protocol_type,
            ((value.protocol or "", bytes(member_metadata.subscription)),),
        )
        member.assignment = bytes(member_metadata.assignment)
        group.add(member)
    group.state = GroupState.STABLE if group.members else GroupState.EMPTY
    group.previous_state = GroupState.DEAD
    group.state_since_ms = since_ms if since_ms >= 0 else None
    group.protocol_type = value.protocol_type or None
    group.protocol_name = value.protocol
    group.generation_id = value.generation
    group.leader_id = value.leader
    group.recompute_subscriptions()
    return group
