"""`check`: verify each batch checksum and each file of log directories; the result is a table of findings.

Files are distributed over the executors by size and checked one by one (check_files.py). Then the facts of a
directory's segments are checked against each other (check_partition.py). The directories must be local; on a cluster,
all workers must see them, since indexes are compared with file positions.
"""

from __future__ import annotations

import heapq
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, astuple
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from kafkatools.core.errors import KafkaError
from kafkatools.core.log.dump.damage import Damage
from kafkatools.core.log.files import RealFileSystem
from kafkatools.core.log.format.checkpoints import read_offset_checkpoint
from kafkatools.core.log.format.filenames import (
    CLEANER_OFFSET_CHECKPOINT,
    DELETE_DIRECTORY_SUFFIX,
    INDEX_SUFFIX,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
    TIME_INDEX_SUFFIX,
    offset_from_name,
)
from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.jobs.check_files import Problem, SegmentFacts, check_segment, check_small_file
from kafkatools.pipeline.jobs.check_partition import check_partition
from kafkatools.pipeline.run.session import default_parallelism

FINDINGS_SCHEMA = (
    "directory string, file string, kind string, position bigint, severity string, problem string, lost string"
)
_RESULT_SCHEMA = f"{FINDINGS_SCHEMA}, facts string"
_CHECKPOINTS = (
    CLEANER_OFFSET_CHECKPOINT,
    LOG_START_OFFSET_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    REPLICATION_OFFSET_CHECKPOINT,
)
_SUFFIXES = (".log", ".index", ".timeindex", ".snapshot", ".txnindex")
_TASKS_PER_CORE = 4


class CheckedFile(NamedTuple):
    """A file to check, and the directory that contains it."""

    directory: str
    path: str
    size_bytes: int
    is_alone: bool = False
    """The path names this file, so the rest of its directory is not checked."""


def files_to_check(paths: Iterable[str]) -> list[CheckedFile]:
    """Return the segments, indexes, snapshots and checkpoints below the paths, without partitions that are being
    deleted. A path that names a file is returned whatever its name is. Raises PipelineError for a path that does not
    exist, names an index, or contains none of these files."""
    files: dict[str, CheckedFile] = {}
    for path in paths:
        if not os.path.exists(path):
            raise PipelineError(f"{path}: there is no such file or directory")
        if path.endswith((INDEX_SUFFIX, TIME_INDEX_SUFFIX)) and os.path.isfile(path):
            raise PipelineError(f"{path} is an index; name its segment, with which it is checked")
        files_below = {file.path: file for file in _files_below(path)}
        if not files_below:
            raise PipelineError(f"{path} contains no files of a log")
        files |= files_below
    return list(files.values())


def _files_below(path: str) -> Iterator[CheckedFile]:
    path = os.path.abspath(path)
    if os.path.isfile(path):
        yield CheckedFile(os.path.dirname(path), path, os.path.getsize(path), is_alone=True)
        return
    for root, directories, names in os.walk(path):
        directories[:] = sorted(name for name in directories if not name.endswith(DELETE_DIRECTORY_SUFFIX))
        for name in sorted(names):
            if _is_checked(name):
                full = os.path.join(root, name)
                yield CheckedFile(root, full, os.path.getsize(full))


def _is_checked(name: str) -> bool:
    if name in _CHECKPOINTS or name.endswith(".checkpoint"):
        return True
    return name.endswith(_SUFFIXES) and offset_from_name(name) is not None


def check(spark: SparkSession, paths: Iterable[str], *, deep: bool = False) -> DataFrame:
    """Return all findings below the paths as rows of FINDINGS_SCHEMA; `deep` decodes each record too. `position` is in
    bytes, null if the whole file is meant; `severity` is damage or warning. The files are listed now and read when
    Spark runs the query. Raises PipelineError for a path without log files."""
    groups = spread(files_to_check(paths), _TASKS_PER_CORE * default_parallelism(spark))
    findings = spark.range(0, len(groups), 1, len(groups)).mapInArrow(_FileTask(groups, deep), _RESULT_SCHEMA)
    return findings.groupBy("directory").applyInArrow(_whole_partition, FINDINGS_SCHEMA)


def spread(files: Sequence[CheckedFile], groups: int) -> list[list[CheckedFile]]:
    """Distribute the files over at most `groups` groups of about equal bytes."""
    buckets: list[tuple[int, int, list[CheckedFile]]] = [
        (0, number, []) for number in range(max(1, min(groups, len(files))))
    ]
    for file in sorted(files, key=lambda file: -file.size_bytes):
        size, number, members = heapq.heappop(buckets)
        members.append(file)
        heapq.heappush(buckets, (size + file.size_bytes, number, members))
    return [members for _, _, members in sorted(buckets, key=lambda bucket: bucket[1])]


class _FileTask:
    """Checks groups of files on an executor; the IDs of the input rows select the groups."""

    def __init__(self, groups: list[list[CheckedFile]], deep: bool) -> None:
        self._groups = groups
        self._deep = deep

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for file in self._groups[number]:
                    yield _rows(file, *check_file(file.path, deep=self._deep))


def check_file(path: str, *, deep: bool = False) -> tuple[list[Problem], SegmentFacts | None]:
    """Check one file; with `deep`, decode each record of a segment too. Returns its problems, and for a segment the
    facts for the check of its partition, else None. An index is not checked here but with its segment. A file that
    cannot be opened is a problem, not an exception."""
    kind = os.path.basename(path).rpartition(".")[2]
    try:
        if kind == "log":
            return check_segment(path, deep=deep)
        if os.path.basename(path) in _CHECKPOINTS:
            return _check_checkpoint(path), None
        return ([] if kind in ("index", "timeindex") else check_small_file(path)), None
    except OSError as problem:
        return [Problem(problem.filename or path, kind, -1, f"cannot be read: {problem.strerror}")], None
    except Damage as damage:
        return [Problem(path, kind, damage.position, damage.reason)], None


def _check_checkpoint(path: str) -> list[Problem]:
    try:
        read_offset_checkpoint(RealFileSystem(), path)
    except (KafkaError, ValueError) as error:
        return [Problem(path, os.path.basename(path), -1, str(error))]
    return []


def _rows(file: CheckedFile, problems: Sequence[Problem], facts: SegmentFacts | None) -> pa.RecordBatch:
    rows = [(file.directory, *_cells(problem), None) for problem in problems]
    if not file.is_alone:
        rows.append((file.directory, *[None] * 6, json.dumps({} if facts is None else asdict(facts))))
    return _record_batch(rows, _RESULT_SCHEMA)


def _cells(problem: Problem) -> tuple[object, ...]:
    file, kind, position, text, loss, severity = astuple(problem)
    return file, kind, (position if position >= 0 else None), severity, text, loss or None


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
    across = [(directory, *_cells(problem)) for problem in check_partition(directory, segments)]
    return pa.concat_tables([findings, pa.Table.from_batches([_record_batch(across, FINDINGS_SCHEMA)])])


def _pairs(value: Any) -> Any:
    return [tuple(pair) for pair in value] if isinstance(value, list) else value
