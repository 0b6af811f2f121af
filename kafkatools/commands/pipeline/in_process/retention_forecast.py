"""kt retention-forecast: predict which retention rule deletes each segment, in this process."""

from __future__ import annotations

from kafkatools.commands.pipeline import RETENTION
from kafkatools.commands.pipeline.in_process import job_here, local_source, missing_packages
from kafkatools.console import Console
from kafkatools.exit_status import ExitStatus
from kafkatools.options import Args


def run(console: Console, args: Args) -> ExitStatus:
    """Run kt retention-forecast: print for each segment which retention rule deletes it, and when. Returns FINDINGS if
    damaged ranges were skipped. Raises UsageError, CommandError."""
    from kafkatools.commands.pipeline import forecasts
    from kafkatools.commands.pipeline.job_source import log_of_operand, print_damages

    forecasts.ensure_retention(args)
    source = log_of_operand(args, args.operand)
    with missing_packages():
        from kafkatools.pipeline.jobs.forecast_segments import retention_rows
        from kafkatools.pipeline.jobs.in_process.forecast import measure_segments
        from kafkatools.pipeline.jobs.in_process.tables import connection

        files = forecasts.files_of(source)
        retention = forecasts.retention_of(args, forecasts.settings_of(console, args, files))
        here = local_source(source, has_whole_segments=True)
        with connection() as database, console.progress("Reading", prints=False):
            logs = measure_segments(database, here, files).logs
    forecasts.print_retention(console, retention_rows(logs, retention, console.clock.wall_ms()))
    return print_damages(console, here.sorted_damages())


COMMAND = job_here(
    RETENTION,
    run,
    "kt retention-forecast /var/lib/kafka/data --retention-ms 1d",
    "kt retention-forecast /var/lib/kafka/data/orders-0 --bootstrap-server localhost:9092",
)
