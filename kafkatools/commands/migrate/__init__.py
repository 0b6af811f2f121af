"""kt migrate: copy topics to another cluster while producers go on, until a cut. Kafka's nearest tool is MirrorMaker.

Records go through a backup (kt backup), so that retention of the source removes nothing that was not written yet. At
the cut the offsets of groups are mapped to the records of the target.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkatools.exit_status import ExitStatus, UsageError
from kafkatools.options import ALWAYS, BOOTSTRAP_SERVER, Args, Command, Option, command_config, rules
from kafkatools.options.quantities import milliseconds

if TYPE_CHECKING:
    from kafkatools.console import Console


def run(console: Console, args: Args) -> ExitStatus:
    """Run kt migrate. Returns FAILED if the offsets of a group, or requested ACLs or quotas, could not be set at the
    cut. Raises UsageError, CommandError or KafkaError."""
    if args.interval < 1:
        raise UsageError("--interval must be at least 1ms")
    from kafkatools.commands.migrate.run_migrate import run_migrate

    return run_migrate(console, args)


COMMAND = Command(
    "migrate",
    "Copy topics to another cluster while producers go on, and at a cut the offsets of their groups.",
    options=(
        Option(
            "--through",
            "Directory or URL through which the records go: a backup of these topics.",
            value="URL",
            required=True,
        ),
        Option("--to-bootstrap-server", "Brokers of the target cluster.", value="HOST:PORT,..."),
        Option("--to-command-config", "Properties file with settings of the clients of the target cluster.", "FILE"),
        Option("--to-profile", "Profile of the target cluster.", value="NAME"),
        Option(
            "--topic",
            "Only this topic. Default: all but internal ones and names with __ in front.",
            "NAME",
            repeatable=True,
        ),
        Option(
            "--rename",
            "Another name in the target: OLD=NEW, or s/REGEX/REPLACEMENT/ for all topics that match.",
            value="RULE",
            repeatable=True,
        ),
        Option(
            "--interval",
            "Time between two rounds: 30s, or a number of ms. Default: 10s, and 1s with --cut.",
            value="TIME",
            type=milliseconds,
            default=10_000,
        ),
        Option(
            "--cut",
            "Exit once a round finds nothing new, with the offsets of groups. Stop producers and consumers first.",
        ),
        Option("--acls", "At the cut, also add the ACLs of the source that the target lacks."),
        Option("--quotas", "At the cut, also set the quotas of the source."),
        Option("--dry-run", "Print what would be created, copied and mapped, and write nothing."),
        BOOTSTRAP_SERVER._replace(about="Brokers of the source cluster. Default: the profile's, else the sandbox."),
        command_config("Properties file with settings of the clients of the source cluster."),
    ),
    run=run,
    rules=(
        rules.Refusal("to-profile", ("to-bootstrap-server", "to-command-config")),
        rules.Requirement(("to-bootstrap-server", "to-profile")),
        rules.Requirement(("to-bootstrap-server",), when=("to-command-config",)),
        *(
            rules.Requirement(("cut", "dry-run"), when=(kind,), message=f"--{kind} needs --cut: it copies at the cut")
            for kind in ("acls", "quotas")
        ),
    ),
    destructive=ALWAYS,
    examples=(
        "kt migrate --through /data/move --to-bootstrap-server new:9092 --dry-run",
        "kt migrate --through /data/move --to-bootstrap-server new:9092",
        "kt migrate --through /data/move --to-bootstrap-server new:9092 --cut --acls --quotas",
        "kt migrate --through /data/move --to-profile new --topic orders --rename orders=orders-2",
    ),
)
