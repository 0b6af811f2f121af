"""kt reassign-partitions: move replicas to other brokers or log directories (kafka-reassign-partitions.sh).

Kafka's actions are options (--generate, --execute, --verify, --cancel, --list), each in a module of its own. `plan` and
`run` are subcommands of kt. Source: org.apache.kafka.tools.reassign.ReassignPartitionsCommand.
"""

from __future__ import annotations

from collections.abc import Collection
from importlib import import_module
from typing import NamedTuple

from kafkatools.commands.reassign_partitions.plan import COMMAND as PLAN
from kafkatools.commands.reassign_partitions.run_reassignment import COMMAND as RUN
from kafkatools.console import Console
from kafkatools.exit_status import ExitStatus, UsageError
from kafkatools.options import BOOTSTRAP_SERVER, Args, Command, Option, command_config, java_long, rules
from kafkatools.options.connection import BOOTSTRAP_CONTROLLER

_NO_THROTTLE = -1
_COMMON = frozenset({"bootstrap-server", "command-config", "json"})
_ACTIONS = {
    "generate": ("topics-to-move-json-file", "broker-list"),
    "execute": ("reassignment-json-file",),
    "verify": ("reassignment-json-file",),
    "cancel": ("reassignment-json-file",),
    "list": (),
}
"""The options that each action requires (validateAndParseArgs), in the order of Kafka's messages."""

_PERMITTED = {
    "generate": ("disable-rack-aware",),
    "execute": (
        "additional",
        "throttle",
        "replica-alter-log-dirs-throttle",
        "timeout",
        "disallow-replication-factor-change",
        "undo-file",
        "dry-run",
    ),
    "verify": ("preserve-throttles",),
    "cancel": ("preserve-throttles", "timeout", "bootstrap-controller", "undo-file", "dry-run"),
    "list": ("bootstrap-controller",),
}
_MODULES = {"list": "listing"}


class _ForAction(NamedTuple):
    """The rule that refuses options which the action does not use (ReassignPartitionsCommand.validateAndParseArgs)."""

    def broken(self, given: Collection[str]) -> str | None:
        action = next(name for name in _ACTIONS if name in given)
        allowed = {action, *_ACTIONS[action], *_PERMITTED[action], *_COMMON}
        wrong = next((option.long for option in OPTIONS if option.long in given and option.long not in allowed), None)
        return None if wrong is None else f'Option "[{wrong}]" can\'t be used with action "[{action}]"'


def run(console: Console, args: Args) -> ExitStatus:
    """Run the action option of kt reassign-partitions, such as --execute, and return its exit status. Raises UsageError
    for an invalid throttle."""
    for name in ("throttle", "replica-alter-log-dirs-throttle"):
        if getattr(args, name.replace("-", "_")) < _NO_THROTTLE:
            raise UsageError(f"--{name} takes a number of bytes per second, or {_NO_THROTTLE} for none")
    action = next(name for name in _ACTIONS if args.given(name))
    module = import_module(f"kafkatools.commands.reassign_partitions.{_MODULES.get(action, action)}")
    status: ExitStatus = module.run(console, args)
    return status


OPTIONS = (
    Option("--generate", "Propose new replicas for topics and print the current ones. Nothing is changed."),
    Option("--execute", "Start a reassignment."),
    Option(
        "--verify", "Show the progress of a reassignment. Removes the throttles when no reassignment is in progress."
    ),
    Option("--cancel", "Cancel the moves of a reassignment that are in progress."),
    Option("--list", "List the reassignments in progress."),
    BOOTSTRAP_SERVER,
    BOOTSTRAP_CONTROLLER,
    command_config(),
    Option(
        "--reassignment-json-file",
        'The reassignment: {"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": '
        '[1, 2], "log_dirs": ["any", "/data2"]}]}; "log_dirs" is optional.',
        value="FILE",
    ),
    Option(
        "--topics-to-move-json-file",
        'With --generate: the topics, {"version": 1, "topics": [{"topic": "orders"}]}.',
        value="FILE",
    ),
    Option("--broker-list", "With --generate: the brokers that may get replicas.", value="ID,..."),
    Option("--disable-rack-aware", "With --generate: ignore racks."),
    Option(
        "--throttle",
        "With --execute: limit of replication between brokers for the moves, in bytes per second. With "
        "--additional and the same reassignment: changes the limit.",
        value="BYTES",
        type=java_long,
        default=_NO_THROTTLE,
    ),
    Option(
        "--replica-alter-log-dirs-throttle",
        "With --execute: limit of moves between log directories of a broker, in bytes per second.",
        value="BYTES",
        type=java_long,
        default=_NO_THROTTLE,
    ),
    Option("--additional", "With --execute: start even if other reassignments are in progress."),
    Option("--disallow-replication-factor-change", "With --execute: refuse to change the replication factor."),
    Option("--preserve-throttles", "With --verify and --cancel: do not change throttles."),
    Option(
        "--timeout",
        "With --execute and --cancel: time limit in ms for moves between log directories to start.",
        value="MS",
        type=java_long,
        default=10000,
    ),
    Option(
        "--undo-file",
        "With --execute and --cancel: first write the reverse reassignment to this file, for --execute.",
        value="FILE",
        ours=True,
    ),
    Option(
        "--dry-run",
        "With --execute and --cancel: print what would move or be cancelled, and change nothing.",
        ours=True,
    ),
)

SUBCOMMANDS: tuple[Command, ...] = (PLAN, RUN)

COMMAND = Command(
    "reassign-partitions",
    "Move replicas to other brokers or log directories.",
    options=OPTIONS,
    run=run,
    subcommands=SUBCOMMANDS,
    rules=(
        rules.ExactlyOne(
            tuple(_ACTIONS),
            "Command must include exactly one action: --generate, --execute, --verify, --cancel, --list",
        ),
        rules.Refusal(
            "bootstrap-server",
            ("bootstrap-controller",),
            "Please don't specify both --bootstrap-server and --bootstrap-controller",
        ),
        *(rules.Requirement((option,), when=(action,)) for action, needs in _ACTIONS.items() for option in needs),
        _ForAction(),
        rules.Refusal("dry-run", ("undo-file",)),
    ),
    error_prefix="Error: ",
    missing_bootstrap="Please specify either --bootstrap-server or --bootstrap-controller",
    examples=(
        "kt reassign-partitions --generate --topics-to-move-json-file topics.json --broker-list 1,2,3",
        "kt reassign-partitions --execute --reassignment-json-file plan.json --throttle 50000000",
        "kt reassign-partitions --verify --reassignment-json-file plan.json",
    ),
    destructive=("execute", "run"),
)
