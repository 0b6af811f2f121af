"""Run kt backup and print the new generation."""

from __future__ import annotations

from kafkatools.console import Console
from kafkatools.exit_status import ExitStatus
from kafkatools.options import Args, client_settings
from kafkatools.output import counted
from kafkatools.tools.backup.backup_run import BackupOptions, BackupResult, BackupRun
from kafkatools.tools.backup.clients import batch_reader
from kafkatools.tools.backup.opening import open_store
from kafkatools.tools.copying.client_cluster import ClientCluster, cluster_id
from kafkatools.tools.monitor.figures import size as size_text

_CLIENT_ID = "kt-backup"


def run_backup(console: Console, args: Args) -> ExitStatus:
    """Run kt backup, as its `run` says."""
    store = open_store(args.to, create=True)
    if args.to.lower().startswith("memory:"):
        console.note("warning: a backup to memory:// is lost when this command ends")
    cluster = ClientCluster(console.connect(args), client_settings(args), _CLIENT_ID)
    with cluster.admin(console.clock) as admin:
        run = BackupRun(
            store,
            admin,
            cluster_id(admin),
            lambda: batch_reader(cluster, console.clock),
            BackupOptions(args.topic, args.object_size),
        )
        with console.progress(f"Backing up to {store.url}", None, measure=lambda: run.written_bytes, is_bytes=True):
            result = run.run()
    return _report(console, store.url, result)


def _report(console: Console, url: str, result: BackupResult) -> ExitStatus:
    for note in result.notes:
        console.note(note)
    manifest = result.manifest
    partitions = list(manifest.partitions())
    total = sum(item.bytes for item in manifest.objects())
    open_count = sum(len(partition.open) for _, _, partition in partitions)
    row = {
        "url": url,
        "generation": manifest.generation,
        "cluster_id": manifest.cluster_id,
        "topics": len(manifest.topics),
        "partitions": len(partitions),
        "unread_partitions": len(result.failed),
        "groups": len(manifest.groups),
        "acls": None if "acls" in manifest.unknown else len(manifest.acls),
        "quotas": None if "quotas" in manifest.unknown else len(manifest.quotas),
        "open_transactions": open_count,
        "new_bytes": result.written_bytes,
        "adopted_bytes": result.adopted_bytes,
        "total_bytes": total,
    }
    adopted = f", {size_text(result.adopted_bytes)} of an unfinished run adopted" if result.adopted_bytes else ""
    if open_count:
        verb, whose = ("was", "its") if open_count == 1 else ("were", "their")
        console.note(
            f"{counted(open_count, 'transaction')} {verb} open at the end: a restore leaves {whose} records out"
        )
    counts = ", ".join(
        (
            counted(len(manifest.topics), "topic"),
            counted(len(partitions), "partition"),
            counted(len(manifest.groups), "group"),
        )
    )
    console.print(
        f"Generation {manifest.generation}: {counts}; {size_text(result.written_bytes)} new{adopted}, "
        f"{size_text(total)} in all",
        row,
    )
    if result.failed:
        verb = "was" if len(result.failed) == 1 else "were"
        count = counted(len(result.failed), "partition")
        console.error(f"{count} {verb} not read to the end, such as {result.failed[0]}")
    if result.unread:
        console.error(f"The backup lacks what could not be read: {', '.join(result.unread[:3])}")
    return ExitStatus.FAILED if result.failed or result.unread else ExitStatus.OK
