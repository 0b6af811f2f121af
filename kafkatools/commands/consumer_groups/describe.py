"""kt consumer-groups --describe: offsets and lag, members, or state of groups, sorted by group id.

Groups that cannot be described and partitions without a known end offset are named on stderr; the others are printed. A
partition of a deleted topic keeps its row without an end offset and is no failure.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkatools.commands.consumer_groups.condition_texts import parse_condition
from kafkatools.commands.consumer_groups.session import Session, requested_groups
from kafkatools.commands.consumer_groups.shared_options import STATES
from kafkatools.commands.consumer_groups.tables import members_table, state_table
from kafkatools.commands.consumer_groups.views import DescribeOptions, collect_views, judge, offsets_json, offsets_lines
from kafkatools.core.admin.groups import GroupDescription, describe_groups
from kafkatools.exit_status import ExitStatus
from kafkatools.options import Args
from kafkatools.tools.groups.conditions import needs_times
from kafkatools.tools.groups.view import GroupView, member_json

_REBALANCING = frozenset({"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"})


def prepare_describe(args: Args) -> Callable[[Session], ExitStatus]:
    """Parse the options of --describe; return the action for a Session. Raises UsageError for an invalid --fail-if."""
    if args.members or args.state is not None:
        return _describe_members_or_state
    conditions = [parse_condition(text, STATES) for text in args.fail_if]
    options = DescribeOptions(conditions, bool(args.lag_time) or needs_times(conditions))
    if args.has_option("watch"):
        from kafkatools.commands.consumer_groups.watch import prepare_watch

        return prepare_watch(args, options)
    return lambda session: _describe_offsets(session, options)


def _describe_members_or_state(session: Session) -> ExitStatus:
    names, is_complete = requested_groups(session, "")
    descriptions = describe_groups(session.admin, names)
    table = members_table if session.args.members else state_table
    status = ExitStatus.OK if is_complete else ExitStatus.FAILED
    for name in sorted(descriptions):
        description = descriptions[name]
        if description.error is not None:
            session.complain_of_group(name, description.error)
            status = ExitStatus.FAILED
        elif session.args.json:
            session.print_json(_members_or_state_json(session.args, description))
        else:
            note_state(session, description)
            for line in table(description, verbose=session.args.verbose):
                session.console.print(line)
    return status


def _members_or_state_json(args: Args, description: GroupDescription) -> dict[str, object]:
    head = {"group": description.group_id, "type": description.type, "state": description.state}
    if args.members:
        return {**head, "members": [member_json(member) for member in description.members]}
    coordinator = description.coordinator
    return {
        **head,
        "coordinator": {"id": coordinator.node, "host": coordinator.host, "port": coordinator.port},
        "assignor": description.assignor or None,
        "group_epoch": description.group_epoch,
        "target_assignment_epoch": description.target_assignment_epoch,
        "members": len(description.members),
    }


def note_state(session: Session, description: GroupDescription) -> None:
    """Print the note of Kafka's tool about an empty, rebalancing or dead group (shouldPrintMemberState)."""
    name = description.group_id
    if description.state == "Empty":
        session.console.note(f"Consumer group '{name}' has no active members.")
    elif description.state in _REBALANCING:
        session.console.note(f"Warning: Consumer group '{name}' is rebalancing.")
    elif description.state == "Dead":
        session.console.error(f"Error: Consumer group '{name}' does not exist.")


def _describe_offsets(session: Session, options: DescribeOptions) -> ExitStatus:
    outcome = collect_views(session, options)
    for view in outcome.views:
        _show_offsets(session, view, options)
    return judge(session, outcome, options.conditions) or outcome.status


def _show_offsets(session: Session, view: GroupView, options: DescribeOptions) -> None:
    if session.args.json:
        session.print_json(offsets_json(view))
        return
    note_state(session, view.description)
    if view.rows and view.description.state != "Dead":
        for line in offsets_lines(session.args, view, options):
            session.console.print(line)
