"""Incremental fetch sessions of the broker (KIP-227; Kafka's FetchSession, FetchContext and FetchSessionCache).

A session remembers the partitions a client wants and what it was last told of each, so that a request names only
changes and a response only news. Epoch 0 asks for a new session, -1 for none, others must follow one another. When
the cache is full a session is made only if one that was idle for two minutes can go.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from struct import Struct

from kafkatools.core.broker.replicas.fetch_partition import FetchedPartition, FetchPartition
from kafkatools.core.protocol.slices import paced

INVALID_SESSION_ID = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
MAX_SESSIONS = 1000
MIN_EVICTION_MS = 120_000
NONE, SESSION_ID_NOT_FOUND, INVALID_SESSION_EPOCH, SESSION_TOPIC_ID_ERROR = 0, 70, 71, 106
MANY_PARTITIONS = 1000
"""A session with more is read in the slow lane, however small its requests are."""
FIRST_WITH_SESSIONS, FIRST_WITHOUT_REPLICA_ID = 7, 15
_INT32 = Struct(">i")
_SESSION_ID_POSITION = 13  # after max wait, min bytes, max bytes and isolation level
SessionKey = tuple[uuid.UUID | str | None, int]


def session_id_of(body: memoryview, version: int) -> int:
    """The session id of a Fetch request that is not decoded; 0 when it has none or is malformed."""
    position = _SESSION_ID_POSITION if version >= FIRST_WITHOUT_REPLICA_ID else _SESSION_ID_POSITION + 4
    if version < FIRST_WITH_SESSIONS or len(body) < position + 4:
        return INVALID_SESSION_ID
    session_id: int = _INT32.unpack_from(body, position)[0]
    return session_id


def key_of(wanted: FetchPartition) -> SessionKey:
    """What identifies a partition within a session."""
    return (wanted.topic_id if wanted.topic_id is not None else wanted.topic, wanted.index)


@dataclass(slots=True)
class CachedPartition:
    """A partition of a session and what the client was last told."""

    wanted: FetchPartition
    high_watermark: int = -1
    log_start_offset: int = -1

    def has_news(self, result: FetchedPartition) -> bool:
        """Whether the response must name it (maybeUpdateResponseData); remembers what it will say."""
        has_news = result.size_bytes > 0 or result.error_code != NONE or result.diverging is not None
        if result.high_watermark != self.high_watermark:
            self.high_watermark, has_news = result.high_watermark, True
        if result.log_start_offset != self.log_start_offset:
            self.log_start_offset, has_news = result.log_start_offset, True
        if result.error_code != NONE:
            self.high_watermark = -1  # the next answer without an error is news again
        return has_news


@dataclass(slots=True)
class FetchSession:
    """One client's session; partitions in the order they are to be read."""

    session_id: int
    uses_topic_ids: bool
    created_ms: int
    last_used_ms: int
    epoch: int = 1
    partitions: dict[SessionKey, CachedPartition] = field(default_factory=dict)

    def update(self, wanted: Sequence[FetchPartition], forgotten: Sequence[SessionKey]) -> None:
        """Take the changes of a request."""
        for each in paced(wanted):
            key = key_of(each)
            cached = self.partitions.get(key)
            if cached is None:
                self.partitions[key] = CachedPartition(each)
            else:
                cached.wanted = each
        for key in paced(forgotten):
            self.partitions.pop(key, None)


@dataclass(slots=True)
class FetchContext:
    """How one request is to be answered."""

    wanted: list[FetchPartition]
    session: FetchSession | None = None
    is_incremental: bool = False
    error_code: int = NONE

    @property
    def session_id(self) -> int:
        return INVALID_SESSION_ID if self.session is None else self.session.session_id

    def select(self, results: Sequence[FetchedPartition]) -> Sequence[int]:
        """The partitions that the response names, by their places in the request; those with records go to the end of
        the session's order, so that all get their turn."""
        if self.session is None:
            return range(len(results))
        chosen = []
        partitions = self.session.partitions
        for number, (wanted, result) in enumerate(paced(zip(self.wanted, results, strict=True))):
            key = key_of(wanted)
            cached = partitions.get(key)
            has_news = cached is None or cached.has_news(result)
            if has_news or not self.is_incremental:
                chosen.append(number)
                if cached is not None and result.size_bytes and self.is_incremental:
                    del partitions[key]
                    partitions[key] = cached
        return chosen

    def note_sent(self, number: int, result: FetchedPartition) -> None:
        """Remember that the response says something else of a partition than what it was chosen for."""
        cached = None if self.session is None else self.session.partitions.get(key_of(self.wanted[number]))
        if cached is not None:
            cached.has_news(result)


class FetchSessionCache:
    """All sessions of this broker."""

    def __init__(self, max_sessions: int = MAX_SESSIONS) -> None:
        self.max_sessions = max_sessions
        self.sessions: dict[int, FetchSession] = {}

    def context(
        self,
        session_id: int,
        epoch: int,
        wanted: list[FetchPartition],
        forgotten: Sequence[SessionKey],
        now_ms: int,
        *,
        uses_topic_ids: bool,
    ) -> FetchContext:
        """The context of a request (FetchManager.newContext)."""
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if session_id != INVALID_SESSION_ID:
                self.sessions.pop(session_id, None)
            if epoch == FINAL_EPOCH:
                return FetchContext(wanted)
            return FetchContext(wanted, self._create(wanted, uses_topic_ids, now_ms))
        session = self.sessions.get(session_id)
        if session is None:
            return FetchContext([], error_code=SESSION_ID_NOT_FOUND)
        if session.epoch != epoch:
            return FetchContext([], error_code=INVALID_SESSION_EPOCH)
        if session.uses_topic_ids != uses_topic_ids:
            return FetchContext([], error_code=SESSION_TOPIC_ID_ERROR)
        # In the slow lane another request may come between two slices: this epoch is used up before the first one.
        session.epoch = 1 if epoch == 2**31 - 1 else epoch + 1
        session.last_used_ms = now_ms
        session.update(wanted, forgotten)
        if not session.partitions:
            self.sessions.pop(session_id, None)
            return FetchContext([])
        cached = paced(list(session.partitions.values()))
        return FetchContext([each.wanted for each in cached], session, is_incremental=True)

    def has_many_partitions(self, session_id: int) -> bool:
        """Whether there is such a session, and with more partitions than are read at once."""
        session = self.sessions.get(session_id)
        return session is not None and len(session.partitions) > MANY_PARTITIONS

    def _create(self, wanted: Sequence[FetchPartition], uses_topic_ids: bool, now_ms: int) -> FetchSession | None:
        session = FetchSession(INVALID_SESSION_ID, uses_topic_ids, now_ms, now_ms)
        session.update(wanted, ())
        if len(self.sessions) >= self.max_sessions and not self._evict(now_ms):
            return None
        while session.session_id in self.sessions or session.session_id == INVALID_SESSION_ID:
            session.session_id = random.randint(1, 2**31 - 1)
        self.sessions[session.session_id] = session
        return session

    def _evict(self, now_ms: int) -> bool:
        oldest = min(self.sessions.values(), key=lambda session: session.last_used_ms, default=None)
        if oldest is None or now_ms - oldest.last_used_ms < MIN_EVICTION_MS:
            return False
        del self.sessions[oldest.session_id]
        return True
