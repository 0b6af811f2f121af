"""kt share-groups --delete, --reset-offsets and --delete-offsets (ShareGroupCommand).

Order: parse the command line and files, compute the new offsets, write the undo file, change offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from kafkatools.commands.consumer_groups.deleted_offsets import GROUP_ERRORS
from kafkatools.commands.consumer_groups.reset import (
    complain_of_partitions,
    goal_of,
    offset_rows,
    print_offset_json,
    print_offsets,
    topic_scope,
)
from kafkatools.commands.consumer_groups.session import (
    Session,
    deletable_groups,
    delete_deletable,
    share_groups,
    show_deletions,
)
from kafkatools.core.admin.group_offsets import GroupOffsets
from kafkatools.core.admin.groups import describe_share_groups
from kafkatools.core.admin.share_groups import (
    NO_START,
    ShareOffsets,
    TopicPartition,
    alter_share_group_offsets,
    delete_share_group_offsets,
    list_share_group_offsets,
)
from kafkatools.core.errors import NonEmptyGroup
from kafkatools.core.group.metadata import OffsetAndMetadata
from kafkatools.exit_status import ExitStatus, UsageError
from kafkatools.options import Args
from kafkatools.tools.groups.offset_changes import GroupPlan
from kafkatools.tools.groups.plan_file import csv_line, undo_lines
from kafkatools.tools.groups.targets import Goal, Reset, Targets, require_partitions
from kafkatools.tools.groups.times import DATETIME_FORM, parse_datetime
from kafkatools.tools.undo_files import write_undo_file

_INACTIVE = ("Empty", "Dead")


def prepare_reset(args: Args) -> Callable[[Session], ExitStatus]:
    """Parse the options of --reset-offsets and the file of --from-file; return the action for a Session.

    Raises UsageError and CommandError.
    """
    timestamp = plan = None
    if args.to_datetime is not None:
        try:
            timestamp = parse_datetime(args.to_datetime)
        except ValueError as error:
            raise UsageError(args.command.error_prefix + str(error), DATETIME_FORM) from None
    if args.from_file is not None:
        from kafkatools.tools.groups.plan_file import read_plan

        plan = read_plan(args.from_file, args.group or None)
    scope = topic_scope(args.topic, args.command.error_prefix) if args.topic else None
    return lambda session: _reset(session, Reset(scope, plan, timestamp, *goal_of(args)))


def _reset(session: Session, reset: Reset) -> ExitStatus:
    names = session.args.group or (reset.plan.group_ids if reset.plan is not None else [])
    descriptions = describe_share_groups(session.admin, dict.fromkeys(names))
    inactive = []
    for name, description in descriptions.items():
        error = description.error
        if error is not None and error.name != "GROUP_ID_NOT_FOUND":
            session.complain_of_group(name, error)
        elif error is None and description.state not in _INACTIVE:
            members = [member.member_id for member in description.members]
            session.complain(f"Share group '{name}' is not empty.", "NON_EMPTY_GROUP", group=name, members=members)
        else:
            inactive.append(name)
    plans = _plan(session, reset, inactive)
    applied_plans = plans
    if session.args.execute:
        _note_offsets(session, {plan.group_id: plan.offsets for plan in plans})
        applied_plans = [_carry_out(session, plan) for plan in plans]
    _show(session, [plan for plan in applied_plans if plan.offsets])
    is_good = len(inactive) == len(descriptions) and applied_plans == plans
    return ExitStatus.OK if is_good else ExitStatus.FAILED


def _plan(session: Session, reset: Reset, names: Sequence[str]) -> list[GroupPlan]:
    """Compute the new start offsets of each group. Raises KafkaError or CommandError."""
    begins: Mapping[str, ShareOffsets] = {}
    if reset.plan is None and (reset.scope is None or reset.goal is Goal.CURRENT):
        begins = _share_offsets(session, names)
    requested: dict[str, Collection[TopicPartition]] = {name: begins[name].offsets for name in names if name in begins}
    if reset.plan is not None:
        requested = {name: reset.plan.of_group(name) for name in names}
    elif reset.scope is not None:
        requested = dict.fromkeys(names, require_partitions(session.admin, reset.scope))
    committed = {name: _as_committed(share_offsets) for name, share_offsets in begins.items()}
    targets = Targets(session.admin, reset, requested, committed, session.console.note)
    return [GroupPlan(name, targets.of_group(name)) for name in names]


def _share_offsets(session: Session, names: Sequence[str]) -> dict[str, ShareOffsets]:
    """Fetch the start offsets of groups. Raises the first KafkaError, except for a group that does not exist."""
    offsets_by_group = list_share_group_offsets(session.admin, names)
    for group_offsets in offsets_by_group.values():
        error = group_offsets.error or next(iter(group_offsets.errors.values()), None)
        if error is not None and error.name != "GROUP_ID_NOT_FOUND":
            raise error
    return offsets_by_group


def _as_committed(share_offsets: ShareOffsets) -> GroupOffsets:
    start_offsets = {
        key: share_offset.start_offset
        for key, share_offset in share_offsets.offsets.items()
        if share_offset.start_offset is not None
    }
    return GroupOffsets({key: OffsetAndMetadata(offset) for key, offset in start_offsets.items()}, {})


def _note_offsets(session: Session, requested: Mapping[str, Collection[TopicPartition] | None]) -> None:
    """Save start offsets of these groups and partitions (None: all) in --undo-file. Does nothing without that option or
    without groups. Raises CommandError, KafkaError."""
    path = session.args.undo_file
    if path is None or not requested:
        return
    before: dict[str, Mapping[TopicPartition, OffsetAndMetadata | None]] = {}
    for name, share_offsets in _share_offsets(session, list(requested)).items():
        start_offsets = _as_committed(share_offsets).offsets
        keys = requested[name]
        before[name] = {key: start_offsets.get(key) for key in (share_offsets.offsets if keys is None else keys)}
    write_undo_file(path, undo_lines(path, before))


def _carry_out(session: Session, plan: GroupPlan) -> GroupPlan:
    """Set the start offsets of a group. Returns the plan without the partitions that failed, which are printed."""
    if not plan.offsets:
        return plan
    new = {key: NO_START if offset is None else offset.offset for key, offset in plan.offsets.items()}
    result = alter_share_group_offsets(session.admin, plan.group_id, new)
    if result.error is not None:
        session.complain_of_group(plan.group_id, result.error)
        return plan._replace(offsets={})
    complain_of_partitions(session, plan.group_id, result.errors)
    return plan._replace(offsets={key: value for key, value in plan.offsets.items() if key not in result.errors})


def _show(session: Session, plans: Sequence[GroupPlan]) -> None:
    rows = offset_rows(plans)
    if session.args.json:
        print_offset_json(session, rows)
    for group_id, key, offset in rows if session.args.export and not session.args.json else ():
        session.console.print(csv_line(group_id if len(plans) > 1 else None, key, offset))
    if not session.args.json and not session.args.export:
        print_offsets(session.console, [row[0] for row in rows], rows)


# -- delete offsets --


def delete_offsets(session: Session) -> ExitStatus:
    """Delete the offsets of a share group for topics, or print the topics with --dry-run
    (ShareGroupCommand.deleteOffsets). Returns FAILED if a topic failed."""
    group_id = session.args.group[0]
    topics = list(dict.fromkeys(session.args.topic))
    if session.args.dry_run:
        return _show_deletable_topics(session, group_id, topics)
    if session.args.undo_file is not None:
        offsets = _share_offsets(session, [group_id])[group_id].offsets
        _note_offsets(session, {group_id: [key for key in offsets if key[0] in topics]})
    result = delete_share_group_offsets(session.admin, group_id, topics)
    outcome = {topic: result.error or result.errors.get(topic) for topic in sorted(topics)}
    if session.args.json:
        for topic, error in outcome.items():
            row = {"group": group_id, "topic": topic, "deleted": error is None}
            session.print_json({**row, "error": None if error is None else str(error)})
        return ExitStatus.FAILED if any(outcome.values()) else ExitStatus.OK
    if result.error is not None:
        is_group_error = result.error.name in GROUP_ERRORS
        session.console.error(f"Error: {'' if is_group_error else 'Encounter some unknown error: '}{result.error}")
    line = f"%-{max([15, *map(len, topics)])}s %s"
    session.console.print()
    session.console.print(line % ("TOPIC", "STATUS"))
    for topic, error in outcome.items():
        session.console.print(line % (topic, "Successful" if error is None else f"Error: {error}"))
        if error is not None and result.error is None:
            session.console.error(f"Error: topic {topic}: {error}")
    return ExitStatus.FAILED if any(outcome.values()) else ExitStatus.OK


def _show_deletable_topics(session: Session, group_id: str, topics: Sequence[str]) -> ExitStatus:
    description = describe_share_groups(session.admin, [group_id])[group_id]
    error = description.error
    if error is None and description.state not in _INACTIVE:
        error = NonEmptyGroup()
    if error is not None:
        session.complain_of_group(group_id, error)
        return ExitStatus.FAILED
    present_topics = {topic for topic, _ in _share_offsets(session, [group_id])[group_id].offsets}
    for topic in (name for name in topics if name in present_topics):
        row = {"group": group_id, "topic": topic, "deleted": False, "error": None}
        session.console.print(f"The offsets of group '{group_id}' for topic {topic} would be deleted.", row)
    if not present_topics.intersection(topics) and not session.args.json:
        session.console.note("Nothing would change.")
    return ExitStatus.OK


# -- delete groups --


def delete(session: Session) -> ExitStatus:
    """Delete share groups without members, after saving their offsets in --undo-file; with --dry-run only print them.
    Returns FAILED when a group was not deleted or a broker did not list its groups."""
    names, refused, is_complete = deletable_groups(
        session, "Share", share_groups(session), "Group '{}' is not a share group."
    )
    if session.args.dry_run:
        return max(show_deletions(session, names, refused), ExitStatus.OK if is_complete else ExitStatus.FAILED)
    _note_offsets(session, {name: None for name in names if name not in refused})
    failed = delete_deletable(session, "share", names, refused)
    return ExitStatus.FAILED if failed or not is_complete else ExitStatus.OK
