"""`top-keys` in this process; `jobs/top_keys.py` explains skew."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from kafkatools.pipeline.jobs.in_process.tables import LocalSource, load, number_of, rows_of
from kafkatools.pipeline.jobs.skew import Skew, skew_of

if TYPE_CHECKING:
    import duckdb

Rows = tuple[list[str], list[tuple[object, ...]]]

_LOAD = """
CREATE TABLE by_partition AS
SELECT topic, partition, key, count(*) AS records,
       sum(coalesce(octet_length(key), 0) + coalesce(octet_length(value), 0))::BIGINT AS bytes
FROM input GROUP BY topic, partition, key
"""
_KEYS = """
CREATE TABLE keys AS
SELECT topic, key, sum(records)::BIGINT AS records, sum(bytes)::BIGINT AS bytes FROM by_partition GROUP BY topic, key
"""
_TOP = "SELECT * FROM keys ORDER BY {by} DESC, topic, key NULLS FIRST LIMIT {number}"
_HISTOGRAM = "SELECT records, count(*) FROM keys WHERE key IS NOT NULL GROUP BY records"
_PARTITIONS = """
WITH partitions AS (
    SELECT topic, partition, sum(records) AS records, sum(bytes) AS bytes FROM by_partition GROUP BY topic, partition
)
SELECT topic, count(*) AS partitions,
       sum(records)::BIGINT AS records, max(records) / nullif(sum(records), 0) AS "largestRecordsShare",
       sum(bytes)::BIGINT AS bytes, max(bytes) / nullif(sum(bytes), 0) AS "largestBytesShare"
FROM partitions GROUP BY topic ORDER BY topic
"""


class TopKeys(NamedTuple):
    """The largest keys, the skew of keys and the number of records without a key, and the skew of partitions."""

    keys: Rows
    skew: Skew
    without_key: int
    partitions: Rows


def top_keys(database: duckdb.DuckDBPyConnection, source: LocalSource, number: int, *, by: str) -> TopKeys:
    """Return the `number` largest keys by records or bytes, and the measures of skew. Raises PipelineError."""
    load_keys(database, source)
    return TopKeys(
        rows_of(database, _TOP.format(by=by, number=max(number, 0))),
        *skew_of_keys(database),
        rows_of(database, _PARTITIONS),
    )


def load_keys(database: duckdb.DuckDBPyConnection, source: LocalSource) -> None:
    """Create the table `keys` with topic, key, records and bytes; a null key stands for records without a key. Raises
    PipelineError."""
    load(database, source, ("key", "value", "topic", "partition"), _LOAD)
    database.execute(_KEYS)


def skew_of_keys(database: duckdb.DuckDBPyConnection) -> tuple[Skew, int]:
    """Return the skew of records over the keys of the table `keys`, and the number of records without a key."""
    histogram = {records: members for records, members in database.execute(_HISTOGRAM).fetchall()}
    without = number_of(database, "SELECT coalesce(sum(records), 0)::BIGINT FROM keys WHERE key IS NULL")
    return skew_of(histogram), without
