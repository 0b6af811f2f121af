"""`export` on Spark: write topics or log directories as Parquet, JSON or CSV files, in directories by date or topic.

`export_state.py` explains rounds and how a run resumes.
"""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as f

from kafkatools.pipeline.jobs.export_state import (
    BY_DATE,
    STAGE,
    Export,
    Exported,
    ExportState,
    ensure_continued,
    ensure_same_topics,
    lost_ranges,
    next_ranges,
)
from kafkatools.pipeline.jobs.in_process.export_files import locked_state
from kafkatools.pipeline.jobs.offsets import offsets_of, read_ranges
from kafkatools.pipeline.sinks.files import Directory
from kafkatools.pipeline.uris import path_of

_CSV_OPTIONS = {"header": "true", "ignoreLeadingWhiteSpace": "false", "ignoreTrailingWhiteSpace": "false"}
"""Spark's CSV writer trims cells by default, which would change keys and values."""


def shape_rows(records: DataFrame, export: Export) -> DataFrame:
    """Return the rows to write: filtered by `where`, record columns as text if requested, and `date` if it is a
    directory level. CSV has headers as JSON."""
    columns: list[Column] = []
    for name in records.columns:
        if name in ("key", "value") and export.has_text:
            text = f.col(name).cast("string")
            columns.append(f.when(f.is_valid_utf8(text), text).alias(name))
            in_one_line = f.translate(f.base64(name), "\r\n", "")  # Spark may break lines after 76 characters
            columns.append(f.when(~f.is_valid_utf8(text), in_one_line).alias(f"{name}Base64"))
        elif name == "headers" and export.sink.kind == "csv":
            columns.append(f.to_json(name).alias(name))
        else:
            columns.append(f.col(name))
    if BY_DATE in export.partition_by:
        columns.append(f.to_date("timestamp").alias("date"))
    rows = records if export.where is None else records.where(export.where)
    return rows.select(*columns)


def run_export(
    spark: SparkSession, export: Export, after_round: Callable[[Exported], object] | None = None
) -> Exported:
    """Finish the file moves of an interrupted run, then export the offsets available now that are not exported yet, in
    rounds. `after_round` is called with the progress after each round. Returns the sums. Raises PipelineError, also if
    another export into a directory of this machine is running."""
    directory = Directory(spark, path_of(export.sink))
    with locked_state(export, directory) as state:
        return _run(spark, export, directory, state, after_round)


def _run(
    spark: SparkSession,
    export: Export,
    directory: Directory,
    state: ExportState,
    after_round: Callable[[Exported], object] | None,
) -> Exported:
    state.finish_move()
    ends = offsets_of(spark, export.source, export.options, export.cluster)
    ensure_same_topics(export, state.topic_ids)
    ensure_continued(export, ends, state.ends)
    progress = Exported(ends=dict(state.ends), deleted_ranges=lost_ranges(ends, state.ends))
    while ranges := next_ranges(ends, state.ends, export.round_offsets):
        directory.delete([STAGE])
        records = read_ranges(spark, export.source, export.options, export.cluster, ranges)
        progress.rows += _write_stage(records, export)
        state.record([file.path for file in directory.files(STAGE)], ranges)
        progress.rounds += 1
        progress.files += state.finish_move()
        progress.ends = dict(state.ends)
        if after_round is not None:
            after_round(progress)
    return progress


def _write_stage(records: DataFrame, export: Export) -> int:
    """Write the files of a round to the hidden directory and return the number of rows. Spark's exceptions pass
    through."""
    observation = Observation()
    rows = shape_rows(records, export).observe(observation, f.count(f.lit(1)).alias("rows"))
    writer = rows.write.format(export.sink.kind).mode("overwrite")
    if export.sink.kind == "csv":
        writer = writer.options(**_CSV_OPTIONS)
    writer = writer.options(**dict(export.sink_options))
    writer.partitionBy(*export.partition_by).save(f"{path_of(export.sink)}/{STAGE}")
    return int(observation.get["rows"])
