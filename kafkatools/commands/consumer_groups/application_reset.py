"""kt streams-application-reset: reset the offsets of a Kafka Streams application and delete its internal topics
(kafka-streams-application-reset.sh, StreamsResetter).

Order: parse the command line and files, refuse a group with members, compute the new offsets, write the undo file,
commit the offsets, delete the topics. Everything that can be refused is refused before the first change.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkatools.commands.consumer_groups import shared_options
from kafkatools.exit_status import ExitStatus, UsageError
from kafkatools.options import BOOTSTRAP_SERVER, Args, Command, Option, command_config, rules
from kafkatools.options.connection import connect_admin
from kafkatools.options.table import ALWAYS

if TYPE_CHECKING:
    from kafkatools.console import Console

_SCENARIOS = ("to-offset", "to-datetime", "by-duration", "to-earliest", "to-latest", "from-file", "shift-by")


def run(console: Console, args: Args) -> ExitStatus:
    """Run kt streams-application-reset. Returns FAILED when a topic does not exist or a change failed. Raises
    UsageError, CommandError or KafkaError."""
    from kafkatools.commands.consumer_groups import application
    from kafkatools.commands.consumer_groups.session import Session

    request = application.parse(console, args)
    if not request.application_id:
        raise UsageError("--application-id must not be empty")
    with connect_admin(console, args, older_config="config_file") as admin:
        return application.reset(Session(console, args, admin), request)


COMMAND = Command(
    "streams-application-reset",
    "Reset the input offsets of a Kafka Streams application and delete its internal topics.",
    options=(
        Option("--application-id", "The application.id of the application.", value="ID", required=True),
        BOOTSTRAP_SERVER,
        shared_options.BY_DURATION,
        command_config(),
        Option(
            "--config-file",
            "Properties file of the client.",
            value="FILE",
            replacement="--command-config",
        ),
        Option("--dry-run", "Print what would change, and change nothing."),
        Option("--force", "Remove the members of the group first, such as those whose session has not expired yet."),
        Option(
            "--from-file",
            "Reset to the offsets in a file: CSV lines topic,partition,offset or lines of JSON.",
            value="FILE",
        ),
        Option(
            "--input-topics",
            "Input topics whose offsets are reset, by default to the earliest offset.",
            value="TOPIC,...",
            repeatable=True,
        ),
        Option(
            "--intermediate-topics",
            "Topics that the application writes and reads; their offsets are reset to the end. Deprecated by Kafka.",
            value="TOPIC,...",
            repeatable=True,
        ),
        Option(
            "--internal-topics",
            "Delete only these internal topics. Without it: all topics of the application whose names end like those "
            "of Kafka Streams, such as -changelog and -repartition.",
            value="TOPIC,...",
            repeatable=True,
        ),
        Option(
            "--shift-by",
            "Reset to the committed offset plus this number, which may be negative.",
            value="COUNT",
            type=shared_options.SHIFT_BY.type,
        ),
        shared_options.TO_DATETIME,
        shared_options.TO_EARLIEST,
        shared_options.TO_LATEST,
        shared_options.TO_OFFSET,
        Option(
            "--undo-file",
            "First write the previous offsets to a file for kt consumer-groups --reset-offsets --from-file.",
            value="FILE",
            ours=True,
        ),
    ),
    run=run,
    destructive=ALWAYS,
    rules=(
        *(rules.Refusal(one, tuple(other for other in _SCENARIOS if other != one)) for one in _SCENARIOS),
        rules.Refusal("config-file", ("command-config",)),
        rules.Refusal("dry-run", ("undo-file",)),
    ),
    error_prefix="ERROR: ",
    examples=(
        "kt streams-application-reset --application-id billing --input-topics orders --dry-run",
        "kt streams-application-reset --application-id billing --input-topics orders --by-duration 2h",
    ),
)
