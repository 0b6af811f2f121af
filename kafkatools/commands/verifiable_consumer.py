"""kt verifiable-consumer: read a topic in a group and print JSON events (kafka-verifiable-consumer.sh).

Events: assigned and revoked partitions, number and offsets of the records of each poll, commits. Offsets are committed
after each poll, unless --enable-autocommit. A signal ends the run between two polls. Source:
org.apache.kafka.tools.VerifiableConsumer.
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
    note_deprecated,
    settings_for,
)

if TYPE_CHECKING:
    from kafkatools.console import Console
    from kafkatools.core.config import Config

_PROGRAM = "verifiable-consumer"
_PROTOCOLS = ("classic", "consumer")
_RANGE = "org.apache.kafka.clients.consumer.RangeAssignor"

OPTIONS = (
    Option("--topic", "The topic to read.", value="TOPIC", required=True),
    BOOTSTRAP_SERVER,
    Option(
        "--group-protocol",
        "Group protocol: classic or consumer.",
        value="PROTOCOL",
        choices=_PROTOCOLS,
        default="classic",
    ),
    Option("--group-remote-assignor", "Server-side assignor, with the consumer protocol.", value="NAME"),
    Option("--group-id", "The consumer group.", value="GROUP", required=True),
    Option("--group-instance-id", "Static member id (group.instance.id).", value="ID"),
    Option("--max-messages", "Exit after this many records; -1: run until stopped.", "COUNT", java_int, default=-1),
    Option("--session-timeout", "session.timeout.ms, with the classic protocol.", value="MS", type=java_int),
    Option("--verbose", "Print each record."),
    Option("--enable-autocommit", "Commit automatically in the background instead of after each poll."),
    Option(
        "--reset-policy",
        "Where to start without a committed offset: earliest, latest or none.",
        value="POLICY",
        choices=("earliest", "latest", "none"),
        default="earliest",
    ),
    Option("--assignment-strategy", "Assignor class, with the classic protocol.", value="CLASS", default=_RANGE),
    Option("--consumer.config", "Older name of --command-config.", value="FILE", replacement="--command-config"),
    command_config("Properties file with settings of the consumer; options override it."),
)


def run(console: Console, args: Args) -> ExitStatus:
    """Run kt verifiable-consumer until --max-messages or a signal. Returns INTERRUPTED after a signal, FAILED if a
    commit failed. Raises UsageError or KafkaError."""
    if args.has_option("consumer.config") and args.has_option("command-config"):
        raise UsageError(f"{_PROGRAM}: error: Options --consumer.config and --command-config are mutually exclusive.")
    note_deprecated(args, console.note, "consumer.config")
    if args.group_protocol.lower() not in _PROTOCOLS:
        raise UsageError(f"--group-protocol must be classic or consumer, not {args.group_protocol}")
    config = consumer_config(console, args)
    from kafkatools.tools.verifiable.consumer import TopicToRead, VerifiableConsumer

    topic = TopicToRead(args.topic, args.max_messages, commits=not args.enable_autocommit, is_verbose=args.verbose)
    return VerifiableConsumer(topic, config, console.clock, console).run()


def consumer_config(console: Console, args: Args) -> Config:
    """Return the consumer's settings: the properties file, then options (VerifiableConsumer.createFromArgs)."""
    from kafkatools.core.config import CONSUMER, Config

    file_option = "consumer_config" if args.has_option("consumer.config") else "command_config"
    values = settings_for(CONSUMER, args, file_option, console.note)
    values["group.protocol"] = args.group_protocol.lower()
    if values["group.protocol"] == "consumer":
        if args.group_remote_assignor is not None:
            values["group.remote.assignor"] = args.group_remote_assignor
    else:
        values["partition.assignment.strategy"] = args.assignment_strategy
    if args.session_timeout is not None:
        values["session.timeout.ms"] = args.session_timeout
    values["group.id"] = args.group_id
    if args.group_instance_id is not None:
        values["group.instance.id"] = args.group_instance_id
    values["bootstrap.servers"] = console.connect(args)
    values["enable.auto.commit"] = "true" if args.enable_autocommit else "false"
    values["auto.offset.reset"] = args.reset_policy
    return Config(CONSUMER, values)


COMMAND = Command(
    "verifiable-consumer",
    "Read a topic in a consumer group and print each event as JSON.",
    OPTIONS,
    run,
    style=ARGPARSE4J,
    program=_PROGRAM,
    missing_bootstrap=f"{_PROGRAM}: error: argument --bootstrap-server is required",
    examples=("kt verifiable-consumer --topic numbers --group-id checkers --max-messages 1000",),
)
