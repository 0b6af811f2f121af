"""`profile` in this process; `jobs/profile.py` explains the figures."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kafkatools.pipeline.charts.profile_data import (
    GroupLag,
    KeySkew,
    PartitionFigures,
    Profile,
    RatePoint,
)
from kafkatools.pipeline.jobs.in_process.tables import LocalSource, load
from kafkatools.pipeline.jobs.in_process.top_keys import load_keys, skew_of_keys
from kafkatools.pipeline.jobs.profile_figures import (
    UNKNOWN_CODEC,
    Shape,
    Shapes,
    key_skew_of,
    rate_width,
    shapes_of,
)
from kafkatools.pipeline.scan.plans import BATCHES
from kafkatools.pipeline.uris import LOG

if TYPE_CHECKING:
    from collections.abc import Sequence

    import duckdb

_BATCH_COLUMNS = (
    "topic", "partition", "size", "baseOffset", "lastOffset", "count", "maxTimestamp", "codec", "isControl",
)  # fmt: skip
_RECORD_COLUMNS = ("key", "value", "topic", "partition", "offset", "timestamp", "batchPosition")

_BY_HEADERS = f"""
CREATE TABLE batches AS
SELECT topic, partition, "baseOffset" AS first_offset, "lastOffset" AS last_offset, size, "count" AS records,
       CASE WHEN epoch_ms("maxTimestamp") >= 0 THEN epoch_ms("maxTimestamp") END AS time,
       coalesce(codec, '{UNKNOWN_CODEC}') AS codec, "isControl" AS is_control
FROM input
"""
_BY_RECORDS = f"""
CREATE TABLE batches AS
SELECT topic, partition, min("offset") AS first_offset, max("offset") AS last_offset,
       sum(coalesce(octet_length(key), 0) + coalesce(octet_length(value), 0))::BIGINT AS size,
       count(*) AS records, CASE WHEN epoch_ms(max(timestamp)) >= 0 THEN epoch_ms(max(timestamp)) END AS time,
       '{UNKNOWN_CODEC}' AS codec, false AS is_control
FROM input GROUP BY topic, partition, "batchPosition"
"""
_PARTITIONS = """
WITH delayed AS (
    SELECT *, CASE WHEN NOT is_control THEN max(time) OVER (
               PARTITION BY topic, partition ORDER BY first_offset ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
           ) - time END AS delay
    FROM batches
)
SELECT topic, partition, coalesce(sum(records) FILTER (NOT is_control), 0)::BIGINT, count(*), sum(size)::BIGINT,
       min(first_offset), max(last_offset), min(time), max(time),
       count(*) FILTER (delay > 0), greatest(coalesce(max(delay), 0), 0)
FROM delayed GROUP BY topic, partition ORDER BY topic, partition
"""
_RATES = """
SELECT time // {width} * {width} AS start, coalesce(sum(records) FILTER (NOT is_control), 0)::BIGINT, sum(size)::BIGINT
FROM batches WHERE time IS NOT NULL GROUP BY start ORDER BY start
"""
_POWER = "CASE WHEN {0} > 0 THEN length(bin({0}::BIGINT)) - 1 END"
_SHAPES = f"""
SELECT codec, {_POWER.format("size")} AS size_power, {_POWER.format("records")} AS count_power, count(*),
       coalesce(sum(records), 0)::BIGINT, sum(size)::BIGINT
FROM batches WHERE NOT is_control GROUP BY codec, size_power, count_power
"""
_TOP = "SELECT * FROM keys WHERE key IS NOT NULL ORDER BY records DESC, topic, key LIMIT {number}"


def profile(
    database: duckdb.DuckDBPyConnection,
    source: LocalSource,
    made_ms: int,
    *,
    top: int | None,
    lags: Sequence[GroupLag] | None = None,
) -> Profile:
    """Return the data of a profile page, without the damages, which `source` collects. `top` is the number of keys;
    None reads no keys. `made_ms` is the time of the page, in epoch ms. Raises PipelineError."""
    if source.uri.kind == LOG:
        load(database, source, _BATCH_COLUMNS, _BY_HEADERS, BATCHES)
    else:
        load(database, source, _RECORD_COLUMNS, _BY_RECORDS)
    partitions = [
        replace(PartitionFigures(*row), stored_bytes=row[4]) for row in database.execute(_PARTITIONS).fetchall()
    ]
    width = rate_width(partitions)
    rates = [RatePoint(*row) for row in database.execute(_RATES.format(width=width)).fetchall()] if width else []
    codecs, sizes, counts = _shapes(database)
    database.execute("DROP TABLE batches")
    keys = None if top is None else _keys(database, source, top)
    return Profile(str(source.uri), made_ms, partitions, width, rates, keys, codecs, sizes, counts, lags)


def _shapes(database: duckdb.DuckDBPyConnection) -> Shapes:
    return shapes_of(Shape(*row) for row in database.execute(_SHAPES).fetchall())


def _keys(database: duckdb.DuckDBPyConnection, source: LocalSource, top: int) -> KeySkew:
    load_keys(database, source)
    rows = database.execute(_TOP.format(number=top)).fetchall()
    return key_skew_of(rows, *skew_of_keys(database))
