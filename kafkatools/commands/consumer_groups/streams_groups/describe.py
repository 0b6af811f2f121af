"""kt streams-groups --describe: offsets, members or state, in the format of StreamsGroupCommand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from kafkatools.commands.consumer_groups.session import Session, requested_groups, streams_groups
from kafkatools.commands.consumer_groups.tables import width
from kafkatools.core.admin.group_offsets import GroupOffsets, TopicPartition, fetch_offsets
from kafkatools.core.admin.offsets import EARLIEST, LATEST, list_offsets
from kafkatools.core.admin.streams_groups import (
    StreamsGroupDescription,
    StreamsMember,
    TaskIds,
    Tasks,
    describe_streams_groups,
)
from kafkatools.core.errors import KafkaError
from kafkatools.core.java.hash_order import hash_order
from kafkatools.core.java.hashes import partition_hash
from kafkatools.exit_status import ExitStatus


class OffsetRow(NamedTuple):
    """The committed offset of a partition that a task reads, None without one. Without one, the lag is the number of
    records in the log."""

    offset: int | None
    leader_epoch: int | None
    end: int
    lag: int


def describe(session: Session) -> ExitStatus:
    """Print the requested streams groups. Returns FAILED when a group could not be described or a broker did not list
    its groups."""
    names, is_complete = requested_groups(session, "", streams_groups)
    for name, description in describe_streams_groups(session.admin, names).items():
        if description.error is not None:
            session.complain_of_group(name, description.error)
            is_complete = False
        elif session.args.members:
            _show_members(session, description)
        elif session.args.has_option("state"):
            _show_state(session, description)
        else:
            is_complete = _show_offsets(session, description) and is_complete
    return ExitStatus.OK if is_complete else ExitStatus.FAILED


# -- offsets --


def _show_offsets(session: Session, description: StreamsGroupDescription) -> bool:
    name = description.group_id
    rows: dict[TopicPartition, OffsetRow] = {}
    try:
        rows = _offset_rows(session, description)
    except KafkaError as error:
        session.complain_of_group(name, error)
        return False
    if session.args.json:
        partitions = [
            {"topic": topic, "partition": partition, **row._asdict()}
            for (topic, partition), row in sorted(rows.items())
        ]
        session.print_json({"group": name, "state": description.state, "partitions": partitions})
    elif description.members:
        _print_offsets(session, name, rows)
    return True


def _offset_rows(session: Session, description: StreamsGroupDescription) -> dict[TopicPartition, OffsetRow]:
    """Return the offsets of the partitions that active tasks read, in the order of Java's hash maps. Raises
    KafkaError."""
    inputs = {part.subtopology_id: part.inputs for part in description.subtopologies}
    keys = {
        (topic, partition)
        for member in description.members
        for subtopology, partitions in member.tasks.active
        for topic in inputs.get(subtopology, ())
        for partition in partitions
    }
    if not keys:
        return {}
    starts, ends = (_log_offsets(session, keys, timestamp) for timestamp in (EARLIEST, LATEST))
    committed = committed_offsets(session, description.group_id).offsets
    rows = {}
    for key in hash_order(sorted(keys), partition_hash):
        offset = committed.get(key)
        at = starts[key] if offset is None else offset.offset
        epoch = None if offset is None or offset.leader_epoch < 0 else offset.leader_epoch
        rows[key] = OffsetRow(None if offset is None else offset.offset, epoch, ends[key], ends[key] - at)
    return rows


def _log_offsets(session: Session, keys: set[TopicPartition], timestamp: int) -> dict[TopicPartition, int]:
    found = list_offsets(session.admin, dict.fromkeys(sorted(keys), timestamp))
    for (topic, partition), result in found.items():
        if result.error is not None:
            raise type(result.error)(f"{topic}-{partition}: {result.error}") from result.error
    return {key: result.offset for key, result in found.items()}


def committed_offsets(session: Session, group_id: str) -> GroupOffsets:
    """Fetch the committed offsets of a group. Raises the first KafkaError."""
    found = fetch_offsets(session.admin, [group_id])[group_id]
    error = found.error or next(iter(found.errors.values()), None)
    if error is not None:
        raise error
    return found


def _print_offsets(session: Session, name: str, rows: dict[TopicPartition, OffsetRow]) -> None:
    group_width, topic_width = width([name]), width(topic for topic, _ in rows)
    if session.args.verbose:
        line = f"%-{group_width}s %-{topic_width}s %-10s %-15s %-15s %-15s %-15s"
        titles = ("CURRENT-OFFSET", "LEADER-EPOCH", "LOG-END-OFFSET", "OFFSET-LAG")
        session.console.print(line % ("GROUP", "TOPIC", "PARTITION", *titles))
        for (topic, partition), row in rows.items():
            cells = ("-" if cell is None else cell for cell in row)
            session.console.print(line % (name, topic, partition, *cells))
        return
    line = f"%-{group_width}s %-{topic_width}s %-10s %s"
    session.console.print(line % ("GROUP", "TOPIC", "PARTITION", "OFFSET-LAG"))
    for (topic, partition), row in rows.items():
        session.console.print(line % (name, topic, partition, row.lag))


# -- members --


def _show_members(session: Session, description: StreamsGroupDescription) -> None:
    if session.args.json:
        members = [_member_json(member) for member in sorted(description.members)]
        session.print_json({"group": description.group_id, "state": description.state, "members": members})
    elif description.members:
        _print_members(session, description)


def _member_json(member: StreamsMember) -> dict[str, object]:
    return {
        "member_id": member.member_id,
        "process_id": member.process_id,
        "client_id": member.client_id,
        "host": member.host,
        "epoch": member.member_epoch,
        "topology_epoch": member.topology_epoch,
        "endpoint": member.endpoint,
        "tasks": _tasks_json(member.tasks),
        "target_tasks": _tasks_json(member.target_tasks),
    }


def _tasks_json(tasks: Tasks) -> dict[str, list[str]]:
    return {
        kind: [f"{subtopology}_{partition}" for subtopology, partitions in ids for partition in partitions]
        for kind, ids in tasks._asdict().items()
    }


def _print_members(session: Session, description: StreamsGroupDescription) -> None:
    members: Sequence[StreamsMember] = description.members
    widths = (
        width([description.group_id]),
        width(member.member_id for member in members),
        width(member.process_id for member in members),
        width(member.client_id for member in members),
    )
    is_verbose = session.args.verbose
    before: tuple[str, ...] = ("TARGET-ASSIGNMENT-EPOCH", "TOPOLOGY-EPOCH") if is_verbose else ()
    after: tuple[str, ...] = ("MEMBER-PROTOCOL", "MEMBER-EPOCH") if is_verbose else ()
    formats = ("%-25s %-15s", "%-15s %-15s ") if is_verbose else ("", "")
    line = f"%-{widths[0]}s {formats[0]}%-{widths[1]}s {formats[1]}%-{widths[2]}s %-{widths[3]}s %s"
    session.console.print(line % ("GROUP", *before, "MEMBER", *after, "PROCESS", "CLIENT-ID", "ASSIGNMENTS"))
    for member in members:
        epochs = (description.target_assignment_epoch, description.topology_epoch) if is_verbose else ()
        protocol = ("classic" if member.is_classic else "streams", member.member_epoch) if is_verbose else ()
        text = _tasks_text(member.tasks) + (_tasks_text(member.target_tasks, "TARGET-") if is_verbose else "")
        cells = (member.process_id, member.client_id, text)
        session.console.print(line % (description.group_id, *epochs, member.member_id, *protocol, *cells))


def _tasks_text(tasks: Tasks, prefix: str = "") -> str:
    return "".join(_kind_text(f"{prefix}{kind.upper()}", ids) for kind, ids in tasks._asdict().items())


def _kind_text(name: str, ids: TaskIds) -> str:
    if not ids:
        return ""
    return f"{name}: " + "".join(f"{subtopology}:[{','.join(map(str, parts))}]; " for subtopology, parts in ids)


# -- state --


def _show_state(session: Session, description: StreamsGroupDescription) -> None:
    coordinator, name = description.coordinator, description.group_id
    if session.args.json:
        session.print_json(
            {
                "group": name,
                "state": description.state,
                "coordinator": {"id": coordinator.node, "host": coordinator.host, "port": coordinator.port},
                "group_epoch": description.group_epoch,
                "assignment_epoch": description.target_assignment_epoch,
                "topology_epoch": description.topology_epoch,
                "members": len(description.members),
            }
        )
        return
    if description.state == "Empty":
        session.console.error(f"Error: Streams group '{name}' has no active members.")
    address = f"{coordinator.host}:{coordinator.port} ({coordinator.node})"
    is_verbose = session.args.verbose
    epochs = ("GROUP-EPOCH", "TARGET-ASSIGNMENT-EPOCH") if is_verbose else ()
    line = f"%-{width([name])}s %-{width([address], 25)}s %-25s {'%-15s %-25s ' if is_verbose else ''}%s"
    session.console.print(line % ("GROUP", "COORDINATOR (ID)", "STATE", *epochs, "#MEMBERS"))
    numbers = (description.group_epoch, description.target_assignment_epoch) if is_verbose else ()
    session.console.print(line % (name, address, description.state, *numbers, len(description.members)))
