"""kt verifiable-share-consumer: read a topic in a share group, print JSON events (kafka-verifiable-share-consumer.sh).

Events: offsets of the records of each poll, acknowledged offsets. Records are accepted with the next poll, or committed
after each poll with --acknowledgement-mode sync or async. Source: org.apache.kafka.tools.VerifiableShareConsumer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkatools.exit_status import ExitStatus, UsageError
from kafkatools.options import (
    ARGPARSE4J,
    BOOTSTRAP_SERVER,
    Args,
    Command,
    Option,
    command_config,
    java_int,
    settings_for,
)

if TYPE_CHECKING:
    from kafkatools.console import Console

_PROGRAM = "verifiable-share-consumer"
_MODES = ("auto", "sync", "async")
_STRATEGIES = ("earliest", "latest")

OPTIONS = (
    Option("--topic", "The topic to read.", value="TOPIC", required=True),
    BOOTSTRAP_SERVER,
    Option("--group-id", "The share group.", value="GROUP-ID", required=True),
    Option(
        "--max-messages", "Exit after this many acknowledged records; -1: run until stopped.", "COUNT", java_int,
        default=-1,
    ),
    Option("--verbose", "Print each record."),
    Option(
        "--acknowledgement-mode",
        "How records are acknowledged: auto (with the next poll), sync or async (by a commit after each poll).",
        value="MODE",
        default="auto",
    ),
    Option(
        "--offset-reset-strategy",
        "Set where the share group begins, its setting share.auto.offset.reset: earliest or latest. Default: leave it.",
        value="STRATEGY",
        default="",
    ),
    command_config("Properties file with settings of the consumer; options override it."),
)  # fmt: skip


def run(console: Console, args: Args) -> ExitStatus:
    """Run kt verifiable-share-consumer until --max-messages or a signal. Returns INTERRUPTED after a signal, FAILED if
    an acknowledgement failed. Raises UsageError or KafkaError."""
    mode, reset = args.acknowledgement_mode.lower(), args.offset_reset_strategy.lower()
    if mode not in _MODES:
        raise UsageError(f"--acknowledgement-mode must be auto, sync or async, not {args.acknowledgement_mode}")
    if reset and reset not in _STRATEGIES:
        raise UsageError(f"--offset-reset-strategy must be earliest or latest, not {args.offset_reset_strategy}")
    if not args.topic.strip() or not args.group_id:
        raise UsageError(f"--{'group-id' if args.topic.strip() else 'topic'} is empty")
    from kafkatools.core.config import ADMIN, CONSUMER, Config
    from kafkatools.core.consumer.share.share_consumer_base import check_settings
    from kafkatools.tools.verifiable.share_consumer import VerifiableShareConsumer

    values = settings_for(CONSUMER, args, "command_config", console.note)
    values |= {"group.id": args.group_id, "share.acknowledgement.mode": "implicit"}
    admin = settings_for(ADMIN, args, "command_config", lambda line: None)
    values["bootstrap.servers"] = admin["bootstrap.servers"] = console.connect(args)
    config = Config(CONSUMER, values)
    check_settings(config)
    return VerifiableShareConsumer(
        topic=args.topic,
        mode=mode,
        limit=args.max_messages,
        reset=reset,
        is_verbose=args.verbose,
        config=config,
        admin=Config(ADMIN, admin),
        clock=console.clock,
        events=console,
    ).run()


COMMAND = Command(
    "verifiable-share-consumer",
    "Read a topic in a share group and print each event as JSON.",
    OPTIONS,
    run,
    style=ARGPARSE4J,
    program=_PROGRAM,
    missing_bootstrap=f"{_PROGRAM}: error: argument --bootstrap-server is required",
    examples=("kt verifiable-share-consumer --topic numbers --group-id checkers --max-messages 1000",),
)
