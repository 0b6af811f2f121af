"""What a scan reads: the parts of a topic or of log files, each with a function that reads it.

The options of the Spark sources describe a scan too, so both select, check and read records in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from kafkatools.core.topic_partition import partitions_text
from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.run.reports import SplitReport
from kafkatools.pipeline.scan.ordered import Task
from kafkatools.pipeline.sources import schema
from kafkatools.pipeline.sources.record_bounds import RecordBounds
from kafkatools.pipeline.uris import LOG, TOPIC, Uri

if TYPE_CHECKING:
    import pyarrow as pa

    from kafkatools.pipeline.sources.log.reader import ReadOptions
    from kafkatools.pipeline.sources.log.splits import LogTask

RECORDS, BATCHES, ERRORS = "records", "batches", "errors"
COLUMNS = {
    RECORDS: schema.RECORD_COLUMNS | schema.HEADER_COLUMNS | schema.METADATA_COLUMNS,
    BATCHES: schema.BATCH_COLUMNS,
    ERRORS: schema.ERROR_COLUMNS,
}
"""The columns of each table, with the names of their types."""

DEFAULT_COLUMNS = {
    RECORDS: tuple(schema.RECORD_COLUMNS),
    BATCHES: tuple(schema.BATCH_COLUMNS),
    ERRORS: tuple(schema.ERROR_COLUMNS),
}

_LOG_PART_BYTES = 8 << 20
_FIRST_PART_BYTES = 64 << 10
"""The first part is small: a query with a LIMIT may need no more."""
_TOPIC_PART_OFFSETS = 100_000
_LEVEL = "isolation.level"


@dataclass(frozen=True)
class ScanPlan:
    """A scan that nothing has read yet. `settings` are those of a consumer, which may be secret; a scan of log files
    uses only `isolation.level`. `types` are the columns to choose from and the names of their types, by default those
    of the table. `on_report` receives the report of each part, from any thread; with it damage does not
    end the scan. `options` are further options of the Spark source, such as offset ranges; `assign` replaces the topics
    of a `topic:` URI. `decodes_records`: decode records also where the headers of their batches determine all rows. A
    partition of `required_partitions` that does not exist is an error; one of `bounds` has no records."""

    uri: Uri
    columns: tuple[str, ...]
    table: str = RECORDS
    types: Mapping[str, str] = field(default_factory=dict)
    bounds: RecordBounds = RecordBounds()
    settings: Mapping[str, str] = field(default_factory=dict, repr=False)
    threads: int = 1
    on_report: Callable[[SplitReport], None] | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    decodes_records: bool = True
    required_partitions: frozenset[int] = frozenset()

    @property
    def schema(self) -> pa.Schema:
        """The schema of the batches. Raises PipelineError for a column that the table does not have."""
        choices = self.types or COLUMNS[self.table]
        types = {name.lower(): text for name, text in choices.items()}
        for name in self.columns:
            if name.lower() not in types:
                raise PipelineError(f"There is no column {name}; the columns are {', '.join(choices)}")
        return schema.arrow_schema_of({name: types[name.lower()] for name in self.columns})

    def topics(self) -> set[str]:
        """Return the names of the topics: those of the files, or those that the URI names. Raises PipelineError."""
        if self.uri.kind == LOG:
            return {split.file.topic for task in _log_parts(self)[0] for split in task.splits}
        return set(self.uri.topics)

    def tasks(self) -> Sequence[Task]:
        """Find the present segments or offsets and return the parts to read, in the order of their records: by topic,
        partition and offset. Raises PipelineError."""
        return _log_tasks(self) if self.uri.kind == LOG else _topic_tasks(self)


def _log_tasks(plan: ScanPlan) -> list[Task]:
    from kafkatools.pipeline.sources.log.reader import read_task

    tasks, reading = _log_parts(plan)
    return [partial(read_task, task, plan.schema, reading, plan.on_report) for task in tasks]


def _log_parts(plan: ScanPlan) -> tuple[Sequence[LogTask], ReadOptions]:
    from kafkatools.pipeline.sources.log.files import find_log_files
    from kafkatools.pipeline.sources.log.options import read_options
    from kafkatools.pipeline.sources.log.plan import plan_tasks

    texts = {
        "path": plan.uri.target,
        "table": plan.table,
        "strict": "false" if plan.on_report or plan.table == ERRORS else "true",
        "isolationLevel": plan.settings.get(_LEVEL, "read_uncommitted"),
    }
    if plan.threads > 1:
        texts["splitBytes"] = str(_LOG_PART_BYTES)
    options = read_options({**texts, **plan.options})
    if plan.threads > 1:
        options = replace(options, first_bytes=_FIRST_PART_BYTES)
    if plan.required_partitions:
        _ensure_partitions(plan, {file.partition for file in find_log_files(options.paths, options.selection)})
    return plan_tasks(options, plan.columns, plan.bounds), replace(
        options.reading, accepts_tail=True, decodes_records=plan.decodes_records
    )


def _topic_tasks(plan: ScanPlan) -> list[Task]:
    from kafkatools.pipeline.sources.live.cluster import LiveCluster
    from kafkatools.pipeline.sources.live.options import read_options
    from kafkatools.pipeline.sources.live.reader import Task as Reading
    from kafkatools.pipeline.sources.live.reader import read_split, splits_of

    if plan.table != RECORDS:
        raise PipelineError(f"{plan.uri} has no table {plan.table}: it is for log: only")
    texts = {f"kafka.{name}": value for name, value in plan.settings.items()}
    subscription = {} if "assign" in plan.options else {"subscribe": plan.uri.target}
    texts |= subscription | {"maxRecordsPerPartition": str(_TOPIC_PART_OFFSETS)}
    options = read_options({"strictOptions": "true", **texts, **plan.options}, is_streaming=False)
    cluster = LiveCluster(options)
    try:
        if plan.required_partitions:
            _ensure_partitions(plan, {part.partition for part in cluster.partitions()})
        splits = splits_of(cluster.batch_ranges(plan.bounds), options, plan.schema, cluster)
    except PipelineError as error:  # names the option of Spark's source, which the caller does not know
        raise PipelineError(str(error).removeprefix("subscribe: ")) from error
    finally:
        cluster.close()
    splits.sort(key=lambda split: (split.topic, split.partition, split.start))
    reading = Reading(replace(options, decodes_records=plan.decodes_records), plan.schema, plan.bounds)
    return [partial(read_split, split, reading) for split in splits]


def _ensure_partitions(plan: ScanPlan, existing: Collection[int]) -> None:
    """Raise PipelineError unless the required partitions are among the existing ones."""
    missing = sorted(plan.required_partitions.difference(existing))
    if missing:
        raise PipelineError(f"{plan.uri} has no partition {missing[0]}: {partitions_text(existing)}")


def close_clients(uri: Uri) -> None:
    """Close the consumers that the parts of a topic have left open."""
    if uri.kind == TOPIC:
        from kafkatools.pipeline.sources.live.reader import close_idle

        close_idle()
