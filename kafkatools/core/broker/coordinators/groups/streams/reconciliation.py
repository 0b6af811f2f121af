"""One step of a member towards its target tasks (Kafka's streams CurrentAssignmentBuilder, KIP-1071).

A member first revokes tasks, and stays in its epoch until it confirms that. Then it moves to the target epoch and gets
new tasks, as far as they are free: an active task has no other owner, and no task has two kinds in one process. The
step has no side effects.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from kafkatools.core.broker.coordinators.groups.streams.member import MemberState, StreamsMember
from kafkatools.core.broker.coordinators.groups.streams.tasks import OWNS_NOTHING, OwnedTasks, Task, Tasks, TaskSet
from kafkatools.core.errors import FencedMemberEpoch


class Owners(Protocol):
    """The processes that have a task now (`TaskOwners`)."""

    def active(self, task: Task) -> str | None: ...
    def has_inactive(self, task: Task, process_id: str) -> bool: ...


@dataclass(eq=False, slots=True)
class _Difference:
    """Tasks of one kind: those that stay, those to revoke, and those to add that are free."""

    kept: dict[str, frozenset[int]]
    revoked: dict[str, frozenset[int]]
    added: dict[str, frozenset[int]]
    has_unreleased: bool = False


def _difference(current: TaskSet, target: TaskSet, is_unreleased: Callable[[Task], bool]) -> _Difference:
    result = _Difference({}, {}, {})
    for key in dict.fromkeys([*target, *current]):
        present, wanted = current.get(key, frozenset()), target.get(key, frozenset())
        missing = wanted - present
        free = frozenset(partition for partition in missing if not is_unreleased((key, partition)))
        result.has_unreleased = result.has_unreleased or len(free) < len(missing)
        for tasks, partitions in (
            (result.kept, present & wanted),
            (result.revoked, present - wanted),
            (result.added, free),
        ):
            if partitions:
                tasks[key] = partitions
    return result


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """The input of a member's step. `owned` is what the member reports to own, None without a report."""

    target_epoch: int
    target: Tasks
    owners: Owners
    owned: Tasks | None

    def step(self, member: StreamsMember) -> StreamsMember:
        """The member after the step, unchanged if it must wait. Raises FencedMemberEpoch for an unknown state, unless
        the member reports to own no tasks."""
        if member.state is MemberState.STABLE:
            return member if member.member_epoch == self.target_epoch else self._next(member, member.member_epoch)
        if member.state is MemberState.UNREVOKED_TASKS:
            if self._still_owns(member.pending_revocation):
                return member
            return self._next(member, member.member_epoch + 1)
        if member.state is MemberState.UNRELEASED_TASKS:
            return self._next(member, member.member_epoch)
        if self.owned is None or not self.owned.is_empty:
            raise FencedMemberEpoch(
                "The streams group member is in a unknown state. The member must abandon all its tasks and rejoin."
            )
        return self._next(member, self.target_epoch)

    def _still_owns(self, revoked: OwnedTasks) -> bool:
        return self.owned is None or self.owned.has_any_of(revoked)

    def _next(self, member: StreamsMember, epoch: int) -> StreamsMember:
        present, target, owners, process_id = member.assigned, self.target, self.owners, member.process_id
        present_active = {key: frozenset(epochs) for key, epochs in present.active.items()}

        def is_active_elsewhere(task: Task) -> bool:
            return owners.active(task) is not None or owners.has_inactive(task, process_id)

        def is_in_process(task: Task) -> bool:
            return owners.active(task) == process_id or owners.has_inactive(task, process_id)

        active = _difference(present_active, target.active, is_active_elsewhere)
        standby = _difference(present.standby, target.standby, is_in_process)
        warmup = _difference(present.warmup, target.warmup, is_in_process)
        kept = OwnedTasks(_with_epochs(active.kept, present), standby.kept, warmup.kept)
        revoked = OwnedTasks(_with_epochs(active.revoked, present), standby.revoked, warmup.revoked)
        if not revoked.is_empty and self._still_owns(revoked):
            return member.at_epoch(epoch, MemberState.UNREVOKED_TASKS, kept, revoked)
        new_active = {key: dict.fromkeys(partitions, self.target_epoch) for key, partitions in active.added.items()}
        assigned = kept.merged(OwnedTasks(new_active, standby.added, warmup.added))
        is_waiting = active.has_unreleased or standby.has_unreleased or warmup.has_unreleased
        state = MemberState.UNRELEASED_TASKS if is_waiting else MemberState.STABLE
        return member.at_epoch(self.target_epoch, state, assigned, OWNS_NOTHING)


def _with_epochs(tasks: TaskSet, present: OwnedTasks) -> dict[str, dict[int, int]]:
    return {key: {index: present.active[key][index] for index in partitions} for key, partitions in tasks.items()}
