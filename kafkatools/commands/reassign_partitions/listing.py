"""kt reassign-partitions --list: list active reassignments (ReassignPartitionsCommand.listReassignments)."""

from __future__ import annotations

from kafkatools.console import Console
from kafkatools.core.admin.reassignments import PartitionReassignment, active_reassignments
from kafkatools.exit_status import ExitStatus
from kafkatools.options import Args
from kafkatools.options.connection import connect_admin
from kafkatools.tools.reassignment.listings import ids


def run(console: Console, args: Args) -> ExitStatus:
    """Print the active reassignments, sorted by topic and partition."""
    with connect_admin(console, args) as admin:
        active = sorted(active_reassignments(admin).items())
    if args.json:
        for (topic, partition), reassignment in active:
            row = {"topic": topic, "partition": partition, "replicas": list(reassignment.replicas)}
            row |= {"adding": list(reassignment.adding_replicas), "removing": list(reassignment.removing_replicas)}
            console.print_json(row)
        return ExitStatus.OK
    console.print("Current partition reassignments:" if active else "No partition reassignments found.")
    for (topic, partition), reassignment in active:
        console.print(f"{topic}-{partition}: {_describe(reassignment)}")
    return ExitStatus.OK


def _describe(reassignment: PartitionReassignment) -> str:
    parts = [f"replicas: {ids(reassignment.replicas)}."]
    if reassignment.adding_replicas:
        parts.append(f"adding: {ids(reassignment.adding_replicas)}.")
    if reassignment.removing_replicas:
        parts.append(f"removing: {ids(reassignment.removing_replicas)}.")
    return " ".join(parts)
