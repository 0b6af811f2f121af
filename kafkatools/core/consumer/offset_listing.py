"""ListOffsets with its waits: send requests to all leaders, until every partition has an answer or the deadline
passes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import TypeVar

from kafkatools.core.consumer.network import ConsumerNetworkClient, Steps
from kafkatools.core.consumer.offset_fetcher import ListedOffsets, OffsetAndTimestamp, OffsetFetcher
from kafkatools.core.consumer.partition_wait import PartitionWait
from kafkatools.core.consumer.subscription import TopicPartition
from kafkatools.core.errors import KafkaError
from kafkatools.core.protocol.entities import Entity

P = TypeVar("P", bound=tuple[str, int])


class OffsetListing:
    """A lookup of partition offsets by timestamp."""

    def __init__(self, client: ConsumerNetworkClient, offsets: OffsetFetcher, wait: PartitionWait) -> None:
        self.client = client
        self.offsets = offsets
        self.wait = wait
        self._results: dict[TopicPartition, OffsetAndTimestamp | None] = {}
        self._failure: KafkaError | None = None

    def list(self, timestamps: Mapping[TopicPartition, int]) -> Steps[dict[TopicPartition, OffsetAndTimestamp | None]]:
        """Wait for the first offset at or after each partition's timestamp (-2: earliest, -1: latest); None where there
        is no such record. Raises the errors of PartitionWait, and TopicAuthorizationFailed."""
        self.client.set_topics({part.topic for part in timestamps})
        first_version = self.client.metadata_version
        while remaining := {part: timestamp for part, timestamp in timestamps.items() if part not in self._results}:
            self.wait.partitions = remaining
            version = self.client.metadata_version
            yield from self._list_once(remaining)
            if not timestamps.keys() <= self._results.keys():
                yield from self._back_off(version, is_first=version == first_version)
        return self._results

    def _back_off(self, version: int, *, is_first: bool) -> Steps[None]:
        """Wait for retry.backoff.ms. Before the first metadata response of this lookup, wait for that response only:
        it usually has the leaders."""
        until = self.wait.clock.now_ms() + self.offsets.retry_backoff_ms
        yield from self._poll()
        while self.wait.clock.now_ms() < until and not (is_first and self.client.metadata_version > version):
            yield from self._poll()

    def _poll(self) -> Steps[None]:
        yield from self.wait.poll()
        if self._failure is not None:
            raise self._failure

    def _list_once(self, timestamps: Mapping[TopicPartition, int]) -> Steps[None]:
        requests, _ = self.offsets.list_requests(timestamps)
        waiting = {request.node for request in requests}

        def on_response(node: int, entity: Entity) -> None:
            waiting.discard(node)
            try:
                result: ListedOffsets = self.offsets.read_listing(entity)
            except KafkaError as error:
                self._failure = error
                return
            self._results.update({part: offset for part, offset in result.offsets.items() if part in timestamps})

        def on_failure(node: int, error: KafkaError) -> None:
            waiting.discard(node)

        for request in requests:
            node, fields = request.node, request.fields
            self.client.send(node, request.api_key, fields, partial(on_response, node), partial(on_failure, node))
        while waiting:
            yield from self._poll()


def target_times(timestamps: Mapping[P, int]) -> dict[TopicPartition, int]:
    """Return the timestamps (ms since 1970) that are searched for, by TopicPartition. Raises ValueError for a negative
    one, which would stand for the start or the end of the log."""
    for (topic, partition), timestamp in timestamps.items():
        if timestamp < 0:
            raise ValueError(
                f"The target time for partition {topic}-{partition} is {timestamp}. It cannot be negative."
            )
    return {TopicPartition(*part): timestamp for part, timestamp in timestamps.items()}
