"""The splits of the `kt` source as Spark passes them to executors."""

from __future__ import annotations

from collections.abc import Iterable

from kafkatools.pipeline.sources.live.reader import LiveSplit
from kafkatools.pipeline.sources.spark_api import InputPartition


class LivePartition(LiveSplit, InputPartition):
    """A split as Spark passes it to an executor."""


def spark_partitions(splits: Iterable[LiveSplit]) -> list[InputPartition]:
    """Return the splits as Spark's input partitions."""
    return [
        LivePartition(
            split.topic, split.partition, split.start, split.end, split.topic_id, split.stable_end, split.whole_end
        )
        for split in splits
    ]
