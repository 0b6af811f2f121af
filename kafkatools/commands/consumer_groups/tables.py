"""The tables of kt consumer-groups --describe, in the format of ConsumerGroupCommand, and lists of groups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from kafkatools.commands.consumer_groups.session import Session
from kafkatools.core.admin.groups import GroupDescription, GroupListing, MemberDescription
from kafkatools.core.topic_partition import numbers_by_topic
from kafkatools.exit_status import ExitStatus
from kafkatools.tools.groups.times import duration_text
from kafkatools.tools.groups.view import GroupView

MISSING = "-"
_COLUMN = 15


def _cell(value: object) -> object:
    return MISSING if value is None else value


def width(texts: Iterable[str], least: int = _COLUMN) -> int:
    """Return the width of a column with these texts: that of the longest, but at least `least`."""
    return max(least, max(map(len, texts), default=0))


def offsets_table(view: GroupView, *, verbose: bool, extra: Sequence[str] = ()) -> Iterator[str]:
    """Yield the lines of --offsets for one group: a blank line, the header, a row for each partition.

    `extra` names columns after LAG: LAG-TIME, BEHIND-NEWEST.
    """
    rows = view.rows
    members = {id(row.member): row.member for row in rows if row.member is not None}.values()
    group = view.group_id
    widths = (
        width([group]),
        width({row.topic for row in rows}),
        width(member.member_id for member in members),
        width(member.host for member in members),
    )
    numbers = "%-15s %-15s %-15s %-15s" if verbose else "%-15s %-15s %-15s"
    numbers += " %-15s" * len(extra)
    line = f"%-{widths[0]}s %-{widths[1]}s %-10s {numbers} %-{widths[2]}s %-{widths[3]}s %s"
    epoch = ("LEADER-EPOCH",) if verbose else ()
    yield ""
    titles = ("GROUP", "TOPIC", "PARTITION", *epoch, "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", *extra)
    yield line % (*titles, "CONSUMER-ID", "HOST", "CLIENT-ID")
    for row in rows:
        member = row.member
        member_cells = (
            (MISSING, MISSING, MISSING) if member is None else (member.member_id, member.host, member.client_id)
        )
        epochs = (_cell(row.leader_epoch),) if verbose else ()
        lags_ms = {"LAG-TIME": row.lag_ms, "BEHIND-NEWEST": row.behind_newest_ms}
        times = (duration_text(lags_ms[name]) for name in extra)
        yield line % (
            group, row.topic, row.partition, *epochs, _cell(row.offset), _cell(row.end), _cell(row.lag), *times,
            *member_cells,
        )  # fmt: skip


def assignment_text(partitions: Iterable[tuple[str, int]]) -> str:
    """Return partitions as `orders:0,1;pay:0`; `-` for none."""
    topics = numbers_by_topic(sorted(partitions))
    return ";".join(sorted(f"{topic}:{','.join(map(str, numbers))}" for topic, numbers in topics.items())) or MISSING


def members_table(description: GroupDescription, *, verbose: bool) -> Iterator[str]:
    """Yield the lines of --members for one group. The header is there without members too."""
    members = description.members
    is_static = any(member.group_instance_id for member in members)
    is_mixed = {member.is_upgraded for member in members} >= {True, False}
    member_format = f"%-{width([description.group_id])}s %-{width(member.member_id for member in members)}s"
    if is_static:
        member_format += f" %-{width((member.group_instance_id or '' for member in members), 17)}s"
    member_format += (
        f" %-{width(member.host for member in members)}s %-{width(member.client_id for member in members)}s %-15s "
    )
    current = width((assignment_text(member.assignment) for member in members), 20)
    target = width((assignment_text(member.target_assignment or ()) for member in members), 20)
    assignment_format = f"%-15s %-{current}s %-15s %-{target}s" + (" %s" if is_mixed else "")
    instance = ("GROUP-INSTANCE-ID",) if is_static else ()
    header = member_format % ("GROUP", "CONSUMER-ID", *instance, "HOST", "CLIENT-ID", "#PARTITIONS")
    if verbose:
        upgraded = ("UPGRADED",) if is_mixed else ()
        header += assignment_format % (
            "CURRENT-EPOCH",
            "CURRENT-ASSIGNMENT",
            "TARGET-EPOCH",
            "TARGET-ASSIGNMENT",
            *upgraded,
        )
    yield ""
    yield header
    for member in members:
        instance = (member.group_instance_id or "",) if is_static else ()
        line = member_format % (
            description.group_id, member.member_id, *instance, member.host, member.client_id, len(member.assignment)
        )  # fmt: skip
        if verbose:
            line += assignment_format % _assignments(description, member, is_mixed=is_mixed)
        yield line


def _assignments(description: GroupDescription, member: MemberDescription, *, is_mixed: bool) -> tuple[object, ...]:
    upgraded = () if not is_mixed else (MISSING if member.is_upgraded is None else str(member.is_upgraded).lower(),)
    return (
        _cell(member.member_epoch),
        assignment_text(member.assignment),
        _cell(description.target_assignment_epoch),
        assignment_text(member.target_assignment or ()),
        *upgraded,
    )


def state_table(description: GroupDescription, *, verbose: bool) -> Iterator[str]:
    """Yield the lines of --state for one consumer group."""
    columns = [
        ("ASSIGNMENT-STRATEGY", 20, description.assignor or MISSING),
        ("STATE", 20, description.state),
        ("GROUP-EPOCH", 15, _cell(description.group_epoch)),
        ("TARGET-ASSIGNMENT-EPOCH", 25, _cell(description.target_assignment_epoch)),
    ]
    return _state_lines(description, columns if verbose else columns[:2])


def share_state_table(description: GroupDescription, *, verbose: bool) -> Iterator[str]:
    """Yield the lines of --state for one share group."""
    columns = [
        ("STATE", 15, description.state),
        ("GROUP-EPOCH", 12, description.group_epoch),
        ("ASSIGNMENT-EPOCH", 17, description.target_assignment_epoch),
    ]
    return _state_lines(description, columns if verbose else columns[:1])


def _state_lines(description: GroupDescription, columns: Sequence[tuple[str, int, object]]) -> Iterator[str]:
    """Yield a blank line, titles and cells: group and coordinator, these columns (title, width, cell), member count."""
    node = description.coordinator
    coordinator = f"{node.host}:{node.port}  ({node.node})"
    start = f"%-{width([description.group_id])}s %-{width([coordinator], 25)}s "
    line = start + "".join(f"%-{size}s " for _, size, _ in columns) + "%s"
    yield ""
    yield line % ("GROUP", "COORDINATOR (ID)", *(title for title, _, _ in columns), "#MEMBERS")
    yield line % (description.group_id, coordinator, *(cell for _, _, cell in columns), len(description.members))


def show_listings(session: Session, listings: Sequence[GroupListing], is_complete: bool) -> ExitStatus:
    """Print the groups of kt share-groups and kt streams-groups --list, with --state their states.

    Returns FAILED unless every broker listed its groups.
    """
    if session.args.json:
        for listing in sorted(listings):
            session.print_json({"group": listing.group_id, "state": listing.state})
    elif session.args.has_option("state"):
        line = f"%-{width(listing.group_id for listing in listings)}s %s"
        for row in [("GROUP", "STATE"), *((listing.group_id, listing.state) for listing in listings)]:
            session.console.print(line % row)
    else:
        for listing in listings:
            session.console.print(listing.group_id)
    return ExitStatus.OK if is_complete else ExitStatus.FAILED
