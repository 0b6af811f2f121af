"""kt compact-forecast: predict how much of each segment the log cleaner would remove, in this process."""

from __future__ import annotations

from kafkatools.commands.pipeline import COMPACTION
from kafkatools.commands.pipeline.in_process import job_here, local_source, missing_packages
from kafkatools.console import Console
from kafkatools.exit_status import ExitStatus
from kafkatools.options import Args


def run(console: Console, args: Args) -> ExitStatus:
    """Run kt compact-forecast: print for each segment how much of it the log cleaner would remove. Returns FINDINGS if
    damaged ranges were skipped. Raises UsageError, CommandError."""
    from kafkatools.commands.pipeline import forecasts
    from kafkatools.commands.pipeline.job_source import log_of_operand, print_damages

    forecasts.ensure_compaction(args)
    source = log_of_operand(args, args.operand)
    with missing_packages():
        from kafkatools.pipeline.jobs.forecast_segments import cleanable_ranges, last_stable_offsets
        from kafkatools.pipeline.jobs.in_process.forecast import compact_forecast, measure_segments
        from kafkatools.pipeline.jobs.in_process.tables import connection

        files = forecasts.files_of(source)
        compaction = forecasts.compaction_of(args, forecasts.settings_of(console, args, files))
        here = local_source(source, has_whole_segments=True)
        with connection() as database, console.progress("Reading", prints=False):
            measured = measure_segments(database, here, files)
            stable = last_stable_offsets(files) if measured.has_transactions else {}
            ranges = cleanable_ranges(measured.logs, compaction, console.clock.wall_ms(), stable)
            rows = compact_forecast(database, here, measured, ranges)
    forecasts.print_compaction(console, rows, ranges)
    return print_damages(console, here.sorted_damages())


COMMAND = job_here(
    COMPACTION,
    run,
    "kt compact-forecast /var/lib/kafka/data/profiles-0",
    "kt compact-forecast /var/lib/kafka/data --bootstrap-server localhost:9092 --json",
)
