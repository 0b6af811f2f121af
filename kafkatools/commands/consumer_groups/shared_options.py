"""Options that kt consumer-groups and kt share-groups have in common; each command lists them in its own order."""

from kafkatools.options import Option, java_long

DELETE = Option("--delete", "Delete groups without members and their offsets.")
GROUP = Option("--group", "A group.", value="GROUP", repeatable=True)
TOPIC = Option("--topic", "A topic, or topic:0,1 for some of its partitions.", value="TOPIC", repeatable=True)
OFFSETS = Option("--offsets", "With --describe: offsets and lag (the default).")
MEMBERS = Option("--members", "With --describe: the members.")
VERBOSE = Option("--verbose", "With --describe: more columns.")
TO_EARLIEST = Option("--to-earliest", "Reset to the earliest offset.")
TO_LATEST = Option("--to-latest", "Reset to the end offset.")
TO_DATETIME = Option(
    "--to-datetime", "Reset to the first record at or after a time, such as 2026-01-31T13:45:00.000.", value="TIME"
)
TO_OFFSET = Option("--to-offset", "Reset to this offset.", value="OFFSET", type=java_long)
FROM_FILE = Option(
    "--from-file",
    "Reset to the offsets in a file: CSV lines topic,partition,offset (with the group in front for "
    "several groups) or lines of JSON.",
    value="FILE",
)
DRY_RUN = Option("--dry-run", "Print what --reset-offsets, --delete or --delete-offsets would do, and change nothing.")
EXECUTE = Option("--execute", "Carry out --reset-offsets.")
EXPORT = Option("--export", "With --reset-offsets: print the new offsets as CSV, which --from-file reads.")
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
