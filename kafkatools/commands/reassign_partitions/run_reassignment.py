"""kt reassign-partitions run: execute a reassignment and supervise it to its end.

The run writes the present replicas to an undo file and sets replication throttles (rule: `adaptive_throttle`). It
starts the moves in batches, shows their progress, and removes the throttles however it ends. A run that was killed
leaves a journal (`journal`), from which the next run on this cluster removes its throttles. Ctrl-C and SIGTERM end the
supervision. Moves in progress then continue without a throttle, unless --cancel-on-interrupt cancels them.
"""

from __future__ import annotations

from kafkatools.commands.reassign_partitions.plan_output import broker_rows, json_rows, log_dir_row, summary
from kafkatools.commands.reassign_partitions.run_report import report
from kafkatools.console import Console
from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.cluster import describe_cluster
from kafkatools.exit_status import ExitStatus, UsageError
from kafkatools.options import (
    Args,
    client_settings,
)
from kafkatools.options.connection import noting_changes
from kafkatools.output import bytes_text, table
from kafkatools.tools.reassignment.journal import Journal
from kafkatools.tools.reassignment.listings import count_text
from kafkatools.tools.reassignment.plan_file import Plan
from kafkatools.tools.reassignment.run import End, Limits, Run, RunOptions
from kafkatools.tools.reassignment.supervision import Rules
from kafkatools.tools.reassignment.work import Work, as_plan, find_work, log_dir_moves, read_file

_MAX_GROWTH = 4


def run(console: Console, args: Args) -> ExitStatus:
    """Execute what is left of a reassignment and wait for its end; with --dry-run only print it. Returns FAILED for a
    failed partition, a timeout or a throttle that was not removed. Raises UsageError, CommandError or KafkaError;
    Ctrl-C raises KeyboardInterrupt."""
    _ensure_throttle(args)
    settings = client_settings(args)
    plan = read_file(args.reassignment_json_file)
    servers = console.connect(args)

    def connect() -> AdminClient:
        return noting_changes(console, args, AdminClient(servers, settings, console.clock), servers)

    with connect() as admin:
        journal = Journal(console.home, describe_cluster(admin).cluster_id)
        try:
            if args.dry_run:
                return _show_plan(console, args, find_work(admin, plan, None, console.error))
            with report(console, args.json) as progress_report:
                reassignment = Run(connect, console.clock, journal, progress_report, _options(args))
                work = reassignment.find_work(admin, plan, console.error)
                if work.jobs:
                    end = reassignment.carry_out(admin, work)
                else:
                    end = End(0, 0, 0, 0, is_timed_out=False, is_clean=reassignment.take_leftover(admin))
            return _show_end(console, args, end, places=_places(plan), has_work=bool(work.jobs))
        finally:
            journal.close()


def _ensure_throttle(args: Args) -> None:
    """Raise UsageError for a throttle outside of its own bounds: `20` for `20M` would stop the replication."""
    if args.no_throttle:
        return
    if args.throttle < args.min_throttle:
        message = f"--throttle {args.throttle} is less than --min-throttle {args.min_throttle}, in bytes per second"
        hint = (
            "Write a unit, such as --throttle 20M for 20,000,000 bytes per second, or set a lower --min-throttle too."
        )
        raise UsageError(message, hint)
    if args.max_throttle is not None and args.max_throttle < args.throttle:
        raise UsageError("--max-throttle is less than --throttle")


def _show_plan(console: Console, args: Args, work: Work) -> ExitStatus:
    plan, log_dirs = as_plan(work), log_dir_moves(work)
    if args.json:
        for row in (*map(log_dir_row, log_dirs), *json_rows(plan, work.log_dirs_after, work.log_dirs_before)):
            console.print_json(row)
        return ExitStatus.OK
    console.draw(table(*broker_rows(plan.brokers), terminal=console.is_terminal, width=console.width))
    console.print(summary(plan))
    kept = [move for move in log_dirs if move.before is not None]
    if kept:
        console.print(f"Between log directories: {len(kept)} ({bytes_text(sum(move.size_bytes for move in kept))}).")
    return ExitStatus.OK


def _options(args: Args) -> RunOptions:
    rules = Rules(
        max(1, round(args.interval * 1000)),
        None if args.timeout is None else round(args.timeout * 1000),
        args.cancel_on_interrupt,
        not args.clear_throttles,
    )
    maximum = args.max_throttle or args.throttle * _MAX_GROWTH
    limits = Limits(args.throttle, args.min_throttle, maximum)
    return RunOptions(
        rules, None if args.no_throttle else limits, args.batch_size, not args.no_undo_file, args.undo_file
    )


def _places(plan: Plan) -> str:
    return "replicas and log directories" if plan.log_dirs else "replicas"


def _show_end(console: Console, args: Args, end: End, *, places: str, has_work: bool) -> ExitStatus:
    if args.json:
        counts = {"done": end.done, "failed": end.failed, "moving": end.moving, "waiting": end.waiting}
        console.print_json({"type": "end", **counts, "throttles_left": not end.is_clean})
    elif not has_work:
        console.print(f"Nothing to move: all partitions have the {places} of the plan.")
    else:
        text = f"{count_text(end.done)} {'has its' if end.done == 1 else 'have their'} new {places}"
        if end.failed:
            text += f", {end.failed} failed"
        if end.is_timed_out:
            text += f"; still moving, without a throttle, after {args.timeout:g} s: {end.moving}"
            text += f"; not started: {end.waiting}"
        console.print(text + ("; no throttle is left." if end.is_clean else "."))
    return ExitStatus.OK if end.is_clean and not (end.failed or end.is_timed_out) else ExitStatus.FAILED
