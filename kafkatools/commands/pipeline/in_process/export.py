"""kt export: write records to Parquet, JSON or CSV files, in this process."""

from __future__ import annotations

from kafkatools.commands.pipeline import EXPORT
from kafkatools.commands.pipeline.in_process import condition_errors, job_here, missing_packages
from kafkatools.console import Console
from kafkatools.exit_status import ExitStatus
from kafkatools.options import Args


def run(console: Console, args: Args) -> ExitStatus:
    """Run kt export until all present records are exported. Returns FAILED if some were deleted before, else FINDINGS
    if damaged ranges were skipped. Raises UsageError, CommandError."""
    from contextlib import closing
    from dataclasses import replace

    from kafkatools.commands.pipeline.export import export_of, print_exported
    from kafkatools.commands.pipeline.job_source import print_damages

    with missing_packages():
        from kafkatools.pipeline.jobs.in_process.export import run_export
        from kafkatools.pipeline.jobs.in_process.export_rows import RowShape
        from kafkatools.pipeline.jobs.in_process.tables import LocalSource

        export = export_of(console, args, {})
        if export.where is not None:
            export = replace(export, dialect="duckdb")
        with condition_errors():
            shape = RowShape(export)
        source = LocalSource(export.source, export.cluster)
        with closing(shape), console.progress("Exporting", prints=False) as progress:
            result = run_export(source, export, shape, progress.advance)
    return print_exported(console, export, result, print_damages(console, source.sorted_damages()))


COMMAND = job_here(
    EXPORT,
    run,
    "kt export topic:orders --to parquet:/archive/orders",
    "kt export log:/backup/kafka --to json:/tmp/json --partition-by topic,date --text",
)
