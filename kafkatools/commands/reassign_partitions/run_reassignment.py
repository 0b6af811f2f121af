"""kt reassign-partitions run: execute a reassignment and supervise it to its end.

The run writes the present replicas to an undo file and sets replication throttles (rule: `adaptive_throttle`). It
starts the moves in batches, shows their progress, and removes the throttles however it ends. A run that was killed
leaves a journal (`journal`), from which the next run on this cluster removes its throttles. Ctrl-C and SIGTERM end the
supervision. Moves in progress then continue without a throttle, unless --cancel-on-interrupt cancels them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkatools.exit_status import ExitStatus, UsageError
from kafkatools.options import (
    BOOTSTRAP_SERVER,
    Args,
    Command,
    Option,
    client_settings,
    command_config,
    java_int,
    positive_seconds,
    rules,
)

if TYPE_CHECKING:
    from kafkatools.console import Console
    from kafkatools.core.admin.client import AdminClient
    from kafkatools.tools.reassignment.run import End, RunOptions
    from kafkatools.tools.reassignment.work import Work

_UNITS = {"k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9}
_MAX_GROWTH = 4


def byte_rate(text: str) -> int:
    """Parse bytes per second such as `50M`, with k, M or G for powers of 1000. Raises ValueError."""
    factor = _UNITS.get(text[-1:], 1)
    number = java_int(text[:-1] if factor > 1 else text) * factor
    if number < 1:
        raise ValueError(text)
    return number


def positive_count(text: str) -> int:
    """Parse a number of at least 1. Raises ValueError."""
    count = java_int(text)
    if count < 1:
        raise ValueError(text)
    return count


def run(console: Console, args: Args) -> ExitStatus:
    """Execute what is left of a reassignment and wait for its end; with --dry-run only print it. Returns FAILED for a
    failed partition, a timeout or a throttle that was not removed. Raises UsageError, CommandError or KafkaError;
    Ctrl-C raises KeyboardInterrupt."""
    if args.max_throttle is not None and args.max_throttle < args.throttle:
        raise UsageError("--max-throttle is less than --throttle")
    settings = client_settings(args)
    from kafkatools.tools.reassignment.work import find_work, read_file

    plan = read_file(args.reassignment_json_file)
    servers = console.connect(args)
    from kafkatools.commands.reassign_partitions.run_report import report
    from kafkatools.core.admin.client import AdminClient
    from kafkatools.core.admin.cluster import describe_cluster
    from kafkatools.tools.reassignment.journal import Journal
    from kafkatools.tools.reassignment.run import End, Run

    def connect() -> AdminClient:
        return AdminClient(servers, settings, console.clock)

    with connect() as admin:
        journal = Journal(console.home, describe_cluster(admin).cluster_id)
        try:
            if args.dry_run:
                return _show_plan(console, args, find_work(admin, plan, None, console.error))
            with report(console, args.json) as shown:
                supervised = Run(connect, console.clock, journal, shown, _options(args))
                work = supervised.find_work(admin, plan, console.error)
                if work.jobs:
                    end = supervised.carry_out(admin, work)
                else:
                    end = End(0, 0, 0, 0, is_timed_out=False, is_clean=supervised.take_leftover(admin))
            return _show_end(console, args, end, has_work=bool(work.jobs))
        finally:
            journal.close()


def _show_plan(console: Console, args: Args, work: Work) -> ExitStatus:
    from kafkatools.commands.reassign_partitions.plan_output import broker_rows, json_rows, summary
    from kafkatools.output import table
    from kafkatools.tools.reassignment.work import as_plan

    plan = as_plan(work)
    if args.json:
        for row in json_rows(plan):
            console.print_json(row)
        return ExitStatus.OK
    console.draw(table(*broker_rows(plan.brokers), terminal=console.is_terminal, width=console.width))
    console.print(summary(plan))
    return ExitStatus.OK


def _options(args: Args) -> RunOptions:
    from kafkatools.tools.reassignment.run import Limits, RunOptions
    from kafkatools.tools.reassignment.supervision import Rules

    rules = Rules(
        max(1, round(args.interval * 1000)),
        None if args.timeout is None else round(args.timeout * 1000),
        args.cancel_on_interrupt,
        not args.clear_throttles,
    )
    maximum = args.max_throttle or args.throttle * _MAX_GROWTH
    limits = Limits(args.throttle, min(args.min_throttle, args.throttle), maximum)
    return RunOptions(
        rules, None if args.no_throttle else limits, args.batch_size, not args.no_undo_file, args.undo_file
    )


def _show_end(console: Console, args: Args, end: End, *, has_work: bool) -> ExitStatus:
    from kafkatools.tools.reassignment.listings import counted

    if args.json:
        counts = {"done": end.done, "failed": end.failed, "moving": end.moving, "waiting": end.waiting}
        console.print_json({"type": "end", **counts, "throttles_left": not end.is_clean})
    elif not has_work:
        console.print("Nothing to move: all partitions have the replicas of the plan.")
    else:
        text = f"{counted(end.done)} {'has its' if end.done == 1 else 'have their'} new replicas"
        if end.failed:
            text += f", {end.failed} failed"
        if end.is_timed_out:
            text += f"; still moving, without a throttle, after {args.timeout:g} s: {end.moving}"
            text += f"; not started: {end.waiting}"
        console.print(text + ("; no throttle is left." if end.is_clean else "."))
    return ExitStatus.OK if end.is_clean and not (end.failed or end.is_timed_out) else ExitStatus.FAILED


COMMAND = Command(
    "run",
    "Execute a reassignment and wait for its end, with an undo file, progress, and an adaptive throttle that "
    "is removed at the end.",
    options=(
        BOOTSTRAP_SERVER,
        Option(
            "--reassignment-json-file",
            "The reassignment, as written by plan or --generate; - reads standard input.",
            value="FILE",
            required=True,
        ),
        Option(
            "--throttle",
            "Initial throttle of each broker in bytes per second, also with k, M or G: 50M.",
            value="BYTES",
            type=byte_rate,
            default=50_000_000,
        ),
        Option(
            "--min-throttle",
            "Lower bound of the adaptive throttle, in bytes per second.",
            value="BYTES",
            type=byte_rate,
            default=1_000_000,
        ),
        Option(
            "--max-throttle",
            "Upper bound of the adaptive throttle, in bytes per second. Default: four times --throttle.",
            value="BYTES",
            type=byte_rate,
        ),
        Option("--no-throttle", "Move without a throttle."),
        Option(
            "--batch-size",
            "Maximum number of partitions that move at the same time.",
            value="PARTITIONS",
            type=positive_count,
            default=50,
        ),
        Option(
            "--interval", "Seconds between two progress checks.", value="SECONDS", type=positive_seconds, default=2.0
        ),
        Option(
            "--timeout",
            "Stop waiting after this many seconds, with exit status 1. Moves in progress continue.",
            value="SECONDS",
            type=positive_seconds,
        ),
        Option("--cancel-on-interrupt", "Cancel the moves in progress on Ctrl-C and SIGTERM. Default: they continue."),
        Option(
            "--clear-throttles",
            "Also remove throttles that these brokers and topics had at the start. Default: restore them.",
        ),
        Option(
            "--undo-file", "File for the previous replicas. Default: a new file in the working directory.", value="FILE"
        ),
        Option("--no-undo-file", "Write no undo file."),
        Option("--dry-run", "Print what would move, and change nothing."),
        command_config(),
    ),
    run=run,
    rules=(
        rules.Refusal("no-throttle", ("throttle", "min-throttle", "max-throttle")),
        rules.Refusal("undo-file", ("no-undo-file",)),
    ),
    examples=(
        "kt reassign-partitions run --reassignment-json-file drain.json",
        "kt reassign-partitions run --reassignment-json-file rf.json --throttle 20M --max-throttle 100M --json",
    ),
)
