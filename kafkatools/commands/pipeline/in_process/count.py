"""kt count: count the records of each partition, in this process."""

from __future__ import annotations

from kafkatools.commands.pipeline import COUNT
from kafkatools.commands.pipeline.in_process import job_here, local_source, missing_packages
from kafkatools.console import Console
from kafkatools.exit_status import ExitStatus
from kafkatools.options import Args


def run(console: Console, args: Args) -> ExitStatus:
    """Run kt count: print a row for each partition, and without --json the sums on stderr. Returns FINDINGS if damaged
    ranges were skipped. Raises UsageError, CommandError."""
    from kafkatools.commands.pipeline.count import by_offsets, print_counts, with_empty_partitions
    from kafkatools.commands.pipeline.job_source import print_damages, source_of_operand

    source = source_of_operand(console, args, args.operand)
    if not (args.exact or source.is_log):
        print_counts(console, *by_offsets(source))
        return ExitStatus.OK
    with missing_packages():
        from kafkatools.pipeline.jobs.in_process.count import count
        from kafkatools.pipeline.jobs.in_process.tables import connection

        here = local_source(source)
        with connection() as database, console.progress("Counting", prints=False):
            columns, rows = count(database, here, is_exact=args.exact, with_keys=not args.no_keys)
    print_counts(console, columns, with_empty_partitions(source, columns, rows))
    return print_damages(console, here.sorted_damages())


COMMAND = job_here(COUNT, run, "kt count log:/var/lib/kafka/data", "kt count topic:orders --exact --json")
