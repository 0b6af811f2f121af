"""Incremental fetch sessions of consumers (KIP-227; Kafka's FetchSession, FetchContext and FetchSessionCache).

A session remembers the partitions of a client and the offsets last sent for each. So a request names only changed
partitions, and a response only partitions with news. Epoch 0 opens a session, -1 asks for none; later epochs count up
by one. When the cache is full, a new session evicts only one that was idle for two minutes.
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
"""Sessions with more partitions are read in the slow lane, however small their requests are."""
FIRST_WITH_SESSIONS, FIRST_WITHOUT_REPLICA_ID = 7, 15
_INT32 = Struct(">i")
_SESSION_ID_POSITION = 13  # after max wait, min bytes, max bytes and isolation level
SessionKey = tuple[uuid.UUID | str | None, int]


def session_id_of(body: memoryview, version: int) -> int:
    """Read the session id from an undecoded Fetch request; 0 for a version without sessions or a malformed request."""
    position = _SESSION_ID_POSITION if version >= FIRST_WITHOUT_REPLICA_ID else _SESSION_ID_POSITION + 4
    if version < FIRST_WITH_SESSIONS or len(body) < position + 4:
        return INVALID_SESSION_ID
    session_id: int = _INT32.unpack_from(body, position)[0]
    return session_id


def key_of(requested: FetchPartition) -> SessionKey:
    """Return the key of a partition in a session: (topic id or else name, index)."""
    return (requested.topic_id if requested.topic_id is not None else requested.topic, requested.index)


@dataclass(slots=True)
class CachedPartition:
    """A partition of a session and the offsets last sent to the client."""

    fetch_partition: FetchPartition
    high_watermark: int = -1
    log_start_offset: int = -1

    def has_news(self, result: FetchedPartition) -> bool:
        """Return whether an incremental response must include the partition: records, an error, a diverging epoch, a
        preferred replica or changed offsets. Also stores the offsets as sent (maybeUpdateResponseData)."""
        has_news = result.size_bytes > 0 or result.error_code != NONE or result.diverging is not None
        has_news = has_news or result.preferred_read_replica >= 0
        if result.high_watermark != self.high_watermark:
            self.high_watermark, has_news = result.high_watermark, True
        if result.log_start_offset != self.log_start_offset:
            self.log_start_offset, has_news = result.log_start_offset, True
        if result.error_code != NONE:
            self.high_watermark = -1  # so that the next result without an error counts as news
        return has_news


@dataclass(slots=True)
class FetchSession:
    """A client's fetch session; its partitions are in the order in which they are read."""

    session_id: int
    uses_topic_ids: bool
    last_used_ms: int
    epoch: int = 1
    partitions: dict[SessionKey, CachedPartition] = field(default_factory=dict)

    def update(self, requested: Sequence[FetchPartition], forgotten: Sequence[SessionKey]) -> None:
        """Add and change the requested partitions, and remove the forgotten ones."""
        for partition in paced(requested):
            key = key_of(partition)
            cached = self.partitions.get(key)
            if cached is None:
                self.partitions[key] = CachedPartition(partition)
            else:
                cached.fetch_partition = partition
        for key in paced(forgotten):
            self.partitions.pop(key, None)


@dataclass(slots=True)
class FetchContext:
    """The partitions to read for one Fetch request, and its session or session error."""

    partitions: list[FetchPartition]
    session: FetchSession | None = None
    is_incremental: bool = False
    error_code: int = NONE

    @property
    def session_id(self) -> int:
        """The id of the fetch session, 0 without one."""
        return INVALID_SESSION_ID if self.session is None else self.session.session_id

    def select(self, results: Sequence[FetchedPartition]) -> Sequence[int]:
        """Return the indexes of the partitions that the response includes, and store the offsets it sends. A full
        response includes all. In an incremental one, those with records move to the end of the session's order, so that
        every partition gets its turn."""
        if self.session is None:
            return range(len(results))
        numbers = []
        cached_partitions = self.session.partitions
        for number, (partition, result) in enumerate(paced(zip(self.partitions, results, strict=True))):
            key = key_of(partition)
            cached = cached_partitions.get(key)
            has_news = cached is None or cached.has_news(result)
            if has_news or not self.is_incremental:
                numbers.append(number)
                if cached is not None and result.size_bytes and self.is_incremental:
                    del cached_partitions[key]
                    cached_partitions[key] = cached
        return numbers

    def note_sent(self, number: int, result: FetchedPartition) -> None:
        """Store the offsets of a partition that was read again after it was selected; does nothing without a
        session."""
        cached = None if self.session is None else self.session.partitions.get(key_of(self.partitions[number]))
        if cached is not None:
            cached.has_news(result)


class FetchSessionCache:
    """All consumer fetch sessions of this broker."""

    def __init__(self, max_sessions: int = MAX_SESSIONS) -> None:
        self.max_sessions = max_sessions
        self.sessions: dict[int, FetchSession] = {}

    def context(
        self,
        session_id: int,
        epoch: int,
        requested: list[FetchPartition],
        forgotten: Sequence[SessionKey],
        now_ms: int,
        *,
        uses_topic_ids: bool,
    ) -> FetchContext:
        """Return the context of a request and open, advance or close its session (FetchManager.newContext). A session
        error is in its `error_code`. Its session is None for epoch -1, when the cache is full, and when the last
        partition was forgotten, which closes the session."""
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            if session_id != INVALID_SESSION_ID:
                self.sessions.pop(session_id, None)
            if epoch == FINAL_EPOCH:
                return FetchContext(requested)
            return FetchContext(requested, self._create(requested, uses_topic_ids, now_ms))
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
        session.update(requested, forgotten)
        if not session.partitions:
            self.sessions.pop(session_id, None)
            return FetchContext([])
        cached = paced(list(session.partitions.values()))
        return FetchContext([partition.fetch_partition for partition in cached], session, is_incremental=True)

    def has_many_partitions(self, session_id: int) -> bool:
        """Return whether the session exists and has more than MANY_PARTITIONS partitions."""
        session = self.sessions.get(session_id)
        return session is not None and len(session.partitions) > MANY_PARTITIONS

    def _create(self, requested: Sequence[FetchPartition], uses_topic_ids: bool, now_ms: int) -> FetchSession | None:
        session = FetchSession(INVALID_SESSION_ID, uses_topic_ids, now_ms)
        session.update(requested, ())
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
