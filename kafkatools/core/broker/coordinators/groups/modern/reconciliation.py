"""One step of a member towards its target assignment (Kafka's CurrentAssignmentBuilder, KIP-848).

A member first revokes partitions, and stays in its epoch until it confirms that. Then it moves to the target epoch and
gets new partitions, as far as other members have released them. The step has no side effects.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

from kafkatools.core.broker.coordinators.groups.modern.consumer_member import (
    Assignment,
    AssignmentWithEpochs,
    ConsumerMember,
    MemberState,
)
from kafkatools.core.errors import FencedMemberEpoch

NO_EPOCH = -1
Owned = Mapping[uuid.UUID, Collection[int]]


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """The input of a member's reconciliation step. `owned` is what the member reports to own, None without a report.
    `partition_epoch` returns the epoch of a partition's owner, NO_EPOCH without one."""

    target_epoch: int
    target: Assignment
    subscribed_topic_ids: frozenset[uuid.UUID]
    partition_epoch: Callable[[uuid.UUID, int], int]
    owned: Owned | None
    has_subscription_changed: bool = False

    def step(self, member: ConsumerMember) -> ConsumerMember:
        """The member after the step, unchanged if it must wait. Raises FencedMemberEpoch for an unknown state, unless
        the member reports to own no partitions."""
        if member.state is MemberState.STABLE:
            if member.member_epoch != self.target_epoch:
                return self._next(member, member.member_epoch)
            return self._without_unsubscribed(member) if self.has_subscription_changed else member
        if member.state is MemberState.UNREVOKED_PARTITIONS:
            if self._still_owns(member.pending_revocation):
                return self._without_unsubscribed(member) if self.has_subscription_changed else member
            return self._next(member, member.member_epoch)
        if member.state is MemberState.UNRELEASED_PARTITIONS:
            return self._next(member, member.member_epoch)
        if self.owned is None or self.owned:
            raise FencedMemberEpoch(
                "The consumer group member is in a unknown state. "
                "The member must abandon all its partitions and rejoin."
            )
        return self._next(member, self.target_epoch)

    def _still_owns(self, revoked: AssignmentWithEpochs) -> bool:
        if self.owned is None:
            return True
        return any(
            partition in revoked.get(topic_id, {})
            for topic_id, partitions in self.owned.items()
            for partition in partitions
        )

    def _without_unsubscribed(self, member: ConsumerMember) -> ConsumerMember:
        """The member without topics that it has unsubscribed from within this epoch. Their partitions are pending
        revocation until the member no longer reports them."""
        unsubscribed = {
            topic_id: p for topic_id, p in member.assigned.items() if topic_id not in self.subscribed_topic_ids
        }
        if not unsubscribed:
            return member
        retained = {topic_id: p for topic_id, p in member.assigned.items() if topic_id not in unsubscribed}
        revoked = dict(member.pending_revocation)
        for topic_id, partitions in unsubscribed.items():
            revoked[topic_id] = {**revoked.get(topic_id, {}), **partitions}
        if self._still_owns(revoked):
            return member.at_epoch(member.member_epoch, MemberState.UNREVOKED_PARTITIONS, retained, revoked)
        return replace(member, previous_member_epoch=member.member_epoch, assigned=retained)

    def _next(self, member: ConsumerMember, epoch: int) -> ConsumerMember:
        assigned: dict[uuid.UUID, dict[int, int]] = {}
        revoked: dict[uuid.UUID, dict[int, int]] = {}
        added: dict[uuid.UUID, list[int]] = {}
        has_unreleased = False
        for topic_id in [*self.target, *(topic_id for topic_id in member.assigned if topic_id not in self.target)]:
            target = self.target.get(topic_id, frozenset()) if topic_id in self.subscribed_topic_ids else frozenset()
            present = member.assigned.get(topic_id, {})
            retained = {partition: since for partition, since in present.items() if partition in target}
            removed = {partition: since for partition, since in present.items() if partition not in target}
            missing = sorted(partition for partition in target if partition not in retained)
            free = [partition for partition in missing if self._is_free(member, topic_id, partition)]
            has_unreleased = has_unreleased or len(free) < len(missing)
            for target_map, partitions in ((assigned, retained), (revoked, removed)):
                if partitions:
                    target_map[topic_id] = partitions
            if free:
                added[topic_id] = free
        if revoked and self._still_owns(revoked):
            return member.at_epoch(epoch, MemberState.UNREVOKED_PARTITIONS, assigned, revoked)
        for topic_id, free in added.items():
            assigned.setdefault(topic_id, {}).update(dict.fromkeys(free, self.target_epoch))
        state = MemberState.UNRELEASED_PARTITIONS if has_unreleased else MemberState.STABLE
        return member.at_epoch(self.target_epoch, state, assigned, {})

    def _is_free(self, member: ConsumerMember, topic_id: uuid.UUID, partition: int) -> bool:
        """Return whether a partition has no owner, or only this member, which is revoking it."""
        if self.partition_epoch(topic_id, partition) == NO_EPOCH:
            return True
        return partition in member.pending_revocation.get(topic_id, {})
