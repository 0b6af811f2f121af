"""kt consumer-groups --reset-offsets and --delete-offsets (ConsumerGroupCommand.resetOffsets, OffsetsUtils).

Order: parse the command line and files, compute the new offsets of all groups, write the undo file, change offsets. A
group with members is refused with Kafka's message and the list of its members; the other groups are reset.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple

from kafkatools.commands.consumer_groups.deleted_offsets import complain_of_topics, delete_committed
from kafkatools.commands.consumer_groups.deletion import note_offsets, show_deletable_offsets
from kafkatools.commands.consumer_groups.session import Session, requested_groups
from kafkatools.commands.consumer_groups.tables import assignment_text
from kafkatools.console import Console
from kafkatools.core.admin.group_offsets import GroupOffsets, TopicPartition, fetch_offsets
from kafkatools.core.admin.groups import SHARE, STREAMS, GroupDescription, describe_groups, list_groups
from kafkatools.core.errors import KafkaError
from kafkatools.core.group.metadata import OffsetAndMetadata
from kafkatools.core.java.hash_order import hash_order
from kafkatools.exit_status import CommandError, ExitStatus, UsageError
from kafkatools.options import Args, java_int
from kafkatools.options.quantities import DURATION_FORM, duration_ms
from kafkatools.tools.groups.offset_changes import GroupChange, GroupPlan, change_offsets, save_previous
from kafkatools.tools.groups.plan_file import NO_OFFSET, csv_line, plan_json
from kafkatools.tools.groups.targets import Goal, Reset, Targets, TopicScope, partitions_of, require_partitions
from kafkatools.tools.groups.times import DATETIME_FORM, parse_datetime, parse_duration

_DRY_RUN = (
    "WARN: No action will be performed as the --execute option is missing. In version 5.0, this command will require "
    "either --dry-run or --execute to be specified. You should add the --dry-run option explicitly if you are "
    "scripting this command and want to keep the current default behavior without prompting."
)
_INACTIVE = ("Empty", "Dead")


def goal_of(args: Args) -> tuple[Goal, int]:
    """Return the target of --reset-offsets and its number: the value of --to-offset or --shift-by, else 0."""
    if args.from_file is not None:
        return Goal.PLAN, 0
    if args.has_option("to-current"):
        return Goal.CURRENT, 0
    if args.has_option("shift-by"):
        return Goal.SHIFT, args.shift_by
    if args.has_option("to-offset"):
        return Goal.OFFSET, args.to_offset
    if args.to_earliest:
        return Goal.EARLIEST, 0
    return (Goal.LATEST if args.to_latest else Goal.TIME), 0


def topic_scope(arguments: Iterable[str], prefix: str = "") -> TopicScope:
    """Parse the values of --topic: `orders` or `orders:0,1`. Raises UsageError with the messages of OffsetsUtils."""
    topics: list[str] = []
    partitions: list[TopicPartition] = []
    for argument in arguments:
        if ":" not in argument:
            topics.append(argument)
            continue
        parts = argument.rstrip(":").split(":")
        if len(parts) != 2:
            raise UsageError(f"{prefix}Invalid topic arg '{argument}', expected topic name and partitions")
        for text in parts[1].split(","):
            try:
                partitions.append((parts[0], java_int(text)))
            except ValueError:
                raise UsageError(f"{prefix}Invalid partition '{text}' specified in topic arg '{argument}''") from None
    return TopicScope(tuple(dict.fromkeys(topics)), tuple(dict.fromkeys(partitions)))


# -- reset --


def prepare_reset(console: Console, args: Args) -> Callable[[Session], ExitStatus]:
    """Parse the options of --reset-offsets and the file of --from-file; return the action for a Session. Without
    --dry-run and --execute it prints Kafka's warning.

    Raises UsageError and CommandError.
    """
    scope = topic_scope(args.topic) if args.topic else None
    timestamp = reset_timestamp(console, args)
    plan = None
    if args.from_file is not None:
        from kafkatools.tools.groups.plan_file import read_plan

        plan = read_plan(args.from_file, None if args.all_groups else args.group)
    if not args.dry_run and not args.execute:
        console.note(_DRY_RUN)
    return lambda session: _reset(session, Reset(scope, plan, timestamp, *goal_of(args)))


def reset_timestamp(console: Console, args: Args) -> int | None:
    """Return the time of --to-datetime or --by-duration in ms since 1970; None without them. Raises UsageError."""
    try:
        if args.to_datetime is not None:
            return parse_datetime(args.to_datetime)
        if args.by_duration is not None:
            elapsed_ms = duration_ms(args.by_duration)
            return console.clock.wall_ms() - (parse_duration(args.by_duration) if elapsed_ms is None else elapsed_ms)
    except ValueError as error:
        hint = DATETIME_FORM if args.by_duration is None else f"Write a duration like PT2H or 2h: {DURATION_FORM}."
        raise UsageError(args.command.error_prefix + str(error), hint) from None
    return None


def _reset(session: Session, reset: Reset) -> ExitStatus:
    args = session.args
    is_complete = True
    if reset.plan is not None and args.all_groups:
        names = reset.plan.group_ids
    else:
        names, is_complete = requested_groups(session, "Resetting" if args.execute else "")
    ordered = hash_order(names)
    descriptions = describe_groups(session.admin, ordered)
    inactive = [name for name in ordered if _may_reset(session, descriptions[name])]
    plans, is_planned = _plan(session, reset, inactive)
    is_done = True
    if args.execute:
        plans, is_done = _carry_out(session, plans)
    if not args.execute:
        _report_missing(session, [plan for plan in plans if descriptions[plan.group_id].error is not None])
    described = [name for name in ordered if name in inactive or descriptions[name].error is None]
    if described or not ordered:
        _show(session, described, plans)
    is_good = is_complete and is_planned and is_done and len(inactive) == len(ordered)
    return ExitStatus.OK if is_good else ExitStatus.FAILED


def _carry_out(session: Session, plans: Sequence[GroupPlan]) -> tuple[list[GroupPlan], bool]:
    """Save the previous offsets in the undo file and commit the new ones. Raises CommandError.

    Returns the plans without the partitions that failed, and whether every partition succeeded. Failures are printed.
    """
    args = session.args
    changing = [plan for plan in plans if plan.offsets]
    if changing and not args.no_undo_file:
        hint = "Name another one with --undo-file, or do without it with --no-undo-file."
        path = save_previous(session.admin, changing, args.undo_file, session.console.clock.wall_ms(), hint)
        command = _restoring_command(args, changing, path)
        line = f"The previous offsets are saved in {path}. To restore them: {command}"
        session.console.note(line, {"undo_file": path})
    changed = commit_plans(session, plans)
    return [group.plan for group in changed], all(group.is_complete for group in changed)


def commit_plans(session: Session, plans: Sequence[GroupPlan]) -> list[GroupChange]:
    """Commit the new offsets of all groups. Returns the outcome of each plan; its errors are printed. Raises KafkaError
    if a request as a whole fails."""
    changed = change_offsets(session.admin, plans)
    for group in changed:
        complain_of_partitions(session, group.plan.group_id, group.errors)
        if group.error is not None:
            session.complain_of_group(group.plan.group_id, group.error)
    return changed


def complain_of_partitions(session: Session, group_id: str, errors: Mapping[TopicPartition, KafkaError]) -> None:
    """Print the errors of a group's partitions."""
    for (topic, partition), error in errors.items():
        message = f"{session.args.command.error_prefix}group {group_id}, {topic}-{partition}: {error}"
        session.complain(message, error.name, group=group_id, topic=topic, partition=partition)


def _restoring_command(args: Args, plans: Sequence[GroupPlan], path: str) -> str:
    """Return the command line that restores the offsets of an undo file on the same cluster."""
    import shlex

    words = ["kt", *(["--profile", args.profile.name] if args.profile is not None else ()), "consumer-groups"]
    for name, value in (("--bootstrap-server", args.bootstrap_server), ("--command-config", args.command_config)):
        words += [] if value is None else [name, value]
    groups = ["--all-groups"] if args.all_groups else [word for plan in plans for word in ("--group", plan.group_id)]
    return shlex.join([*words, "--reset-offsets", *groups, "--from-file", path, "--execute"])


def _report_missing(session: Session, plans: Iterable[GroupPlan]) -> None:
    for plan in plans:
        outcome = "--execute would create it" if plan.offsets else "there are no offsets to reset"
        session.console.note(f"Group '{plan.group_id}' does not exist: {outcome}")


def _may_reset(session: Session, description: GroupDescription) -> bool:
    """Return whether the group has no members, or does not exist and no share or streams group has its name. Else print
    why it is refused."""
    name = description.group_id
    if description.error is not None and description.error.name != "GROUP_ID_NOT_FOUND":
        session.complain_of_group(name, description.error)
        return False
    if description.error is not None:
        return _is_free_name(session, name)
    if description.state in _INACTIVE:
        return True
    message = (
        f"Error: Assignments can only be reset if the group '{name}' is inactive, but the current state is "
        f"{description.state}."
    )
    members = [member.member_id for member in description.members]
    session.complain(message, "NON_EMPTY_GROUP", group=name, members=members)
    if not session.args.json:
        for member in description.members:
            session.console.error(
                f"  {member.member_id} (client.id {member.client_id}, host {member.host}) is assigned "
                f"{assignment_text(member.assignment)}"
            )
    return False


def _is_free_name(session: Session, name: str) -> bool:
    """Return False, and print an error, if a share or streams group has this name."""
    kind = next((listing.type for listing in list_groups(session.admin).groups if listing.group_id == name), "")
    if kind not in (SHARE, STREAMS):
        return True
    tool = f"kafka-{kind.lower()}-groups.sh"
    session.complain(f"Error: Group '{name}' is a {kind.lower()} group. Use {tool} to reset its offsets.", group=name)
    return False


def _plan(session: Session, reset: Reset, names: Sequence[str]) -> tuple[list[GroupPlan], bool]:
    """Compute the new offsets of each group. Returns the plans, and False if a group failed, which is printed."""
    is_about_committed = reset.scope is None or reset.goal in (Goal.CURRENT, Goal.SHIFT)
    committed: Mapping[str, GroupOffsets] = {}
    if is_about_committed and reset.plan is None:
        committed = fetch_offsets(session.admin, names)
    scope_partitions = require_partitions(session.admin, reset.scope) if reset.scope is not None else None
    requested: dict[str, Collection[TopicPartition]] = {}
    is_good = True
    for name in names:
        offsets = committed.get(name)
        if offsets is not None and (offsets.error is not None or offsets.errors):
            session.complain_of_group(name, offsets.error or next(iter(offsets.errors.values())))
            is_good = False
        elif reset.plan is not None:
            requested[name] = reset.plan.of_group(name)
        else:
            requested[name] = (
                scope_partitions if scope_partitions is not None else offsets.offsets if offsets is not None else ()
            )
    plans = target_plans(session, requested, Targets(session.admin, reset, requested, committed, session.console.note))
    return plans, is_good and len(plans) == len(requested)


def target_plans(session: Session, names: Iterable[str], targets: Targets) -> list[GroupPlan]:
    """Compute the new offsets of each group. Groups that fail are printed and left out. Raises KafkaError."""
    plans = []
    for name in names:
        try:
            plans.append(GroupPlan(name, targets.of_group(name)))
        except CommandError as error:
            session.complain(f"{session.args.command.error_prefix}{error}", group=name)
    return plans


def _show(session: Session, names: Sequence[str], plans: Sequence[GroupPlan]) -> None:
    """Print the new offsets as table, CSV or JSON (OffsetsUtils.printOffsetsToReset, exportOffsetsToCsv).

    With --json or on a terminal a dry run also prints the committed offsets. In a pipe it prints Kafka's table.
    """
    args = session.args
    present = _present(session, plans)
    if args.json:
        for plan in plans:
            for key, new in plan.offsets.items():
                row = {**plan_json(plan.group_id, key, new), "executed": bool(args.execute)}
                if present is not None:
                    current = present.of(plan.group_id, key)
                    difference = None if current is None or new is None else new.offset - current
                    row |= {"current_offset": current, "difference": difference}
                session.print_json(row)
        return
    rows = offset_rows(plans)
    if args.export:
        is_single = len(args.group) == 1
        for group_id, key, offset in rows:
            session.console.print(csv_line(None if is_single else group_id, key, offset))
        session.console.print()
    else:
        print_offsets(session.console, names, rows, present)


OffsetRow = tuple[str, TopicPartition, int | None]
"""Group id, partition and new offset; None for no offset."""


def offset_rows(plans: Iterable[GroupPlan]) -> list[OffsetRow]:
    """Return the new offsets of reset plans as rows (group id, partition, offset or None)."""
    return [
        (plan.group_id, key, None if new is None else new.offset) for plan in plans for key, new in plan.offsets.items()
    ]


def print_offset_json(session: Session, rows: Iterable[OffsetRow]) -> None:
    """Print the new offsets of groups without their committed ones as lines of JSON."""
    for group_id, (topic, partition), offset in rows:
        place = {"group": group_id, "topic": topic, "partition": partition}
        session.print_json({**place, "offset": offset, "executed": bool(session.args.execute)})


def print_offsets(
    console: Console, names: Sequence[str], rows: Sequence[OffsetRow], present: _Present | None = None
) -> None:
    """Print the table of new offsets of these groups, with `present` also the current offsets and the differences."""
    widths = max([15, *map(len, names)]), max([15, *(len(key[0]) for _, key, _ in rows)])
    line = f"%-{widths[0]}s %-{widths[1]}s %-10s %s"
    titles: tuple[str, ...] = ("GROUP", "TOPIC", "PARTITION", "NEW-OFFSET")
    if present is not None:
        line = f"%-{widths[0]}s %-{widths[1]}s %-10s %-14s %-12s %s"
        titles = ("GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "NEW-OFFSET", "DIFFERENCE")
    console.print()
    if names:
        console.print(line % titles)
    for group_id, (topic, partition), offset in rows:
        cells: tuple[object, ...] = (NO_OFFSET if offset is None else offset,)
        if present is not None:
            cells = present.cells(group_id, (topic, partition), cells[0], offset)
        console.print(line % (group_id, topic, partition, *cells))


class _Present(NamedTuple):
    """The committed offsets of groups. A group whose offsets could not be fetched is missing."""

    offsets: Mapping[str, Mapping[TopicPartition, OffsetAndMetadata]]

    def of(self, group_id: str, key: TopicPartition) -> int | None:
        """Return the committed offset of a partition; None without one."""
        offset = self.offsets.get(group_id, {}).get(key)
        return None if offset is None else offset.offset

    def cells(self, group_id: str, key: TopicPartition, new_cell: object, new: int | None) -> tuple[object, ...]:
        """Return the cells current offset, new offset and difference: `-` for no offset, `?` for an unknown one."""
        if group_id not in self.offsets:
            return "?", new_cell, "?"
        current = self.of(group_id, key)
        difference = "-" if current is None or new is None else f"{new - current:+d}" if new != current else "0"
        return "-" if current is None else current, new_cell, difference


def _present(session: Session, plans: Sequence[GroupPlan]) -> _Present | None:
    """Fetch the committed offsets, but return None with --execute or --export, and without --json if stdout is no
    terminal."""
    args = session.args
    if args.execute or args.export or not (args.json or session.console.is_terminal):
        return None
    group_offsets = fetch_offsets(session.admin, [plan.group_id for plan in plans])
    return _Present(
        {name: group.offsets for name, group in group_offsets.items() if group.error is None and not group.errors}
    )


# -- delete offsets --


def prepare_delete_offsets(args: Args) -> Callable[[Session], ExitStatus]:
    """Parse --topic for --delete-offsets; return the action for a Session. Raises UsageError."""
    scope = topic_scope(args.topic)
    return lambda session: _delete_offsets(session, scope)


def _delete_offsets(session: Session, scope: TopicScope) -> ExitStatus:
    """Delete committed offsets, or print them with --dry-run (ConsumerGroupCommand.deleteOffsets). Returns FAILED if a
    partition failed or a topic cannot be described."""
    group_id = session.args.group[0]
    partitions, topic_errors = partitions_of(session.admin, scope)
    if session.args.dry_run:
        complain_of_topics(session, group_id, topic_errors)
        status = show_deletable_offsets(session, group_id, partitions)
        return ExitStatus.FAILED if topic_errors else status
    if session.args.undo_file is not None:
        note_offsets(session, {group_id: set(partitions)})
    return delete_committed(session, group_id, partitions, topic_errors, lambda error: error.name)
