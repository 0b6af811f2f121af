"""kt pipeline diff: compare the records of two sources."""

from __future__ import annotations

from collections.abc import Mapping

from kafkatools.commands.pipeline import job_source
from kafkatools.commands.pipeline.spark import other_cluster, session, usage
from kafkatools.commands.pipeline.spark_progress import job_progress
from kafkatools.console import Console
from kafkatools.exit_status import ExitStatus, UsageError
from kafkatools.options import Args
from kafkatools.pipeline.jobs.diff_sides import BY_KEY
from kafkatools.pipeline.uris import Uri, parse_source

_COMPARED = ("key", "value", "timestamp", "headers")


def run(console: Console, args: Args) -> ExitStatus:
    """Run kt pipeline diff: print the differences, then their number. Returns FINDINGS for a difference or a damaged
    range, else FAILED if records without a key were left out.

    Raises UsageError unless there are two sources.
    """
    columns = compared_columns(args, "kt pipeline diff")
    return _compare(console, args, columns, right_topic(args))


def compared_columns(args: Args, command: str) -> tuple[str, ...]:
    """Return the columns of --compare. Raises UsageError for wrong options and unless there are two sources."""
    if len(args.operands) != 2:
        raise UsageError(f"{command} needs two sources, each topic:NAME or log:PATH")
    job_source.ensure_one_of("by", args.by, ("key", "offset", "multiset"))
    job_source.ensure_at_least("limit", args.limit, 0)
    columns = tuple(dict.fromkeys(name.strip() for name in args.compare.split(",")))
    for name in columns:
        job_source.ensure_one_of("compare", name, _COMPARED)
    return columns


def right_topic(args: Args) -> Uri | None:
    """Return the second source if --right-bootstrap-server names its cluster, else None. Raises UsageError unless it is
    a topic."""
    if not args.has_option("right-bootstrap-server"):
        return None
    text = args.operands[1]
    with usage():
        uri = parse_source(text)
    if uri.kind != "topic":
        raise UsageError(f"--right-bootstrap-server needs a topic as second source, not {text}")
    return uri


def _compare(console: Console, args: Args, columns: tuple[str, ...], topic: Uri | None) -> ExitStatus:
    from kafkatools.pipeline.jobs.diff import diff, summary, without_key

    needed = dict.fromkeys((*columns, "value", "key", "topic", "partition", "offset", "timestamp"))
    options = {"includeHeaders": "true"} if "headers" in needed else {}
    with job_source.damage_reports() as reports:
        sources = (
            job_source.source_of_operand(console, args, args.operands[0], f"{reports}/left"),
            right_source(console, args, topic, reports),
        )
        with session(console, args) as spark, job_progress(console, spark, "Comparing", reports):
            left, right = (source.table(spark, list(needed), **options) for source in sources)
            differences = diff(left, right, by=args.by, compared=columns).persist()
            row_count = job_source.print_table(console, "difference", differences, args.limit)
            counts = summary(differences)
            uncompared = (without_key(left), without_key(right)) if args.by == BY_KEY else (0, 0)
        status = max(job_source.report_damages(console, source.reports) for source in sources)
    return print_summary(console, args, row_count, counts, uncompared, status)


def print_summary(
    console: Console,
    args: Args,
    row_count: int,
    counts: Mapping[str, int],
    uncompared: tuple[int, int],
    status: ExitStatus,
) -> ExitStatus:
    """Print the number of differences, and the `uncompared` records without a key of the left and the right source.
    `row_count` is above --limit if not all were printed. Returns FINDINGS for a difference, else FAILED for uncompared
    records, else `status`."""
    status = max(status, _report_without_key(console, *uncompared))
    if console.is_json:
        names = ("onlyLeft", "onlyRight", "changed", "leftNotCompared", "rightNotCompared")
        job_source.print_rows(console, "summary", names, [(*counts.values(), *uncompared)])
    else:
        if row_count > args.limit:
            console.note(f"Only the first {args.limit} differences are shown (--limit)")
        console.note(", ".join(f"{number} {side}" for side, number in counts.items()))
    return ExitStatus.FINDINGS if any(counts.values()) else status


def _report_without_key(console: Console, left: int, right: int) -> ExitStatus:
    """Report the records without a key that a comparison by key left out. Returns FAILED if there are any."""
    if not left and not right:
        return ExitStatus.OK
    console.error(
        f"Records without a key were not compared: {left} of the left source, {right} of the right source."
        " To compare them: --by multiset, or --by offset",
        "NOT_COMPARED",
        left=left,
        right=right,
    )
    return ExitStatus.FAILED


def right_source(console: Console, args: Args, topic: Uri | None, reports: str) -> job_source.JobSource:
    """Return the second source: `topic` in the cluster of --right-bootstrap-server, or the second operand if None.
    Raises UsageError."""
    if topic is None:
        return job_source.source_of_operand(console, args, args.operands[1], f"{reports}/right")
    cluster = other_cluster(console, args, args.right_bootstrap_server, args.right_command_config, *topic.topics)
    return job_source.new_source(console, args, topic, cluster, f"{reports}/right")
