"""AlterShareGroupOffsets and DeleteShareGroupOffsets (KIP-932), for share groups without members.

Source: GroupMetadataManager.alterShareGroupOffsets, sharePartitionsEligibleForOffsetDeletion of Apache Kafka 4.3. The
new state of a share partition has the group's epoch, which rose when the last member left, so it fences a leader with
the old state.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping

from kafkatools.core.broker.coordinators.groups.share.changes import (
    Change,
    GroupEpochChange,
    StatePartitionsChange,
    TargetEpochChange,
)
from kafkatools.core.broker.coordinators.groups.share.group import ShareGroup
from kafkatools.core.broker.coordinators.groups.share.groups import ShareGroups
from kafkatools.core.broker.coordinators.share_state.share_state import ShareKey
from kafkatools.core.errors import KafkaError, NonEmptyGroup

OnEnd = Callable[[KafkaError | None], None]


class ShareOffsets:
    """Sets and deletes the start offsets of share groups."""

    def __init__(self, groups: ShareGroups) -> None:
        self._groups = groups

    def alter(self, group_id: str, offsets: Mapping[str, Mapping[int, int]], on_altered: OnEnd) -> None:
        """Set a share group's start offsets, by topic and partition, and drop its acquired records. Creates a missing
        group; ignores unknown topics. Without offsets, only calls `on_altered` with None. Calls `on_altered` with the
        first error of a share coordinator or of the write, or None. Raises NonEmptyGroup, GroupIdNotFound or, without a
        cluster, another KafkaError."""
        group = self._empty(group_id)
        if not offsets:
            on_altered(None)
            return
        starts = {
            ShareKey(group_id, topic.topic_id, partition): offset
            for name, partitions in offsets.items()
            if (topic := self._groups.topics.by_name(name)) is not None
            for partition, offset in partitions.items()
        }
        epoch = group.group_epoch or 1
        persister = self._groups.persister()
        if persister is None:
            for key, offset in starts.items():
                self._groups.states().initialize(key, epoch, offset)
            self._note_begun(group, offsets)
            on_altered(None)
            return
        on_initialized = _after(lambda: self._note_begun(self._empty(group_id), offsets), on_altered)
        persister.initialize_all(starts, epoch, on_initialized)

    def _empty(self, group_id: str) -> ShareGroup:
        """The share group, or a new one. Raises NonEmptyGroup or GroupIdNotFound."""
        is_new = group_id not in self._groups.groups
        group = ShareGroup(group_id) if is_new else self._groups.find(group_id)
        if not group.is_empty:
            raise NonEmptyGroup()
        return group

    def _note_begun(self, group: ShareGroup, offsets: Mapping[str, Mapping[int, int]]) -> None:
        states = group.states
        for name, partitions in offsets.items():
            topic = self._groups.topics.by_name(name)
            if topic is not None:
                states = states.with_initialized(topic.topic_id, name, partitions)
        changes: list[Change] = [StatePartitionsChange(states)]
        if not group.group_epoch:
            changes = [GroupEpochChange(1, group.metadata_hash), TargetEpochChange(1, 0), *changes]
        self._groups.write(group, changes)
        self._groups.group_emptied(group.group_id)

    def delete(
        self, group_id: str, topics: Iterable[str], on_deleted: Callable[[KafkaError | None, list[str]], None]
    ) -> None:
        """Delete a share group's states of these topics, and drop its acquired records. Calls `on_deleted` with the
        first error of a share coordinator or of the write, or None, and with the topics that do not exist or had no
        state. Raises NonEmptyGroup, GroupIdNotFound or, without a cluster, another KafkaError."""
        group = self._groups.find(group_id)
        if not group.is_empty:
            raise NonEmptyGroup()
        missing: list[str] = []
        states: dict[uuid.UUID, list[ShareKey]] = {}
        for name in topics:
            topic = self._groups.topics.by_name(name)
            if topic is None or topic.topic_id not in group.states.initialized:
                missing.append(name)
                continue
            partitions = sorted(group.states.partitions_of(topic.topic_id))
            states[topic.topic_id] = [ShareKey(group_id, topic.topic_id, partition) for partition in partitions]
        keys = [key for keys_of_topic in states.values() for key in keys_of_topic]
        persister = self._groups.persister()
        if persister is None:
            for key in keys:
                self._groups.states().delete(key)
            self._note_forgotten(group, states)
            on_deleted(None, missing)
            return
        on_states_deleted = _after(
            lambda: self._note_forgotten(self._empty(group_id), states), lambda error: on_deleted(error, missing)
        )
        persister.delete_all(keys, on_states_deleted)

    def _note_forgotten(self, group: ShareGroup, topic_ids: Iterable[uuid.UUID]) -> None:
        states = group.states
        for topic_id in topic_ids:
            states = states.without_topic(topic_id)
        if states != group.states:
            self._groups.write(group, [StatePartitionsChange(states)])
            self._groups.group_emptied(group.group_id)


def _after(note: Callable[[], None], on_end: OnEnd) -> OnEnd:
    """A callback that calls `note` unless it gets an error, then `on_end` with that error or the one `note` raises."""

    def finish(error: KafkaError | None) -> None:
        if error is None:
            try:
                note()
            except KafkaError as failure:
                error = failure
        on_end(error)

    return finish
