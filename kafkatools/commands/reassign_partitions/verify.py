"""kt reassign-partitions --verify: show the progress of a plan (ReassignPartitionsCommand.verifyAssignment).

The plan is complete (exit status 0, else 3) when every partition has the replicas of the plan, all in sync, in the
directories of the plan. Throttles are removed when no reassignment is in progress.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafkatools.commands.reassign_partitions.session import Session, open_session, still_moving
from kafkatools.commands.reassign_partitions.throttles import clear_all
from kafkatools.console import Console
from kafkatools.core.admin.reassignments import Replica, TopicPartition, active_reassignments
from kafkatools.exit_status import ExitStatus
from kafkatools.options import Args
from kafkatools.tools.reassignment.listings import ids, names
from kafkatools.tools.reassignment.log_dirs import MoveState, move_states
from kafkatools.tools.reassignment.partition_states import PartitionState, partition_states
from kafkatools.tools.reassignment.plan_file import read_plan


def run(console: Console, args: Args) -> ExitStatus:
    """Print the state of each move of a reassignment plan. Returns FINDINGS if the plan is not complete, FAILED if a
    throttle could not be removed.

    Removes the throttles when nothing is moving, unless --preserve-throttles.
    """
    plan = read_plan(args.reassignment_json_file)
    with open_session(console, args) as session:
        active = active_reassignments(session.admin)
        partitions = partition_states(session.admin, plan.replicas, active)
        moves = move_states(session.admin, plan.log_dirs)
        _show(session, partitions, moves)
        status = _status(session, partitions, moves)
        other_partitions = sorted(set(active) - set(partitions))
        if other_partitions:
            session.console.note(f"{still_moving(len(other_partitions))}, so the throttles stay.")
        if active or any(not move.is_done for move in moves.values()) or args.preserve_throttles:
            return status
        cleared = clear_all(session, plan.topics, {broker for _, replicas in plan.partitions for broker in replicas})
        return ExitStatus.FAILED if cleared != ExitStatus.OK else status


def _show(
    session: Session, partitions: Mapping[TopicPartition, PartitionState], moves: Mapping[Replica, MoveState]
) -> None:
    session.print("Status of partition reassignment:")
    for part, state in partitions.items():
        session.print(state.describe(part))
        row = {"topic": part[0], "partition": part[1], "state": state.name, "replicas": list(state.replicas)}
        session.print_json(row | {"target": list(state.target), "out_of_sync": list(state.out_of_sync)})
    for line in [move.describe() for move in moves.values()] or [""]:
        session.print(line)
    for move in moves.values():
        session.print_json(move.row())


def _status(
    session: Session, partitions: Mapping[TopicPartition, PartitionState], moves: Mapping[Replica, MoveState]
) -> ExitStatus:
    """Return OK if the plan is complete, else FINDINGS. Names replicas that are not in sync on stderr."""
    for part, state in partitions.items():
        if state.name == "out_of_sync":
            session.console.note(f"{names([part])}: not in sync: {ids(state.out_of_sync)}")
    is_done = all(state.name == "completed" for state in partitions.values())
    return ExitStatus.OK if is_done and all(move.is_there for move in moves.values()) else ExitStatus.FINDINGS
