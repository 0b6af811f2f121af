"""kt top-keys: show the keys with the most records or bytes, in this process."""

from __future__ import annotations

from kafkatools.commands.pipeline import TOP_KEYS
from kafkatools.commands.pipeline.in_process import job_here, local_source, missing_packages
from kafkatools.console import Console
from kafkatools.exit_status import ExitStatus
from kafkatools.options import Args


def run(console: Console, args: Args) -> ExitStatus:
    """Run kt top-keys: print the keys, then the skew of keys and of partitions. Returns FINDINGS if damaged ranges were
    skipped. Raises UsageError, CommandError."""
    from kafkatools.commands.pipeline.job_source import (
        ensure_at_least,
        ensure_one_of,
        print_damages,
        print_rows,
        source_of_operand,
    )
    from kafkatools.commands.pipeline.top_keys import print_key_skew

    ensure_one_of("by", args.by, ("records", "bytes"))
    ensure_at_least("top", args.top, 0)
    source = source_of_operand(console, args, args.operand)
    with missing_packages():
        from kafkatools.pipeline.jobs.in_process.tables import connection
        from kafkatools.pipeline.jobs.in_process.top_keys import top_keys

        here = local_source(source)
        with connection() as database, console.progress("Reading", prints=False):
            top = top_keys(database, here, args.top, by=args.by)
    print_rows(console, "key", *top.keys)
    print_key_skew(console, top.skew, top.without_key)
    print_rows(console, "partition_skew", *top.partitions)
    return print_damages(console, here.sorted_damages())


COMMAND = job_here(TOP_KEYS, run, "kt top-keys topic:clicks --top 5", "kt top-keys log:/backup/kafka --by bytes")
