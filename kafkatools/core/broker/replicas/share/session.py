"""Share sessions of the broker (KIP-932; Kafka's ShareSession, ShareSessionCache and SharePartitionManager.newContext).

A session belongs to a member of a share group and remembers its partitions, so that a request names only changes. Epoch
0 opens a session, -1 closes it; later epochs count up by one.
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
    """The share session of one member; its partitions are in the order in which they are read."""

    key: SessionKey
    connection: object
    epoch: int = 1
    partitions: dict[Place, None] = field(default_factory=dict)

    def update(self, requested: Iterable[Place], forgotten: Iterable[Place]) -> None:
        """Add the requested partitions and remove the forgotten ones."""
        for place in requested:
            self.partitions.setdefault(place)
        for place in forgotten:
            self.partitions.pop(place, None)

    def rotate(self, place: Place) -> None:
        """Move a partition that returned records to the end of the read order, if the session still has it."""
        if place in self.partitions:
            del self.partitions[place]
            self.partitions[place] = None


class ShareSessions:
    """All share sessions of this broker."""

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
        """Return the session of a share fetch. Epoch 0 opens a new one, which replaces the member's old one; any other
        epoch advances it. `changes` is (requested, forgotten) partitions, which are applied. Raises InvalidRequest for
        epoch 0 with acknowledgements, ShareSessionLimitReached, ShareSessionNotFound, InvalidShareSessionEpoch."""
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
        """Return the session and advance its epoch. Raises ShareSessionNotFound, InvalidShareSessionEpoch."""
        session = self.find(key)
        if session.epoch != epoch:
            raise InvalidShareSessionEpoch()
        session.epoch = 1 if epoch == INT_MAX else epoch + 1
        return session

    def find(self, key: SessionKey) -> ShareSession:
        """Return the session. Raises ShareSessionNotFound."""
        session = self._sessions.get(key)
        if session is None:
            raise ShareSessionNotFound()
        return session

    def remove(self, key: SessionKey) -> None:
        """Remove the session, if it exists."""
        self._sessions.pop(key, None)

    def has_group(self, group_id: str) -> bool:
        """Return whether a member of the group has a session."""
        return any(key[0] == group_id for key in self._sessions)

    def of_connection(self, connection: object) -> list[SessionKey]:
        """Return the keys of the sessions whose last request came over a connection."""
        return [key for key, session in self._sessions.items() if session.connection is connection]
