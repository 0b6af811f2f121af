"""`check` on a cluster: files are distributed over the executors by size (check.py).

The directories must be local; on a cluster, all workers must see them, since indexes are compared with file positions.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from kafkatools.pipeline.jobs.check import CheckedFile, CheckedGroup, CheckFinding, check_group, files_to_check, spread
from kafkatools.pipeline.jobs.check_files import SegmentFacts
from kafkatools.pipeline.jobs.check_partition import check_partition
from kafkatools.pipeline.run.session import default_parallelism

FINDINGS_SCHEMA = (
    "directory string, file string, kind string, position bigint, severity string, problem string, lost string"
)
_RESULT_SCHEMA = f"{FINDINGS_SCHEMA}, facts string"
_TASKS_PER_CORE = 4


def check(spark: SparkSession, paths: Iterable[str], *, deep: bool = False) -> DataFrame:
    """Return all findings below the paths as rows of FINDINGS_SCHEMA (CheckFinding); `deep` decodes each record too.
    The files are listed now and read when Spark runs the query. Raises PipelineError for a path without log files."""
    groups = spread(files_to_check(paths), _TASKS_PER_CORE * default_parallelism(spark))
    findings = spark.range(0, len(groups), 1, len(groups)).mapInArrow(_FileTask(groups, deep), _RESULT_SCHEMA)
    return findings.groupBy("directory").applyInArrow(_whole_partition, FINDINGS_SCHEMA)


class _FileTask:
    """Checks groups of files on an executor; the IDs of the input rows select the groups."""

    def __init__(self, groups: list[list[CheckedFile]], deep: bool) -> None:
        self._groups = groups
        self._deep = deep

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for file in self._groups[number]:
                    yield _rows(check_group([file], self._deep))


def _rows(group: CheckedGroup) -> pa.RecordBatch:
    rows: list[tuple[object, ...]] = [(*finding, None) for finding in group.findings]
    for directory, segments in group.facts.items():
        texts = [json.dumps(asdict(facts)) for facts in segments] or ["{}"]
        rows += [(directory, *[None] * 6, text) for text in texts]
    return _record_batch(rows, _RESULT_SCHEMA)


def _record_batch(rows: Sequence[tuple[object, ...]], schema: str) -> pa.RecordBatch:
    kinds = {"string": pa.string(), "bigint": pa.int64()}
    fields = [field.split() for field in schema.split(", ")]
    columns = list(zip(*rows, strict=True)) or [()] * len(fields)
    arrays = [pa.array(column, kinds[kind]) for column, (_, kind) in zip(columns, fields, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=[name for name, _ in fields])


def _whole_partition(table: pa.Table) -> pa.Table:
    """Return the findings of one directory. If the directory was checked as a whole, and not only files of it by name,
    the problems across its files are added."""
    directory = table.column("directory")[0].as_py()
    facts = [json.loads(text) for text in table.column("facts").to_pylist() if text]
    segments = [
        SegmentFacts(**{key: _pairs(value) for key, value in segment_facts.items()})
        for segment_facts in facts
        if segment_facts
    ]
    findings = table.filter(pc.is_valid(table.column("file"))).drop_columns(["facts"])
    if not facts:
        return findings
    across = [CheckFinding.of(directory, problem) for problem in check_partition(directory, segments)]
    return pa.concat_tables([findings, pa.Table.from_batches([_record_batch(across, FINDINGS_SCHEMA)])])


def _pairs(value: Any) -> Any:
    return [tuple(pair) for pair in value] if isinstance(value, list) else value
