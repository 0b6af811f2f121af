"""What a stream has committed according to its checkpoint and its sink, for the manifest of a stream that was killed.

Rules: Spark writes the plan of a micro-batch to `offsets/N` of the checkpoint and marks its end by `commits/N`: a batch
with the second file is committed. Sinks with a log of their own (files, appends to Delta) skip a repeated batch that
they have, without reading it, so for them the sink's log counts too. Any other repeated batch is read and counted
again. Spark deletes all but the last hundred batches, so that the start of a stream has to be noted while it is there.
"""

from __future__ import annotations

import json
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kafkatools.core.json_values import JsonValue
from kafkatools.pipeline import uris
from kafkatools.pipeline.run.spec import Pipeline
from kafkatools.pipeline.run.stream_sources import SourceOffsets, highest, lowest, parsed, source_name, topic_offsets
from kafkatools.pipeline.sinks.files import Directory
from kafkatools.pipeline.sinks.merge import table_name
from kafkatools.pipeline.sinks.table_versions import refresh, table_exists
from kafkatools.pipeline.sources.live import offsets as live_offsets

_LOG_VERSION = "v1"
_SINK_LOG = "_spark_metadata"
_OTHER_COMMITS = 100
"""How many commits of others may lie between those of a stream in a Delta table."""


class BatchOffsets(NamedTuple):
    """The end offsets of a micro-batch by the names of the pipeline's sources, and where the stream began, which only
    the first batch has. A source that is no topic has no offsets: its entry is empty. `unknown` has the names of topic
    sources whose offsets cannot be told from those of others; their entries are empty, too."""

    ends: dict[str, SourceOffsets]
    beginnings: dict[str, SourceOffsets]
    unknown: frozenset[str] = frozenset()


class StreamProgress:
    """The micro-batches of a stream. Raises PipelineError if the checkpoint cannot be read."""

    def __init__(self, spark: SparkSession, pipeline: Pipeline) -> None:
        assert pipeline.checkpoint is not None
        self._spark, self._pipeline = spark, pipeline
        self._checkpoint = Directory(spark, uris.absolute(pipeline.checkpoint))

    @property
    def is_visible(self) -> bool:
        """Return whether the checkpoint can be read here; False for a remote one over Spark Connect."""
        return self._checkpoint.is_visible

    def last_committed(self) -> int:
        """Return the number of the last micro-batch that will not be read again, -1 if there is none."""
        return max([*self._numbers("commits"), self._last_of_sink()], default=-1)

    def is_behind_sink(self) -> bool:
        """Return whether the log of a file sink has micro-batches that the checkpoint has not: those of a stream with
        another checkpoint. Spark takes batches of this stream up to the same number for written, and leaves them out.
        """
        is_file = self._pipeline.sink.uri.is_file and self.is_visible
        return is_file and self._last_of_sink() > max(self._numbers("offsets"), default=-1)

    def planned(self, number: int) -> BatchOffsets | None:
        """Return the offsets of a micro-batch; None if Spark has deleted them, or writes a format unknown here."""
        text = self._checkpoint.read_text(f"offsets/{number}")
        lines = [] if text is None else text.splitlines()
        if len(lines) < 2 or lines[0] != _LOG_VERSION:
            return None
        values = [parsed(line) for line in lines[2:]]  # None for "-": the source had no offset yet
        names = [source_name(self._pipeline, value) for value in values]
        uses = {
            source.name: [value for value, name in zip(values, names, strict=True) if name == source.name]
            for source in self._pipeline.sources
        }
        is_unknown = any(name is None and topic_offsets(value) for value, name in zip(values, names, strict=True))
        topics = {source.name for source in self._pipeline.sources if source.uri.kind == uris.TOPIC}
        return BatchOffsets(
            {name: highest(map(topic_offsets, ends)) for name, ends in uses.items()},
            {name: lowest(map(_beginning, ends)) for name, ends in uses.items()},
            frozenset(topics.difference(names) if is_unknown else ()),
        )

    def rows_written(self, first: int, last: int) -> int | None:
        """Return how many rows the micro-batches from `first` to `last` have appended to a table, by its commits. None
        if unknown: for merges, for other sinks, and if the table no longer lists one of the commits."""
        sink, query_id = self._pipeline.sink, self._query_id()
        if sink.merge_by or not sink.uri.is_table or query_id is None:
            return None
        commits = self._commits(last - first + 1)
        if commits is None:
            return None
        rows = commits.where(f"query = '{query_id}' AND CAST(batch AS BIGINT) BETWEEN {first} AND {last}").collect()
        known = {int(row["batch"]): int(row["rows"] or 0) for row in rows}
        return sum(known.values()) if known.keys() >= {*range(first, last + 1)} else None

    def _last_of_sink(self) -> int:
        sink = self._pipeline.sink
        if sink.uri.is_file:
            names = Directory(self._spark, uris.path_of(sink.uri)).log_names(_SINK_LOG)
            return max(
                (int(number) for name in names if (number := name.removesuffix(".compact")).isdigit()), default=-1
            )
        query_id = self._query_id() if sink.uri.kind == uris.DELTA and not sink.merge_by else None
        commits = None if query_id is None else self._commits(1)
        if commits is None:
            return -1
        found = commits.where(f"query = '{query_id}'").select(F.max(F.col("batch").cast("long"))).collect()[0][0]
        return -1 if found is None else int(found)

    def _numbers(self, log: str) -> list[int]:
        return [int(name) for name in self._checkpoint.log_names(log) if name.isdigit()]

    def _query_id(self) -> str | None:
        text = self._checkpoint.read_text("metadata")
        return None if text is None else str(json.loads(text)["id"])

    def _commits(self, batches: int) -> DataFrame | None:
        """Return `query`, `batch` and `rows` of the last micro-batches that the table lists, of other streams too; at
        least `batches` of this one unless others commit to it. None without a table."""
        uri = self._pipeline.sink.uri
        if not table_exists(self._spark, uri):
            return None
        if uri.kind == uris.DELTA:
            commits = self._spark.sql(f"DESCRIBE HISTORY {table_name(uri)} LIMIT {batches + _OTHER_COMMITS}")
            about, names, rows = (
                "operationParameters",
                ("queryId", "epochId"),
                F.col("operationMetrics")["numOutputRows"],
            )
        else:
            refresh(self._spark, uri)
            commits = self._spark.table(f"{uri.target}.snapshots")
            about, names = "summary", ("spark.sql.streaming.queryId", "spark.sql.streaming.epochId")
            rows = F.col("summary")["added-records"]
        query, batch = (F.trim(F.col(about)[name], F.lit('"')) for name in names)
        return commits.select(query.alias("query"), batch.alias("batch"), rows.alias("rows"))


def _beginning(value: JsonValue) -> SourceOffsets:
    began = live_offsets.beginning_of(value) if isinstance(value, dict) else None
    return {} if began is None else topic_offsets(dict(began))
