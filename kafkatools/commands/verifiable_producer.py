"""kt verifiable-producer: send increasing numbers and print a JSON event for each (kafka-verifiable-producer.sh).

`tools/verifiable/producer.py` runs the producer. Source: org.apache.kafka.tools.VerifiableProducer.
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
    java_long,
    note_deprecated,
    settings_for,
)

if TYPE_CHECKING:
    from kafkatools.console import Console
    from kafkatools.core.config import Config

_PROGRAM = "verifiable-producer"

OPTIONS = (
    Option("--topic", "The topic to send to.", value="TOPIC", required=True),
    BOOTSTRAP_SERVER,
    Option("--max-messages", "Number of records to send; -1: send until stopped.", "COUNT", java_int, default=-1),
    Option("--throughput", "Maximum records per second; -1: no limit.", "RATE", java_int, default=-1),
    Option(
        "--acks",
        "Acknowledgements to wait for: 0 none, 1 the leader, -1 (default) all in-sync replicas.",
        value="ACKS",
        type=java_int,
        choices=("0", "1", "-1"),
    ),
    Option("--producer.config", "Older name of --command-config.", value="FILE", replacement="--command-config"),
    command_config("Properties file with settings of the producer; options override it."),
    Option(
        "--message-create-time",
        "Timestamp of the first record in ms; later records add the elapsed time. -1: the current time.",
        value="MS",
        type=java_long,
        default=-1,
    ),
    Option("--value-prefix", "Number before each value, separated by a dot.", value="NUMBER", type=java_int),
    Option(
        "--repeating-keys", "Repeat the keys 0, 1, ... up to this number (exclusive).", value="COUNT", type=java_int
    ),
)


def run(console: Console, args: Args) -> ExitStatus:
    """Run kt verifiable-producer until --max-messages or a signal. Returns INTERRUPTED after a signal, FAILED if a
    record was not acknowledged. Raises UsageError or KafkaError."""
    if args.acks is not None and args.acks not in (0, 1, -1):
        raise UsageError(f"{_PROGRAM}: error: argument --acks: invalid choice: '{args.acks}' (choose from {{0,1,-1}})")
    if args.has_option("producer.config") and args.has_option("command-config"):
        raise UsageError(f"{_PROGRAM}: error: Options --producer.config and --command-config are mutually exclusive.")
    note_deprecated(args, console.note, "producer.config")
    config = producer_config(console, args)
    from kafkatools.tools.verifiable.producer import NumbersToSend, VerifiableProducer

    create_ms = None if args.message_create_time == -1 else args.message_create_time
    numbers = NumbersToSend(
        args.topic, args.max_messages, args.throughput, args.value_prefix, args.repeating_keys, create_ms
    )
    return VerifiableProducer(numbers, config, console.clock, console).run()


def producer_config(console: Console, args: Args) -> Config:
    """Return the producer's settings: the tool's defaults, then the properties file, then options."""
    from kafkatools.core.config import PRODUCER, Config

    file_option = "producer_config" if args.has_option("producer.config") else "command_config"
    values = {"acks": "-1", "retries": "0"} | settings_for(PRODUCER, args, file_option, console.note)
    if args.acks is not None:
        values["acks"] = str(args.acks)
    if args.has_option("bootstrap-server") or "bootstrap.servers" not in values:
        values["bootstrap.servers"] = console.connect(args)
    return Config(PRODUCER, values)


COMMAND = Command(
    "verifiable-producer",
    "Send increasing numbers and print the result of each as JSON.",
    OPTIONS,
    run,
    style=ARGPARSE4J,
    program=_PROGRAM,
    missing_bootstrap=f"{_PROGRAM}: error: argument --bootstrap-server is required",
    examples=("kt verifiable-producer --topic numbers --max-messages 1000 --throughput 100",),
)
