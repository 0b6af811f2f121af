"""kt share-groups: list, describe, delete and reset share groups (kafka-share-groups.sh).

The rules on options are ShareGroupCommandOptions.checkArgs in its order, then rules of kt. If a group fails, the error
is printed, the other groups are processed, and the exit status is 1.
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

_STATES = ("Stable", "Empty", "Dead")
_ACTIONS = ("list", "describe", "delete", "reset-offsets", "delete-offsets")
_SCENARIOS = ("to-datetime", "to-earliest", "to-latest")
_OUR_SCENARIOS = ("to-offset", "to-current", "from-file")

OPTIONS = (
    Option("--list", "List share groups."),
    Option("--describe", "Show the start offsets of groups, their members or their state."),
    shared_options.DELETE,
    Option("--reset-offsets", "Reset the start offsets of groups without members."),
    Option("--delete-offsets", "Delete the offsets of a group for topics."),
    BOOTSTRAP_SERVER,
    shared_options.GROUP,
    Option("--all-groups", "All share groups."),
    shared_options.TOPIC,
    Option("--all-topics", "With --reset-offsets: all topics for which the group has offsets."),
    shared_options.OFFSETS,
    shared_options.MEMBERS,
    shared_options.state_option(_STATES),
    shared_options.VERBOSE,
    shared_options.TO_EARLIEST,
    shared_options.TO_LATEST,
    shared_options.TO_DATETIME,
    shared_options.TO_OFFSET._replace(ours=True),
    Option(
        "--to-current",
        "Keep the current start offsets; partitions without one get the end offset. Useful with --export.",
        ours=True,
    ),
    shared_options.FROM_FILE._replace(ours=True),
    shared_options.DRY_RUN,
    shared_options.EXECUTE,
    shared_options.EXPORT._replace(ours=True),
    shared_options.TIMEOUT,
    command_config(),
    shared_options.UNDO_FILE,
)

_DELETE_OFFSETS = "Option [delete-offsets] takes the following options: [group], [topic]"
_ALL_SCENARIOS = (*_SCENARIOS, *_OUR_SCENARIOS)

RULES: tuple[rules.Rule, ...] = (
    *(available(option, "describe") for option in ("members", "offsets", "verbose")),
    available("state", "describe", "list"),
    rules.Requirement(("group", "all-groups"), when=("describe",),
                      message="Option [describe] takes one of these options: [all-groups], [group]"),
    *ONE_VIEW,
    rules.Requirement(("group", "all-groups"), when=("delete",),
                      message="Option [delete] takes the options [group] or [all-groups]"),
    rules.Refusal("group", ("all-groups",), "Option [delete] takes either [group] or [all-groups], not both.",
                  when=("delete",)),
    rules.Refusal("delete", ("topic",), "Option [delete] does not take the option: [topic]"),
    rules.Requirement(("group",), when=("delete-offsets",), message=_DELETE_OFFSETS),
    rules.Requirement(("topic",), when=("delete-offsets",), message=_DELETE_OFFSETS),
    *RESET_RULES,
    rules.Requirement(("group",), when=("reset-offsets",), unless=("from-file",),
                      message="Option [reset-offsets] takes the option: [group]"),
    rules.Requirement(("all-topics", "topic"), when=("reset-offsets",), unless=("from-file",),
                      message="Option [reset-offsets] takes one of these options: [all-topics], [topic]"),
    rules.Requirement(_ALL_SCENARIOS, when=("reset-offsets",),
                message="Option [reset-offsets] takes one of these options: [to-datetime], [to-earliest], [to-latest]"),
    *(rules.Refusal(one, _ALL_SCENARIOS[at + 1 :], when=("reset-offsets",)) for at, one in enumerate(_ALL_SCENARIOS)),
    rules.Refusal("group", ("all-groups",)),
    rules.Refusal("group", ("list",)),
    rules.Refusal("topic", ("list", "describe")),
    rules.ExactlyOne(_ACTIONS, f"Command must include exactly one action: --{', --'.join(_ACTIONS)}."),
    rules.Refusal("topic", ("all-topics", "from-file")),
    rules.Refusal("all-topics", ("from-file",)),
    *(needs(option, "reset-offsets") for option in ("all-topics", *_ALL_SCENARIOS, "execute", "export")),
    needs("dry-run", "reset-offsets", "delete", "delete-offsets"),
    rules.Refusal("dry-run", ("undo-file",)),
    needs("all-groups", "describe", "delete"),
    needs("undo-file", "execute", "delete", "delete-offsets"),
)  # fmt: skip


def run(console: Console, args: Args) -> ExitStatus:
    """Run the action option of kt share-groups, such as --list. Returns FAILED if a group or broker failed. Raises
    UsageError, CommandError or KafkaError."""
    check_values(args, is_for_one_group=args.delete_offsets or (args.reset_offsets and args.from_file is None))
    from kafkatools.commands.consumer_groups.session import carry_out

    return carry_out(console, args, _prepare(args))


def _prepare(args: Args) -> Callable[[Session], ExitStatus]:
    """Parse the options of kt share-groups; return a function that runs the action with a Session."""
    if args.describe:
        from kafkatools.commands.consumer_groups.share_groups.describe import describe

        return describe
    if args.reset_offsets:
        from kafkatools.commands.consumer_groups.share_groups.offsets import prepare_reset

        return prepare_reset(args)
    if args.delete_offsets:
        from kafkatools.commands.consumer_groups.share_groups.offsets import delete_offsets

        return delete_offsets
    if args.delete:
        from kafkatools.commands.consumer_groups.share_groups.offsets import delete

        return delete
    from kafkatools.commands.consumer_groups.session import share_groups
    from kafkatools.commands.consumer_groups.tables import show_listings

    states = words_of(args.state, _STATES, "state")
    return lambda session: show_listings(session, *share_groups(session, states))


COMMAND = Command(
    "share-groups",
    "List, describe and delete share groups, and reset their start offsets.",
    options=OPTIONS,
    run=run,
    rules=RULES,
    destructive=("delete", "delete-offsets", "execute"),
    error_prefix="Error: Executing share group command failed due to ",
    examples=(
        "kt share-groups --describe --all-groups",
        "kt share-groups --reset-offsets --group workers --topic jobs --to-earliest --dry-run",
    ),
)
