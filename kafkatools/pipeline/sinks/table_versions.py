"""The version of a Delta table and the snapshot of an Iceberg table, for manifests.

A table has no files that a manifest could list: its own log decides which files belong to it. Each change of a table
gives it another version, so a manifest notes the version that the run left.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from kafkatools.pipeline import uris
from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.run.session import plain_error
from kafkatools.pipeline.sinks.files import Directory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_DELTA_COMMIT = re.compile(r"(?P<version>\d{20})\.json")


def table_version(spark: SparkSession, uri: uris.Uri) -> int | None:
    """Return the version of a Delta table, or the snapshot id of the main branch of an Iceberg table. None for another
    kind of sink, for a table without a version, and where the table's log is not visible from here. Raises
    PipelineError."""
    if uri.kind == uris.ICEBERG:
        return _iceberg_snapshot(spark, uri)
    return _delta_version(Directory(spark, uris.path_of(uri))) if uri.kind == uris.DELTA else None


def table_exists(spark: SparkSession, uri: uris.Uri) -> bool:
    """Return whether a Delta or Iceberg table exists. Raises PipelineError if a Delta directory cannot be listed;
    Spark's exceptions pass through."""
    if uri.kind == uris.ICEBERG:
        return bool(spark.catalog.tableExists(uri.target))
    return bool(Directory(spark, uris.path_of(uri)).log_names("_delta_log"))


def refresh(spark: SparkSession, uri: uris.Uri) -> None:
    """Forget what the session knows of an Iceberg table: its catalog caches tables for 30 s, and a stream commits
    through a catalog of its own. Spark's exceptions pass through."""
    spark.catalog.refreshTable(uri.target)


def _delta_version(directory: Directory) -> int | None:
    commits = (_DELTA_COMMIT.fullmatch(name) for name in directory.log_names("_delta_log"))
    return max((int(commit["version"]) for commit in commits if commit is not None), default=None)


def _iceberg_snapshot(spark: SparkSession, uri: uris.Uri) -> int | None:
    try:
        refresh(spark, uri)
        rows = spark.table(f"{uri.target}.refs").where("name = 'main'").select("snapshot_id").collect()
    except PySparkException as error:
        raise PipelineError(f"{uri}: {plain_error(error)}") from error
    return int(rows[0][0]) if rows else None
