"""`count` in this process; `jobs/count.py` explains the columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkatools.pipeline.jobs.in_process.tables import LocalSource, load, number_of, rows_of
from kafkatools.pipeline.scan.plans import BATCHES
from kafkatools.pipeline.uris import LOG

if TYPE_CHECKING:
    import duckdb

_BATCH_COLUMNS = ("topic", "partition", "size", "baseOffset", "lastOffset", "count", "isControl", "isTransactional")
_RECORD_COLUMNS = ("topic", "partition", "offset", "transaction")

_BY_HEADERS = """
CREATE OR REPLACE TABLE counts AS
SELECT topic, partition, 'headers' AS basis,
       CASE WHEN bool_and("count" IS NOT NULL) THEN coalesce(sum("count") FILTER (NOT "isControl"), 0)::BIGINT END
           AS records,
       coalesce(sum("count") FILTER ("isControl"), 0)::BIGINT AS "controlRecords",
       {aborted} AS "abortedRecords", {open} AS "openRecords",
       count(*) AS batches, sum(size)::BIGINT AS bytes,
       min("baseOffset") AS "firstOffset", max("lastOffset") AS "lastOffset"
FROM input GROUP BY topic, partition
"""
_UNKNOWN_STATE = """CASE WHEN NOT bool_or("isTransactional") THEN 0::BIGINT END"""
_IN_STATE = """coalesce(sum("count") FILTER (NOT "isControl" AND transaction = '{}'), 0)::BIGINT"""

_BY_RECORDS = """
CREATE OR REPLACE TABLE counted AS
SELECT topic, partition, 'records' AS basis, count(*) AS records, NULL::BIGINT AS "controlRecords",
       count(*) FILTER (transaction = 'aborted') AS "abortedRecords",
       count(*) FILTER (transaction = 'open') AS "openRecords",
       NULL::BIGINT AS batches, NULL::BIGINT AS bytes,
       min("offset") AS "firstOffset", max("offset") AS "lastOffset"
FROM input GROUP BY topic, partition
"""
_KEYS = """
CREATE OR REPLACE TABLE keys AS
WITH by_key AS (
    SELECT topic, partition, key, count(*) AS n, count(*) FILTER (value IS NULL) AS nulls,
           arg_max(value IS NULL, "offset") AS is_latest_null
    FROM input WHERE transaction IS NULL OR transaction = 'committed' GROUP BY topic, partition, key
)
SELECT topic, partition,
       coalesce(sum(n) FILTER (key IS NULL), 0)::BIGINT AS "withoutKey",
       coalesce(sum(nulls) FILTER (key IS NOT NULL), 0)::BIGINT AS tombstones,
       count(*) FILTER (key IS NOT NULL) AS "distinctKeys",
       count(*) FILTER (key IS NOT NULL AND NOT is_latest_null) AS "liveKeys"
FROM by_key GROUP BY topic, partition
"""
_COMPLETE = """
UPDATE counts SET basis = 'records', records = coalesce(
    (SELECT counted.records FROM counted
     WHERE counted.topic = counts.topic AND counted.partition = counts.partition), 0)
WHERE records IS NULL
"""
_WITH_KEYS = """
SELECT counts.*, coalesce("withoutKey", 0) AS "withoutKey", coalesce(tombstones, 0) AS tombstones,
       coalesce("distinctKeys", 0) AS "distinctKeys", coalesce("liveKeys", 0) AS "liveKeys"
FROM counts LEFT JOIN keys USING (topic, partition) ORDER BY topic, partition
"""


def count(
    database: duckdb.DuckDBPyConnection, source: LocalSource, *, is_exact: bool, with_keys: bool
) -> tuple[list[str], list[tuple[object, ...]]]:
    """Return columns and rows of `count`, a row for each partition: of log files from batch headers, of a topic from
    its records. `is_exact` completes what headers lack, and with `with_keys` counts keys too. Raises PipelineError."""
    if source.uri.kind == LOG:
        _count_batches(database, source)
        if is_exact and number_of(database, "SELECT count(*) FROM counts WHERE records IS NULL"):
            load(database, source, _RECORD_COLUMNS, _BY_RECORDS)
            database.execute(_COMPLETE)
    else:
        load(database, source, _RECORD_COLUMNS, _BY_RECORDS.replace("TABLE counted", "TABLE counts"))
    if not (is_exact and with_keys):
        return rows_of(database, "SELECT * FROM counts ORDER BY topic, partition")
    load(database, source, ("key", "value", *_RECORD_COLUMNS), _KEYS)
    return rows_of(database, _WITH_KEYS)


def _count_batches(database: duckdb.DuckDBPyConnection, source: LocalSource) -> None:
    """Count by batch headers. The transactions are scanned only if a log has transactional batches."""
    query = _BY_HEADERS.format(aborted=_UNKNOWN_STATE, open=_UNKNOWN_STATE)
    load(database, source, _BATCH_COLUMNS, query, BATCHES)
    if number_of(database, 'SELECT count(*) FROM counts WHERE "abortedRecords" IS NULL'):
        query = _BY_HEADERS.format(aborted=_IN_STATE.format("aborted"), open=_IN_STATE.format("open"))
        load(database, source, (*_BATCH_COLUMNS, "transaction"), query, BATCHES)
