"""The commands of `kt`: one module per command, imported when the command runs.

Other distributions add commands by entry points (docs/plugins.md). These are looked for when a name is no command of
`kt`, and when all commands are listed, so that they cost nothing otherwise and replace no command of `kt`.
"""

from __future__ import annotations

import re
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from kafkatools.options.table import Command

if TYPE_CHECKING:
    from kafkatools.core.entry_points import EntryPoint

GROUPS = {
    "Records": {
        "console-producer": "console_producer",
        "console-consumer": "console_consumer",
        "console-share-consumer": "console_share_consumer",
        "copy": "copy",
        "redrive": "redrive",
        "backup": "backup",
        "restore": "restore",
        "migrate": "migrate",
        "query": "query",
        "count": "pipeline.in_process.count",
        "top-keys": "pipeline.in_process.top_keys",
        "diff": "pipeline.in_process.diff",
        "topic-profile": "pipeline.in_process.topic_profile",
        "export": "pipeline.in_process.export",
        "replay": "pipeline.in_process.replay",
        "get-offsets": "get_offsets",
        "delete-records": "delete_records",
    },
    "Topics and partitions": {
        "topics": "topics",
        "configs": "configs",
        "reassign-partitions": "reassign_partitions",
        "leader-election": "leader_election",
        "replica-verification": "replica_verification",
        "log-dirs": "log_dirs",
    },
    "Groups and transactions": {
        "consumer-groups": "consumer_groups",
        "share-groups": "consumer_groups.share_groups",
        "streams-groups": "consumer_groups.streams_groups",
        "streams-application-reset": "consumer_groups.application_reset",
        "groups": "groups",
        "transactions": "transactions",
    },
    "Cluster": {
        "apply": "apply",
        "undo": "undo",
        "cluster": "cluster",
        "broker-api-versions": "broker_api_versions",
        "metadata-quorum": "metadata_quorum",
        "features": "features",
        "acls": "acls",
        "delegation-tokens": "delegation_tokens",
        "client-metrics": "client_metrics",
        "doctor": "doctor",
        "monitor": "monitor",
        "why": "why",
    },
    "Schemas": {
        "schemas": "schemas",
    },
    "Files": {
        "dump-log": "dump_log",
        "check": "pipeline.in_process.check",
        "retention-forecast": "pipeline.in_process.retention_forecast",
        "compact-forecast": "pipeline.in_process.compact_forecast",
        "metadata-shell": "metadata_shell",
        "storage": "storage",
    },
    "Spark": {
        "pipeline": "pipeline",
    },
    "Sandbox and servers": {
        "sandbox": "sandbox",
        "server-start": "server_start",
        "server-stop": "server_stop",
    },
    "Load and verification": {
        "producer-perf-test": "producer_perf_test",
        "consumer-perf-test": "consumer_perf_test",
        "share-consumer-perf-test": "share_consumer_perf_test",
        "e2e-latency": "e2e_latency",
        "verifiable-producer": "verifiable_producer",
        "verifiable-consumer": "verifiable_consumer",
        "verifiable-share-consumer": "verifiable_share_consumer",
    },
    "Shell": {
        "profile": "profile",
        "completion": "completion",
        "shims": "shims",
        "help-json": "help_json",
        "mcp": "mcp",
    },
}
"""Heading in `kt --help` -> the commands below it, each with its module in this package, in the order of the help."""

COMMANDS = {name: module for group in GROUPS.values() for name, module in group.items()}
"""Name of a command -> its module in this package."""

ALIASES = {"dump-log-segments": "dump-log"}

_SCRIPTS = (
    "acls", "broker-api-versions", "client-metrics", "cluster", "configs", "console-consumer", "console-producer",
    "console-share-consumer", "consumer-groups", "consumer-perf-test", "delegation-tokens", "delete-records",
    "dump-log", "e2e-latency", "features", "get-offsets", "groups", "leader-election", "log-dirs", "metadata-quorum",
    "metadata-shell", "producer-perf-test", "reassign-partitions", "replica-verification", "server-start",
    "server-stop", "share-consumer-perf-test", "share-groups", "storage", "streams-application-reset",
    "streams-groups", "topics", "transactions", "verifiable-consumer", "verifiable-producer",
    "verifiable-share-consumer",
)  # fmt: skip

KAFKA_SCRIPTS = {f"kafka-{name}.sh": name for name in _SCRIPTS}
"""Name of a script of Apache Kafka -> the command that takes its options."""


def has_kafka_script(name: str) -> bool:
    """Return whether Apache Kafka has a script for this command."""
    return name in KAFKA_SCRIPTS.values()


def command_of_script(program: str) -> str | None:
    """The command of the script as which `kt` was started: `topics` for `/opt/bin/kafka-topics.sh` or `kafka-topics`.
    The name itself for a script of Kafka that `kt` lacks; None for any other program name."""
    name = program.rpartition("/")[2]
    if not name.startswith("kafka-"):
        return None
    return KAFKA_SCRIPTS.get(f"{name.removesuffix('.sh')}.sh", name if name.endswith(".sh") else None)


def load(name: str) -> Command:
    """Import the module of a command or alias and return its Command."""
    module = import_module(f"kafkatools.commands.{COMMANDS[ALIASES.get(name, name)]}")
    command: Command = module.COMMAND
    return command


PLUGIN_GROUP = "kafkatools.commands"
_WORD = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_OPTION = re.compile(r"--[A-Za-z0-9][A-Za-z0-9.-]*")


class PluginCommand(NamedTuple):
    """A command of another distribution, or the reason why it cannot run."""

    name: str
    distribution: str
    command: Command | None
    problem: str = ""


def load_plugin(name: str) -> Command | None:
    """Import the command of another distribution, None if there is none with this name. Raises PluginError."""
    if not _WORD.fullmatch(name):
        return None
    from kafkatools.core.entry_points import find

    point = find(PLUGIN_GROUP, name)
    return None if point is None else _load_command(point)


def plugin_commands() -> list[PluginCommand]:
    """Import the commands of all other distributions. One that fails has a problem instead of a command."""
    from kafkatools.core.entry_points import entry_points
    from kafkatools.core.errors import PluginError

    plugins = []
    for point in entry_points(PLUGIN_GROUP):
        name = point.name if point.name.isprintable() else repr(point.name)
        try:
            if point.name in COMMANDS or point.name in ALIASES or point.name in ("help", "version"):
                raise PluginError(f"{point} is ignored: kt has a command {name}")
            if not _WORD.fullmatch(point.name):
                raise PluginError(f"{point} is ignored: a command name has only lowercase letters, digits and dashes")
            command = load_plugin(point.name)
        except PluginError as error:
            plugins.append(PluginCommand(name, point.distribution, None, str(error)))
        else:
            plugins.append(PluginCommand(name, point.distribution, command))
    return plugins


def _load_command(point: EntryPoint) -> Command:
    from kafkatools.core.entry_points import load
    from kafkatools.core.errors import PluginError
    from kafkatools.options.table_types import mistyped_field

    command = load(point, Command)
    problem = mistyped_field(command)
    if problem:
        raise PluginError(f"{point} cannot be used: {problem}")
    parts = (command, *command.subcommands)
    words = [subcommand.name for subcommand in command.subcommands if not _WORD.fullmatch(subcommand.name)]
    words += [option.name for part in parts for option in part.options if not _OPTION.fullmatch(option.name)]
    if words:  # they become words of the completion scripts
        raise PluginError(f"{point} cannot be used: {words[0]!r} is not the name of an option or a subcommand")
    return command._replace(name=point.name, distribution=point.distribution)
