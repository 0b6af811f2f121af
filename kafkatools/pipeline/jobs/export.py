"""`export`: write topics or log directories as Parquet, JSON or CSV files, in directories by date or topic; resumable.

A run works in rounds, each over some offsets of all partitions. The files of a round are written to a hidden directory.
Then the state file (STATE) records the round's end offsets and the files to move, and only then the files are moved
into place. The next run moves the recorded files first, so that a killed run resumes without lost or duplicate records.
A later run exports the offsets since.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as f

from kafkatools.core.topic_partition import TopicPartition
from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.jobs.offsets import Ranges, offsets_of, read_ranges
from kafkatools.pipeline.run.manifest import write_whole
from kafkatools.pipeline.sinks.files import Directory
from kafkatools.pipeline.storage import local_path
from kafkatools.pipeline.uris import Cluster, Uri, path_of

STATE = "_kt_export.json"
_STAGE = "_kt-export"
_VERSION = 1
FORMATS = ("parquet", "json", "csv")
BY_DATE, BY_TOPIC = "date", "topic"
LAYOUTS = (BY_DATE, BY_TOPIC)
DEFAULT_ROUND = 20_000_000
_SELECTION_OPTIONS = (
    "isolationlevel", "kafka.isolation.level", "includeheaders", "assign", "subscribe", "subscribepattern",
)  # fmt: skip
"""Lower-case names of the source options that determine which records and columns an export has."""


@dataclass(frozen=True)
class Export:
    """The options of an export. `partition_by` lists date (UTC date of the timestamp) and topic in directory order.
    `where` is an SQL filter. `round_offsets` is the approximate number of offsets in a round. `is_text`, always on in
    CSV, writes keys and values as text, or as base64 in a separate column if not UTF-8."""

    source: Uri
    sink: Uri
    cluster: Cluster | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    sink_options: Mapping[str, str] = field(default_factory=dict)
    partition_by: tuple[str, ...] = (BY_DATE,)
    where: str | None = None
    is_text: bool = False
    round_offsets: int = DEFAULT_ROUND


@dataclass
class Exported:
    """Rows, files and rounds that a run has added, and the next offset of each partition. `deleted_ranges` are offset
    ranges that were deleted before their export."""

    rows: int = 0
    files: int = 0
    rounds: int = 0
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    deleted_ranges: dict[TopicPartition, tuple[int, int]] = field(default_factory=dict)


def shape_rows(records: DataFrame, export: Export) -> DataFrame:
    """Return the rows to write: filtered by `where`, record columns as text if requested, and `date` if it is a
    directory level. CSV has headers as JSON."""
    columns: list[Column] = []
    is_text = export.is_text or export.sink.kind == "csv"
    for name in records.columns:
        if name in ("key", "value") and is_text:
            text = f.col(name).cast("string")
            columns.append(f.when(f.is_valid_utf8(text), text).alias(name))
            columns.append(f.when(~f.is_valid_utf8(text), f.base64(name)).alias(f"{name}Base64"))
        elif name == "headers" and export.sink.kind == "csv":
            columns.append(f.to_json(name).alias(name))
        else:
            columns.append(f.col(name))
    if BY_DATE in export.partition_by:
        columns.append(f.to_date("timestamp").alias("date"))
    rows = records if export.where is None else records.where(export.where)
    return rows.select(*columns)


def run_export(
    spark: SparkSession, export: Export, after_round: Callable[[Exported], object] | None = None
) -> Exported:
    """Finish the file moves of an interrupted run, then export the offsets available now that are not exported yet, in
    rounds. `after_round` is called with the progress after each round. Returns the sums. Raises PipelineError."""
    state = _State.load(spark, export)
    state.finish_move()
    ends = offsets_of(spark, export.source, export.options, export.cluster)
    progress = Exported(ends=dict(state.ends), deleted_ranges=lost_ranges(ends, state.ends))
    while ranges := next_ranges(ends, state.ends, export.round_offsets):
        progress.rows += state.round(read_ranges(spark, export.source, export.options, export.cluster, ranges), ranges)
        progress.rounds += 1
        progress.files += state.finish_move()
        progress.ends = dict(state.ends)
        if after_round is not None:
            after_round(progress)
    return progress


def lost_ranges(available: Ranges, exported: Mapping[TopicPartition, int]) -> dict[TopicPartition, tuple[int, int]]:
    """Return the offset ranges after the exported offsets that are no longer available."""
    return {
        partition: (exported[partition], start)
        for partition, (start, _) in sorted(available.items())
        if partition in exported and exported[partition] < start
    }


def next_ranges(available: Ranges, exported: Mapping[TopicPartition, int], at_once: int) -> Ranges:
    """Return the next offset range of each partition with new offsets, about `at_once` offsets in all, but at least one
    for each partition; empty if nothing is new."""
    remaining = {}
    for partition, (start, end) in sorted(available.items()):
        first = max(start, exported.get(partition, start))
        if first < end:
            remaining[partition] = (first, end)
    share = max(1, at_once // max(len(remaining), 1))
    return {partition: (first, min(end, first + share)) for partition, (first, end) in remaining.items()}


@dataclass(eq=False, repr=False)
class _State:
    """The state file of an export: the next offset of each partition, and the files of the current round to move."""

    spark: SparkSession
    export: Export
    directory: Directory
    path: str
    _moving: list[str] = field(default_factory=list, init=False)
    ends: dict[TopicPartition, int] = field(default_factory=dict, init=False)

    @classmethod
    def load(cls, spark: SparkSession, export: Export) -> _State:
        """Read the state of an export, or create the directory for one. Raises PipelineError if the sink is not a local
        directory, has other content, or belongs to an export with other settings."""
        place = path_of(export.sink)
        local = local_path(place)
        directory = Directory(spark, place)
        if local is None or not directory.can_move:
            raise PipelineError(
                f"{export.sink} must be a local directory, and the session not Spark Connect, for an export"
            )
        state = cls(spark, export, directory, os.path.join(local, STATE))
        if os.path.exists(state.path):
            state._read()
        elif directory.exists():
            raise PipelineError(f"{export.sink} contains files that are not an export; name an empty directory")
        else:
            os.makedirs(local, exist_ok=True)
        return state

    def _identity(self) -> dict[str, object]:
        export = self.export
        shape = {"format": export.sink.kind, "partition_by": list(export.partition_by), "text": export.is_text}
        options = {name.lower(): value for name, value in export.options.items()}
        selection = {name: options.get(name) for name in _SELECTION_OPTIONS}
        return {"source": str(export.source), "where": export.where, **shape, **selection}

    def _read(self) -> None:
        try:
            with open(self.path, encoding="utf-8") as file:
                content = json.load(file)
            if content["version"] != _VERSION:
                raise PipelineError(f"{self.path} has version {content['version']}; supported is version {_VERSION}")
            recorded, moving = content["export"], content["moving"]
            rows = [(TopicPartition(row["topic"], row["partition"]), row["end"]) for row in content["partitions"]]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise PipelineError(f"{self.path} is not the state of an export: {error}") from None
        for name, value in self._identity().items():
            if recorded.get(name) != value:
                raise PipelineError(f"{self.export.sink} is an export with {name} {recorded.get(name)}, not {value}")
        self.ends, self._moving = dict(rows), moving

    def _save(self) -> None:
        partitions = [
            {"topic": partition.topic, "partition": partition.partition, "end": end}
            for partition, end in self.ends.items()
        ]
        write_whole(
            self.path,
            {"version": _VERSION, "export": self._identity(), "partitions": partitions, "moving": self._moving},
        )

    def round(self, records: DataFrame, ranges: Ranges) -> int:
        """Write the files of a round to the hidden directory, record them and the round's end offsets in the state
        file, and return the number of rows. Raises PipelineError if the state file cannot be written; Spark's
        exceptions pass through."""
        export, observation = self.export, Observation()
        self.directory.delete([_STAGE])
        rows = shape_rows(records, export).observe(observation, f.count(f.lit(1)).alias("rows"))
        writer = rows.write.format(export.sink.kind).mode("overwrite").options(**dict(export.sink_options))
        if export.sink.kind == "csv":
            writer = writer.option("header", "true")
        writer.partitionBy(*export.partition_by).save(f"{path_of(export.sink)}/{_STAGE}")
        self._moving = [file.path for file in self.directory.files(_STAGE)]
        self.ends = {**self.ends, **{partition: end for partition, (_, end) in ranges.items()}}
        self._save()
        return int(observation.get["rows"])

    def finish_move(self) -> int:
        """Move the files recorded in the state into place and return their number, 0 if none is recorded. Deletes the
        hidden directory. Raises PipelineError if a file is missing or cannot be moved."""
        moved = len(self._moving)
        if moved:
            self.directory.move(_STAGE, self._moving)
            self._moving = []
            self._save()
        self.directory.delete([_STAGE])
        return moved
