"""All consumer groups of this broker, and their conversion to and from classic groups.

The parts: `consumer_course` changes a group, `consumer_heartbeats` handles the consumer protocol, `classic.members` the
classic one, `topic_regex` resolves patterns, `classic.conversion` converts groups.
"""

from __future__ import annotations

from collections.abc import Collection

from kafkatools.core.broker.coordinators.groups import offset_records, requests
from kafkatools.core.broker.coordinators.groups.classic import group_records
from kafkatools.core.broker.coordinators.groups.classic.conversion import classic_group_of, consumer_group_of
from kafkatools.core.broker.coordinators.groups.classic.group import CONSUMER_PROTOCOL_TYPE, Group
from kafkatools.core.broker.coordinators.groups.classic.members import ClassicMembers
from kafkatools.core.broker.coordinators.groups.classic.rebalance import Rebalancing, assignments_of
from kafkatools.core.broker.coordinators.groups.classic.states import GroupState
from kafkatools.core.broker.coordinators.groups.group_topics import GroupTopics
from kafkatools.core.broker.coordinators.groups.modern.consumer_course import ConsumerCourse, Draft
from kafkatools.core.broker.coordinators.groups.modern.consumer_group import ConsumerGroup
from kafkatools.core.broker.coordinators.groups.modern.consumer_heartbeats import ConsumerHeartbeats
from kafkatools.core.broker.coordinators.groups.modern.consumer_member import ConsumerMember
from kafkatools.core.broker.coordinators.groups.modern.consumer_settings import ConsumerGroupSettings
from kafkatools.core.broker.coordinators.groups.topic_regex import TopicRegexes
from kafkatools.core.errors import GroupIdNotFound, RebalanceInProgress


class ConsumerGroups:
    """All consumer groups that this broker coordinates, in one registry with the classic groups of `rebalancing`.
    `heartbeats` handles ConsumerGroupHeartbeat, `classic_members` requests of the classic protocol."""

    def __init__(self, rebalancing: Rebalancing, settings: ConsumerGroupSettings, topics: GroupTopics) -> None:
        self._rebalancing = rebalancing
        self.topics = topics
        self.settings = settings
        self.course = ConsumerCourse(
            rebalancing.groups,
            settings,
            topics,
            rebalancing.store,
            rebalancing.timer,
            rebalancing.clock,
            self._downgrade_without,
        )
        regexes = TopicRegexes(self.course)
        self.heartbeats = ConsumerHeartbeats(self.course, regexes, self._upgrade)
        may, downgrade = self._may_downgrade_replaced, self._downgrade_replaced
        self.classic_members = ClassicMembers(self.course, regexes, may, downgrade)

    def give_way(self, group: ConsumerGroup) -> None:
        """Delete an empty consumer group so that a classic group can take its id. Raises a KafkaError."""
        self.course.store.append_change(group.group_id, group.tombstones())
        self.course.forget(group)

    # -- topics ----------------------------------------------------------------------------------------------------
    def note_topics(self, names: Collection[str], *, has_new: bool) -> None:
        """Have groups subscribed to created, changed or deleted topics check their assignment at the next heartbeat."""
        self.topics.note_changes(names, has_new=has_new)
        changed = frozenset(names)
        for group in self.course.groups.values():
            if isinstance(group, ConsumerGroup) and not changed.isdisjoint(group.topics_of(group.members.values())):
                group.request_metadata_refresh()

    # -- classic to consumer ---------------------------------------------------------------------------------------
    def _upgrade(self, group_id: str) -> Draft:
        """A draft that converts a classic group to a consumer group. An empty group is replaced under any migration
        policy. Raises GroupIdNotFound for a group with members if policy, protocol type or size do not allow it, and
        for a share group."""
        classic = self.course.groups[group_id]
        if not isinstance(classic, Group):
            raise GroupIdNotFound(f"Group {group_id} is not a consumer group.")
        tombstone = offset_records.group_tombstone(group_id)
        if classic.is_empty:
            return Draft(
                ConsumerGroup(group_id),
                first_records=[tombstone],
                callbacks=[lambda: self._rebalancing.cancel_timers(classic)],
            )
        self._ensure_may_upgrade(classic)
        group = consumer_group_of(classic, self.topics)
        draft = Draft(group, first_records=[tombstone, *(change.record(group_id) for change in group.creation())])
        members = [member for member in group.members.values() if member.classic is not None]
        group.members, converted = {}, group.members
        for member in converted.values():
            group.put(member)

        def take_over() -> None:
            self._rebalancing.cancel_timers(classic)
            for classic_member in classic.members.values():
                classic.complete_join(
                    classic_member, requests.join_error(classic_member.member_id, RebalanceInProgress.code)
                )
                classic.complete_sync(classic_member, requests.error_code_field(RebalanceInProgress.code))
            for member in members:
                if member.classic is not None and member.member_id in group.members:
                    self.course.watch_session(group_id, member.member_id, member.classic.session_timeout_ms)

        draft.callbacks.append(take_over)
        return draft

    def _ensure_may_upgrade(self, classic: Group) -> None:
        start = f"Cannot upgrade classic group {classic.group_id} to consumer group because "
        if not self.settings.migration_policy.allows_upgrade:
            raise GroupIdNotFound(f"{start}online upgrade is disabled.")
        if classic.protocol_type != CONSUMER_PROTOCOL_TYPE:
            raise GroupIdNotFound(f"{start}the group does not use the consumer embedded protocol.")
        if len(classic.members) > self.settings.max_size:
            raise GroupIdNotFound(f"{start}the group size exceeds the consumer group maximum size.")

    # -- consumer to classic ---------------------------------------------------------------------------------------
    def _may_downgrade(self, size: int) -> bool:
        return self.settings.migration_policy.allows_downgrade and 0 < size <= self._rebalancing.config.group_max_size

    def _downgrade_without(self, group: ConsumerGroup, leaving: Collection[str]) -> bool:
        """Convert the group to a classic one if only classic members stay, and the migration policy and group.max.size
        allow it. Returns whether it was converted. Raises a KafkaError."""
        if not group.uses_classic_except(leaving) or not self._may_downgrade(len(group.members) - len(leaving)):
            return False
        classic = classic_group_of(group, leaving, None, self.topics, self.course.clock.wall_ms())
        draft = Draft(group, list(group.removal()))
        self._replace(draft, classic, is_rebalance_due=True)
        self.course.write(draft)
        return True

    def _may_downgrade_replaced(self, group: ConsumerGroup, replaced: ConsumerMember) -> bool:
        return group.uses_classic_except((replaced.member_id,)) and self._may_downgrade(len(group.members))

    def _downgrade_replaced(self, draft: Draft, joining: ConsumerMember, is_stale: bool) -> None:
        """Convert the group to a classic one: its last consumer member, a static one, has become a classic one."""
        group = draft.group
        replaced = group.static_member(joining.instance_id)
        assert replaced is not None
        classic = classic_group_of(group, (), joining, self.topics, self.course.clock.wall_ms())
        draft.changes += group.removal(instead=(replaced.member_id, joining.member_id))
        self._replace(draft, classic, is_rebalance_due=is_stale)

    def _replace(self, draft: Draft, classic: Group, *, is_rebalance_due: bool) -> None:
        group = draft.group
        member_ids = list(group.members)
        draft.last_records.append(group_records.group_metadata(classic, assignments_of(classic)))

        def take_over() -> None:
            for member_id in member_ids:
                self.course.cancel_timers(group.group_id, member_id)
            self.course.forget(group)
            self.course.groups[group.group_id] = classic
            for member in classic.members.values():
                self._rebalancing.reschedule_session(classic, member)
            if is_rebalance_due and classic.is_in(GroupState.STABLE):
                self._rebalancing.prepare_rebalance(classic)

        draft.callbacks.append(take_over)
