"""Blocking ListOffsets: send requests to all leaders, repeated until every partition has an answer or the deadline
passes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from kafkatools.core.consumer.network import ConsumerNetworkClient
from kafkatools.core.consumer.offset_fetcher import ListedOffsets, OffsetAndTimestamp, OffsetFetcher
from kafkatools.core.consumer.subscription import TopicPartition
from kafkatools.core.errors import KafkaError
from kafkatools.core.protocol.entities import Entity


@dataclass(eq=False, repr=False)
class OffsetListing:
    """A blocking lookup of partition offsets by timestamp. `wait` polls the network once; it raises RequestTimedOut
    after the deadline, and any error passed to `note_failure`."""

    client: ConsumerNetworkClient
    offsets: OffsetFetcher
    wait: Callable[[], None]
    note_failure: Callable[[KafkaError], None]
    _found: dict[TopicPartition, OffsetAndTimestamp | None] = field(default_factory=dict, init=False)

    def list(self, timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Wait for the first offset at or after each partition's timestamp (-2: earliest, -1: latest); None where there
        is no such record. Raises what `wait` raises: RequestTimedOut and TopicAuthorizationFailed."""
        self.client.set_topics({part.topic for part in timestamps})
        while len(self._found) < len(timestamps):
            self._list_once({part: timestamp for part, timestamp in timestamps.items() if part not in self._found})
            if len(self._found) < len(timestamps):
                self.wait()
        return self._found

    def _list_once(self, timestamps: Mapping[TopicPartition, int]) -> None:
        requests, _ = self.offsets.list_requests(timestamps)
        waiting = {request.node for request in requests}

        def answered(node: int, entity: Entity) -> None:
            waiting.discard(node)
            try:
                listed: ListedOffsets = self.offsets.listed(entity)
            except KafkaError as error:
                self.note_failure(error)
                return
            self._found.update(listed.found)

        def failed(node: int, error: KafkaError) -> None:
            waiting.discard(node)

        for request in requests:
            node, fields = request.node, request.fields
            self.client.send(node, request.api_key, fields, partial(answered, node), partial(failed, node))
        while waiting:
            self.wait()
