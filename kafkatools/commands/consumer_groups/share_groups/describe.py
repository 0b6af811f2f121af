"""kt share-groups --describe: offsets, members or state, in the format of ShareGroupCommand."""

from __future__ import annotations

from collections.abc import Iterable

from kafkatools.commands.consumer_groups.session import Session, share_groups
from kafkatools.commands.consumer_groups.tables import MISSING, assignment_text, share_state_table, width
from kafkatools.core.admin.groups import GroupDescription, MemberDescription, describe_share_groups
from kafkatools.core.admin.share_groups import ShareOffsets, list_share_group_offsets
from kafkatools.exit_status import ExitStatus


def describe(session: Session) -> ExitStatus:
    """Print the requested share groups, sorted by group id. Returns FAILED when a group could not be described or a
    broker did not list its groups."""
    names, is_complete = list(dict.fromkeys(session.args.group)), True
    if session.args.all_groups:
        listings, is_complete = share_groups(session)
        names = [listing.group_id for listing in listings]
    descriptions = describe_share_groups(session.admin, sorted(names))
    good = []
    for name, description in descriptions.items():
        if description.error is None:
            good.append(description)
        else:
            is_complete = False
            session.complain_of_group(name, description.error)
    if session.args.members:
        _show_members(session, good)
    elif session.args.has_option("state"):
        _show_states(session, good)
    else:
        is_complete = _show_offsets(session, good) and is_complete
    return ExitStatus.OK if is_complete else ExitStatus.FAILED


def _note_empty(session: Session, description: GroupDescription) -> None:
    if description.state == "Dead":
        session.complain(f"Error: Share group '{description.group_id}' does not exist.", group=description.group_id)
    elif description.state == "Empty" and not session.args.json:
        session.console.error("")
        session.console.error(f"Share group '{description.group_id}' has no active members.")


# -- offsets --


def _show_offsets(session: Session, descriptions: Iterable[GroupDescription]) -> bool:
    states = {description.group_id: description.state for description in descriptions}
    is_complete = True
    for name, group_offsets in list_share_group_offsets(session.admin, states).items():
        if group_offsets.error is not None:
            session.complain_of_group(name, group_offsets.error)
            is_complete = False
            continue
        for (topic, partition), error in group_offsets.errors.items():
            message = f"Error: group {name}, {topic}-{partition}: {error}"
            session.complain(message, error.name, group=name, topic=topic, partition=partition)
            is_complete = False
        if session.args.json:
            partitions = [
                {"topic": topic, "partition": partition, **offset._asdict()}
                for (topic, partition), offset in sorted(group_offsets.offsets.items())
            ]
            session.print_json({"group": name, "state": states[name], "partitions": partitions})
        elif group_offsets.offsets:
            _print_offsets(session, name, group_offsets)
        else:
            session.console.print()
            session.console.print(f"Share group '{name}' has no offset information.")
    return is_complete


def _print_offsets(session: Session, name: str, group_offsets: ShareOffsets) -> None:
    is_verbose = session.args.verbose
    epoch = ("LEADER-EPOCH",) if is_verbose else ()
    topic_width = width(topic for topic, _ in group_offsets.offsets)
    line = f"%-{width([name])}s %-{topic_width}s %-10s {'%-13s ' * len(epoch)}%-13s %s"
    session.console.print()
    session.console.print(line % ("GROUP", "TOPIC", "PARTITION", *epoch, "START-OFFSET", "LAG"))
    for (topic, partition), offset in sorted(group_offsets.offsets.items()):
        cells = (offset.leader_epoch,) if is_verbose else ()
        values = ["-" if cell is None else cell for cell in (*cells, offset.start_offset, offset.lag)]
        session.console.print(line % (name, topic, partition, *values))


# -- members --


def _show_members(session: Session, descriptions: Iterable[GroupDescription]) -> None:
    for description in descriptions:
        if session.args.json:
            members = [_member_json(member) for member in description.members]
            session.print_json({"group": description.group_id, "state": description.state, "members": members})
            continue
        _note_empty(session, description)
        if description.members and description.state != "Dead":
            _print_members(session, description)


def _member_json(member: MemberDescription) -> dict[str, object]:
    return {
        "consumer_id": member.member_id,
        "client_id": member.client_id,
        "host": member.host,
        "rack": member.rack_id,
        "epoch": member.member_epoch,
        "partitions": [{"topic": topic, "partition": partition} for topic, partition in sorted(member.assignment)],
    }


def _print_members(session: Session, description: GroupDescription) -> None:
    members = sorted(description.members, key=lambda member: member.member_id)
    is_verbose = session.args.verbose
    epoch = ("MEMBER-EPOCH",) if is_verbose else ()
    line = (
        f"%-{width([description.group_id])}s %-{width(member.member_id for member in members)}s "
        f"%-{width(member.host for member in members)}s %-{width(member.client_id for member in members)}s %-12s "
        f"{'%-13s ' * len(epoch)}%s"
    )
    session.console.print()
    session.console.print(line % ("GROUP", "CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS", *epoch, "ASSIGNMENT"))
    for member in members:
        text = assignment_text(member.assignment)
        cells = (description.group_id, member.member_id, member.host, member.client_id, len(member.assignment))
        epochs = (member.member_epoch,) if is_verbose else ()
        session.console.print(line % (*cells, *epochs, "" if text == MISSING else text))


# -- state --


def _show_states(session: Session, descriptions: Iterable[GroupDescription]) -> None:
    for description in descriptions:
        coordinator = description.coordinator
        if session.args.json:
            session.print_json(
                {
                    "group": description.group_id,
                    "state": description.state,
                    "coordinator": {"id": coordinator.node, "host": coordinator.host, "port": coordinator.port},
                    "assignor": description.assignor or None,
                    "group_epoch": description.group_epoch,
                    "assignment_epoch": description.target_assignment_epoch,
                    "members": len(description.members),
                }
            )
            continue
        _note_empty(session, description)
        for line in share_state_table(description, verbose=session.args.verbose):
            session.console.print(line)
