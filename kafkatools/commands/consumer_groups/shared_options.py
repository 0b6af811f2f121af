"""Options, rules and values that kt consumer-groups, share-groups and streams-groups have in common; each command lists
the options in its own order."""

from __future__ import annotations

from collections.abc import Sequence

from kafkatools.exit_status import UsageError
from kafkatools.options import Args, Option, java_long, rules

TYPES = ("Consumer", "Classic")
STATES = ("Dead", "CompletingRebalance", "Stable", "Assigning", "Empty", "PreparingRebalance", "Reconciling")

DELETE = Option("--delete", "Delete groups without members and their offsets.")
GROUP = Option("--group", "A group.", value="GROUP", repeatable=True)
TOPIC = Option("--topic", "A topic, or topic:0,1 for some of its partitions.", value="TOPIC", repeatable=True)
OFFSETS = Option("--offsets", "With --describe: offsets and lag (the default).")
MEMBERS = Option("--members", "With --describe: the members.")
VERBOSE = Option("--verbose", "With --describe: more columns.")
TO_EARLIEST = Option("--to-earliest", "Reset to the earliest offset.")
TO_LATEST = Option("--to-latest", "Reset to the end offset.")
TO_DATETIME = Option(
    "--to-datetime",
    "Reset to the first record at or after a time, such as 2026-01-31T13:45:00.000: UTC, unless a zone such as +02:00 "
    "follows.",
    value="TIME",
)
TO_OFFSET = Option("--to-offset", "Reset to this offset.", value="OFFSET", type=java_long)
TO_CURRENT = Option(
    "--to-current", "Keep the committed offsets; partitions without one get the end offset. Useful with --export."
)
SHIFT_BY = Option(
    "--shift-by",
    "Reset to the committed offset plus this number, which may be negative.",
    value="COUNT",
    type=java_long,
)
BY_DURATION = Option(
    "--by-duration", "Reset to the first record within this time before now: 2h, or P1DT2H3M4S.", value="DURATION"
)
FROM_FILE = Option(
    "--from-file",
    "Reset to the offsets in a file: CSV lines topic,partition,offset (with the group in front for "
    "several groups) or lines of JSON.",
    value="FILE",
)
DRY_RUN = Option("--dry-run", "Print what --reset-offsets, --delete or --delete-offsets would do, and change nothing.")
EXECUTE = Option("--execute", "Carry out --reset-offsets.")
EXPORT = Option("--export", "With --reset-offsets: print the new offsets as CSV, which --from-file reads.")
UNDO_FILE = Option(
    "--undo-file",
    "With --execute, --delete and --delete-offsets: first save the previous offsets in this file, for "
    "--reset-offsets --from-file.",
    value="FILE",
    ours=True,
)
TIMEOUT = Option(
    "--timeout", "Time limit of each request with its retries, in ms.", value="MS", type=java_long, default=30000
)


def state_option(states: tuple[str, ...]) -> Option:
    """Return the option --state, whose values are these group states."""
    return Option(
        "--state",
        "With --describe: the state. With --list: show the state of groups, or only groups in these states,"
        " separated by commas.",
        value="STATE,...",
        optional_value=True,
        implied="",
        choices=states,
    )


def needs(option: str, *actions: str) -> rules.Requirement:
    """Return a rule of kt that refuses an option without one of these actions, because it would have no effect."""
    action_names = ']" or "['.join(actions)
    message = f'Option "[{option}]" can only be used with option "[{action_names}]"'
    return rules.Requirement(actions, when=(option,), message=message)


def available(option: str, *actions: str) -> rules.Requirement:
    """Return Kafka's rule that an option belongs to these actions only."""
    message = f"Option(s) [{option}] are unavailable given other options on the command line"
    return rules.Requirement(actions, when=(option,), message=message)


ONE_VIEW = tuple(
    rules.Refusal(
        one,
        (other,),
        "Option [describe] takes at most one of these options: [members], [offsets], [state]",
        ("describe",),
    )
    for one, other in (("members", "offsets"), ("members", "state"), ("offsets", "state"))
)
"""Kafka's rules that --describe shows offsets, members or the state of groups."""


RESET_RULES = (
    rules.Refusal(
        "dry-run",
        ("execute",),
        "Option [reset-offsets] only accepts one of [execute] and [dry-run]",
        ("reset-offsets",),
    ),
    rules.Requirement(
        ("execute", "dry-run"),
        when=("reset-offsets",),
        message="Option [reset-offsets] takes the option: [execute] or [dry-run]",
    ),
)
"""Kafka's rules of share groups and streams groups that --reset-offsets names either --dry-run or --execute."""


def check_values(args: Args, *, is_for_one_group: bool) -> None:
    """Raise UsageError for values that the three commands refuse."""
    if args.describe and args.state:
        raise UsageError("Option [describe] does not take a value for [state]")
    if args.timeout < 0:
        raise UsageError(f"{args.command.error_prefix}--timeout must be 0 ms or more, not {args.timeout}")
    if is_for_one_group and len(args.group) > 1:
        raise UsageError(
            f"{args.command.error_prefix}Found multiple arguments for option group, but you asked for only one"
        )


def words_of(text: str | None, valid: Sequence[str], label: str) -> tuple[str, ...]:
    """Parse a comma-separated list of states or types, in any case, to Kafka's spelling; empty for None or an empty
    text. Raises UsageError."""
    by_name = {valid_word.lower(): valid_word for valid_word in valid}
    words = [word.strip().lower() for word in text.split(",")] if text else []
    if any(word not in by_name for word in words):
        raise UsageError(f"Invalid {label} list '{text}'. Valid {label.rstrip('s')}s are: {', '.join(valid)}")
    return tuple(dict.fromkeys(by_name[word] for word in words))
