"""kt diff: compare the records of two sources, in this process."""

from __future__ import annotations

from kafkatools.commands.pipeline import DIFF
from kafkatools.commands.pipeline.in_process import job_here, local_source, missing_packages
from kafkatools.console import Console
from kafkatools.exit_status import ExitStatus
from kafkatools.options import Args


def run(console: Console, args: Args) -> ExitStatus:
    """Run kt diff: print the differences, then their number. Returns FINDINGS for a difference or a damaged range,
    else FAILED if records without a key were left out. Raises UsageError, CommandError."""
    from kafkatools.commands.pipeline.diff import compared_columns, print_summary, right_source, right_topic
    from kafkatools.commands.pipeline.job_source import print_damages, print_rows, source_of_operand

    columns = compared_columns(args, "kt diff")
    topic = right_topic(args)
    sources = (source_of_operand(console, args, args.operands[0]), right_source(console, args, topic, ""))
    with missing_packages():
        from kafkatools.pipeline.jobs.in_process.diff import Difference
        from kafkatools.pipeline.jobs.in_process.tables import connection

        left, right = map(local_source, sources)
        with connection() as database, console.progress("Comparing", prints=False):
            difference = Difference(database, left, right, by=args.by, compared=columns)
            names, rows = difference.rows(args.limit + 1)
            counts = difference.summary()
    print_rows(console, "difference", names, rows[: args.limit])
    status = max(print_damages(console, side.sorted_damages()) for side in (left, right))
    return print_summary(console, args, len(rows), counts, difference.without_key, status)


COMMAND = job_here(
    DIFF,
    run,
    "kt diff topic:orders log:/backup/orders-0 --by offset",
    "kt diff topic:orders topic:orders --right-bootstrap-server other:9092",
)
