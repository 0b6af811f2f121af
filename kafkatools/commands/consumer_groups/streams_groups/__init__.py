"""kt streams-groups: list, describe, delete and reset streams groups (kafka-streams-groups.sh).

The rules on options are StreamsGroupCommandOptions.checkArgs in its order, then rules of kt. If a group fails, the
error is printed, the other groups are processed, and the exit status is 1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kafkatools.commands.consumer_groups import shared_options
from kafkatools.commands.consumer_groups.shared_options import (
    ONE_VIEW,
    RESET_RULES,
    available,
    check_values,
    needs,
    words_of,
)
from kafkatools.exit_status import ExitStatus
from kafkatools.options import BOOTSTRAP_SERVER, Args, Command, Option, command_config, rules

if TYPE_CHECKING:
    from kafkatools.commands.consumer_groups.session import Session
    from kafkatools.console import Console

_STATES = ("Dead", "Assigning", "Reconciling", "Empty", "Stable", "NotReady")
_ACTIONS = ("list", "describe", "delete", "reset-offsets", "delete-offsets")
_SCENARIOS = (
    "to-offset",
    "to-datetime",
    "by-duration",
    "to-earliest",
    "to-latest",
    "to-current",
    "shift-by",
    "from-file",
)
_SCENARIOS_IN_MESSAGE = (
    "[[by-duration], [to-latest], [to-current], [to-earliest], [to-offset], [shift-by], [from-file], [to-datetime]]"
)

OPTIONS = (
    Option("--list", "List streams groups."),
    Option("--describe", "Show the offsets and lag of groups, their members or their state."),
    shared_options.DELETE,
    Option("--reset-offsets", "Reset the committed offsets of groups without members."),
    Option("--delete-offsets", "Delete the committed offsets of a group for topics."),
    BOOTSTRAP_SERVER,
    shared_options.GROUP,
    Option("--all-groups", "All streams groups."),
    Option(
        "--input-topic",
        "A topic that the application reads, or topic:0,1 for some of its partitions.",
        value="TOPIC",
        repeatable=True,
    ),
    Option("--all-input-topics", "All source topics of the group's topology that have committed offsets."),
    shared_options.OFFSETS,
    shared_options.MEMBERS,
    shared_options.state_option(_STATES),
    shared_options.VERBOSE,
    shared_options.TO_EARLIEST,
    shared_options.TO_LATEST,
    shared_options.TO_CURRENT,
    shared_options.TO_OFFSET,
    shared_options.SHIFT_BY,
    shared_options.BY_DURATION,
    shared_options.TO_DATETIME,
    shared_options.FROM_FILE,
    Option(
        "--delete-internal-topic",
        "With --reset-offsets --execute: also delete this repartition or changelog topic.",
        value="TOPIC",
        repeatable=True,
    ),
    Option(
        "--delete-all-internal-topics",
        "With --reset-offsets --execute or --delete: also delete the group's repartition and changelog topics. Their "
        "records cannot be restored.",
    ),
    shared_options.DRY_RUN,
    shared_options.EXECUTE,
    shared_options.EXPORT,
    shared_options.TIMEOUT,
    command_config(),
    shared_options.UNDO_FILE,
)

_TAKES_GROUPS = "Option [{0}] takes one of these options: [all-groups], [group]"
_DELETE_OFFSETS = (
    "Option [delete-offsets] takes the [group] and one of these options: [all-input-topics], [input-topic]"
)
_TAKES_ACTIONS = "Option [delete-all-internal-topics] takes one of these options: [delete], [reset-offsets]"
_NO_TOPIC = "Kafka Streams does not support topic-specific offset deletion from a streams group."

RULES: tuple[rules.Rule, ...] = (
    *(available(option, "describe") for option in ("members", "offsets", "verbose")),
    available("state", "describe", "list"),
    rules.Requirement(("group", "all-groups"), when=("describe",), message=_TAKES_GROUPS.format("describe")),
    *ONE_VIEW,
    rules.Requirement(("group", "all-groups"), when=("delete",), message=_TAKES_GROUPS.format("delete")),
    rules.Refusal("delete", ("input-topic", "all-input-topics"), _NO_TOPIC),
    rules.Requirement(("input-topic", "all-input-topics"), when=("delete-offsets",), message=_DELETE_OFFSETS),
    rules.Requirement(("group",), when=("delete-offsets",), message=_DELETE_OFFSETS),
    *RESET_RULES,
    rules.Requirement(("group", "all-groups"), when=("reset-offsets",), message=_TAKES_GROUPS.format("reset-offsets")),
    *(rules.Refusal(one, _SCENARIOS[at + 1 :], when=("reset-offsets",)) for at, one in enumerate(_SCENARIOS)),
    rules.Requirement(("delete", "reset-offsets"), when=("delete-all-internal-topics",),
                      message=_TAKES_ACTIONS),
    rules.Requirement(("execute",), when=("delete-all-internal-topics", "reset-offsets"),
                      message="Option [delete-all-internal-topics] takes [execute] when [reset-offsets] is used."),
    *(rules.Requirement((one,), when=("delete-internal-topic",), unless=("delete-all-internal-topics",),
                        message="Option [delete-internal-topic] takes [reset-offsets] when [execute] is used.")
      for one in ("reset-offsets", "execute")),
    rules.Requirement(("reset-offsets",), when=("execute",),
                      message="Only Option [reset-offsets] accepts [execute] or [dry-run]"),
    rules.Refusal("list", ("members", "offsets")),
    rules.Refusal("group", ("all-groups", "list")),
    rules.Refusal("input-topic", ("list", "describe")),
    rules.ExactlyOne(_ACTIONS, "Command must include exactly one action: --list, --describe, --delete, "
                               "--reset-offsets, or --delete-offsets."),
    rules.Requirement(("all-input-topics", "input-topic"), when=("reset-offsets",), unless=("from-file",),
                      message="One of the reset scopes should be defined: --all-topics, --topic."),
    rules.Requirement(_SCENARIOS, when=("reset-offsets",),
                message=f"Option '[reset-offsets]' requires one of the following scenarios: {_SCENARIOS_IN_MESSAGE}"),
    rules.Refusal("input-topic", ("all-input-topics", "from-file")),
    rules.Refusal("all-input-topics", ("from-file",)),
    rules.Refusal("delete-internal-topic", ("delete-all-internal-topics",)),
    *(needs(option, "reset-offsets") for option in (*_SCENARIOS, "export")),
    *(needs(option, "reset-offsets", "delete-offsets") for option in ("all-input-topics", "input-topic")),
    needs("dry-run", "reset-offsets", "delete", "delete-offsets"),
    rules.Refusal("dry-run", ("undo-file",)),
    needs("all-groups", "describe", "delete", "reset-offsets"),
    needs("undo-file", "execute", "delete", "delete-offsets"),
)  # fmt: skip


def run(console: Console, args: Args) -> ExitStatus:
    """Run the action option of kt streams-groups, such as --list. Returns FAILED if a group or broker failed. Raises
    UsageError, CommandError or KafkaError."""
    check_values(args, is_for_one_group=args.delete_offsets)
    from kafkatools.commands.consumer_groups.session import carry_out

    return carry_out(console, args, _prepare(console, args))


def _prepare(console: Console, args: Args) -> Callable[[Session], ExitStatus]:
    """Parse the options of kt streams-groups; return a function that runs the action with a Session."""
    if args.describe:
        from kafkatools.commands.consumer_groups.streams_groups.describe import describe

        return describe
    if args.reset_offsets:
        from kafkatools.commands.consumer_groups.streams_groups.reset import prepare_reset

        return prepare_reset(console, args)
    if args.delete_offsets:
        from kafkatools.commands.consumer_groups.streams_groups.deletion import prepare_delete_offsets

        return prepare_delete_offsets(args)
    if args.delete:
        from kafkatools.commands.consumer_groups.streams_groups.deletion import delete

        return delete
    from kafkatools.commands.consumer_groups.session import streams_groups
    from kafkatools.commands.consumer_groups.tables import show_listings

    states = words_of(args.state, _STATES, "state")
    return lambda session: show_listings(session, *streams_groups(session, states))


COMMAND = Command(
    "streams-groups",
    "List, describe and delete streams groups, and reset their offsets.",
    options=OPTIONS,
    run=run,
    rules=RULES,
    destructive=("delete", "delete-offsets", "execute"),
    error_prefix="Error: Executing streams group command failed due to ",
    examples=(
        "kt streams-groups --describe --all-groups",
        "kt streams-groups --describe --group word-count --members --verbose",
        "kt streams-groups --reset-offsets --group word-count --all-input-topics --to-earliest --dry-run",
    ),
)
