"""Types of the dictionaries that pipeline modules pass to each other: manifests, journals, pipeline files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NotRequired, TypedDict

# -- manifests --


class PartitionContent(TypedDict):
    """The part of one partition that a run read: batches from `start_offset` up to, not including, `end_offset`.

    `first_offset` and `last_offset` are those of its records; None when there was no record or they were not counted.
    """

    topic: str
    partition: int
    first_offset: int | None
    last_offset: int | None
    start_offset: int | None
    end_offset: int
    records: int | None
    batches: int | None
    checksum: str | None
    files: Sequence[str]


class SourceFileContent(TypedDict):
    """One file of a file source; size in bytes."""

    path: str
    size: int
    modified_ms: int
    rows: NotRequired[int]


class SinkFileContent(TypedDict):
    """One written file; size in bytes."""

    path: str
    size: int
    rows: int


class SourceContent(TypedDict):
    """The part of one source that a run read."""

    name: str
    uri: str
    records: int | None
    partitions: list[PartitionContent]
    damages: list[dict[str, object]]
    bad_keys: int | None
    bad_values: int | None
    files: list[SourceFileContent] | None


class SinkContent(TypedDict):
    """The output of a run: rows, and files if the sink writes files."""

    uri: str
    mode: str
    rows: int | None
    files: list[SinkFileContent] | None


class SourceIdentity(TypedDict):
    """A source of a pipeline, as recorded in the manifest."""

    name: str
    uri: str
    options: dict[str, str]
    key: dict[str, str | None] | None
    value: dict[str, str | None] | None


class SinkIdentity(TypedDict):
    """The sink of a pipeline, as recorded in the manifest."""

    uri: str
    options: dict[str, str]
    partition_by: list[str]


class PipelineIdentity(TypedDict):
    """The part of a pipeline's definition that determines its results: a run resumes another only if it is equal."""

    sources: list[SourceIdentity]
    sql: str | None
    transform: str | None
    stream: bool
    sink: SinkIdentity


class ManifestContent(TypedDict):
    """A manifest. `runs` counts the runs that resumed one another, the first one included."""

    manifest: int
    kafkatools: str
    spark: str
    python: str
    started_ms: int
    finished_ms: int
    runs: int
    pipeline: PipelineIdentity
    sources: list[SourceContent]
    sink: SinkContent


class Journal(TypedDict):
    """The moves that finish a run: what to delete, and what to move from `staging` into `directory`.

    For a sink that is not a directory of files the journal has only `writing`: the place that may have received rows.
    """

    writing: NotRequired[str]

    directory: str
    staging: str
    delete: list[str]
    move: list[str]
    manifest: ManifestContent


# -- pipelines --

PipelineValues = TypedDict(
    "PipelineValues",
    {
        "from": str,
        "from-option": dict[str, object],
        "to": str,
        "to-option": dict[str, object],
        "to-bootstrap-server": str,
        "to-command-config": str,
        "sources": "dict[str, PipelineValues]",
        "bootstrap-server": str,
        "command-config": str,
        "key": str,
        "key-schema": str,
        "key-message": str,
        "value": str,
        "value-schema": str,
        "value-message": str,
        "schema-registry": str,
        "sql": str,
        "sql-file": str,
        "transform": str,
        "mode": str,
        "partition-by": list[str],
        "stream": bool,
        "checkpoint": str,
        "trigger": str | int,
        "manifest": str,
        "resume": bool,
        "strict": bool,
        "report-path": str,
        "master": str,
        "conf": dict[str, str],
    },
    total=False,
)
"""The keys of a pipeline file. Each table in `sources` has the keys that describe a source."""
