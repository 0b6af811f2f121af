"""kt reassign-partitions --cancel: cancel the active moves of a plan (ReassignPartitionsCommand.cancelAssignment).

A partition returns to its previous replicas. Throttles are removed. While another reassignment is active, the rates of
the brokers stay, since they throttle it too.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafkatools.commands.reassign_partitions.log_dir_moves import begin_moves
from kafkatools.commands.reassign_partitions.session import Session, session, still_moving
from kafkatools.commands.reassign_partitions.throttles import clear_all, clear_topics
from kafkatools.console import Console
from kafkatools.core.admin.reassignments import (
    PartitionReassignment,
    TopicPartition,
    active_reassignments,
    alter_reassignments,
)
from kafkatools.core.errors import NoReassignmentInProgress
from kafkatools.exit_status import CommandError, ExitStatus
from kafkatools.options import Args
from kafkatools.tools.reassignment.listings import names, plural
from kafkatools.tools.reassignment.log_dirs import move_states
from kafkatools.tools.reassignment.plan_file import Plan, plan_text, read_plan


def run(console: Console, args: Args) -> ExitStatus:
    """Cancel the moves of a reassignment plan, and remove throttles unless --preserve-throttles; with --dry-run only
    print the moves. Returns FAILED when a move could not be cancelled or a throttle not removed. Raises
    CommandError."""
    plan = read_plan(args.reassignment_json_file)
    with session(console, args) as opened:
        if plan.log_dirs and opened.admin.through_controllers:
            raise CommandError("Only brokers can cancel moves between log directories: use --bootstrap-server")
        found = active_reassignments(opened.admin, plan.replicas) if plan.partitions else {}
        if args.dry_run:
            return _dry_run(opened, plan, sorted(found))
        if args.undo_file is not None:
            _write_undo(opened, plan, found)
        status = _cancel_partitions(opened, sorted(found))
        if status == ExitStatus.OK:
            status = _cancel_log_dirs(opened, plan)
        if args.preserve_throttles:
            return status
        involved = [broker for moving in found.values() for broker in moving.replicas]
        return max(status, _clear(opened, plan, {*involved, *(broker for _, to in plan.partitions for broker in to)}))


def _on_their_way(found: Mapping[TopicPartition, PartitionReassignment]) -> dict[TopicPartition, tuple[int, ...]]:
    """Return the target replicas of partitions that are being reassigned, the preferred leader first."""
    return {
        part: tuple(broker for broker in moving.replicas if broker not in moving.removing_replicas)
        for part, moving in sorted(found.items())
    }


def _write_undo(opened: Session, plan: Plan, found: Mapping[TopicPartition, PartitionReassignment]) -> None:
    """Write a plan that would resume the cancelled moves. Writes no file when nothing is moving."""
    states = move_states(opened.admin, plan.log_dirs)
    log_dirs = {replica: state.future for replica, state in states.items() if state.future is not None}
    stay = {replica[:2]: tuple(plan.replicas[replica[:2]]) for replica in log_dirs}
    if found or log_dirs:
        opened.write_undo(f"{plan_text(stay | _on_their_way(found), log_dirs)}\n")


def _dry_run(opened: Session, plan: Plan, active: list[TopicPartition]) -> ExitStatus:
    states = move_states(opened.admin, plan.log_dirs)
    under_way = [state for state in states.values() if state.future is not None]
    for part in active:
        row: dict[str, object] = {"topic": part[0], "partition": part[1], "outcome": "planned"}
        opened.console.print(f"{names([part])} would return to its previous replicas", row)
    for state in under_way:
        replica = state.replica
        row = {**replica._asdict(), "log_dir": state.current, "outcome": "planned"}
        opened.console.print(f"{replica} would stay in {state.current}", row)
    if not active and not under_way:
        opened.console.note("Nothing would change.")
    return ExitStatus.OK


def _cancel_partitions(opened: Session, active: list[TopicPartition]) -> ExitStatus:
    outcome = alter_reassignments(opened.admin, dict.fromkeys(active)) if active else {}
    ended = [part for part in active if isinstance(outcome[part], NoReassignmentInProgress)]
    failed = {part: outcome[part] for part in active if outcome[part] is not None and part not in ended}
    cancelled = [part for part in active if outcome[part] is None]
    for part in cancelled:
        opened.print_json({"topic": part[0], "partition": part[1], "outcome": "cancelled"})
    if cancelled:
        opened.print(f"Successfully cancelled partition reassignment{plural(len(cancelled))} for: {names(cancelled)}")
    elif not failed:
        opened.print("None of the specified partition reassignments are active.")
    if ended:
        opened.console.note(f"Ended before it could be cancelled: {names(ended)}")
    if failed and not opened.args.json:
        opened.complain(f"Error cancelling partition reassignment{plural(len(failed))} for:")
    for part, error in failed.items():
        opened.complain(f"{names([part])}: {error}", topic=part[0], partition=part[1])
    return ExitStatus.FAILED if failed else ExitStatus.OK


def _cancel_log_dirs(opened: Session, plan: Plan) -> ExitStatus:
    """Cancel moves between log directories, by a request to move each replica to its current directory. Returns FAILED
    if a request was refused or timed out."""
    states = move_states(opened.admin, plan.log_dirs)
    under_way = {
        replica: state.current
        for replica, state in states.items()
        if state.future is not None and state.current is not None
    }
    if under_way:
        return begin_moves(opened, under_way, opened.args.timeout)
    opened.print("None of the specified partition moves are active.")
    return ExitStatus.OK


def _clear(opened: Session, plan: Plan, brokers: set[int]) -> ExitStatus:
    """Remove the throttles, except those that other active reassignments need. Returns FAILED if one could not be
    removed."""
    others = active_reassignments(opened.admin)
    if not others:
        return clear_all(opened, plan.topics, brokers)
    moving = {topic for topic, _ in others}
    opened.console.note(
        f"{still_moving(len(others))}, so the throttles of the brokers stay; --verify removes them at the end."
    )
    return clear_topics(opened, [topic for topic in plan.topics if topic not in moving])
