"""kt metadata-shell: look at the metadata of a cluster in a snapshot, without a broker (kafka-metadata-shell.sh).

`shell` runs the commands, `interactive` reads them from a terminal. Nothing is written.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkatools.exit_status import ExitStatus, UsageError
from kafkatools.options import Args, Command, Option

if TYPE_CHECKING:
    from kafkatools.console import Console


def run(console: Console, args: Args) -> ExitStatus:
    """Run one command of the shell, or those of the terminal or standard input. Returns FAILED when a command failed.
    Raises UsageError and CommandError."""
    if (args.snapshot is None) == (args.directory is None):
        raise UsageError("argument --snapshot/-s is required" if args.snapshot is None else _BOTH)
    from kafkatools.commands.metadata_shell.shell import Shell, split_line
    from kafkatools.tools.metadata_shell.loading import load_directory, load_file
    from kafkatools.tools.metadata_shell.nodes import root_node
    from kafkatools.version import KAFKA_VERSION

    if args.snapshot is not None:
        loaded = load_file(args.snapshot, console.note)
    else:
        loaded = load_directory(args.directory, console.note)
    shell = Shell(console, root_node(loaded, KAFKA_VERSION, args.show_secrets), is_json=args.json)
    if args.operands:
        shell.run(args.operands, is_interactive=False)
    elif console.is_input_terminal and console.is_terminal:
        from kafkatools.commands.metadata_shell.interactive import run_on_terminal

        run_on_terminal(console, shell)
        return ExitStatus.OK
    else:
        for line in console.stdin:
            if not shell.run_line(split_line(line.decode("utf-8", "replace").rstrip("\r\n"))):
                break
    return ExitStatus.FAILED if shell.has_failed else ExitStatus.OK


_BOTH = "argument --directory: not allowed with argument --snapshot/-s"

COMMAND = Command(
    "metadata-shell",
    "Look at the metadata of a cluster in a snapshot, with ls, cat, find and tree.",
    options=(
        Option(
            "--snapshot",
            "Snapshot (.checkpoint) or segment (.log) of __cluster_metadata.",
            value="FILE",
            aliases=("-s",),
        ),
        Option(
            "--directory",
            "In place of --snapshot: a log directory or the folder __cluster_metadata-0 in it; the newest snapshot and "
            "the records after it.",
            value="DIRECTORY",
            aliases=("-d",),
            ours=True,
        ),
        Option(
            "--show-secrets",
            "Show SCRAM credentials, delegation tokens and passwords in settings, which are [redacted] otherwise.",
            ours=True,
        ),
    ),
    run=run,
    operand="COMMAND ARGUMENT ...",
    error_prefix="Error: ",
    examples=(
        "kt metadata-shell --snapshot 00000000000000000076-0000000001.checkpoint tree /image/topics",
        "kt metadata-shell --directory /var/lib/kafka/data",
    ),
)
