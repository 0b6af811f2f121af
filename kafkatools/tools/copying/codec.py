"""Find the codec of a topic's batches, so that a copy is compressed like its source."""

from __future__ import annotations

from collections.abc import Mapping

from kafkatools.core.clock import Clock
from kafkatools.core.consumer.range_reader import RangeReader
from kafkatools.core.records.batch import RecordBatch, read_batches

_NO_CODEC = "none"


def first_codec(settings: Mapping[str, object], clock: Clock, topic: str, ranges: Mapping[int, tuple[int, int]]) -> str:
    """Return the codec of the first batch in the ranges of offsets, as a value of compression.type; `none` without one.
    `ranges`: first offset and end (excluded) by partition. `settings`: of a consumer. Raises KafkaError when the batch
    cannot be read."""
    part = next((number for number, (start, end) in ranges.items() if start < end), None)
    if part is None:
        return _NO_CODEC
    reader = RangeReader(settings, clock)
    with reader:
        for batches in reader.read_range((topic, part), *ranges[part]):
            for batch in read_batches(batches.records):
                if isinstance(batch, RecordBatch) and not batch.is_control:
                    return batch.compression_type.name.lower()
    return _NO_CODEC
