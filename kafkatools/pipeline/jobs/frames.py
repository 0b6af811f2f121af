"""Small things that several jobs ask of Spark."""

from __future__ import annotations

from pyspark.sql import SparkSession

_GUESSED_CORES = 8


def default_parallelism(spark: SparkSession) -> int:
    """How many tasks run at once; a guess over Spark Connect, which does not tell."""
    from kafkatools.pipeline.run.session import is_connected

    return _GUESSED_CORES if is_connected(spark) else int(spark.sparkContext.defaultParallelism)
