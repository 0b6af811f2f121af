"""kt restore: write a backup of kt backup to a cluster, with group offsets mapped to the restored records.

Keys, values, headers, timestamps and partitions stay; offsets do not. A restore that was cut off goes on with the same
command. Kafka has no such tool.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkatools.exit_status import ExitStatus, UsageError
from kafkatools.options import ALWAYS, BOOTSTRAP_SERVER, Args, Command, Option, command_config, java_int

if TYPE_CHECKING:
    from kafkatools.console import Console


def run(console: Console, args: Args) -> ExitStatus:
    """Run kt restore. Returns FAILED if something could not be restored. Raises UsageError, CommandError or
    KafkaError."""
    for name in ("generation", "replication_factor"):
        value = getattr(args, name)
        if value is not None and value < 1:
            raise UsageError(f"--{name.replace('_', '-')} {value} must be at least 1")
    from kafkatools.commands.restore.run_restore import run_restore

    return run_restore(console, args)


COMMAND = Command(
    "restore",
    "Write a backup to a cluster, as of a point in time, with the offsets of its groups.",
    options=(
        Option("--from", "The directory or URL of the backup.", value="URL", required=True),
        Option("--topic", "Restore only this topic. Default: all topics of the backup.", "NAME", repeatable=True),
        Option(
            "--rename",
            "Restore under another name: OLD=NEW, or s/REGEX/REPLACEMENT/ for all topics that match.",
            value="RULE",
            repeatable=True,
        ),
        Option(
            "--until",
            "Restore each partition up to its first record with this timestamp or a later one: -1h, 2026-01-31T13:45 "
            "(UTC).",
            value="TIME",
        ),
        Option("--generation", "The generation to restore. Default: the newest.", value="NUMBER", type=java_int),
        Option(
            "--replication-factor",
            "Number of replicas of new topics. Default: that of the source, at most one for each broker.",
            value="COUNT",
            type=java_int,
        ),
        Option("--no-groups", "Do not restore the offsets of groups."),
        Option("--acls", "Also add the ACLs of the backup that the cluster lacks."),
        Option("--quotas", "Also set the quotas of the backup."),
        Option("--dry-run", "Print what would be restored, and change nothing."),
        BOOTSTRAP_SERVER,
        command_config(),
    ),
    run=run,
    destructive=ALWAYS,
    examples=(
        "kt restore --from /backups/prod --dry-run",
        "kt restore --from s3://bucket/prod --bootstrap-server new:9092 --acls --quotas",
        "kt restore --from /backups/prod --topic orders --rename orders=orders-before --until 2026-01-31T13:45",
        "kt restore --from /backups/prod --rename s/^/restored-/",
    ),
)
