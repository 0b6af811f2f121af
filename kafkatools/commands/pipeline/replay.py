"""kt pipeline replay: send records of a dead-letter topic, or of log files, again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkatools.commands.pipeline import job_source
from kafkatools.commands.pipeline.spark import cluster_of, other_cluster, session, spark_progress, usage
from kafkatools.exit_status import CommandError, ExitStatus, UsageError
from kafkatools.options import Args, Command, Option, java_int

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, DataFrameWriter

    from kafkatools.console import Console
    from kafkatools.pipeline.jobs.replay import ReplayPlan
    from kafkatools.pipeline.uris import Cluster

_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "headers")


def run(console: Console, args: Args) -> ExitStatus:
    """Run kt pipeline replay: print how many records go to which topic, then send them unless --dry-run. Returns
    FINDINGS if damaged ranges were skipped. Raises UsageError, and CommandError if a target topic is also a source
    without --allow-loop."""
    rate = _rate(args)
    target = _target(args)
    with job_source.damage_reports() as reports:
        source = job_source.source_of_operand(console, args, args.operand, reports)
        _replay(console, args, source, target, rate)
        return job_source.tell_damages(console, reports)


def _replay(console: Console, args: Args, source: job_source.JobSource, target: str | None, rate: float | None) -> None:
    from kafkatools.pipeline.jobs.replay import LOOP, SEND, decisions, planned

    with session(console, args) as spark:
        table = source.table(spark, _COLUMNS, includeHeaders="true")
        plan = _plan(args, target, _topics(source, table, args.where))
        with spark_progress(console, spark, "Reading"):
            fates = planned(table, plan).persist()
            rows = decisions(fates).collect()
        job_source.print_rows(console, "replay", ("topic", "target", "decision", "records"), rows)
        if any(row.decision == LOOP for row in rows):
            raise CommandError("Nothing was sent: a target topic is also a source topic, which needs --allow-loop")
        sending = sorted({row.target for row in rows if row.decision == SEND})
        number = sum(row.records for row in rows if row.decision == SEND)
        if args.dry_run:
            console.note(f"Dry run: {number} records would be sent")
            return
        if sending:
            if args.given("to-bootstrap-server"):
                cluster = other_cluster(console, args.to_bootstrap_server, args.to_command_config, *sending)
            else:
                cluster = cluster_of(console, args, *sending)
            with spark_progress(console, spark, "Sending"):
                _send(fates, plan, cluster, rate)
    console.note(f"{number} records sent")


def _rate(args: Args) -> float | None:
    if not args.given("rate"):
        return None
    try:
        rate = float(args.rate)
    except ValueError:
        rate = 0.0
    if not 0 < rate < float("inf"):
        raise UsageError(f"--rate takes records per second, a number above 0, not {args.rate}")
    return rate


def _target(args: Args) -> str | None:
    """Return the topic of --to; None for the original topic of each record. Raises UsageError."""
    from kafkatools.pipeline.uris import parse_sink

    if not args.given("to"):
        return None
    with usage():
        uri = parse_sink(args.to)
    if uri.kind != "topic":
        raise UsageError(f"{args.to}: kt pipeline replay writes to a topic; use topic:NAME")
    return uri.target


def _topics(source: job_source.JobSource, table: DataFrame, where: str | None) -> Sequence[str]:
    """Return the source topics, for loop detection: those of the source's name, else those of its records. Empty for
    files: sent records do not reach them."""
    if source.is_log:
        return []
    named = [name for name in source.uri.target.split(",") if name]
    return named or [row.topic for row in table.select("topic").distinct().collect()]


def _plan(args: Args, target: str | None, topics: Sequence[str]) -> ReplayPlan:
    from kafkatools.pipeline.jobs.replay import ORIGIN_HEADERS, ReplayPlan

    return ReplayPlan(
        topics,
        target,
        args.topic_header or ORIGIN_HEADERS,
        args.where,
        args.max_replays,
        args.allow_loop,
        args.keep_timestamps,
    )


def _send(fates: DataFrame, plan: ReplayPlan, cluster: Cluster, rate: float | None) -> None:
    from kafkatools.pipeline.jobs.replay import at_rate, to_send

    rows = to_send(fates, plan)
    if rate is not None:
        rows = at_rate(rows, rate)
    writer: DataFrameWriter = rows.write.format("kt").mode("append").options(**cluster.options())
    writer.save()


COMMAND = Command(
    "replay",
    "Send records again: from a dead-letter topic to their original topics, or from any source to one topic.",
    options=(
        Option("--to", "Target topic. Default: the original topic in a header of each record.", value="topic:NAME"),
        Option(
            "--topic-header",
            "Header with the original topic; of several the first that a record has. Default: "
            "kafka_dlt-original-topic, __connect.errors.topic.",
            value="NAME",
            repeatable=True,
        ),
        Option("--where", "Replay only records for which this SQL condition is true.", value="SQL"),
        Option("--rate", "Maximum records per second.", value="N"),
        Option(
            "--max-replays",
            "Skip records that were replayed this often, by the count in their header kt-replays.",
            value="N",
            type=java_int,
            default=3,
        ),
        Option("--allow-loop", "Allow a target topic that is also a source."),
        Option("--keep-timestamps", "Keep the timestamps of records instead of setting new ones."),
        Option("--dry-run", "Print how many records would be sent to which topic, and send nothing."),
        Option(
            "--to-bootstrap-server", "Brokers of the target topic if it is in another cluster.", value="HOST:PORT,..."
        ),
        Option("--to-command-config", "Properties file with settings of the client for that cluster.", value="FILE"),
        *job_source.SOURCE_OPTIONS,
    ),
    run=run,
    operand="SOURCE",
    examples=(
        "kt pipeline replay topic:orders.DLT --dry-run",
        "kt pipeline replay topic:orders.DLT --where \"CAST(value AS STRING) LIKE '%timeout%'\" --rate 100",
        "kt pipeline replay log:/backup/orders-0 --to topic:orders --keep-timestamps",
    ),
)
