"""Check that the cluster has the brokers, partitions and log directories of a plan."""

from __future__ import annotations

from collections.abc import Collection

from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.cluster import describe_cluster
from kafkatools.core.admin.log_dirs import describe_log_dirs
from kafkatools.core.admin.reassignments import TopicPartition, partitions_of
from kafkatools.core.errors import KafkaError, UnknownTopicOrPartition
from kafkatools.exit_status import CommandError
from kafkatools.tools.reassignment.listings import ids, names, plural
from kafkatools.tools.reassignment.plan_file import Plan


def ensure_live(requested: Collection[int], live: Collection[int]) -> None:
    """Raise CommandError that names the requested brokers that are not live."""
    unknown = sorted(set(requested) - set(live))
    if unknown:
        raise CommandError(
            f"Unknown broker id{plural(len(unknown))} {ids(unknown)}",
            hint=f"The live brokers are {ids(sorted(live))}.",
        )


def present_replicas(admin: AdminClient, plan: Plan) -> dict[TopicPartition, tuple[int, ...]]:
    """The present replicas of the plan's partitions. Raises CommandError for a broker that is not live, and for a log
    directory that its broker does not report. Raises UnknownTopicOrPartition for a missing partition. Log directories
    of a broker that reports none are not checked."""
    targets = plan.replicas
    nodes = {node.id for node in describe_cluster(admin).nodes}
    ensure_live({broker for replicas in targets.values() for broker in replicas}, nodes)
    present = partitions_of(admin, plan.topics)
    missing = [part for part in targets if part not in present]
    if missing:
        raise UnknownTopicOrPartition(f"Unable to find partition: {', '.join(names([part]) for part in missing)}")
    if plan.log_dirs:
        _check_log_dirs(admin, plan)
    return {part: tuple(present[part].replicas) for part in targets}


def _check_log_dirs(admin: AdminClient, plan: Plan) -> None:
    """Raise CommandError if a broker that reports its log directories lacks one of the plan's. A broker that answers
    with an error is skipped."""
    reported = describe_log_dirs(admin, sorted({replica.broker for replica in plan.log_dirs}))
    for replica, path in plan.log_dirs.items():
        log_dirs = reported[replica.broker]
        if isinstance(log_dirs, KafkaError) or any(log_dir.path == path for log_dir in log_dirs):
            continue
        raise CommandError(
            f"Failed to alter dir for {replica}",
            hint=f"Broker {replica.broker} has no log directory {path}, it has "
            f"{', '.join(log_dir.path for log_dir in log_dirs)}. Nothing was changed.",
        )
