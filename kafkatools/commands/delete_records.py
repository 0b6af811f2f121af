"""kt delete-records: deletes records up to an offset (kafka-delete-records.sh, DeleteRecordsCommand).

A partition that failed is named on stderr, the others are done, and the exit status is 1. A topic or partition that
does not exist is said at once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkatools.exit_status import CommandError, ExitStatus
from kafkatools.options import ALWAYS, BOOTSTRAP_SERVER, Args, Command, Option, client_settings, command_config
from kafkatools.options.json_files import (
    json_array,
    json_field,
    json_int,
    json_long,
    json_object,
    json_string,
    read_json,
)

if TYPE_CHECKING:
    from kafkatools.console import Console

_NOT_JSON = "The input string is not a valid JSON"


def run(console: Console, args: Args) -> ExitStatus:
    """Deletes what the file says."""
    settings = client_settings(args)
    offsets = _offsets(args.offset_json_file)
    from kafkatools.core.admin.client import AdminClient
    from kafkatools.core.admin.topics import delete_records

    with AdminClient(console.connect(args), settings, console.clock) as admin:
        if not args.json:
            console.print("Executing records delete operation")
            console.flush()
        results = delete_records(admin, offsets) if offsets else {}
    if not args.json:
        console.print("Records delete operation completed:")
    status = ExitStatus.OK
    for topic, partition in offsets:
        result = results[topic, partition]
        if result.error is not None:
            status = ExitStatus.FAILED
        if args.json:
            _print_json(console, topic, partition, result.low_watermark, result.error)
        elif result.error is not None:
            console.error(f"partition: {topic}-{partition}\terror: {result.error}")
        else:
            console.print(f"partition: {topic}-{partition}\tlow_watermark: {result.low_watermark}")
    return status


def _print_json(console: Console, topic: str, partition: int, low_watermark: int, error: Exception | None) -> None:
    from kafkatools.output import json_line

    row = {
        "topic": topic,
        "partition": partition,
        "low_watermark": None if error is not None else low_watermark,
        "error": None if error is None else str(error),
    }
    console.print(json_line(row))


def _offsets(path: str) -> dict[tuple[str, int], int]:
    """The file: {"partitions": [{"topic": "orders", "partition": 0, "offset": 5}], "version": 1}."""
    data = json_object(read_json(path, _NOT_JSON))
    version = json_int(data["version"]) if "version" in data else 1
    if version != 1:
        raise CommandError(f"Not supported version field value {version}")
    if "partitions" not in data:
        raise CommandError("Missing partitions field")
    offsets: dict[tuple[str, int], int] = {}
    twice = []
    for item in json_array(data["partitions"]):
        key = (json_field(item, "topic", json_string), json_field(item, "partition", json_int))
        if key in offsets:
            twice.append(key)
        offsets[key] = json_field(item, "offset", json_long)
    if twice:
        names = ",".join(f"{topic}-{partition}" for topic, partition in dict.fromkeys(twice))
        raise CommandError(f"Offset json file contains duplicate topic partitions: {names}")
    return offsets


COMMAND = Command(
    "delete-records",
    "Delete the records of partitions that are older than an offset.",
    options=(
        Option(
            "--offset-json-file",
            'Partitions and the first offset to keep, -1 for the end: {"partitions": [{"topic": "orders", '
            '"partition": 0, "offset": 5}], "version": 1}.',
            value="FILE",
            required=True,
        ),
        BOOTSTRAP_SERVER,
        command_config(),
    ),
    run=run,
    examples=("kt delete-records --offset-json-file old.json",),
    destructive=ALWAYS,
)
