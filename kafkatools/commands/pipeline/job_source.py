"""What the jobs' commands share: the source that they are given, and how they print their rows.

With --json a row is an object of the kind `type`, its keys are the columns in lower case with underscores, times are
ms; otherwise a table of the same columns.
"""

from __future__ import annotations

import datetime
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from kafkatools.commands.pipeline.show import counted, plain
from kafkatools.commands.pipeline.spark import SPARK_OPTIONS, cluster_of, usage
from kafkatools.exit_status import ExitStatus, UsageError
from kafkatools.options import BOOTSTRAP_SERVER, Args, Option, command_config, property_pairs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kafkatools.console import Console
    from kafkatools.pipeline.run.reports import Damage
    from kafkatools.pipeline.uris import Cluster, Uri

FROM_OPTION = Option("--from-option", "An option of the source, as Spark knows it.", value="KEY=VALUE", repeatable=True)
CONNECTION = (BOOTSTRAP_SERVER, command_config())
SOURCE_OPTIONS = (FROM_OPTION, *SPARK_OPTIONS, *CONNECTION)
_CAPITAL = re.compile(r"(?<=[a-z0-9])([A-Z])")


class GivenSource(NamedTuple):
    """A topic or the files of a log, as the command line names them. What of it cannot be read is told in `reports`."""

    uri: Uri
    options: Mapping[str, str]
    cluster: Cluster | None
    reports: str = ""

    def table(self, spark: SparkSession, columns: Sequence[str] = (), **options: str) -> DataFrame:
        """Its records, only these of their columns (all of Spark's own when none is named)."""
        from kafkatools.pipeline.sources.schema import HEADER_COLUMNS, METADATA_COLUMNS, RECORD_COLUMNS
        from kafkatools.pipeline.uris import read_source

        types = {**RECORD_COLUMNS, **HEADER_COLUMNS, **METADATA_COLUMNS}
        schema = ", ".join(f"{name} {types[name]}" for name in columns) or None
        return read_source(spark, self.uri, self._reporting("records", options), self.cluster, schema)

    def batches(self, spark: SparkSession, columns: Sequence[str]) -> DataFrame:
        """These columns of the table of a log's batches."""
        from kafkatools.pipeline.sources.schema import BATCH_COLUMNS
        from kafkatools.pipeline.uris import read_source

        schema = ", ".join(f"{name} {BATCH_COLUMNS[name]}" for name in columns)
        return read_source(spark, self.uri, self._reporting("batches", {"table": "batches"}), None, schema)

    def _reporting(self, part: str, more: Mapping[str, str]) -> dict[str, str]:
        """The options of a read. A look at headers alone reports apart: it would write over what reading found."""
        place = {"reportPath": reports_of(self.reports, part)} if self.reports else {}
        return {**place, **self.options, **more}

    @property
    def is_log(self) -> bool:
        return self.uri.kind == "log"


def reports_of(directory: str, part: str) -> str:
    """Where reads of records, or of batches, report."""
    return os.path.join(directory, part)


@contextmanager
def damage_reports() -> Iterator[str]:
    """A directory where readers tell what they could not read."""
    with tempfile.TemporaryDirectory(prefix="kt-pipeline-") as directory:
        yield directory


def tell_damages(console: Console, reports: str) -> ExitStatus:
    """Says how much could not be read: FINDINGS when there was something."""
    found = _damages(reports)
    if not found:
        return ExitStatus.OK
    console.error(f"{counted(len(found), 'damaged range')} left out, the first: {found[0].text()}", "DAMAGE")
    return ExitStatus.FINDINGS


def count_damages(reports: str) -> int:
    """How many ranges could not be read."""
    return len(_damages(reports))


def _damages(reports: str) -> list[Damage]:
    from kafkatools.pipeline.run.reports import read_reports

    parts = [report for part in ("batches", "records") for report in read_reports(reports_of(reports, part))]
    found = {(each.file, each.position): each for report in parts for each in report.damages}
    return [found[place] for place in sorted(found)]


def given_source(console: Console, args: Args, text: str | None, reports: str = "") -> GivenSource:
    """The source that an operand names. UsageError when it is none; a topic must be there."""
    from kafkatools.pipeline.uris import parse_source

    if text is None:
        raise UsageError("Which source? topic:NAME or log:PATH")
    with usage():
        uri = parse_source(text)
    if not uri.is_kafka:
        raise UsageError(f"{text}: this takes Kafka's records, topic:NAME or log:PATH")
    options = property_pairs(args.from_option, "from-option")
    if uri.kind == "log":
        return GivenSource(uri, options, None, reports)
    topics = [name for name in uri.target.split(",") if name]
    return GivenSource(uri, options, cluster_of(console, args, *topics), reports)


def given_log(args: Args, text: str | None, reports: str = "") -> GivenSource:
    """A source that has to be files."""
    from kafkatools.pipeline.uris import Uri

    if not text:
        raise UsageError("Which log? A directory of partitions, a partition's directory, or a segment")
    kind, colon, path = text.partition(":")
    if colon and kind == "topic":
        raise UsageError(f"{text}: this is told from the files of a log, log:PATH")
    target = path if colon and kind == "log" else text
    return GivenSource(Uri("log", target), property_pairs(args.from_option, "from-option"), None, reports)


def ensure_one_of(option: str, value: str, choices: Sequence[str]) -> None:
    """UsageError unless the value of an option is one of these."""
    if value not in choices:
        raise UsageError(f"--{option} takes {', '.join(choices)}, not {value}")


def snake_case(name: str) -> str:
    """The name of a column as our JSON has it."""
    return _CAPITAL.sub(r"_\1", name).lower()


def print_table(console: Console, kind: str, table: DataFrame, limit: int | None = None) -> int:
    """Prints the rows, at most so many; how many there were to print, one more than the limit for "more"."""
    shown = table if limit is None else table.limit(limit + 1)
    if limit is None:
        return print_rows(console, kind, shown.columns, shown.toLocalIterator())
    rows = shown.collect()
    print_rows(console, kind, shown.columns, rows[:limit])
    return len(rows)


def print_rows(console: Console, kind: str, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> int:
    """The same of rows that are here; how many."""
    names = [snake_case(name) for name in columns]
    number = 0
    if console.is_json:
        for row in rows:
            number += 1
            values = zip(names, map(_json_value, row), strict=True)
            console.print_json({"type": kind, **dict(values)})
        return number
    from kafkatools.commands.pipeline.show import text
    from kafkatools.output import table

    cells = [[text(cell) for cell in row] for row in rows]
    if cells:
        drawn = table(names, cells, terminal=console.is_terminal, width=console.width)
        console.draw(drawn.rstrip("\n") + "\n")
    return len(cells)


def _json_value(value: object) -> object:
    if isinstance(value, datetime.datetime):
        return round(value.timestamp() * 1000)
    if hasattr(value, "asDict"):
        return {snake_case(name): _json_value(item) for name, item in value.asDict().items()}
    return plain(value)
