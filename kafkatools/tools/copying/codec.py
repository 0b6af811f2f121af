"""Find the codec of a topic's batches, so that a copy is compressed like its source."""

from __future__ import annotations

from collections.abc import Mapping

from kafkatools.core.clock import Clock
from kafkatools.core.consumer.range_reader import RangeReader
from kafkatools.core.records.batch import RecordBatch, read_batches
from kafkatools.tools.copying.progress import PartitionProgress

_NO_CODEC = "none"


def first_codec(
    settings: Mapping[str, object], clock: Clock, topic: str, progress: Mapping[int, PartitionProgress]
) -> str:
    """Return the codec of the first batch that is left to copy, as a value of compression.type; `none` without one.
    `settings`: of a consumer. Raises KafkaError when the batch cannot be read."""
    incomplete = next(((number, item) for number, item in progress.items() if not item.is_complete), None)
    if incomplete is None:
        return _NO_CODEC
    number, item = incomplete
    reader = RangeReader(settings, clock)
    with reader:
        for batches in reader.read_range((topic, number), item.position, item.end):
            for batch in read_batches(batches.records):
                if isinstance(batch, RecordBatch) and not batch.is_control:
                    return batch.compression_type.name.lower()
    return _NO_CODEC
