"""Typed dictionaries of the pipeline's JSON and TOML files: manifests, journals and pipeline definitions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NotRequired, TypedDict

# -- manifests --


class PartitionContent(TypedDict):
    """A manifest's entry for one partition: the batches that a run read, from `start_offset` up to, not including,
    `end_offset`.

    `first_offset` and `last_offset` belong to the records; both are None if there was no record. `records`, `batches`
    and `checksum` (hexadecimal) are None if not counted, as for streams without readers' reports: then `first_offset`
    is the start offset and `last_offset` None.
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
    """A manifest's entry for one input file of a file source; `size` in bytes."""

    path: str
    size: int
    modified_ms: int
    rows: NotRequired[int]


class SinkFileContent(TypedDict):
    """A manifest's entry for one output file; `size` in bytes."""

    path: str
    size: int
    rows: int


class SourceContent(TypedDict):
    """A manifest's entry for one source. `partitions` and `damages` are empty for other sources than Kafka; `files` is
    None unless the source is a directory of files. `records`, `bad_keys` and `bad_values` are None if not counted."""

    name: str
    uri: str
    records: int | None
    partitions: list[PartitionContent]
    damages: list[dict[str, object]]
    bad_keys: int | None
    bad_values: int | None
    files: list[SourceFileContent] | None


class SinkContent(TypedDict):
    """A manifest's entry for the sink. `rows` is None if not counted, `files` is None if the sink has no files or they
    cannot be listed."""

    uri: str
    mode: str
    rows: int | None
    files: list[SinkFileContent] | None


class SourceIdentity(TypedDict):
    """One source as the manifest records it, without the options that may be secret."""

    name: str
    uri: str
    options: dict[str, str]
    key: dict[str, str | None] | None
    value: dict[str, str | None] | None


class SinkIdentity(TypedDict):
    """The sink as the manifest records it, without the options that may be secret."""

    uri: str
    options: dict[str, str]
    partition_by: list[str]


class PipelineIdentity(TypedDict):
    """The part of a pipeline's definition that determines its output. A run resumes another run only if both are
    equal."""

    sources: list[SourceIdentity]
    sql: str | None
    transform: str | None
    stream: bool
    sink: SinkIdentity


class ManifestContent(TypedDict):
    """The manifest of a run. `runs` counts the first run and each run that resumed it; times are epoch milliseconds."""

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
    """The file moves that complete a run: files to delete, and files to move from `staging` into `directory`. A sink
    that is not a directory of files has only `writing`: the URI of the sink that may hold part of the rows."""

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
