"""`replay`: records of a topic (a dead-letter topic, or a log's files) written again, to one topic or to their own.

Where a record came from stands in a header that the framework wrote which put it there (ORIGIN_HEADERS), and each
replay is counted in a header of ours, REPLAYS_HEADER: a record that fails again and comes back is not sent round for
ever. Nothing is written to a topic that is read, unless that is asked for. `planned` gives every record its fate;
`decisions` counts the fates, `to_send` are the rows for the sink `kt`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from kafkatools.core.clock import SystemClock
from kafkatools.pipeline.errors import PipelineError

ORIGIN_HEADERS = ("kafka_dlt-original-topic", "__connect.errors.topic")
"""Spring for Apache Kafka's, Kafka Connect's."""

REPLAYS_HEADER = "kt-replays"
DEFAULT_MAX_REPLAYS = 3

SEND, NO_ORIGIN, TOO_OFTEN, LOOP = "send", "no-origin", "too-often", "loop"
_MAX_BATCH = 1000


@dataclass(frozen=True)
class ReplayPlan:
    """What to do: `to_topic` for all records, or None for each one's own, out of the first of `origin_headers` that it
    has. `read_topics` are those that are read; `allows_loop` lets records go back there."""

    read_topics: Collection[str]
    to_topic: str | None = None
    origin_headers: Sequence[str] = ORIGIN_HEADERS
    where: str | None = None
    max_replays: int = DEFAULT_MAX_REPLAYS
    allows_loop: bool = False
    keeps_timestamps: bool = False


def planned(records: DataFrame, plan: ReplayPlan) -> DataFrame:
    """The records that the filter takes, with `target` (the topic to write to), `replays` (how often it was replayed
    before) and `decision`: send, no-origin (no header names its topic), too-often, or loop. Needs `headers`.
    """
    if plan.to_topic in plan.read_topics and not plan.allows_loop:
        raise PipelineError(f"{plan.to_topic} is read and would be written to: say --allow-loop if that is meant")
    chosen = records if plan.where is None else records.where(plan.where)
    replays = f.coalesce(_last_header(REPLAYS_HEADER).try_cast("int"), f.lit(0))
    own = f.coalesce(*[_last_header(name) for name in plan.origin_headers], f.lit(None))
    target = own if plan.to_topic is None else f.lit(plan.to_topic)
    is_loop = f.lit(False) if plan.allows_loop else f.col("target").isin(sorted(plan.read_topics))
    decision = (
        f.when(f.col("target").isNull(), NO_ORIGIN)
        .when(is_loop, LOOP)
        .when(f.col("replays") >= plan.max_replays, TOO_OFTEN)
        .otherwise(SEND)
    )
    return chosen.withColumns({"target": target, "replays": replays}).withColumn("decision", decision)


def decisions(table: DataFrame) -> DataFrame:
    """How many records of `planned` go where: topic, target, decision, records."""
    return (
        table.groupBy("topic", "target", "decision")
        .agg(f.count("*").alias("records"))
        .orderBy("topic", "target", "decision")
    )


def to_send(table: DataFrame, plan: ReplayPlan) -> DataFrame:
    """The rows of `planned` that are to be sent, as the sink takes them: key, value, topic, headers with the count of
    replays one higher; the timestamp too with `keeps_timestamps`.
    """
    others = f.filter(f.coalesce("headers", _no_headers()), lambda each: each["key"] != REPLAYS_HEADER)
    counted = f.struct(
        f.lit(REPLAYS_HEADER).alias("key"), (f.col("replays") + 1).cast("string").cast("binary").alias("value")
    )
    columns = [
        f.col("key"),
        f.col("value"),
        f.col("target").alias("topic"),
        f.concat(others, f.array(counted)).alias("headers"),
    ]
    if plan.keeps_timestamps:
        columns.append(f.col("timestamp"))
    return table.where(f.col("decision") == SEND).select(*columns)


def _no_headers() -> Column:
    from kafkatools.pipeline.sources.schema import HEADERS

    return f.array().cast(HEADERS)


def _last_header(name: str) -> Column:
    """The value of the last header of a name as text; null when there is none."""
    found = f.filter("headers", lambda each: each["key"] == name)
    return f.try_element_at(found, f.lit(-1))["value"].cast("string")


def at_rate(rows: DataFrame, records_a_second: float) -> DataFrame:
    """The same rows, no more than so many a second in all: one task takes them, in their order, and waits."""
    if records_a_second <= 0:
        raise PipelineError(f"a rate is a number of records a second above 0, not {records_a_second:g}")
    return rows.coalesce(1).mapInArrow(Throttle(records_a_second), rows.schema)


class Throttle:
    """Lets batches of rows through on time; a second's worth at most at once."""

    def __init__(self, records_a_second: float) -> None:
        self._rate = records_a_second

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        clock = SystemClock()
        start_ms, sent = clock.now_ms(), 0
        step = max(1, min(_MAX_BATCH, int(self._rate)))
        for batch in batches:
            for first in range(0, batch.num_rows, step):
                part = batch.slice(first, step)
                due_ms = start_ms + int(1000 * sent / self._rate)
                wait_ms = due_ms - clock.now_ms()
                if wait_ms > 0:
                    clock.sleep_ms(wait_ms)
                yield part
                sent += part.num_rows
