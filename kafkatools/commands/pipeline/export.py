"""kt pipeline export: write records to files in directories by date or topic, or to a table; each run adds new
records."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kafkatools.commands.pipeline import job_source
from kafkatools.commands.pipeline.show import count_text
from kafkatools.commands.pipeline.spark import failures, session, usage
from kafkatools.commands.pipeline.spark_progress import job_progress
from kafkatools.console import Console
from kafkatools.exit_status import ExitStatus, UsageError
from kafkatools.options import Args, property_pairs
from kafkatools.pipeline.uris import parse_sink

if TYPE_CHECKING:
    from kafkatools.pipeline.jobs.export_state import Export, Exported

_FORBIDDEN = ("path", "txnappid", "txnversion", "usermetadata", "overwriteschema", "replacewhere",
              "partitionoverwritemode", "overwrite-mode")  # fmt: skip
"""Lower-case names of options of tables that an export cannot have."""


def run(console: Console, args: Args) -> ExitStatus:
    """Run kt pipeline export until all present records are exported. Returns FAILED if some were deleted before, else
    FINDINGS if damaged ranges were skipped. Raises UsageError."""
    from kafkatools.pipeline.jobs.export import run_export
    from kafkatools.pipeline.jobs.export_tables import run_table_export

    with job_source.damage_reports() as reports:
        options = {"reportPath": job_source.reports_of(reports, "records")}
        export = export_of(console, args, options, has_tables=True)
        with session(console, args) as spark, job_progress(console, spark, "Exporting", reports):
            result = (run_table_export if export.sink.is_table else run_export)(spark, export)
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
    elif result.rounds:
        files = "" if export.sink.is_table else f" in {count_text(result.files, 'file')}"
        rounds = count_text(result.rounds, "round")
        console.note(f"{export.sink}: {count_text(result.rows, 'row')}{files} added ({rounds})")
    else:
        console.note(f"{export.sink}: up to date")
    return ExitStatus.FAILED if result.deleted_ranges else status


def _total(export: Export, result: Exported) -> tuple[str, int, int | None, int]:
    return str(export.sink), result.rows, None if export.sink.is_table else result.files, result.rounds


def export_of(console: Console, args: Args, options: dict[str, str], *, has_tables: bool = False) -> Export:
    """Return the export that the options describe; `options` are added to those of the source. `has_tables`: the target
    may be a table. Raises UsageError, and KafkaError or CommandError if the topic cannot be found."""
    from kafkatools.pipeline.jobs.export_state import DEFAULT_ROUND, FORMATS, LAYOUTS, Export
    from kafkatools.pipeline.jobs.offsets import topic_ids
    from kafkatools.pipeline.run.identity import cluster_id_of

    with usage():
        sink = parse_sink(args.to)
    if sink.is_table and not has_tables:
        raise UsageError(f"--to {args.to} needs --engine spark")
    if sink.kind not in FORMATS and not sink.is_table:
        targets = [f"{name}:DIR" for name in FORMATS] + ["delta:PATH", "iceberg:TABLE"] * has_tables
        raise UsageError(f"{args.to}: unsupported target; use {', '.join(targets)}")
    sink_options = property_pairs(args.to_option, "to-option")
    if sink.is_table:
        _check_table_options(sink_options)
    layout = () if args.partition_by == "none" else tuple(name.strip() for name in args.partition_by.split(","))
    unknown = [name for name in layout if name not in LAYOUTS]
    if unknown:
        raise UsageError(f"--partition-by takes date, topic, both separated by a comma, or none, not {unknown[0]}")
    repeated = [name for name in layout if layout.count(name) > 1]
    if repeated:
        raise UsageError(f"--partition-by names {repeated[0]} twice")
    if args.has_option("round") and args.round < 1:
        raise UsageError(f"--round takes a number of offsets above 0, not {args.round}")
    source = job_source.source_of_operand(console, args, args.operand)
    with failures():
        cluster_id = None if source.cluster is None else cluster_id_of(source.cluster, console.clock)
        ids = (
            {} if source.cluster is None else topic_ids(source.uri, source.options, source.cluster, is_streaming=False)
        )
    headers = {} if args.no_headers else {"includeHeaders": "true"}
    return Export(
        source.uri,
        sink,
        source.cluster,
        {**source.options, **headers, **options},
        sink_options,
        layout,
        args.where,
        args.text,
        args.round if args.has_option("round") else DEFAULT_ROUND,
        cluster_id=cluster_id,
        topic_ids={topic: str(topic_id) for topic, topic_id in ids.items() if topic_id is not None},
    )


def _check_table_options(options: Mapping[str, str]) -> None:
    """Raise UsageError for an option that would replace rows or the marks of an export's commits."""
    for name in options:
        if name.lower() in _FORBIDDEN or name.lower().startswith("snapshot-property.kt-"):
            raise UsageError(
                f"--to-option {name}: an export only adds rows, and marks its commits itself; leave it out"
            )
