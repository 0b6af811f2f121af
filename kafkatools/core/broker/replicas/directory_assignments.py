"""Tells the controller in which directories this broker's replicas are (Kafka's AssignmentsManager, KIP-858).

Rules: only what the metadata does not know yet is told, the newest directory of each replica, many in one request, one
request at a time; what fails is told again a second later. A replica of a topic that is gone is forgotten.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping
from typing import Any

from kafkatools.core.errors import UnknownTopicId, UnknownTopicOrPartition
from kafkatools.core.protocol.entities import Fields

MAX_PER_REQUEST = 500
"""The controller makes the changes of a request in one go; Apache Kafka's brokers send up to 2,250."""
RETRY_MS = 1000
NONE = 0
_GONE = (UnknownTopicId.code, UnknownTopicOrPartition.code)
Replica = tuple[uuid.UUID, int]
Send = Callable[[Mapping[str, Any], Callable[[Any | None], None]], None]


class DirectoryAssignments:
    """What is still to be told."""

    def __init__(self, broker_id: int, broker_epoch: Callable[[], int], send: Send, now_ms: Callable[[], int]) -> None:
        """`send` takes the fields of AssignReplicasToDirs, and calls back with the answer or None."""
        self._broker_id = broker_id
        self._broker_epoch = broker_epoch
        self._send = send
        self._now_ms = now_ms
        self._wanted: dict[Replica, uuid.UUID] = {}
        self._asked: dict[Replica, uuid.UUID] = {}
        self._next_ms = 0

    def __len__(self) -> int:
        return len(self._wanted)

    def submit(self, topic_id: uuid.UUID, index: int, directory_id: uuid.UUID) -> None:
        """This replica is there."""
        self._wanted[topic_id, index] = directory_id

    @property
    def next_deadline_ms(self) -> int | None:
        """When `tick` has something to send."""
        return self._next_ms if self._wanted and not self._asked else None

    def tick(self, now_ms: int) -> None:
        """Ask the controller, if it is known who asks."""
        if not self._wanted or self._asked or now_ms < self._next_ms:
            return
        epoch = self._broker_epoch()
        if epoch < 0:
            self._next_ms = now_ms + RETRY_MS
            return
        self._asked = dict(list(self._wanted.items())[:MAX_PER_REQUEST])
        self._send(_fields(self._broker_id, epoch, self._asked), self._answered)

    def _answered(self, answer: Any | None) -> None:
        asked, self._asked = self._asked, {}
        if answer is None or int(answer.error_code) != NONE:
            self._next_ms = self._now_ms() + RETRY_MS
            return
        for directory in answer.directories:
            for topic in directory.topics:
                for each in topic.partitions:
                    replica = topic.topic_id, int(each.partition_index)
                    code = int(each.error_code)
                    if code != NONE and code not in _GONE:
                        self._next_ms = self._now_ms() + RETRY_MS
                    elif self._wanted.get(replica) == asked.get(replica):
                        self._wanted.pop(replica, None)


def _fields(broker_id: int, broker_epoch: int, asked: Mapping[Replica, uuid.UUID]) -> Fields:
    directories: dict[uuid.UUID, dict[uuid.UUID, list[int]]] = {}
    for (topic_id, index), directory_id in asked.items():
        directories.setdefault(directory_id, {}).setdefault(topic_id, []).append(index)
    return {
        "broker_id": broker_id,
        "broker_epoch": broker_epoch,
        "directories": [
            {
                "id_": directory_id,
                "topics": [
                    {"topic_id": topic_id, "partitions": [{"partition_index": index} for index in indexes]}
                    for topic_id, indexes in topics.items()
                ],
            }
            for directory_id, topics in directories.items()
        ],
    }
