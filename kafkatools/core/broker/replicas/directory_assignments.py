"""Reports the directories of this broker's replicas to the controller (Kafka's AssignmentsManager, KIP-858).

Rules: only replicas whose directory in the metadata is wrong are reported, each with its newest directory. One request
at a time reports many replicas; a failed report is retried after a second. Replicas of deleted topics are dropped.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any

from kafkatools.core.errors import UnknownTopicId, UnknownTopicOrPartition
from kafkatools.core.protocol.entities import Fields

MAX_PER_REQUEST = 500
"""The controller makes all changes of a request in one step; Apache Kafka's brokers send up to 2,250."""
RETRY_MS = 1000
NONE = 0
_GONE = (UnknownTopicId.code, UnknownTopicOrPartition.code)
Replica = tuple[uuid.UUID, int]
Send = Callable[[Mapping[str, Any], Callable[[Any | None], None]], None]


class DirectoryAssignments:
    """The queue of replica directories to report to the controller."""

    def __init__(self, broker_id: int, broker_epoch: Callable[[], int], send: Send, now_ms: Callable[[], int]) -> None:
        """`send` takes the fields of AssignReplicasToDirs and a callback for the response, None if none came."""
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._send = send
        self._now_ms = now_ms
        self._queued: dict[Replica, uuid.UUID] = {}
        self._in_flight: dict[Replica, uuid.UUID] = {}
        self._next_ms = 0

    def __len__(self) -> int:
        return len(self._queued)

    def submit(self, topic_id: uuid.UUID, index: int, directory_id: uuid.UUID) -> None:
        """Queue a replica's directory for the next request, in place of a queued one of the same replica."""
        self._queued[topic_id, index] = directory_id

    @property
    def next_deadline_ms(self) -> int | None:
        """Time in ms of the next request; None without queued replicas or while a request is under way."""
        return self._next_ms if self._queued and not self._in_flight else None

    def tick(self, now_ms: int) -> None:
        """Send the queued directories, unless a request is under way or this broker has no epoch yet."""
        if not self._queued or self._in_flight or now_ms < self._next_ms:
            return
        epoch = self._broker_epoch()
        if epoch < 0:
            self._next_ms = now_ms + RETRY_MS
            return
        self._in_flight = dict(list(self._queued.items())[:MAX_PER_REQUEST])
        self._send(_fields(self._broker_id, epoch, self._in_flight), self._handle_response)

    def _handle_response(self, response: Any | None) -> None:
        requested_directories, self._in_flight = self._in_flight, {}
        if response is None or int(response.error_code) != NONE:
            self._next_ms = self._now_ms() + RETRY_MS
            return
        for directory in response.directories:
            for topic in directory.topics:
                for partition in topic.partitions:
                    replica = topic.topic_id, int(partition.partition_index)
                    code = int(partition.error_code)
                    if code != NONE and code not in _GONE:
                        self._next_ms = self._now_ms() + RETRY_MS
                    elif self._queued.get(replica) == requested_directories.get(replica):
                        self._queued.pop(replica, None)


def _fields(broker_id: int, broker_epoch: int, replicas: Mapping[Replica, uuid.UUID]) -> Fields:
    directories: dict[uuid.UUID, dict[uuid.UUID, list[int]]] = {}
    for (topic_id, index), directory_id in replicas.items():
        directories.setdefault(directory_id, {}).setdefault(topic_id, []).append(index)

    def topic_fields(topics: Mapping[uuid.UUID, list[int]]) -> list[Fields]:
        return [
            {"topic_id": topic_id, "partitions": [{"partition_index": index} for index in indexes]}
            for topic_id, indexes in topics.items()
        ]

    fields = [{"id_": directory_id, "topics": topic_fields(topics)} for directory_id, topics in directories.items()]
    return {"broker_id": broker_id, "broker_epoch": broker_epoch, "directories": fields}
