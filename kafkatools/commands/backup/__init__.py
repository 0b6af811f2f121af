"""kt backup: store topics, group offsets, ACLs and quotas in a directory or an object store. Kafka has no such tool.

Batches are stored byte for byte. A next run adds what is new, also after a run that was killed. `kt restore` writes a
backup to a cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkatools.exit_status import ExitStatus, UsageError
from kafkatools.options import BOOTSTRAP_SERVER, Args, Command, Option, command_config, java_int
from kafkatools.options.quantities import byte_count

if TYPE_CHECKING:
    from kafkatools.console import Console

_URL = "A directory, or a URL that fsspec can open, such as s3://bucket/backups."
_LEAST_OBJECT = 1 << 20


def _run(console: Console, args: Args) -> ExitStatus:
    """Run kt backup. Returns FAILED if a partition could not be read to its end. Raises UsageError, CommandError or
    KafkaError."""
    size = args.object_size
    if size is not None and size < _LEAST_OBJECT:
        raise UsageError(f"--object-size {size} must be at least 1MiB")
    from kafkatools.commands.backup.run_backup import run_backup

    return run_backup(console, args)


def _verify(console: Console, args: Args) -> ExitStatus:
    """Run kt backup verify. Returns FINDINGS for damage, or for a difference with --against. Raises as `_run`."""
    from kafkatools.commands.backup.run_verify import run_verify

    return run_verify(console, args, _url(args))


def _list(console: Console, args: Args) -> ExitStatus:
    """Run kt backup list. Raises UsageError or CommandError."""
    from kafkatools.commands.backup.generation_list import list_generations

    return list_generations(console, _url(args))


def _url(args: Args) -> str:
    if args.operand is None:
        name = args.command.name
        raise UsageError(f"kt backup {name} needs the URL of a backup", f"For example: kt backup {name} /backups/prod")
    url: str = args.operand
    return url


_GENERATION = Option(
    "--generation", "Only this generation. Default: all of them.", value="NUMBER", type=java_int, default=None
)

COMMAND = Command(
    "backup",
    "Store topics with group offsets, ACLs and quotas in a directory or an object store.",
    options=(
        Option("--to", _URL, value="URL", required=True),
        Option(
            "--topic",
            "Back up only this topic. Default: all but internal ones and names with __ in front.",
            "NAME",
            repeatable=True,
        ),
        Option(
            "--object-size",
            "Size from which an object is complete: 64MiB, or a number of bytes. Default: 128MiB in a directory, 32MiB "
            "behind a URL.",
            value="SIZE",
            type=byte_count,
        ),
        BOOTSTRAP_SERVER,
        command_config(),
    ),
    run=_run,
    subcommands=(
        Command(
            "verify",
            "Read a whole backup and check its checksums, batches and offsets.",
            options=(
                _GENERATION,
                Option(
                    "--against",
                    "Also compare the newest generation with the topics of this cluster.",
                    value="HOST:PORT,...",
                ),
                command_config("With --against: properties file with settings of the client."),
            ),
            run=_verify,
            operand="URL",
            examples=("kt backup verify /backups/prod", "kt backup verify /backups/prod --against localhost:9092"),
        ),
        Command(
            "list",
            "Print the generations of a backup.",
            run=_list,
            operand="URL",
            examples=("kt backup list /backups/prod",),
        ),
    ),
    examples=(
        "kt backup --to /backups/prod",
        "kt backup --to s3://bucket/prod --topic orders --topic payments",
        "kt backup verify /backups/prod",
    ),
)
