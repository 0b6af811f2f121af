"""kt redrive: send records of a dead-letter topic back to the topics that they came from. Kafka has no such tool.

Each record is sent once: the progress is committed in the same transactions as the records. Records that cannot be sent
back stay, are named, and make the exit status 3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkatools.exit_status import ExitStatus, UsageError
from kafkatools.options import ALWAYS, BOOTSTRAP_SERVER, Args, Command, Option, command_config, java_int, rules, under

if TYPE_CHECKING:
    from kafkatools.console import Console

_TIMESTAMPS = ("original", "dlq")


def run(console: Console, args: Args) -> ExitStatus:
    """Run kt redrive. Returns FINDINGS when records stay that cannot be sent back. Raises UsageError, CommandError or
    KafkaError."""
    if args.timestamp not in _TIMESTAMPS:
        raise UsageError(f"Invalid value of --timestamp: '{args.timestamp}'. It is one of {', '.join(_TIMESTAMPS)}")
    for name in ("to", "origin_header", "exception"):
        if getattr(args, name) == "":
            raise UsageError(f"--{name.replace('_', '-')} is empty")
    for name in ("max_attempts", "max_messages", "throttle"):
        value = getattr(args, name)
        if value is not None and value < 1:
            raise UsageError(f"--{name.replace('_', '-')} {value} must be at least 1")
    from kafkatools.commands.redrive.run_redrive import run_redrive

    return run_redrive(console, args)


COMMAND = Command(
    "redrive",
    "Send records of a dead-letter topic back to the topics that they came from, each once.",
    (
        BOOTSTRAP_SERVER,
        command_config(),
        Option("--dry-run", "Print what would be sent, by target topic and exception, and send nothing."),
        Option("--max-messages", "Stop after this many records.", value="COUNT", type=java_int),
        Option("--throttle", "Maximum records per second.", value="N", type=java_int),
        *under(
            "Which records",
            Option("--partition", "Only this partition.", value="NUMBER", type=java_int, repeatable=True),
            Option(
                "--offset",
                "A range of offsets or times: 100 (from there), 100:200, -5 (from 5 before the end), +5, -100:end, "
                "@-1h (since a time), @-1h:@-30m.",
                value="RANGE",
            ),
            Option("--since", "Records with timestamps from this time on: -1h, 2026-01-31T13:45 (UTC).", value="TIME"),
            Option("--until", "Records with timestamps before this time.", value="TIME"),
            Option("--last", "The last N records of each partition.", value="N", type=java_int),
            Option("--exception", "Records whose exception class or message contains this text.", value="TEXT"),
            Option("--key", "Records with exactly this key.", value="KEY"),
            Option(
                "--grep",
                "Records whose key, value, header name or header value contains a match of this regular expression.",
                value="REGEX",
            ),
            Option("--grep-in", "Where --grep searches: key, value, headers, or several with commas.", value="PARTS"),
            Option("--ignore-case", "--grep ignores the case of A to Z.", aliases=("-i",)),
            Option(
                "--where",
                "Records for which this SQL condition is true, as in kt console-consumer.",
                value="CONDITION",
            ),
            Option(
                "--max-attempts",
                "Do not send records that were sent back this many times already.",
                value="N",
                type=java_int,
            ),
        ),
        *under(
            "Where to, and how",
            Option("--to", "Send all records to this topic instead of their original topics.", value="TOPIC"),
            Option(
                "--origin-header",
                "Header with the name of the original topic, as text. For records without it the headers of Spring "
                "Kafka, Kafka Connect and Kafka Streams are used.",
                value="NAME",
            ),
            Option(
                "--from-suffix",
                "Send records without an origin to the topic whose name is DLQ_TOPIC without this suffix: with .DLT "
                "from orders.DLT to orders.",
                value="SUFFIX",
            ),
            Option("--same-partition", "Send to the original partition. Default: by the key."),
            Option(
                "--timestamp",
                "original: the timestamp of the original record if a header has it, else that of the dead-letter "
                "record. dlq: always the latter.",
                value="WHICH",
                choices=_TIMESTAMPS,
                default="original",
            ),
            Option("--keep-headers", "Keep the headers in which the frameworks describe the failure."),
        ),
    ),
    run,
    operand="DLQ_TOPIC",
    rules=(
        rules.Refusal("offset", ("since", "until", "last")),
        rules.Refusal("to", ("origin-header", "from-suffix")),
        rules.Requirement(("grep",), when=("grep-in",), message="--grep-in needs --grep"),
        rules.Requirement(("grep",), when=("ignore-case",), message="--ignore-case needs --grep"),
    ),
    examples=(
        "kt redrive orders.DLT --dry-run",
        "kt redrive orders.DLT --exception TimeoutException --since -1d",
        "kt redrive connect-dlq --max-attempts 3 --throttle 100",
        "kt redrive orders-dead --to orders --where \"value->>'country' = 'CH'\"",
    ),
    destructive=ALWAYS,
)
