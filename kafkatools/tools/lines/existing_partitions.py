"""The check that records of an input name existing partitions of the topic."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kafkatools.tools.lines.line_reader import MalformedLine


class ExistingPartitions:
    """The partitions of a topic, looked up when the first record names one. `partitions()` returns them, none when the
    topic does not exist."""

    def __init__(self, topic: str, partitions: Callable[[], Sequence[int]]) -> None:
        self._topic = topic
        self._partitions = partitions
        self._count: int | None = None

    def ensure(self, partition: int | None, place: str) -> None:
        """Raise MalformedLine with the place, such as `Line 3`, if the partition does not exist."""
        if not partition:
            return  # every topic has partition 0, even one that its first record creates
        if not self._count:
            self._count = len(self._partitions())
        if not self._count:
            raise MalformedLine(
                f"{place} is for partition {partition}, but topic {self._topic} does not exist: create it first, "
                f"with kt topics --create --topic {self._topic} --partitions N, where N is at least "
                f"{partition + 1}: as many as the source topic has"
            )
        if partition >= self._count:
            last = self._count - 1
            range_text = f"partitions 0 to {last}" if last else "partition 0"
            raise MalformedLine(f"{place} is for partition {partition}, but topic {self._topic} has only {range_text}")
