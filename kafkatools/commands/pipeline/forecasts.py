"""kt pipeline retention-forecast and compact-forecast: predict what a broker deletes of each segment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from kafkatools.commands.pipeline.job_source import JobSource, log_of_operand, print_table
from kafkatools.commands.pipeline.spark import cluster_of, session, spark_progress, usage
from kafkatools.console import Console
from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.configs import TOPIC, describe_configs
from kafkatools.exit_status import ExitStatus, UsageError
from kafkatools.options import Args
from kafkatools.pipeline.jobs.compaction_rules import Compaction
from kafkatools.pipeline.jobs.retention_rules import Retention

if TYPE_CHECKING:
    from kafkatools.pipeline.sources.log.files import LogFile

_BATCHES = ("file", "position", "maxTimestamp")
_RECORDS = ("key", "value", "topic", "partition", "offset", "headers", "transaction")
_MAX_LONG = (1 << 63) - 1


def run_retention(console: Console, args: Args) -> ExitStatus:
    """Run kt pipeline retention-forecast: print for each segment which retention rule deletes it, and when."""
    from kafkatools.pipeline.jobs.forecast import measure_segments, retention_forecast

    source = log_of_operand(args, args.operand)
    files = _files(source)
    settings = _settings(console, args, files)
    with session(console, args) as spark, spark_progress(console, spark, "Reading"):
        logs = measure_segments(files, source.batches(spark, _BATCHES))
        forecast = retention_forecast(spark, logs, _retention(args, settings), console.clock.wall_ms()).persist()
        print_table(console, "segment", forecast)
        due_totals = forecast.where("isDue").selectExpr("count(*)", "coalesce(sum(bytes), 0)").first()
    if due_totals is not None:
        console.note(f"{due_totals[0]} of {len(files)} segments can be deleted now, {due_totals[1]} bytes")
    return ExitStatus.OK


def run_compaction(console: Console, args: Args) -> ExitStatus:
    """Run kt pipeline compact-forecast: print for each segment how much of it the log cleaner would remove."""
    from kafkatools.pipeline.jobs.forecast import cleanable_ranges, compact_forecast, measure_segments

    source = log_of_operand(args, args.operand)
    files = _files(source)
    settings = _settings(console, args, files)
    with session(console, args) as spark, spark_progress(console, spark, "Reading"):
        logs = measure_segments(files, source.batches(spark, _BATCHES))
        ranges = cleanable_ranges(logs, _compaction(args, settings), console.clock.wall_ms())
        records = source.table(spark, _RECORDS, includeHeaders="true", includeMetadata="true")
        forecast = compact_forecast(records, logs, ranges).persist()
        print_table(console, "segment", forecast)
        total = forecast.selectExpr("coalesce(sum(recordBytes), 0)", "coalesce(sum(removableBytes), 0)").first()
    due_partitions = [f"{partition}" for partition, cleanable_range in sorted(ranges.items()) if cleanable_range.is_due]
    if total is not None:
        names = ", ".join(due_partitions) or "none"
        console.note(f"{total[1]} of {total[0]} bytes of records can be cleaned; partitions due now: {names}")
    return ExitStatus.OK


def _files(source: JobSource) -> list[LogFile]:
    from kafkatools.pipeline.sources.log.files import Selection, find_log_files

    with usage():
        return find_log_files(source.uri.target, Selection.from_options(source.options))


def _settings(console: Console, args: Args, files: list[LogFile]) -> dict[str, Mapping[str, str]]:
    """Return the settings of each topic from the cluster of --bootstrap-server; empty without that option."""
    if not args.has_option("bootstrap-server"):
        return {}
    topics = sorted({file.topic for file in files})
    cluster = cluster_of(console, args, *topics)
    with AdminClient(cluster.bootstrap, dict(cluster.settings), console.clock) as admin:
        configs = describe_configs(admin, [(TOPIC, topic) for topic in topics])
    return {
        topic: {entry.name: entry.value or "" for entry in config.entries} for (_, topic), config in configs.items()
    }


def _retention(args: Args, settings: Mapping[str, Mapping[str, str]]) -> dict[str, Retention]:
    """Return the retention rules by topic, with the key "" for other topics. Options win over topic settings."""

    def of(topic: Mapping[str, str]) -> Retention:
        return Retention(
            _number(args, "retention-ms", topic, "retention.ms", 604_800_000),
            _number(args, "retention-bytes", topic, "retention.bytes", -1),
            "delete" in topic.get("cleanup.policy", "delete"),
        )

    return {"": of({})} | {name: of(topic) for name, topic in settings.items()}


def _compaction(args: Args, settings: Mapping[str, Mapping[str, str]]) -> dict[str, Compaction]:
    ratio_text = args.min_cleanable_dirty_ratio
    try:
        ratio = None if ratio_text is None else float(ratio_text)
    except ValueError:
        ratio = -1.0
    if ratio is not None and not 0 <= ratio <= 1:
        raise UsageError(f"--min-cleanable-dirty-ratio takes a number from 0 to 1, not {ratio_text}")

    def of(topic: Mapping[str, str]) -> Compaction:
        return Compaction(
            float(topic.get("min.cleanable.dirty.ratio", 0.5)) if ratio is None else ratio,
            _number(args, "min-compaction-lag-ms", topic, "min.compaction.lag.ms", 0),
            _number(args, "max-compaction-lag-ms", topic, "max.compaction.lag.ms", _MAX_LONG),
        )

    return {"": of({})} | {name: of(topic) for name, topic in settings.items()}


def _number(args: Args, option: str, topic: Mapping[str, str], setting: str, default: int) -> int:
    if args.has_option(option):
        return int(getattr(args, option.replace("-", "_")))
    return int(topic.get(setting, default))
