"""kt reassign-partitions: replicas to other brokers and directories (kafka-reassign-partitions.sh,
org.apache.kafka.tools.reassign.ReassignPartitionsCommand).

Kafka's actions are options (--generate, --execute, --verify, --cancel, --list), each a module of its own here. What
Kafka's tool does not have are subcommands: their name is the first argument, their COMMANDs are in SUBCOMMANDS.
"""

from __future__ import annotations

from collections.abc import Collection
from importlib import import_module
from typing import TYPE_CHECKING, NamedTuple

from kafkatools.commands.reassign_partitions.plan import COMMAND as PLAN
from kafkatools.commands.reassign_partitions.run_reassignment import COMMAND as RUN
from kafkatools.exit_status import ExitStatus, UsageError
from kafkatools.options import BOOTSTRAP_SERVER, Args, Command, Option, command_config, java_long, rules
from kafkatools.options.connection import BOOTSTRAP_CONTROLLER

if TYPE_CHECKING:
    from kafkatools.console import Console

_NO_THROTTLE = -1
_COMMON = frozenset({"bootstrap-server", "command-config", "json"})
_ACTIONS = {
    "generate": ("topics-to-move-json-file", "broker-list"),
    "execute": ("reassignment-json-file",),
    "verify": ("reassignment-json-file",),
    "cancel": ("reassignment-json-file",),
    "list": (),
}
"""What each action needs (validateAndParseArgs), in the order of Kafka's messages."""

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
    """An option that the action has no use for is refused."""

    def broken(self, given: Collection[str]) -> str | None:
        """Kafka's message of validateAndParseArgs."""
        action = next(name for name in _ACTIONS if name in given)
        allowed = {action, *_ACTIONS[action], *_PERMITTED[action], *_COMMON}
        wrong = next((option.long for option in OPTIONS if option.long in given and option.long not in allowed), None)
        return None if wrong is None else f'Option "[{wrong}]" can\'t be used with action "[{action}]"'


def run(console: Console, args: Args) -> ExitStatus:
    """Does the one action that was asked for."""
    for name in ("throttle", "replica-alter-log-dirs-throttle"):
        if getattr(args, name.replace("-", "_")) < _NO_THROTTLE:
            raise UsageError(f"--{name} takes a number of bytes per second, or {_NO_THROTTLE} for none")
    action = next(name for name in _ACTIONS if args.given(name))
    module = import_module(f"kafkatools.commands.reassign_partitions.{_MODULES.get(action, action)}")
    status: ExitStatus = module.run(console, args)
    return status


OPTIONS = (
    Option("--generate", "Propose new replicas for topics and print the present ones. Nothing is changed."),
    Option("--execute", "Begin the moves of a plan."),
    Option("--verify", "Tell how far a plan is; take the throttles away when nothing is being moved any more."),
    Option("--cancel", "Stop the moves of a plan that are under way."),
    Option("--list", "Print what is being moved."),
    BOOTSTRAP_SERVER,
    BOOTSTRAP_CONTROLLER,
    command_config(),
    Option(
        "--reassignment-json-file",
        'The plan: {"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 2], "log_dirs": '
        '["any", "/data2"]}]}; "log_dirs" may be left out.',
        value="FILE",
    ),
    Option(
        "--topics-to-move-json-file",
        'With --generate: the topics, {"version": 1, "topics": [{"topic": "orders"}]}.',
        value="FILE",
    ),
    Option("--broker-list", "With --generate: the brokers that may get replicas.", value="ID,..."),
    Option("--disable-rack-aware", "With --generate: do not spread replicas over racks."),
    Option(
        "--throttle",
        "With --execute: bytes per second that brokers may copy between each other for the moves. With --additional "
        "and the same plan: changes it.",
        value="BYTES",
        type=java_long,
        default=_NO_THROTTLE,
    ),
    Option(
        "--replica-alter-log-dirs-throttle",
        "With --execute: bytes per second that a broker may copy between its directories.",
        value="BYTES",
        type=java_long,
        default=_NO_THROTTLE,
    ),
    Option("--additional", "With --execute: also when other moves are under way."),
    Option("--disallow-replication-factor-change", "With --execute: refuse to change the number of replicas."),
    Option("--preserve-throttles", "With --verify and --cancel: leave throttles as they are."),
    Option(
        "--timeout",
        "With --execute and --cancel: how long moves between directories may take to begin, in ms.",
        value="MS",
        type=java_long,
        default=10000,
    ),
    Option(
        "--undo-file",
        "With --execute and --cancel: write the plan that takes it back to this file first, for --execute.",
        value="FILE",
        ours=True,
    ),
    Option("--dry-run", "With --execute and --cancel: say what would move or stop, and change nothing.", ours=True),
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
