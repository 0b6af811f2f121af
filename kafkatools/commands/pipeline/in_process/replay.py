"""kt replay: send records of a dead-letter topic, or of log files, again, in this process."""

from __future__ import annotations

from kafkatools.commands.pipeline import REPLAY
from kafkatools.commands.pipeline.in_process import condition_errors, job_here, local_source, missing_packages
from kafkatools.console import Console
from kafkatools.exit_status import ExitStatus
from kafkatools.options import Args


def run(console: Console, args: Args) -> ExitStatus:
    """Run kt replay: print how many records go to which topic, then send them unless --dry-run. Returns FINDINGS if
    records were left out or damaged ranges were skipped. Raises UsageError, and CommandError if a target topic is also
    a source without --allow-loop."""
    from contextlib import closing

    from kafkatools.commands.pipeline import replay as shared
    from kafkatools.commands.pipeline.job_source import print_damages, source_of_operand

    rate, target = shared.rate_of(args), shared.target_of(args)
    with missing_packages():
        from kafkatools.pipeline.jobs.in_process.replay import Replay

        source = source_of_operand(console, args, args.operand)
        topics = () if source.is_log else source.uri.topics
        here = local_source(source)
        plan = shared.plan_of(args, target, topics)
        with condition_errors():
            replay = Replay(here, plan)
        with closing(replay):
            with console.progress("Reading", prints=False) as progress:
                rows = replay.count(progress.advance)
            decided = shared.print_plan(console, rows, plan)
            number = decided.sent
            if args.dry_run:
                console.note(f"Dry run: {number} records would be sent")
            elif decided.topics:
                cluster = shared.target_cluster(console, args, decided.topics)
                with console.progress("Sending", prints=False) as progress:
                    number = replay.send(cluster, rate, progress.advance)
    if not args.dry_run:
        console.note(f"{number} records sent")
    return decided.status(print_damages(console, here.sorted_damages()))


COMMAND = job_here(
    REPLAY,
    run,
    "kt replay topic:orders.DLT --dry-run",
    "kt replay topic:orders.DLT --where \"value LIKE '%timeout%'\" --rate 100",
    "kt replay log:/backup/orders-0 --to topic:orders --keep-timestamps",
)
