"""Merge records into a Delta or Iceberg table by key: the latest record of a key is its row, a tombstone deletes it.

Rules: the table keeps `partition`, `offset` and `timestamp` of the record that each row comes from. Within a partition
the greater offset wins, between partitions the later timestamp; so a record that is merged again, or late, replaces no
newer row. A deleted key leaves no row to compare with. A merge is one commit of the table: a run that is killed has
merged all rows of a batch or none, and the next one merges them again with the same result. Micro-batches carry their
number, so that a driver which lost its stream to another one cannot merge an old batch afterwards.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql import functions as F

from kafkatools.pipeline import uris
from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.identifiers import quoted
from kafkatools.pipeline.run.session import is_connected
from kafkatools.pipeline.run.spec import Sink
from kafkatools.pipeline.sinks.table_versions import refresh, table_exists

if TYPE_CHECKING:
    from py4j.java_gateway import JVMView
    from pyspark.sql import DataFrame, SparkSession

TOMBSTONE = "tombstone"
"""The column of a source that is true for records without a value, before values are decoded."""

_REQUIRED = ("partition", "offset", "timestamp", TOMBSTONE)
_VIEW = "kt_merge"
_COUNT = "__kt_records"
_QUERY, _BATCH = "kt-query", "kt-batch"
"""Properties of the Iceberg snapshot of a micro-batch."""


class MicroBatch(NamedTuple):
    """A micro-batch of a stream: the id of its query, which a restart from the checkpoint keeps, and its number."""

    query_id: str
    number: int


def ensure_mergeable(sink: Sink, columns: Sequence[str], *, has_several_topics: bool = False) -> None:
    """Raise PipelineError if the rows to merge lack a required column or a column of --merge-by. Rows of several topics
    need the column `topic`, since their offsets have no common order."""
    required = (*sink.merge_by, *(["topic"] if has_several_topics else ()), *_REQUIRED)
    for name in required:
        if name not in columns:
            raise PipelineError(
                f"--merge-by needs the columns {', '.join(required)}, and the rows have no "
                f"'{name}': add it to the query (its columns are {', '.join(columns)})"
            )


def merge_rows(spark: SparkSession, sink: Sink, rows: DataFrame, batch: MicroBatch | None = None) -> int:
    """Merge rows into the table of a sink, which is created if it does not exist; return the number of rows. Nothing is
    committed if there are no rows, or if the table already has this micro-batch or a later one of its query. Raises
    PipelineError for missing columns, a row without a key and over Spark Connect; Spark's exceptions pass through."""
    if is_connected(spark):
        raise PipelineError("--merge-by does not work over Spark Connect: use another --master")
    ensure_mergeable(sink, rows.columns)
    latest = latest_rows(rows, sink.merge_by).persist()
    try:
        count = latest.agg(F.sum(_COUNT)).collect()[0][0]
        if not count:
            return 0
        latest.createOrReplaceTempView(_VIEW)
        columns = [name for name in rows.columns if name != TOMBSTONE]
        if not table_exists(spark, sink.uri):
            _create(sink, latest.select(*columns).limit(0))
        _ensure_columns(spark, sink, columns)
        statement = merge_statement(sink, columns)
        if batch is None:
            spark.sql(statement)
        elif sink.uri.kind == uris.DELTA:
            _merge_delta_batch(spark, statement, batch)
        elif batch.number > _last_iceberg_batch(spark, sink, batch.query_id):
            _merge_iceberg_batch(spark, statement, batch)
        return int(count)
    finally:
        spark.catalog.dropTempView(_VIEW)
        latest.unpersist()


def latest_rows(rows: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Return the latest row of each key: by offset within a partition, then by timestamp between partitions. The column
    `__kt_records` is the number of the key's rows."""
    origin = _origin(rows.columns)
    named = rows.select(
        *[
            F.coalesce(F.col(quoted(name)), F.raise_error(F.lit(_without_key(name)))).alias(name)
            if name in keys
            else F.col(quoted(name))
            for name in rows.columns
        ]
    )
    row = F.struct(*[F.col(quoted(name)) for name in rows.columns])
    of_partition = named.groupBy(*[F.col(quoted(name)) for name in dict.fromkeys((*keys, *origin))]).agg(
        F.max_by(row, F.col("offset")).alias("row"), F.count(F.lit(1)).alias(_COUNT)
    )
    order = F.struct(F.col("row.timestamp"), *[F.col(f"row.{name}") for name in origin])
    of_key = of_partition.groupBy(*[F.col(quoted(name)) for name in keys]).agg(
        F.max_by("row", order).alias("row"), F.sum(_COUNT).alias(_COUNT)
    )
    return of_key.select("row.*", _COUNT)


def _without_key(name: str) -> str:
    return (
        f"A record without a key cannot be merged: column {name} is null; leave such rows out with "
        f'--sql "SELECT * FROM input WHERE {name} IS NOT NULL"'
    )


def _origin(columns: Sequence[str]) -> list[str]:
    """Return the columns within which offsets have an order."""
    return [name for name in ("topic", "partition") if name in columns]


def merge_statement(sink: Sink, columns: Sequence[str]) -> str:
    """Return the MERGE statement from the temporary view into the table; `columns` are those of the table's rows."""
    same_key = " AND ".join(f"t.{quoted(name)} = s.{quoted(name)}" for name in sink.merge_by)
    same_origin = " AND ".join(f"t.{name} = s.{name}" for name in _origin(columns))
    is_newer = f"CASE WHEN {same_origin} THEN s.offset > t.offset ELSE s.timestamp >= t.timestamp END"
    names = ", ".join(quoted(name) for name in columns)
    values = ", ".join(f"s.{quoted(name)}" for name in columns)
    assignments = ", ".join(f"t.{quoted(name)} = s.{quoted(name)}" for name in columns)
    return (
        f"MERGE INTO {table_name(sink.uri)} t USING {_VIEW} s ON {same_key} "
        f"WHEN MATCHED AND s.{TOMBSTONE} AND ({is_newer}) THEN DELETE "
        f"WHEN MATCHED AND ({is_newer}) THEN UPDATE SET {assignments} "
        f"WHEN NOT MATCHED AND NOT s.{TOMBSTONE} THEN INSERT ({names}) VALUES ({values})"
    )


def table_name(uri: uris.Uri) -> str:
    """Return the name of a table in SQL."""
    return uri.target if uri.kind == uris.ICEBERG else f"delta.{quoted(uris.path_of(uri))}"


def _create(sink: Sink, rows: DataFrame) -> None:
    """Create the table, with the columns of `rows` and the partitions of the sink."""
    form, options = uris.write_options(sink.uri, sink.options, None)
    if sink.uri.kind == uris.ICEBERG:
        uris.new_iceberg_table(rows, sink.uri, options, sink.partition_by).create()
        return
    rows.write.format(form).options(**options).mode("append").partitionBy(*sink.partition_by).save()


def _ensure_columns(spark: SparkSession, sink: Sink, columns: Sequence[str]) -> None:
    present = {name.lower() for name in spark.table(table_name(sink.uri)).columns}
    missing = [name for name in columns if name.lower() not in present]
    if missing:
        optional = "" if {*_REQUIRED, *sink.merge_by} & set(missing) else ", or leave it out of the query"
        raise PipelineError(
            f"{sink.uri} has no column {', '.join(missing)}: add it (ALTER TABLE {table_name(sink.uri)} ADD COLUMN "
            f"...){optional}"
        )


def _merge_delta_batch(spark: SparkSession, statement: str, batch: MicroBatch) -> None:
    """Run a MERGE statement unless the table has this micro-batch or a later one of its query, which Delta decides."""
    prefix = "spark.databricks.delta.write.txn"
    settings = {f"{prefix}AppId": batch.query_id, f"{prefix}Version": str(batch.number)}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        spark.sql(statement)
    finally:
        for name in settings:
            spark.conf.unset(name)


class _Statement:
    """A statement that Java calls. It keeps its exception, which Java would turn into text."""

    def __init__(self, spark: SparkSession, text: str) -> None:
        self._spark, self._text = spark, text
        self.error: Exception | None = None

    def call(self) -> None:
        """Run the statement."""
        try:
            self._spark.sql(self._text)
        except Exception as error:  # noqa: BLE001 - raised again by the caller of Java
            self.error = error

    class Java:
        implements = ("java.util.concurrent.Callable",)


def _merge_iceberg_batch(spark: SparkSession, statement: str, batch: MicroBatch) -> None:
    """Run a MERGE statement whose snapshot gets query and number of a micro-batch as properties. Iceberg takes them
    from the thread that commits: py4j runs a callback's calls on the thread that called it."""
    from pyspark.java_gateway import ensure_callback_server_started

    ensure_callback_server_started(spark.sparkContext._gateway)  # type: ignore[no-untyped-call]
    jvm: JVMView = spark._jvm
    properties = jvm.java.util.HashMap()
    properties[_QUERY], properties[_BATCH] = batch.query_id, str(batch.number)
    merge = _Statement(spark, statement)
    any_error = jvm.java.lang.Class.forName("java.lang.Exception")
    jvm.org.apache.iceberg.spark.CommitMetadata.withCommitProperties(properties, merge, any_error)
    if merge.error is not None:
        raise merge.error


def _last_iceberg_batch(spark: SparkSession, sink: Sink, query_id: str) -> int:
    """Return the number of the last micro-batch of a query that the table has; -1 if there is none."""
    refresh(spark, sink.uri)
    summaries = spark.table(f"{sink.uri.target}.snapshots").where(F.col("summary")[_QUERY] == query_id)
    number = summaries.agg(F.max(F.col("summary")[_BATCH].cast("long"))).collect()[0][0]
    return -1 if number is None else int(number)
