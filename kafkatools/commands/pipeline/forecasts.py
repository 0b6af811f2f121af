"""kt pipeline retention-forecast and compact-forecast: predict what a broker deletes of each segment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from kafkatools.commands.pipeline.job_source import (
    JobSource,
    damage_reports,
    ensure_at_least,
    log_of_operand,
    print_rows,
    report_damages,
)
from kafkatools.commands.pipeline.show import count_text
from kafkatools.commands.pipeline.spark import cluster_of, failures, session, usage
from kafkatools.commands.pipeline.spark_progress import job_progress
from kafkatools.console import Console
from kafkatools.core.admin.client import AdminClient
from kafkatools.core.admin.configs import TOPIC, describe_configs
from kafkatools.exit_status import ExitStatus, UsageError
from kafkatools.options import Args
from kafkatools.pipeline.jobs.compaction_rules import Compaction
from kafkatools.pipeline.jobs.retention_rules import Retention

if TYPE_CHECKING:
    from kafkatools.core.topic_partition import TopicPartition
    from kafkatools.pipeline.jobs.compaction_rules import CleanableRange
    from kafkatools.pipeline.sources.log.files import LogFile

_BATCHES = ("file", "position", "maxTimestamp")
_RECORDS = ("key", "value", "topic", "partition", "offset", "headers", "transaction")
_MAX_LONG = (1 << 63) - 1

Rows = Sequence[Sequence[object]]
Settings = Mapping[str, Mapping[str, str]]
"""The settings of each topic in the cluster of --bootstrap-server; empty without that option."""


def run_retention(console: Console, args: Args) -> ExitStatus:
    """Run kt pipeline retention-forecast: print for each segment which retention rule deletes it, and when. Returns
    FINDINGS if damaged ranges were skipped. Raises UsageError."""
    from kafkatools.pipeline.jobs.forecast import measure_segments
    from kafkatools.pipeline.jobs.forecast_segments import retention_rows

    ensure_retention(args)
    with damage_reports() as reports:
        source = log_of_operand(args, args.operand, reports)
        files = files_of(source)
        retention = retention_of(args, settings_of(console, args, files))
        with session(console, args) as spark, job_progress(console, spark, "Reading", reports):
            logs = measure_segments(files, _whole(source).batches(spark, _BATCHES))
        print_retention(console, retention_rows(logs, retention, console.clock.wall_ms()))
        return report_damages(console, reports)


def run_compaction(console: Console, args: Args) -> ExitStatus:
    """Run kt pipeline compact-forecast: print for each segment how much of it the log cleaner would remove. Returns
    FINDINGS if damaged ranges were skipped. Raises UsageError."""
    from kafkatools.pipeline.jobs.forecast import compact_forecast, measure_segments
    from kafkatools.pipeline.jobs.forecast_segments import cleanable_ranges, last_stable_offsets

    ensure_compaction(args)
    with damage_reports() as reports:
        source = log_of_operand(args, args.operand, reports)
        files = files_of(source)
        compaction = compaction_of(args, settings_of(console, args, files))
        with session(console, args) as spark, job_progress(console, spark, "Reading", reports):
            logs = measure_segments(files, _whole(source).batches(spark, _BATCHES))
            ranges = cleanable_ranges(logs, compaction, console.clock.wall_ms(), last_stable_offsets(files))
            records = _whole(source).table(spark, _RECORDS, includeHeaders="true", includeMetadata="true")
            rows = compact_forecast(records, logs, ranges).collect()
        print_compaction(console, rows, ranges)
        return report_damages(console, reports)


def _whole(source: JobSource) -> JobSource:
    """Return a source that also has what is below the log start offset: retention and the cleaner see whole
    segments."""
    return source._replace(options={**source.options, "wholeSegments": "true"})


def print_retention(console: Console, rows: Rows) -> None:
    """Print the rows of a retention forecast, and on stderr what can be deleted now."""
    from kafkatools.pipeline.jobs.forecast_segments import RETENTION_COLUMNS

    print_rows(console, "segment", RETENTION_COLUMNS, rows)
    is_due, size = (RETENTION_COLUMNS.index(name) for name in ("isDue", "bytes"))
    due_sizes = [int(str(row[size])) for row in rows if row[is_due]]
    segments = count_text(len(rows), "segment")
    console.note(f"{len(due_sizes)} of {segments} can be deleted now, {count_text(sum(due_sizes), 'byte')}")


def print_compaction(console: Console, rows: Rows, ranges: Mapping[TopicPartition, CleanableRange]) -> None:
    """Print the rows of a compaction forecast, and on stderr what can be removed, and in which partitions now."""
    from kafkatools.pipeline.jobs.forecast_segments import COMPACTION_COLUMNS

    print_rows(console, "segment", COMPACTION_COLUMNS, rows)
    total, removable = (
        sum(int(str(row[COMPACTION_COLUMNS.index(name)])) for row in rows) for name in ("recordBytes", "removableBytes")
    )
    due_partitions = [f"{partition}" for partition, cleanable_range in sorted(ranges.items()) if cleanable_range.is_due]
    names = ", ".join(due_partitions) or "none"
    console.note(f"{removable} of {total} bytes of records can be cleaned; partitions due now: {names}")


# -- options and settings --


def files_of(source: JobSource) -> list[LogFile]:
    """Return the segments of the log. Raises UsageError if there are none."""
    from kafkatools.pipeline.sources.log.files import Selection, find_log_files

    with usage():
        return find_log_files(source.uri.target, Selection.from_options(source.options))


def settings_of(console: Console, args: Args, files: Iterable[LogFile]) -> Settings:
    """Return the settings of each topic from the cluster of --bootstrap-server; empty without that option. Raises
    KafkaError, CommandError."""
    if not args.has_option("bootstrap-server"):
        return {}
    topics = sorted({file.topic for file in files})
    with failures():
        cluster = cluster_of(console, args, *topics)
        with AdminClient(cluster.bootstrap, dict(cluster.settings), console.clock) as admin:
            configs = describe_configs(admin, [(TOPIC, topic) for topic in topics])
    return {
        topic: {entry.name: entry.value or "" for entry in config.entries} for (_, topic), config in configs.items()
    }


def ensure_retention(args: Args) -> None:
    """Raise UsageError for values that Kafka does not accept for retention.ms and retention.bytes."""
    _ensure_at_least(args, {"retention-ms": -1, "retention-bytes": -1})


def retention_of(args: Args, settings: Settings) -> dict[str, Retention]:
    """Return the retention rules by topic, with the key "" for other topics. Options win over topic settings."""

    def of(topic: Mapping[str, str]) -> Retention:
        return Retention(
            _number(args, "retention-ms", topic, "retention.ms", 604_800_000),
            _number(args, "retention-bytes", topic, "retention.bytes", -1),
            "delete" in topic.get("cleanup.policy", "delete"),
        )

    return {"": of({})} | {name: of(topic) for name, topic in settings.items()}


def ensure_compaction(args: Args) -> None:
    """Raise UsageError for values that Kafka does not accept for the settings of compaction."""
    _dirty_ratio(args)
    _ensure_at_least(args, {"min-compaction-lag-ms": 0, "max-compaction-lag-ms": 1})


def compaction_of(args: Args, settings: Settings) -> dict[str, Compaction]:
    """Return the compaction rules by topic, with the key "" for other topics. Options win over topic settings."""
    ratio = _dirty_ratio(args)

    def of(topic: Mapping[str, str]) -> Compaction:
        return Compaction(
            float(topic.get("min.cleanable.dirty.ratio", 0.5)) if ratio is None else ratio,
            _number(args, "min-compaction-lag-ms", topic, "min.compaction.lag.ms", 0),
            _number(args, "max-compaction-lag-ms", topic, "max.compaction.lag.ms", _MAX_LONG),
        )

    return {"": of({})} | {name: of(topic) for name, topic in settings.items()}


def _dirty_ratio(args: Args) -> float | None:
    """Return the value of --min-cleanable-dirty-ratio, None without it. Raises UsageError."""
    text = args.min_cleanable_dirty_ratio
    try:
        ratio = None if text is None else float(text)
    except ValueError:
        ratio = -1.0
    if ratio is not None and not 0 <= ratio <= 1:
        raise UsageError(f"--min-cleanable-dirty-ratio takes a number from 0 to 1, not {text}")
    return ratio


def _ensure_at_least(args: Args, least: Mapping[str, int]) -> None:
    for option, number in least.items():
        if args.has_option(option):
            ensure_at_least(option, getattr(args, option.replace("-", "_")), number)


def _number(args: Args, option: str, topic: Mapping[str, str], setting: str, default: int) -> int:
    if args.has_option(option):
        return int(getattr(args, option.replace("-", "_")))
    return int(topic.get(setting, default))
