"""kt groups timeline: print the history of a group that the records of __consumer_offsets tell. Kafka has no such tool.

Exit status: 1 if the group has no records, or if records were damaged and skipped.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from kafkatools.exit_status import ExitStatus, UsageError
from kafkatools.options import BOOTSTRAP_SERVER, Args, Command, Option, command_config, java_int
from kafkatools.options.connection import connect_admin

if TYPE_CHECKING:
    from kafkatools.console import Console
    from kafkatools.tools.timeline.build import Selection, Timeline
    from kafkatools.tools.timeline.events import Commits, Event, Handover, Member, Rebalance, TopicNames

_PREFIX = "log:"
_MOST_DAMAGES = 3
_NEED_A_BROKER = ("bootstrap-server", "command-config")


def run(console: Console, args: Args) -> ExitStatus:
    """Run kt groups timeline. Returns FAILED if records were damaged and skipped. Raises UsageError, CommandError for a
    group without records, KafkaError, OSError."""
    if not args.operand:
        raise UsageError("The group is missing: kt groups timeline GROUP")
    from kafkatools.core.protocol.definitions import MAX_STRING_BYTES

    size = len(args.operand.encode(errors="surrogateescape"))
    if size > MAX_STRING_BYTES:
        raise UsageError(
            f"The name of the group has {size:,} bytes; a text in a request has at most {MAX_STRING_BYTES:,}"
        )
    from kafkatools.tools.timeline import build

    selection = _selection(args, console.clock.wall_ms())
    paths = _paths(args)
    with console.progress("Reading __consumer_offsets"):
        if paths is not None:
            timeline = build.timeline_of_files(paths, args.operand, selection, console.note)
        else:
            with connect_admin(console, args) as admin:
                timeline = build.timeline_of_cluster(admin, args.operand, selection)
    if args.json:
        console.print_json(_log_row(timeline))
        for event in timeline.events:
            console.print_json(_row(event, timeline.names))
    else:
        for line in _head(timeline):
            console.print(line)
        for event in timeline.events:
            for line in _lines(event, timeline.names):
                console.print(line)
        if not timeline.events:
            console.print("No events match the options.")
    return _report(console, timeline)


def _selection(args: Args, now_ms: int) -> Selection:
    from kafkatools.options.slice_options import slice_of
    from kafkatools.tools.timeline.build import Selection

    requested = slice_of(args, now_ms)
    return Selection(*requested.times, requested.last, args.topic, args.commits)


def _paths(args: Args) -> str | None:
    """Return the paths of --from, None to read from a cluster. Raises UsageError."""
    source = getattr(args, "from")
    if source is None:
        return None
    for option in _NEED_A_BROKER:
        if args.has_option(option):
            raise UsageError(f"--{option} is for reading from brokers: it cannot be used with --from log:DIRECTORY")
    path: str = source.removeprefix(_PREFIX)
    if not source.startswith(_PREFIX) or not path:
        hint = f"Did you mean log:{source}?" if os.path.exists(source) else ""
        raise UsageError(f"Invalid value of --from: '{source}' is not log:DIRECTORY", hint)
    return path


def _report(console: Console, timeline: Timeline) -> ExitStatus:
    """Print damage and skipped lookups to stderr."""
    reader = timeline.reader
    if timeline.not_looked_up:
        console.note(f"The lag of the oldest {timeline.not_looked_up} commits was not looked up: select fewer by time")
    for damage in reader.damages[:_MOST_DAMAGES]:
        offsets = f"{damage.first_offset} to {damage.next_offset - 1}"
        console.error(f"Skipped log offsets {offsets}: {damage.cause}", "DAMAGE")
    if len(reader.damages) > _MOST_DAMAGES:
        console.error(f"Skipped {len(reader.damages) - _MOST_DAMAGES} more damaged places", "DAMAGE")
    if reader.undecodable:
        console.error(f"Skipped {reader.undecodable} records of the group that cannot be decoded", "DAMAGE")
    return ExitStatus.FAILED if reader.damages or reader.undecodable else ExitStatus.OK


# --- text


def _head(timeline: Timeline) -> Iterator[str]:
    reader = timeline.reader
    offsets = f"log offsets {reader.first_offset or 0} to {max(reader.next_offset - 1, 0)}"
    yield f"Group {timeline.group_id}: __consumer_offsets-{timeline.partition}, {offsets}"
    if reader.compacted is not None:
        at = f"{reader.compacted.offset} ({stamp(reader.compacted.time_ms)})"
        yield f"The log was compacted: events before log offset {at} are incomplete."
    if reader.aborted:
        yield f"Left out: {reader.aborted} commits of aborted transactions."


def stamp(time_ms: int) -> str:
    """Return a time (ms since 1970) in UTC with milliseconds, `unknown` for a negative one."""
    from datetime import UTC, datetime, timedelta

    if time_ms < 0:
        return "unknown"
    try:
        moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=time_ms)
    except OverflowError:
        return f"{time_ms} ms"
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _lines(event: Event, names: TopicNames) -> Iterator[str]:
    from kafkatools.tools.timeline import events

    at = stamp(event.time_ms)
    if isinstance(event, events.Rebalance):
        yield f"{at}  {_rebalance_text(event)}"
        for label, members in (("joined", event.joined), ("left", event.left)):
            yield from (f"    {label}: {_member_text(member)}" for member in members)
        for moved in event.moved:
            for label, places in (("assigned to", moved.added), ("taken from", moved.removed)):
                if places:
                    yield f"    {label} {moved.member_id}: {_places_text(names.places(places))}"
    elif isinstance(event, events.Handover):
        yield f"{at}  {_handover_text(event, names)}"
    elif isinstance(event, events.Commits):
        yield f"{at}  {_commits_text(event)}"
    elif isinstance(event, events.OffsetDeleted):
        was = "unknown" if event.offset is None else event.offset
        yield f"{at}  Committed offset of {event.topic}-{event.partition} deleted or expired (was {was})"
    else:
        yield f"{at}  Group deleted or expired"


def _rebalance_text(event: Rebalance) -> str:
    word = "Generation" if event.protocol == "classic" else "Epoch"
    number = "unknown" if event.generation is None else event.generation
    members = f"{event.members} member{'' if event.members == 1 else 's'}"
    assignor = f", assignor {event.assignor}" if event.assignor else ""
    return f"{word} {number} ({event.protocol}): {event.state}, {members}{assignor}"


def _member_text(member: Member) -> str:
    instance = f", instance {member.instance_id}" if member.instance_id is not None else ""
    return f"{member.member_id} (client {member.client_id}, host {member.host}{instance})"


def _handover_text(event: Handover, names: TopicNames) -> str:
    parts = [
        f"{verb} {_places_text(names.places(places))}"
        for verb, places in (("got", event.added), ("gave up", event.removed), ("has to give up", event.revoking))
        if places
    ]
    return f"Member {event.member.member_id} (epoch {event.epoch}) {', '.join(parts)}"


def _places_text(places: Iterable[tuple[str, int]]) -> str:
    """Return partitions with ranges: `orders-0 to orders-3, orders-7`."""
    runs: list[tuple[str, int, int]] = []
    for topic, number in places:
        if runs and runs[-1][0] == topic and runs[-1][2] == number - 1:
            runs[-1] = (topic, runs[-1][1], number)
        else:
            runs.append((topic, number, number))
    return ", ".join(
        f"{topic}-{first} to {topic}-{last}"
        if last > first + 1
        else ", ".join(f"{topic}-{n}" for n in range(first, last + 1))
        for topic, first, last in runs
    )


def _commits_text(event: Commits) -> str:
    part = f"{event.topic}-{event.partition}"
    back = event.previous is not None and event.first_offset < event.previous
    behind = f", back from {event.previous}" if back else ""
    lag = f"lag {'unknown' if event.lag is None else event.lag}"
    if event.is_pending:
        lag = "in an open transaction"
    if event.commits == 1:
        return f"Commit of {part}: offset {event.last_offset}{behind}; {lag}"
    rate = "" if event.per_second is None else f", {event.per_second:.1f} records/s"
    offsets = f"offsets {event.first_offset} to {event.last_offset}{behind}"
    return f"{event.commits} commits of {part}: {offsets}, until {stamp(event.last_time_ms)}{rate}; {lag}"


# --- JSON


def _log_row(timeline: Timeline) -> dict[str, object]:
    reader = timeline.reader
    return {
        "type": "log",
        "group": timeline.group_id,
        "partition": timeline.partition,
        "first_offset": reader.first_offset,
        "next_offset": reader.next_offset,
        "compacted_to": None if reader.compacted is None else reader.compacted.offset,
        "compacted_to_ms": None
        if reader.compacted is None or reader.compacted.time_ms < 0
        else reader.compacted.time_ms,
        "aborted_commits": reader.aborted,
        "undecodable_records": reader.undecodable,
        "damaged": [{"first_offset": one.first_offset, "next_offset": one.next_offset} for one in reader.damages],
    }


def _row(event: Event, names: TopicNames) -> dict[str, object]:
    from kafkatools.tools.timeline import events

    common: dict[str, object] = {
        "log_offset": event.log_offset,
        "time_ms": event.time_ms if event.time_ms >= 0 else None,
    }
    if isinstance(event, events.Rebalance):
        return {"type": "rebalance", **common, **_rebalance_row(event, names)}
    if isinstance(event, events.Handover):
        return {
            "type": "handover",
            **common,
            "member": event.member.member_id,
            "epoch": event.epoch,
            "added": _place_rows(event.added, names),
            "removed": _place_rows(event.removed, names),
            "revoking": _place_rows(event.revoking, names),
        }
    if isinstance(event, events.Commits):
        return {"type": "commits", **common, **_commits_row(event)}
    if isinstance(event, events.OffsetDeleted):
        place = {"topic": event.topic, "partition": event.partition, "offset": event.offset}
        return {"type": "offset_deleted", **common, **place}
    return {"type": "group_deleted", **common, "protocol": event.protocol}


def _rebalance_row(event: Rebalance, names: TopicNames) -> dict[str, object]:
    return {
        "protocol": event.protocol,
        "state": event.state,
        "generation": event.generation,
        "assignor": event.assignor,
        "leader": event.leader,
        "members": event.members,
        "joined": [member._asdict() for member in event.joined],
        "left": [member._asdict() for member in event.left],
        "moved": [
            {
                "member": moved.member_id,
                "added": _place_rows(moved.added, names),
                "removed": _place_rows(moved.removed, names),
            }
            for moved in event.moved
        ],
    }


def _place_rows(places: Iterable[tuple[object, int]], names: TopicNames) -> list[dict[str, object]]:
    return [{"topic": topic, "partition": number} for topic, number in names.places(places)]  # type: ignore[arg-type]


def _commits_row(event: Commits) -> dict[str, object]:
    return {
        "topic": event.topic,
        "partition": event.partition,
        "commits": event.commits,
        "previous": event.previous,
        "first_offset": event.first_offset,
        "last_offset": event.last_offset,
        "last_time_ms": event.last_time_ms if event.last_time_ms >= 0 else None,
        "per_second": event.per_second,
        "pending": event.is_pending,
        "lag": event.lag,
    }


OPTIONS = (
    BOOTSTRAP_SERVER,
    command_config(),
    Option(
        "--from",
        "Read segment files instead of a cluster: log:DIRECTORY. DIRECTORY is one of log.dirs, such as that of a dead "
        "broker, or the directory of one partition of __consumer_offsets.",
        value="log:DIRECTORY",
    ),
    Option("--topic", "Only commits of this topic. Events of the group stay.", value="TOPIC"),
    Option("--since", "Events from this time on: -1h, 2026-01-31T13:45 (UTC).", value="TIME"),
    Option("--until", "Events before this time.", value="TIME"),
    Option("--last", "Only the newest N events.", value="N", type=java_int),
    Option("--commits", "Print every commit. Default: consecutive commits of a partition are one event."),
)

COMMAND = Command(
    "timeline",
    "Print a group's history: rebalances, commits and lag, from __consumer_offsets.",
    tuple(option._replace(ours=True) for option in OPTIONS),
    run,
    needs_arguments=False,
    operand="GROUP",
    examples=(
        "kt groups timeline shop --since -1h",
        "kt groups timeline shop --topic orders --commits --json",
        "kt groups timeline shop --from log:/var/lib/kafka",
    ),
)
