"""The moves of a supervised reassignment: the plan file compared with the cluster.

An impossible plan is refused here, before anything is changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.reassignments import PartitionReassignment, Replica, TopicPartition, active_reassignments
from kafkatools.exit_status import CommandError
from kafkatools.tools.reassignment.cluster_state import read_cluster
from kafkatools.tools.reassignment.directories import (
    NO_DIRECTORIES,
    Directories,
    directories_to_change,
    read_directories,
)
from kafkatools.tools.reassignment.journal import Record
from kafkatools.tools.reassignment.layout import ClusterState, Partition
from kafkatools.tools.reassignment.listings import WAIT_HINT, partition_names
from kafkatools.tools.reassignment.moves import Job
from kafkatools.tools.reassignment.plan import Move, ReassignmentPlan, broker_loads
from kafkatools.tools.reassignment.plan_file import Plan, check_executable, plan_text, read_plan
from kafkatools.tools.undo_files import write_undo_file, write_unnamed_undo_file

Active = Mapping[TopicPartition, "PartitionReassignment"]


class Work(NamedTuple):
    """The partitions that a supervised reassignment has to move (`jobs`), those already moving, the previous replicas
    for the undo file, and the cluster. `planned` is the number of partitions in the file, `others` that of
    reassignments by other users. `log_dirs_before` are the previous log directories of partitions whose plan names
    directories, `log_dirs_after` those of the plan."""

    jobs: Mapping[TopicPartition, Job]
    under_way: frozenset[TopicPartition]
    before: Mapping[TopicPartition, tuple[int, ...]]
    cluster: ClusterState
    planned: int
    others: int
    log_dirs_before: Mapping[Replica, str]
    log_dirs_after: Mapping[Replica, str]


def read_file(path: str) -> Plan:
    """Read a plan file (`-`: standard input). A plan without partitions is allowed. Raises CommandError."""
    plan = read_plan("/dev/stdin" if path == "-" else path)
    if plan.partitions:
        check_executable(plan)
    return plan


def find_work(admin: AdminClient, plan: Plan, leftover: Record | None, complain: Callable[[str], None]) -> Work:
    """The moves of a plan that are still to be made. `leftover`, the record of an interrupted run, supplies the
    replicas and log directories from before that run. Raises CommandError for a missing partition, broker or log
    directory, or a partition that is being reassigned elsewhere. Raises KafkaError."""
    cluster = read_cluster(admin, complain)
    active = active_reassignments(admin)
    parts = {part.key: part for part in cluster.partitions}
    _ensure_possible(cluster, parts, plan)
    _ensure_not_elsewhere(plan, active)
    directories = _directories(admin, cluster, parts, plan)
    targets = directories_to_change(plan, directories)
    old = {} if leftover is None else leftover.replicas
    old_log_dirs = {} if leftover is None else leftover.log_dirs
    jobs: dict[TopicPartition, Job] = {}
    before: dict[TopicPartition, tuple[int, ...]] = {}
    log_dirs_before: dict[Replica, str] = {}
    for key, after in plan.partitions:
        job = _job(parts[key], after, active.get(key), targets.get(key, {}), directories)
        if job is not None:
            jobs[key] = job
            before[key] = job.before
        previous = _log_dirs_of(key, old.get(key, ((), ()))[0], old_log_dirs)
        is_dir_changed = any(plan.log_dirs.get(replica, path) != path for replica, path in previous.items())
        if key in old and old[key][1] == after and (old[key][0] != after or is_dir_changed):
            before[key] = old[key][0]
        log_dirs_before |= {**_log_dirs_of(key, before.get(key, ()), directories.current), **previous}
    under_way = frozenset(key for key in jobs if key in active)
    others = len(active) - len(under_way)
    return Work(jobs, under_way, before, cluster, len(plan.partitions), others, log_dirs_before, plan.log_dirs)


def _directories(
    admin: AdminClient, cluster: ClusterState, parts: Mapping[TopicPartition, Partition], plan: Plan
) -> Directories:
    """The log directories of the brokers that hold replicas of the plan; none if the plan names no directory."""
    if not plan.log_dirs:
        return NO_DIRECTORIES
    holders = {broker for key, after in plan.partitions for broker in (*after, *parts[key].replicas)}
    return read_directories(admin, plan, [broker.id for broker in cluster.brokers], holders)


def _log_dirs_of(key: TopicPartition, brokers: Iterable[int], log_dirs: Mapping[Replica, str]) -> dict[Replica, str]:
    replicas = (Replica(*key, broker) for broker in brokers)
    return {replica: log_dirs[replica] for replica in replicas if replica in log_dirs}


def _job(
    part: Partition,
    after: tuple[int, ...],
    reassignment: PartitionReassignment | None,
    log_dirs: Mapping[int, str],
    directories: Directories,
) -> Job | None:
    """The move of a partition; None if it has its target replicas and log directories and is not being reassigned.
    During a reassignment, the previous replicas are those that are not being added."""
    before = part.replicas
    if reassignment is not None:
        before = tuple(broker for broker in reassignment.replicas if broker not in reassignment.adding_replicas)
    elif before == after and not log_dirs:
        return None
    lagging = frozenset(before) - frozenset(part.isr)
    present = {replica.broker: path for replica, path in _log_dirs_of(part.key, before, directories.current).items()}
    return Job(before, after, part.size_bytes, lagging, log_dirs, present)


def _ensure_possible(cluster: ClusterState, parts: Mapping[TopicPartition, Partition], plan: Plan) -> None:
    missing = [key for key, _ in plan.partitions if key not in parts]
    if missing:
        raise CommandError(f"The plan names partitions that do not exist: {partition_names(missing)}")
    live = {broker.id for broker in cluster.brokers}
    absent = {broker for key, after in plan.partitions for broker in {*after} - live - {*parts[key].replicas}}
    if absent:
        raise CommandError(f"There is no live broker {', '.join(map(str, sorted(absent)))}")


def _ensure_not_elsewhere(plan: Plan, active: Active) -> None:
    """Raise CommandError if a partition is being reassigned to other replicas, which is another user's move."""

    def is_elsewhere(key: TopicPartition, after: tuple[int, ...]) -> bool:
        return key in active and {*active[key].replicas} - {*active[key].removing_replicas} != {*after}

    elsewhere = [key for key, after in plan.partitions if is_elsewhere(key, after)]
    if elsewhere:
        raise CommandError(f"Already being reassigned to other replicas: {partition_names(elsewhere)}", hint=WAIT_HINT)


class LogDirMove(NamedTuple):
    """A replica that gets another log directory on its broker, or a directory on a new broker (`before` is None)."""

    replica: Replica
    before: str | None
    after: str
    size_bytes: int


def log_dir_moves(work: Work) -> list[LogDirMove]:
    """Return the log directories that replicas are still to get, in order of topic, partition and broker."""
    return [
        LogDirMove(Replica(*key, broker), job.log_dirs_before.get(broker), path, job.size_bytes)
        for key, job in sorted(work.jobs.items())
        for broker, path in sorted(job.log_dirs.items())
    ]


def as_plan(work: Work) -> ReassignmentPlan:
    """The moves as a reassignment plan, for tables."""
    parts = {part.key: part for part in work.cluster.partitions}
    moves = tuple(
        Move(*key, job.before, job.after, parts[key].leader, job.size_bytes) for key, job in sorted(work.jobs.items())
    )
    return ReassignmentPlan(moves, broker_loads(work.cluster, moves), {})


def write_undo(work: Work, path: str | None, wall_ms: int) -> str:
    """Write the previous replicas and log directories as a plan to `path` (None: an unused name in the working
    directory), and return the path. Raises CommandError."""
    lines = [f"{plan_text(work.before, work.log_dirs_before)}\n"]
    if path is None:
        return write_unnamed_undo_file("reassignment", wall_ms, ".json", lines)
    write_undo_file(path, lines)
    return path
