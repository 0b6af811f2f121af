"""The slice of the source that kt copy reads, as offsets of each partition."""

from __future__ import annotations

from collections.abc import Sequence

from kafkatools.console import Console
from kafkatools.core.consumer.consumer import Consumer
from kafkatools.core.consumer.subscription import TopicPartition
from kafkatools.exit_status import UsageError
from kafkatools.options import Args
from kafkatools.options.slices import TIME_FORM, parse_time
from kafkatools.tools.copying.progress import CopyPlace, PartitionProgress
from kafkatools.tools.lines.slice import LOG_END, LOG_START, Anchor, Place, Slice
from kafkatools.tools.lines.slices import NewestRecords, SliceFinder


def requested_slice(args: Args, now_ms: int) -> Slice:
    """Return the slice of --since, --until and --last; without them all records that are there at the start. Raises
    UsageError."""
    since, until = _time(args, "since", now_ms), _time(args, "until", now_ms)
    if since and until and since.value >= until.value:
        raise UsageError(f"--until {args.until} is not after --since {args.since}")
    if args.last is not None and args.last < 1:
        raise UsageError(f"--last {args.last} must be at least 1")
    return Slice(since or LOG_START, until or LOG_END, args.last)


def _time(args: Args, name: str, now_ms: int) -> Place | None:
    text = getattr(args, name)
    if text is None:
        return None
    try:
        return Place(Anchor.TIME, parse_time(text, now_ms))
    except ValueError as error:
        raise UsageError(f"Invalid value of --{name}: {error}", TIME_FORM) from None


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
