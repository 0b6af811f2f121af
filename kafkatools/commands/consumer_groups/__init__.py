"""kt consumer-groups: list, describe, delete and reset consumer groups (kafka-consumer-groups.sh).

The rules on options are ConsumerGroupCommandOptions.checkArgs in its order, then rules of kt that refuse options
without an effect. `describe`, `reset` and `deletion` hold the actions. If a group fails, the error is printed, the
other groups are processed, and the exit status is 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from kafkatools.commands.consumer_groups import shared_options
from kafkatools.commands.consumer_groups.shared_options import (
    ONE_VIEW,
    STATES,
    TYPES,
    available,
    check_values,
    needs,
    words_of,
)
from kafkatools.exit_status import ExitStatus
from kafkatools.options import (
    BOOTSTRAP_SERVER,
    Args,
    Command,
    Option,
    command_config,
    rules,
)
from kafkatools.options.quantities import positive_seconds

if TYPE_CHECKING:
    from kafkatools.commands.consumer_groups.session import Session
    from kafkatools.console import Console
    from kafkatools.core.admin.groups import GroupListing

_ACTIONS = ("list", "describe", "delete", "reset-offsets", "delete-offsets", "validate-regex")
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
    "[[from-file], [shift-by], [to-offset], [to-earliest], [to-current], [to-latest], [by-duration], [to-datetime]]"
)

OPTIONS = (
    Option("--list", "List consumer groups."),
    Option("--describe", "Show the offsets and lag of groups, their members or their state."),
    shared_options.DELETE,
    Option("--reset-offsets", "Reset the committed offsets of groups without active members."),
    Option("--delete-offsets", "Delete the committed offsets of a group for topics."),
    Option("--validate-regex", "Check a regular expression as brokers do (RE2 syntax).", value="REGEX"),
    BOOTSTRAP_SERVER,
    shared_options.GROUP,
    Option("--all-groups", "All consumer groups."),
    shared_options.TOPIC,
    Option("--all-topics", "With --reset-offsets: all topics for which the group has committed offsets."),
    shared_options.OFFSETS,
    shared_options.MEMBERS,
    shared_options.state_option(STATES),
    Option(
        "--type",
        "With --list: show the type of groups, or only groups of these types (classic, consumer).",
        value="TYPE,...",
        optional_value=True,
        implied="",
        choices=("classic", "consumer"),
    ),
    shared_options.VERBOSE,
    shared_options.TO_EARLIEST,
    shared_options.TO_LATEST,
    shared_options.TO_CURRENT,
    shared_options.TO_OFFSET,
    shared_options.SHIFT_BY,
    shared_options.BY_DURATION,
    shared_options.TO_DATETIME,
    shared_options.FROM_FILE,
    shared_options.DRY_RUN,
    shared_options.EXECUTE,
    shared_options.EXPORT,
    shared_options.TIMEOUT,
    command_config(),
    Option(
        "--lag-time",
        "With --describe: also the lag in time. LAG-TIME is the age of the first record that was not "
        "consumed. BEHIND-NEWEST is how much older it is than the newest record of the partition. Both are "
        "0 without lag.",
        ours=True,
    ),
    Option(
        "--watch",
        "With --describe: repeat every N seconds (default 5) until Ctrl-C. Without a terminal it prints lines of JSON.",
        value="SECONDS",
        type=positive_seconds,
        optional_value=True,
        implied=5.0,
        ours=True,
    ),
    Option(
        "--fail-if",
        "With --describe: exit status 3 if a condition holds; where is printed on stderr. lag>1000 "
        "(records), lag>5m (age of the first record that was not consumed; ms, s, m, h, d), behind>1h (how "
        "much older it is than the newest record), total>100000, members<2, state!=Stable. Operators: > >= "
        "< <= = !=. With --watch: exit when a condition holds.",
        value="CONDITION",
        repeatable=True,
        ours=True,
    ),
    Option(
        "--undo-file",
        "File for the previous offsets, for --from-file. With --execute the default is a new file in the "
        "working directory, named after the group and the time. With --delete and --delete-offsets nothing "
        "is saved without it.",
        value="FILE",
        ours=True,
    ),
    Option("--no-undo-file", "With --execute: do not save the previous offsets.", ours=True),
)

_NO_TOPIC_WITH_DELETE = "The consumer does not support topic-specific offset deletion from a consumer group."
_TAKES_GROUPS = "Option [{0}] takes one of these options: [group], [all-groups]"


RULES: tuple[rules.Rule, ...] = (
    *(available(option, "describe") for option in ("members", "verbose", "offsets")),
    available("state", "describe", "list"),
    available("type", "list"),
    rules.Requirement(("group", "all-groups"), when=("describe",), message=_TAKES_GROUPS.format("describe")),
    *ONE_VIEW,
    rules.Requirement(("group", "all-groups"), when=("delete",), message=_TAKES_GROUPS.format("delete")),
    rules.Refusal("delete", ("topic",), _NO_TOPIC_WITH_DELETE),
    *(
        rules.Requirement((one,), when=("delete-offsets",),
                          message="Option [delete-offsets] takes the following options: [group], [topic]")
        for one in ("group", "topic")
    ),
    rules.Refusal("dry-run", ("execute",), "Option [reset-offsets] only accepts one of [execute] and [dry-run]",
                  when=("reset-offsets",)),
    rules.Requirement(("group", "all-groups"), when=("reset-offsets",), message=_TAKES_GROUPS.format("reset-offsets")),
    *(rules.Refusal(one, _SCENARIOS[at + 1 :], when=("reset-offsets",)) for at, one in enumerate(_SCENARIOS)),
    rules.Refusal("group", ("all-groups", "list")),
    rules.Refusal("topic", ("list", "describe")),
    rules.ExactlyOne(_ACTIONS, "Command must include exactly one action: " + ", ".join(f"--{one}" for one in _ACTIONS)),
    rules.Requirement(("all-topics", "topic"), when=("reset-offsets",), unless=("from-file",),
                      message="One of the reset scopes should be defined: --all-topics, --topic."),
    rules.Requirement(_SCENARIOS, when=("reset-offsets",),
                message=f"Option '[reset-offsets]' requires one of the following scenarios: {_SCENARIOS_IN_MESSAGE}"),
    rules.Refusal("topic", ("all-topics", "from-file")),
    rules.Refusal("all-topics", ("from-file",)),
    *(needs(option, "reset-offsets") for option in ("all-topics", *_SCENARIOS, "execute", "export")),
    needs("dry-run", "reset-offsets", "delete", "delete-offsets"),
    needs("all-groups", "describe", "delete", "reset-offsets"),
    *(needs(option, "describe") for option in ("lag-time", "watch", "fail-if")),
    *(rules.Refusal(option, ("members", "state")) for option in ("lag-time", "watch", "fail-if")),
    needs("undo-file", "execute", "delete", "delete-offsets"),
    needs("no-undo-file", "execute"),
    rules.Refusal("dry-run", ("undo-file",)),
    rules.Refusal("undo-file", ("no-undo-file",)),
)  # fmt: skip


def run(console: Console, args: Args) -> ExitStatus:
    """Run the action option of kt consumer-groups, such as --list. Returns FAILED if a group or broker failed, FINDINGS
    for --fail-if and an invalid --validate-regex. Raises UsageError, CommandError or KafkaError."""
    if args.has_option("validate-regex"):
        return _validate_regex(console, args)
    check_values(args, is_for_one_group=args.delete_offsets)
    from kafkatools.commands.consumer_groups.session import carry_out

    return carry_out(console, args, _prepare(console, args))


def _prepare(console: Console, args: Args) -> Callable[[Session], ExitStatus]:
    """Parse the options of kt consumer-groups; return a function that runs the action with a Session."""
    if args.describe:
        from kafkatools.commands.consumer_groups.describe import prepare_describe

        return prepare_describe(args)
    if args.reset_offsets:
        from kafkatools.commands.consumer_groups.reset import prepare_reset

        return prepare_reset(console, args)
    if args.delete_offsets:
        from kafkatools.commands.consumer_groups.reset import prepare_delete_offsets

        return prepare_delete_offsets(args)
    if args.delete:
        from kafkatools.commands.consumer_groups.deletion import delete

        return delete
    states, types = words_of(args.state, STATES, "state"), words_of(args.type, TYPES, "types")
    return lambda session: _list(session, states, types)


def _validate_regex(console: Console, args: Args) -> ExitStatus:
    """Print whether a regular expression is valid (ConsumerGroupCommand.validateRegex). Returns FINDINGS if not."""
    from kafkatools.core.java.re2_syntax import syntax_error

    text = args.validate_regex
    problem = syntax_error(text)
    outcome = "valid" if problem is None else f"invalid: {problem}"
    row = {"regex": text, "valid": problem is None, "error": problem}
    console.print(f"The regular expression `{text}` is {outcome}.", row)
    return ExitStatus.OK if problem is None else ExitStatus.FINDINGS


# -- list --


def _list(session: Session, states: tuple[str, ...], types: tuple[str, ...]) -> ExitStatus:
    from kafkatools.commands.consumer_groups.session import consumer_groups

    listings, is_complete = consumer_groups(session, states, types or TYPES)
    args = session.args
    if args.json:
        for listing in sorted(listings):
            row = {"group": listing.group_id, "type": listing.type, "state": listing.state}
            session.print_json({**row, "protocol_type": listing.protocol_type})
    elif args.has_option("state") or args.has_option("type"):
        for line in _listing_lines(listings, with_type=args.has_option("type"), with_state=args.has_option("state")):
            session.console.print(line)
    else:
        for listing in listings:
            session.console.print(listing.group_id)
    return ExitStatus.OK if is_complete else ExitStatus.FAILED


def _listing_lines(listings: Sequence[GroupListing], *, with_type: bool, with_state: bool) -> Iterable[str]:
    """Yield the table of --list --state and --type (ConsumerGroupCommand.printGroupInfo)."""
    width = max([15, *(len(listing.group_id) for listing in listings)]) + 10
    line = f"%-{width}s" + " %-20s" * (with_type + with_state)
    yield line % ("GROUP", *(["TYPE"] * with_type), *(["STATE"] * with_state))
    for listing in listings:
        yield line % (listing.group_id, *([listing.type] * with_type), *([listing.state] * with_state))


COMMAND = Command(
    "consumer-groups",
    "List, describe and delete consumer groups, and reset their offsets.",
    options=OPTIONS,
    run=run,
    rules=RULES,
    error_prefix="Error: Executing consumer group command failed due to ",
    examples=(
        "kt consumer-groups --describe --all-groups",
        "kt consumer-groups --reset-offsets --group billing --topic orders --by-duration PT2H --dry-run",
    ),
    destructive=("delete", "delete-offsets", "execute"),
)
