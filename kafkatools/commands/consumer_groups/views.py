"""The offsets view of kt consumer-groups --describe, with and without --watch, and its --fail-if."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from kafkatools.commands.consumer_groups.session import Session, requested_groups
from kafkatools.commands.consumer_groups.tables import offsets_table
from kafkatools.core.errors import KafkaError
from kafkatools.exit_status import ExitStatus
from kafkatools.options import Args
from kafkatools.tools.groups.conditions import Condition, findings, unknowns
from kafkatools.tools.groups.view import GroupView, Views, collect, group_json, is_gone, partition_json


class DescribeOptions(NamedTuple):
    """The parsed options of --describe --offsets: the conditions of --fail-if, and whether time lags are needed."""

    conditions: list[Condition]
    has_times: bool


class Collected(NamedTuple):
    """The described groups.

    - `status`: FAILED when something was not available, which was printed
    - `failed`: the errors of groups that could not be described
    - `are_all_listed`: whether every broker listed its groups
    """

    views: list[GroupView]
    status: ExitStatus
    failed: dict[str, KafkaError]
    are_all_listed: bool


def collect_views(session: Session, options: DescribeOptions) -> Collected:
    """Describe the requested groups, and print an error for everything that is not available; then the `status` of the
    result is FAILED. Raises KafkaError."""
    names, is_complete = requested_groups(session, "")
    with session.console.progress(f"Describing {len(names)} groups"):
        all_views = collect(session.admin, names)
    status = complain_of_views(session, all_views)
    views = [view for view in all_views.groups if view.error is None]
    failed = {view.group_id: view.error for view in all_views.groups if view.error is not None}
    are_all_listed = is_complete
    if options.has_times:
        from kafkatools.tools.groups.lag_times import with_times

        with session.console.progress(f"Reading timestamps for the lag of {len(views)} groups"):
            views, unknown = with_times(session.admin, views, session.console.clock.wall_ms())
            for (topic, partition), error in unknown.items():
                session.complain(
                    f"Error: the record timestamps of {topic}-{partition} are unknown: {error}", error.name
                )
        is_complete = is_complete and not unknown
    return Collected(views, status if is_complete else ExitStatus.FAILED, failed, are_all_listed)


def judge(session: Session, outcome: Collected, conditions: list[Condition]) -> ExitStatus:
    """Print every place where a condition of --fail-if holds or is unknown.

    Returns FINDINGS if one holds, else FAILED if one is unknown, else OK.
    """
    status = _complain_of_findings(session, outcome.views, conditions)
    texts = list(_unknowns(outcome, conditions))
    for text in texts:
        session.complain(text, "UNKNOWN")
    return status or (ExitStatus.FAILED if texts else ExitStatus.OK)


def _unknowns(outcome: Collected, conditions: list[Condition]) -> Iterator[str]:
    for condition in conditions:
        for group_id, error in outcome.failed.items():
            yield f"{condition.text} is unknown for group {group_id}: {error}"
        for view in outcome.views:
            yield from unknowns(condition, view)
        if not outcome.are_all_listed:
            yield f"{condition.text} is unknown for groups that are not listed: a broker did not list its groups"


def _complain_of_findings(session: Session, views: Sequence[GroupView], conditions: list[Condition]) -> ExitStatus:
    status = ExitStatus.OK
    for view in views:
        for finding in findings(conditions, view):
            status = ExitStatus.FINDINGS
            session.complain(
                finding.message,
                "FINDING",
                condition=finding.condition.text,
                group=finding.group_id,
                topic=finding.topic,
                partition=finding.partition,
                value=finding.value,
                exit=int(status),
            )
    return status


def complain_of_views(session: Session, views: Views) -> ExitStatus:
    """Print the errors of groups and end offsets. Returns FAILED unless the only errors are deleted topics."""
    status = ExitStatus.OK
    for view in views.groups:
        if view.error is not None:
            session.complain_of_group(view.group_id, view.error)
            status = ExitStatus.FAILED
    deleted_topics = sorted({topic for (topic, _), error in views.end_errors.items() if is_gone(error)})
    if deleted_topics:
        session.complain(
            f"Warning: committed offsets of topics or partitions that no longer exist: {', '.join(deleted_topics)}",
            "UNKNOWN_TOPIC_OR_PARTITION",
        )
    for (topic, partition), error in sorted(views.end_errors.items()):
        if not is_gone(error):
            session.complain(f"Error: the end offset of {topic}-{partition} is unknown: {error}", error.name)
            status = ExitStatus.FAILED
    return status


def offsets_json(view: GroupView) -> dict[str, object]:
    """Return the JSON row of a group with its partitions."""
    return {**group_json(view), "partitions": [partition_json(row) for row in view.rows]}


def offsets_lines(args: Args, view: GroupView, options: DescribeOptions) -> Iterator[str]:
    """Yield the lines of the table of a group's partitions, with time columns if --lag-time or --fail-if needs them."""
    extra = ("LAG-TIME", "BEHIND-NEWEST") if options.has_times else ()
    return offsets_table(view, verbose=args.verbose, extra=extra)
