"""kt check: verify batches, indexes, snapshots and checkpoints of log directories, and save what is sound."""

from __future__ import annotations

from kafkatools.commands.pipeline import DEEP, SPARK_OPTIONS
from kafkatools.commands.pipeline.in_process import ENGINE, ensure_local
from kafkatools.console import Console
from kafkatools.exit_status import ExitStatus
from kafkatools.options import Args, Command, Option, rules


def run(console: Console, args: Args) -> ExitStatus:
    """Run kt check. Returns FINDINGS for damage; warnings alone return OK. Raises UsageError, CommandError."""
    if args.engine == "spark":
        from kafkatools.commands.pipeline import check as spark_check
        from kafkatools.commands.pipeline.spark import ensure_spark

        ensure_spark(args)
        return spark_check.run(console, args)
    ensure_local(args)
    from kafkatools.commands.pipeline.in_process.findings import check_and_salvage

    return check_and_salvage(console, args)


COMMAND = Command(
    "check",
    "Check log directories: batches, indexes, snapshots, leader epochs and transactions. Prints a table of problems.",
    options=(
        DEEP,
        Option(
            "--salvage",
            "Copy the sound batches of each partition into this new directory, with indexes, so that a broker opens "
            "it; what is lost is printed, and listed in its file lost.jsonl.",
            value="DIR",
        ),
        ENGINE,
        *SPARK_OPTIONS,
    ),
    rules=(rules.Refusal("salvage", ("engine",), "--salvage runs in this process: leave --engine out"),),
    run=run,
    operand="DIRECTORY...",
    examples=(
        "kt check /var/lib/kafka/data",
        "kt check /backup/orders-0 /backup/orders-1 --json",
        "kt check /var/lib/kafka/data --salvage /tmp/salvaged",
    ),
)
