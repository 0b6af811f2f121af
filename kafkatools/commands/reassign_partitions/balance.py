"""kt reassign-partitions plan balance --by bytes, rate or leaders. Nothing is changed.

tools/reassignment/balance has the rules. The plan file is the one of the other plans; with --disks it also names log
directories.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafkatools.commands.reassign_partitions.balance_options import BalanceArguments, balance_arguments
from kafkatools.commands.reassign_partitions.balance_output import (
    balance_rows,
    balance_tables,
    current_fields,
    plan_file_fields,
)
from kafkatools.commands.reassign_partitions.plan_output import json_text, write_plan_file
from kafkatools.commands.reassign_partitions.run_report import duration_text
from kafkatools.console import Console
from kafkatools.exit_status import CommandError, ExitStatus
from kafkatools.options import Args, TopicFilter
from kafkatools.options.connection import connect_admin
from kafkatools.tools.reassignment.balance.model import BalanceInput, BalanceOptions, BalancePlan
from kafkatools.tools.reassignment.balance.planning import plan_balance_by
from kafkatools.tools.reassignment.balance.reading import read_balance_input
from kafkatools.tools.reassignment.cluster_state import ensure_nothing_moves
from kafkatools.tools.reassignment.layout import PlanRefused
from kafkatools.tools.reassignment.plan_check import ensure_live
from kafkatools.tools.undo_files import write_undo_file

_THROTTLE = 50_000_000


def run(console: Console, args: Args, topics: TopicFilter | None) -> ExitStatus:
    """Compute, write and print a plan. Returns FAILED when partitions were left out. Raises CommandError and
    KafkaError."""
    arguments = balance_arguments(args)
    with connect_admin(console, args) as admin:
        ensure_nothing_moves(admin, lambda topic: topics is None or topics.takes(topic))
        if arguments.sample_ms is not None:
            console.note(f"Measuring rates for {duration_text(round(arguments.sample_ms / 1000))}.")
        given = read_balance_input(admin, arguments.sample_ms, console.error)
    plan = _plan(given, arguments, args, topics)
    _write_files(args, plan)
    _show(console, args, plan, arguments)
    for (topic, partition), reason in plan.left_out.items():
        console.error(f"{topic}-{partition} is left unchanged: {reason}", topic=topic, partition=partition)
    return ExitStatus.FAILED if plan.left_out else ExitStatus.OK


def _plan(given: BalanceInput, arguments: BalanceArguments, args: Args, topics: TopicFilter | None) -> BalancePlan:
    live = {broker.id for broker in given.cluster.brokers}
    excluded: frozenset[int] = args.exclude_broker or frozenset()
    with_replicas = {broker for part in given.cluster.partitions for broker in part.replicas}
    ensure_live(args.brokers or (), live)
    ensure_live(excluded - with_replicas, live)
    names = None
    if topics is not None:
        names = frozenset(part.topic for part in given.cluster.partitions if topics.takes(part.topic))
        if not names:
            raise CommandError("No topic matches --topics")
    options = BalanceOptions(
        arguments.by,
        arguments.tolerance,
        names,
        args.brokers,
        excluded,
        not args.disable_rack_aware,
        args.disks,
        arguments.only_above,
        arguments.max_move_bytes,
    )
    try:
        return plan_balance_by(given, options)
    except PlanRefused as refusal:
        raise CommandError(str(refusal)) from None


def _write_files(args: Args, plan: BalancePlan) -> None:
    if args.undo_file is not None and plan.moves:
        write_undo_file(args.undo_file, [json_text(current_fields(plan))])
    if args.out is not None:
        write_plan_file(args.out, json_text(plan_file_fields(plan)))


def _show(console: Console, args: Args, plan: BalancePlan, arguments: BalanceArguments) -> None:
    rate = args.throttle or _THROTTLE
    if args.json:
        for row in balance_rows(plan, arguments, rate):
            console.print_json(row)
        return
    is_drawn = console.is_terminal if args.out is not None else console.is_error_terminal
    text = balance_tables(plan, arguments, rate, terminal=is_drawn, width=console.width)
    if args.out is not None:
        console.draw(text)
        return
    console.draw_error(text)
    fields: Mapping[str, object] = plan_file_fields(plan)
    console.write(json_text(fields).encode())
