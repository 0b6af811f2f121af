"""kt check: verify batches, indexes, snapshots and checkpoints of log directories, and save what is sound."""

from __future__ import annotations

from kafkatools.commands.pipeline import CHECK
from kafkatools.commands.pipeline.in_process import job_here
from kafkatools.console import Console
from kafkatools.exit_status import ExitStatus
from kafkatools.options import Args, Option, rules


def run(console: Console, args: Args) -> ExitStatus:
    """Run kt check. Returns FINDINGS for damage; warnings alone return OK. Raises UsageError, CommandError."""
    from kafkatools.commands.pipeline.in_process.findings import check_and_salvage

    return check_and_salvage(console, args)


_SALVAGE = Option(
    "--salvage",
    "Copy the sound batches of each partition into this new directory, with indexes, so that a broker can load the "
    "copy. Prints the lost ranges, and lists them in DIR/lost.jsonl.",
    value="DIR",
)

COMMAND = job_here(
    CHECK._replace(options=(*CHECK.options, _SALVAGE)),
    run,
    "kt check /var/lib/kafka/data",
    "kt check /backup/orders-0 /backup/orders-1 --json",
    "kt check /var/lib/kafka/data --salvage /tmp/salvaged",
)._replace(rules=(rules.Refusal("salvage", ("engine",), "--salvage cannot be used with --engine"),))
