"""The driver's side of `kt` as a stream: where it begins, how far each trigger goes, and what was lost in between.

Rules: Spark's checkpoint is the only memory; a stream that is started again goes on from there, exactly. Spark keeps
the end of each batch but not where the first one began, and asks anew: so the end of the first batch carries that
(`with_beginning`), and it is believed only where Spark has just asked for a beginning. Partitions that appear later are
read from their first offset. A trigger reads what lies between two offsets, whenever it is asked to.

PySpark before 4.2 asks for `latestOffset()` without saying where the stream is, and knows no read limits. There the
reader follows what Spark asks it to plan: `partitions(end, end)` comes first when a stream is started again, and
nothing when it is new. Trigger.AvailableNow is one batch there, and the reader cannot tell it from other triggers: with
maxOffsetsPerTrigger it ends after so many offsets, and what is left is for the next run.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql.types import StructType

from kafkatools.core.clock import Clock, SystemClock
from kafkatools.core.topic_partition import TopicPartition
from kafkatools.pipeline.sources.live import offsets as live_offsets
from kafkatools.pipeline.sources.live.cluster import LiveCluster
from kafkatools.pipeline.sources.live.offsets import JsonOffsets, OffsetRange, Offsets
from kafkatools.pipeline.sources.live.options import SourceOptions
from kafkatools.pipeline.sources.live.reader import LiveSplit, Task, read_split, splits_of
from kafkatools.pipeline.sources.record_bounds import RecordBounds
from kafkatools.pipeline.sources.spark_api import (
    DataSourceStreamReader,
    InputPartition,
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)


class LiveStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """A streaming query. Its copies in executors only read."""

    def __init__(self, schema: StructType, options: SourceOptions, clock: Clock | None = None) -> None:
        self._schema = schema
        self._options = options
        self._clock = clock or SystemClock()
        self._cluster: LiveCluster = LiveCluster(options)
        self._ids: dict[TopicPartition, uuid.UUID | None] = {}
        self._began: JsonOffsets | None = (
            None  # where the stream begins, asked for in this process: no batch is finished
        )
        self._position: JsonOffsets | None = None  # where the stream is, as far as Spark's calls tell
        self._target: dict[TopicPartition, int] | None = None  # the ends of Trigger.AvailableNow
        self._seen: dict[TopicPartition, int] = {}
        self._last_trigger_ms: int | None = None

    # --- what PySpark calls

    def initialOffset(self) -> dict[str, Mapping[str, Any]]:  # noqa: N802 - PySpark's name
        """Where a new stream begins."""
        return dict(self._beginning())

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """What the options say of a trigger; a least number goes by our own rules as well."""
        if self._options.max_offsets_per_trigger is not None:
            return ReadMaxRows(self._options.max_offsets_per_trigger)
        if self._options.min_offsets_per_trigger is not None:
            return ReadMinRows(self._options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """What is there now is all that this run reads."""
        self._target = self._latest({})

    def latestOffset(
        self, start: JsonOffsets | None = None, limit: ReadLimit | None = None
    ) -> dict[str, Mapping[str, Any]]:  # noqa: N802
        """How far the next trigger goes; `start` itself when there is nothing to do yet."""
        begin = self._position if start is None else start
        begin = self._beginning() if begin is None else begin
        known = live_offsets.from_json(begin)
        latest = self._target if self._target is not None else self._latest(known)
        self._seen = latest
        added = [part for part in latest if part not in known]
        behind = {**known, **(self._cluster.earliest(added) if added else {})}
        latest = {part: end for part, end in latest.items() if part in behind}
        ends = self._limited(behind, latest, limit)
        if ends is None or ends == known:
            return dict(begin)
        found = live_offsets.to_json(ends)
        if begin == self._began:
            return live_offsets.with_beginning(found, begin)
        return dict(found)

    def reportLatestOffset(self) -> dict[str, dict[str, int]] | None:  # noqa: N802
        """The ends of the topics when they were last looked at."""
        return live_offsets.to_json(self._seen) if self._seen else None

    def partitions(self, start: JsonOffsets, end: JsonOffsets) -> Sequence[InputPartition]:
        """The tasks of a trigger."""
        self._position = end
        if start == end:
            return []
        began = live_offsets.beginning_of(end)
        if began is not None and self._began is not None:
            start = began
        ranges = self._ranges(live_offsets.from_json(start), live_offsets.from_json(end))
        return splits_of(ranges, self._options, self._schema, self._cluster)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of a task as pyarrow.RecordBatches."""
        if isinstance(partition, LiveSplit):
            yield from read_split(partition, Task(self._options, self._schema, RecordBounds()))

    def commit(self, end: JsonOffsets) -> None:
        """Nothing is kept anywhere but in the checkpoint."""

    def stop(self) -> None:
        self._cluster.close()

    # --- where

    def _beginning(self) -> JsonOffsets:
        if self._began is None:
            parts = self._cluster.partitions()
            starts = self._cluster.resolve(self._options.starting, parts, is_start=True)
            if self._options.starting.offsets is not None:
                starts, _ = self._cluster.within_log(parts, starts, starts)
            self._began = live_offsets.to_json(starts)
        return self._began

    def _latest(self, known: Offsets) -> dict[TopicPartition, int]:
        """The ends of all partitions now. An end before a known offset may be an old answer: asked for again."""
        options = self._options
        for left in reversed(range(options.fetch_retries)):
            self._note_ids(self._cluster.partitions(must_exist=False))
            ends = self._cluster.latest(self._ids)
            back = [part for part, end in ends.items() if end < known.get(part, 0)]
            if not back or not left:
                break
            self._clock.sleep_ms(options.retry_interval_ms)
        return ends

    def _note_ids(self, parts: Mapping[TopicPartition, uuid.UUID | None]) -> None:
        for part, topic_id in parts.items():
            if self._ids.get(part, topic_id) != topic_id:
                self._cluster.lose(f"topic {part.topic} was deleted and made again under its name")
                break
        self._ids = dict(parts)

    # --- how much

    def _limited(self, start: Offsets, latest: Offsets, limit: ReadLimit | None) -> Mapping[TopicPartition, int] | None:
        """Where a trigger ends; None when it waits for more."""
        if isinstance(limit, ReadAllAvailable):
            return latest
        least, most = self._options.min_offsets_per_trigger, self._options.max_offsets_per_trigger
        if least is not None and self._target is None and self._waits_for_more(least, start, latest):
            return None
        return latest if most is None else live_offsets.rate_limited(most, start, latest)

    def _waits_for_more(self, least: int, start: Offsets, latest: Offsets) -> bool:
        """Fewer than the least there are to be, and not yet for maxTriggerDelay."""
        now = self._clock.now_ms()
        last = self._last_trigger_ms
        is_due = last is None or now - last >= self._options.max_trigger_delay_ms
        if not is_due and live_offsets.new_records(start, latest) < least:
            return True
        self._last_trigger_ms = now
        return False

    # --- what

    def _ranges(self, start: dict[TopicPartition, int], end: dict[TopicPartition, int]) -> list[OffsetRange]:
        """What lies between two offsets; what does not any more is lost (KafkaOffsetReader)."""
        if not self._ids:
            self._note_ids(self._cluster.partitions(must_exist=False))
        added = [part for part in end if part not in start]
        firsts = self._cluster.earliest(added) if added else {}
        for part in added:
            if part not in firsts:
                self._cluster.lose(f"{part} was deleted before it was read")
            elif firsts[part] > 0:
                self._cluster.lose(f"{part} is new and starts at offset {firsts[part]}: what lay before it is gone")
        for part in start.keys() - end.keys():
            self._cluster.lose(f"{part} was deleted; it was read to offset {start[part]}")
        ranges = []
        for part, first in {**start, **firsts}.items():
            if part in end and end[part] < first:
                self._cluster.lose(f"{part} ends at offset {end[part]} now, and was read to offset {first}")
            elif part in end:
                ranges.append(OffsetRange(part, first, end[part], self._ids.get(part)))
        return ranges
