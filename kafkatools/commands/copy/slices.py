"""The slice of the source that kt copy reads, as offsets of each partition."""

from __future__ import annotations

from collections.abc import Sequence

from kafkatools.console import Console
from kafkatools.core.consumer.consumer import Consumer
from kafkatools.core.consumer.subscription import TopicPartition
from kafkatools.options import Args
from kafkatools.options.slice_options import slice_of
from kafkatools.tools.copying.progress import CopyPlace, PartitionProgress
from kafkatools.tools.lines.slice import LOG_END, Slice
from kafkatools.tools.lines.slices import NewestRecords, SliceFinder


def requested_slice(args: Args, now_ms: int) -> Slice:
    """Return the slice of --since, --until and --last; without them all records that are there at the start. Raises
    UsageError."""
    requested = slice_of(args, now_ms)
    return requested if requested.end is not None else requested._replace(end=LOG_END)


def place_progress(
    console: Console, consumer: Consumer, place: CopyPlace, numbers: Sequence[int], requested: Slice
) -> dict[int, PartitionProgress]:
    """Look the slice up and return the progress of a copy that has not begun, with target starts of 0. Raises
    KafkaError."""
    parts = [TopicPartition(place.source, number) for number in numbers]
    consumer.assign(parts)
    bounds = SliceFinder(consumer, requested, console.note).bounds(parts)
    if requested.last is not None:
        for part, offset in bounds.starts.items():
            consumer.seek(part, offset)
        bounds = NewestRecords(consumer, requested).of_each(bounds, requested.last)
    ends = bounds.ends or {}
    return {part.partition: PartitionProgress(bounds.starts[part], ends[part], 0, *requested.times) for part in parts}
