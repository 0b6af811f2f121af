"""kt reassign-partitions: move replicas to other brokers or log directories (kafka-reassign-partitions.sh).

Kafka's actions are options (--generate, --execute, --verify, --cancel, --list), each in a module of its own. `plan` and
`run` are subcommands of kt. Source: org.apache.kafka.tools.reassign.ReassignPartitionsCommand.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from importlib import import_module
from typing import NamedTuple

from kafkatools.console import Console
from kafkatools.exit_status import ExitStatus, UsageError
from kafkatools.options import (
    BOOTSTRAP_SERVER,
    Args,
    Command,
    Option,
    command_config,
    java_int,
    java_long,
    rules,
)
from kafkatools.options.connection import BOOTSTRAP_CONTROLLER
from kafkatools.options.quantities import byte_count, positive_seconds

GOALS = ("drain", "add", "set-rf", "balance")
_UNITS = {"k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9}
MEASURES = ("replicas", "bytes", "rate", "leaders")
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

_EXTRA_OPTIONS = {
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

    def violation(self, option_names: Collection[str]) -> str | None:
        action = next(name for name in _ACTIONS if name in option_names)
        allowed = {action, *_ACTIONS[action], *_EXTRA_OPTIONS[action], *_COMMON}
        wrong = next(
            (option.long for option in OPTIONS if option.long in option_names and option.long not in allowed), None
        )
        return None if wrong is None else f'Option "[{wrong}]" can\'t be used with action "[{action}]"'


def run(console: Console, args: Args) -> ExitStatus:
    """Run the action option of kt reassign-partitions, such as --execute, and return its exit status. Raises UsageError
    for an invalid throttle."""
    for name in ("throttle", "replica-alter-log-dirs-throttle"):
        if getattr(args, name.replace("-", "_")) < _NO_THROTTLE:
            raise UsageError(f"--{name} takes a number of bytes per second, or {_NO_THROTTLE} for none")
    action = next(name for name in _ACTIONS if args.has_option(name))
    return _run_module(_MODULES.get(action, action), console, args)


def _run_module(name: str, console: Console, args: Args) -> ExitStatus:
    module = import_module(f"kafkatools.commands.reassign_partitions.{name}")
    status: ExitStatus = module.run(console, args)
    return status


def broker_ids(text: str) -> frozenset[int]:
    """Parse `1,2,3`. Raises ValueError."""
    return frozenset(java_int(part.strip()) for part in text.split(","))


def byte_rate(text: str) -> int:
    """Parse bytes per second such as `50M`, with k, M or G for powers of 1000, or `50MiB`. Raises ValueError."""
    if text.endswith("B"):
        text = str(byte_count(text))
    factor = _UNITS.get(text[-1:], 1)
    number = java_int(text[:-1] if factor > 1 else text) * factor
    if number < 1:
        raise ValueError(text)
    return number


def positive_count(text: str) -> int:
    """Parse a number of at least 1. Raises ValueError."""
    count = java_int(text)
    if count < 1:
        raise ValueError(text)
    return count


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


_PLAN = Command(
    "plan",
    "Plan a reassignment with as few moves as possible: drain empties brokers, add gives new brokers "
    "their share, set-rf changes the replication factor, balance evens out replicas and preferred "
    "leaders. Nothing is changed.",
    options=(
        BOOTSTRAP_SERVER,
        Option(
            "--brokers",
            "drain: the brokers to empty. add: the new brokers. set-rf: brokers that may get new replicas. "
            "balance: brokers to balance. Default of the last two: all live brokers.",
            value="ID,...",
            type=broker_ids,
        ),
        Option("--topics", "Regular expression for topic names. Default: all topics.", value="REGEX"),
        Option(
            "--by",
            "With balance: what to even out. replicas counts replicas and preferred leaders; rate is the bytes per "
            "second that producers write. Default: replicas.",
            value="MEASURE",
            choices=MEASURES,
        ),
        Option(
            "--tolerance",
            "With --by: largest distance of a broker from the mean. Default: 5%.",
            value="PERCENT",
        ),
        Option("--disks", "With --by bytes or rate: also even out the log directories within brokers."),
        Option(
            "--only-above",
            "With --by bytes: move only from brokers whose disks are fuller, until they are at this use. With --disks: "
            "also from log directories that are fuller to others of their broker.",
            value="PERCENT",
        ),
        Option(
            "--max-move",
            "With --by: most bytes to copy, also with k, M, G, T or GiB: 500G. 0 only reorders replicas.",
            value="BYTES",
        ),
        Option(
            "--exclude-broker",
            "With --by: brokers from which and to which nothing moves.",
            value="ID,...",
            type=broker_ids,
        ),
        Option(
            "--sample",
            "With --by rate or leaders: seconds between two readings of offsets and log sizes, or a time with a unit: "
            "5m. Default with rate: 60s; leaders then also evens out their rates.",
            value="SECONDS",
            type=positive_seconds,
        ),
        Option(
            "--throttle",
            "With --by: the throttle of each broker for the estimated time. Nothing is set. Default: 50M.",
            value="BYTES",
            type=byte_rate,
        ),
        Option("--replication-factor", "With set-rf: the new replication factor.", value="NUMBER", type=java_int),
        Option("--disable-rack-aware", "Ignore racks."),
        Option(
            "--out",
            "Write the reassignment to this file, and the tables to stdout. Without it the reassignment goes to stdout "
            "and the tables to stderr.",
            value="FILE",
        ),
        Option(
            "--undo-file",
            "Write the current replicas of the partitions that move to this new file, to go back.",
            value="FILE",
        ),
        command_config(),
    ),
    run=partial(_run_module, "plan"),
    operand="|".join(GOALS),
    examples=(
        "kt reassign-partitions plan drain --brokers 3 --out drain.json",
        "kt reassign-partitions plan set-rf --replication-factor 3 --topics 'orders.*' --out rf.json",
        "kt reassign-partitions plan balance | kt reassign-partitions run --reassignment-json-file -",
        "kt reassign-partitions plan balance --by bytes --only-above 90% --max-move 500G --out bytes.json",
    ),
)

_RUN = Command(
    "run",
    "Execute a reassignment and wait for its end, with an undo file, progress, and an adaptive throttle that "
    "is removed at the end.",
    options=(
        BOOTSTRAP_SERVER,
        Option(
            "--reassignment-json-file",
            "The reassignment, as written by plan or --generate; - reads standard input.",
            value="FILE",
            required=True,
        ),
        Option(
            "--throttle",
            "Initial throttle of each broker in bytes per second, also with k, M, G or MiB: 50M.",
            value="BYTES",
            type=byte_rate,
            default=50_000_000,
        ),
        Option(
            "--min-throttle",
            "Lower bound of the adaptive throttle, in bytes per second.",
            value="BYTES",
            type=byte_rate,
            default=1_000_000,
        ),
        Option(
            "--max-throttle",
            "Upper bound of the adaptive throttle, in bytes per second. Default: four times --throttle.",
            value="BYTES",
            type=byte_rate,
        ),
        Option("--no-throttle", "Move without a throttle."),
        Option(
            "--batch-size",
            "Maximum number of partitions that move at the same time.",
            value="PARTITIONS",
            type=positive_count,
            default=50,
        ),
        Option(
            "--interval",
            "Seconds between two progress checks, or a time with a unit: 1m.",
            value="SECONDS",
            type=positive_seconds,
            default=2.0,
        ),
        Option(
            "--timeout",
            "Stop waiting after this many seconds (or 2h), with exit status 1. Moves in progress continue.",
            value="SECONDS",
            type=positive_seconds,
        ),
        Option("--cancel-on-interrupt", "Cancel the moves in progress on Ctrl-C and SIGTERM. Default: they continue."),
        Option(
            "--clear-throttles",
            "Also remove throttles that these brokers and topics had at the start. Default: restore them.",
        ),
        Option(
            "--undo-file", "File for the previous replicas. Default: a new file in the working directory.", value="FILE"
        ),
        Option("--no-undo-file", "Write no undo file."),
        Option("--dry-run", "Print what would move, and change nothing."),
        command_config(),
    ),
    run=partial(_run_module, "run_reassignment"),
    rules=(
        rules.Refusal("no-throttle", ("throttle", "min-throttle", "max-throttle")),
        rules.Refusal("undo-file", ("no-undo-file",)),
    ),
    examples=(
        "kt reassign-partitions run --reassignment-json-file drain.json",
        "kt reassign-partitions run --reassignment-json-file rf.json --throttle 20M --max-throttle 100M --json",
    ),
)

COMMAND = Command(
    "reassign-partitions",
    "Move replicas to other brokers or log directories.",
    options=OPTIONS,
    run=run,
    subcommands=(_PLAN, _RUN),
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
