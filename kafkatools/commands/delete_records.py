"""kt delete-records: delete the records before an offset (kafka-delete-records.sh, DeleteRecordsCommand).

Partitions that failed are named on stderr and the exit status is 1; the other partitions are processed. A missing topic
or partition fails at once, without Kafka's retries. --dry-run compares requested offsets with the log's. With --topic
the offsets are looked up when the command starts; records that arrive meanwhile stay.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kafkatools.exit_status import CommandError, ExitStatus, UsageError
from kafkatools.options import ALWAYS, BOOTSTRAP_SERVER, Args, Command, Option, command_config, java_int, rules
from kafkatools.options.connection import connect_admin
from kafkatools.tools import json_files

if TYPE_CHECKING:
    from kafkatools.console import Console
    from kafkatools.core.admin.client import AdminClient
    from kafkatools.core.admin.topics import DeletedRecords, TopicPartition
    from kafkatools.core.errors import KafkaError
    from kafkatools.core.json_values import JsonValue
    from kafkatools.tools.lines.slice import Place
    from kafkatools.tools.record_deletions import Deletion

_NOT_JSON = "The input string is not a valid JSON"
_VERSION = 1
_AT_A_TIME = 1000


def run(console: Console, args: Args) -> ExitStatus:
    """Run kt delete-records, or with --dry-run predict the deletions. Returns FAILED when a partition failed. Raises
    CommandError for an invalid file, KafkaError."""
    from kafkatools.tools.record_deletions import predict_deletions

    place = _place(console, args) if args.topic is not None else None
    offsets = _offsets(args.offset_json_file) if place is None else {}
    failures: dict[TopicPartition, KafkaError] = {}
    with connect_admin(console, args) as admin:
        if place is not None:
            offsets, failures = _offsets_at(admin, args, place)
        if args.dry_run:
            return _show_deletions(console, args, failures | (predict_deletions(admin, offsets) if offsets else {}))
        if not args.json:
            console.print("Executing records delete operation")
            console.flush()
        results = _delete(console, admin, offsets)
    if not args.json:
        console.print("Records delete operation completed:")
    status = ExitStatus.FAILED if failures else ExitStatus.OK
    for key, error in failures.items():
        _report(console, key, 0, error)
    for key in offsets:
        result = results[key]
        if result.error is not None:
            status = ExitStatus.FAILED
        _report(console, key, result.low_watermark, result.error)
    return status


def _place(console: Console, args: Args) -> Place:
    """Return the place of --before or --all. Raises UsageError."""
    from kafkatools.options.slices import PLACE_FORM, parse_place
    from kafkatools.tools.lines.slice import LOG_END

    if args.all:
        return LOG_END
    try:
        return parse_place(args.before, console.clock.wall_ms())
    except ValueError as error:
        raise UsageError(f"Invalid value of --before: {error}", PLACE_FORM) from None


def _offsets_at(
    admin: AdminClient, args: Args, place: Place
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, KafkaError]]:
    """Return the first offset to keep of each requested partition of --topic, and the partitions whose offsets cannot
    be looked up. Raises UsageError for an offset without --partition, CommandError for a missing partition, KafkaError
    for a missing topic."""
    from kafkatools.core.admin.topics import describe_topics
    from kafkatools.core.topic_partition import partitions_text
    from kafkatools.tools.lines.slice import Anchor
    from kafkatools.tools.record_places import offsets_at

    description = describe_topics(admin, [args.topic])[args.topic]
    if description.error is not None:
        text = "does not exist" if description.error.name == "UNKNOWN_TOPIC_OR_PARTITION" else str(description.error)
        raise CommandError(f"Topic {args.topic} {text}", kind=description.error.name)
    numbers = [part.partition for part in description.partitions]
    missing = [number for number in args.partition if number not in numbers]
    if missing:
        raise CommandError(f"Topic {args.topic} has no partition {missing[0]}: {partitions_text(numbers)}")
    if place.anchor is Anchor.OFFSET and not args.partition and len(numbers) > 1:
        raise UsageError(
            f"An offset belongs to one partition, and {args.topic} has {len(numbers)} partitions: pass --partition"
        )
    keys = [(args.topic, number) for number in sorted(set(args.partition or numbers))]
    found = offsets_at(admin, keys, place)
    failures = {key: offset for key, offset in found.items() if not isinstance(offset, int)}
    return {key: offset for key, offset in found.items() if isinstance(offset, int)}, failures


def _delete(
    console: Console, admin: AdminClient, offsets: Mapping[TopicPartition, int]
) -> dict[TopicPartition, DeletedRecords]:
    from kafkatools.core.admin.leaders import ELECTION_MS
    from kafkatools.core.admin.topics import DeletedRecords, delete_records
    from kafkatools.core.errors import KafkaError, LeaderNotAvailable

    leaderless_ms = ELECTION_MS
    requested = list(offsets.items())
    results: dict[TopicPartition, DeletedRecords] = {}
    with console.progress("Deleting records of partitions", len(requested)) as progress:
        for at in range(0, len(requested), _AT_A_TIME):
            try:
                batch = delete_records(admin, dict(requested[at : at + _AT_A_TIME]), leaderless_ms=leaderless_ms)
            except KafkaError as error:
                if not results:
                    raise
                results |= {
                    key: DeletedRecords(-1, error) for key, _ in requested[at:]
                }  # the results before these are reported
                break
            if any(isinstance(result.error, LeaderNotAvailable) for result in batch.values()):
                leaderless_ms = 0  # wait for elections only once
            results |= batch
            progress.advance(len(batch))
    return results


def _show_deletions(
    console: Console, args: Args, predicted: Mapping[TopicPartition, Deletion | KafkaError]
) -> ExitStatus:
    """Print the partitions whose start offset would change, and the errors. Returns FAILED if there is an error."""
    status = ExitStatus.OK
    count = 0
    for key, prediction in predicted.items():
        if isinstance(prediction, Exception):
            status = ExitStatus.FAILED
            _report(console, key, 0, prediction)
        elif prediction.new_low > prediction.low:
            count += 1
            _report(console, key, prediction.low, None, prediction.new_low)
    if not count and not args.json and status == ExitStatus.OK:
        console.note("Nothing would change.")
    return status


def _report(
    console: Console, key: TopicPartition, low_watermark: int, error: Exception | None, new_low_watermark: int = -1
) -> None:
    """Print the start offset of a partition, with --dry-run also the new one, or its error."""
    topic, partition = key
    row = {"topic": topic, "partition": partition, "low_watermark": None if error is not None else low_watermark}
    text = f"{low_watermark}"
    if new_low_watermark >= 0:
        row["new_low_watermark"] = new_low_watermark
        text += f" -> {new_low_watermark}\t{new_low_watermark - low_watermark} offsets"
    row["error"] = None if error is None else str(error)
    label = f"partition: {topic}-{partition}"
    failure = "" if error is None else f"{label}\terror: {error}"
    console.print_outcome(row, f"{label}\tlow_watermark: {text}", failure)


def _offsets(path: str) -> dict[TopicPartition, int]:
    """Read {"partitions": [{"topic": "orders", "partition": 0, "offset": 5}], "version": 1}. Raises CommandError."""
    data = json_files.json_in_file(path, json_files.json_object, json_files.read_json(path, _NOT_JSON))
    version = json_files.json_in_file(path, json_files.json_int, data.get("version", _VERSION))
    if version != _VERSION:
        raise CommandError(f"Not supported version field value {version}", hint=path)
    if "partitions" not in data:
        raise CommandError("Missing partitions field", hint=path)
    offsets: dict[TopicPartition, int] = {}
    twice = []
    for key, offset in json_files.json_entries(path, "partitions", data["partitions"], _offset):
        if key in offsets:
            twice.append(key)
        offsets[key] = offset
    if twice:
        names = ",".join(f"{topic}-{partition}" for topic, partition in dict.fromkeys(twice))
        raise CommandError(f"Offset json file contains duplicate topic partitions: {names}", hint=path)
    return offsets


def _offset(item: JsonValue) -> tuple[TopicPartition, int]:
    topic = json_files.json_field(item, "topic", json_files.json_string)
    partition = json_files.json_field(item, "partition", json_files.json_int)
    return (topic, partition), json_files.json_field(item, "offset", json_files.json_long)


COMMAND = Command(
    "delete-records",
    "Delete the records of partitions before an offset.",
    options=(
        Option(
            "--offset-json-file",
            'JSON file with partitions and the first offset to keep, -1 for the high watermark: {"partitions": '
            '[{"topic": "orders", "partition": 0, "offset": 5}], "version": 1}.',
            value="FILE",
        ),
        Option("--topic", "Delete records of this topic; replaces --offset-json-file.", value="TOPIC", ours=True),
        Option(
            "--partition",
            "With --topic: only this partition. Default: all.",
            value="NUMBER",
            type=java_int,
            repeatable=True,
            ours=True,
        ),
        Option(
            "--before",
            "With --topic: the first record to keep. An offset (100), a distance (-1000: keep the last 1000 offsets), "
            "or a time: -7d, 2026-01-31T13:45, or @ and ms since 1970.",
            value="OFFSET|TIME",
            ours=True,
        ),
        Option("--all", "With --topic: delete all records up to the high watermark.", ours=True),
        BOOTSTRAP_SERVER,
        command_config(),
        Option(
            "--dry-run",
            "Print the current and the resulting log start offsets and the brokers' errors, and delete nothing.",
            ours=True,
        ),
    ),
    run=run,
    rules=(
        rules.Requirement(("topic",), when=("before",), message="--before needs --topic"),
        rules.Requirement(("topic",), when=("all",), message="--all needs --topic"),
        rules.Requirement(("topic",), when=("partition",), message="--partition needs --topic"),
        rules.Requirement(("offset-json-file", "topic")),
        rules.Refusal("offset-json-file", ("topic", "partition", "before", "all")),
        rules.Refusal("before", ("all",)),
        rules.Requirement(("before", "all"), when=("topic",), message="--topic needs --before or --all"),
    ),
    examples=(
        "kt delete-records --topic orders --before -7d --dry-run",
        "kt delete-records --topic orders --all",
        "kt delete-records --topic orders --partition 0 --before 5000",
        "kt delete-records --offset-json-file old.json",
    ),
    destructive=ALWAYS,
)
