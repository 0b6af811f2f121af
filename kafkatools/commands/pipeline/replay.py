"""kt pipeline replay: send records of a dead-letter topic, or of log files, again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkatools.commands.pipeline import job_source
from kafkatools.commands.pipeline.spark import cluster_of, other_cluster, session, usage
from kafkatools.commands.pipeline.spark_progress import job_progress, spark_progress
from kafkatools.console import Console
from kafkatools.exit_status import CommandError, ExitStatus, UsageError
from kafkatools.options import Args
from kafkatools.output import counted
from kafkatools.pipeline.uris import Cluster, parse_sink

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark.sql import DataFrame, DataFrameWriter

    from kafkatools.pipeline.jobs.replay_plan import ReplayPlan

_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "headers")


def run(console: Console, args: Args) -> ExitStatus:
    """Run kt pipeline replay: print how many records go to which topic, then send them unless --dry-run. Returns
    FINDINGS if damaged ranges were skipped. Raises UsageError, and CommandError if a target topic is also a source
    without --allow-loop."""
    rate, target = rate_of(args), target_of(args)
    with job_source.damage_reports() as reports:
        source = job_source.source_of_operand(console, args, args.operand, reports)
        _replay(console, args, source, target, rate, reports)
        return job_source.report_damages(console, reports)


def _replay(
    console: Console, args: Args, source: job_source.JobSource, target: str | None, rate: float | None, reports: str
) -> None:
    from kafkatools.pipeline.jobs.replay import decisions, plan_replay

    with session(console, args) as spark:
        table = source.table(spark, _COLUMNS, includeHeaders="true")
        plan = plan_of(args, target, _topics(source, table, args.where))
        with job_progress(console, spark, "Reading", reports):
            fates = plan_replay(table, plan).persist()
            rows = [tuple(row) for row in decisions(fates).collect()]
        sending, number = print_plan(console, rows)
        if args.dry_run:
            console.note(f"Dry run: {number} records would be sent")
            return
        if sending:
            with spark_progress(console, spark, "Sending"):
                _send(fates, plan, target_cluster(console, args, sending), rate)
    console.note(f"{number} records sent")


def print_plan(console: Console, rows: Iterable[tuple[str, str | None, str, int]]) -> tuple[list[str], int]:
    """Print the rows of topic, target, decision and records. Returns the topics to send to, and the number of records.
    Raises CommandError if a target is also a source."""
    from kafkatools.pipeline.jobs.replay_plan import LOOP, NO_ORIGIN, SEND

    rows = list(rows)
    job_source.print_rows(console, "replay", ("topic", "target", "decision", "records"), rows)
    if any(decision == LOOP for _, _, decision, _ in rows):
        raise CommandError("Nothing was sent: a target topic is also a source topic, which needs --allow-loop")
    left = sum(records for _, _, decision, records in rows if decision == NO_ORIGIN)
    if left:
        console.note(
            f"{counted(left, 'record')} left out: no header names the topic to send to; see --to and --topic-header"
        )
    sending = {target: records for _, target, decision, records in rows if decision == SEND and target is not None}
    return sorted(sending), sum(records for _, _, decision, records in rows if decision == SEND)


def target_cluster(console: Console, args: Args, topics: Sequence[str]) -> Cluster:
    """Return the cluster to send to, after a check that it has these topics. Raises KafkaError or CommandError."""
    if args.has_option("to-bootstrap-server"):
        return other_cluster(console, args, args.to_bootstrap_server, args.to_command_config, *topics)
    return cluster_of(console, args, *topics)


def rate_of(args: Args) -> float | None:
    """Return the records per second of --rate, None for no limit. Raises UsageError."""
    if not args.has_option("rate"):
        return None
    try:
        rate = float(args.rate)
    except ValueError:
        rate = 0.0
    if not 0 < rate < float("inf"):
        raise UsageError(f"--rate takes records per second, a number above 0, not {args.rate}")
    return rate


def target_of(args: Args) -> str | None:
    """Return the topic of --to; None for the original topic of each record. Raises UsageError."""
    if not args.has_option("to"):
        return None
    with usage():
        uri = parse_sink(args.to)
    if uri.kind != "topic":
        raise UsageError(f"{args.to}: replay writes to a topic; use topic:NAME")
    return uri.target


def _topics(source: job_source.JobSource, table: DataFrame, where: str | None) -> Sequence[str]:
    """Return the source topics, for loop detection: those of the source's name, else those of its records. Empty for
    files: sent records do not reach them."""
    if source.is_log:
        return []
    topics = [name for name in source.uri.target.split(",") if name]
    return topics or [row.topic for row in table.select("topic").distinct().collect()]


def plan_of(args: Args, target: str | None, topics: Sequence[str]) -> ReplayPlan:
    """Return the plan that the options describe."""
    from kafkatools.pipeline.jobs.replay_plan import ORIGIN_HEADERS, ReplayPlan

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
