"""Setting and forgetting where a share group begins (KIP-932): only while it has no members.

Source: GroupMetadataManager.completeAlterShareGroupOffsets, sharePartitionsEligibleForOffsetDeletion of Apache Kafka
4.3. The state of a partition begins anew, in a new epoch, so that a leader that knows the old one is fenced.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafkatools.core.broker.group_coordinator.share_changes import (
    Change,
    GroupEpochChange,
    StatePartitionsChange,
    TargetEpochChange,
)
from kafkatools.core.broker.group_coordinator.share_group import ShareGroup
from kafkatools.core.broker.group_coordinator.share_groups import ShareGroups
from kafkatools.core.broker.share_coordinator.share_state import ShareKey
from kafkatools.core.errors import NonEmptyGroup


class ShareOffsets:
    """Over the share groups."""

    def __init__(self, groups: ShareGroups) -> None:
        self._groups = groups

    def alter(self, group_id: str, offsets: Mapping[str, Mapping[int, int]]) -> None:
        """Begin at these offsets, by topic and partition; a group nobody joined is made. Raises a KafkaError."""
        is_new = group_id not in self._groups.groups
        group = ShareGroup(group_id) if is_new else self._groups.find(group_id)
        if not group.is_empty:
            raise NonEmptyGroup()
        if not offsets:
            return
        epoch = group.group_epoch + 1
        states = group.states
        for name, partitions in offsets.items():
            topic = self._groups.topics.by_name(name)
            assert topic is not None
            for partition, offset in partitions.items():
                self._groups.states().initialize(ShareKey(group_id, topic.topic_id, partition), epoch, offset)
            states = states.with_initialized(topic.topic_id, name, partitions)
        changes: list[Change] = [
            GroupEpochChange(epoch, group.metadata_hash),
            TargetEpochChange(epoch, group.assignment_timestamp_ms),
            StatePartitionsChange(states),
        ]
        self._groups.write(group, changes)
        self._groups.group_emptied(group_id)

    def delete(self, group_id: str, topics: Iterable[str]) -> list[str]:
        """Forget all states of these topics; gives those that had none. Raises a KafkaError."""
        group = self._groups.find(group_id)
        if not group.is_empty:
            raise NonEmptyGroup()
        states, without = group.states, []
        for name in topics:
            topic = self._groups.topics.by_name(name)
            if topic is None or topic.topic_id not in states.initialized:
                without.append(name)
                continue
            for partition in sorted(states.partitions_of(topic.topic_id)):
                self._groups.states().delete(ShareKey(group_id, topic.topic_id, partition))
            states = states.without_topic(topic.topic_id)
        if states is not group.states:
            self._groups.write(group, [StatePartitionsChange(states)])
            self._groups.group_emptied(group_id)
        return without
