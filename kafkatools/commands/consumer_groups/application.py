"""The steps of kt streams-application-reset: members, offsets, internal topics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from kafkatools.commands.consumer_groups.reset import goal_of, reset_timestamp
from kafkatools.commands.consumer_groups.session import Session
from kafkatools.commands.consumer_groups.streams_groups.internal_topics import (
    delete_internal_topics,
    is_internal_topic,
)
from kafkatools.console import Console
from kafkatools.core.admin.group_offsets import GroupOffsets, TopicPartition, fetch_offsets
from kafkatools.core.admin.groups import (
    SHARE,
    STREAMS,
    MemberDescription,
    describe_groups,
    list_groups,
    remove_members,
)
from kafkatools.core.admin.offsets import LATEST, list_offsets
from kafkatools.core.admin.topics import list_topics
from kafkatools.core.errors import KafkaError
from kafkatools.core.group.metadata import OffsetAndMetadata
from kafkatools.core.java.hash_order import hash_order
from kafkatools.exit_status import CommandError, ExitStatus
from kafkatools.options import Args
from kafkatools.tools.groups.offset_changes import GroupPlan, change_offsets, save_previous
from kafkatools.tools.groups.plan_file import PlanFile
from kafkatools.tools.groups.targets import Goal, Reset, Targets, TopicScope, require_partitions

_REMOVAL_REASON = "member was removed by an admin"


class Request(NamedTuple):
    """The command line of kt streams-application-reset. `amount` is the offset for Goal.OFFSET and the difference for
    Goal.SHIFT."""

    application_id: str
    input_topics: tuple[str, ...]
    intermediate_topics: tuple[str, ...]
    internal_topics: tuple[str, ...]
    goal: Goal
    amount: int
    timestamp: int | None
    plan: PlanFile | None
    is_dry_run: bool


class _Offsets(NamedTuple):
    """The new offsets by partition: of input topics, and of intermediate topics."""

    inputs: dict[TopicPartition, OffsetAndMetadata]
    intermediates: dict[TopicPartition, OffsetAndMetadata]


def parse(console: Console, args: Args) -> Request:
    """Parse the options and the file of --from-file. Raises UsageError and CommandError."""
    timestamp = reset_timestamp(console, args)
    plan = None
    if args.from_file is not None:
        from kafkatools.tools.groups.plan_file import read_plan

        plan = read_plan(args.from_file, (args.application_id,))
    goal, amount = _goal(args)
    return Request(
        args.application_id,
        _names(args.input_topics),
        _names(args.intermediate_topics),
        _names(args.internal_topics),
        goal,
        amount,
        timestamp,
        plan,
        args.dry_run,
    )


def _goal(args: Args) -> tuple[Goal, int]:
    options = ("from-file", "shift-by", "to-offset", "to-latest", "to-datetime", "by-duration")
    if not any(args.has_option(name) for name in options):
        return Goal.EARLIEST, 0
    return goal_of(args)


def _names(values: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for value in values for name in value.split(",") if name)


def reset(session: Session, request: Request) -> ExitStatus:
    """Carry out a reset, or print what it would change (StreamsResetter.execute)."""
    if request.intermediate_topics:
        session.console.note("WARN: `--intermediate-topics` is deprecated and will be removed in a future release")
    members = _members_to_remove(session, request.application_id)
    listings = list_topics(session.admin)
    names = {listing.name for listing in listings}
    visible = hash_order(listing.name for listing in listings if not listing.is_internal)
    doomed = _without_others(session, request, _topics_to_delete(request, visible))
    missing = [name for name in dict.fromkeys(request.input_topics + request.intermediate_topics) if name not in names]
    offsets = _new_offsets(session, request, names)
    _save_previous(session, request, offsets)
    members_are_gone = not members or _remove_members(session, request, members)
    if request.is_dry_run:
        _print(session, "----Dry run displays the actions which will be performed when running Streams Reset Tool----")
    is_committed = _reset_offsets(session, request, offsets, missing)
    is_deleted = _delete(session, request, doomed)
    return ExitStatus.OK if members_are_gone and is_committed and is_deleted and not missing else ExitStatus.FAILED


def _print(session: Session, line: str) -> None:
    if not session.args.json:
        session.console.print(line)


# -- members --


def _members_to_remove(session: Session, group_id: str) -> Sequence[MemberDescription]:
    """Return the members of the group. Raises CommandError for members without --force, members of a streams group, and
    a share group."""
    description = describe_groups(session.admin, [group_id])[group_id]
    if description.error is not None and description.error.name != "GROUP_ID_NOT_FOUND":
        raise description.error
    if description.error is not None:
        _ensure_no_other_members(session, group_id)
    members = description.members if description.error is None else ()
    names = ", ".join(f"{one.member_id} (client.id {one.client_id}, host {one.host})" for one in members)
    if members and not session.args.force:
        raise CommandError(
            f"Consumer group '{group_id}' is still active and has following members: [{names}]. Make sure to stop all "
            "running application instances before running the reset tool. You can use option '--force' to remove "
            "active members from the group."
        )
    return members


def _remove_members(session: Session, request: Request, members: Sequence[MemberDescription]) -> bool:
    """Remove members from the group; with --dry-run only print it. Returns False if one could not be removed, which is
    printed."""
    group_id = request.application_id
    if request.is_dry_run:
        _print(session, f"Would delete all active members in the group: {group_id}")
        outcomes = {}
    else:
        _print(session, f"Force deleting all active members in the group: {group_id}")
        outcomes = remove_members(session.admin, group_id, members, _REMOVAL_REASON)
    for member in members:
        error = outcomes.get(member.member_id)
        if error is not None:
            session.complain(f"ERROR: removing member {member.member_id}: {error}", error.name, group=group_id)
        elif session.args.json:
            session.print_json({"group": group_id, "member": member.member_id, "removed": not request.is_dry_run})
    return not any(outcomes.values())


def _ensure_no_other_members(session: Session, group_id: str) -> None:
    """Raise CommandError for a share group, and for a streams group with members, which LeaveGroup cannot remove."""
    kinds = {listing.group_id: listing.type for listing in list_groups(session.admin).groups}
    kind = kinds.get(group_id, "")
    if kind == SHARE:
        raise CommandError(f"Group '{group_id}' is a share group, not that of a Kafka Streams application")
    if kind != STREAMS:
        return
    from kafkatools.core.admin.streams_groups import describe_streams_groups

    members = describe_streams_groups(session.admin, [group_id])[group_id].members
    if members:
        names = ", ".join(f"{one.member_id} (client.id {one.client_id}, host {one.host})" for one in members)
        raise CommandError(
            f"Streams group '{group_id}' is still active and has following members: [{names}]. Make sure to stop all "
            "running application instances before running the reset tool.",
            hint="--force cannot remove members of a streams group (group.protocol=streams); those of stopped "
            "instances leave by themselves, at the latest when their sessions time out.",
        )


# -- offsets --


def _new_offsets(session: Session, request: Request, names: Iterable[str]) -> _Offsets:
    """Compute the new offsets of existing topics. A topic that is named as input and intermediate is an input."""
    inputs = [name for name in dict.fromkeys(request.input_topics) if name in names]
    ends = [name for name in dict.fromkeys(request.intermediate_topics) if name in names and name not in inputs]
    group_id = request.application_id
    input_partitions = require_partitions(session.admin, TopicScope(tuple(inputs), ()))
    end_partitions = require_partitions(session.admin, TopicScope(tuple(ends), ()))
    if request.plan is not None and input_partitions:
        _check_plan(request.plan, group_id, input_partitions)
    committed: dict[str, GroupOffsets] = {}
    if request.goal is Goal.SHIFT and input_partitions:
        committed[group_id] = _positions(session, group_id, input_partitions)
    inputs_reset = Reset(None, request.plan, request.timestamp, request.goal, request.amount)
    return _Offsets(
        _targets(session, inputs_reset, group_id, input_partitions, committed),
        _targets(session, Reset(None, None, None, Goal.LATEST), group_id, end_partitions, {}),
    )


def _targets(
    session: Session,
    reset: Reset,
    group_id: str,
    partitions: Sequence[TopicPartition],
    committed: Mapping[str, GroupOffsets],
) -> dict[TopicPartition, OffsetAndMetadata]:
    if not partitions:
        return {}
    targets = Targets(session.admin, reset, {group_id: partitions}, committed, session.console.note)
    return {key: offset for key, offset in targets.of_group(group_id).items() if offset is not None}


def _check_plan(plan: PlanFile, group_id: str, partitions: Sequence[TopicPartition]) -> None:
    """Raise CommandError unless the file has an offset for each partition of the input topics and for no other."""
    offsets = plan.of_group(group_id)
    for topic, partition in partitions:
        line = offsets.get((topic, partition))
        if line is None or line.offset is None:
            raise CommandError(f"{plan.path} has no offset for {topic}-{partition}, a partition of an input topic")
    for key, line in offsets.items():
        if key not in partitions:
            raise CommandError(
                f"{plan.path}, line {line.number}: {key[0]}-{key[1]} is not a partition of an input topic"
            )


def _positions(session: Session, group_id: str, partitions: Sequence[TopicPartition]) -> GroupOffsets:
    """Return the committed offsets, or the end of the log for partitions without one, as a consumer would start.
    Raises KafkaError."""
    committed = fetch_offsets(session.admin, [group_id])[group_id]
    is_missing = committed.error is not None and committed.error.name == "GROUP_ID_NOT_FOUND"
    if committed.error is not None and not is_missing:
        raise committed.error
    for error in committed.errors.values():
        raise error
    positions = dict(committed.offsets)
    fresh = [key for key in partitions if key not in positions]
    for key, end in list_offsets(session.admin, dict.fromkeys(fresh, LATEST)).items() if fresh else ():
        if end.error is not None:
            raise end.error
        positions[key] = OffsetAndMetadata(end.offset)
    return committed._replace(offsets=positions, error=None)


def _plan(request: Request, offsets: _Offsets) -> GroupPlan:
    return GroupPlan(request.application_id, {**offsets.inputs, **offsets.intermediates})


def _save_previous(session: Session, request: Request, offsets: _Offsets) -> None:
    """Write the committed offsets that the reset changes to --undo-file. Does nothing without the option, without new
    offsets and with --dry-run. Raises CommandError and KafkaError."""
    plan = _plan(request, offsets)
    if session.args.undo_file is not None and plan.offsets and not request.is_dry_run:
        save_previous(session.admin, [plan], session.args.undo_file, session.console.clock.wall_ms())


def _reset_offsets(session: Session, request: Request, offsets: _Offsets, missing: Sequence[str]) -> bool:
    """Print and commit the new offsets. Returns False if a commit failed, which is printed."""
    if not request.input_topics and not request.intermediate_topics:
        _print(session, "No input or intermediate topics specified. Skipping seek.")
        return True
    if request.input_topics:
        _print(session, f"Reset-offsets for input topics [{', '.join(request.input_topics)}]")
    if request.intermediate_topics:
        _print(session, f"Seek-to-end for intermediate topics [{', '.join(request.intermediate_topics)}]")
    for name in missing:
        kind = "input" if name in request.input_topics else "intermediate"
        session.complain(f"ERROR: The {kind} topic {name} was not found", "UNKNOWN_TOPIC_OR_PARTITION", topic=name)
    if not offsets.inputs and not offsets.intermediates:
        return True
    _show_offsets(session, request, offsets)
    failed = {} if request.is_dry_run else _commit(session, request, offsets)
    if session.args.json:
        _print_offset_rows(session, request, offsets, failed)
    if not failed:
        _print(session, "Done.")
    return not failed


def _show_offsets(session: Session, request: Request, offsets: _Offsets) -> None:
    group = f"(for consumer group {request.application_id})"
    if offsets.inputs:
        _print(session, f"Following input topics offsets will be reset to {group}")
    for (topic, partition), offset in offsets.inputs.items():
        _print(session, f"Topic: {topic} Partition: {partition} Offset: {offset.offset}")
    if offsets.intermediates:
        _print(session, f"Following intermediate topics offsets will be reset to end {group}")
    for topic, _ in offsets.intermediates:
        _print(session, f"Topic: {topic}")


def _print_offset_rows(
    session: Session, request: Request, offsets: _Offsets, failed: Mapping[TopicPartition, KafkaError]
) -> None:
    for kind, new in (("input", offsets.inputs), ("intermediate", offsets.intermediates)):
        for (topic, partition), offset in new.items():
            if (topic, partition) not in failed:
                place = {"group": request.application_id, "topic": topic, "partition": partition, "kind": kind}
                session.print_json({**place, "offset": offset.offset, "executed": not request.is_dry_run})


def _commit(session: Session, request: Request, offsets: _Offsets) -> Mapping[TopicPartition, KafkaError]:
    """Commit the offsets. Prints and returns the errors by partition."""
    change = change_offsets(session.admin, [_plan(request, offsets)])[0]
    if change.error is not None:
        raise change.error
    for (topic, partition), error in change.errors.items():
        session.complain(f"ERROR: {topic}-{partition}: {error}", error.name, topic=topic, partition=partition)
    return change.errors


# -- internal topics --


def _topics_to_delete(request: Request, names: Iterable[str]) -> list[str]:
    """Return the internal topics to delete. Raises CommandError for a topic of --internal-topics that is none."""
    own = (*request.input_topics, *request.intermediate_topics)
    inferred = [name for name in names if name not in own and is_internal_topic(name, request.application_id)]
    wrong = [name for name in request.internal_topics if name not in inferred]
    if wrong:
        raise CommandError(
            "Invalid topic specified in the --internal-topics option. Ensure that the topics specified are all "
            "internal topics. Do a dry run without the --internal-topics option to see the list of all internal topics "
            "that can be deleted.",
            hint=f"Not an internal topic of {request.application_id}: {', '.join(wrong)}",
        )
    return list(dict.fromkeys(request.internal_topics)) or inferred


def _without_others(session: Session, request: Request, topics: Sequence[str]) -> list[str]:
    """Return the topics without those that may belong to another application: its id is a group of the cluster and
    begins with this application's id and a hyphen. These are printed. Named topics all stay. Raises CommandError if a
    broker does not list its groups: topics of an application among them would be deleted. Raises KafkaError."""
    if request.internal_topics or not topics:
        return list(topics)
    prefix = f"{request.application_id}-"
    groups, is_complete = session.groups_in_order(list_groups(session.admin))
    if not is_complete:
        raise CommandError(
            "Without all groups it is unknown which internal topics belong to other applications. Nothing was changed",
            hint="Run the same command again when all brokers answer, or name the topics with --internal-topics.",
        )
    others = [one.group_id for one in groups if one.group_id.startswith(prefix)]
    owners = {topic: group for group in sorted(others) for topic in topics if is_internal_topic(topic, group)}
    for topic, group in owners.items():
        session.console.note(
            f"{topic} is kept: it may belong to the application {group}. To delete it, name it with --internal-topics"
        )
    return [topic for topic in topics if topic not in owners]


def _delete(session: Session, request: Request, topics: Sequence[str]) -> bool:
    """Print and delete the internal topics. Returns False if one could not be deleted, which is printed."""
    kind = "specified" if request.internal_topics else "inferred"
    _print(session, f"Deleting {kind} internal topics [{', '.join(topics)}]")
    failed = {} if request.is_dry_run else delete_internal_topics(session, topics)
    for topic, error in failed.items():
        session.complain(f"ERROR: deleting topic {topic}: {error}", error.name, topic=topic)
    if session.args.json:
        for topic in topics:
            if topic not in failed:
                session.print_json({"topic": topic, "internal": True, "deleted": not request.is_dry_run})
    if not failed:
        _print(session, "Done.")
    return not failed
