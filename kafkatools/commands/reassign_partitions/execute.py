"""kt reassign-partitions --execute: start the moves of a plan (ReassignPartitionsCommand.executeAssignment).

Order: read the file, check it against the cluster, print the present replicas for a rollback, set throttles, start the
moves. If no move started and no other reassignment is active, the throttles are removed again.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafkatools.commands.reassign_partitions.log_dir_moves import begin_moves
from kafkatools.commands.reassign_partitions.session import Session, open_session
from kafkatools.commands.reassign_partitions.throttles import RUN_VERIFY, set_log_dir_throttle, set_throttle, take_back
from kafkatools.console import Console
from kafkatools.core.admin.reassignments import (
    PartitionReassignment,
    TopicPartition,
    active_reassignments,
    alter_reassignments,
)
from kafkatools.core.admin.replication_throttles import PartitionMove, brokers_of, partition_moves
from kafkatools.core.errors import KafkaError
from kafkatools.exit_status import ExitStatus
from kafkatools.options import Args
from kafkatools.tools.reassignment.listings import ids, names, plural
from kafkatools.tools.reassignment.log_dirs import present_log_dirs, replicas_of
from kafkatools.tools.reassignment.plan_check import present_replicas
from kafkatools.tools.reassignment.plan_file import Plan, check_executable, plan_fields, plan_text, read_plan

Active = Mapping[TopicPartition, PartitionReassignment]

_EXISTING = (
    "Cannot execute because there is an existing partition assignment.  Use --additional to override this and create a "
    "new partition assignment in addition to the existing one. The --additional flag can also be used to change the "
    "throttle by resubmitting the current reassignment."
)


def run(console: Console, args: Args) -> ExitStatus:
    """Start the moves of a reassignment plan; with --dry-run only print them. Returns FAILED when a throttle or a move
    failed, or another reassignment is active without --additional. Raises CommandError or UnknownTopicOrPartition."""
    plan = read_plan(args.reassignment_json_file)
    check_executable(plan)
    with open_session(console, args) as session:
        active = active_reassignments(session.admin)
        if active and not args.additional:
            return session.complain(_EXISTING)
        current = present_replicas(session.admin, plan)
        if args.dry_run:
            return _dry_run(session, plan, current)
        _show_current(session, current)
        return _begin(session, plan, active, current)


def _show_current(session: Session, current: Mapping[TopicPartition, Sequence[int]]) -> None:
    """Print the present replicas and write the undo file, before anything changes."""
    log_dirs = present_log_dirs(session.admin, replicas_of(current))
    for line in ("Current partition replica assignment", "", plan_text(current, log_dirs), ""):
        session.print(line)
    session.print("Save this to use as the --reassignment-json-file option during rollback")
    session.print_json({"current": plan_fields(current, log_dirs)})
    session.console.flush()
    session.write_undo(f"{plan_text(current, log_dirs)}\n")


def _dry_run(session: Session, plan: Plan, current: Mapping[TopicPartition, Sequence[int]]) -> ExitStatus:
    moved = {part: to for part, to in plan.partitions if tuple(to) != tuple(current[part])}
    log_dirs = present_log_dirs(
        session.admin, [replica for replica in plan.log_dirs if replica.broker in current[replica[:2]]]
    )
    elsewhere = {
        replica: path for replica, path in plan.log_dirs.items() if replica in log_dirs and log_dirs[replica] != path
    }
    for part, replicas in moved.items():
        row = {"topic": part[0], "partition": part[1], "replicas": list(replicas), "outcome": "planned"}
        session.console.print(f"{names([part])}: {ids(current[part])} -> {ids(replicas)}", row)
    for replica, path in elsewhere.items():
        row = {**replica._asdict(), "log_dir": path, "outcome": "planned"}
        session.console.print(f"{replica}: {log_dirs[replica]} -> {path}", row)
    if not moved and not elsewhere:
        session.console.note("Nothing would change.")
    return ExitStatus.OK


def _begin(session: Session, plan: Plan, active: Active, current: Mapping[TopicPartition, Sequence[int]]) -> ExitStatus:
    args = session.args
    moves = partition_moves(active, plan.replicas, current)
    is_throttled = args.throttle >= 0 or args.replica_alter_log_dirs_throttle >= 0
    is_ready = not is_throttled or _throttle(session, plan, moves)
    started = _start(session, plan.replicas) if is_ready else []
    if not started:
        if is_throttled:
            _take_back(session, plan, moves, active)
        return ExitStatus.FAILED
    status = ExitStatus.OK if len(started) == len(plan.replicas) else ExitStatus.FAILED
    started_partitions = set(started)
    log_dirs = {replica: path for replica, path in plan.log_dirs.items() if replica[:2] in started_partitions}
    return max(status, begin_moves(session, log_dirs, args.timeout)) if log_dirs else status


def _throttle(session: Session, plan: Plan, moves: Mapping[TopicPartition, PartitionMove]) -> bool:
    """Print Kafka's warning and set the requested throttles. Returns False when one could not be set."""
    session.print(RUN_VERIFY)
    args = session.args
    if args.throttle >= 0 and not set_throttle(session, moves, args.throttle):
        return False
    rate = args.replica_alter_log_dirs_throttle
    return rate < 0 or set_log_dir_throttle(session, {replica.broker for replica in plan.log_dirs}, rate)


def _take_back(session: Session, plan: Plan, moves: Mapping[TopicPartition, PartitionMove], active: Active) -> None:
    """Remove throttles of moves that did not start, unless another reassignment is active.

    After a lost response the moves may have started, so active reassignments are listed again.
    """
    try:
        is_moving = bool(active or active_reassignments(session.admin))
    except KafkaError:
        is_moving = True
    if is_moving:
        session.console.note(
            "A reassignment may be in progress, so the throttles stay; --verify removes them when it has ended."
        )
        return
    topics = list(dict.fromkeys(topic for topic, _ in moves))
    take_back(session, topics, {*brokers_of(moves), *(replica.broker for replica in plan.log_dirs)})


def _start(session: Session, targets: Mapping[TopicPartition, tuple[int, ...]]) -> list[TopicPartition]:
    """Start the moves between brokers and print the outcome of each. Returns the accepted partitions, sorted."""
    outcome = alter_reassignments(
        session.admin, targets, allow_replication_factor_change=not session.args.disallow_replication_factor_change
    )
    failed = {part: error for part, error in sorted(outcome.items()) if error is not None}
    started = sorted(part for part in outcome if part not in failed)
    for part in started:
        row = {"topic": part[0], "partition": part[1], "replicas": list(targets[part])}
        session.print_json(row | {"outcome": "started"})
    if started:
        session.print(f"Successfully started partition reassignment{plural(len(started))} for {names(started)}")
    if failed and not session.args.json:
        session.complain("Error reassigning partition(s):")
    for part, error in failed.items():
        session.complain(f"{names([part])}: {error}", error.name, topic=part[0], partition=part[1])
    return started
