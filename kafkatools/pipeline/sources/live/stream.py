"""The driver's side of the `kt` streaming source: where the stream begins, how far each trigger reads, which data is
lost.

Rules: Spark's checkpoint is the only memory; a restarted stream continues exactly there. Spark stores the end of each
batch but not where the first batch began, and asks for the beginning again. The end of the first batch therefore
carries the beginning (`with_beginning`), which is used only if Spark has just asked for it. Partitions that appear
later are read from their first offset. A trigger reads what lies between two offsets, however often Spark asks.

PySpark before 4.2 calls `latestOffset()` without the stream's position and has no read limits. The reader then follows
Spark's calls of `partitions`: a restarted stream begins with `partitions(end, end)`, a new one does not.
Trigger.AvailableNow is one batch there, and the reader cannot distinguish it from other triggers. With
maxOffsetsPerTrigger it ends after that many offsets; the next run reads the rest.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql.types import StructType

from kafkatools.core.clock import Clock, SystemClock
from kafkatools.core.topic_partition import TopicPartition
from kafkatools.pipeline.python_check import PythonCheck
from kafkatools.pipeline.sources.live import offsets as live_offsets
from kafkatools.pipeline.sources.live.cluster import LiveCluster
from kafkatools.pipeline.sources.live.offsets import JsonObject, JsonOffsets, OffsetRange, Offsets
from kafkatools.pipeline.sources.live.options import SourceOptions
from kafkatools.pipeline.sources.live.reader import LiveSplit, Task, read_split, splits_of
from kafkatools.pipeline.sources.live.spark_partitions import spark_partitions
from kafkatools.pipeline.sources.record_bounds import RecordBounds
from kafkatools.pipeline.sources.spark_api import (
    DataSourceStreamReader,
    InputPartition,
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
    arrow_schema,
)


class LiveStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The streaming reader of `kt`. The copy on the driver plans; the copies on executors only read."""

    def __init__(self, schema: StructType, options: SourceOptions, clock: Clock | None = None) -> None:
        self._check = PythonCheck()
        self._schema = schema
        self._options = options
        self._clock = clock or SystemClock()
        self._cluster: LiveCluster = LiveCluster(options)
        self._ids: dict[TopicPartition, uuid.UUID | None] = {}
        # The stream's beginning, if Spark requested it from this process: then no batch is complete yet.
        self._began: JsonOffsets | None = None
        self._position: JsonOffsets | None = None  # the stream's position according to Spark's calls
        self._target: dict[TopicPartition, int] | None = None  # the ends of Trigger.AvailableNow
        self._latest_offsets: dict[TopicPartition, int] = {}
        self._last_trigger_ms: int | None = None

    # --- called by PySpark

    def initialOffset(self) -> JsonObject:  # noqa: N802 - PySpark's name
        """Return the offsets where a new stream begins; the first call resolves them with the cluster. Raises
        PipelineError."""
        return dict(self._beginning())

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the read limit from maxOffsetsPerTrigger or minOffsetsPerTrigger; `latestOffset` checks the minimum as
        well."""
        if self._options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self._options.max_offsets_per_trigger)
        if self._options.min_offsets_per_trigger is not None:
            return ReadMinRows(self._options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Query the current ends of the partitions and fix them as the ends of this run. Raises PipelineError."""
        self._target = self._latest({})

    def latestOffset(self, start: JsonOffsets | None = None, limit: ReadLimit | None = None) -> JsonObject:  # noqa: N802
        """Return the end offsets of the next trigger; `start` itself if there is nothing to read, or less than
        minOffsetsPerTrigger. `start` None (PySpark before 4.2) means the position after Spark's last call of
        `partitions`. Unless `limit` is ReadAllAvailable, the options' limits apply, whatever its number. Raises
        PipelineError."""
        begin = self._position if start is None else start
        begin = self._beginning() if begin is None else begin
        start_offsets = live_offsets.from_json(begin)
        latest = self._target if self._target is not None else self._latest(start_offsets)
        self._latest_offsets = latest
        added = [part for part in latest if part not in start_offsets]
        behind = {**start_offsets, **(self._cluster.earliest(added) if added else {})}
        latest = {part: end for part, end in latest.items() if part in behind}
        ends = self._limit(behind, latest, limit)
        if ends is None or ends == start_offsets:
            return dict(begin)
        result = self._named(ends)
        return live_offsets.with_beginning(result, begin) if begin == self._began else result

    def reportLatestOffset(self) -> dict[str, dict[str, int]] | None:  # noqa: N802
        """Return the partition ends of the last cluster query, for Spark's progress; None before the first."""
        return live_offsets.to_json(self._latest_offsets) if self._latest_offsets else None

    def partitions(self, start: JsonOffsets, end: JsonOffsets) -> Sequence[InputPartition]:
        """Return the tasks that read from `start` to `end`; none if both are equal. `end` becomes the stream's
        position. Raises PipelineError if data is lost and failOnDataLoss is true."""
        self._position = end
        if start == end:
            return []
        began = live_offsets.beginning_of(end)
        if began is not None and self._began is not None:
            start = began
        ranges = self._ranges(live_offsets.from_json(start), live_offsets.from_json(end))
        return spark_partitions(splits_of(ranges, self._options, arrow_schema(self._schema), self._cluster))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a task as pyarrow.RecordBatches. Raises PipelineError."""
        if isinstance(partition, LiveSplit):
            yield from read_split(partition, Task(self._options, arrow_schema(self._schema), RecordBounds()))

    def commit(self, end: JsonOffsets) -> None:
        """Do nothing: progress is stored only in Spark's checkpoint."""

    def stop(self) -> None:
        """Close the connections to the cluster."""
        self._cluster.close()

    # --- positions

    def _beginning(self) -> JsonOffsets:
        if self._began is None:
            parts = self._cluster.partitions()
            starts = self._cluster.resolve(self._options.starting, parts, is_start=True)
            if self._options.starting.offsets is not None:
                starts, _ = self._cluster.within_log(parts, starts, starts)
            self._began = self._named(starts)
        return self._began

    def _named(self, offsets: Offsets) -> JsonObject:
        """Convert offsets to Spark's JSON, with the name of the source if the options have one."""
        return live_offsets.with_source(live_offsets.to_json(offsets), self._options.source_name)

    def _latest(self, start_offsets: Offsets) -> dict[TopicPartition, int]:
        """Return the current ends of all partitions. If an end is below the start offset, which a stale reply may
        cause, request them again, up to fetchOffset.numRetries times in all."""
        options = self._options
        for remaining in reversed(range(options.fetch_retries)):
            self._note_ids(self._cluster.partitions(must_exist=False))
            ends = self._cluster.latest(self._ids)
            if not remaining or all(end >= start_offsets.get(part, 0) for part, end in ends.items()):
                break
            self._clock.sleep_ms(options.retry_interval_ms)
        return ends

    def _note_ids(self, parts: Mapping[TopicPartition, uuid.UUID | None]) -> None:
        for part, topic_id in parts.items():
            if self._ids.get(part, topic_id) != topic_id:
                self._cluster.lose(f"topic {part.topic} was deleted and created again")
                break
        self._ids = dict(parts)

    # --- read limits

    def _limit(self, start: Offsets, latest: Offsets, limit: ReadLimit | None) -> Mapping[TopicPartition, int] | None:
        """Return the end offsets of a trigger within the options' limits; None to wait for more records. A `limit`
        ReadAllAvailable means no limits. After Trigger.AvailableNow has fixed the ends, the minimum does not apply."""
        if isinstance(limit, ReadAllAvailable):
            return latest
        minimum, maximum = self._options.min_offsets_per_trigger, self._options.max_offsets_per_trigger
        if minimum is not None and self._target is None and self._waits_for_more(minimum, start, latest):
            return None
        return latest if maximum is None else live_offsets.limit_rate(maximum, start, latest)

    def _waits_for_more(self, least: int, start: Offsets, latest: Offsets) -> bool:
        """Return whether fewer than `least` offsets are available and maxTriggerDelay has not passed since the last
        trigger. If not, the current time becomes that of the last trigger."""
        now_ms = self._clock.now_ms()
        last = self._last_trigger_ms
        is_due = last is None or now_ms - last >= self._options.max_trigger_delay_ms
        if not is_due and live_offsets.new_records(start, latest) < least:
            return True
        self._last_trigger_ms = now_ms
        return False

    # --- ranges

    def _ranges(self, start: dict[TopicPartition, int], end: dict[TopicPartition, int]) -> list[OffsetRange]:
        """Return the ranges between two offsets and report lost data, as Spark's KafkaOffsetReader does: a warning, or
        with failOnDataLoss a PipelineError. New partitions begin at their first offset."""
        if not self._ids:
            self._note_ids(self._cluster.partitions(must_exist=False))
        added = [part for part in end if part not in start]
        firsts = self._cluster.earliest(added) if added else {}
        for part in added:
            if part not in firsts:
                self._cluster.lose(f"{part} was deleted before it was read")
            elif firsts[part] > 0:
                self._cluster.lose(f"{part} is new and starts at offset {firsts[part]}: earlier records are deleted")
        for part in start.keys() - end.keys():
            self._cluster.lose(f"{part} was deleted; the stream had read up to offset {start[part]}")
        ranges = []
        for part, first in {**start, **firsts}.items():
            if part in end and end[part] < first:
                self._cluster.lose(f"{part} now ends at offset {end[part]}, but the stream had read up to {first}")
            elif part in end:
                ranges.append(OffsetRange(part, first, end[part], self._ids.get(part)))
        return ranges
