"""`replay` on Spark; `replay_plan.py` explains which records are sent to which topic.

`plan_replay` decides for each record, `decisions` counts the decisions, `to_send` returns rows for the `kt` sink.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.jobs.replay_plan import LOOP, NO_ORIGIN, REPLAYS_HEADER, SEND, TOO_OFTEN, ReplayPlan, Throttle
from kafkatools.pipeline.sources.schema import HEADERS


def plan_replay(records: DataFrame, plan: ReplayPlan) -> DataFrame:
    """Return the filtered records with the columns `target` (topic), `replays` (previous replays) and `decision`: send,
    no-origin, too-often or loop. Records need `headers`. Raises PipelineError if `to_topic` is read and loops are not
    allowed."""
    plan.ensure_no_loop()
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
