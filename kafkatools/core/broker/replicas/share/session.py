"""Share sessions of the broker (KIP-932; Kafka's ShareSession, ShareSessionCache and SharePartitionManager.newContext).

A session belongs to a member of a group and remembers the partitions it reads, so that a request names only changes.
Epoch 0 opens it, -1 closes it, the others must follow one another.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from kafkatools.core.errors import (
    InvalidRequest,
    InvalidShareSessionEpoch,
    ShareSessionLimitReached,
    ShareSessionNotFound,
)

INITIAL_EPOCH = 0
FINAL_EPOCH = -1
INT_MAX = 2**31 - 1
Place = tuple[uuid.UUID, int]
SessionKey = tuple[str, str]


@dataclass(slots=True)
class ShareSession:
    """One member's session; partitions in the order they are to be read."""

    key: SessionKey
    connection: object
    epoch: int = 1
    partitions: dict[Place, None] = field(default_factory=dict)

    def update(self, wanted: Iterable[Place], forgotten: Iterable[Place]) -> None:
        """Take the changes of a request."""
        for place in wanted:
            self.partitions.setdefault(place)
        for place in forgotten:
            self.partitions.pop(place, None)

    def rotate(self, place: Place) -> None:
        """A partition gave records: the others come first next time."""
        if place in self.partitions:
            del self.partitions[place]
            self.partitions[place] = None


class ShareSessions:
    """All sessions of this broker."""

    def __init__(self, max_sessions: int) -> None:
        self._max_sessions = max_sessions
        self._sessions: dict[SessionKey, ShareSession] = {}

    def open_or_go_on(
        self,
        key: SessionKey,
        epoch: int,
        connection: object,
        changes: tuple[Collection[Place], Collection[Place]],
        *,
        has_acknowledgements: bool,
    ) -> ShareSession:
        """The session of a fetch, opened by its first request. Raises InvalidRequest, ShareSessionNotFound,
        InvalidShareSessionEpoch, ShareSessionLimitReached."""
        if epoch == INITIAL_EPOCH:
            if has_acknowledgements:
                raise InvalidRequest()
            self._sessions.pop(key, None)
            if len(self._sessions) >= self._max_sessions:
                raise ShareSessionLimitReached()
            session = self._sessions[key] = ShareSession(key, connection)
            session.update(changes[0], ())
            return session
        session = self.at(key, epoch)
        session.connection = connection
        session.update(*changes)
        return session

    def at(self, key: SessionKey, epoch: int) -> ShareSession:
        """The session, one epoch further. Raises InvalidShareSessionEpoch, ShareSessionNotFound."""
        session = self._sessions.get(key)
        if session is None:
            raise ShareSessionNotFound()
        if session.epoch != epoch:
            raise InvalidShareSessionEpoch()
        session.epoch = 1 if epoch == INT_MAX else epoch + 1
        return session

    def find(self, key: SessionKey) -> ShareSession:
        """The session; ShareSessionNotFound."""
        session = self._sessions.get(key)
        if session is None:
            raise ShareSessionNotFound()
        return session

    def remove(self, key: SessionKey) -> None:
        """The session is over."""
        self._sessions.pop(key, None)

    def of_connection(self, connection: object) -> list[SessionKey]:
        """The sessions that were last heard of by a connection."""
        return [key for key, session in self._sessions.items() if session.connection is connection]
