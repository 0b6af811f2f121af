"""Options of `kafka-log`: those of Spark's Kafka source that apply to files, and a few more.

Option names are case-insensitive; each error names the option and its valid values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kafkatools.pipeline.errors import PipelineError
from kafkatools.pipeline.sources.live.options import (
    COMMON_NAMES,
    EARLIEST,
    ISOLATION_LEVELS,
    LATEST,
    Limit,
    OptionReader,
)
from kafkatools.pipeline.sources.log.files import Selection, paths_of
from kafkatools.pipeline.sources.log.reader import TABLES, ReadOptions
from kafkatools.pipeline.sources.log.splits import SPLIT_BYTES
from kafkatools.pipeline.sources.record_bounds import RecordBounds

_NAMES = (*COMMON_NAMES, "path", "paths", "kafka.isolation.level", "splitBytes", "table", "wholeSegments")
_BY_LOWER = {name.lower(): name for name in _NAMES}
_LEAST_SPLIT = 1024


@dataclass(frozen=True)
class LogOptions:
    """The parsed options of a `kafka-log` source, checked without reading the files; can be pickled. `first_bytes` is
    no option of the source: scans set it, see `make_tasks`. `has_whole_segments`: also read what is below the log start
    offset, which a broker no longer serves."""

    paths: list[str]
    selection: Selection
    starting: Limit
    ending: Limit
    reading: ReadOptions = field(default_factory=ReadOptions)
    fail_on_data_loss: bool = True
    latest_without_match: bool = False
    include_headers: bool = False
    include_metadata: bool = False
    min_partitions: int | None = None
    split_bytes: int = SPLIT_BYTES
    first_bytes: int = 0
    pushes_filters: bool = False
    bounds: RecordBounds = RecordBounds()
    has_whole_segments: bool = False


def read_options(options: Mapping[str, str]) -> LogOptions:
    """Parse and check the options of a `kafka-log` source. Raises PipelineError that names the option."""
    values = OptionReader(options)
    values.refuse_unknown("kafka-log", _BY_LOWER)
    starting, ending = values.limit("starting", EARLIEST), values.limit("ending", LATEST)
    if starting.everywhere == LATEST or LATEST in (starting.offsets or {}).values():
        raise PipelineError("startingOffsets cannot be latest (-1): there would be nothing to read")
    if ending.everywhere == EARLIEST or EARLIEST in (ending.offsets or {}).values():
        raise PipelineError("endingOffsets cannot be earliest (-2): there would be nothing to read")
    level = "isolationLevel" if values.has("isolationLevel") else "kafka.isolation.level"
    reading = ReadOptions(
        values.choice("table", TABLES),
        values.choice(level, ISOLATION_LEVELS) == "read_committed",
        values.boolean("strict", False),
        values.text("reportPath") or None,
        decodes_records=values.boolean("decodeRecords", values.boolean("strict", False)),
        requires_reports=values.boolean("requireReports", True),
    )
    return LogOptions(
        paths_of(options),
        Selection.from_options(options),
        starting,
        ending,
        reading,
        fail_on_data_loss=values.boolean("failOnDataLoss", True),
        latest_without_match=values.choice("startingOffsetsByTimestampStrategy", ("error", "latest")) == "latest",
        include_headers=values.boolean("includeHeaders", False),
        include_metadata=values.boolean("includeMetadata", False),
        min_partitions=values.number("minPartitions"),
        split_bytes=values.number("splitBytes", _LEAST_SPLIT) or SPLIT_BYTES,
        pushes_filters=values.boolean("pushFilters", False),
        bounds=values.bounds(),
        has_whole_segments=values.boolean("wholeSegments", False),
    )
