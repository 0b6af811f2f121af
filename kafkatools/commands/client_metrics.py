"""kt client-metrics: subscriptions of brokers to the metrics of clients (kafka-client-metrics.sh, ClientMetricsCommand,
KIP-714)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from kafkatools.exit_status import ExitStatus, UsageError
from kafkatools.options import BOOTSTRAP_SERVER, Args, Command, Option, command_config, rules
from kafkatools.options.connection import connect_admin

if TYPE_CHECKING:
    from kafkatools.console import Console
    from kafkatools.core.admin.client import AdminClient
    from kafkatools.core.admin.configs import ConfigEntry
    from kafkatools.tools.configs.changes import RequestedConfigs
    from kafkatools.tools.configs.entities import Entities

_ACTIONS = ("alter", "delete", "describe", "list")
_CHANGES = ("generate-name", "interval", "match", "metrics")
_INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)


def run(console: Console, args: Args) -> ExitStatus:
    """Run the action option, such as --alter. Raises UsageError, CommandError or KafkaError."""
    if args.interval and not _INTEGER.fullmatch(args.interval):
        raise UsageError("Invalid interval value. Enter an integer, or leave empty to reset.")
    with connect_admin(console, args) as admin:
        if args.list:
            _list(console, admin)
        elif args.describe:
            _describe(console, args, admin)
        else:
            _change(console, args, admin)
    return ExitStatus.OK


def _names(admin: AdminClient) -> list[str]:
    """Return the names of the subscriptions in the order of Kafka's tool, which holds them in a hash map."""
    from kafkatools.core.admin.configs import CLIENT_METRICS, list_config_resources
    from kafkatools.core.java.hash_order import hash_order

    return list(hash_order(list_config_resources(admin, CLIENT_METRICS)))


def _list(console: Console, admin: AdminClient) -> None:
    names = _names(admin)
    console.show(({"name": name} for name in names), ["\n".join(names)])


def _describe(console: Console, args: Args, admin: AdminClient) -> None:
    names = _names(admin)
    if args.name is not None and args.name not in names:
        missing = f"The client metric resource {args.name} doesn't exist and doesn't have dynamic config."
        console.print(missing, {"name": args.name, "configs": None})
        return
    for name in names if args.name is None else [args.name]:
        entries = _entries(admin, name)
        row = {"name": name, "configs": {entry.name: entry.value for entry in entries}}
        lines = [f"  {entry.name}={entry.value}" for entry in entries]
        console.show([row], [f"Client metrics configs for {name} are:", *lines])


def _entries(admin: AdminClient, name: str) -> Sequence[ConfigEntry]:
    from kafkatools.core.admin.configs import CLIENT_METRICS, describe_configs

    config = describe_configs(admin, [(CLIENT_METRICS, name)])[CLIENT_METRICS, name]
    if config.error is not None:
        raise config.error
    return config.entries


def _change(console: Console, args: Args, admin: AdminClient) -> None:
    """Alter or delete a subscription, or with --dry-run print the differences. An altered setting without a value, and
    each setting of a deleted subscription, takes its default."""
    from kafkatools.tools.configs.changes import apply

    name = _new_name() if args.generate_name else args.name
    if args.delete:
        requested: RequestedConfigs = [(entry.name, None) for entry in _entries(admin, name)]
    else:
        options = (("interval.ms", args.interval), ("metrics", args.metrics), ("match", args.match))
        requested = [(setting, value or None) for setting, value in options if value is not None]
    subscription = _entities(name)
    if args.dry_run:
        apply(admin, subscription, requested, validate_only=True)
        _show_differences(console, admin, subscription, requested)
        return
    if args.undo_file is not None:
        apply(admin, subscription, requested, validate_only=True)
        _write_undo(args, admin, subscription, requested)
    apply(admin, subscription, requested)
    verb = "deleted" if args.delete else "altered"
    console.print(f"{verb.capitalize()} client metrics config for {name}.", {"name": name, verb: True})


def _new_name() -> str:
    from kafkatools.core.broker.metadata.formatter import random_uuid

    return random_uuid()


def _entities(name: str) -> Entities:
    from kafkatools.tools.configs.entities import CLIENT_METRICS, Entities

    return Entities((CLIENT_METRICS,), (name,))


def _show_differences(
    console: Console, admin: AdminClient, subscription: Entities, requested: RequestedConfigs
) -> None:
    from kafkatools.tools.configs.changes import differences

    changes = differences(admin, subscription, requested)
    row = {"name": subscription.names[0], "altered": False, "changes": [change.row() for change in changes]}
    console.show([row], [f"client-metric {subscription.names[0]}: {change}" for change in changes])
    if not changes:
        console.note("Nothing would change.")


def _write_undo(args: Args, admin: AdminClient, subscription: Entities, requested: RequestedConfigs) -> None:
    """Write the change that restores the present settings, which `kt configs --from-file` applies."""
    from kafkatools.output import json_line
    from kafkatools.tools.configs.changes import Plan, differences, inverse
    from kafkatools.tools.undo_files import write_undo_file

    plan = Plan(subscription, requested, differences(admin, subscription, requested))
    write_undo_file(args.undo_file, [json_line(inverse(plan)) + "\n"] if plan.differences else [])


_SELECTORS = "client_id, client_instance_id, client_software_name, client_software_version, client_source_address, "

COMMAND = Command(
    "client-metrics",
    "List, describe, alter and delete the metrics that brokers request from clients.",
    options=(
        Option("--alter", "Create or change a subscription."),
        BOOTSTRAP_SERVER,
        command_config(),
        Option("--delete", "Delete a subscription."),
        Option("--describe", "Print the settings of all subscriptions, or of one."),
        Option("--generate-name", "With --alter: create a subscription with a random UUID as its name."),
        Option("--interval", "Interval in ms at which clients push metrics; empty: the default.", value="MS"),
        Option("--list", "List the names of the subscriptions."),
        Option(
            "--match",
            f"Clients that push metrics, as selector=regex; empty: all clients. Selectors: {_SELECTORS}"
            "client_source_port.",
            value="K1=V1,K2=V2",
        ),
        Option("--metrics", "Prefixes of the metric names; empty: none, *: all.", value="M1,M2"),
        Option("--name", "Name of the subscription.", value="NAME"),
        Option("--dry-run", "With --alter, --delete: print what would change, and change nothing.", ours=True),
        Option(
            "--undo-file",
            "First write a file for kt configs --from-file that restores the settings.",
            value="FILE",
            ours=True,
        ),
    ),
    run=run,
    destructive=("alter", "delete"),
    rules=(
        rules.ExactlyOne(_ACTIONS, "Command must include exactly one action: --alter, --delete, --describe or --list."),
        rules.Refusal("delete", _CHANGES),
        rules.Refusal("describe", _CHANGES),
        rules.Refusal("list", ("name", *_CHANGES)),
        rules.Requirement(
            ("name", "generate-name"),
            when=("alter",),
            message="One of --name or --generate-name must be specified with --alter.",
        ),
        rules.Refusal("name", ("generate-name",), "One of --name or --generate-name must be specified with --alter."),
        rules.Requirement(
            ("name",), when=("delete",), message="A client metrics resource name must be specified with --delete."
        ),
        rules.Refusal("describe", ("dry-run", "undo-file")),
        rules.Refusal("list", ("dry-run", "undo-file")),
        rules.Refusal("dry-run", ("undo-file",)),
    ),
    examples=(
        "kt client-metrics --alter --name producers --metrics org.apache.kafka.producer. --interval 10000",
        "kt client-metrics --describe",
    ),
    missing_bootstrap="--bootstrap-server must be specified.",
    error_prefix="Error while executing client metrics command : ",
)
