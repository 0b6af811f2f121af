"""kt pipeline replay: send records of a dead-letter topic, or of log files, again."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafkatools.commands.pipeline import job_source
from kafkatools.commands.pipeline.spark import cluster_of, other_cluster, session, usage
from kafkatools.commands.pipeline.spark_progress import job_progress, spark_progress
from kafkatools.console import Console
from kafkatools.exit_status import CommandError, ExitStatus, UsageError
from kafkatools.options import Args
from kafkatools.output import counted
from kafkatools.pipeline.uris import Cluster, parse_sink

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, DataFrameWriter

    from kafkatools.pipeline.jobs.replay_plan import ReplayPlan

_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "headers")


class Decided(NamedTuple):
    """The outcome of a replay's decisions: the topics that it sends to, and the numbers of records that it sends and
    that it leaves out."""

    topics: list[str]
    sent: int
    left_out: int

    def status(self, of_damages: ExitStatus) -> ExitStatus:
        """Return the exit status of the replay: FINDINGS if records were left out, else `of_damages`."""
        return ExitStatus.FINDINGS if self.left_out else of_damages


def run(console: Console, args: Args) -> ExitStatus:
    """Run kt pipeline replay: print how many records go to which topic, then send them unless --dry-run. Returns
    FINDINGS if records were left out or damaged ranges were skipped. Raises UsageError, and CommandError if a target
    topic is also a source without --allow-loop."""
    rate, target = rate_of(args), target_of(args)
    with job_source.damage_reports() as reports:
        source = job_source.source_of_operand(console, args, args.operand, reports)
        decided = _replay(console, args, source, target, rate, reports)
        return decided.status(job_source.report_damages(console, reports))


def _replay(
    console: Console, args: Args, source: job_source.JobSource, target: str | None, rate: float | None, reports: str
) -> Decided:
    from kafkatools.pipeline.jobs.replay import decisions, plan_replay

    with session(console, args) as spark:
        table = source.table(spark, _COLUMNS, includeHeaders="true")
        plan = plan_of(args, target, _topics(source, table, args.where))
        with job_progress(console, spark, "Reading", reports):
            fates = plan_replay(table, plan).persist()
            rows = [tuple(row) for row in decisions(fates).collect()]
        decided = print_plan(console, rows, plan)
        if args.dry_run:
            console.note(f"Dry run: {decided.sent} records would be sent")
            return decided
        if decided.topics:
            with spark_progress(console, spark, "Sending"):
                _send(fates, plan, target_cluster(console, args, decided.topics), rate)
    console.note(f"{decided.sent} records sent")
    return decided


def print_plan(console: Console, rows: Sequence[tuple[str, str | None, str, int]], plan: ReplayPlan) -> Decided:
    """Print the rows of topic, target, decision and records, and why records are left out. Raises CommandError if a
    target is also a source."""
    from kafkatools.pipeline.jobs.replay_plan import LOOP, NO_ORIGIN, SEND, TOO_OFTEN

    records = dict.fromkeys((SEND, NO_ORIGIN, TOO_OFTEN, LOOP), 0)
    for _, _, decision, number in rows:
        records[decision] += number
    job_source.print_rows(console, "replay", ("topic", "target", "decision", "records"), rows)
    if records[LOOP]:
        raise CommandError("Nothing was sent: a target topic is also a source topic, which needs --allow-loop")
    reasons = {
        NO_ORIGIN: "no header names the topic to send to; see --to and --topic-header",
        TOO_OFTEN: f"replayed {counted(plan.max_replays, 'time')} or more already; see --max-replays",
    }
    for decision, reason in reasons.items():
        if records[decision]:
            console.note(f"{counted(records[decision], 'record')} left out: {reason}")
    topics = {target for _, target, decision, _ in rows if decision == SEND and target is not None}
    return Decided(sorted(topics), records[SEND], records[NO_ORIGIN] + records[TOO_OFTEN])


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
    return source.uri.topics or [row.topic for row in table.select("topic").distinct().collect()]


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
