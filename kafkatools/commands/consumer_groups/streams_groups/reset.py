"""kt streams-groups --reset-offsets (StreamsGroupCommand.resetOffsets).

Order: parse the command line and files, compute the new offsets of all groups, write the undo file, commit, delete
internal topics. A group with members is refused; the other groups are reset.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence

from kafkatools.commands.consumer_groups.reset import (
    commit_plans,
    goal_of,
    offset_rows,
    print_offset_json,
    reset_timestamp,
    target_plans,
    topic_scope,
)
from kafkatools.commands.consumer_groups.session import Session, requested_groups, streams_groups
from kafkatools.commands.consumer_groups.streams_groups.describe import committed_offsets
from kafkatools.commands.consumer_groups.streams_groups.internal_topics import delete_internal_topics, internal_topics
from kafkatools.console import Console
from kafkatools.core.admin.group_offsets import GroupOffsets, TopicPartition
from kafkatools.core.admin.streams_groups import StreamsGroupDescription, describe_streams_groups
from kafkatools.core.errors import KafkaError
from kafkatools.exit_status import ExitStatus
from kafkatools.options import Args
from kafkatools.tools.groups.offset_changes import GroupPlan
from kafkatools.tools.groups.plan_file import csv_line, undo_lines
from kafkatools.tools.groups.targets import Reset, Targets, require_partitions
from kafkatools.tools.undo_files import write_undo_file

_INACTIVE = ("Empty", "Dead")


def prepare_reset(console: Console, args: Args) -> Callable[[Session], ExitStatus]:
    """Parse the options of --reset-offsets and the file of --from-file; return the action for a Session. Raises
    UsageError and CommandError."""
    scope = topic_scope(args.input_topic, args.command.error_prefix) if args.input_topic else None
    timestamp = reset_timestamp(console, args)
    plan = None
    if args.from_file is not None:
        from kafkatools.tools.groups.plan_file import read_plan

        plan = read_plan(args.from_file, None if args.all_groups else args.group)
    return lambda session: _reset(session, Reset(scope, plan, timestamp, *goal_of(args)))


def _reset(session: Session, reset: Reset) -> ExitStatus:
    args = session.args
    names, is_complete = requested_groups(session, "", streams_groups)
    descriptions = describe_streams_groups(session.admin, names)
    inactive = [description for description in descriptions.values() if _may_reset(session, description)]
    plans = _plans(session, reset, inactive)
    is_good = is_complete and len(inactive) == len(names) and len(plans) == len(inactive)
    if args.execute:
        changed = _carry_out(session, plans)
        is_good = is_good and changed == plans
        plans = changed
        done = {plan.group_id for plan in plans}
        for description in inactive:
            if description.group_id in done:
                is_good = _delete_topics(session, description) and is_good
    _show(session, bool(names), plans)
    return ExitStatus.OK if is_good else ExitStatus.FAILED


def _may_reset(session: Session, description: StreamsGroupDescription) -> bool:
    name, error = description.group_id, description.error
    if error is not None:
        session.complain_of_group(name, error)
        return False
    if description.state in _INACTIVE:
        return True
    message = (
        f"Error: Assignments can only be reset if the group '{name}' is inactive, but the current state is "
        f"{description.state}."
    )
    members = [member.member_id for member in description.members]
    session.complain(message, "NON_EMPTY_GROUP", group=name, members=members)
    return False


# -- the plan --


def _plans(session: Session, reset: Reset, groups: Sequence[StreamsGroupDescription]) -> list[GroupPlan]:
    """Compute the new offsets of each group. Groups that fail are printed and left out."""
    committed: dict[str, GroupOffsets] = {}
    requested: dict[str, Collection[TopicPartition]] = {}
    scope_partitions = require_partitions(session.admin, reset.scope) if reset.scope is not None else None
    for description in groups:
        name = description.group_id
        try:
            committed[name] = committed_offsets(session, name)
        except KafkaError as error:
            session.complain_of_group(name, error)
            continue
        if reset.plan is not None:
            requested[name] = reset.plan.of_group(name)
        elif scope_partitions is None:
            requested[name] = [key for key in committed[name].offsets if key[0] in description.source_topics]
        elif all(key in committed[name].offsets for key in scope_partitions):
            requested[name] = scope_partitions
        else:
            missing = next(key for key in scope_partitions if key not in committed[name].offsets)
            session.complain(
                f"Error: One or more topics are not part of the group '{name}'. It has no committed offset of "
                f"{missing[0]}-{missing[1]}.",
                group=name,
            )
    return target_plans(session, requested, Targets(session.admin, reset, requested, committed, session.console.note))


# -- execution --


def _carry_out(session: Session, plans: Sequence[GroupPlan]) -> list[GroupPlan]:
    """Save the previous offsets in --undo-file, then commit the new ones. Returns the plans of groups that succeeded,
    without the partitions that failed. Failures are printed. Raises CommandError."""
    path = session.args.undo_file
    if path is not None and any(plan.offsets for plan in plans):
        before = {}
        for plan in plans:
            previous = committed_offsets(session, plan.group_id).offsets
            before[plan.group_id] = {key: previous.get(key) for key in plan.offsets}
        write_undo_file(path, undo_lines(path, before))
    return [group.plan for group in commit_plans(session, plans) if group.error is None]


def _delete_topics(session: Session, description: StreamsGroupDescription) -> bool:
    args = session.args
    topics = internal_topics(session, description) if args.delete_all_internal_topics else args.delete_internal_topic
    failed = delete_internal_topics(session, list(dict.fromkeys(topics)))
    for topic, error in failed.items():
        session.complain(
            f"Error: Deleting internal topic {topic} of group '{description.group_id}' failed: {error}",
            error.name,
            group=description.group_id,
            topic=topic,
        )
    return not failed


# -- output --


def _show(session: Session, has_groups: bool, plans: Sequence[GroupPlan]) -> None:
    args, console, rows = session.args, session.console, offset_rows(plans)
    if args.json:
        print_offset_json(session, rows)
        return
    if args.export:
        for group_id, key, offset in rows:
            console.print(csv_line(None if len(args.group) == 1 else group_id, key, offset))
        console.print()
        return
    line = "%-30s %-30s %-10s %-15s"
    console.print()
    if has_groups:
        console.print(line % ("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET"))
    for group_id, (topic, partition), offset in rows:
        console.print(line % (group_id, topic, partition, "none" if offset is None else offset))
