"""`export` on Spark into Delta and Iceberg tables: each round is one commit of the table.

Rules: the table's property `kt.export` has the next offset of each partition and the ranges of the round that is being
written; it is set before the rows are written. The commit of the rows has the id of the export, the number of the round
and its ranges. A run that finds a round in the property looks for its commit: if there is one, the round is done, else
the same ranges are written again. Delta also refuses a commit with a number that it has already. The property's value
and the ranges are compressed and written in hexadecimal digits: Spark hides values of properties that look like a URL
or a secret.

Two runs at the same time overwrite each other's property, which may then be behind the commits. So a run looks for the
commit of its round before it writes, and continues after the ranges of that commit.
"""

from __future__ import annotations

import json
import uuid
import zlib
from collections.abc import Callable, Iterable
from typing import NamedTuple

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from kafkatools.core.topic_partition import TopicPartition
from kafkatools.pipeline import uris
from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.identifiers import quoted
from kafkatools.pipeline.jobs.export import shape_rows
from kafkatools.pipeline.jobs.export_state import (
    Export,
    Exported,
    ensure_continued,
    ensure_same_export,
    ensure_same_topics,
    export_identity,
    ids_to_record,
    lost_ranges,
    next_ranges,
)
from kafkatools.pipeline.jobs.offsets import Ranges, offsets_of, read_ranges
from kafkatools.pipeline.run.batch import unreadable
from kafkatools.pipeline.run.session import is_connected
from kafkatools.pipeline.sinks.merge import table_name
from kafkatools.pipeline.sinks.table_versions import refresh, table_exists

PROPERTY = "kt.export"
_ID, _ROUND, _RANGES = "kt-export", "kt-round", "kt-ranges"
"""Properties of the Iceberg snapshot of a round."""
_LATEST_COMMITS = 100


class _Commit(NamedTuple):
    """The commit of a round: its number of rows, and the offset ranges that they are from."""

    rows: int
    ranges: dict[TopicPartition, tuple[int, int]]


def run_table_export(
    spark: SparkSession, export: Export, after_round: Callable[[Exported], object] | None = None
) -> Exported:
    """Finish the round of an interrupted run, then export the offsets available now that are not exported yet, in
    rounds. `after_round` is called with the progress after each round. Returns the sums. Raises PipelineError."""
    try:
        return _run_rounds(spark, export, after_round)
    except (PySparkException, Py4JError) as error:  # PySpark does not translate every exception of the JVM
        raise PipelineError(unreadable(export.sink, error)) from error


def _run_rounds(spark: SparkSession, export: Export, after_round: Callable[[Exported], object] | None) -> Exported:
    if is_connected(spark):
        raise PipelineError(f"An export into {export.sink} does not work over Spark Connect: use another --master")
    state = TableState(spark, export)
    available = offsets_of(spark, export.source, export.options, export.cluster)
    ensure_same_topics(export, state.topic_ids)
    ensure_continued(export, available, state.ends)
    progress = Exported(ends=dict(state.ends), deleted_ranges=lost_ranges(available, state.ends))
    while ranges := state.remaining_round(available) or next_ranges(available, state.ends, export.round_offsets):
        rows = shape_rows(read_ranges(spark, export.source, export.options, export.cluster, ranges), export)
        state.begin(rows, ranges)
        progress.rows += state.write(rows)
        progress.rounds += 1
        progress.ends = dict(state.ends)
        if after_round is not None:
            after_round(progress)
    state.settle()
    return progress


class TableState:
    """The progress of an export, in a property of its table."""

    def __init__(self, spark: SparkSession, export: Export) -> None:
        """Read the property. Raises PipelineError if the table is no export or one with other settings."""
        self._spark, self._export = spark, export
        self._name = table_name(export.sink)
        self._id, self._round = uuid.uuid4().hex, 0
        self._ranges: dict[TopicPartition, tuple[int, int]] = {}
        self._is_unsettled = False
        self.ends: dict[TopicPartition, int] = {}
        self.topic_ids: dict[str, str] = {}
        self._exists = table_exists(spark, export.sink)
        if self._exists:
            self._read()
        if self._ranges and (commit := self._commit("")) is not None:
            self._finish(commit.ranges)

    def _read(self) -> None:
        rows = self._spark.sql(f"SHOW TBLPROPERTIES {self._name}").where(f.col("key") == PROPERTY).collect()
        if not rows:
            raise PipelineError(f"{self._export.sink} is a table that is not an export; name a new one")
        try:
            content = json.loads(_unpacked(rows[0]["value"]))
            recorded, self._id, self._round = content["export"], content["id"], content["round"]
            self.ends = {TopicPartition(topic, number): end for topic, number, end in content["partitions"]}
            self._ranges = _ranges_of(content["writing"])
            self.topic_ids = dict(content.get("topicIds", {}))
        except (ValueError, KeyError, TypeError, zlib.error) as error:
            raise PipelineError(f"{self._export.sink}: property {PROPERTY} is not that of an export: {error}") from None
        ensure_same_export(self._export, recorded)

    def remaining_round(self, available: Ranges) -> Ranges:
        """Return the ranges of an unfinished round, without deleted offsets; empty if there is none."""
        starts = {
            partition: max(start, available[partition][0])
            for partition, (start, _) in self._ranges.items()
            if partition in available
        }
        return {
            partition: (start, self._ranges[partition][1])
            for partition, start in starts.items()
            if start < self._ranges[partition][1]
        }

    def begin(self, rows: DataFrame, ranges: Ranges) -> None:
        """Record the ranges of a round before its rows are written; create the table of a first one."""
        if not self._ranges:
            self._round += 1
        self._ranges = {**self._ranges, **ranges}
        if self._exists:
            self._save()
            return
        columns = rows._jdf.schema().asNullable().toDDL()
        levels = ", ".join(map(quoted, self._export.partition_by))
        partitioned = f"PARTITIONED BY ({levels})" if levels else ""
        self._spark.sql(
            f"CREATE TABLE {self._name} ({columns}) USING {self._export.sink.kind} {partitioned} "
            f"TBLPROPERTIES ({self._property()})"
        )
        self._exists = True

    def write(self, rows: DataFrame) -> int:
        """Write the rows of the round in one commit and return their number; 0 if another run has written the round.
        Raises PipelineError if both have. Spark's exceptions pass through."""
        if (commit := self._commit()) is not None:
            self._finish(commit.ranges)
            return 0
        sink, options, ranges = self._export.sink, dict(self._export.sink_options), _packed(self._rows_of_ranges())
        if sink.kind == uris.DELTA:
            marks = {"txnAppId": self._id, "txnVersion": str(self._round), "userMetadata": f"{self._mark()}{ranges}"}
            rows.write.format("delta").mode("append").options(**options, **marks).save(uris.path_of(sink))
        else:
            properties = {_ID: self._id, _ROUND: str(self._round), _RANGES: ranges}
            marks = {f"snapshot-property.{name}": value for name, value in properties.items()}
            rows.writeTo(sink.target).options(**options, **marks).append()
        commit = self._commit() or self._commit("")
        is_own = commit is not None and commit.ranges == self._ranges
        self._finish(self._ranges if commit is None else commit.ranges)
        return commit.rows if commit is not None and is_own else 0

    def settle(self) -> None:
        """Record that the last round is done."""
        if self._exists and self._is_unsettled:
            self._save()

    def _finish(self, ranges: Ranges) -> None:
        self.ends = {**self.ends, **{partition: end for partition, (_, end) in ranges.items()}}
        self._ranges, self._is_unsettled = {}, True

    def _commit(self, limit: str = f" LIMIT {_LATEST_COMMITS}") -> _Commit | None:
        """Return the commit of the round; None if the table has none, in Delta within the limit. Raises PipelineError
        if two runs have committed it."""
        if self._export.sink.kind == uris.DELTA:
            mark = f.col("userMetadata")
            found = (
                self._spark.sql(f"DESCRIBE HISTORY {self._name}{limit}")
                .where(mark.startswith(self._mark()))
                .select(f.col("operationMetrics")["numOutputRows"], f.substring_index(mark, " ", -1))
            )
        else:
            refresh(self._spark, self._export.sink)
            summary = f.col("summary")
            found = (
                self._spark.table(f"{self._name}.snapshots")
                .where((summary[_ID] == self._id) & (summary[_ROUND] == str(self._round)))
                .select(summary["added-records"], summary[_RANGES])
            )
        commits = [
            _Commit(int(rows or 0), _ranges_of(json.loads(_unpacked(ranges)))) for rows, ranges in found.collect()
        ]
        if len(commits) > 1:
            raise PipelineError(
                f"{self._export.sink}: two runs exported into the table at the same time, so it has the rows of round "
                f"{self._round} twice; roll one of its two commits back, and let one run at a time write"
            )
        return commits[0] if commits else None

    def _mark(self) -> str:
        return f"kt pipeline export {self._id} round {self._round} of "

    def _rows_of_ranges(self) -> list[tuple[str, int, int, int]]:
        return [(*partition, *offsets) for partition, offsets in sorted(self._ranges.items())]

    def _save(self) -> None:
        self._spark.sql(f"ALTER TABLE {self._name} SET TBLPROPERTIES ({self._property()})")
        self._is_unsettled = False

    def _property(self) -> str:
        content = {
            "export": export_identity(self._export),
            "id": self._id,
            "round": self._round,
            "partitions": [(*partition, end) for partition, end in sorted(self.ends.items())],
            "topicIds": ids_to_record(self._export, self.topic_ids, [*self.ends, *self._ranges]),
            "writing": self._rows_of_ranges(),
        }
        return f"'{PROPERTY}' = '{_packed(content)}'"


def _packed(content: object) -> str:
    return zlib.compress(json.dumps(content).encode()).hex()


def _unpacked(text: str) -> bytes:
    return zlib.decompress(bytes.fromhex(text))


def _ranges_of(rows: Iterable[tuple[str, int, int, int]]) -> dict[TopicPartition, tuple[int, int]]:
    return {TopicPartition(topic, number): (start, end) for topic, number, start, end in rows}
