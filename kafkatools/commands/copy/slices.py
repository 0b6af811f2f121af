"""The slice of the source that kt copy reads, as offsets of each partition."""

from __future__ import annotations

from collections.abc import Sequence

from kafkatools.console import Console
from kafkatools.core.consumer.consumer import Consumer
from kafkatools.core.consumer.subscription import TopicPartition
from kafkatools.tools.copying.progress import CopyPlace, PartitionProgress
from kafkatools.tools.lines.slice import Slice
from kafkatools.tools.lines.slices import fixed_bounds


def place_progress(
    console: Console, consumer: Consumer, place: CopyPlace, numbers: Sequence[int], requested: Slice
) -> dict[int, PartitionProgress]:
    """Look the slice up and return the progress of a copy that has not begun, with target starts of 0. Raises
    KafkaError."""
    parts = [TopicPartition(place.source, number) for number in numbers]
    bounds = fixed_bounds(consumer, requested, parts, console.note)
    ends = bounds.ends or {}
    return {part.partition: PartitionProgress(bounds.starts[part], ends[part], 0, *requested.times) for part in parts}
