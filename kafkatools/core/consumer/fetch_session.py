"""Incremental fetch sessions of one broker (KIP-227), as in Kafka's FetchSessionHandler.

Rules: a full request names every partition and asks for a session; later requests name only changed partitions. Any
doubt about the broker's session state (an error, an unexpected response, a lost connection) makes the next request full
again. From Fetch version 13 on topics are sent as ids, so the handler keeps the topic names.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import NamedTuple

from kafkatools.core.consumer.fetch_messages import (
    TOPIC_ID_VERSION,
    ZERO_UUID,
    FetchPartition,
    FetchResponse,
    ForgottenPartition,
)
from kafkatools.core.consumer.subscription import TopicPartition

INVALID_SESSION_ID = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
_MAX_EPOCH = 2**31 - 1
_FETCH_SESSION_ID_NOT_FOUND = 70


class FetchMetadata(NamedTuple):
    """Session id and session epoch of the next Fetch request."""

    session_id: int = INVALID_SESSION_ID
    epoch: int = INITIAL_EPOCH

    @property
    def is_full(self) -> bool:
        """Return whether the next request is full: it names every partition, or with the final epoch closes the
        session."""
        return self.epoch in (INITIAL_EPOCH, FINAL_EPOCH)

    def next_incremental(self) -> FetchMetadata:
        """Return the metadata of the following request in the same session; the epoch wraps to 1."""
        return FetchMetadata(self.session_id, 1 if self.epoch == _MAX_EPOCH else self.epoch + 1)

    def next_close_existing(self) -> FetchMetadata:
        """Return metadata for a full request that closes this session and asks for a new one."""
        return FetchMetadata(self.session_id, INITIAL_EPOCH)


class FetchRequestData(NamedTuple):
    """The partitions to add, change or forget in the next Fetch request of a session."""

    to_send: list[FetchPartition]
    to_forget: list[ForgottenPartition]
    metadata: FetchMetadata


class FetchSessionHandler:
    """The consumer's side of its fetch session with one broker."""

    def __init__(self, node: int) -> None:
        self.node = node
        self.next_metadata = FetchMetadata()
        self.session_partitions: dict[TopicPartition, FetchPartition] = {}
        self.assignment_version = -1

    def build(self, partitions: Mapping[TopicPartition, FetchPartition]) -> FetchRequestData:
        """Return the next request for these partitions, and update `session_partitions` to match. A full request names
        all of them in their order. An incremental one names the new and changed ones to send, and the missing and
        recreated ones to forget."""
        if self.next_metadata.is_full:
            self.session_partitions = dict(partitions)
            return FetchRequestData(list(partitions.values()), [], self.next_metadata)
        to_send: list[FetchPartition] = []
        to_forget: list[ForgottenPartition] = []
        for key, old in list(self.session_partitions.items()):
            new = partitions.get(key)
            if new is None:
                to_forget.append(_forgotten(old))
                del self.session_partitions[key]
            elif _is_replaced(old, new):
                # The topic was recreated: the broker's session entry has the old topic id.
                to_forget.append(_forgotten(old))
                del self.session_partitions[key]
        for key, new in partitions.items():
            if self.session_partitions.get(key) != new:
                self.session_partitions[key] = new
                to_send.append(new)
        return FetchRequestData(to_send, to_forget, self.next_metadata)

    def handle_response(self, response: FetchResponse, version: int) -> bool:
        """Update the session from a Fetch response. Returns False when its partitions must be ignored: a session error,
        an unknown topic id, or partitions that the session does not expect. The next request is full then."""
        if response.error_code:
            is_unknown_session = response.error_code == _FETCH_SESSION_ID_NOT_FOUND
            self.next_metadata = FetchMetadata() if is_unknown_session else self.next_metadata.next_close_existing()
            return False
        if version >= TOPIC_ID_VERSION and not self._name_topics(response):
            self.next_metadata = self.next_metadata.next_close_existing()
            return False
        partitions = {TopicPartition(data.topic, data.partition) for data in response.partitions}
        if self.next_metadata.is_full:
            return self._handle_full(response, partitions)
        if not partitions <= self.session_partitions.keys():
            self.next_metadata = self.next_metadata.next_close_existing()
            return False
        is_closed = response.session_id == INVALID_SESSION_ID
        self.next_metadata = FetchMetadata() if is_closed else self.next_metadata.next_incremental()
        return True

    def _handle_full(self, response: FetchResponse, partitions: set[TopicPartition]) -> bool:
        is_throttled = not partitions and response.throttle_time_ms > 0
        if is_throttled or partitions != self.session_partitions.keys():
            self.next_metadata = FetchMetadata()
            return False
        if response.session_id == INVALID_SESSION_ID:
            self.next_metadata = FetchMetadata()
        else:
            self.next_metadata = FetchMetadata(response.session_id, INITIAL_EPOCH + 1)
        return True

    def handle_error(self) -> None:
        """Make the next request full: after a failed request the broker's session state is unknown. A full request also
        makes the broker report the high watermark of every partition."""
        self.next_metadata = self.next_metadata.next_close_existing()

    def close_request(self) -> FetchRequestData | None:
        """Return a request that closes the session on the broker, and forget the session; None without a session."""
        if self.next_metadata.session_id == INVALID_SESSION_ID:
            return None
        metadata = FetchMetadata(self.next_metadata.session_id, FINAL_EPOCH)
        self.session_partitions = {}
        self.next_metadata = FetchMetadata()
        return FetchRequestData([], [], metadata)

    def _name_topics(self, response: FetchResponse) -> bool:
        """Set topic names from topic ids; return False when an id is not in the session."""
        names: dict[uuid.UUID, str] = {part.topic_id: part.topic for part in self.session_partitions.values()}
        for data in response.partitions:
            name = names.get(data.topic_id)
            if name is None:
                return False
            data.topic = name
        return True


def _forgotten(part: FetchPartition) -> ForgottenPartition:
    return ForgottenPartition(part.topic, part.topic_id, part.partition)


def _is_replaced(old: FetchPartition, new: FetchPartition) -> bool:
    return old.topic_id != new.topic_id and ZERO_UUID not in (old.topic_id, new.topic_id)
