"""kt reassign-partitions plan: compute a reassignment. Nothing is changed.

tools/reassignment/plan.py holds the rules of the four goals. The plan is Kafka's JSON, for `run` and --execute. With
--out the plan goes to that file and the tables to stdout. Without it the plan goes to stdout and the tables to stderr,
so that `plan ... | run --reassignment-json-file -` works.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import NamedTuple

from kafkatools.commands.reassign_partitions import GOALS, balance_options
from kafkatools.commands.reassign_partitions.plan_output import (
    broker_rows,
    current_assignment,
    json_rows,
    json_text,
    plan_assignment,
    summary,
    write_plan_file,
)
from kafkatools.console import Console
from kafkatools.exit_status import CommandError, ExitStatus, UsageError
from kafkatools.options import Args, TopicFilter
from kafkatools.options.connection import connect_admin
from kafkatools.output import table
from kafkatools.tools.reassignment import plan as planner
from kafkatools.tools.reassignment.cluster_state import ensure_nothing_moves, read_cluster
from kafkatools.tools.reassignment.layout import ClusterState, PlanRefused, Scope
from kafkatools.tools.reassignment.plan import ReassignmentPlan
from kafkatools.tools.undo_files import write_undo_file

_NEEDS_BROKERS = ("drain", "add")


class _PlanOptions(NamedTuple):
    """The checked options of a plan. `brokers` is None without --brokers."""

    goal: str
    brokers: frozenset[int] | None
    factor: int | None
    topics: TopicFilter | None
    rack_aware: bool

    def takes(self, topic: str) -> bool:
        return self.topics is None or self.topics.takes(topic)


def run(console: Console, args: Args) -> ExitStatus:
    """Compute, write and print a reassignment. Returns FAILED when partitions were left out. Raises UsageError,
    CommandError."""
    options = _checked_options(args)
    if balance_options.uses_measure(args):
        from kafkatools.commands.reassign_partitions import balance

        return balance.run(console, args, options.topics)
    with connect_admin(console, args) as admin:
        ensure_nothing_moves(admin, options.takes)
        cluster = read_cluster(admin, console.error)
    plan = _plan(cluster, options)
    _write_files(args, plan)
    _show(console, args, plan)
    for (topic, partition), reason in plan.left_out.items():
        console.error(f"{topic}-{partition} is left unchanged: {reason}", topic=topic, partition=partition)
    return ExitStatus.FAILED if plan.left_out else ExitStatus.OK


def _checked_options(args: Args) -> _PlanOptions:
    goal = args.operand
    if goal not in GOALS:
        suffix = "" if goal is None else f", not '{goal}'"
        raise UsageError(f"The plan must be one of {', '.join(GOALS)}{suffix}")
    if goal in _NEEDS_BROKERS and args.brokers is None:
        raise UsageError(f"plan {goal} needs --brokers")
    if goal == "set-rf" and args.replication_factor is None:
        raise UsageError("plan set-rf needs --replication-factor")
    if goal == "set-rf" and args.replication_factor < 1:
        raise UsageError(f"--replication-factor must be at least 1, not {args.replication_factor}")
    if goal != "set-rf" and args.replication_factor is not None:
        raise UsageError(f"--replication-factor can only be used with plan set-rf, not with plan {goal}")
    balance_options.check_goal(args, goal)
    for name, path in (("out", args.out), ("undo-file", args.undo_file)):
        _ensure_has_directory(name, path)
    try:
        topics = None if args.topics is None else TopicFilter(args.topics)
    except ValueError as error:
        raise UsageError(str(error)) from None
    return _PlanOptions(goal, args.brokers, args.replication_factor, topics, not args.disable_rack_aware)


def _ensure_has_directory(option: str, path: str | None) -> None:
    """Raise UsageError for a file in a directory that does not exist: a plan may take minutes to measure."""
    if path is None:
        return
    directory = os.path.dirname(path) or "."
    if not os.path.isdir(directory):
        raise UsageError(f"--{option} {path}: there is no directory {directory}")
    if not path or os.path.isdir(path):
        raise UsageError(f"--{option} takes the name of a file, not '{path}'")


def _plan(cluster: ClusterState, options: _PlanOptions) -> ReassignmentPlan:
    scope = _scope(cluster, options)
    brokers = options.brokers or frozenset()
    makers: dict[str, Callable[[], ReassignmentPlan]] = {
        "drain": lambda: planner.plan_drain(cluster, brokers, scope),
        "add": lambda: planner.plan_add(cluster, brokers, scope),
        "set-rf": lambda: planner.plan_replication_factor(cluster, options.factor or 0, options.brokers, scope),
        "balance": lambda: planner.plan_balance(cluster, options.brokers, scope),
    }
    try:
        return makers[options.goal]()
    except PlanRefused as refusal:
        raise CommandError(str(refusal)) from None


def _scope(cluster: ClusterState, options: _PlanOptions) -> Scope:
    topics = frozenset(part.topic for part in cluster.partitions if options.takes(part.topic))
    if not topics and options.topics is not None:
        raise CommandError("No topic matches --topics")
    return Scope(topics, options.rack_aware)


def _write_files(args: Args, plan: ReassignmentPlan) -> None:
    if args.undo_file is not None and plan.moves:
        write_undo_file(args.undo_file, [json_text(current_assignment(plan.moves))])
    if args.out is not None:
        write_plan_file(args.out, json_text(plan_assignment(plan.moves)))


def _show(console: Console, args: Args, plan: ReassignmentPlan) -> None:
    if args.json:
        for row in json_rows(plan):
            console.print_json(row)
        return
    is_drawn = console.is_terminal if args.out is not None else console.is_error_terminal
    text = table(*broker_rows(plan.brokers), terminal=is_drawn, width=console.width) + summary(plan)
    if args.out is not None:
        console.draw(text + "\n")
        return
    console.draw_error(text + "\n")
    console.write(json_text(plan_assignment(plan.moves)).encode())
