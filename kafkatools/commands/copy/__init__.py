"""kt copy: copy a topic to another topic, in the same cluster or to another one. Kafka's nearest tool is MirrorMaker.

Partition numbers, keys, values, headers and timestamps stay; offsets do not. Records are written in transactions
together with the progress, so an interrupted copy is resumed without loss or duplicates. At the end the target is read
back and compared by count and checksum.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkatools.exit_status import ExitStatus, UsageError
from kafkatools.options import ALWAYS, BOOTSTRAP_SERVER, Args, Command, Option, command_config, java_int, rules

if TYPE_CHECKING:
    from kafkatools.console import Console

_ISOLATION_LEVELS = ("read_committed", "read_uncommitted")
_CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
_NOT_WITH_RESUME = ("append", "create", "since", "until", "last", "partition", "dry-run")


def run(console: Console, args: Args) -> ExitStatus:
    """Run kt copy. Returns FAILED for an incomplete copy, FINDINGS when the target has other records than the source.
    Raises UsageError, CommandError or KafkaError."""
    for name, choices in (("isolation-level", _ISOLATION_LEVELS), ("compression-codec", _CODECS)):
        value = getattr(args, name.replace("-", "_"))
        if value is not None and value not in choices:
            raise UsageError(f"Invalid value of --{name}: '{value}'. It is one of {', '.join(choices)}")
    from kafkatools.commands.copy.run_copy import run_copy

    return run_copy(console, args)


COMMAND = Command(
    "copy",
    "Copy a topic to another topic or cluster, exactly once, and compare the copy with the source.",
    (
        BOOTSTRAP_SERVER._replace(about="Brokers of the source cluster. Default: the profile's, else the sandbox."),
        command_config("Properties file with settings of the clients of the source cluster."),
        Option("--to-bootstrap-server", "Brokers of the target cluster. Default: the source cluster.", "HOST:PORT,..."),
        Option("--to-command-config", "Properties file with settings of the clients of the target cluster.", "FILE"),
        Option("--to-profile", "Profile of the target cluster.", value="NAME"),
        Option(
            "--create",
            "Create the target topic if it is missing, with the partition count and the topic configs of the source.",
        ),
        Option(
            "--replication-factor",
            "With --create: number of replicas of each partition. Default: that of the target cluster.",
            value="COUNT",
            type=java_int,
        ),
        Option("--partition", "Copy only this partition.", value="NUMBER", type=java_int, repeatable=True),
        Option("--since", "Copy records with timestamps from this time on: -1h, 2026-01-31T13:45 (UTC).", "TIME"),
        Option("--until", "Copy records with timestamps before this time.", value="TIME"),
        Option("--last", "Copy the last N records of each partition.", value="N", type=java_int),
        Option("--append", "Append the copy to a target topic that already has records."),
        Option("--resume", "Continue an interrupted copy of this source to this target, up to the same end offsets."),
        Option("--dry-run", "Print the offsets to copy, and copy nothing."),
        Option("--no-verify", "Do not compare the copy with the source at the end."),
        Option(
            "--isolation-level",
            "read_uncommitted also copies records of aborted and open transactions, as ordinary records.",
            value="LEVEL",
            choices=_ISOLATION_LEVELS,
            default="read_committed",
        ),
        Option(
            "--compression-codec",
            "Compression codec of the copied batches. Default: that of the first batch of the source.",
            value="CODEC",
            choices=_CODECS,
        ),
    ),
    run,
    operand="SOURCE TARGET",
    rules=(
        rules.Refusal("resume", _NOT_WITH_RESUME),
        rules.Refusal("to-profile", ("to-bootstrap-server", "to-command-config")),
        rules.Requirement(("to-bootstrap-server",), when=("to-command-config",)),
        rules.Requirement(("create",), when=("replication-factor",)),
    ),
    destructive=ALWAYS,
    examples=(
        "kt copy orders orders-backup --create",
        "kt copy orders orders --to-bootstrap-server new:9092 --create",
        "kt copy orders orders-test --since -1d --to-profile staging",
        "kt copy orders orders --to-bootstrap-server new:9092 --resume",
    ),
)
