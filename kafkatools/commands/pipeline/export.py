"""kt pipeline export: write records to files in directories by date or topic; each run adds new records."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkatools.commands.pipeline import job_source
from kafkatools.commands.pipeline.show import count_text
from kafkatools.commands.pipeline.spark import session, spark_progress, usage
from kafkatools.console import Console
from kafkatools.exit_status import ExitStatus, UsageError
from kafkatools.options import Args, property_pairs
from kafkatools.pipeline.uris import parse_sink

if TYPE_CHECKING:
    from kafkatools.pipeline.jobs.export_state import Export, Exported


def run(console: Console, args: Args) -> ExitStatus:
    """Run kt pipeline export until all present records are exported. Returns FAILED if some were deleted before, else
    FINDINGS if damaged ranges were skipped. Raises UsageError."""
    from kafkatools.pipeline.jobs.export import run_export

    with job_source.damage_reports() as reports:
        export = export_of(console, args, {"reportPath": job_source.reports_of(reports, "records")})
        with session(console, args) as spark, spark_progress(console, spark, "Exporting"):
            result = run_export(spark, export)
        status = job_source.report_damages(console, reports)
    return print_exported(console, export, result, status)


def print_exported(console: Console, export: Export, result: Exported, status: ExitStatus) -> ExitStatus:
    """Print what a run has added, and deleted offsets on stderr. Returns FAILED if there are any, else `status`."""
    for (topic, partition), (first, start) in result.deleted_ranges.items():
        console.error(f"{topic}-{partition}: offsets {first} to {start - 1} were deleted before they could be exported")
    if console.is_json:
        ends = [(*partition, end) for partition, end in sorted(result.ends.items())]
        job_source.print_rows(console, "exported", ("topic", "partition", "endOffset"), ends)
        job_source.print_rows(console, "export", ("sink", "rows", "files", "rounds"), [_total(export, result)])
    else:
        sink, rows, files, rounds = _total(export, result)
        console.note(
            f"{sink}: {count_text(rows, 'row')} in {count_text(files, 'file')} added ({count_text(rounds, 'round')})"
            if rounds
            else f"{sink}: up to date"
        )
    return ExitStatus.FAILED if result.deleted_ranges else status


def _total(export: Export, result: Exported) -> tuple[str, int, int, int]:
    return str(export.sink), result.rows, result.files, result.rounds


def export_of(console: Console, args: Args, options: dict[str, str]) -> Export:
    """Return the export that the options describe; `options` are added to those of the source. Raises UsageError, and
    KafkaError or CommandError if the topic cannot be found."""
    from kafkatools.pipeline.jobs.export_state import DEFAULT_ROUND, FORMATS, LAYOUTS, Export

    with usage():
        sink = parse_sink(args.to)
    if sink.kind not in FORMATS:
        raise UsageError(f"{args.to}: unsupported target; use {', '.join(f'{name}:DIR' for name in FORMATS)}")
    layout = () if args.partition_by == "none" else tuple(name.strip() for name in args.partition_by.split(","))
    unknown = [name for name in layout if name not in LAYOUTS]
    if unknown:
        raise UsageError(f"--partition-by takes date, topic, both separated by a comma, or none, not {unknown[0]}")
    if args.has_option("round") and args.round < 1:
        raise UsageError(f"--round takes a number of offsets above 0, not {args.round}")
    source = job_source.source_of_operand(console, args, args.operand)
    headers = {} if args.no_headers else {"includeHeaders": "true"}
    return Export(
        source.uri,
        sink,
        source.cluster,
        {**source.options, **headers, **options},
        property_pairs(args.to_option, "to-option"),
        layout,
        args.where,
        args.text,
        args.round if args.has_option("round") else DEFAULT_ROUND,
    )
