"""Read whole topics without a group: assign every partition, including those created later.

Rules: existing partitions start by auto.offset.reset. A partition or topic created while following is read from its
first record, which cannot be older than the start of the command. Kafka's consumer starts such partitions at `latest`
and misses the records written before it noticed them.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkatools.core.consumer.subscription import TopicPartition
from kafkatools.tools.lines.partition_reader import PartitionReader


class TopicFollower:
    """Keeps all partitions of one topic assigned to a consumer, or of the topics that the predicate `takes` accepts.
    Without both: of all topics."""

    def __init__(
        self, consumer: PartitionReader, topic: str | None = None, takes: Callable[[str], bool] | None = None
    ) -> None:
        self._consumer = consumer
        self._topic = topic
        self._takes = takes
        self._metadata_version = -1
        self.partitions: set[TopicPartition] = set()

    def start(self, timeout_ms: int | None = None) -> bool:
        """Assign existing partitions; return False if there are none. Raises InvalidTopic, TopicAuthorizationFailed."""
        if self._topic is not None:
            self._consumer.partitions_for(self._topic, timeout_ms)
        else:
            self._consumer.list_topics(timeout_ms)
        return self._take_new(is_start=True)

    def maybe_assign_new(self) -> bool:
        """Assign new partitions after a metadata change; return whether there were any."""
        if self._consumer.metadata_version == self._metadata_version:
            return False
        return self._take_new(is_start=False)

    def _take_new(self, is_start: bool) -> bool:
        self._metadata_version = self._consumer.metadata_version
        partitions = self._consumer.known_partitions()
        matching = (
            partitions if self._takes is None else {name: ids for name, ids in partitions.items() if self._takes(name)}
        )
        if self._topic is not None:
            matching = {self._topic: partitions.get(self._topic, [])}
        new = sorted({TopicPartition(name, index) for name, ids in matching.items() for index in ids} - self.partitions)
        if new:
            self.partitions.update(new)
            self._consumer.assign([*self._consumer.assignment(), *new])
            if not is_start:
                self._consumer.seek_to_beginning(new)
        return bool(new)
