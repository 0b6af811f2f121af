"""The client's side of a share session (ShareSessionHandler): the partitions that one node fetches, and the epoch.

Rules: the first ShareFetch (epoch 0) opens the session with all partitions; later ones carry only changes and the next
epoch. ShareAcknowledge uses the same epochs but cannot open a session. After a lost connection or a session error the
session begins anew. The final epoch (-1) closes it, and the broker releases all records that it still holds for the
member.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import NamedTuple

from kafkatools.core.topic_partition import TopicPartition

INITIAL_EPOCH = 0
FINAL_EPOCH = -1
_LAST_EPOCH = 0x7FFFFFFF


class PartitionId(NamedTuple):
    """A partition as share requests name it: topic id and number."""

    topic_id: uuid.UUID
    number: int


class SessionChanges(NamedTuple):
    """The partitions that a ShareFetch adds to the session, and those that it forgets."""

    added: list[PartitionId]
    forgotten: list[PartitionId]


class ShareSession:
    """One node's share session: the epoch of the next request and the partitions in the session."""

    def __init__(self) -> None:
        self.epoch = INITIAL_EPOCH
        self.partitions: dict[PartitionId, TopicPartition] = {}

    @property
    def is_new(self) -> bool:
        """Return whether the next request must be the ShareFetch that opens the session."""
        return self.epoch == INITIAL_EPOCH

    def change_to(self, partitions: Mapping[PartitionId, TopicPartition]) -> SessionChanges:
        """Replace the fetched partitions and return what the next ShareFetch must say; all of them in a new session."""
        if self.is_new:
            self.partitions = {}
        added = [key for key in partitions if key not in self.partitions]
        forgotten = [key for key in self.partitions if key not in partitions]
        self.partitions = dict(partitions)
        return SessionChanges(added, forgotten)

    def note_success(self) -> None:
        """Advance the epoch after a response without a session error; it wraps to 1."""
        self.epoch = 1 if self.epoch >= _LAST_EPOCH else self.epoch + 1

    def reset(self) -> None:
        """Begin a new session with the next ShareFetch, after a lost connection or a session error."""
        self.epoch = INITIAL_EPOCH
        self.partitions = {}
