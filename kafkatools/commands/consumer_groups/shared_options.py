"""The options that the tools for consumer groups and for share groups have in common; each tool has its own order."""

from kafkatools.options import Option, java_long

DELETE = Option("--delete", "Delete groups without members, with their offsets.")
GROUP = Option("--group", "The group; may be given several times.", value="GROUP", repeatable=True)
TOPIC = Option("--topic", "The topic, or topic:0,1 for partitions; may be repeated.", value="TOPIC", repeatable=True)
OFFSETS = Option("--offsets", "With --describe: offsets and lag (what it does anyway).")
MEMBERS = Option("--members", "With --describe: the members.")
VERBOSE = Option("--verbose", "With --describe: more columns.")
TO_EARLIEST = Option("--to-earliest", "Reset to the first offset there is.")
TO_LATEST = Option("--to-latest", "Reset to the end.")
TO_DATETIME = Option("--to-datetime", "Reset to the first record at or after 2026-01-31T13:45:00.000.", value="TIME")
TO_OFFSET = Option("--to-offset", "Reset to this offset.", value="OFFSET", type=java_long)
FROM_FILE = Option(
    "--from-file",
    "Reset to the offsets in a file: CSV (topic,partition,offset, or with the group in front) or lines of JSON.",
    value="FILE",
)
DRY_RUN = Option("--dry-run", "Only show what --reset-offsets, --delete or --delete-offsets would do.")
EXECUTE = Option("--execute", "Do it.")
EXPORT = Option("--export", "Show it as CSV, for --from-file.")
TIMEOUT = Option("--timeout", "How long each request may take, in ms.", value="MS", type=java_long, default=30000)


def state_option(states: tuple[str, ...]) -> Option:
    """`--state`, of groups that have these states."""
    return Option(
        "--state",
        "With --describe: the state. With --list: show states, or only groups in these (commas between).",
        value="STATE,...",
        optional_value=True,
        implied="",
        choices=states,
    )
