"""kt configs: show and change settings (kafka-configs.sh, kafka.admin.ConfigCommand).

Entities are topics, brokers, broker loggers, quotas of users, clients and IP addresses, SCRAM credentials, groups and
client metrics subscriptions. `entities.py` parses them, `describe.py` and `alter.py` hold the actions. `changes.py`
carries changes out and writes undo files, which `change_files.py` reads.
"""

from __future__ import annotations

from kafkatools.commands.configs.entities import DEFAULT_FLAGS, ENTITY_FLAGS, ENTITY_TYPES, entities_of
from kafkatools.console import Console
from kafkatools.exit_status import ExitStatus
from kafkatools.options import BOOTSTRAP_SERVER, Args, Command, Option, command_config, rules
from kafkatools.options.connection import BOOTSTRAP_CONTROLLER, connect_admin


def run(console: Console, args: Args) -> ExitStatus:
    """Run kt configs: --describe, --alter or --from-file. Returns FAILED when an entity of --describe or --from-file
    failed. Raises UsageError, CommandError or KafkaError."""
    if args.from_file is not None:
        from kafkatools.commands.configs.change_files import read_file
        from kafkatools.commands.configs.changes import carry_out

        requested = read_file(args.from_file)
        with connect_admin(console, args) as admin:
            return carry_out(console, args, admin, requested)
    entities = entities_of(args)
    with connect_admin(console, args) as admin:
        if args.describe:
            from kafkatools.commands.configs.describe import describe

            return describe(console, args, admin, entities)
        from kafkatools.commands.configs.alter import alter

        return alter(console, args, admin, entities)


OPTIONS = (
    Option("--describe", "Show settings."),
    Option("--alter", "Change settings."),
    Option("--from-file", "Restore the settings in a file that --undo-file wrote.", value="FILE", ours=True),
    BOOTSTRAP_SERVER,
    BOOTSTRAP_CONTROLLER,
    Option(
        "--entity-type",
        "Type of the entity whose settings are shown or changed. users and clients may be combined.",
        value="TYPE",
        repeatable=True,
        choices=ENTITY_TYPES,
    ),
    Option(
        "--entity-name",
        "Name of the entity. With --describe and without a name: all entities of the type.",
        value="NAME",
        repeatable=True,
    ),
    Option(
        "--entity-default", "The default of the entity type (users, clients, brokers, ips) instead of a named entity."
    ),
    Option("--topic", "Short for --entity-type topics --entity-name NAME.", value="NAME"),
    Option("--client", "Short for --entity-type clients --entity-name CLIENT-ID.", value="NAME"),
    Option("--client-defaults", "Short for --entity-type clients --entity-default."),
    Option("--user", "Short for --entity-type users --entity-name USER.", value="NAME"),
    Option("--user-defaults", "Short for --entity-type users --entity-default."),
    Option("--broker", "Short for --entity-type brokers --entity-name ID.", value="ID"),
    Option("--broker-defaults", "Short for --entity-type brokers --entity-default."),
    Option(
        "--broker-logger",
        "Short for --entity-type broker-loggers --entity-name ID: the log levels of a broker.",
        value="ID",
    ),
    Option("--ip", "Short for --entity-type ips --entity-name ADDRESS.", value="ADDRESS"),
    Option("--ip-defaults", "Short for --entity-type ips --entity-default."),
    Option(
        "--client-metrics",
        "Short for --entity-type client-metrics --entity-name NAME: a client metrics subscription.",
        value="NAME",
    ),
    Option("--group", "Short for --entity-type groups --entity-name GROUP.", value="NAME"),
    Option("--all", "With --describe: also settings at their defaults."),
    Option(
        "--add-config",
        "Settings to change, also with units: retention.ms=7d. Values with commas in brackets: "
        "cleanup.policy=[compact,delete]. A SCRAM credential: SCRAM-SHA-256=[iterations=8192,password=...].",
        value="NAME=VALUE,...",
    ),
    Option("--add-config-file", "Properties file with settings to change.", value="FILE"),
    Option(
        "--delete-config",
        "Settings to reset to their defaults, quotas to remove, or SCRAM mechanisms whose credential is deleted, "
        "separated by commas.",
        value="NAME,...",
    ),
    Option("--dry-run", "Print which settings would change, and change nothing.", ours=True),
    Option(
        "--undo-file",
        "First write the current settings to this file, for --from-file. Not for SCRAM credentials.",
        value="FILE",
        ours=True,
    ),
    command_config(),
)

_OF_THE_COMMAND_LINE = (
    *("entity-type", "entity-name", "entity-default", *ENTITY_FLAGS, *DEFAULT_FLAGS),
    *("all", "add-config", "add-config-file", "delete-config"),
)

COMMAND = Command(
    "configs",
    "Show or change settings of topics, brokers, clients, users and groups.",
    OPTIONS,
    run,
    rules=(
        rules.ExactlyOne(
            ("describe", "alter", "from-file"), "Command must include exactly one action: --describe, --alter"
        ),
        rules.Refusal("describe", ("alter", "add-config", "delete-config", "add-config-file")),
        rules.Refusal("alter", ("all",)),
        rules.Refusal("from-file", _OF_THE_COMMAND_LINE),
        rules.Refusal("describe", ("undo-file", "dry-run")),
        rules.Refusal("dry-run", ("undo-file",)),
    ),
    missing_bootstrap="Either --bootstrap-server or --bootstrap-controller must be specified.",
    examples=(
        "kt configs --describe --topic orders",
        "kt configs --alter --topic orders --add-config retention.ms=3600000,cleanup.policy=[compact,delete]",
        "kt configs --alter --broker-defaults --add-config log.retention.ms=86400000",
        "kt configs --alter --topic orders --delete-config retention.ms --undo-file before.jsonl",
        "kt configs --from-file before.jsonl",
        "kt configs --alter --user alice --client app1 --add-config producer_byte_rate=1048576",
    ),
    destructive=("alter", "from-file"),
)
