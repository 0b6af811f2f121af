"""Code that the jobs of kt pipeline share: their source, and their output as tables or JSON.

A JSON row has the key `type`, the columns in snake_case, and times in ms since 1970.
"""

from __future__ import annotations

import datetime
import os
import re
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from kafkatools.commands.pipeline.show import count_text
from kafkatools.commands.pipeline.spark import cluster_of, ensure_log_exists, usage
from kafkatools.console import Console
from kafkatools.core.topic_partition import TopicPartition
from kafkatools.exit_status import ExitStatus, UsageError
from kafkatools.options import Args, property_pairs
from kafkatools.output import cell_text as text
from kafkatools.output import plain_value as plain
from kafkatools.output import table
from kafkatools.pipeline.uris import Cluster, Uri, parse_source, read_source

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kafkatools.pipeline.run.reports import Damage

READ_COMMITTED, READ_UNCOMMITTED = "read_committed", "read_uncommitted"
_CAPITAL = re.compile(r"(?<=[a-z0-9])([A-Z])")


class JobSource(NamedTuple):
    """The source of a job: a topic, or log files. Damaged ranges are reported in the directory `reports`. `isolation`
    is an isolation level, empty for that of the options or settings."""

    uri: Uri
    options: Mapping[str, str]
    cluster: Cluster | None
    reports: str = ""
    isolation: str = ""

    def table(self, spark: SparkSession, columns: Sequence[str] = (), **options: str) -> DataFrame:
        """Read the records as a table with these columns; without any, with the columns of Spark's Kafka source."""
        from kafkatools.pipeline.sources.schema import HEADER_COLUMNS, METADATA_COLUMNS, RECORD_COLUMNS

        types = {**RECORD_COLUMNS, **HEADER_COLUMNS, **METADATA_COLUMNS}
        schema = ", ".join(f"{name} {types[name]}" for name in columns) or None
        return read_source(spark, self.uri, self._read_options("records", options), self.cluster, schema)

    def batches(self, spark: SparkSession, columns: Sequence[str]) -> DataFrame:
        """Read the batch headers of a log as a table with these columns."""
        from kafkatools.pipeline.sources.schema import BATCH_COLUMNS

        schema = ", ".join(f"{name} {BATCH_COLUMNS[name]}" for name in columns)
        return read_source(spark, self.uri, self._read_options("batches", {"table": "batches"}), None, schema)

    def _read_options(self, part: str, options: Mapping[str, str]) -> dict[str, str]:
        """Return the options of a read. Records and batches report to different files, or one would overwrite the
        other."""
        place = {"reportPath": reports_of(self.reports, part)} if self.reports else {}
        isolation = {"isolationLevel": self.isolation} if self.isolation and part == "records" else {}
        return {**place, **isolation, **self.options, **options}

    @property
    def is_log(self) -> bool:
        """Return whether the source is log files rather than a topic."""
        return self.uri.kind == "log"


def reports_of(directory: str, part: str) -> str:
    """Return the report path for reads of `part`: records or batches."""
    return os.path.join(directory, part)


def damage_reports() -> tempfile.TemporaryDirectory[str]:
    """Create a temporary directory for the damage reports of readers, and delete it at the end of the context."""
    return tempfile.TemporaryDirectory(prefix="kt-pipeline-")


def report_damages(console: Console, reports: str) -> ExitStatus:
    """Print how many damaged ranges were left out. Returns FINDINGS if there is one, else OK."""
    return print_damages(console, damages_in(reports))


def print_damages(console: Console, damages: Sequence[Damage]) -> ExitStatus:
    """Print the number of damaged ranges and the first one. Returns FINDINGS if there is one, else OK."""
    if not damages:
        return ExitStatus.OK
    console.error(f"{count_text(len(damages), 'damaged range')} skipped, the first: {damages[0].text()}", "DAMAGE")
    return ExitStatus.FINDINGS


def damages_in(reports: str) -> list[Damage]:
    """Return the damaged ranges in the reports, sorted by file and position."""
    from kafkatools.pipeline.run.reports import read_reports

    parts = [report for part in ("batches", "records") for report in read_reports(reports_of(reports, part))]
    damages_by_place = {(damage.file, damage.position): damage for report in parts for damage in report.damages}
    return [damages_by_place[place] for place in sorted(damages_by_place)]


def source_of_operand(console: Console, args: Args, text: str | None, reports: str = "") -> JobSource:
    """Return the source of an operand, topic:NAME or log:PATH, after a check that its topics exist.

    Raises UsageError for any other source, KafkaError or CommandError from the check.
    """
    if text is None:
        raise UsageError("The source is missing: topic:NAME or log:PATH")
    if ":" not in text:
        kind = "log" if os.sep in text or os.path.exists(text) else "topic"
        raise UsageError(f"Invalid source '{text}': write {kind}:{text}")
    with usage():
        uri = parse_source(text)
    if not uri.is_kafka:
        raise UsageError(f"{text}: unsupported source; use topic:NAME or log:PATH")
    if uri.kind == "log":
        return new_source(console, args, uri, None, reports)
    return new_source(console, args, uri, cluster_of(console, args, *uri.topics), reports)


def new_source(console: Console, args: Args, uri: Uri, cluster: Cluster | None, reports: str) -> JobSource:
    """Return a source with the options and the isolation level of the command line. Names the open transactions at
    which the partitions of a topic end. Raises UsageError for another level, CommandError for a log that does not
    exist."""
    ensure_log_exists(args, uri)
    options = property_pairs(args.from_option, "from-option")
    isolation = ""
    if "--isolation-level" in (option.name for option in args.command.options):
        isolation = _isolation(args, options)
    if cluster is not None and isolation == READ_COMMITTED:
        _report_open_ends(console, uri, cluster)
    return JobSource(uri, options, cluster, reports, isolation)


def _isolation(args: Args, options: Mapping[str, str]) -> str:
    if {"isolationlevel", "kafka.isolation.level"} & {name.lower() for name in options}:
        return ""
    if args.isolation_level is not None:
        ensure_one_of("isolation-level", args.isolation_level, (READ_COMMITTED, READ_UNCOMMITTED))
        return str(args.isolation_level)
    return READ_UNCOMMITTED if args.by == "offset" else READ_COMMITTED


def _report_open_ends(console: Console, uri: Uri, cluster: Cluster) -> None:
    from kafkatools.core.admin import offsets
    from kafkatools.core.admin.client import AdminClient
    from kafkatools.core.admin.topics import describe_topics
    from kafkatools.tools.lines.open_ends import report_open_ends

    topics = uri.topics
    with AdminClient(cluster.bootstrap, dict(cluster.settings), console.clock) as admin:
        described = describe_topics(admin, topics)
        latest = {(name, part.partition): -1 for name in topics for part in described[name].partitions}
        ends = offsets.list_offsets(admin, latest)
        stable = offsets.list_offsets(admin, latest, isolation_level=offsets.READ_COMMITTED)
    open_ends = {
        TopicPartition(*part): stable[part].offset
        for part in latest
        if ends[part].error is stable[part].error is None and stable[part].offset < ends[part].offset
    }
    report_open_ends(
        {**cluster.settings, "bootstrap.servers": cluster.bootstrap}, console.clock, open_ends, console.note
    )


def log_of_operand(args: Args, text: str | None, reports: str = "") -> JobSource:
    """Return the log files of an operand, PATH or log:PATH. Raises UsageError for a topic or no operand."""
    if not text:
        raise UsageError("The log is missing: a log directory, a partition directory or a segment")
    kind, colon, path = text.partition(":")
    if colon and kind == "topic":
        raise UsageError(f"{text}: this command reads log files; use log:PATH")
    target = path if colon and kind == "log" else text
    return JobSource(Uri("log", target), property_pairs(args.from_option, "from-option"), None, reports)


def ensure_one_of(option: str, value: str, choices: Sequence[str]) -> None:
    """Raise UsageError unless the value of an option is one of its choices."""
    if value not in choices:
        raise UsageError(f"--{option} takes {', '.join(choices)}, not {value}")


def ensure_at_least(option: str, value: int, least: int) -> None:
    """Raise UsageError if the value of an option is below `least`."""
    if value < least:
        raise UsageError(f"--{option} {value} must be at least {least}")


def snake_case(name: str) -> str:
    """Return the JSON key of a column name in camelCase."""
    return _CAPITAL.sub(r"_\1", name).lower()


def print_table(console: Console, kind: str, table: DataFrame, limit: int | None = None) -> int:
    """Print a DataFrame. Returns the number of rows; with a limit that is exceeded, limit + 1."""
    selection = table if limit is None else table.limit(limit + 1)
    if limit is None:
        return print_rows(console, kind, selection.columns, selection.toLocalIterator())
    rows = selection.collect()
    print_rows(console, kind, selection.columns, rows[:limit])
    return len(rows)


def print_rows(console: Console, kind: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> int:
    """Print rows as a table, or as JSON objects of the type `kind`. Returns the number of rows; without any, nothing is
    printed."""
    names = [snake_case(name) for name in columns]
    number = 0
    if console.is_json:
        for row in rows:
            number += 1
            values = zip(names, map(_json_value, row), strict=True)
            console.print_json({"type": kind, **dict(values)})
        return number
    cells = [[text(cell) for cell in row] for row in rows]
    if cells:
        table_text = table(names, cells, terminal=console.is_terminal, width=console.width)
        console.draw(table_text.rstrip("\n") + "\n")
    return len(cells)


def _json_value(value: object) -> object:
    if isinstance(value, datetime.datetime):
        return round(value.timestamp() * 1000)
    if hasattr(value, "asDict"):
        return _json_value(value.asDict())
    if isinstance(value, Mapping):
        return {snake_case(name): _json_value(item) for name, item in value.items()}
    return plain(value)
