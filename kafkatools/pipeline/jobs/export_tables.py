"""`export` on Spark into Delta and Iceberg tables: each round is one commit of the table.

Rules: the table's property `kt.export` has the next offset of each partition and the ranges of the round that is being
written; it is set before the rows are written. The commit of the rows has the id of the export and the number of the
round. A run that finds a round in the property looks for its commit: if there is one, the round is done, else the same
ranges are written again. Delta also refuses a commit with a number that it has already. The property's value is
compressed and written in hexadecimal digits: Spark hides values of properties that look like a URL or a secret.
"""

from __future__ import annotations

import json
import uuid
import zlib
from collections.abc import Callable

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from kafkatools.core.topic_partition import TopicPartition
from kafkatools.pipeline import uris
from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.identifiers import quoted
from kafkatools.pipeline.jobs.export import shape_rows
from kafkatools.pipeline.jobs.export_state import Export, Exported, export_identity, lost_ranges, next_ranges
from kafkatools.pipeline.jobs.offsets import Ranges, offsets_of, read_ranges
from kafkatools.pipeline.run.batch import unreadable
from kafkatools.pipeline.run.session import is_connected
from kafkatools.pipeline.sinks.merge import table_name
from kafkatools.pipeline.sinks.table_versions import refresh, table_exists

PROPERTY = "kt.export"
_ID, _ROUND = "kt-export", "kt-round"
"""Properties of the Iceberg snapshot of a round."""
_LATEST_COMMITS = 100


def run_table_export(
    spark: SparkSession, export: Export, after_round: Callable[[Exported], object] | None = None
) -> Exported:
    """Finish the round of an interrupted run, then export the offsets available now that are not exported yet, in
    rounds. `after_round` is called with the progress after each round. Returns the sums. Raises PipelineError."""
    try:
        return _run_rounds(spark, export, after_round)
    except PySparkException as error:
        raise PipelineError(unreadable(export.sink, error)) from error


def _run_rounds(spark: SparkSession, export: Export, after_round: Callable[[Exported], object] | None) -> Exported:
    if is_connected(spark):
        raise PipelineError(f"An export into {export.sink} does not work over Spark Connect: use another --master")
    state = TableState(spark, export)
    available = offsets_of(spark, export.source, export.options, export.cluster)
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
        self._exists = table_exists(spark, export.sink)
        if self._exists:
            self._read()

    def _read(self) -> None:
        rows = self._spark.sql(f"SHOW TBLPROPERTIES {self._name}").where(f.col("key") == PROPERTY).collect()
        if not rows:
            raise PipelineError(f"{self._export.sink} is a table that is not an export; name a new one")
        try:
            content = json.loads(zlib.decompress(bytes.fromhex(rows[0]["value"])))
            recorded, self._id, self._round = content["export"], content["id"], content["round"]
            self.ends = {TopicPartition(topic, number): end for topic, number, end in content["partitions"]}
            self._ranges = {TopicPartition(topic, number): (a, b) for topic, number, a, b in content["writing"]}
        except (ValueError, KeyError, TypeError, zlib.error) as error:
            raise PipelineError(f"{self._export.sink}: property {PROPERTY} is not that of an export: {error}") from None
        for name, value in export_identity(self._export).items():
            if recorded.get(name) != value:
                raise PipelineError(f"{self._export.sink} is an export with {name} {recorded.get(name)}, not {value}")

    def remaining_round(self, available: Ranges) -> Ranges:
        """Return the ranges of an unfinished round, without deleted offsets; empty if there is none, or if its rows are
        in the table."""
        if self._ranges and self._rows_written() is not None:
            self._finish()
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
        """Write the rows of the round in one commit and return their number. Spark's exceptions pass through."""
        sink, options = self._export.sink, dict(self._export.sink_options)
        if sink.kind == uris.DELTA:
            marks = {"txnAppId": self._id, "txnVersion": str(self._round), "userMetadata": self._mark()}
            rows.write.format("delta").mode("append").options(**options, **marks).save(uris.path_of(sink))
        else:
            marks = {f"snapshot-property.{_ID}": self._id, f"snapshot-property.{_ROUND}": str(self._round)}
            rows.writeTo(sink.target).options(**options, **marks).append()
        count = self._rows_written()
        self._finish()
        return count or 0

    def settle(self) -> None:
        """Record that the last round is done."""
        if self._exists and self._is_unsettled:
            self._save()

    def _finish(self) -> None:
        self.ends = {**self.ends, **{partition: end for partition, (_, end) in self._ranges.items()}}
        self._ranges, self._is_unsettled = {}, True

    def _rows_written(self) -> int | None:
        """Return the number of rows of the round according to its commit; None if the table has no such commit."""
        if self._export.sink.kind == uris.DELTA:
            history = self._spark.sql(f"DESCRIBE HISTORY {self._name} LIMIT {_LATEST_COMMITS}")
            found = history.where(f.col("userMetadata") == self._mark()).select(
                f.col("operationMetrics")["numOutputRows"]
            )
        else:
            refresh(self._spark, self._export.sink)
            summary = f.col("summary")
            found = (
                self._spark.table(f"{self._name}.snapshots")
                .where((summary[_ID] == self._id) & (summary[_ROUND] == str(self._round)))
                .select(summary["added-records"])
            )
        rows = found.collect()
        return int(rows[0][0] or 0) if rows else None

    def _mark(self) -> str:
        return f"kt pipeline export {self._id} round {self._round}"

    def _save(self) -> None:
        self._spark.sql(f"ALTER TABLE {self._name} SET TBLPROPERTIES ({self._property()})")
        self._is_unsettled = False

    def _property(self) -> str:
        content = {
            "export": export_identity(self._export),
            "id": self._id,
            "round": self._round,
            "partitions": [(*partition, end) for partition, end in sorted(self.ends.items())],
            "writing": [(*partition, *offsets) for partition, offsets in sorted(self._ranges.items())],
        }
        return f"'{PROPERTY}' = '{zlib.compress(json.dumps(content).encode()).hex()}'"
