"""--verify: how far a plan is (verifyAssignment of ReassignPartitionsCommand).

A plan is done when every partition has the replicas it says, all of them in sync, and every replica lies in the
directory it says: exit 0. Else 3. Throttles are taken away when nothing at all is being moved any more.

What is moving the controller tells, what is there a broker, and the broker may be a moment behind. A partition that is
moving no more, and still has what it shall lose or is not in sync, is therefore asked for again for a short while.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkatools.commands.reassign_partitions.log_dir_moves import MoveState, move_states
from kafkatools.commands.reassign_partitions.session import Session, ids, session, still_moving
from kafkatools.commands.reassign_partitions.throttles import clear_all
from kafkatools.exit_status import ExitStatus
from kafkatools.options import Args
from kafkatools.tools.reassignment.plan_file import names, read_plan

if TYPE_CHECKING:
    from kafkatools.console import Console
    from kafkatools.core.admin.client import AdminClient
    from kafkatools.core.admin.reassignments import PartitionReassignment, TopicPartition

_BEHIND_MS = 2000
_PAUSE_MS = 50


class PartitionState(NamedTuple):
    """A partition of the plan: what it has, shall have, which of these are not in sync, whether it is moving.

    `replicas` is empty when there is no such partition.
    """

    replicas: tuple[int, ...]
    target: tuple[int, ...]
    is_moving: bool
    out_of_sync: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """The state in one word, for --json."""
        if self.is_moving:
            return "in_progress"
        if not self.replicas:
            return "missing"
        if self.replicas != self.target:
            return "different"
        return "out_of_sync" if self.out_of_sync else "completed"

    def describe(self, part: TopicPartition) -> str:
        """Kafka's line."""
        name = f"{part[0]}-{part[1]}"
        if self.is_moving:
            return f"Reassignment of partition {name} is still in progress."
        if self.replicas == self.target:
            return f"Reassignment of partition {name} is completed."
        return (
            f"There is no active reassignment of partition {name}, but replica set is {ids(self.replicas)} rather than "
            f"{ids(self.target)}."
        )


def run(console: Console, args: Args) -> ExitStatus:
    """Tells how far the plan in the file is."""
    plan = read_plan(args.reassignment_json_file)
    with session(console, args) as opened:
        from kafkatools.core.admin.reassignments import active_reassignments

        active = active_reassignments(opened.admin)
        partitions = _states(opened.admin, plan.replicas, active)
        moves = move_states(opened.admin, plan.log_dirs)
        _show(opened, partitions, moves)
        status = _status(opened, partitions, moves)
        others = sorted(set(active) - set(partitions))
        if others:
            opened.note(f"{still_moving(len(others))}, so throttles stay as they are.")
        if active or any(not move.is_done for move in moves.values()) or args.preserve_throttles:
            return status
        cleared = clear_all(opened, plan.topics, {broker for _, replicas in plan.partitions for broker in replicas})
        return ExitStatus.FAILED if cleared != ExitStatus.OK else status


def _states(
    admin: AdminClient,
    wanted: Mapping[TopicPartition, tuple[int, ...]],
    active: Mapping[TopicPartition, PartitionReassignment],
) -> dict[TopicPartition, PartitionState]:
    """The state of each partition, by topic and number."""
    at_rest = {part: target for part, target in wanted.items() if part not in active}
    deadline_ms = admin.clock.now_ms() + _BEHIND_MS
    states = _present(admin, at_rest)
    while any(_may_be_behind(state) for state in states.values()) and admin.clock.now_ms() < deadline_ms:
        admin.clock.sleep_ms(_PAUSE_MS)
        states = _present(admin, at_rest)
    for part in wanted.keys() & active.keys():
        states[part] = PartitionState(active[part].replicas, wanted[part], is_moving=True)
    return dict(sorted(states.items()))


def _may_be_behind(state: PartitionState) -> bool:
    if state.replicas == state.target:
        return bool(state.out_of_sync)
    return bool(state.target) and set(state.target) <= set(state.replicas)


def _present(
    admin: AdminClient, wanted: Mapping[TopicPartition, tuple[int, ...]]
) -> dict[TopicPartition, PartitionState]:
    from kafkatools.core.admin.topics import describe_topics
    from kafkatools.core.errors import UnknownTopicOrPartition

    topics = list(dict.fromkeys(topic for topic, _ in wanted))
    found = {}
    for name, topic in (describe_topics(admin, names=topics) if topics else {}).items():
        if topic.error is not None and not isinstance(topic.error, UnknownTopicOrPartition):
            raise topic.error
        found.update({(name, part.partition): part for part in topic.partitions})
    states = {}
    for part, target in wanted.items():
        there = found.get(part)
        replicas = () if there is None else tuple(there.replicas)
        lagging = () if there is None else tuple(broker for broker in replicas if broker not in there.isr)
        states[part] = PartitionState(replicas, target, is_moving=False, out_of_sync=lagging)
    return states


def _show(opened: Session, partitions: Mapping[TopicPartition, PartitionState], moves: Mapping[Any, MoveState]) -> None:
    opened.print("Status of partition reassignment:")
    for part, state in partitions.items():
        opened.print(state.describe(part))
        row = {"topic": part[0], "partition": part[1], "state": state.name, "replicas": list(state.replicas)}
        opened.print_json(row | {"target": list(state.target), "out_of_sync": list(state.out_of_sync)})
    for line in [move.describe() for move in moves.values()] or [""]:
        opened.print(line)
    for move in moves.values():
        opened.print_json(move.row())


def _status(
    opened: Session, partitions: Mapping[TopicPartition, PartitionState], moves: Mapping[Any, MoveState]
) -> ExitStatus:
    """0 when all is done. Replicas out of sync are named: they do not count as moved."""
    for part, state in partitions.items():
        if state.name == "out_of_sync":
            opened.note(f"{names([part])}: not in sync: {ids(state.out_of_sync)}")
    is_done = all(state.name == "completed" for state in partitions.values())
    return ExitStatus.OK if is_done and all(move.is_there for move in moves.values()) else ExitStatus.FINDINGS
