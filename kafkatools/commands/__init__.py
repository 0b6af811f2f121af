"""The commands of `kt`: one module for each, loaded when it is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkatools.options.table import Command

COMMANDS = {
    "topics": "topics",
    "console-producer": "console_producer",
    "console-consumer": "console_consumer",
    "consumer-groups": "consumer_groups",
    "groups": "groups",
    "share-groups": "consumer_groups.share_groups",
    "transactions": "transactions",
    "get-offsets": "get_offsets",
    "delete-records": "delete_records",
    "reassign-partitions": "reassign_partitions",
    "log-dirs": "log_dirs",
    "replica-verification": "replica_verification",
    "leader-election": "leader_election",
    "cluster": "cluster",
    "broker-api-versions": "broker_api_versions",
    "metadata-quorum": "metadata_quorum",
    "features": "features",
    "dump-log": "dump_log",
    "producer-perf-test": "producer_perf_test",
    "consumer-perf-test": "consumer_perf_test",
    "e2e-latency": "e2e_latency",
    "verifiable-producer": "verifiable_producer",
    "verifiable-consumer": "verifiable_consumer",
    "configs": "configs",
    "acls": "acls",
    "delegation-tokens": "delegation_tokens",
    "storage": "storage",
    "pipeline": "pipeline",
    "sandbox": "sandbox",
    "server-start": "server_start",
    "server-stop": "server_stop",
    "doctor": "doctor",
    "monitor": "monitor",
    "help-json": "help_json",
    "completion": "completion",
}
"""Name of a command -> its module in this package, in the order of `kt --help`."""

ALIASES = {"dump-log-segments": "dump-log"}


def load(name: str) -> Command:
    """The command of that name; its module is imported now."""
    module = import_module(f"kafkatools.commands.{COMMANDS[ALIASES.get(name, name)]}")
    command: Command = module.COMMAND
    return command
