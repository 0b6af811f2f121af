"""The wait of a lookup of partitions: one wait for the network per call, and the errors that end it.

Rules: a refused bootstrap address ends the wait after 3 seconds, a topic or partition that metadata reports as missing
after 5 seconds, anything else at the deadline. A topic that is being created is not missing.
"""

from __future__ import annotations

from collections.abc import Collection

from kafkatools.core.clock import Clock
from kafkatools.core.consumer.network import ConsumerNetworkClient, Steps
from kafkatools.core.consumer.subscription import TopicPartition
from kafkatools.core.errors import RequestTimedOut, UnknownTopicOrPartition

_MISSING_AFTER_MS = 5000
_LISTED_PARTITIONS = 3


class PartitionWait:
    """Waits for `partitions`, which the caller may replace by those that are left. `message`: the start of the time-out
    error."""

    def __init__(
        self,
        client: ConsumerNetworkClient,
        clock: Clock,
        deadline_ms: int,
        message: str,
        partitions: Collection[TopicPartition],
    ) -> None:
        self.client = client
        self.clock = clock
        self.deadline_ms = deadline_ms
        self.message = message
        self.partitions = partitions
        self._missing_since_ms: int | None = None

    def poll(self) -> Steps[None]:
        """Wait for the network once, for at most 100 ms. Raises the connection error of a cluster that was never
        reached, UnknownTopicOrPartition for a missing partition, and RequestTimedOut after the deadline."""
        now_ms = self.clock.now_ms()
        if now_ms >= self.deadline_ms:
            raise self._timeout()
        yield min(self.deadline_ms - now_ms, self.client.poll_limit_ms)
        now_ms = self.clock.now_ms()
        self.client.ensure_contact(now_ms)
        self._ensure_exists(now_ms)

    def _ensure_exists(self, now_ms: int) -> None:
        """Raise UnknownTopicOrPartition when metadata has reported a partition as missing for 5 seconds: the metadata
        of a broker may lag behind the creation of a topic."""
        problem = next(filter(None, map(self._absence, self.partitions)), None)
        if problem is None:
            self._missing_since_ms = None
        elif self._missing_since_ms is None:
            self._missing_since_ms = now_ms
        elif now_ms - self._missing_since_ms >= _MISSING_AFTER_MS:
            raise UnknownTopicOrPartition(problem)

    def _absence(self, part: TopicPartition) -> str | None:
        """Return the words for a partition that metadata reports as missing, else None."""
        cluster = self.client.cluster
        count = cluster.partition_count(part.topic)
        if self.client.is_absent(part.topic):
            return f"Topic {part.topic} does not exist"
        if count and cluster.partition(*part) is None:
            return f"Partition {part} does not exist: topic {part.topic} has {count} partition{'s' * (count > 1)}"
        return None

    def _timeout(self) -> RequestTimedOut:
        problem = self.client.cluster_problem()
        return RequestTimedOut(self.message if problem is None else f"{self.message}: {problem}")


def names_of(partitions: Collection[TopicPartition]) -> str:
    """Return the first three partitions by name and the number of the others, such as `a-0, a-1, a-2 and 5 more`."""
    names = [str(part) for part in partitions]
    suffix = f" and {len(names) - _LISTED_PARTITIONS} more" if len(names) > _LISTED_PARTITIONS else ""
    return ", ".join(names[:_LISTED_PARTITIONS]) + suffix
