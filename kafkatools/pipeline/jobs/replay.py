"""`replay`: write records of a topic or of log files again, to one topic or to the topics they came from.

The framework that wrote a dead-letter record named its original topic in a header (ORIGIN_HEADERS). The header
REPLAYS_HEADER counts replays, so that a record that keeps failing is not replayed endlessly. Topics that are read are
not written to unless allowed. `planned` decides for each record, `decisions` counts the decisions, `to_send` returns
rows for the `kt` sink.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from kafkatools.core.clock import SystemClock
from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.sources.schema import HEADERS

ORIGIN_HEADERS = ("kafka_dlt-original-topic", "__connect.errors.topic")
"""The headers of Spring for Apache Kafka and of Kafka Connect."""

REPLAYS_HEADER = "kt-replays"
DEFAULT_MAX_REPLAYS = 3

SEND, NO_ORIGIN, TOO_OFTEN, LOOP = "send", "no-origin", "too-often", "loop"
_MAX_BATCH = 1000


@dataclass(frozen=True)
class ReplayPlan:
    """Settings of a replay. `to_topic` None sends each record to the topic in the first of `origin_headers` that it
    has. `where` is an SQL filter; `allows_loop` permits writing to `read_topics`. Records that were replayed
    `max_replays` times are not sent. `keeps_timestamps` False: the producer sets new timestamps."""

    read_topics: Collection[str]
    to_topic: str | None = None
    origin_headers: Sequence[str] = ORIGIN_HEADERS
    where: str | None = None
    max_replays: int = DEFAULT_MAX_REPLAYS
    allows_loop: bool = False
    keeps_timestamps: bool = False


def plan_replay(records: DataFrame, plan: ReplayPlan) -> DataFrame:
    """Return the filtered records with the columns `target` (topic), `replays` (previous replays) and `decision`: send,
    no-origin, too-often or loop. Records need `headers`. Raises PipelineError if `to_topic` is read and loops are not
    allowed."""
    if plan.to_topic in plan.read_topics and not plan.allows_loop:
        raise PipelineError(f"{plan.to_topic} would be both read and written; --allow-loop permits that")
    rows = records if plan.where is None else records.where(plan.where)
    replays = f.coalesce(_last_header(REPLAYS_HEADER).try_cast("int"), f.lit(0))
    origin = f.coalesce(*[_last_header(name) for name in plan.origin_headers], f.lit(None))
    target = origin if plan.to_topic is None else f.lit(plan.to_topic)
    is_loop = f.lit(False) if plan.allows_loop else f.col("target").isin(sorted(plan.read_topics))
    decision = (
        f.when(f.col("target").isNull(), NO_ORIGIN)
        .when(is_loop, LOOP)
        .when(f.col("replays") >= plan.max_replays, TOO_OFTEN)
        .otherwise(SEND)
    )
    return rows.withColumns({"target": target, "replays": replays}).withColumn("decision", decision)


def decisions(table: DataFrame) -> DataFrame:
    """Count the records of `planned` by topic, target and decision."""
    return (
        table.groupBy("topic", "target", "decision")
        .agg(f.count("*").alias("records"))
        .orderBy("topic", "target", "decision")
    )


def to_send(table: DataFrame, plan: ReplayPlan) -> DataFrame:
    """Return the rows of `planned` to send, with the columns of the `kt` sink: key, value, topic, headers with the
    replay count increased. With `keeps_timestamps` also the timestamp."""
    other_headers = f.filter(
        f.coalesce("headers", f.array().cast(HEADERS)), lambda header: header["key"] != REPLAYS_HEADER
    )
    replay_header = f.struct(
        f.lit(REPLAYS_HEADER).alias("key"), (f.col("replays") + 1).cast("string").cast("binary").alias("value")
    )
    columns = [
        f.col("key"),
        f.col("value"),
        f.col("target").alias("topic"),
        f.concat(other_headers, f.array(replay_header)).alias("headers"),
    ]
    if plan.keeps_timestamps:
        columns.append(f.col("timestamp"))
    return table.where(f.col("decision") == SEND).select(*columns)


def _last_header(name: str) -> Column:
    """Return a column with the text of the last header called `name`; null if the record has none or its value is
    null."""
    headers = f.filter("headers", lambda header: header["key"] == name)
    return f.try_element_at(headers, f.lit(-1))["value"].cast("string")


def at_rate(rows: DataFrame, records_a_second: float) -> DataFrame:
    """Limit the rows to a rate in records per second over all; a single task passes them on in order. Raises
    PipelineError for a rate that is not positive."""
    if records_a_second <= 0:
        raise PipelineError(f"The rate must be more than 0 records per second, not {records_a_second:g}")
    return rows.coalesce(1).mapInArrow(Throttle(records_a_second), rows.schema)


class Throttle:
    """A `mapInArrow` function that delays rows to a rate, in slices of at most 1000 rows or one second's rows, at least
    one row."""

    def __init__(self, records_a_second: float) -> None:
        self._rate = records_a_second

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        clock = SystemClock()
        start_ms, count = clock.now_ms(), 0
        step = max(1, min(_MAX_BATCH, int(self._rate)))
        for batch in batches:
            for first in range(0, batch.num_rows, step):
                part = batch.slice(first, step)
                due_ms = start_ms + int(1000 * count / self._rate)
                wait_ms = due_ms - clock.now_ms()
                if wait_ms > 0:
                    clock.sleep_ms(wait_ms)
                yield part
                count += part.num_rows
