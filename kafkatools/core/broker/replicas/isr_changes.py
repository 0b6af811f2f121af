"""ISR changes that this broker requests as a leader (Kafka's AlterPartitionManager and Partition's response handling).

Rules: one AlterPartition request is under way at a time, with at most `MOST_CHANGES` pending changes. A partition has
one pending change at a time. If newer metadata changed its role or ISR meanwhile, the response is ignored. A change
that the controller rejects as outdated stays pending, so that the larger ISR counts, until newer metadata arrives.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from kafkatools.core.broker.replicas.partition import Partition, PendingIsr
from kafkatools.core.broker.server.channels import ControllerChannel
from kafkatools.core.protocol.api_versions import ApiKey

if TYPE_CHECKING:
    from kafkatools.core.protocol.entities import Entity, Fields

RETRY_MS = 50
MOST_CHANGES = 500
"""The controller makes all changes of a request in one step."""
NONE = 0
OPERATION_NOT_ATTEMPTED, INELIGIBLE_REPLICA = 55, 107
WAIT_FOR_METADATA = (3, 6, 42, 74, 95, 100, 109)
"""UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, INVALID_REQUEST, FENCED_LEADER_EPOCH, INVALID_UPDATE_VERSION,
UNKNOWN_TOPIC_ID, NEW_LEADER_ELECTED: this broker's metadata is outdated; a repeated request would not help."""


@dataclass(eq=False, repr=False)
class IsrChanges:
    """The queue of a leader's ISR changes for the controller."""

    node_id: int
    broker_epoch: Callable[[], int]
    channel: ControllerChannel
    high_watermark_moved: Callable[[Partition], None]
    _queued: dict[Any, tuple[Partition, PendingIsr]] = field(default_factory=dict, init=False)
    _is_sent: bool = field(default=False, init=False)
    _not_before_ms: int = field(default=0, init=False)

    def submit(self, partition: Partition, pending: PendingIsr) -> None:
        """Queue an ISR change for the next `tick`, in place of a queued one of the same partition."""
        self._queued[partition.key] = (partition, pending)

    @property
    def next_deadline_ms(self) -> int | None:
        """Time in ms of the next request; None without changes or while a request is under way."""
        return self._not_before_ms if self._queued and not self._is_sent else None

    def tick(self, now_ms: int) -> None:
        """Send up to `MOST_CHANGES` queued changes, unless a request is under way or a failed one was sent less than
        `RETRY_MS` ago. Changes that are no longer pending are dropped."""
        if self._is_sent or not self._queued or now_ms < self._not_before_ms:
            return
        for key in [key for key, (partition, pending) in self._queued.items() if partition.pending is not pending]:
            del self._queued[key]
        if not self._queued:
            return
        changes = dict(islice(self._queued.items(), MOST_CHANGES))
        self._is_sent = True
        self._not_before_ms = now_ms + RETRY_MS
        self.channel.send(
            ApiKey.ALTER_PARTITION, self._request(changes), lambda entity: self._handle_response(changes, entity)
        )

    def _request(self, changes: dict[Any, tuple[Partition, PendingIsr]]) -> Fields:
        own_epoch = self.broker_epoch()
        topics: dict[Any, list[Fields]] = {}
        for (topic_id, index), (partition, pending) in changes.items():
            members = partition.isr_with_epochs(pending.isr, own_epoch)
            fields = {
                "partition_index": index,
                "leader_epoch": pending.leader_epoch,
                "new_isr_with_epochs": [{"broker_id": member, "broker_epoch": epoch} for member, epoch in members],
                "leader_recovery_state": partition.recovery_state,
                "partition_epoch": partition.partition_epoch,
            }
            topics.setdefault(topic_id, []).append(fields)
        of_topics = [{"topic_id": topic_id, "partitions": partitions} for topic_id, partitions in topics.items()]
        return {"broker_id": self.node_id, "broker_epoch": own_epoch, "topics": of_topics}

    def _handle_response(self, changes: dict[Any, tuple[Partition, PendingIsr]], entity: Any | None) -> None:
        """Apply the response. Without one, or with a top-level error, all changes are sent again."""
        self._is_sent = False
        if entity is None or int(entity.error_code) != NONE:
            return
        self._not_before_ms = 0
        responses = {
            (topic.topic_id, partition.partition_index): partition
            for topic in entity.topics
            for partition in topic.partitions
        }
        for key, (partition, pending) in changes.items():
            response = responses.get(key)
            if response is None:
                continue
            if (queued := self._queued.get(key)) is not None and queued[1] is pending:
                del self._queued[key]  # another change may have been queued meanwhile, even of the same ISR
            if partition.pending is pending and partition.is_leader:
                self._take(partition, pending, response)

    def _take(self, partition: Partition, pending: PendingIsr, response: Entity) -> None:
        """Apply one partition's result: commit the ISR, or drop an ineligible change. A change for which this broker's
        metadata is outdated stays pending; after other errors it is queued again (Partition.handleAlterPartitionUpdate,
        handleAlterPartitionError)."""
        code = int(response.error_code)
        if code in (OPERATION_NOT_ATTEMPTED, INELIGIBLE_REPLICA):
            partition.revert_isr()
        elif code == NONE:
            is_stale = response.partition_epoch < partition.partition_epoch
            if response.leader_epoch != partition.leader_epoch or is_stale:
                return
            if partition.commit_isr(tuple(response.isr), response.partition_epoch):
                self.high_watermark_moved(partition)
        elif code not in WAIT_FOR_METADATA:
            self.submit(partition, pending)
