"""kt migrate --dry-run: print what would be created, copied and mapped."""

from __future__ import annotations

from kafkatools.commands.migrate.clusters import Clusters, migrated_names
from kafkatools.console import Console
from kafkatools.exit_status import ExitStatus
from kafkatools.options import Args
from kafkatools.output import counted
from kafkatools.tools.backup.access_restore import planned_access
from kafkatools.tools.backup.backup_run import BackupRun
from kafkatools.tools.backup.cluster_state import read_access, read_groups
from kafkatools.tools.backup.cuts import ensure_not_cut
from kafkatools.tools.backup.group_restore import check_groups, groups_for
from kafkatools.tools.backup.store import Store
from kafkatools.tools.backup.targets import Target, find_targets, validate_missing
from kafkatools.tools.rights import ensure_topic_rights

_NO_GENERATION = 0


def print_plan(
    console: Console, args: Args, store: Store, clusters: Clusters, run: BackupRun, access: list[str]
) -> ExitStatus:
    """Print the plan of the next round and of the cut. Returns FAILED if a group or partition could not be migrated.
    Raises UsageError, CommandError or KafkaError."""
    result = run.planned()
    manifest = result.manifest
    names = migrated_names(manifest, args, clusters)
    ensure_not_cut(store, clusters.target, names.values())
    targets = find_targets(clusters.target, manifest, names, None, _NO_GENERATION)
    new = validate_missing(clusters.target, targets, None, console.note)
    replicas = {topic.name: topic.replication_factor for topic in new}
    ensure_topic_rights(clusters.source, names, "READ")
    state = read_groups(clusters.source, manifest, console.clock.wall_ms())
    for line in result.notes + state.lines:
        console.note(line)
    for target in targets:
        _print_topic(console, target, replicas.get(target.name))
    has_failed = bool(result.failed or state.unread)
    groups, _ = groups_for(store, manifest, names, None)
    for outcome in check_groups(clusters.target, groups, names):
        row = {
            "kind": "group", "group": outcome.group, "offsets": outcome.committed, "reason": outcome.reason or None,
        }  # fmt: skip
        reason = f"; not all: {outcome.reason}" if outcome.reason else ""
        console.print(f"group {outcome.group}: {counted(outcome.committed, 'offset')} to map{reason}", row)
        has_failed = has_failed or bool(outcome.reason)
    if access:
        read_access(clusters.source, manifest)
    for planned in planned_access(clusters.target, manifest, names, access):
        row = {"kind": planned.kind, "changes": planned.changes}
        console.print(f"{planned.kind}: {planned.changes} to change", row)
    return ExitStatus.FAILED if has_failed else ExitStatus.OK


def _print_topic(console: Console, target: Target, replicas: int | None) -> None:
    parts = target.backup.partitions
    offsets = sum(max(part.end - part.start, 0) for part in parts)
    stored = sum(part.next_offset - part.start for part in parts)
    records = sum(target.ends.get(number, 0) - target.starts.get(number, 0) for number in range(len(parts)))
    row = {
        "kind": "topic", "source": target.source, "target": target.name, "action": target.action,
        "partitions": len(parts), "replicas": replicas, "offsets": offsets, "stored_offsets": stored,
        "target_records": records,
    }  # fmt: skip
    shape = counted(len(parts), "partition")
    if replicas is not None:
        shape += f" of {counted(replicas, 'replica')}"
    already = f", {stored} stored already" if stored else ""
    present = f", {counted(records, 'record')} in the target" if records else ""
    line = f"{target.source} -> {target.name}: {target.action}, {shape}; {counted(offsets, 'offset')}{already}{present}"
    console.print(line, row)
