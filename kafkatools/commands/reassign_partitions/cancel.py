"""kt reassign-partitions --cancel: cancel the active moves of a plan (ReassignPartitionsCommand.cancelAssignment).

A partition returns to its previous replicas. Throttles are removed. While another reassignment is active, the rates of
the brokers stay, since they throttle it too.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafkatools.commands.reassign_partitions.log_dir_moves import begin_moves
from kafkatools.commands.reassign_partitions.session import Session, open_session, still_moving
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
    with open_session(console, args) as session:
        if plan.log_dirs and session.admin.through_controllers:
            raise CommandError("Only brokers can cancel moves between log directories: use --bootstrap-server")
        reassignments = active_reassignments(session.admin, plan.replicas) if plan.partitions else {}
        if args.dry_run:
            return _dry_run(session, plan, sorted(reassignments))
        if args.undo_file is not None:
            _write_undo(session, plan, reassignments)
        status = _cancel_partitions(session, sorted(reassignments))
        if status == ExitStatus.OK:
            status = _cancel_log_dirs(session, plan)
        if args.preserve_throttles:
            return status
        brokers = [broker for reassignment in reassignments.values() for broker in reassignment.replicas]
        return max(status, _clear(session, plan, {*brokers, *(broker for _, to in plan.partitions for broker in to)}))


def _target_replicas(
    reassignments: Mapping[TopicPartition, PartitionReassignment],
) -> dict[TopicPartition, tuple[int, ...]]:
    """Return the target replicas of partitions that are being reassigned, the preferred leader first."""
    return {
        part: tuple(broker for broker in reassignment.replicas if broker not in reassignment.removing_replicas)
        for part, reassignment in sorted(reassignments.items())
    }


def _write_undo(session: Session, plan: Plan, reassignments: Mapping[TopicPartition, PartitionReassignment]) -> None:
    """Write a plan that would resume the cancelled moves. Writes no file when nothing is moving."""
    states = move_states(session.admin, plan.log_dirs)
    log_dirs = {replica: state.future for replica, state in states.items() if state.future is not None}
    stay = {replica[:2]: tuple(plan.replicas[replica[:2]]) for replica in log_dirs}
    if reassignments or log_dirs:
        session.write_undo(f"{plan_text(stay | _target_replicas(reassignments), log_dirs)}\n")


def _dry_run(session: Session, plan: Plan, active: list[TopicPartition]) -> ExitStatus:
    states = move_states(session.admin, plan.log_dirs)
    under_way = [state for state in states.values() if state.future is not None]
    for part in active:
        row: dict[str, object] = {"topic": part[0], "partition": part[1], "outcome": "planned"}
        session.console.print(f"{names([part])} would return to its previous replicas", row)
    for state in under_way:
        replica = state.replica
        row = {**replica._asdict(), "log_dir": state.current, "outcome": "planned"}
        session.console.print(f"{replica} would stay in {state.current}", row)
    if not active and not under_way:
        session.console.note("Nothing would change.")
    return ExitStatus.OK


def _cancel_partitions(session: Session, active: list[TopicPartition]) -> ExitStatus:
    outcome = alter_reassignments(session.admin, dict.fromkeys(active)) if active else {}
    ended = [part for part in active if isinstance(outcome[part], NoReassignmentInProgress)]
    failed = {part: outcome[part] for part in active if outcome[part] is not None and part not in ended}
    cancelled = [part for part in active if outcome[part] is None]
    for part in cancelled:
        session.print_json({"topic": part[0], "partition": part[1], "outcome": "cancelled"})
    if cancelled:
        session.print(f"Successfully cancelled partition reassignment{plural(len(cancelled))} for: {names(cancelled)}")
    elif not failed:
        session.print("None of the specified partition reassignments are active.")
    if ended:
        session.console.note(f"Ended before it could be cancelled: {names(ended)}")
    if failed and not session.args.json:
        session.complain(f"Error cancelling partition reassignment{plural(len(failed))} for:")
    for part, error in failed.items():
        session.complain(f"{names([part])}: {error}", topic=part[0], partition=part[1])
    return ExitStatus.FAILED if failed else ExitStatus.OK


def _cancel_log_dirs(session: Session, plan: Plan) -> ExitStatus:
    """Cancel moves between log directories, by a request to move each replica to its current directory. Returns FAILED
    if a request was refused or timed out."""
    states = move_states(session.admin, plan.log_dirs)
    under_way = {
        replica: state.current
        for replica, state in states.items()
        if state.future is not None and state.current is not None
    }
    if under_way:
        return begin_moves(session, under_way, session.args.timeout)
    session.print("None of the specified partition moves are active.")
    return ExitStatus.OK


def _clear(session: Session, plan: Plan, brokers: set[int]) -> ExitStatus:
    """Remove the throttles, except those that other active reassignments need. Returns FAILED if one could not be
    removed."""
    other_reassignments = active_reassignments(session.admin)
    if not other_reassignments:
        return clear_all(session, plan.topics, brokers)
    moving_topics = {topic for topic, _ in other_reassignments}
    session.console.note(
        f"{still_moving(len(other_reassignments))}, so the throttles of the brokers stay; "
        "--verify removes them at the end."
    )
    return clear_topics(session, [topic for topic in plan.topics if topic not in moving_topics])
